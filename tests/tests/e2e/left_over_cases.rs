//! Cases of the real world that no other file of tests is about.

use crate::cloud::Cloud;
use crate::drill::Drill;
use crate::gate::{Scene, await_group_gone};

const ONE: &str =
    "[[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"it\"\ntofu = \"one\"\n";

/// Case R10: a dependency lock file that is not the one that was worked with is refused before anything is applied.
#[test]
fn a_lock_file_that_changed_in_between_is_refused() {
    let (drill, _) = Cloud::drill(ONE, &[]);
    let file = drill.world.root().join("made");
    let module = |text: &str| {
        format!(
            "resource \"local_file\" \"f\" {{\n  filename = \"{}\"\n  content = \"{text}\"\n}}\n",
            file.display()
        )
    };
    drill.write("one/main.tf", &module("before"));
    drill.up();
    let before = drill.status();
    // The content is to change, and with it somebody else's idea of the provider's packages comes in.
    drill.write("one/main.tf", &module("after"));
    drill.write(
        "one/.terraform.lock.hcl",
        "provider \"registry.opentofu.org/hashicorp/local\" {\n  version = \"1.4.0\"\n  hashes = [\n    \
         \"h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\",\n  ]\n}\n",
    );
    let refused = drill.run(2, &["up", "--target", "drill", "--no-pause"]);
    assert!(refused.stderr.contains("1.it"), "{}", refused.stderr);
    let text = std::fs::read_to_string(&file).expect("the file stands");
    assert_eq!(text, "before");
    assert_eq!(drill.status()["standing"], before["standing"]);
}

/// Case T11: what is left to tear down is read from what stands now. A node that an `up` took away is not looked for.
#[test]
fn a_node_that_is_gone_is_not_looked_for_in_a_teardown() {
    let module = |nodes: &str| {
        format!(
            "locals {{ nodes = toset({nodes}) }}\n\
             resource \"terraform_data\" \"node\" {{\n  for_each = local.nodes\n  input = each.key\n}}\n\
             output \"nodes\" {{ value = join(\" \", sort([for n in terraform_data.node : n.output])) }}\n"
        )
    };
    let phases = "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"nodes\"\ntofu = \"nodes\"\n\
                  [[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"health\"\n\
                  exec = { apply = [\"sh\", \"health.sh\", \"${step.0.nodes.nodes}\"], \
                  verify = [\"sh\", \"health.sh\", \"${step.0.nodes.nodes}\"], \
                  teardown = [\"sh\", \"health.sh\", \"${step.0.nodes.nodes}\"] }\n";
    let drill = Drill::of(phases, &[("nodes", &module("[\"a\", \"b\"]"))]);
    let asked = drill.world.root().join("asked");
    drill.write(
        "health.sh",
        &format!("echo \"$1\" >> {}\n", asked.display()),
    );
    drill.up();
    drill.write("nodes/main.tf", &module("[\"a\"]"));
    drill.up();
    std::fs::remove_file(&asked).expect("both calls asked");
    drill.run(0, &["down", "--target", "drill"]);
    let asked = std::fs::read_to_string(&asked).expect("the teardown asked");
    assert_eq!(asked.trim(), "a", "the health list is of now");
}

/// Case S4: a cancel in mid-apply ends the reading of its output last of all: the transcript has the very last event.
#[test]
fn the_output_of_a_cancelled_apply_is_read_to_its_end() {
    let scene = Scene::clear();
    let mut started = scene.start_creating(&["up"]);
    let group = scene.gate.group();
    started.signal(rustix::process::Signal::INT);
    started.expect_stderr(crate::stopped::FIRST);
    started.signal(rustix::process::Signal::INT);
    started.wait().expect_code(130);
    await_group_gone(group);
    let transcripts = scene
        .drill
        .world
        .files_with(&scene.drill.work(), b"\"apply_errored\"");
    assert_eq!(transcripts.len(), 1, "{transcripts:?}");
    let text = std::fs::read_to_string(&transcripts[0]).expect("a transcript is text");
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.contains("\"type\":\"diagnostic\""),
        "the last line: {last}"
    );
    scene.gate.open();
}

//! `nodes` steps: specs applied, verified, changed and torn down, by the real provider of OpenStack's and a small
//! cloud on loopback.

use crate::drill::{Drill, tool};
use crate::openstack_cloud::OpenstackCloud;

const NETWORK: &str = "kind: Network\nmetadata: { name: inner }\nspec: { class: openstack, cidr: 192.168.10.0/24, public: true, ingress: [{ protocol: tcp, from: 0.0.0.0/0, ports: 22 }], config: { extNetName: outer } }\n";
const BUCKET: &str = "kind: Bucket\nmetadata: { name: logs }\nspec: { class: openstack }\n";

fn workers(count: u32) -> String {
    format!(
        "kind: NodeGroup\nmetadata: {{ name: workers }}\nspec: {{ role: worker, count: {count}, class: 'openstack:m1', config: {{ imageName: talos, network: inner, extNetName: outer, floatingIp: true }} }}\n"
    )
}

const PHASES: &str = r#"
[[phase]]
id = "1"
[[phase.step]]
name = "machines"
nodes = "nodes"
[[phase]]
id = "2"
[[phase.step]]
name = "use"
exec = { apply = ["sh", "-c", "printf %s \"$HOSTS\" > \"$OUT\""], verify = ["sh", "-c", "test -s \"$OUT\""], teardown = ["sh", "-c", "rm -f \"$OUT\""] }
"#;

fn drill(cloud: &OpenstackCloud) -> Drill {
    let drill = Drill::empty();
    let mirror = std::fs::read_to_string(tool("REBUILD_TEST_MIRROR")).expect("the mirror's file");
    drill.write("tofu.tfrc", &mirror);
    let out = drill.world.root().join("hosts");
    drill.write(
        "rebuild.toml",
        &format!(
            "[platform]\nname = \"lab\"\n[tools]\ntofu = {{ cli_config = \"tofu.tfrc\" }}\n{PHASES}env = {{ HOSTS = \"${{step.1.machines.hosts}}\", OUT = \"{}\" }}\n",
            out.display()
        ),
    );
    drill.write("targets/drill.toml", &cloud.env());
    drill.write("nodes/network.yaml", NETWORK);
    drill.write("nodes/bucket.yaml", BUCKET);
    drill.write("nodes/workers.yaml", &workers(2));
    drill
}

/// Case P2: a floating address goes before the router's interface that it needs, so nothing is answered with 409.
#[test]
fn specs_are_built_verified_changed_and_torn_down_by_the_real_provider() {
    let cloud = OpenstackCloud::start();
    let drill = drill(&cloud);
    drill.up();
    assert_eq!(cloud.strange(), [""; 0]);
    let servers = cloud.all("servers");
    assert_eq!(servers.len(), 2);
    assert_eq!(cloud.all("floatingips").len(), 2);
    assert_eq!(cloud.all("containers").len(), 1);
    // Whose they are, and which run made them.
    let record = drill.status()["run"].clone();
    let metadata = &servers[0]["metadata"];
    assert_eq!(metadata["platform"], "lab");
    assert_eq!(metadata["target"], "drill");
    assert_eq!(metadata["run"], record["run"]);
    let made = metadata["run"].clone();
    let standing = record["standing"].as_array().unwrap();
    assert_eq!(standing[0]["kind"], "nodes");
    // Later steps have the machines.
    let hosts = std::fs::read_to_string(drill.world.root().join("hosts")).unwrap();
    let hosts: serde_json::Value = serde_json::from_str(&hosts).unwrap();
    let address = hosts["workers-0"]["ansible_host"].as_str().unwrap();
    assert!(address.starts_with("203.0.113."), "{hosts}");

    // Nothing differs, and another run does nothing.
    drill.run(0, &["preflight", "--target", "drill"]);
    cloud.calls();
    drill.up();
    assert_eq!(cloud.calls(), [""; 0]);

    // One machine more is one machine more, and the others stay; each says which run made the step.
    drill.write("nodes/workers.yaml", &workers(3));
    drill.up();
    let calls = cloud.calls();
    assert!(
        calls.iter().all(|call| !call.starts_with("DELETE")),
        "{calls:?}"
    );
    let servers = cloud.all("servers");
    assert_eq!(servers.len(), 3);
    assert!(
        servers
            .iter()
            .all(|server| server["metadata"]["run"] == made)
    );

    // What goes behind our back is drift.
    cloud.lose("containers");
    let report = drill.json(3, &["preflight", "--target", "drill"]);
    assert!(
        report
            .to_string()
            .contains("openstack_objectstorage_container_v1.logs"),
        "{report}"
    );

    // Without its specs it is torn down all the same, from what it was applied from.
    std::fs::remove_dir_all(drill.dir().join("nodes")).unwrap();
    drill.run(0, &["down", "--target", "drill"]);
    assert_eq!(cloud.n_things(), 0);
    let calls = cloud.calls();
    assert!(calls.iter().all(|call| !call.ends_with("409")), "{calls:?}");
    assert_eq!(drill.states(), [""; 0]);
}

#[test]
fn specs_that_are_gone_are_removed_by_an_apply_under_the_guard() {
    let cloud = OpenstackCloud::start();
    let drill = drill(&cloud);
    std::fs::remove_file(drill.dir().join("nodes/workers.yaml")).unwrap();
    drill.up();
    assert!(cloud.n_things() > 3);
    // No specs at all: the module is empty, and its state is emptied by an apply.
    std::fs::remove_file(drill.dir().join("nodes/network.yaml")).unwrap();
    std::fs::remove_file(drill.dir().join("nodes/bucket.yaml")).unwrap();
    drill.write("nodes/README.md", "no specs");
    let rebuild = std::fs::read_to_string(drill.dir().join("rebuild.toml")).unwrap();
    let only_nodes = rebuild.split("[[phase]]\nid = \"2\"").next().unwrap();
    let second = "[[phase]]\nid = \"2\"\n[[phase.step]]\nname = \"use\"\nexec = { apply = [\"true\"], verify = [\"true\"], teardown = [\"true\"] }\n";
    std::fs::write(
        drill.dir().join("rebuild.toml"),
        format!("{only_nodes}{second}"),
    )
    .unwrap();
    drill.up();
    assert_eq!(cloud.n_things(), 0);
    drill.run(0, &["down", "--target", "drill"]);
}

/// `check` tests what is rendered against mocks of the real provider's schema, with no cloud and no credentials.
#[test]
fn what_is_rendered_is_checked_and_tested_with_mocks() {
    let cloud = OpenstackCloud::start();
    let drill = drill(&cloud);
    let report = drill.json(0, &["check"]);
    let modules = report["modules"].as_array().unwrap();
    let rendered = modules
        .iter()
        .find(|module| module["path"] == ".rebuild/nodes/1/machines")
        .unwrap_or_else(|| panic!("{report:#}"));
    assert_eq!(rendered["good"], true, "{rendered:#}");
    assert_eq!(rendered["tests"]["passed"], 2, "{rendered:#}");
    assert_eq!(cloud.calls(), [""; 0]);
}

/// Case P2: a destroy that meets a 409 is tried again, and one that meets a 403 is not.
#[test]
fn a_destroy_that_meets_a_conflict_is_tried_again_and_no_other() {
    for (status, code, n_destroys) in [("409", 0, 2), ("403", 1, 1)] {
        let drill = Drill::of(
            "[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n",
            &[("edge", "resource \"terraform_data\" \"a\" {}\n")],
        );
        let destroys = drill.world.root().join("destroys");
        let once = drill.world.write("once", "");
        let event = serde_json::json!({
            "@level": "error", "@message": "Error: Error deleting the interface", "@module": "tofu.ui", "type": "diagnostic",
            "diagnostic": {
                "severity": "error", "summary": "Error deleting the interface",
                "detail": format!("Expected HTTP response code [200] when accessing [PUT …], but got {status} instead"),
            },
        });
        let answer = drill.world.write("answer", &format!("{event}\n"));
        let program = drill.world.write(
            "fake/tofu",
            &format!(
                "#!/bin/sh\ncase \" $* \" in *\" -destroy \"*|*\" destroy \"*) echo x >> {destroys}\n  if [ -e {once} ]; then rm {once}; cat {answer}; exit 1; fi;;\nesac\nexec {tofu} \"$@\"\n",
                destroys = destroys.display(),
                once = once.display(),
                answer = answer.display(),
                tofu = tool("REBUILD_TEST_TOFU").display(),
            ),
        );
        crate::stage::executable(&program);
        let text = std::fs::read_to_string(drill.dir().join("rebuild.toml")).unwrap();
        drill.write(
            "rebuild.toml",
            &format!(
                "{text}\n[tools]\ntofu = {{ command = [\"{}\"] }}\n",
                program.display()
            ),
        );
        drill.up();
        let outcome = drill
            .rebuild(&["down", "--target", "drill"])
            .env("__REBUILD_PATIENCE_MS", "240")
            .run();
        outcome.expect_code(code);
        let n = std::fs::read_to_string(&destroys).unwrap().lines().count();
        assert_eq!(n, n_destroys, "{status}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.contains("still in use"), code == 0);
    }
}

/// A machine is never made again as its user data or its image moved: what is rendered for a cluster's machines, applied by
/// the real provider with a variable in place of Talos' configuration, whose provider can't be had.
#[test]
fn machines_stay_when_their_user_data_or_image_moves() {
    let cloud = OpenstackCloud::start();
    let drill = drill(&cloud);
    drill.write(
        "nodes/cluster.yaml",
        "kind: Cluster\nmetadata: { name: c }\nspec: { talosVersion: v1.11.2, endpoint: 'https://c.example.org:6443' }\n",
    );
    drill.write("nodes/workers.yaml", &workers(1));
    let rendered = drill.json(0, &["render"]);
    let text = |name: &str| {
        let files = rendered["steps"][0]["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["name"] == name).unwrap();
        file["text"].as_str().unwrap().to_owned()
    };
    let nodes = text("openstack.tf.json").replace(
        "data.talos_machine_configuration.c_worker.machine_configuration",
        "var.user_data",
    );
    assert!(nodes.contains("var.user_data"), "{nodes}");
    drill.write("plain/openstack.tf.json", &nodes);
    drill.write(
        "plain/main.tf",
        "terraform {\n  required_providers {\n    openstack = { source = \"terraform-provider-openstack/openstack\" }\n  }\n}\nvariable \"user_data\" {}\nvariable \"platform\" {}\nvariable \"target\" {}\nvariable \"run\" {}\n",
    );
    let phases = "[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"machines\"\ntofu = \"plain\"\nvars = { user_data = \"${target.user_data}\", platform = \"p\", target = \"t\", run = \"${target.run}\" }\n";
    drill.write(
        "rebuild.toml",
        &format!(
            "[platform]\nname = \"lab\"\n[tools]\ntofu = {{ cli_config = \"tofu.tfrc\" }}\n{phases}"
        ),
    );
    let target = |user_data: &str, run: &str| {
        let values = format!("[values]\nuser_data = \"{user_data}\"\nrun = \"{run}\"\n");
        drill.write("targets/drill.toml", &format!("{}{values}", cloud.env()));
    };
    target("machine: one", "first");
    drill.up();
    let made = cloud.all("servers");
    assert_eq!(made.len(), 1);
    assert!(made[0]["user_data"].is_string(), "{made:?}");
    cloud.calls();
    target("machine: two", "second");
    drill.write(
        "plain/openstack.tf.json",
        &nodes.replace(
            "${data.openstack_images_image_v2.workers.id}",
            "22222222-2222-2222-2222-222222222222",
        ),
    );
    drill.up();
    assert_eq!(cloud.calls(), [""; 0]);
    assert_eq!(cloud.all("servers"), made);
    drill.run(0, &["down", "--target", "drill"]);
    assert_eq!(cloud.n_things(), 0);
}

//! A disk that is full, for OpenTofu as well: what it could not write down is neither lost nor made twice.

use std::path::PathBuf;

use crate::drill::Drill;

/// One step of two objects. Once the switch `fills` is there, making the second one fills the disk of the state home.
fn scene() -> Drill {
    let drill = Drill::empty();
    let root = drill.world.root().display().to_string();
    let home = drill.world.state_home().display().to_string();
    drill.write(
        "rebuild.toml",
        "[platform]\nname = \"lab\"\n[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"s\"\ntofu = \"s\"\n",
    );
    drill.write(
        "s/main.tf",
        &format!(
            r#"resource "terraform_data" "one" {{
  provisioner "local-exec" {{ command = "echo one >> {root}/book" }}
}}
resource "terraform_data" "two" {{
  depends_on = [terraform_data.one]
  provisioner "local-exec" {{
    command = "echo two >> {root}/book; if test -e {root}/fills; then rm {root}/fills; cat /dev/zero > {home}/filler 2>/dev/null; fi; true"
  }}
}}
"#
        ),
    );
    drill
}

fn book(drill: &Drill) -> String {
    std::fs::read_to_string(drill.world.root().join("book")).unwrap_or_default()
}

/// How a namespace with mounts of its own is made here; `None` where that is forbidden.
fn unshare(drill: &Drill) -> Option<Vec<&'static str>> {
    let probe = drill.world.root().join("probe");
    std::fs::create_dir_all(&probe).expect("a directory");
    let mount = format!("mount -t tmpfs none {}", probe.display());
    [vec!["-m"], vec!["-r", "-m"]].into_iter().find(|how| {
        let mut words = how.clone();
        words.extend(["sh", "-c", mount.as_str()]);
        let command = drill.world.command("/usr/bin/env").arg("unshare");
        cfg!(target_os = "linux") && command.args(words).run().code() == Some(0)
    })
}

/// The disk is full as an apply ends: the backend can't store the state, and OpenTofu can't write `errored.tfstate`. It tells its
/// state instead, and the next call brings that to the store. The file that it could only begin is kept out of the way.
#[test]
fn a_state_that_found_no_room_anywhere_is_rescued_from_what_was_told() {
    let drill = scene();
    let Some(how) = unshare(&drill) else {
        // Where nobody may mount, a disk can't be filled: only what is left of it is shown.
        return begun_file_is_a_suspect();
    };
    let call = |words: &[&str]| drill.rebuild(words).shell_line();
    let up = ["up", "--target", "drill", "--no-pause"];
    let resume = ["up", "--target", "drill", "--no-pause", "--resume"];
    let home = drill.world.state_home().display().to_string();
    let script = format!(
        "mkdir -p {home} && mount -t tmpfs -o size=8m none {home} && touch {fills} && {{ {up}; echo \"up $?\"; {resume}; echo \"full $?\"; rm {home}/filler; {resume}; echo \"resume $?\"; {down}; echo \"down $?\"; }}",
        fills = drill.world.root().join("fills").display(),
        up = call(&up),
        resume = call(&resume),
        down = call(&["down", "--target", "drill"]),
    );
    let mut words = how;
    words.extend(["sh", "-c", &script]);
    let mut all = vec!["unshare"];
    all.extend(words);
    let told = drill.rebuild(&[]).instead("/usr/bin/env", &all).run();
    let ends: Vec<&str> = told
        .stdout
        .lines()
        .filter(|line| line.ends_with(|c: char| c.is_ascii_digit()))
        .collect();
    let of = |word: &str| ends.iter().find(|line| line.starts_with(word)).copied();
    assert_eq!(of("up "), Some("up 1"), "{told:?}");
    assert_eq!(of("full "), Some("full 3"), "{told:?}");
    assert_eq!(of("resume "), Some("resume 0"), "{told:?}");
    assert_eq!(of("down "), Some("down 0"), "{told:?}");
    assert!(
        told.stderr.contains("was brought to the store")
            && told.stderr.contains("errored.tfstate.broken"),
        "{told:?}"
    );
    assert_eq!(book(&drill), "one\ntwo\n");
}

/// Where nothing else is known of an apply than that it began to write down a state, its step is a suspect as a whole.
#[test]
fn a_state_of_which_only_the_beginning_is_left_makes_its_step_a_suspect() {
    begun_file_is_a_suspect();
}

fn begun_file_is_a_suspect() {
    let drill = scene();
    drill.up();
    let begun: PathBuf = drill
        .work()
        .join("steps/0/s/tree/s")
        .join(tofu::ERRORED_STATE);
    process::files::write_atomically(&begun, b"{\"version\":4,", 0o600)
        .expect("a state's beginning");
    let stopped = drill.run(3, &["up", "--target", "drill", "--no-pause"]);
    assert!(
        stopped.stderr.contains("errored.tfstate.broken")
            && stopped.stderr.contains("rebuild suspects"),
        "{}",
        stopped.stderr
    );
    assert!(!begun.exists());
    drill.run(0, &["suspects", "--target", "drill", "--gone", "0.s"]);
    drill.up();
    assert_eq!(book(&drill), "one\ntwo\n");
}

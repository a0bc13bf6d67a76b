//! What a person meets when something is wrong: what happened, where, why, and what to type next.

use crate::drill::Drill;

const PHASES: &str = r#"
[[phase]]
id = "0"
[[phase.step]]
name = "ground"
tofu = "ground"
[[phase]]
id = "1"
[[phase.step]]
name = "edge"
tofu = "edge"
[[phase]]
id = "2"
[[phase.step]]
name = "canary"
exec = { apply = ["true"], verify = ["test", "-e", "${target.place}"], teardown = ["true"] }
"#;
const GOOD: &str = "resource \"terraform_data\" \"a\" {\n  input = 1\n}\n";
const BAD: &str = "resource \"terraform_data\" \"a\" {\n  input = 1\n  provisioner \"local-exec\" {\n    command = \"echo no route >&2; exit 7\"\n  }\n}\n";

fn drill() -> Drill {
    let drill = Drill::of(PHASES, &[("ground", GOOD), ("edge", GOOD)]);
    let place = drill.world.work().join("place");
    drill.write(
        "targets/drill.toml",
        &format!("[values]\nplace = \"{}\"\n", place.display()),
    );
    drill.write(
        "targets/live.toml",
        "protected = true\n[encryption]\npassphrase = { env = \"PASS\" }\n[values]\nplace = \"/\"\n",
    );
    drill
}

/// Runs a command that must fail, and demands each of the texts on standard error, in this order.
fn says(drill: &Drill, code: i32, args: &[&str], texts: &[&str]) {
    told(&drill.run(code, args).stderr, texts);
}

fn told(said: &str, texts: &[&str]) {
    let mut rest = said;
    for text in texts {
        let at = rest
            .find(text)
            .unwrap_or_else(|| panic!("`{text}` is missing, or out of order, in:\n{said}"));
        rest = &rest[at + text.len()..];
    }
}

#[test]
fn what_was_typed_wrong_is_named_with_what_is_right() {
    let drill = drill();
    says(
        &drill,
        2,
        &["up", "--target", "prod"],
        &["there is no target `prod`", "`drill`, `live`"],
    );
    says(
        &drill,
        2,
        &["up", "--target", "drill", "--through", "9"],
        &["error: `--through 9`", "hint: its phases are `0`, `1`, `2`"],
    );
    says(
        &drill,
        3,
        &["up", "--target", "drill", "--resume"],
        &[
            "error: no run is unfinished",
            "hint: `rebuild up --target drill`",
        ],
    );
    says(
        &drill,
        2,
        &["runs", "show", "X", "--target", "drill"],
        &["has no run `X`", "hint: `rebuild runs list --target drill`"],
    );
    says(
        &drill,
        3,
        &["unlock", "--target", "drill"],
        &[
            "error: nobody holds the lock",
            "hint: there is nothing to unlock",
        ],
    );
    says(
        &drill,
        2,
        &["down", "--target", "live", "--confirm", "drill"],
        &[
            "`--confirm drill` does not match",
            "hint: nothing was touched",
        ],
    );
    let outside = drill
        .rebuild(&["down", "--target", "drill"])
        .cwd(drill.world.home())
        .run();
    outside.expect_code(2);
    told(
        &outside.stderr,
        &["no rebuild.toml here or above", "hint:", "`--platform DIR`"],
    );
}

/// Case E12 and the secrets of a target: each says what to set, and that nothing was touched.
#[test]
fn what_is_missing_on_the_machine_is_named_with_the_way_to_get_it() {
    let drill = drill();
    says(
        &drill,
        2,
        &["up", "--target", "live"],
        &[
            "cannot fetch secret `passphrase` of target `live`",
            "caused by: the environment variable `PASS` is not set",
            "hint: set the variable: `export PASS=",
            "targets/live.toml",
            "Nothing was touched",
        ],
    );
    let nowhere = drill
        .rebuild(&["up", "--target", "drill"])
        .env("PATH", "/nowhere")
        .run();
    nowhere.expect_code(2);
    told(
        &nowhere.stderr,
        &[
            "there is no program `tofu`",
            "`/nowhere`",
            "hint: install OpenTofu",
        ],
    );
    assert!(!drill.store().exists());
}

/// A wrong passphrase, and a protected target that nobody named.
#[test]
fn a_protected_target_says_what_it_wants() {
    let drill = drill();
    let live = |args: &[&str], pass: &str, code: i32| {
        let outcome = drill.rebuild(args).env("PASS", pass).run();
        outcome.expect_code(code);
        outcome.stderr
    };
    live(
        &["up", "--target", "live", "--no-pause"],
        "correct-horse-battery",
        0,
    );
    told(
        &live(
            &["preflight", "--target", "live"],
            "wrong-wrong-wrong-wrong",
            2,
        ),
        &[
            "error: the passphrase is not the one",
            "hint: give the passphrase",
            "`live`",
        ],
    );
    told(
        &live(&["down", "--target", "live"], "correct-horse-battery", 5),
        &[
            "is protected, and nobody named it",
            "hint: `rebuild down --confirm live`",
        ],
    );
}

/// The file is shown where it is no TOML at all, before anything is asked for.
#[test]
fn a_definition_that_is_no_toml_is_shown_with_its_place() {
    let drill = drill();
    drill.write("rebuild.toml", "[platform\nname = \"lab\"\n");
    for command in ["up", "preflight", "down"] {
        says(
            &drill,
            2,
            &[command, "--target", "drill"],
            &["is not valid TOML", "rebuild.toml:1:"],
        );
    }
}

/// A step that failed by itself is applied again by `up --resume`, tainted or not; no person is needed.
#[test]
fn a_failed_step_says_where_its_log_is_and_is_applied_again() {
    let drill = drill();
    drill.world.write("place", "");
    drill.write("edge/main.tf", BAD);
    let up = ["up", "--target", "drill", "--no-pause"];
    says(
        &drill,
        1,
        &up,
        &[
            "error: `tofu apply` of step `1.edge` failed",
            "caused by: `terraform_data.a`",
            "no route",
            "log: ",
            "hint: `rebuild up --target drill --resume` goes on, `rebuild down --target drill` tears down",
        ],
    );
    says(
        &drill,
        3,
        &up,
        &[
            "is unfinished, it is `failed` at step `1.edge`",
            "hint: `rebuild up --target drill --resume` or `rebuild down --target drill`",
        ],
    );
    drill.write("edge/main.tf", GOOD);
    let resume = ["up", "--target", "drill", "--no-pause", "--resume"];
    let replaced = "`terraform_data.a` of step `1.edge` is tainted, since it did not come to be whole: it is replaced";
    says(&drill, 0, &resume, &[replaced]);
    assert_eq!(drill.status()["state"], "finished");
}

#[test]
fn a_verify_that_fails_is_told_as_a_sentence_with_its_log() {
    let drill = drill();
    let outcome = drill.run(1, &["up", "--target", "drill", "--no-pause"]);
    told(
        &outcome.stderr,
        &[
            "error: verify of step `2.canary` failed",
            "caused by: ",
            "`test` ended with exit code 1",
            "(verify-failed)",
            "log: ",
            "hint: `rebuild up --target drill --resume`",
        ],
    );
    assert!(!outcome.stderr.contains("null"), "{}", outcome.stderr);
}

/// A store that is not there is no empty target, whatever is asked.
#[test]
fn a_lost_store_is_named_by_every_command() {
    let drill = drill();
    drill.world.write("place", "");
    drill.up();
    std::fs::remove_dir_all(drill.store()).unwrap();
    for command in ["status", "up", "preflight", "down"] {
        says(
            &drill,
            3,
            &[command, "--target", "drill"],
            &[
                "error: the store is empty, and this machine knows that target",
                "caused by: the store is the directory",
                "hint: look whether `[store]` of targets/drill.toml",
                "`rebuild up --target drill --first-build ",
            ],
        );
    }
    drill.write(
        "targets/drill.toml",
        "[store]\nlocal = { dir = \"/proc/nowhere\" }\n[values]\nplace = \"/\"\n",
    );
    says(
        &drill,
        3,
        &["up", "--target", "drill"],
        &["error: cannot write `lock.json`", "/proc/nowhere"],
    );
}

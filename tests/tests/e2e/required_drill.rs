//! The drill that a live target requires, and the archive of records.

use std::path::PathBuf;

use test_support::Outcome;

use crate::gate::PASSPHRASE;
use crate::gateway::{Clouded, KEY};
use crate::stage::Stage;

/// A platform with a target `live` beside `drill`, which it requires.
struct Two {
    stage: Stage,
}

impl Two {
    fn new(max_age: &str) -> Self {
        let stage = Stage::of(&["0: ground", "1: edge"]);
        stage.write(
            "targets/live.toml",
            &format!("[require]\ndrill = {{ target = \"drill\", max_age = \"{max_age}\" }}\n"),
        );
        Self { stage }
    }

    fn live(&self, code: i32, args: &[&str]) -> Outcome {
        let mut all = args.to_vec();
        all.splice(1..1, ["--target", "live"]);
        if args[0] == "up" {
            all.push("--no-pause");
        }
        self.stage.run(code, &all)
    }

    fn archived(&self, dir: &str) -> Vec<PathBuf> {
        let dir = self.stage.world.root().join(dir).join("run");
        std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .collect()
    }
}

/// A finished run of the drill counts, even after its `down`, as long as it is of these very definitions.
#[test]
fn a_live_up_wants_a_green_drill_of_the_same_definitions() {
    let two = Two::new("7d");
    let said = two.live(3, &["up"]).stderr;
    assert!(
        said.contains("has no finished run") && said.contains("rebuild up --target drill"),
        "{said}"
    );
    let said = two.live(3, &["preflight"]).stderr;
    assert!(said.contains("green drill"), "{said}");
    // A drill that stops on its way is none.
    two.stage.up_to(0, &["--through", "0"]);
    two.live(3, &["up"]);
    two.stage.up_to(0, &["--resume"]);
    two.stage.down_to(0, &[]);
    two.live(0, &["preflight"]);
    two.live(0, &["up"]);
    // Other definitions, other drill.
    two.stage.module("1-edge", "# one line more\n");
    let said = two.live(3, &["up"]).stderr;
    assert!(said.contains("was of"), "{said}");
    two.live(2, &["up", "--without-drill", " "]);
    two.live(0, &["up", "--without-drill", "the edge is on fire"]);
    let status = two.stage.json(0, &["status", "--target", "live"]);
    let decision = &status["run"]["decisions"][0];
    assert_eq!(decision["kind"], "without-drill");
    assert_eq!(decision["reason"], "the edge is on fire");
    // What is torn down needs no drill, whatever became of it.
    std::fs::remove_file(two.stage.dir().join("targets/drill.toml")).unwrap();
    two.live(2, &["up"]);
    two.live(0, &["down"]);
}

/// A run that was begun without a drill goes on without one; one that was begun with one wants one of today's.
#[test]
fn a_resumed_run_wants_what_it_was_begun_with() {
    let two = Two::new("7d");
    two.stage.on("apply-1-edge");
    two.live(1, &["up", "--without-drill", "in a hurry"]);
    two.stage.off("apply-1-edge");
    two.live(0, &["up", "--resume"]);
    two.live(0, &["down"]);

    two.stage.up();
    two.stage.on("apply-1-edge");
    two.live(1, &["up"]);
    two.stage.off("apply-1-edge");
    two.stage.module("1-edge", "# another line\n");
    two.live(3, &["up", "--resume"]);
    two.stage.up();
    two.live(0, &["up", "--resume"]);
}

#[test]
fn a_drill_that_is_too_old_does_not_count() {
    let two = Two::new("1ms");
    two.stage.up();
    let said = two.live(3, &["up"]).stderr;
    assert!(said.contains("old"), "{said}");
    two.stage.write(
        "targets/live.toml",
        "[require]\ndrill = { target = \"live\", max_age = \"7d\" }\n",
    );
    let said = two.live(2, &["up"]).stderr;
    assert!(said.contains("its own drill"), "{said}");
    two.stage.write(
        "targets/live.toml",
        "[require]\ndrill = { target = \"drill\" }\n",
    );
    two.live(2, &["up"]);
}

/// Each ended record is copied; the drill counts from its archive alone when its store is gone.
#[test]
fn ended_records_are_archived_and_outlive_the_store() {
    let two = Two::new("7d");
    let dir = two.stage.world.root().join("archive");
    two.stage.write(
        "targets/drill.toml",
        &format!("[archive]\nlocal = {{ dir = \"{}\" }}\n", dir.display()),
    );
    two.stage.up_to(0, &["--through", "0"]);
    assert!(two.archived("archive").is_empty(), "it has not ended");
    two.stage.up_to(0, &["--resume"]);
    assert_eq!(two.archived("archive").len(), 1);
    two.stage.down_to(0, &[]);
    let copy = std::fs::read(&two.archived("archive")[0]).unwrap();
    let copy: serde_json::Value = serde_json::from_slice(&copy).unwrap();
    assert_eq!(copy["status"], "torn-down");
    assert!(copy["finished"].is_string());
    std::fs::remove_dir_all(two.stage.store()).unwrap();
    two.live(0, &["up"]);
    two.live(0, &["down"]);
}

/// An archive that can't be written fails nothing; the next call brings the record there.
#[test]
fn a_record_that_could_not_be_archived_is_archived_by_the_next_call() {
    let two = Two::new("7d");
    let dir = two.stage.world.root().join("archive");
    std::fs::write(&dir, "in the way").unwrap();
    two.stage.write(
        "targets/drill.toml",
        &format!("[archive]\nlocal = {{ dir = \"{}\" }}\n", dir.display()),
    );
    let said = two.stage.up_to(0, &[]);
    assert!(said.contains("not in the archive"), "{said}");
    std::fs::remove_file(&dir).unwrap();
    two.stage.up_to(0, &["--through", "0"]);
    assert_eq!(two.archived("archive").len(), 1, "the run before");
}

/// A store that phase 0 makes takes its records along: a drill on one counts from its archive, and without an archive it
/// can't be required.
#[test]
fn a_drill_whose_phase_0_makes_its_store_needs_an_archive() {
    let clouded = Clouded::of("", &[]);
    let drill = &clouded.drill;
    let url = clouded.gateway.url();
    drill.write(
        "targets/live.toml",
        &format!(
            r#"[require]
drill = {{ target = "drill", max_age = "7d" }}
[encryption]
passphrase = {{ env = "PASS" }}
[secrets]
s3_key = {{ env = "S3_KEY" }}
[env]
AWS_ACCESS_KEY_ID = "tester"
AWS_SECRET_ACCESS_KEY = "${{secret.s3_key}}"
[values]
endpoint = "{url}"
bucket = "live"
"#
        ),
    );
    let live = |code: i32, words: &[&str]| {
        let mut args = words.to_vec();
        args.extend(["--target", "live"]);
        let command = drill.rebuild(&args).env("S3_KEY", KEY);
        let outcome = command.env("PASS", PASSPHRASE).run();
        outcome.expect_code(code);
        outcome.stderr
    };
    let said = live(2, &["preflight"]);
    assert!(said.contains("goes with its phase 0"), "{said}");

    let path = drill.dir().join("targets/drill.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let dir = drill.world.root().join("archive");
    drill.write(
        "targets/drill.toml",
        &format!(
            "{text}[archive]\nlocal = {{ dir = \"{}\" }}\n",
            dir.display()
        ),
    );
    let said = live(3, &["preflight"]);
    assert!(said.contains("has no finished run"), "{said}");
    clouded.run(0, &["up", "--no-pause"]);
    clouded.run(0, &["down"]);
    assert!(!clouded.gateway.bucket("states").exists());
    let archived: Vec<PathBuf> = std::fs::read_dir(dir.join("run"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&archived[0]).unwrap()).unwrap();
    assert_eq!(
        (archived.len(), &record["status"]),
        (1, &"torn-down".into())
    );
    live(0, &["preflight"]);
}

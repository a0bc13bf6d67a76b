//! Preflight of states, stores, locks and checks: what can't be explained stops, with its reason.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use store::StateHeader;
use store::state_file;

use crate::cloud::Cloud;
use crate::drill::Drill;
use crate::reports::{findings, notes, preflight, reasons, valid, verdict};

/// Two phases with one tofu step each.
const PHASES: &str = "[[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"a\"\ntofu = \"one\"\n\
     [[phase]]\nid = \"2\"\ntitle = \"two\"\n[[phase.step]]\nname = \"b\"\ntofu = \"two\"\n";
/// Their root modules.
const A: &str = "resource \"test_object\" \"a\" {\n  name = \"a\"\n}\n";
const B: &str = "resource \"test_object\" \"b\" {\n  name = \"b\"\n}\n";
const UP: [&str; 4] = ["up", "--target", "drill", "--no-pause"];

fn two() -> (Drill, Cloud) {
    Cloud::drill(PHASES, &[("one", A), ("two", B)])
}

fn state_file(drill: &Drill, step: &str) -> PathBuf {
    drill.store().join("state").join(step)
}

#[expect(clippy::disallowed_methods, reason = "a test's own damage")]
fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a file has a parent")).expect("make it");
    std::fs::write(path, bytes).expect("write the file");
}

/// Writes a state anew as another `rebuild` would: with a header that fits its bytes.
fn rewrite(drill: &Drill, step: &str, change: impl FnOnce(&mut Value)) {
    let path = state_file(drill, step);
    let body = std::fs::read(&path).expect("the state is there");
    let (header, bytes) = state_file::decode(&body).expect("it is a state");
    let mut state: Value = serde_json::from_slice(bytes).expect("it is JSON");
    change(&mut state);
    let bytes = serde_json::to_vec(&state).expect("JSON");
    let header = StateHeader::of(&bytes, header.writer, header.fence).expect("a state");
    write(
        &path,
        &state_file::encode(&header, &bytes).expect("a state"),
    );
}

fn lineage_and_serial(drill: &Drill, step: &str) -> (String, u64) {
    let body = std::fs::read(state_file(drill, step)).expect("the state is there");
    let (header, _) = state_file::decode(&body).expect("it is a state");
    (header.lineage, header.serial)
}

/// Case D1: a state that is gone is named with what it was, and nothing is built a second time.
#[test]
fn a_lost_state_is_not_an_empty_one() {
    let (drill, cloud) = two();
    drill.up();
    let (lineage, serial) = lineage_and_serial(&drill, "1/a");
    std::fs::remove_file(state_file(&drill, "1/a")).expect("the state is there");
    let report = preflight(&drill, 3);
    assert_eq!(report["verdict"], "stopped");
    assert_eq!(verdict(&report, "1"), "state-absent");
    assert_eq!(
        findings(&report, "1")[..],
        [json!({
            "step": "a", "address": "state/1/a", "attribute": null, "reason": "state-absent",
            "was": format!("lineage {lineage} serial {serial}"), "is": null,
        })]
    );
    assert_eq!(verdict(&report, "2"), "clean");
    drill.run(3, &UP);
    assert_eq!(cloud.calls(), ["create a", "create b"]);
}

#[test]
fn a_state_of_another_lineage_is_refused() {
    let (drill, _) = two();
    drill.up();
    let (lineage, _) = lineage_and_serial(&drill, "1/a");
    let other = "00000000-0000-4000-8000-000000000000";
    rewrite(&drill, "1/a", |state| state["lineage"] = other.into());
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "state-unexplained");
    let found = &findings(&report, "1")[0];
    assert_eq!(found["reason"], "lineage-differs");
    assert_eq!(
        (found["was"].as_str(), found["is"].as_str()),
        (Some(lineage.as_str()), Some(other))
    );
}

#[test]
fn a_state_of_another_serial_is_refused() {
    let (drill, _) = two();
    drill.up();
    let (_, serial) = lineage_and_serial(&drill, "1/a");
    rewrite(&drill, "1/a", |state| state["serial"] = (serial + 1).into());
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "state-unexplained");
    let found = &findings(&report, "1")[0];
    assert_eq!(found["reason"], "serial-differs");
    assert_eq!(
        (&found["was"], &found["is"]),
        (&json!(serial), &json!(serial + 1))
    );
}

/// Other bytes under the recorded lineage and serial, with a header that fits them and with one that does not.
#[test]
fn a_state_of_other_bytes_is_refused() {
    let (drill, _) = two();
    drill.up();
    let path = state_file(&drill, "1/a");
    let body = std::fs::read(&path).expect("the state is there");
    rewrite(&drill, "1/a", |state| {
        state["resources"][0]["instances"][0]["attributes"]["address"] = "10.0.0.2".into();
    });
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "state-unexplained");
    assert_eq!(findings(&report, "1")[0]["reason"], "digest-differs");
    let text = String::from_utf8(body).expect("a plain state is text");
    write(&path, text.replace("10.0.0.1", "10.0.0.2").as_bytes());
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "state-unexplained");
    assert_eq!(findings(&report, "1")[0]["reason"], "digest-differs");
    assert_eq!(verdict(&report, "2"), "clean");
}

/// A state in the store that the record does not know, beside what stands and before a first build.
#[test]
fn an_unknown_state_stops() {
    let (drill, _) = two();
    drill.up();
    let body = std::fs::read(state_file(&drill, "1/a")).expect("the state is there");
    write(&state_file(&drill, "1/stranger"), &body);
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "state-unexplained");
    assert_eq!(reasons(&report, "1"), ["unknown-state state/1/stranger"]);
    drill.run(3, &UP);
    let (fresh, cloud) = two();
    write(&state_file(&fresh, "1/a"), &body);
    let report = preflight(&fresh, 3);
    assert_eq!(reasons(&report, "1"), ["unknown-state state/1/a"]);
    fresh.run(3, &UP);
    assert!(cloud.calls().is_empty());
}

/// An object that an apply left tainted stops, beside the run that it left unfinished.
#[test]
fn a_tainted_object_stops_and_an_unfinished_run_is_told() {
    let (drill, cloud) = two();
    drill.up();
    // A replacement that is made and then fails.
    drill.write(
        "two/main.tf",
        &cloud.module("resource \"test_object\" \"b\" {\n  name    = \"b2\"\n  content = \"half: it broke\"\n}\n"),
    );
    let outcome = drill.run(1, &UP);
    assert!(outcome.stderr.contains("it broke"), "{outcome:?}");
    let before = cloud.calls();
    let report = preflight(&drill, 3);
    assert_eq!(report["verdict"], "stopped");
    assert_eq!(
        verdict(&report, "1"),
        "clean",
        "the verdicts are told all the same"
    );
    assert_eq!(verdict(&report, "2"), "tainted");
    // The worst is the verdict; that a creation that failed left null where the cloud has [] is told beside it.
    let found = reasons(&report, "2");
    assert!(
        found.contains(&"tainted test_object.b".to_owned()),
        "{found:?}"
    );
    let told = notes(&report);
    assert!(
        told.contains("unfinished") && told.contains("`failed`") && told.contains("2.b"),
        "{told}"
    );
    // A plain `up` says the same and names both ways on.
    let outcome = drill.run(3, &UP);
    assert!(
        outcome.stderr.contains("--resume") && outcome.stderr.contains("rebuild down"),
        "{outcome:?}"
    );
    assert!(outcome.stderr.contains("tainted"), "{outcome:?}");
    assert_eq!(cloud.calls(), before);
    drill.run(0, &["down", "--target", "drill"]);
    assert!(!cloud.has("a") && !cloud.has("b2"));
}

/// An unfinished run whose phases are all as they should be stops preflight all the same.
#[test]
fn an_unfinished_run_stops_with_its_phases_clean() {
    let (drill, cloud) = Cloud::drill(
        PHASES,
        &[
            ("one", A),
            (
                "two",
                "resource \"test_object\" \"b\" {\n  name    = \"b\"\n  content = \"fail: quota\"\n}\n",
            ),
        ],
    );
    drill.run(1, &UP);
    let report = preflight(&drill, 3);
    assert_eq!(report["verdict"], "stopped");
    assert_eq!(verdict(&report, "1"), "clean");
    let told = notes(&report);
    assert!(
        told.contains("unfinished") && told.contains("2.b"),
        "{told}"
    );
    assert_eq!(cloud.calls(), ["create a"]);
    // Paused, it is unfinished too.
    drill.write("two/main.tf", &cloud.module(B));
    drill.run(0, &["up", "--target", "drill", "--resume", "--no-pause"]);
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
}

/// Cases D2 and E1: what the caller's shell says to OpenTofu does not reach it; the names are told, the values are not.
#[test]
fn the_callers_tofu_variables_change_no_verdict() {
    let (drill, cloud) = two();
    let leaked = |args: &[&str]| {
        drill
            .rebuild(args)
            .env("TF_WORKSPACE", "zzz-of-the-caller")
            .env("TF_CLI_ARGS_plan", "-destroy")
            .env("TF_CLI_ARGS", "-nosuch")
            .env("TF_DATA_DIR", "/nowhere")
    };
    leaked(&UP).run().expect_code(0);
    let args = ["preflight", "--target", "drill", "--output", "json"];
    let outcome = leaked(&args).run();
    outcome.expect_code(0);
    assert_eq!(json_of(&outcome)["verdict"], "clean");
    for name in ["TF_WORKSPACE", "TF_CLI_ARGS_plan"] {
        assert!(outcome.stderr.contains(name), "{outcome:?}");
    }
    assert!(!outcome.stderr.contains("zzz-of-the-caller"), "{outcome:?}");
    cloud.delete("b");
    let outcome = leaked(&args).run();
    outcome.expect_code(3);
    assert_eq!(
        reasons(&valid(json_of(&outcome)), "2"),
        ["deleted-outside test_object.b"]
    );
}

fn json_of(outcome: &test_support::Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).expect("a report is JSON")
}

/// Cases D12 and L13: a state lock that someone holds is no "no changes", and preflight does not release it.
#[test]
fn a_held_state_lock_is_not_run() {
    let (drill, cloud) = two();
    drill.up();
    let lock = drill.store().join("lock/1/a");
    let body = json!({
        "schema": 1, "fence": 1,
        "writer": {
            "identity": {"machine_id": "another", "boot_id": "b", "pid_namespace": "n", "pid": 7, "start_time": 7},
            "user": "someone", "host": "somewhere",
        },
        "info": {
            "ID": "11111111-2222-3333-4444-555555555555", "Operation": "OperationTypeApply", "Who": "someone@somewhere",
            "Version": "1.12.6", "Created": "2026-01-01T00:00:00Z", "Info": "", "Path": "",
        },
    });
    write(&lock, body.to_string().as_bytes());
    let report = preflight(&drill, 3);
    assert_eq!(report["verdict"], "stopped");
    assert_eq!(verdict(&report, "1"), "not-run", "{report:#}");
    assert_eq!(findings(&report, "1")[0]["reason"], "lock-held");
    assert!(
        findings(&report, "1")[0]["is"]
            .to_string()
            .contains("someone"),
        "{report:#}"
    );
    assert_eq!(verdict(&report, "2"), "clean");
    drill.run(3, &UP);
    let kept: Value =
        serde_json::from_slice(&std::fs::read(&lock).expect("the lock is there")).expect("JSON");
    assert_eq!(kept["info"]["ID"], "11111111-2222-3333-4444-555555555555");
    assert_eq!(cloud.calls(), ["create a", "create b"]);
    std::fs::remove_file(&lock).expect("the lock is there");
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
}

/// A held target lock: exit 4 at once, with the holder.
#[test]
fn a_held_target_lock_is_locked() {
    let world = test_support::World::new();
    let go = world.root().join("go");
    let (drill, cloud) = Cloud::drill(
        PHASES,
        &[
            (
                "one",
                &format!(
                    "resource \"test_object\" \"a\" {{\n  name  = \"a\"\n  waits = \"{}\"\n}}\n",
                    go.display()
                ),
            ),
            ("two", B),
        ],
    );
    let up = drill.rebuild(&UP).start();
    let sign = cloud.file("a.creating");
    let end = Instant::now() + Duration::from_secs(60);
    process::wait::until(end, Duration::from_millis(10), || {
        sign.exists().then_some(())
    })
    .expect("the creation begins");
    let outcome = drill.run(4, &["preflight", "--target", "drill"]);
    assert!(
        outcome.stderr.contains("operator") && outcome.stderr.contains("up"),
        "{outcome:?}"
    );
    drill.run(4, &UP);
    write(&go, b"");
    up.wait().expect_code(0);
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
}

/// A store that was copied under another target's name is not that target's.
#[test]
fn a_store_of_another_target_is_refused() {
    let (drill, cloud) = two();
    drill.up();
    drill.write("targets/other.toml", "");
    let other = drill
        .world
        .state_home()
        .join("rebuild/targets/lab/other/store");
    copy(&drill.store(), &other);
    for args in [
        ["preflight", "--target", "other"],
        ["up", "--target", "other"],
        ["down", "--target", "other"],
    ] {
        let outcome = drill.run(3, &args);
        assert!(outcome.stderr.contains("target `drill`"), "{outcome:?}");
    }
    assert_eq!(cloud.calls(), ["create a", "create b"]);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("make the copy");
    for entry in std::fs::read_dir(from).expect("read the store") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).expect("copy a value");
        }
    }
}

/// A store that was emptied is no first build on a machine that knows its id; `--first-build ID` is the way on.
#[test]
fn an_emptied_store_is_no_first_build() {
    let (drill, cloud) = two();
    drill.up();
    let target: Value = serde_json::from_slice(
        &std::fs::read(drill.store().join("target.json")).expect("target.json is there"),
    )
    .expect("JSON");
    let id = target["id"].as_str().expect("an id").to_owned();
    std::fs::remove_dir_all(drill.store()).expect("empty the store");
    for args in [
        &["preflight", "--target", "drill"][..],
        &UP,
        &["down", "--target", "drill"],
    ] {
        let outcome = drill.run(3, args);
        assert!(
            outcome.stderr.contains(&format!("--first-build {id}")),
            "{outcome:?}"
        );
    }
    let outcome = drill.run(
        3,
        &[
            "up",
            "--target",
            "drill",
            "--no-pause",
            "--first-build",
            "01WRONG",
        ],
    );
    assert!(outcome.stderr.contains(&id), "{outcome:?}");
    assert_eq!(cloud.calls(), ["create a", "create b"]);
    cloud.delete("a");
    cloud.delete("b");
    let record = drill.json(
        0,
        &[
            "up",
            "--target",
            "drill",
            "--no-pause",
            "--first-build",
            &id,
        ],
    );
    let decision = &record["decisions"][0];
    assert_eq!(decision["kind"], "first-build", "{record:#}");
    assert_eq!(decision["about"], id.as_str());
    assert_eq!(cloud.calls().len(), 4);
    // The new id is the one that counts now.
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
    let outcome = drill.run(
        3,
        &[
            "up",
            "--target",
            "drill",
            "--no-pause",
            "--first-build",
            &id,
        ],
    );
    assert!(outcome.stderr.contains("no id is missing"), "{outcome:?}");
}

/// Residue that is found before a first build stops it, and so does a probe that can't be run.
#[test]
fn residue_before_a_first_build_stops() {
    let world = test_support::World::new();
    let left = world.root().join("left");
    std::fs::create_dir(&left).expect("make it");
    let (drill, cloud) = Cloud::drill(
        &format!(
            "[[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"a\"\ntofu = \"one\"\n\
             [[phase.residue]]\nname = \"machines\"\nexec = [\"find\", \"{}\", \"-name\", \"*.machine\"]\n\
             [[phase]]\nid = \"2\"\ntitle = \"two\"\n[[phase.step]]\nname = \"b\"\ntofu = \"two\"\n",
            left.display()
        ),
        &[("one", A), ("two", B)],
    );
    let report = preflight(&drill, 0);
    assert_eq!(report["verdict"], "first-build");
    assert!(
        notes(&report).contains("phase `2` has no residue probe"),
        "{report:#}"
    );
    write(&left.join("x.machine"), b"");
    let report = preflight(&drill, 3);
    assert_eq!(report["verdict"], "stopped");
    assert_eq!(verdict(&report, "1"), "state-unexplained");
    assert_eq!(reasons(&report, "1"), ["left-behind machines"]);
    assert!(
        findings(&report, "1")[0]["is"]
            .as_str()
            .expect("lines")
            .contains("x.machine")
    );
    drill.run(3, &UP);
    std::fs::remove_dir_all(&left).expect("take it away");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "undecided");
    assert_eq!(reasons(&report, "1"), ["residue-failed machines"]);
    assert!(cloud.calls().is_empty());
    assert_eq!(
        drill.status()["state"],
        "empty",
        "a call that stops first leaves nothing"
    );
    std::fs::create_dir(&left).expect("make it");
    drill.up();
}

/// Case R8: a phase's check that was broken by hand stops `up` before anything is changed, the last phase's too.
#[test]
fn a_broken_check_stops_before_any_change() {
    let world = test_support::World::new();
    let open = world.root().join("open");
    write(&open, b"");
    let (drill, cloud) = Cloud::drill(
        &format!(
            "{PHASES}[[phase.check]]\nname = \"is open\"\nexec = [\"test\", \"-e\", \"{}\"]\n",
            open.display()
        ),
        &[("one", A), ("two", B)],
    );
    drill.up();
    std::fs::remove_file(&open).expect("it is there");
    // Work for the first phase.
    drill.write(
        "one/main.tf",
        &cloud.module(&A.replace("\n}", "\n  content = \"new\"\n}")),
    );
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "clean");
    assert_eq!(verdict(&report, "2"), "check-failed");
    assert_eq!(reasons(&report, "2"), ["phase-check-failed is open"]);
    let outcome = drill.run(3, &UP);
    assert!(outcome.stderr.contains("check-failed"), "{outcome:?}");
    assert_eq!(cloud.calls(), ["create a", "create b"]);
    write(&open, b"");
    drill.up();
    assert_eq!(cloud.calls(), ["create a", "create b", "update a"]);
}

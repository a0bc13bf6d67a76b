//! What is printed as JSON: one document for every command however it ends, each of a published shape.

use std::time::Duration;

use serde_json::Value;

use crate::drill::Drill;
use crate::published::{conforms, events};

const ONE_STEP: &str =
    "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\n";

fn plain() -> Drill {
    let module = "resource \"terraform_data\" \"it\" { input = \"a\" }\noutput \"it\" { value = terraform_data.it.output }\n";
    Drill::of(ONE_STEP, &[("zero", module)])
}

/// Design section 11: `--output json` prints one JSON document for every command, of a published shape.
#[test]
fn every_command_that_ends_well_prints_one_document_of_its_shape() {
    let drill = plain();
    fn with<'a>(words: &[&'a str]) -> Vec<&'a str> {
        [words, &["--target", "drill"]].concat()
    }

    let empty = drill.status();
    conforms("status", &empty);
    assert_eq!(
        (&empty["state"], &empty["run"]),
        (&"empty".into(), &Value::Null)
    );
    let none = drill.json(0, &with(&["runs", "list"]));
    conforms("runs-list", &none);
    assert_eq!(none["runs"], Value::Array(Vec::new()));
    let first = drill.json(0, &with(&["preflight"]));
    conforms("preflight", &first);
    assert_eq!(first["verdict"], "first-build");

    let plan = drill.json(0, &with(&["plan"]));
    conforms("plan", &plan);
    let checked = drill.json(0, &["check"]);
    conforms("check", &checked);

    let up = drill.json(0, &with(&["up", "--no-pause"]));
    conforms("record", &up);
    assert_eq!(up["status"], "finished");
    let run = up["run"].as_str().expect("a run has an id").to_owned();
    let status = drill.status();
    conforms("status", &status);
    assert_eq!(
        (&status["state"], &status["last_known_good"]),
        (&"finished".into(), &run.as_str().into())
    );
    let clean = drill.json(0, &with(&["preflight"]));
    conforms("preflight", &clean);
    assert_eq!(clean["verdict"], "clean");
    let listed = drill.json(0, &with(&["runs", "list"]));
    conforms("runs-list", &listed);
    assert_eq!(listed["runs"][0]["run"], run.as_str());
    let shown = drill.json(0, &with(&["runs", "show", &run]));
    conforms("record", &shown);
    assert_eq!(shown["run"], run.as_str());
    let dry = drill.json(0, &with(&["down", "--dry-run"]));
    conforms("down-dry-run", &dry);
    assert_eq!(dry["steps"][0]["addresses"][0], "terraform_data.it");
    let down = drill.json(0, &with(&["down"]));
    conforms("record", &down);
    assert_eq!(down["status"], "torn-down");
    let again = drill.json(0, &with(&["down"]));
    conforms("record", &again);

    let stored = std::fs::read(drill.store().join("target.json")).expect("the target's own file");
    conforms(
        "target",
        &serde_json::from_slice(&stored).expect("it is JSON"),
    );
    let head = std::fs::read(drill.store().join("run/head.json")).expect("the head");
    conforms("head", &serde_json::from_slice(&head).expect("it is JSON"));
    let made = drill.json(0, &["init", "../other"]);
    conforms("init", &made);
}

/// The same for every command that fails, usage faults included; the exit code is in the document.
#[test]
fn every_command_that_fails_prints_one_document_too() {
    let drill = plain();
    let error = |code: i32, words: &[&str], about: &str| {
        let document = drill.json(code, words);
        conforms("error", &document);
        assert_eq!(document["error"]["exit"], code, "{document:#}");
        let text = document["error"].to_string();
        assert!(text.contains(about), "`{about}` is not in {text}");
    };
    error(2, &["up", "--target", "drill", "--nonsense"], "--nonsense");
    error(2, &["up"], "--target");
    error(2, &["serve"], "not there yet");
    error(2, &["up", "--target", "dril"], "drill");
    error(3, &["up", "--target", "drill", "--resume"], "unfinished");
    error(
        2,
        &[
            "runs",
            "show",
            "01JQ0000000000000000000001",
            "--target",
            "drill",
        ],
        "runs list",
    );
    error(3, &["unlock", "--target", "drill"], "lock");
    error(
        2,
        &["down", "--target", "drill", "--confirm", "live"],
        "--confirm live",
    );
    error(2, &["init", "."], "empty");
    drill.write("zero/main.tf", "variable \"wanted\" {}\n");
    error(2, &["up", "--target", "drill"], "wanted");
    error(2, &["preflight", "--target", "drill"], "wanted");
    let left = drill.world.files_with(&drill.store(), b"{");
    assert!(left.is_empty(), "nothing was begun: {left:?}");
}

/// Case N6: outside a platform nothing is acted on, and the error says what is missing.
#[test]
fn outside_a_platform_every_command_is_refused() {
    let drill = plain();
    let nowhere = drill.world.work();
    for words in [
        &["down", "--target", "drill"][..],
        &["up", "--target", "drill"],
        &["preflight", "--target", "drill"],
        &["status", "--target", "drill"],
        &["runs", "list", "--target", "drill"],
        &["unlock", "--target", "drill"],
    ] {
        let outcome = drill.rebuild(words).cwd(&nowhere).run();
        outcome.expect_code(2);
        assert!(
            outcome.stderr.contains("rebuild.toml") && outcome.stdout.is_empty(),
            "{outcome:?}"
        );
    }
    assert!(
        std::fs::read_dir(drill.world.state_home())
            .expect("the state home")
            .next()
            .is_none(),
        "nothing was made"
    );
    let found = drill
        .rebuild(&["status", "--target", "drill"])
        .cwd(drill.dir().join("zero"))
        .run();
    found.expect_code(0);
}

/// `--output ndjson`: every line is an event of the published shape, on success and on failure.
#[test]
fn every_event_is_a_line_of_a_published_shape() {
    let drill = plain();
    let told = |code: i32, words: &[&str]| {
        let mut words = words.to_vec();
        words.extend(["--target", "drill", "--output", "ndjson"]);
        let events = events(&drill.run(code, &words).stdout);
        assert_eq!(events.last().expect("the last one")["exit"], code);
        events
    };
    let up = told(0, &["up", "--no-pause"]);
    let names: Vec<&str> = up
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    for wanted in [
        "bundle",
        "tool",
        "locked",
        "preflight",
        "run",
        "phase",
        "step",
        "resource",
        "step-ended",
        "verified",
    ] {
        assert!(names.contains(&wanted), "no `{wanted}` in {names:?}");
    }
    let report = up
        .iter()
        .find(|event| event["event"] == "preflight")
        .expect("a report");
    conforms("preflight", &report["report"]);
    conforms("record", &up.last().expect("the last one")["document"]);
    conforms(
        "preflight",
        &told(0, &["preflight"]).last().expect("the last one")["document"],
    );
    conforms(
        "status",
        &told(0, &["status"]).last().expect("the last one")["document"],
    );
    drill.write(
        "zero/main.tf",
        "resource \"terraform_data\" \"it\" { input = file(\"absent\") }\n",
    );
    let failed = told(2, &["up", "--no-pause"]);
    assert!(
        failed.last().expect("the last one")["error"]["message"].is_string(),
        "{failed:?}"
    );
    told(0, &["down"]);
}

/// `runs list` and `runs show` tell of every run, the newest first.
#[test]
fn runs_are_listed_the_newest_first_and_each_can_be_shown() {
    let drill = plain();
    drill.up();
    drill.up();
    drill.run(0, &["down", "--target", "drill"]);
    let runs = drill.json(0, &["runs", "list", "--target", "drill"]);
    let ids: Vec<&str> = runs["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| run["run"].as_str().expect("an id"))
        .collect();
    let mut newest_first = ids.clone();
    newest_first.sort_unstable();
    newest_first.reverse();
    assert_eq!(ids, newest_first);
    assert!(ids.len() >= 2, "{ids:?}");
    for id in &ids {
        let shown = drill.run(0, &["runs", "show", id, "--target", "drill"]);
        assert!(shown.stdout.contains(id), "{shown:?}");
    }
    let listed = drill.run(0, &["runs", "list", "--target", "drill"]);
    assert_eq!(listed.stdout.lines().count(), ids.len(), "{listed:?}");
    // A record that can't be read harms no other.
    let damaged = drill.store().join(format!("run/{}.json", ids[1]));
    drill.world.write("damaged", "{");
    std::fs::copy(drill.world.work().join("damaged"), &damaged).expect("damage a record");
    let listed = drill.json(0, &["runs", "list", "--target", "drill"]);
    conforms("runs-list", &listed);
    assert!(listed["runs"][1]["error"].is_string(), "{listed:#}");
    assert!(listed["runs"][0]["status"].is_string(), "{listed:#}");
}

/// A lock whose holder can't be proven dead from here: `up` names the holder and the way on, `unlock` takes it
/// after a lease without life, and the next `up` works.
#[test]
fn a_lock_of_another_machine_is_named_and_removed_by_unlock_alone() {
    let drill = plain();
    drill.up();
    let lock = serde_json::json!({
        "schema": 1, "fence": 900, "beat": 3, "lease_ms": 300, "nonce": "0123456789abcdef0123456789abcdef",
        "holder": {
            "identity": {
                "machine_id": "another-machine", "boot_id": "b", "pid_namespace": "n", "pid": 7, "start_time": 1
            },
            "user": "ada", "host": "bench", "command": "up", "since": "2026-03-02T10:00:00Z"
        }
    });
    let path = drill.world.write("lock", &lock.to_string());
    std::fs::copy(path, drill.store().join("lock.json")).expect("somebody else's lock");

    let status = drill.status();
    conforms("status", &status);
    assert_eq!(status["lock"]["user"], "ada");
    let refused = drill.json(4, &["up", "--target", "drill", "--no-pause"]);
    conforms("error", &refused);
    let text = refused["error"].to_string();
    for wanted in ["ada on bench", "rebuild unlock --target drill"] {
        assert!(text.contains(wanted), "{text}");
    }
    let short = |words: &[&str]| {
        let outcome = drill.rebuild(words).env("__REBUILD_LEASE_MS", "300").run();
        outcome.expect_code(0);
        outcome
    };
    let unlocked = short(&["unlock", "--target", "drill", "--output", "json"]);
    let unlocked: Value = serde_json::from_str(&unlocked.stdout).expect("one document");
    conforms("unlock", &unlocked);
    assert!(
        unlocked["holder"]
            .as_str()
            .is_some_and(|holder| holder.contains("ada on bench")),
        "{unlocked:#}"
    );
    assert_eq!(drill.status()["lock"], Value::Null);
    let record = drill.json(0, &["up", "--target", "drill", "--no-pause"]);
    assert!(
        record["fence"].as_u64().is_some_and(|fence| fence > 900),
        "a later fence: {}",
        record["fence"]
    );
}

/// The lock of a call that shows life is not to be had: `up` and `unlock` both end with 4, and the call goes on.
#[test]
fn a_lock_that_is_renewed_is_not_removed() {
    let world = test_support::World::new();
    let (begun, goes_on) = (world.root().join("begun"), world.root().join("goes-on"));
    let module = format!(
        "resource \"terraform_data\" \"it\" {{\n  provisioner \"local-exec\" {{\n    command = \"touch {}; while [ ! -e {} ]; do sleep 0.05; done\"\n  }}\n}}\n",
        begun.display(),
        goes_on.display()
    );
    let drill = Drill::of(ONE_STEP, &[("zero", &module)]);
    let up = drill
        .rebuild(&["up", "--target", "drill", "--no-pause"])
        .env("__REBUILD_LEASE_MS", "1500")
        .start();
    wait_for("the apply", || begun.exists());
    let second = drill.run(4, &["up", "--target", "drill", "--no-pause"]);
    assert!(
        second.stderr.contains(&format!("pid {}", up.pid())),
        "{second:?}"
    );
    let refused = drill
        .rebuild(&["unlock", "--target", "drill"])
        .env("__REBUILD_LEASE_MS", "1500")
        .run();
    refused.expect_code(4);
    std::fs::File::create(&goes_on).expect("let it go on");
    up.wait().expect_code(0);
}

/// Waits for a condition, two minutes at most.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    process::wait::until(deadline, Duration::from_millis(20), || {
        holds().then_some(())
    })
    .unwrap_or_else(|| panic!("{what} did not come"));
}

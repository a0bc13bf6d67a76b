//! What a cut apply may have made and no state knows: it is named, it stops what would make it again, and each is
//! settled by one command. The cloud knows the truth.

use std::path::Path;

use rustix::process::{Signal, kill_process_group};
use serde_json::{Value, json};
use test_support::{Ended, Outcome};

use crate::cloud::Cloud;
use crate::drill::Drill;
use crate::gate::{await_group_gone, pid, touch, wait_for};

const PHASES: &str =
    "[[phase]]\nid = \"1a\"\ntitle = \"edge\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n";
const UP: [&str; 4] = ["up", "--target", "drill", "--no-pause"];
const RESUME: [&str; 5] = ["up", "--target", "drill", "--no-pause", "--resume"];
const PASSPHRASE: &str = "a passphrase of the tests";

/// A drill with one object, whose creation never ends by itself.
struct Cut {
    drill: Drill,
    cloud: Cloud,
}

impl Cut {
    /// Kills OpenTofu and its provider while the object is there and no state knows it; where `all`, `rebuild` too.
    fn new(target: &str, all: bool) -> Self {
        let world = test_support::World::new();
        let never = world.root().join("never");
        let body = format!(
            "resource \"test_object\" \"a\" {{\n  name  = \"a\"\n  waits = \"{}\"\n}}\n",
            never.display()
        );
        let (drill, cloud) = Cloud::drill(PHASES, &[("edge", &body)]);
        drill.write("targets/drill.toml", target);
        let scene = Self { drill, cloud };
        let up = scene.command(&UP).start();
        let sign = scene.cloud.file("a.creating");
        let provider = wait_for("the creation", || {
            std::fs::read_to_string(&sign).ok()?.parse::<i32>().ok()
        });
        // What is planned is in the record as soon as it was read.
        wait_for("the planned creation in the record", || {
            let record = scene.record();
            record["steps"][0]["planned"]["changes"][0]["address"]
                .is_string()
                .then_some(())
        });
        let group = rustix::process::getpgid(Some(pid(provider))).expect("a living provider");
        if all {
            up.signal(Signal::KILL);
        }
        kill_process_group(group, Signal::KILL).expect("kill tofu");
        await_group_gone(group);
        let ended = up.wait();
        if all {
            assert_eq!(ended.ended, Ended::Signal(9));
        } else {
            ended.expect_code(1);
        }
        assert_eq!(scene.cloud.calls(), ["create a"]);
        // From now on a creation would end.
        touch(&never);
        std::mem::forget(world);
        scene
    }

    fn command(&self, args: &[&str]) -> test_support::Command {
        self.drill
            .rebuild(args)
            .env("REBUILD_PASSPHRASE", PASSPHRASE)
            .env("__REBUILD_LEASE_MS", "500")
    }

    fn run(&self, code: i32, args: &[&str]) -> Outcome {
        let outcome = self.command(args).run();
        outcome.expect_code(code);
        outcome
    }

    fn suspects(&self, code: i32, more: &[&str]) -> Outcome {
        let mut args = vec!["suspects", "--target", "drill"];
        args.extend(more);
        self.run(code, &args)
    }

    fn listed(&self, more: &[&str]) -> Value {
        let mut all = vec!["--output", "json"];
        all.extend(more);
        let outcome = self.suspects(0, &all);
        serde_json::from_str(&outcome.stdout).expect("a document")
    }

    fn record(&self) -> Value {
        let status = self.run(0, &["status", "--target", "drill", "--output", "json"]);
        let status: Value = serde_json::from_str(&status.stdout).expect("a document");
        status["run"].clone()
    }
}

/// Cases R4, R11: an object that was made and is in no state is taken into it by one command, and not made again.
#[test]
fn what_exists_is_imported_and_never_made_again() {
    for all in [false, true] {
        let scene = Cut::new("", all);
        let listed = scene.listed(&[]);
        let suspect = &listed["suspects"][0];
        assert_eq!(suspect["address"], "test_object.a", "{listed:#}");
        assert_eq!(suspect["step"], "1a.edge");
        assert_eq!(suspect["provider"], "test");
        assert!(suspect["host"].is_string() && suspect["since"].is_string());
        assert_eq!(listed["suspects"].as_array().expect("a list").len(), 1);
        for args in [&RESUME[..], &["preflight", "--target", "drill"]] {
            let stopped = scene.run(3, args);
            let said = format!("{}{}", stopped.stdout, stopped.stderr);
            assert!(said.contains("`test_object.a` of step `1a.edge`"), "{said}");
        }
        let stopped = scene.run(3, &RESUME);
        assert!(
            stopped.stderr.contains("`rebuild suspects --target drill`"),
            "{}",
            stopped.stderr
        );
        // No such object: nothing is settled by a typing error.
        let refused = scene.suspects(1, &["--import", "test_object.a=other"]);
        assert!(
            refused.stderr.contains("non-existent"),
            "{}",
            refused.stderr
        );
        assert_eq!(scene.listed(&[])["suspects"][0]["address"], "test_object.a");
        let settled = scene.listed(&["--import", "test_object.a=a"]);
        assert_eq!(
            settled["settled"],
            json!([{ "step": "1a.edge", "address": "test_object.a", "how": "imported" }])
        );
        assert_eq!(settled["suspects"], json!([]));
        assert_eq!(
            settled["next"],
            json!(["rebuild up --target drill --resume"])
        );
        let record = scene.record();
        assert_eq!(record["decisions"][0]["kind"], "import", "{record:#}");
        assert_eq!(record["decisions"][0]["about"], "1a.edge:test_object.a=a");
        scene.run(0, &RESUME);
        assert_eq!(scene.cloud.calls(), ["create a", "update a"]);
        scene.run(0, &["preflight", "--target", "drill"]);
        scene.run(0, &["down", "--target", "drill"]);
        assert!(!scene.cloud.has("a"));
    }
}

/// Cases R4, R11: what somebody looked for and did not find is made anew.
#[test]
fn what_is_gone_is_made_anew() {
    let scene = Cut::new("", false);
    scene.cloud.delete("a");
    for wrong in [
        ["--gone", "test_object.b"],
        ["--gone", "1a.edge"],
        ["--import", "test_object.b=b"],
        ["--import", "test_object.a"],
    ] {
        let refused = scene.suspects(2, &wrong);
        assert!(
            refused.stderr.contains("nothing was changed"),
            "{}",
            refused.stderr
        );
    }
    let settled = scene.suspects(0, &["--gone", "test_object.a"]);
    assert_eq!(
        settled.stdout,
        "gone: test_object.a of step 1a.edge\ndrill: nothing is suspected\nnext\n  rebuild up --target drill --resume\n"
    );
    scene.run(0, &RESUME);
    assert_eq!(scene.cloud.calls(), ["create a", "create a"]);
    assert_eq!(scene.record()["decisions"][0]["kind"], "gone");
}

/// Case R4: a protected target is not torn down past what may exist in no state; one that is not protected is.
#[test]
fn a_protected_target_is_not_torn_down_past_a_suspect() {
    let encrypted = "[encryption]\npassphrase = { env = \"REBUILD_PASSPHRASE\" }\n";
    let scene = Cut::new(&format!("protected = true\n{encrypted}"), true);
    let stopped = scene.run(3, &["down", "--confirm", "drill"]);
    assert!(
        stopped.stderr.contains("`rebuild suspects --target drill`"),
        "{}",
        stopped.stderr
    );
    assert!(scene.cloud.has("a"));
    scene.suspects(0, &["--import", "1a.edge:test_object.a=a"]);
    scene.run(0, &["down", "--confirm", "drill"]);
    assert!(!scene.cloud.has("a"));
}

/// Cases R4, L6: a machine is lost in the middle of an apply. What it was known to make is suspect, and so is the step:
/// what else it was to make was not known yet. Both have a way on.
#[test]
fn what_a_lost_machine_was_making_is_settled_elsewhere() {
    let scene = Cut::new("", true);
    let drill = &scene.drill;
    let far = |identity: &mut Value| {
        identity["machine_id"] = "another-machine".into();
    };
    change(&drill.store().join("lock.json"), |lock| {
        far(&mut lock["holder"]["identity"]);
        lock["holder"]["host"] = "faraway".into();
    });
    change(&drill.store().join("lock/1a/edge"), |lock| {
        far(&mut lock["writer"]["identity"]);
        lock["writer"]["host"] = "faraway".into();
    });
    let records = drill.store().join("run");
    for entry in std::fs::read_dir(records).expect("records") {
        let path = entry.expect("an entry").path();
        if !path.ends_with("head.json") {
            change(&path, |record| {
                record["steps"][0]["host"] = "faraway".into()
            });
        }
    }
    std::fs::remove_dir_all(drill.work()).expect("this machine knows nothing of it");
    scene.run(0, &["unlock", "--target", "drill"]);
    for args in [&RESUME[..], &["suspects", "--target", "drill"]] {
        let stopped = scene.run(3, args);
        assert!(
            stopped
                .stderr
                .contains("`rebuild suspects --target drill --lost-host faraway`"),
            "{}",
            stopped.stderr
        );
    }
    let listed = scene.listed(&["--lost-host", "faraway"]);
    let suspects = listed["suspects"].as_array().expect("a list");
    let mut addresses: Vec<&Value> = suspects.iter().map(|one| &one["address"]).collect();
    addresses.sort_by_key(|address| address.is_null());
    assert_eq!(
        addresses,
        [&json!("test_object.a"), &Value::Null],
        "{listed:#}"
    );
    assert!(suspects.iter().all(|one| one["host"] == "faraway"));
    scene.suspects(0, &["--import", "test_object.a=a"]);
    let stopped = scene.run(3, &RESUME);
    assert!(
        stopped.stderr.contains("anything of step `1a.edge`"),
        "{}",
        stopped.stderr
    );
    scene.suspects(0, &["--gone", "1a.edge"]);
    scene.run(0, &RESUME);
    assert_eq!(scene.cloud.calls(), ["create a", "update a"]);
}

/// Cases R4, R11: an apply is killed behind or in the making of what takes the place of another object. Its state has that
/// one under the address, and the new one is named all the same, with its id where that was told. Imported it can't be: it
/// is removed, and made anew.
#[test]
fn what_a_killed_replacement_made_is_named_though_its_state_has_the_address() {
    for is_made in [true, false] {
        let body = |name: &str, more: &str| {
            format!(
                "resource \"test_object\" \"a\" {{\n  name = \"{name}\"\n{more}  lifecycle {{\n    create_before_destroy = true\n  }}\n}}\n"
            )
        };
        let (drill, cloud) = Cloud::drill(PHASES, &[("edge", &body("one", ""))]);
        drill.run(0, &UP);
        let may_end = drill.world.root().join("may-end");
        let (waits, point) = if is_made {
            (String::new(), "answer.before POST 1a/edge")
        } else {
            let waits = format!("  waits = \"{}\"\n", may_end.display());
            (waits, "child.event tofu apply apply_start test_object.a")
        };
        drill.write("edge/main.tf", &cloud.module(&body("two", &waits)));
        let up = drill
            .rebuild(&UP)
            .env(fault::VARIABLE, format!("hurt=kill-all@{point}#1"));
        assert_eq!(up.run().ended, Ended::Signal(9));
        touch(&may_end);
        let listed = drill.json(0, &["suspects", "--target", "drill"]);
        let suspect = &listed["suspects"][0];
        assert_eq!(suspect["address"], "test_object.a", "{listed:#}");
        let id = if is_made { json!("two") } else { Value::Null };
        assert_eq!((&suspect["id"], &suspect["was"]), (&id, &json!("one")));
        assert_eq!(
            listed["next"],
            json!(["rebuild suspects --target drill --gone test_object.a"])
        );
        let stopped = drill.run(3, &RESUME).stderr;
        assert!(stopped.contains("removed by hand"), "{stopped}");
        // It is not let go because somebody looks once more.
        drill.run(3, &["preflight", "--target", "drill"]);
        let settle = |code, more: &[&str]| {
            let words = ["suspects", "--target", "drill"];
            drill.run(code, &[&words, more].concat()).stderr
        };
        let refused = settle(2, &["--import", "test_object.a=two"]);
        assert!(refused.contains("its id is `one`"), "{refused}");
        if cloud.has("two") {
            cloud.delete("two");
        }
        settle(0, &["--gone", "test_object.a"]);
        drill.run(0, &RESUME);
        assert!(cloud.has("two") && !cloud.has("one"));
        drill.run(0, &["preflight", "--target", "drill"]);
        drill.run(0, &["down", "--target", "drill"]);
        assert!(!cloud.has("two"));
    }
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value =
        serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    change(&mut value);
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(path, value.to_string()).expect("a file written");
}

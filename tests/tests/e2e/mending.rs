//! `repair` and `accept`: drift has ways on besides teardown.

use serde_json::Value;

use crate::cloud::Cloud;
use crate::drill::Drill;
use crate::gate::{PASSPHRASE, wait_for};
use crate::stage::Stage;

const PHASE: &str = "[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n";

const PROTECTED: &str =
    "protected = true\n[encryption]\npassphrase = { env = \"REBUILD_PASSPHRASE\" }\n";

fn objects(names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        text.push_str(&format!(
            "resource \"test_object\" \"{name}\" {{\n  name = \"{name}\"\n  content = \"as written\"\n}}\n"
        ));
    }
    text.push_str("output \"content\" { value = test_object.a.content }\n");
    text
}

fn edge(names: &[&str]) -> (Drill, Cloud) {
    Cloud::drill(PHASE, &[("edge", &objects(names))])
}

fn preflight(drill: &Drill, code: i32) -> Value {
    drill.json(code, &["preflight", "--target", "drill"])
}

fn repair(drill: &Drill, code: i32, more: &[&str]) -> String {
    let mut args = vec!["repair", "1", "--target", "drill"];
    args.extend(more);
    drill.run(code, &args).stderr
}

fn accept(drill: &Drill, code: i32, more: &[&str]) -> String {
    let mut args = vec![
        "accept",
        "1",
        "--target",
        "drill",
        "--reason",
        "it is wanted",
    ];
    args.extend(more);
    drill.run(code, &args).stderr
}

/// `repair` applies what was last applied, not what is written today, and what it did is in `runs show`.
#[test]
fn repair_brings_the_world_back_to_what_was_applied() {
    let (drill, cloud) = edge(&["a", "b"]);
    drill.up();
    let run = drill.status()["run"]["run"].as_str().unwrap().to_owned();
    // Nothing to repair: nothing is recorded.
    for said in [repair(&drill, 0, &[]), accept(&drill, 0, &[])] {
        assert!(
            said.contains("phase `1` is as it was applied: nothing to"),
            "{said}"
        );
    }
    assert_eq!(drill.status()["run"]["calls"].as_array().unwrap().len(), 1);

    cloud.set("a", "content", "somebody else's");
    cloud.delete("b");
    // Today's definitions want something else again; and a fault in them is in nobody's way.
    drill.write("edge/main.tf", &cloud.module(&objects(&["a", "b", "c"])));
    let said = drill
        .run(3, &["up", "--target", "drill", "--no-pause"])
        .stderr;
    assert!(
        said.contains("rebuild repair 1") && said.contains("rebuild accept 1"),
        "{said}"
    );
    repair(&drill, 0, &[]);
    assert_eq!(cloud.object("a")["content"], "as written");
    assert!(cloud.has("b") && !cloud.has("c"));
    preflight(&drill, 0);
    let status = drill.status();
    assert_eq!(status["state"], "finished");
    assert_eq!(status["run"]["calls"][1]["command"], "repair");
    assert_eq!(status["run"]["calls"][1]["exit"], 0);
    let shown = drill
        .run(0, &["runs", "show", &run, "--target", "drill"])
        .stdout;
    assert!(shown.contains("repair"), "{shown}");
    drill.up();
    assert!(cloud.has("c"));
}

/// On a protected target a repair that replaces needs the consent that any plan needs.
#[test]
fn repair_is_guarded() {
    let (drill, cloud) = edge(&["a"]);
    drill.write("targets/drill.toml", PROTECTED);
    let run = |code, args: &[&str]| {
        let outcome = drill
            .rebuild(args)
            .env("REBUILD_PASSPHRASE", PASSPHRASE)
            .run();
        outcome.expect_code(code);
        outcome.stderr
    };
    let module = |name: &str| {
        cloud.module(&format!(
            "resource \"terraform_data\" \"it\" {{\n  triggers_replace = [data.test_object.of.content]\n}}\n\
             data \"test_object\" \"of\" {{ name = \"{name}\" }}\noutput \"content\" {{ value = 1 }}\n"
        ))
    };
    cloud.make(
        "outside",
        serde_json::json!({ "name": "outside", "content": "one" }),
    );
    drill.write("edge/main.tf", &module("outside"));
    run(0, &["up", "--target", "drill", "--no-pause"]);
    cloud.set("outside", "content", "two");
    let said = run(5, &["repair", "1", "--target", "drill"]);
    assert!(said.contains("terraform_data.it"), "{said}");
    run(
        2,
        &["repair", "1", "--target", "drill", "--allow-destroy", "2"],
    );
    run(
        0,
        &["repair", "1", "--target", "drill", "--allow-destroy", "1"],
    );
    run(0, &["preflight", "--target", "drill"]);
    let record = drill.status()["run"].clone();
    let kinds: Vec<&Value> = (0..2).map(|n| &record["decisions"][n]["kind"]).collect();
    assert_eq!(kinds, ["repair", "allow-destroy"]);
}

/// A repair that is cut is taken up by the next one; until then nothing else changes the target.
#[test]
fn a_repair_that_was_killed_goes_on() {
    let (drill, cloud) = edge(&["a"]);
    let gate = drill.world.root().join("gate");
    let waits = format!(
        "resource \"test_object\" \"slow\" {{\n  name = \"slow\"\n  waits = \"{}\"\n}}\n",
        gate.display()
    );
    drill.write("edge/main.tf", &cloud.module(&(objects(&["a"]) + &waits)));
    std::fs::write(&gate, "").unwrap();
    drill.up();
    cloud.delete("slow");
    std::fs::remove_file(&gate).unwrap();
    let started = drill.rebuild(&["repair", "1", "--target", "drill"]).start();
    let creating = cloud.file("slow.creating");
    wait_for("the creation in a repair", || {
        creating.exists().then_some(())
    });
    started.signal(rustix::process::Signal::KILL);
    assert_eq!(started.wait().ended, test_support::Ended::Signal(9));
    std::fs::write(&gate, "").unwrap();
    // Whatever comes next waits for the child, and finds its state.
    preflight(&drill, 3);
    repair(&drill, 0, &[]);
    assert!(cloud.has("slow"));
    assert_eq!(
        cloud
            .calls()
            .iter()
            .filter(|call| *call == "create slow")
            .count(),
        2,
        "it was made once, and once again after it was gone"
    );
    preflight(&drill, 0);
    drill.run(0, &["down", "--target", "drill"]);
    assert!(!cloud.has("slow") && !cloud.has("a"));
}

/// `accept` takes drift as it is: attributes, objects that are gone, and outputs.
#[test]
fn accept_takes_the_world_as_it_is() {
    let (drill, cloud) = edge(&["a", "b"]);
    drill.up();
    cloud.set("a", "content", "by hand");
    cloud.delete("b");
    preflight(&drill, 3);
    accept(&drill, 0, &[]);
    assert!(!cloud.has("b"), "accept makes nothing");
    assert_eq!(cloud.object("a")["content"], "by hand");
    preflight(&drill, 0);
    let record = drill.status()["run"].clone();
    assert_eq!(record["standing"][0]["outputs"]["content"], "by hand");
    assert_eq!(record["decisions"][0]["kind"], "accept");
    assert_eq!(record["decisions"][0]["reason"], "it is wanted");
    // The definitions still want what they wanted: that is a change, and no drift.
    let plan = drill.json(6, &["plan", "--target", "drill", "--detailed-exitcode"]);
    assert_eq!(plan["phases"][0]["steps"][0]["counts"]["create"], 1);
    drill.run(2, &["accept", "1", "--target", "drill"]);
    drill.run(2, &["accept", "1", "--target", "drill", "--reason", " "]);
    drill.run(2, &["accept", "9", "--target", "drill", "--reason", "x"]);
}

/// Case D7: objects that all seem to be gone are never given up by themselves, by neither command.
#[test]
fn a_service_that_can_not_be_reached_is_never_accepted_or_repaired_by_itself() {
    let (drill, cloud) = edge(&["a", "b", "c"]);
    drill.up();
    cloud.answer("gone");
    for said in [repair(&drill, 5, &[]), accept(&drill, 5, &[])] {
        assert!(said.contains("can't be reached"), "{said}");
    }
    cloud.recover();
    preflight(&drill, 0);
    assert_eq!(cloud.calls().len(), 3);
}

/// A state that somebody wrote by hand stops everything; `accept` takes it, `repair` does not. One of another lineage
/// is taken by nobody.
#[test]
fn a_state_written_by_hand_is_accepted_if_it_is_of_the_lineage() {
    let (drill, _) = edge(&["a"]);
    drill.up();
    let path = drill.store().join("state/1/edge");
    let good = std::fs::read(&path).unwrap();
    write_state(&drill, |state| {
        state["serial"] = 7.into();
    });
    preflight(&drill, 3);
    let said = repair(&drill, 3, &[]);
    assert!(said.contains("rebuild accept 1"), "{said}");
    accept(&drill, 0, &[]);
    preflight(&drill, 0);
    assert_eq!(drill.status()["run"]["standing"][0]["state"]["serial"], 7);
    write_state(&drill, |state| state["lineage"] = "another".into());
    accept(&drill, 3, &[]);
    std::fs::remove_file(&path).unwrap();
    accept(&drill, 3, &[]);
    repair(&drill, 3, &[]);
    std::fs::write(&path, good).unwrap();
}

/// Writes a step's state as a program that knows the store's form would.
fn write_state(drill: &Drill, change: impl FnOnce(&mut Value)) {
    let path = drill.store().join("state/1/edge");
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let mut header: Value = serde_json::from_slice(&bytes[..at]).unwrap();
    let mut state: Value = serde_json::from_slice(&bytes[at + 1..]).unwrap();
    change(&mut state);
    let state = state.to_string().into_bytes();
    header["lineage"] = state_value(&state, "lineage");
    header["serial"] = state_value(&state, "serial");
    header["digest"] = store::sha256_hex(&state).into();
    let mut file = header.to_string().into_bytes();
    file.push(b'\n');
    file.extend(state);
    std::fs::write(&path, file).unwrap();
}

fn state_value(state: &[u8], name: &str) -> Value {
    let state: Value = serde_json::from_slice(state).unwrap();
    state[name].clone()
}

/// A program is applied again where its verify fails, and a run that failed on a re-verify goes on after it.
#[test]
fn repair_of_a_program_lets_the_run_go_on() {
    let stage = Stage::empty();
    let exec = stage.exec("prog");
    let two = format!(
        "[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"prog\"\n{exec}{}",
        stage.phase("2", "app")
    );
    stage.define(&two);
    stage.up_to(0, &["--through", "1"]);
    stage.forget_book();
    stage.on("verify-prog");
    let said = stage.up_to(3, &["--resume"]);
    assert!(said.contains("rebuild repair 1"), "{said}");
    // The program alone can't help: it says so, and the phase stays as it is.
    stage.run(1, &["repair", "1", "--target", "drill"]);
    assert_eq!(stage.book(), ["create prog"]);
    // One that failed stands in the way of the run until it ends well.
    stage.on("apply-prog");
    stage.run(1, &["repair", "1", "--target", "drill"]);
    let said = stage.up_to(3, &["--resume"]);
    assert!(said.contains("has not come to a good end"), "{said}");
    stage.off("apply-prog");
    stage.off("verify-prog");
    stage.run(0, &["repair", "1", "--target", "drill"]);
    stage.forget_book();
    stage.up_to(0, &["--resume"]);
    assert!(!stage.book().contains(&"create prog".to_owned()));
    assert_eq!(stage.status()["state"], "finished");
}

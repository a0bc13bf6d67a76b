//! `rebuild` killed by SIGKILL in the middle of an apply or a destroy, then at once the next call.

use rustix::process::{Signal, kill_process_group};
use serde_json::Value;
use test_support::{Ended, Outcome};

use crate::gate::{Scene, await_group_gone, step};

/// Kills the call at the gate; its child lives on.
fn kill(scene: &Scene, started: test_support::Started) {
    let group = scene.gate.group();
    started.signal(Signal::KILL);
    assert_eq!(started.wait().ended, Ended::Signal(9));
    let children = scene.drill.noted_children();
    assert_eq!(children, [group], "the next call can't know who lives on");
}

/// Runs a call that has to wait for the child of a killed one; the gate opens once it says so.
fn run_while_the_child_lives(scene: &Scene, args: &[&str]) -> Outcome {
    let group = scene.gate.group();
    let mut terminal = scene.command(args).in_terminal();
    terminal
        .expect("waiting for the end of process")
        .expect("which an earlier call started on step `0.slow`");
    assert!(!crate::gate::group_is_gone(group), "the child was killed");
    scene.gate.open();
    let outcome = terminal.wait();
    outcome.expect_code(0);
    outcome
}

fn expect_cut_then_resumed(record: &Value, first: &str) {
    let calls = record["calls"].as_array().expect("calls");
    assert_eq!(calls.len(), 2, "{record:#}");
    assert_eq!(calls[0]["command"], first);
    assert!(
        calls[0]["ended"].is_null() && calls[0]["exit"].is_null(),
        "a call that was cut has no end"
    );
    assert_eq!(calls[1]["command"], "resume");
    assert_eq!(calls[1]["exit"], 0);
}

fn first_apply(scene: &Scene) {
    let started = scene.start_creating(&["up"]);
    kill(scene, started);
    let status = scene.drill.status();
    assert_eq!(status["state"], "unfinished");
    assert_eq!(
        status["run"]["status"], "interrupted",
        "nobody runs it any more"
    );
    let said = run_while_the_child_lives(scene, &["up", "--resume"]);
    assert!(
        said.stdout.contains("was brought to the store"),
        "{}",
        said.stdout
    );
    assert_eq!(scene.gate.n_made(), 1, "made twice");
    scene.expect_built();
    let record = scene.drill.record();
    expect_cut_then_resumed(&record, "up");
    assert_eq!(step(&record, "0.slow")["status"], "verified");
    assert_eq!(record["suspects"], serde_json::json!([]));
    scene.expect_down();
}

/// Cases N1, N2, E10, R2: SIGKILL of `rebuild` alone in a target's very first apply, then at once `up --resume`.
#[test]
fn the_first_apply_of_all_outlives_its_caller() {
    first_apply(&Scene::clear());
}

/// Cases N1, N2, E10, R2: the same with an encrypted state, whose `errored.tfstate` OpenTofu itself can't push.
#[test]
fn the_first_apply_of_an_encrypted_target_outlives_its_caller() {
    first_apply(&Scene::encrypted());
}

fn later_apply(scene: &Scene) {
    scene.run(0, &["up"]);
    scene.drill.write(
        "slow/main.tf",
        &scene.gate.module_and("  triggers_replace = 2"),
    );
    let started = scene.start_destroying(&["up"]);
    kill(scene, started);
    run_while_the_child_lives(scene, &["up", "--resume"]);
    assert_eq!(
        (scene.gate.n_made(), scene.gate.n_gone()),
        (2, 1),
        "replaced once"
    );
    // The destroy of the old one takes the file away before the new one makes it again.
    scene.expect_built();
    expect_cut_then_resumed(&scene.drill.record(), "up");
    scene.expect_down();
}

/// Cases N1, N2, R2: SIGKILL of `rebuild` alone in a later apply.
#[test]
fn a_later_apply_outlives_its_caller() {
    later_apply(&Scene::clear());
}

/// Cases N1, N2, R2: SIGKILL of `rebuild` alone in a later apply of an encrypted target.
#[test]
fn a_later_apply_of_an_encrypted_target_outlives_its_caller() {
    later_apply(&Scene::encrypted());
}

/// Cases N1, N2: SIGKILL of `rebuild` alone, then `down` instead of `up --resume`.
#[test]
fn down_after_a_killed_up_waits_for_the_child_and_takes_away_what_it_made() {
    let scene = Scene::encrypted();
    let started = scene.start_creating(&["up"]);
    kill(&scene, started);
    run_while_the_child_lives(&scene, &["down"]);
    assert_eq!((scene.gate.n_made(), scene.gate.n_gone()), (1, 1));
    scene.expect_gone();
}

/// Cases N1, N2, T3: SIGKILL of `rebuild` alone in a destroy.
#[test]
fn a_destroy_outlives_its_caller() {
    let scene = Scene::encrypted();
    scene.run(0, &["up"]);
    let started = scene.start_destroying(&["down"]);
    kill(&scene, started);
    assert_eq!(scene.drill.status()["state"], "tearing-down");
    run_while_the_child_lives(&scene, &["down"]);
    assert_eq!(scene.gate.n_gone(), 1, "gone twice");
    scene.expect_gone();
}

/// Cases R4, R11, L6: SIGKILL of `tofu` and all it started; `rebuild` lives.
#[test]
fn what_a_killed_tofu_was_making_is_a_suspect() {
    let scene = Scene::encrypted();
    let started = scene.start_creating(&["up"]);
    kill_process_group(scene.gate.group(), Signal::KILL).expect("kill tofu");
    let failed = started.wait();
    failed.expect_code(1);
    assert!(
        failed.stderr.contains("`terraform_data.slow`"),
        "{}",
        failed.stderr
    );
    scene.drill.expect_nothing_left_of_the_call();
    expect_suspect(&scene);
}

/// Cases R4, L6, N1: SIGKILL of `rebuild`, `tofu` and all it started.
#[test]
fn what_a_killed_call_and_its_killed_tofu_were_making_is_a_suspect() {
    let scene = Scene::encrypted();
    let started = scene.start_creating(&["up"]);
    let group = scene.gate.group();
    started.signal(Signal::KILL);
    kill_process_group(group, Signal::KILL).expect("kill tofu");
    assert_eq!(started.wait().ended, Ended::Signal(9));
    await_group_gone(group);
    expect_suspect(&scene);
}

/// `up --resume` stops on the suspect, each time, and preflight names it.
fn expect_suspect(scene: &Scene) {
    for _ in 0..2 {
        let stopped = scene.run(3, &["up", "--resume"]);
        assert!(
            stopped
                .stderr
                .contains("`terraform_data.slow` of step `0.slow`"),
            "{}",
            stopped.stderr
        );
    }
    let record = scene.drill.record();
    assert_eq!(record["suspects"][0]["step"], "0.slow", "{record:#}");
    assert_eq!(record["suspects"][0]["address"], "terraform_data.slow");
    assert_eq!(scene.gate.n_made(), 1, "made again beside a suspect");
    // Nothing of it is in a state: only a residue probe could find the object.
    scene.gate.open();
    scene.run(0, &["down"]);
    assert_eq!(scene.drill.status()["state"], "empty");
    assert_eq!(scene.drill.record()["suspects"], serde_json::json!([]));
    scene.drill.expect_nothing_left_of_the_call();
}

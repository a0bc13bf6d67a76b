//! `rebuild` asked to stop by signals in the middle of an apply or a destroy.

use rustix::process::Signal;
use serde_json::Value;

use crate::gate::{Scene, await_group_gone, group_is_gone, is_alive, step, wait_for};

/// What is said to each signal, as a person reads it.
pub(crate) const FIRST: &str = "stopping: nothing new is started";
const SECOND: &str = "interrupting what runs";
const THIRD: &str = "killing what runs";

fn interrupted(record: &Value, step_status: &str, phase_status: &str) {
    assert_eq!(record["status"], "interrupted", "{record:#}");
    let calls = record["calls"].as_array().expect("calls");
    let last = calls.last().expect("a call");
    assert_eq!(last["exit"], 130);
    assert!(last["ended"].is_string());
    assert_eq!(step(record, "0.slow")["status"], step_status, "{record:#}");
    assert_eq!(record["phases"][0]["status"], phase_status, "{record:#}");
}

/// Cases S1, S2, S6: Ctrl-C at the terminal, which signals its whole foreground group. The child has a group of its own.
#[test]
fn the_first_ctrl_c_lets_the_running_step_end() {
    let scene = Scene::encrypted();
    scene.gate.hold();
    let mut terminal = scene.command(&["up"]).in_terminal();
    scene.gate.await_creating();
    let group = scene.gate.group();
    terminal.send("\x03").expect(FIRST);
    assert!(!group_is_gone(group), "the child got the terminal's signal");
    scene.gate.open();
    terminal.wait().expect_code(130);
    await_group_gone(group);
    scene.drill.expect_nothing_left_of_the_call();
    interrupted(&scene.drill.record(), "succeeded", "interrupted");
    assert!(
        scene.gate.stands() && !scene.marker.exists(),
        "phase 1 was begun"
    );
    scene.run(0, &["up", "--resume"]);
    assert_eq!(scene.gate.n_made(), 1, "made twice");
    scene.expect_built();
    scene.expect_down();
}

/// Cases S1, S2, R3: the second Ctrl-C sends one SIGINT; what it tainted is not replaced without a word.
#[test]
fn the_second_ctrl_c_interrupts_and_what_it_tainted_needs_a_person() {
    let scene = Scene::encrypted();
    scene.gate.hold();
    let mut terminal = scene.command(&["up"]).in_terminal();
    scene.gate.await_creating();
    let group = scene.gate.group();
    terminal
        .send("\x03")
        .expect(FIRST)
        .send("\x03")
        .expect(SECOND);
    terminal.wait().expect_code(130);
    await_group_gone(group);
    scene.drill.expect_nothing_left_of_the_call();
    let record = scene.drill.record();
    interrupted(&record, "interrupted", "interrupted");
    assert_eq!(
        record["suspects"],
        serde_json::json!([]),
        "it is in the state, tainted: {record:#}"
    );
    scene.gate.open();
    for _ in 0..2 {
        let declined = scene.run(5, &["up", "--resume"]);
        assert!(
            declined.stderr.contains("`terraform_data.slow`"),
            "{}",
            declined.stderr
        );
        assert!(declined.stderr.contains("tainted"), "{}", declined.stderr);
    }
    assert_eq!(scene.gate.n_made(), 1, "replaced without a word");
    scene.run(0, &["down"]);
    // Provisioners of a tainted object are not run when it goes: the file stays, the state does not.
    assert_eq!(scene.drill.status()["state"], "empty");
    scene.drill.expect_nothing_left_of_the_call();
}

/// Cases S1, S6, S7, L6: the third Ctrl-C kills the whole group, with what ignores every gentler signal.
#[test]
fn the_third_ctrl_c_kills_the_whole_group() {
    let scene = Scene::encrypted();
    scene
        .drill
        .write("slow/main.tf", &scene.gate.stubborn_module());
    let mut started = scene.start_creating(&["up"]);
    let group = scene.gate.group();
    let grandchild = scene.gate.pid();
    for said in [FIRST, SECOND, THIRD] {
        started.signal(Signal::INT);
        started.expect_stderr(said);
    }
    let ended = started.wait();
    ended.expect_code(130);
    assert!(
        group_is_gone(group),
        "something of the group lives when `rebuild` has ended"
    );
    assert!(!is_alive(grandchild));
    scene.drill.expect_nothing_left_of_the_call();
    let record = scene.drill.record();
    interrupted(&record, "interrupted", "interrupted");
    assert_eq!(
        record["suspects"][0]["address"], "terraform_data.slow",
        "{record:#}"
    );
    let stopped = scene.run(3, &["up", "--resume"]);
    assert!(
        stopped
            .stderr
            .contains("`terraform_data.slow` of step `0.slow`"),
        "{}",
        stopped.stderr
    );
    scene.gate.open();
    scene.run(0, &["down"]);
    assert_eq!(scene.drill.status()["state"], "empty");
    scene.drill.expect_nothing_left_of_the_call();
}

/// Cases S3, N1: SIGTERM is the first Ctrl-C.
#[test]
fn sigterm_lets_the_running_step_end() {
    let scene = Scene::clear();
    let mut started = scene.start_creating(&["up"]);
    let group = scene.gate.group();
    started.signal(Signal::TERM);
    started.expect_stderr(FIRST);
    assert!(!group_is_gone(group));
    scene.gate.open();
    started.wait().expect_code(130);
    scene.drill.expect_nothing_left_of_the_call();
    interrupted(&scene.drill.record(), "succeeded", "interrupted");
    scene.run(0, &["up", "--resume"]);
    assert_eq!(scene.gate.n_made(), 1, "made twice");
    scene.expect_built();
}

/// Case S3: after the grace of a stop, one SIGINT comes by itself.
#[test]
fn a_spent_grace_is_one_interrupt() {
    let scene = Scene::clear();
    let started = scene.start_creating(&["up", "--grace", "1s"]);
    let group = scene.gate.group();
    started.signal(Signal::TERM);
    // The gate stays held: only the interrupt ends it.
    started.wait().expect_code(130);
    await_group_gone(group);
    scene.drill.expect_nothing_left_of_the_call();
    interrupted(&scene.drill.record(), "interrupted", "interrupted");
    scene.gate.open();
    scene.run(5, &["up", "--resume"]);
    scene.run(0, &["down"]);
    assert!(scene.drill.states().is_empty());
}

/// Cases S3, N1: SIGHUP lets the phase at hand end, verified, then pauses.
#[test]
fn sighup_finishes_the_phase_and_pauses() {
    let scene = Scene::clear();
    let mut started = scene.start_creating(&["up"]);
    started.signal(Signal::HUP);
    started.expect_stderr("the terminal is gone");
    // One for the child as well: it must not mind.
    rustix::process::kill_process_group(scene.gate.group(), Signal::HUP).expect("a signal");
    scene.gate.open();
    started.wait().expect_code(130);
    scene.drill.expect_nothing_left_of_the_call();
    let record = scene.drill.record();
    assert_eq!(record["status"], "paused", "{record:#}");
    assert_eq!(step(&record, "0.slow")["status"], "verified");
    assert_eq!(record["phases"][0]["status"], "verified");
    assert_eq!(record["calls"][0]["exit"], 130);
    assert!(!scene.marker.exists(), "phase 1 was begun");
    scene.run(0, &["up", "--resume"]);
    assert_eq!(scene.gate.n_made(), 1, "made twice");
    scene.expect_built();
}

/// Case N1: the terminal is closed in the middle of an apply.
#[test]
fn a_terminal_that_goes_away_pauses_after_the_phase() {
    let scene = Scene::clear();
    scene.gate.hold();
    let terminal = scene.command(&["up"]).in_terminal();
    scene.gate.await_creating();
    terminal.close();
    scene.gate.open();
    wait_for("the pause of the run", || {
        (scene.drill.record()["status"] == "paused"
            && !scene.drill.store().join("lock.json").exists())
        .then_some(())
    });
    scene.drill.expect_nothing_left_of_the_call();
    scene.run(0, &["up", "--resume"]);
    assert_eq!(scene.gate.n_made(), 1, "made twice");
    scene.expect_built();
}

/// Cases S1, N1: each signal in the middle of a destroy; then `down` goes on and ends well.
#[test]
fn a_stop_in_a_destroy_lets_it_end_and_down_goes_on() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let scene = Scene::encrypted();
        scene.run(0, &["up"]);
        let mut started = scene.start_destroying(&["down"]);
        started.signal(signal);
        started.expect_stderr(if signal == Signal::HUP {
            "the terminal is gone"
        } else {
            FIRST
        });
        scene.gate.open();
        started.wait().expect_code(130);
        scene.drill.expect_nothing_left_of_the_call();
        let record = scene.drill.record();
        assert_eq!(
            step(&record, "0.slow")["status"],
            "torn-down",
            "{signal:?}: {record:#}"
        );
        assert_eq!(scene.gate.n_gone(), 1);
        // At SIGHUP phase 0, which was at hand, is the last.
        let status = if signal == Signal::HUP {
            "torn-down"
        } else {
            "interrupted"
        };
        assert_eq!(record["status"], status, "{signal:?}: {record:#}");
        if signal != Signal::HUP {
            scene.run(3, &["up"]);
        }
        scene.run(0, &["down"]);
        assert_eq!(scene.gate.n_gone(), 1, "gone twice");
        scene.expect_gone();
    }
}

/// Cases S1, N1, T3: a second and a third signal in the middle of a destroy; then `down` goes on and ends well.
#[test]
fn an_interrupted_or_killed_destroy_is_gone_on_with() {
    for n_signals in [2, 3] {
        let scene = Scene::encrypted();
        scene.drill.write(
            "slow/main.tf",
            &if n_signals == 2 {
                scene.gate.module()
            } else {
                scene.gate.stubborn_module()
            },
        );
        scene.run(0, &["up"]);
        let mut started = scene.start_destroying(&["down"]);
        let group = scene.gate.group();
        for said in &[FIRST, SECOND, THIRD][..n_signals] {
            started.signal(Signal::INT);
            started.expect_stderr(said);
        }
        started.wait().expect_code(130);
        await_group_gone(group);
        scene.drill.expect_nothing_left_of_the_call();
        let record = scene.drill.record();
        assert_eq!(record["status"], "interrupted", "{record:#}");
        assert_eq!(step(&record, "0.slow")["status"], "teardown-failed");
        assert_eq!(scene.drill.status()["state"], "tearing-down");
        assert_eq!(scene.drill.states(), ["0/slow"]);
        scene.gate.open();
        scene.run(0, &["down"]);
        scene.expect_gone();
    }
}

/// Case S9: a stop while two steps of one phase run starts no third, and both end.
#[test]
fn a_stop_lets_every_running_step_of_a_phase_end_and_starts_no_other() {
    let drill = crate::drill::Drill::empty();
    let gates = ["a", "b"].map(|name| crate::gate::Gate::new(&drill.world, name));
    let marker = drill.world.root().join("marker");
    let mut text =
        "[platform]\nname = \"lab\"\n[[phase]]\nid = \"0\"\ntitle = \"zero\"\nparallel = true\n"
            .to_owned();
    for (name, module) in [
        ("a", gates[0].module()),
        ("b", gates[1].module()),
        ("c", crate::drill::marker_module(&marker)),
    ] {
        let after = if name == "c" {
            "after = [\"0.a\"]\n"
        } else {
            ""
        };
        text.push_str(&format!(
            "[[phase.step]]\nname = \"{name}\"\ntofu = \"{name}\"\n{after}"
        ));
        drill.write(&format!("{name}/main.tf"), &module);
    }
    drill.write("rebuild.toml", &text);
    gates.iter().for_each(crate::gate::Gate::hold);
    let mut started = drill
        .rebuild(&["up", "--target", "drill", "--no-pause", "--jobs", "2"])
        .start();
    gates.iter().for_each(crate::gate::Gate::await_creating);
    started.signal(Signal::INT);
    started.expect_stderr(FIRST);
    gates.iter().for_each(crate::gate::Gate::open);
    started.wait().expect_code(130);
    drill.expect_nothing_left_of_the_call();
    let record = drill.record();
    for id in ["0.a", "0.b"] {
        assert_eq!(step(&record, id)["status"], "succeeded", "{record:#}");
    }
    assert!(!marker.exists());
    drill.run(0, &["up", "--target", "drill", "--no-pause", "--resume"]);
    assert!(marker.exists() && gates.iter().all(|gate| gate.n_made() == 1));
}

//! Each signal ten times, in the middle of an apply and of a destroy of one platform: its state is never lost,
//! its world is built once, and no call that was stopped ends with exit code 0.

use rustix::process::Signal;
use test_support::{Ended, Started};

use crate::gate::Scene;

const N_ROUNDS: usize = 10;

/// Sends a signal to a call at the gate, opens the gate and waits for the call's end.
fn stop(scene: &Scene, started: Started, signal: Signal) {
    started.signal(signal);
    if signal == Signal::KILL {
        // Its child lives on and is at the gate when the next call comes.
        assert_eq!(started.wait().ended, Ended::Signal(9));
        return;
    }
    let mut started = started;
    started.expect_stderr(if signal == Signal::HUP {
        "the terminal is gone"
    } else {
        crate::stopped::FIRST
    });
    scene.gate.open();
    started.wait().expect_code(130);
    scene.drill.expect_nothing_left_of_the_call();
}

/// Runs the call that goes on.
fn go_on(scene: &Scene, args: &[&str]) {
    let started = scene.command(args).start();
    scene.gate.open();
    started.wait().expect_code(0);
}

fn rounds(signal: Signal) {
    let scene = Scene::clear();
    let expect_record = |what: &str, in_a_destroy: bool| {
        let record = scene.drill.record();
        let last = record["calls"].as_array().and_then(|calls| calls.last());
        let last = last.expect("a call");
        let status = scene.drill.status()["run"]["status"].clone();
        if signal == Signal::KILL {
            assert!(last["ended"].is_null(), "{what}: {record:#}");
            assert_eq!(status, "interrupted", "{what}");
        } else {
            assert_eq!(last["exit"], 130, "{what}: {record:#}");
            // At SIGHUP the phase at hand is ended: the last one in a teardown, the first in a building.
            let wanted = match (signal == Signal::HUP, in_a_destroy) {
                (false, _) => "interrupted",
                (true, false) => "paused",
                (true, true) => "torn-down",
            };
            assert_eq!(record["status"], wanted, "{what}: {record:#}");
        }
    };
    for round in 1..=N_ROUNDS {
        let what = format!("{signal:?}, round {round}");
        stop(&scene, scene.start_creating(&["up"]), signal);
        expect_record(&what, false);
        go_on(&scene, &["up", "--resume"]);
        assert_eq!(scene.gate.n_made(), round, "{what}: made twice");
        assert!(scene.gate.stands() && scene.marker.exists(), "{what}");
        assert_eq!(scene.drill.states(), ["0/slow", "1/next"], "{what}");

        stop(&scene, scene.start_destroying(&["down"]), signal);
        expect_record(&what, true);
        go_on(&scene, &["down"]);
        assert_eq!(scene.gate.n_gone(), round, "{what}: gone twice");
        scene.expect_gone();
    }
}

/// Cases N1, S1: SIGINT.
#[test]
fn sigint_ten_times_in_an_apply_and_in_a_destroy() {
    rounds(Signal::INT);
}

/// Cases N1, S3: SIGTERM.
#[test]
fn sigterm_ten_times_in_an_apply_and_in_a_destroy() {
    rounds(Signal::TERM);
}

/// Case N1: SIGHUP.
#[test]
fn sighup_ten_times_in_an_apply_and_in_a_destroy() {
    rounds(Signal::HUP);
}

/// Cases N1, N2: SIGKILL of `rebuild` alone.
#[test]
fn sigkill_ten_times_in_an_apply_and_in_a_destroy() {
    rounds(Signal::KILL);
}

//! What `rebuild` does to and for the programs that it runs: streams, values, silence, time.

use std::time::Instant;

use rustix::process::{Signal, kill_process_group};
use test_support::Ended;

use crate::drill::Drill;
use crate::gate::{Gate, Scene, await_group_gone, group_is_gone, step};

const UP: [&str; 4] = ["up", "--target", "drill", "--no-pause"];

fn one_step(module: &str, more: &str) -> Drill {
    let drill = Drill::empty();
    drill.write(
        "rebuild.toml",
        &format!(
            "[platform]\nname = \"lab\"\n[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"only\"\ntofu = \"only\"\n{more}"
        ),
    );
    drill.write("only/main.tf", module);
    drill
}

/// Case S5: `rebuild up | head -1`: nobody reads standard output any more, and the run is finished all the same.
#[test]
fn a_reader_that_goes_away_ends_nothing() {
    let scene = Scene::clear();
    scene.command(&["up"]).stdout_unread().run().expect_code(0);
    assert_eq!(scene.gate.n_made(), 1);
    scene.expect_built();
    // The whole pipeline, as it is typed.
    let other = Scene::clear();
    let up = other.command(&["up", "--output", "ndjson"]);
    let line = up.shell_line();
    let piped = other
        .drill
        .rebuild(&[])
        .instead("/bin/sh", &["-c", &format!("{line} 2>&1 | head -1")])
        .run();
    piped.expect_code(0);
    crate::gate::wait_for("the end of the run", || {
        (other.drill.status()["state"] == "finished"
            && !other.drill.store().join("lock.json").exists())
        .then_some(())
    });
    assert_eq!(other.gate.n_made(), 1);
    other.expect_built();
}

/// Case S10: a value that no variable of the environment could hold.
#[test]
fn a_value_of_200_kb_arrives_whole() {
    let drill = one_step(
        "variable \"big\" {\n  type = string\n}\nresource \"terraform_data\" \"it\" {\n  input = length(var.big)\n}\n\
         output \"length\" {\n  value = terraform_data.it.output\n}\n",
        "",
    );
    drill.write(
        "targets/drill.toml",
        &format!("[values]\nbig = \"{}\"\n", "x".repeat(200_000)),
    );
    drill.run(0, &UP);
    assert_eq!(drill.record()["standing"][0]["outputs"]["length"], 200_000);
}

/// Case S10: what must go through the environment and is too long for it is named, before anything runs.
#[test]
fn a_variable_of_200_kb_is_refused_by_name() {
    let drill = one_step("resource \"terraform_data\" \"it\" {}\n", "");
    drill.write(
        "targets/drill.toml",
        &format!("[env]\nTOO_BIG = \"{}\"\n", "x".repeat(200_000)),
    );
    let refused = drill.rebuild(&UP).run();
    assert!(matches!(refused.code(), Some(1 | 2)), "{refused:?}");
    assert!(refused.stderr.contains("TOO_BIG"), "{}", refused.stderr);
    assert!(refused.stderr.len() < 10_000, "the value itself is told");
    assert!(drill.states().is_empty());
}

/// Case S11: a variable that nothing sets: named at once, whatever standard input is.
#[test]
fn a_missing_variable_is_named_at_once() {
    let drill = one_step("variable \"nobody_sets_me\" {\n  type = string\n}\n", "");
    let begun = Instant::now();
    let refused = drill.run(2, &UP);
    assert!(begun.elapsed().as_secs() < 20);
    assert!(
        refused.stderr.contains("nobody_sets_me"),
        "{}",
        refused.stderr
    );
}

/// Case S13: a silence is told with the last address, and told again.
#[test]
fn a_silence_is_told_with_the_last_address() {
    let scene = Scene::clear();
    scene.gate.hold();
    let mut started = scene
        .command(&["up"])
        .env("__REBUILD_PATIENCE_MS", "300")
        .start();
    started
        .expect_stderr("0.slow: nothing said for")
        .expect_stderr("last at terraform_data.slow; still running");
    scene.gate.open();
    started.wait().expect_code(0);
}

/// Case S13: a step's `timeout` ends it gently: one interrupt, a failure that says so, no lock left.
#[test]
fn a_timeout_ends_a_step_gently() {
    let drill = Drill::empty();
    let gate = Gate::new(&drill.world, "gate");
    drill.write(
        "rebuild.toml",
        "[platform]\nname = \"lab\"\n[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"slow\"\ntofu = \"slow\"\ntimeout = \"3s\"\n",
    );
    drill.write("slow/main.tf", &gate.module());
    gate.hold();
    let started = drill.rebuild(&UP).start();
    gate.await_creating();
    let group = gate.group();
    let failed = started.wait();
    failed.expect_code(1);
    assert!(failed.stderr.contains("timeout"), "{}", failed.stderr);
    await_group_gone(group);
    drill.expect_nothing_left_of_the_call();
    let record = drill.record();
    assert_eq!(
        record["status"], "failed",
        "nobody asked to stop: {record:#}"
    );
    assert_eq!(step(&record, "0.slow")["status"], "failed");
}

/// A platform of one `exec` step whose apply leaves an object and then waits at the gate.
fn exec_scene() -> (Drill, Gate) {
    let drill = Drill::empty();
    let gate = Gate::new(&drill.world, "gate");
    drill.write(
        "rebuild.toml",
        "[platform]\nname = \"lab\"\n[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"run\"\n\
         exec = { apply = [\"sh\", \"do.sh\", \"apply\"], verify = [\"sh\", \"do.sh\", \"verify\"], teardown = [\"sh\", \"do.sh\", \"teardown\"] }\n",
    );
    drill.write("do.sh", &gate.script());
    (drill, gate)
}

/// Case R2: an `exec` step that was cut between its effect and the ledger is judged by its `verify`.
#[test]
fn a_cut_exec_is_judged_by_its_verify() {
    for (is_killed_too, is_undone) in [(false, false), (true, false), (true, true)] {
        let (drill, gate) = exec_scene();
        gate.hold();
        let started = drill.rebuild(&UP).start();
        gate.await_creating();
        let group = gate.group();
        started.signal(Signal::KILL);
        assert_eq!(started.wait().ended, Ended::Signal(9));
        if is_killed_too {
            kill_process_group(group, Signal::KILL).expect("kill the program");
            await_group_gone(group);
        }
        if is_undone {
            gate.take_away();
        }
        let mut resumed = drill
            .rebuild(&["up", "--target", "drill", "--no-pause", "--resume"])
            .start();
        if !is_killed_too {
            resumed.expect_stderr("waiting for the end of process");
            assert!(!group_is_gone(group));
        }
        gate.open();
        resumed.wait().expect_code(0);
        let n_made = if is_undone { 2 } else { 1 };
        assert_eq!(
            gate.n_made(),
            n_made,
            "killed too: {is_killed_too}, undone: {is_undone}"
        );
        let record = drill.record();
        assert_eq!(record["status"], "finished");
        assert_eq!(step(&record, "0.run")["status"], "verified");
        drill.expect_nothing_left_of_the_call();
        drill.run(0, &["down", "--target", "drill"]);
        assert!(!gate.stands());
    }
}

/// Cases S1, S7, R2: the three Ctrl-C on a program: it may end, is interrupted, is killed with all it started.
#[test]
fn an_exec_step_obeys_the_three_signals() {
    for n_signals in 1..=3 {
        let (drill, gate) = exec_scene();
        gate.hold();
        let mut started = drill.rebuild(&UP).start();
        gate.await_creating();
        let group = gate.group();
        let said = [
            "stopping: nothing new",
            "interrupting what runs",
            "killing what runs",
        ];
        for said in &said[..n_signals] {
            started.signal(Signal::INT);
            started.expect_stderr(said);
        }
        if n_signals == 1 {
            assert!(!group_is_gone(group));
            gate.open();
        }
        started.wait().expect_code(130);
        await_group_gone(group);
        drill.expect_nothing_left_of_the_call();
        let record = drill.record();
        assert_eq!(record["status"], "interrupted");
        let status = if n_signals == 1 {
            "succeeded"
        } else {
            "interrupted"
        };
        assert_eq!(step(&record, "0.run")["status"], status);
        gate.open();
        drill.run(0, &["up", "--target", "drill", "--no-pause", "--resume"]);
        drill.run(0, &["down", "--target", "drill"]);
        assert!(!gate.stands());
    }
}

/// Case R1: a run that failed in phase 1 goes on there; what phase 0 made is verified again and not made again.
#[test]
fn a_resumed_run_starts_at_what_failed() {
    let scene = Scene::clear();
    scene.drill.write(
        "next/main.tf",
        "resource \"terraform_data\" \"it\" {\n  provisioner \"local-exec\" {\n    command = \"exit 7\"\n  }\n}\n",
    );
    scene.run(1, &["up"]);
    scene
        .drill
        .write("next/main.tf", &crate::drill::marker_module(&scene.marker));
    // A creation that failed is tainted, and its replacement is what was asked for.
    let resumed = scene.run(0, &["up", "--resume"]);
    assert!(
        resumed.stderr.contains("0.slow: verified"),
        "{}",
        resumed.stderr
    );
    assert!(
        !resumed.stderr.contains("0.slow: apply"),
        "{}",
        resumed.stderr
    );
    assert_eq!(scene.gate.n_made(), 1);
    scene.expect_built();
}

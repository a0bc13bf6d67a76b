//! Two callers of one target, and locks whose holder is on another machine or of another boot.

use std::path::Path;
use std::time::Instant;

use rustix::process::{Signal, kill_process_group};
use serde_json::Value;
use test_support::Ended;

use crate::gate::{Scene, await_group_gone, wait_for};

/// Case E11: the second call of a target fails at once and names the first; reading goes on.
#[test]
fn the_second_call_fails_at_once_and_names_the_holder() {
    let scene = Scene::clear();
    let started = scene.start_creating(&["up"]);
    let record = scene.drill.record();
    let run = record["run"].as_str().expect("a run's id");
    for args in [&["up"][..], &["up", "--resume"], &["down"], &["preflight"]] {
        let begun = Instant::now();
        let locked = scene.run(4, args);
        assert!(begun.elapsed().as_secs() < 20, "it waited");
        for named in [
            "`up`",
            "operator",
            &format!("pid {}", started.pid()),
            run,
            "since",
        ] {
            assert!(
                locked.stderr.contains(named),
                "{args:?} does not name {named}: {}",
                locked.stderr
            );
        }
    }
    let status = scene.drill.status();
    assert_eq!(status["lock"]["command"], "up");
    assert_eq!(status["lock"]["run"], run);
    assert_eq!(status["run"]["status"], "running");
    scene.drill.json(0, &["runs", "list", "--target", "drill"]);
    scene.gate.open();
    started.wait().expect_code(0);
    assert_eq!(scene.gate.n_made(), 1);
    scene.expect_built();
}

/// Case E11: two calls that begin together: one runs, the other is locked out, whichever.
#[test]
fn of_two_calls_at_once_one_runs() {
    let scene = Scene::clear();
    scene.gate.hold();
    let both = [
        scene.command(&["up"]).start(),
        scene.command(&["up"]).start(),
    ];
    scene.gate.await_creating();
    let pids = [both[0].pid(), both[1].pid()];
    wait_for("the end of one of the two", || {
        pids.iter()
            .any(|pid| {
                !crate::gate::is_alive(crate::gate::pid(i32::try_from(*pid).expect("a pid")))
            })
            .then_some(())
    });
    scene.gate.open();
    let mut codes = both.map(|started| started.wait().code());
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(4)]);
    assert_eq!(scene.gate.n_made(), 1);
    scene.expect_built();
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let text = std::fs::read(path).expect("a file of the store");
    let mut value = serde_json::from_slice(&text).expect("JSON");
    change(&mut value);
    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(path, value.to_string()).expect("write it back");
}

/// A call killed with its child, whose lock is good for half a second.
fn cut(scene: &Scene) -> u32 {
    scene.gate.hold();
    let started = scene
        .command(&["up"])
        .env("__REBUILD_LEASE_MS", "500")
        .start();
    scene.gate.await_creating();
    // What is planned is in the record as soon as it was read.
    wait_for("the planned creation in the record", || {
        let record = scene.drill.record();
        let planned = &crate::gate::step(&record, "0.slow")["planned"]["changes"];
        planned.get(0).is_some().then_some(())
    });
    let (pid, group) = (started.pid(), scene.gate.group());
    started.signal(Signal::KILL);
    kill_process_group(group, Signal::KILL).expect("kill tofu");
    assert_eq!(started.wait().ended, Ended::Signal(9));
    await_group_gone(group);
    scene.gate.open();
    pid
}

/// Case L6: a lock of another machine is taken by nobody but a person, and with it go the locks of its states.
#[test]
fn unlock_frees_the_target_and_its_states_from_another_machine() {
    let scene = Scene::clear();
    cut(&scene);
    let elsewhere = |identity: &mut Value| identity["machine_id"] = "elsewhere".into();
    change(&scene.drill.store().join("lock.json"), |lock| {
        elsewhere(&mut lock["holder"]["identity"])
    });
    change(&scene.drill.store().join("lock/0/slow"), |lock| {
        elsewhere(&mut lock["writer"]["identity"])
    });
    let locked = scene.run(4, &["up", "--resume"]);
    assert!(
        locked.stderr.contains("rebuild unlock --target drill"),
        "{}",
        locked.stderr
    );
    let unlock = scene.command(&["unlock"]);
    unlock.env("__REBUILD_LEASE_MS", "500").run().expect_code(0);
    scene.drill.expect_no_locks();
    // The target can be torn down now.
    scene.run(0, &["down"]);
    assert_eq!(scene.drill.status()["state"], "empty");
}

/// Cases L6, R4: the machine went down in the middle of an apply: the lock is watched for its lease and taken over, and
/// what the lost memory would have told is suspected from the record.
#[test]
fn after_a_reboot_the_lock_is_taken_over_and_what_was_planned_is_suspect() {
    let scene = Scene::clear();
    let pid = cut(&scene);
    let before = |identity: &mut Value| identity["boot_id"] = "an-earlier-boot".into();
    change(&scene.drill.store().join("lock.json"), |lock| {
        before(&mut lock["holder"]["identity"])
    });
    change(&scene.drill.store().join("lock/0/slow"), |lock| {
        before(&mut lock["writer"]["identity"])
    });
    change(
        &scene
            .drill
            .world
            .files_with(&scene.drill.work(), b"start_time")[0],
        before,
    );
    for dir in crate::gate::memory_dirs_of(pid) {
        std::fs::remove_dir_all(dir).expect("the memory of before is gone");
    }
    let stopped = scene.run(3, &["up", "--resume"]);
    assert!(
        stopped
            .stderr
            .contains("`terraform_data.slow` of step `0.slow`"),
        "{}",
        stopped.stderr
    );
    scene.drill.expect_no_locks();
    assert_eq!(scene.gate.n_made(), 1);
    scene.run(0, &["down"]);
    assert_eq!(scene.drill.status()["state"], "empty");
}

/// Case T8: everything that this machine keeps beside the store is deleted; `down` needs none of it.
#[test]
fn down_needs_nothing_but_the_store() {
    let scene = Scene::encrypted();
    scene.run(0, &["up"]);
    let target = scene.drill.store();
    let target = target.parent().expect("the target's directory");
    for entry in std::fs::read_dir(target).expect("the target's directory") {
        let path = entry.expect("an entry").path();
        if path == scene.drill.store() {
            continue;
        }
        if path.is_dir() {
            std::fs::remove_dir_all(&path).expect("a directory gone");
        } else {
            std::fs::remove_file(&path).expect("a file gone");
        }
    }
    scene.expect_down();
}

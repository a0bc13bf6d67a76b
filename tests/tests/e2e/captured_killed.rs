//! The proof that a secret comes to no disk, no argument list and no log, in both directions, where a call is killed
//! together with everything that it started: the real Ansible, the real OpenTofu.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fault::{Aim, Orders, Way};
use serde_json::Value;
use test_support::{Command, Ended, Outcome};

use crate::bootstrapped::Seed;
use crate::captured::{HandedOn, LONG, WHOLE, leaks, traced};
use crate::secrecy::Watch;

/// The orders to kill at a point, with all children.
pub(crate) fn kill_all_at(point: &str) -> Orders {
    let (point, nth) = point.rsplit_once('#').expect("a point and which time");
    Orders {
        aims: vec![Aim {
            way: Way::KillAll,
            point: point.to_owned(),
            nth: nth.parse().expect("a number"),
        }],
        ..Orders::default()
    }
}

/// Directories in memory that are of a process which lives no more.
fn left_in_memory() -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten();
    let dirs = entries.flatten().map(|entry| entry.path());
    dirs.filter(|dir| {
        let owner = std::fs::read(dir.join(".owner.json")).ok();
        let owner: Option<Value> = owner.and_then(|text| serde_json::from_slice(&text).ok());
        let pid = owner.and_then(|owner| owner["pid"].as_u64());
        pid.is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists())
    })
    .collect()
}

/// Runs a command, every process of it looked at, and sees that what is secret came to no disk and into no argument.
pub(crate) fn run_watched(command: &Command, needles: &[String]) -> Outcome {
    let memory = tempfile::tempdir_in("/dev/shm").expect("memory-backed storage");
    let log = memory.path().join("trace");
    let watch = Watch::for_needles(needles.iter().cloned().collect());
    let said = traced(command, &log, &WHOLE).deadline(LONG).run();
    let seen = watch.seen();
    assert!(seen.is_empty(), "in an argument list: {seen:?}");
    let trace = String::from_utf8_lossy(&std::fs::read(&log).expect("a trace")).into_owned();
    assert!(trace.contains("execve("), "the trace saw nothing");
    let leaks = leaks(&trace, needles);
    assert!(leaks.is_empty(), "{leaks:#?}");
    for needle in needles {
        assert!(
            !said.stderr.contains(needle) && !said.stdout.contains(needle),
            "it was told"
        );
    }
    said
}

/// Calls again and again, each killed with all its children at one point: nothing is on a disk in the clear, and each
/// call sweeps what the one before left in memory. The last one is not hurt, and ends the job.
///
/// With each point goes how often the play has been begun by then.
fn killed_at_each(points: &[(&str, usize)], n_plays: usize) {
    let seed = Seed::new("");
    seed.playbook(&format!("{}{}", seed.capturing(), seed.careless()));
    let needles = [seed.value.clone()];
    let n_played = || seed.book().iter().filter(|line| *line == "played").count();
    let mut left: BTreeSet<PathBuf> = BTreeSet::new();
    for (point, n_plays) in points {
        let hurt = seed
            .bootstrap()
            .env(fault::VARIABLE, kill_all_at(point).to_string());
        let said = run_watched(&hurt, &needles);
        assert_eq!(said.ended, Ended::Signal(9), "{point}: {}", said.stderr);
        assert_eq!(n_played(), *n_plays, "{point}: {}", said.stderr);
        seed.expect_nothing_on_disk();
        for dir in left {
            assert!(!dir.exists(), "{point}: {} is left", dir.display());
        }
        let captures = seed.captures();
        left = left_in_memory();
        left.retain(|dir| captures.iter().any(|own| own.starts_with(dir)));
        let is_first = *point == points[0].0;
        assert!(!left.is_empty() || !is_first, "{point}: nothing was left");
    }
    run_watched(&seed.bootstrap(), &needles).expect_code(0);
    for dir in left {
        assert!(!dir.exists(), "{} is left", dir.display());
    }
    assert_eq!(n_played(), n_plays);
    seed.expect_handed_over();
    assert_eq!(seed.job().1, ["succeeded"; 3]);
}

/// Cases K6, K7, K8: in the midst of the play, at its end, and before the envelope has what it captured.
#[test]
fn killed_with_ansible_before_the_seal_nothing_is_left_in_the_clear() {
    let points = [
        ("hands.told#5", 1),
        ("capture.played#1", 2),
        ("job.done ansible#1", 3),
        ("file.write.before token.age#1", 4),
    ];
    killed_at_each(&points, 5);
}

/// Cases K6, K7, K8: once the envelope has it the play is never run again, whether the plain file is still there, the
/// ledger does not know of the seal, or OpenTofu is at work with the value.
#[test]
fn killed_with_opentofu_after_the_seal_it_goes_on_from_the_envelope() {
    let points = [
        ("capture.sealed token#1", 1),
        ("job.done seal#1", 1),
        ("job.begun apply#1", 1),
        ("child.event tofu apply version#1", 1),
        ("job.done apply#1", 1),
    ];
    killed_at_each(&points, 1);
}

/// Cases K6, K7, K8: the other direction. OpenTofu, the ssh client and Ansible have what the envelope holds, and are killed
/// with the call, one after the other.
#[test]
fn killed_with_what_it_is_handed_on_to_a_secret_is_on_no_disk() {
    let handed = HandedOn::new();
    let mut left: BTreeSet<PathBuf> = BTreeSet::new();
    for point in [
        "child.event tofu apply version#1",
        "job.begun onboard#1",
        "spawn.after ansible-playbook --inventory#1",
        "job.done ansible#1",
    ] {
        let hurt = handed
            .run()
            .env(fault::VARIABLE, kill_all_at(point).to_string());
        let said = run_watched(&hurt, &handed.needles);
        assert_eq!(said.ended, Ended::Signal(9), "{point}: {}", said.stderr);
        handed.expect_nothing_on_disk();
        for dir in left {
            assert!(!dir.exists(), "{point}: {} is left", dir.display());
        }
        left = left_in_memory();
        left.retain(|dir| handed.holds_a_secret(dir));
    }
    run_watched(&handed.run(), &handed.needles).expect_code(0);
    for dir in left {
        assert!(!dir.exists(), "{} is left", dir.display());
    }
    handed.expect_handed_on();
    assert_eq!(handed.farm.made(), ["web1"], "it is applied once");
}

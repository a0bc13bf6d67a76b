//! The ledger is cut after every write; then `up --resume` and, apart, `down`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::fakes::*;
use crate::*;

fn platform() -> Sequence {
    let mut canary = phase("4", &["canary<2.cluster"]);
    canary.canary = true;
    Sequence::new(vec![
        phase("0", &["bucket"]),
        phase("1", &["net", "edge:1.net"]),
        phase("2", &["cluster"]),
        canary,
    ])
    .unwrap()
}

/// A target whose `up` is cut after `cut` writes, with or without the act that followed.
fn cut_up(cut: usize, kill: bool, judged: bool) -> Target {
    let mut target = Target::new(platform());
    let mut world = FakeWorld::new();
    world.twice = true;
    // What is held there must be lost without harm.
    world.unchecked.insert(PhaseId::new("1").unwrap());
    if judged {
        world.judged = target
            .sequence
            .steps()
            .map(|step| step.id.clone())
            .collect();
    }
    target.world = Arc::new(world);
    target.cut_at = Some(cut);
    target.kill = kill;
    target.up();
    target.world.mend();
    target.cut_at = None;
    target
}

fn n_writes_of_up() -> usize {
    let mut target = Target::new(platform());
    target.up();
    target.n_writes
}

#[test]
fn resume_reaches_the_end_from_every_cut_and_applies_nothing_that_ended_again() {
    for cut in 1..n_writes_of_up() {
        for (kill, judged) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut target = cut_up(cut, kill, judged);
            let ended_well: BTreeSet<String> = target
                .history
                .steps
                .iter()
                .filter(|(_, history)| history.status.ended_well())
                .map(|(step, _)| format!("{step} apply"))
                .collect();
            target.world.take(&[]);
            let ended = target.resume();
            assert_eq!(
                ended.status,
                Some(RunStatus::Finished),
                "cut {cut}: {:?}",
                said(&ended)
            );
            let again: Vec<String> = target.world.take(&["apply"]);
            assert!(
                again.iter().all(|call| !ended_well.contains(call)),
                "cut {cut}: {again:?}"
            );
            assert_eq!(target.world.objects().len(), 5);
            assert_eq!(target.down().status, Some(RunStatus::TornDown));
            target.assert_gone();
        }
    }
}

#[test]
fn down_ends_empty_from_every_cut_of_up() {
    for cut in 1..n_writes_of_up() {
        for kill in [false, true] {
            let mut target = cut_up(cut, kill, false);
            let ended = target.down();
            assert_eq!(
                ended.status,
                Some(RunStatus::TornDown),
                "cut {cut}: {:?}",
                said(&ended)
            );
            target.assert_gone();
        }
    }
}

#[test]
fn before_the_first_write_nothing_was_done() {
    let target = cut_up(0, false, false);
    assert!(target.world.objects().is_empty());
    assert_eq!(target.history, History::default());
}

#[test]
fn down_ends_empty_from_every_cut_of_down() {
    for (deferred, bare) in [(false, false), (true, false), (false, true), (true, true)] {
        let built = || {
            let mut target = Target::new(platform());
            let mut world = FakeWorld::new();
            if bare {
                let phases = target.sequence.phases().iter();
                world.unchecked = phases.map(|phase| phase.id.clone()).collect();
            }
            target.world = Arc::new(world);
            target.up();
            if deferred {
                target.world.fault("4.canary teardown", Fault::Fails);
            }
            target
        };
        let mut whole = built();
        whole.down();
        whole.assert_gone();
        for cut in 1..whole.n_writes {
            for kill in [false, true] {
                let mut target = built();
                target.cut_at = Some(cut);
                target.kill = kill;
                target.down();
                target.cut_at = None;
                *target.world.dead.lock().unwrap() = false;
                let state = RunState::of(&target.history, false);
                assert_eq!(
                    admission(Command::Resume, state),
                    Err(Refusal::TeardownBegun)
                );
                let ended = target.down();
                assert_eq!(
                    ended.status,
                    Some(RunStatus::TornDown),
                    "cut {cut}, kill {kill}, deferred {deferred}, bare {bare}: {:?}",
                    said(&ended)
                );
                target.assert_gone();
            }
        }
    }
}

#[test]
fn a_resume_that_is_cut_is_resumed() {
    let mut first = cut_up(6, false, false);
    first.resume();
    for cut in 1..first.n_writes {
        let mut target = cut_up(6, false, false);
        target.cut_at = Some(cut);
        target.kill = true;
        target.resume();
        target.world.mend();
        target.cut_at = None;
        assert_eq!(
            target.resume().status,
            Some(RunStatus::Finished),
            "cut {cut}"
        );
    }
}

#[test]
fn a_new_run_that_is_cut_is_torn_down_with_what_it_inherited() {
    let mut whole = Target::new(platform());
    whole.up();
    whole.up();
    for cut in 1..whole.n_writes {
        let mut target = Target::new(platform());
        target.up();
        target.cut_at = Some(cut);
        target.up();
        target.cut_at = None;
        target.world.take(&[]);
        assert_eq!(target.down().status, Some(RunStatus::TornDown), "cut {cut}");
        assert_eq!(
            target.world.take(&["teardown"]),
            [
                "4.canary teardown",
                "2.cluster teardown",
                "1.edge teardown",
                "1.net teardown",
                "0.bucket teardown"
            ],
            "cut {cut}"
        );
        target.assert_gone();
    }
}

//! What a parallel phase does at once.

use std::sync::{Arc, Barrier};

use super::fakes::*;
use crate::*;

fn target(world: FakeWorld, steps: &[&str]) -> Target {
    let mut target = Target::new(Sequence::new(vec![parallel("1", steps)]).unwrap());
    target.world = Arc::new(world);
    target
}

#[test]
fn steps_that_do_not_refer_to_each_other_run_at_once() {
    let mut world = FakeWorld::new();
    // Neither ends before the other has begun.
    world.together = Some(Arc::new(Barrier::new(2)));
    let mut target = target(world, &["a", "b"]);
    assert_eq!(target.up().status, Some(RunStatus::Finished));
}

#[test]
fn a_step_waits_for_those_that_it_refers_to() {
    let mut target = target(FakeWorld::new(), &["a", "b", "c:1.a,1.b", "d:1.c"]);
    assert_eq!(target.up().status, Some(RunStatus::Finished));
    let calls = target.world.take(&["apply"]);
    assert_eq!(calls[2..], ["1.c apply", "1.d apply"]);
}

#[test]
fn the_number_of_jobs_is_bounded() {
    let mut target = target(FakeWorld::new(), &["c", "b", "a"]);
    let ended = target.up_with(&jobs(1), &mut FakeOperator::default());
    assert_eq!(ended.status, Some(RunStatus::Finished));
    assert_eq!(
        target.world.take(&["apply"]),
        ["1.c apply", "1.b apply", "1.a apply"]
    );
}

#[test]
fn a_failure_lets_the_others_end_and_begins_no_more() {
    let mut world = FakeWorld::new();
    world.together = None;
    let mut target = target(world, &["a", "b", "c:1.b", "d:1.a"]);
    target.world.fault("1.a apply", Fault::Fails);
    let ended = target.up();
    assert_eq!(said(&ended), ["1.a apply fails"]);
    assert_eq!(target.history.status_of(&id("1.d")), StepStatus::Pending);
    let status = target.history.status_of(&id("1.b"));
    assert!(
        matches!(status, StepStatus::Succeeded | StepStatus::Pending),
        "{status}"
    );
    target.world.mend();
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
}

#[test]
fn a_stop_lets_every_running_step_end() {
    let mut world = FakeWorld::new();
    world.together = Some(Arc::new(Barrier::new(2)));
    let mut target = target(world, &["a", "b", "c:1.a"]);
    let mut operator = FakeOperator::stop_at(&target.world, "1.b apply", Stop::Gentle);
    let ended = target.up_with(&Options::default(), &mut operator);
    assert_eq!(ended.exit, ExitCode::Interrupted);
    assert_eq!(target.history.status_of(&id("1.a")), StepStatus::Succeeded);
    assert_eq!(target.history.status_of(&id("1.b")), StepStatus::Succeeded);
    assert_eq!(target.history.status_of(&id("1.c")), StepStatus::Pending);
}

#[test]
fn a_step_that_was_prepared_is_not_begun_once_another_has_failed() {
    // One job prepares while the other fails, in whichever order: nothing begins after a failure.
    for _ in 0..20 {
        let mut target = target(FakeWorld::new(), &["a", "b", "c", "d"]);
        target.world.fault("1.a apply", Fault::Fails);
        target.up_with(&jobs(2), &mut FakeOperator::default());
        let failed = target
            .words
            .iter()
            .position(|word| word == "1.a failed")
            .unwrap();
        assert!(
            !target.words[failed..]
                .iter()
                .any(|word| word.ends_with(" started"))
        );
    }
}

#[test]
fn a_ledger_lost_in_a_parallel_phase_lets_the_others_end() {
    for cut in 1..12 {
        let mut target = target(FakeWorld::new(), &["a", "b", "c"]);
        target.cut_at = Some(cut);
        assert!(target.up().ledger_error.is_some());
        target.cut_at = None;
        assert_eq!(target.resume().status, Some(RunStatus::Finished));
    }
}

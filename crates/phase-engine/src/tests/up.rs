//! `up` from nothing, its checkpoints, failures and stops.

use std::sync::Arc;

use super::fakes::*;
use crate::*;

#[test]
fn every_phase_is_applied_and_verified_in_order() {
    let mut target = Target::new(small(&["0", "1a", "1b"]));
    let mut operator = FakeOperator::default();
    let ended = target.up_with(&Options::default(), &mut operator);
    assert_eq!(ended.status, Some(RunStatus::Finished));
    assert_eq!(ended.exit, ExitCode::Done);
    assert_eq!(
        target
            .world
            .take(&["apply", "verify", "check", "store-made"]),
        [
            "0 apply",
            "0 store-made",
            "0 verify",
            "0 check",
            "1a apply",
            "1a verify",
            "1a check",
            "1b apply",
            "1b verify",
            "1b check"
        ]
    );
    // The summary is always shown, and nobody is asked.
    assert_eq!(
        *operator.asked.borrow(),
        ["0 summary 1/3", "1a summary 2/3", "1b summary 3/3"]
    );
    let just = target
        .world
        .bases
        .lock()
        .unwrap()
        .iter()
        .all(|(_, b)| *b == Basis::JustApplied);
    assert!(just);
}

#[test]
fn each_act_is_stored_before_and_after() {
    let mut target = Target::new(small(&["1"]));
    target.up();
    assert_eq!(
        target.words,
        [
            "call New",
            "1 applying",
            "1.s started",
            "1.s note creating",
            "1.s succeeded",
            "1 verifying JustApplied",
            "1.s note looked",
            "1.s verified",
            "1 verified JustApplied",
            "call ended finished 0"
        ]
    );
    // The call, the phase and the step begin in one write, the first; the end of the last step is written with the
    // beginning of the verify.
    assert_eq!(target.n_writes, 7);
    let words = target.words;

    // Where nothing is to be asked of the phase, its last step is verified with it.
    let mut target = Target::new(small(&["1"]));
    let mut world = FakeWorld::new();
    world.unchecked.insert(PhaseId::new("1").unwrap());
    target.world = Arc::new(world);
    target.up();
    assert_eq!(target.words, words);
    assert_eq!(target.n_writes, 6);
}

#[test]
fn that_a_phase_had_nothing_to_do_is_stored_with_the_beginning_of_its_verify() {
    let mut target = Target::new(small(&["1", "2"]));
    let mut world = FakeWorld::new();
    world.unchecked = ["1", "2"].map(|id| PhaseId::new(id).unwrap()).into();
    world.sees_what_is_there = true;
    target.world = Arc::new(world);
    target.up();
    target.up();
    // The beginning of the call, which is not held; in each phase the verify, its note and its end; the end of the call.
    assert_eq!(target.n_writes, 1 + 2 * 3 + 1, "{:?}", target.words);
}

#[test]
fn what_was_held_is_stored_when_the_call_stops_in_between() {
    for (call, held) in [
        ("1.s apply", "1.s succeeded"),
        ("1.s verify", "1.s verified"),
    ] {
        let mut target = Target::new(small(&["1"]));
        let mut world = FakeWorld::new();
        world.unchecked.insert(PhaseId::new("1").unwrap());
        target.world = Arc::new(world);
        let mut operator = FakeOperator::stop_at(&target.world, call, Stop::Gentle);
        let ended = target.up_with(&Options::default(), &mut operator);
        assert_eq!(ended.exit, ExitCode::Interrupted);
        assert!(
            target.words.iter().any(|word| word == held),
            "{:?}",
            target.words
        );
    }
}

#[test]
fn a_call_that_stops_before_its_first_apply_leaves_nothing() {
    for call in ["0.s define", "0.s prepare"] {
        let mut target = Target::new(small(&["0", "1"]));
        target.world.fault(call, Fault::Fails);
        let ended = target.up();
        assert_eq!((ended.status, ended.exit), (None, ExitCode::Failed));
        assert_eq!(target.words, Vec::<String>::new());
        assert_eq!(said(&ended), [format!("{call} fails")]);
    }
    let mut target = Target::new(small(&["0", "1"]));
    target.world.fault("0.s prepare", Fault::Declined);
    assert_eq!(target.up().exit, ExitCode::Declined);
    let mut target = Target::new(small(&["0", "1"]));
    let mut operator = FakeOperator::stop_at(&target.world, "0.s prepare", Stop::Gentle);
    let ended = target.up_with(&Options::default(), &mut operator);
    assert_eq!((ended.status, ended.exit), (None, ExitCode::Interrupted));
    assert_eq!(target.world.objects(), Vec::<String>::new());
}

#[test]
fn a_failure_stops_at_once() {
    let mut target = Target::new(small(&["0", "1a", "1b"]));
    target.world.fault("1a.s apply", Fault::Fails);
    let ended = target.up();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Failed), ExitCode::Failed)
    );
    assert_eq!(
        target.world.take(&["apply", "verify"]),
        ["0 apply", "0 verify", "1a apply"]
    );
    assert_eq!(target.history.status_of(&id("1a.s")), StepStatus::Failed);
    assert_eq!(ended.failures[0].phase, Some(phase_id("1a")));
    assert_eq!(ended.failures[0].step, Some(id("1a.s")));
    assert!(target.words.contains(&"1a stopped Apply".to_owned()));
}

#[test]
fn a_verify_that_fails_stops_before_the_checks() {
    let mut target = Target::new(Sequence::new(vec![phase("1", &["a", "b"])]).unwrap());
    target.world.fault("1.a verify", Fault::Fails);
    let ended = target.up();
    assert_eq!(ended.exit, ExitCode::Failed);
    assert_eq!(
        target.world.take(&["apply", "verify", "check"]),
        ["1.a apply", "1.b apply", "1.a verify"]
    );
    assert_eq!(
        target.history.status_of(&id("1.a")),
        StepStatus::VerifyFailed
    );
    assert_eq!(target.history.status_of(&id("1.b")), StepStatus::Succeeded);
}

#[test]
fn a_check_that_fails_leaves_the_phase_unverified() {
    let mut target = Target::new(small(&["1", "2"]));
    target.world.fault("1 check", Fault::Fails);
    let ended = target.up();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Failed), ExitCode::Failed)
    );
    assert!(!target.history.is_verified(&phase_id("1")));
    assert_eq!(ended.failures[0].step, None);
}

#[test]
fn the_store_that_cannot_be_moved_stops_phase_0() {
    let mut target = Target::new(small(&["0", "1"]));
    target.world.fault("0 store-made", Fault::Fails);
    let ended = target.up();
    assert_eq!(said(&ended), ["0 store-made fails"]);
    target.world.mend();
    target.world.take(&[]);
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
    let calls = target.world.take(&["apply", "store-made"]);
    assert_eq!(calls, ["0 store-made", "1 apply"]);
}

#[test]
fn through_leaves_the_run_unfinished() {
    let mut target = Target::new(small(&["0", "1", "2"]));
    let options = Options {
        through: Some(phase_id("1")),
        ..Options::default()
    };
    let ended = target.up_with(&options, &mut FakeOperator::default());
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Paused), ExitCode::Done)
    );
    assert_eq!(target.world.objects(), ["0.s", "1.s"]);
    // The same again verifies and applies nothing.
    target.world.take(&[]);
    let ended = target.resume_with(&options, &mut FakeOperator::default());
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Paused), ExitCode::Done)
    );
    assert_eq!(
        target.world.take(&["apply", "verify"]),
        ["0 verify", "1 verify"]
    );
    // The last phase is the end of the run.
    let options = Options {
        through: Some(phase_id("2")),
        ..Options::default()
    };
    let ended = target.resume_with(&options, &mut FakeOperator::default());
    assert_eq!(ended.status, Some(RunStatus::Finished));
}

#[test]
fn through_an_unknown_phase_is_a_fault_of_usage() {
    let mut target = Target::new(small(&["0", "1"]));
    let options = Options {
        through: Some(phase_id("9")),
        ..Options::default()
    };
    let ended = target.up_with(&options, &mut FakeOperator::default());
    assert_eq!((ended.status, ended.exit), (None, ExitCode::Unusable));
    assert_eq!(
        said(&ended),
        ["`--through 9` names no phase of this platform"]
    );
    assert_eq!(
        target.world.take(&["define", "apply"]),
        Vec::<String>::new()
    );
}

#[test]
fn pause_ends_the_call_at_the_next_checkpoint() {
    let mut target = Target::new(small(&["0", "1", "2"]));
    let options = Options {
        pause: true,
        interactive: true,
        ..Options::default()
    };
    let mut operator = FakeOperator::default();
    let ended = target.up_with(&options, &mut operator);
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Paused), ExitCode::Done)
    );
    assert_eq!(target.world.objects(), ["0.s"]);
    assert_eq!(*operator.asked.borrow(), ["0 summary 1/3"]);
    // A resumed call gets one phase further, not none.
    target.resume_with(&options, &mut operator);
    assert_eq!(target.world.objects(), ["0.s", "1.s"]);
    assert_eq!(target.history.status, Some(RunStatus::Paused));
    let ended = target.resume_with(&options, &mut operator);
    assert_eq!(ended.status, Some(RunStatus::Finished));
}

#[test]
fn on_a_terminal_the_operator_is_asked_between_phases() {
    let mut target = Target::new(small(&["0", "1", "2", "3"]));
    let options = Options {
        interactive: true,
        ..Options::default()
    };
    let answers = vec![Answer::Continue, Answer::Pause];
    let mut operator = FakeOperator {
        answers,
        ..FakeOperator::default()
    };
    let ended = target.up_with(&options, &mut operator);
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Paused), ExitCode::Done)
    );
    assert!(target.words.contains(&"0 checkpoint Continue".to_owned()));
    assert!(target.words.contains(&"1 checkpoint Pause".to_owned()));
    assert_eq!(target.world.objects(), ["0.s", "1.s"]);

    let mut operator = FakeOperator {
        answers: vec![Answer::TearDown],
        ..FakeOperator::default()
    };
    let ended = target.resume_with(&options, &mut operator);
    assert!(ended.tear_down);
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Paused), ExitCode::Done)
    );
    // Phases that were verified before are no checkpoint again.
    assert_eq!(*operator.asked.borrow(), ["2 summary 3/4", "2 checkpoint"]);

    // After the last phase there is nothing to ask.
    let mut operator = FakeOperator::default();
    assert_eq!(
        target.resume_with(&options, &mut operator).status,
        Some(RunStatus::Finished)
    );
    assert_eq!(*operator.asked.borrow(), ["3 summary 4/4"]);
}

#[test]
fn on_a_terminal_a_failure_offers_teardown() {
    let options = Options {
        interactive: true,
        ..Options::default()
    };
    for (answer, expected) in [(AfterFailure::Leave, false), (AfterFailure::TearDown, true)] {
        let mut target = Target::new(small(&["0"]));
        target.world.fault("0.s apply", Fault::Fails);
        let mut operator = FakeOperator {
            after_failure: Some(answer),
            ..FakeOperator::default()
        };
        let ended = target.up_with(&options, &mut operator);
        assert_eq!(ended.tear_down, expected);
        assert_eq!(*operator.asked.borrow(), ["failed 1"]);
    }
    // Unattended, nobody is asked.
    let mut target = Target::new(small(&["0"]));
    target.world.fault("0.s apply", Fault::Fails);
    let mut operator = FakeOperator {
        after_failure: Some(AfterFailure::TearDown),
        ..FakeOperator::default()
    };
    assert!(!target.up_with(&Options::default(), &mut operator).tear_down);
    assert_eq!(*operator.asked.borrow(), Vec::<String>::new());
}

#[test]
fn the_first_stop_lets_the_running_step_end_and_starts_no_other() {
    let sequence = || Sequence::new(vec![phase("1", &["a", "b"]), phase("2", &["s"])]).unwrap();
    for (call, expected) in [
        ("1.a apply", vec!["1.a apply"]),
        ("1.b apply", vec!["1.a apply", "1.b apply"]),
        ("1.a verify", vec!["1.a apply", "1.b apply", "1.a verify"]),
        (
            "1.b verify",
            vec!["1.a apply", "1.b apply", "1.a verify", "1.b verify"],
        ),
        (
            "1 check",
            vec![
                "1.a apply",
                "1.b apply",
                "1.a verify",
                "1.b verify",
                "1 check",
            ],
        ),
    ] {
        let mut target = Target::new(sequence());
        let mut operator = FakeOperator::stop_at(&target.world, call, Stop::Gentle);
        let ended = target.up_with(&Options::default(), &mut operator);
        assert_eq!(ended.status, Some(RunStatus::Interrupted), "{call}");
        assert_eq!(ended.exit, ExitCode::Interrupted, "{call}");
        assert_eq!(target.world.take(&["apply", "verify", "check"]), expected);
        assert!(target.history.status_of(&id("1.a")).ended_well());
        // And it goes on from there.
        assert_eq!(target.resume().status, Some(RunStatus::Finished), "{call}");
    }
}

#[test]
fn a_hang_up_lets_the_phase_at_hand_end() {
    for call in ["1.a apply", "1.b verify", "1 check"] {
        let mut target =
            Target::new(Sequence::new(vec![phase("1", &["a", "b"]), phase("2", &["s"])]).unwrap());
        let mut operator = FakeOperator::stop_at(&target.world, call, Stop::AfterPhase);
        let options = Options {
            interactive: true,
            ..Options::default()
        };
        let ended = target.up_with(&options, &mut operator);
        assert_eq!(ended.status, Some(RunStatus::Paused), "{call}");
        assert_eq!(ended.exit, ExitCode::Interrupted, "{call}");
        assert!(target.history.is_verified(&phase_id("1")));
        assert_eq!(target.world.objects(), ["1.a", "1.b"]);
        assert_eq!(*operator.asked.borrow(), ["1 summary 1/2"]);
    }
}

#[test]
fn a_stop_in_the_very_last_check_ends_with_130_though_the_run_is_finished() {
    for stop in [Stop::Gentle, Stop::AfterPhase] {
        let mut target = Target::new(small(&["1"]));
        let mut operator = FakeOperator::stop_at(&target.world, "1 check", stop);
        let ended = target.up_with(&Options::default(), &mut operator);
        assert_eq!(ended.status, Some(RunStatus::Finished));
        assert_eq!(ended.exit, ExitCode::Interrupted);
    }
}

#[test]
fn an_apply_that_a_signal_ended_is_interrupted_not_failed() {
    let mut target = Target::new(small(&["1", "2"]));
    target.world.fault_once("1.s apply", Fault::Interrupted);
    let options = Options {
        interactive: true,
        ..Options::default()
    };
    let mut operator = FakeOperator::default();
    let ended = target.up_with(&options, &mut operator);
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Interrupted), ExitCode::Interrupted)
    );
    assert_eq!(
        target.history.status_of(&id("1.s")),
        StepStatus::Interrupted
    );
    assert_eq!(*operator.asked.borrow(), Vec::<String>::new());
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
    assert_eq!(
        target.world.hows.lock().unwrap()[1],
        (id("1.s"), ApplyHow::AfterFailure)
    );
}

#[test]
fn a_verify_that_a_signal_ended_has_no_verdict() {
    let mut target = Target::new(small(&["1"]));
    target.world.fault_once("1.s verify", Fault::Interrupted);
    let ended = target.up();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Interrupted), ExitCode::Interrupted)
    );
    assert_eq!(target.history.status_of(&id("1.s")), StepStatus::Succeeded);
    target.world.take(&[]);
    target.resume();
    assert_eq!(target.world.take(&["apply", "verify"]), ["1 verify"]);
}

#[test]
fn a_declined_plan_in_mid_run_leaves_the_step_as_it_was() {
    let mut target = Target::new(small(&["1", "2"]));
    target.world.fault_once("2.s prepare", Fault::Declined);
    let ended = target.up();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Failed), ExitCode::Declined)
    );
    assert_eq!(target.history.status_of(&id("2.s")), StepStatus::Pending);
    assert_eq!(target.history.standing, [id("1.s")]);
}

#[test]
fn a_panic_in_a_step_is_a_failure_and_the_step_counts_as_cut() {
    let mut target = Target::new(small(&["1", "2"]));
    target.world.fault_once("1.s apply", Fault::Panics);
    let ended = target.up();
    assert_eq!(said(&ended), ["step `1.s`: the program itself failed"]);
    assert_eq!(target.history.status_of(&id("1.s")), StepStatus::Started);
    target.world.fault_once("1.s verify", Fault::Panics);
    assert_eq!(target.resume().exit, ExitCode::Failed);
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
}

#[test]
fn a_ledger_that_cannot_be_written_stops_the_run_at_once() {
    let mut whole = Target::new(small(&["0", "1"]));
    whole.up();
    for cut in 0..whole.n_writes {
        let mut target = Target::new(small(&["0", "1"]));
        target.cut_at = Some(cut);
        let ended = target.up();
        assert_eq!(
            (ended.status, ended.exit),
            (None, ExitCode::Failed),
            "{cut}"
        );
        assert!(ended.ledger_error.is_some(), "{cut}");
        assert_eq!(said(&ended), ["cannot write the record"], "{cut}");
        let n_applies = target.world.take(&["apply"]).len();
        let n_stored = target
            .words
            .iter()
            .filter(|w| w.ends_with(" started"))
            .count();
        assert_eq!(
            n_applies, n_stored,
            "an apply that was not stored first, cut at {cut}"
        );
    }
}

#[test]
fn a_failure_whose_end_cannot_be_stored_shows_both() {
    let mut target = Target::new(small(&["1"]));
    target.world.fault("1.s apply", Fault::Fails);
    target.up();
    let mut cut = Target::new(small(&["1"]));
    cut.world.fault("1.s apply", Fault::Fails);
    cut.cut_at = Some(target.n_writes - 1);
    let ended = cut.up();
    assert_eq!(said(&ended), ["1.s apply fails", "cannot write the record"]);
}

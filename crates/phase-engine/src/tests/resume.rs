//! `up --resume`, a new run on what stands, and pruning.

use super::fakes::*;
use crate::*;

#[test]
fn the_calls_of_a_failed_and_of_the_resumed_call_are_exactly_these() {
    let mut target = Target::new(small(&["0", "1a", "1b"]));
    target.world.fault("1a.s apply", Fault::Fails);
    target.up();
    assert_eq!(
        target.world.take(&["apply", "verify"]),
        ["0 apply", "0 verify", "1a apply"]
    );
    target.world.mend();
    let ended = target.resume();
    assert_eq!(
        target.world.take(&["apply", "verify"]),
        ["0 verify", "1a apply", "1a verify", "1b apply", "1b verify"]
    );
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Finished), ExitCode::Done)
    );
    let bases = target.world.bases.lock().unwrap().clone();
    let last_of_0 = bases
        .iter()
        .rfind(|(call, _)| call == "0.s verify")
        .unwrap();
    assert_eq!(last_of_0.1, Basis::Standing);
    assert!(bases.contains(&("0 check".to_owned(), Basis::Standing)));
    let how = target.world.hows.lock().unwrap().clone();
    assert_eq!(how[2], (id("1a.s"), ApplyHow::AfterFailure));
}

#[test]
fn a_verified_phase_is_not_applied_even_where_its_definitions_changed() {
    let mut target = Target::new(small(&["0", "1", "2"]));
    target.world.fault("2.s apply", Fault::Fails);
    target.up();
    target.world.mend();
    target.world.define("0.s", "d2");
    target.world.take(&[]);
    let ended = target.resume();
    assert_eq!(ended.status, Some(RunStatus::Finished));
    assert_eq!(ended.pending, [id("0.s")]);
    assert_eq!(target.world.take(&["apply"]), ["2 apply"]);
    // The next `up` applies it.
    let ended = target.up();
    assert_eq!(ended.pending, []);
    assert_eq!(target.world.objects.lock().unwrap()[&id("0.s")], "d2");
}

#[test]
fn a_definition_that_cannot_be_read_is_pending_too() {
    let mut target = Target::new(small(&["0", "1"]));
    target.world.fault("1.s apply", Fault::Fails);
    target.up();
    target.world.mend();
    target.world.fault("0.s define", Fault::Fails);
    assert_eq!(target.resume().pending, [id("0.s")]);
}

#[test]
fn a_re_verify_that_fails_ends_with_3_and_the_phase_stays_verified() {
    for call in ["0.a verify", "0 check"] {
        let sequence = Sequence::new(vec![phase("0", &["a", "b"]), phase("1", &["s"])]).unwrap();
        let mut target = Target::new(sequence);
        target.world.fault("1.s apply", Fault::Fails);
        target.up();
        target.world.mend();
        target.world.fault(call, Fault::Fails);
        target.world.take(&[]);
        let options = Options {
            interactive: true,
            ..Options::default()
        };
        let mut operator = FakeOperator::default();
        let ended = target.resume_with(&options, &mut operator);
        assert_eq!(
            (ended.status, ended.exit),
            (Some(RunStatus::Failed), ExitCode::Stopped)
        );
        assert!(target.words.contains(&"0 stopped Reverify".to_owned()));
        // What stands is looked at as a whole, and no teardown is offered.
        assert_eq!(
            target.world.take(&["apply", "verify", "check"]),
            ["0.a verify", "0.b verify", "0 check"]
        );
        assert_eq!(*operator.asked.borrow(), Vec::<String>::new());
        assert!(target.history.is_verified(&phase_id("0")));
        assert_eq!(target.history.status_of(&id("0.a")), StepStatus::Verified);
        // The next one verifies it again, and never applies it.
        target.world.mend();
        assert_eq!(target.resume().status, Some(RunStatus::Finished));
        assert_eq!(target.world.take(&["apply"]), ["1 apply"]);
    }
}

#[test]
fn within_a_phase_only_what_did_not_end_well_is_applied_again() {
    let sequence = Sequence::new(vec![phase("1", &["a", "b", "c"])]).unwrap();
    let mut target = Target::new(sequence);
    target.world.fault("1.b apply", Fault::Fails);
    target.up();
    target.world.mend();
    target.world.take(&[]);
    target.resume();
    assert_eq!(
        target.world.take(&["apply", "verify"]),
        [
            "1.b apply",
            "1.c apply",
            "1.a verify",
            "1.b verify",
            "1.c verify"
        ]
    );
}

#[test]
fn a_step_of_the_phase_at_hand_whose_definitions_changed_is_applied_again() {
    for fault in ["1.b apply", "1 check"] {
        let mut target = Target::new(Sequence::new(vec![phase("1", &["a", "b"])]).unwrap());
        target.world.fault(fault, Fault::Fails);
        target.up();
        target.world.mend();
        target.world.define("1.a", "d2");
        assert_eq!(target.resume().status, Some(RunStatus::Finished));
        assert_eq!(target.world.objects.lock().unwrap()[&id("1.a")], "d2");
        let hows = target.world.hows.lock().unwrap().clone();
        assert!(hows.iter().filter(|(step, _)| *step == id("1.a")).count() == 2);
    }
}

#[test]
fn a_step_whose_verify_failed_is_applied_again() {
    let mut target = Target::new(small(&["1"]));
    target.world.fault_once("1.s verify", Fault::Fails);
    target.up();
    target.resume();
    assert_eq!(
        target.world.take(&["apply", "verify"]),
        ["1 apply", "1 verify", "1 apply", "1 verify"]
    );
}

#[test]
fn a_step_that_was_cut_is_judged_by_the_world() {
    // Cut right after the start was stored and the apply was done.
    for judged in [false, true] {
        let mut target = Target::new(small(&["1"]));
        if judged {
            let mut world = FakeWorld::new();
            world.judged.insert(id("1.s"));
            target.world = std::sync::Arc::new(world);
        }
        target.cut_at = Some(2);
        target.up();
        assert_eq!(target.history.status_of(&id("1.s")), StepStatus::Started);
        assert_eq!(target.world.objects(), ["1.s"]);
        target.cut_at = None;
        target.world.take(&[]);
        assert_eq!(target.resume().status, Some(RunStatus::Finished));
        let expected: &[&str] = if judged { &[] } else { &["1 apply"] };
        assert_eq!(target.world.take(&["apply"]), expected);
        let hows = target.world.hows.lock().unwrap().clone();
        assert_eq!(
            hows[1].1,
            ApplyHow::AfterCut {
                same_definition: true
            }
        );
        let started = target
            .words
            .iter()
            .filter(|word| *word == "1.s started")
            .count();
        assert_eq!(started, usize::from(!judged));
    }
}

#[test]
fn a_cut_step_that_turns_out_done_from_other_definitions_is_stored_as_begun_from_them() {
    let mut target = Target::new(small(&["1"]));
    let mut world = FakeWorld::new();
    world.judged.insert(id("1.s"));
    target.world = std::sync::Arc::new(world);
    target.cut_at = Some(2);
    target.up();
    target.cut_at = None;
    target.world.define("1.s", "d2");
    target
        .world
        .objects
        .lock()
        .unwrap()
        .insert(id("1.s"), "d2".to_owned());
    target.resume();
    let hows = target.world.hows.lock().unwrap().clone();
    assert_eq!(
        hows[1].1,
        ApplyHow::AfterCut {
            same_definition: false
        }
    );
    assert_eq!(target.history.definition_of(&id("1.s")), Some("d2"));
    assert!(target.words.contains(&"1.s started".to_owned()));
}

#[test]
fn what_changed_before_the_resume_point_stops_with_the_difference() {
    type Phases<'a> = &'a [(&'a str, &'a [&'a str])];
    let cases: [(Phases<'_>, &[&str]); 6] = [
        (
            &[
                ("0", &["a"]),
                ("x", &["s"]),
                ("1", &["a", "b"]),
                ("2", &["s"]),
            ],
            &["phase `x` is new"],
        ),
        (
            &[("1", &["a", "b"]), ("2", &["s"])],
            &["phase `0` is gone", "step `0.a` is gone"],
        ),
        (
            &[("1", &["a", "b"]), ("0", &["a"]), ("2", &["s"])],
            &["phase `0` was moved", "phase `1` was moved"],
        ),
        (
            &[("0", &["a"]), ("1", &["a", "b", "c"]), ("2", &["s"])],
            &["step `1.c` is new"],
        ),
        (
            &[("0", &["a"]), ("1", &["b"]), ("2", &["s"])],
            &["step `1.a` is gone"],
        ),
        (
            &[("0", &["a"]), ("1", &["b", "a"]), ("2", &["s"])],
            &["step `1.a` was moved", "step `1.b` was moved"],
        ),
    ];
    for (today, expected) in cases {
        let plain = |phases: &[(&str, &[&str])]| {
            let phase = |(name, steps): &(&str, &[&str])| {
                let mut phase = phase(name, steps);
                phase.provides_state = false;
                phase
            };
            Sequence::new(phases.iter().map(phase).collect()).unwrap()
        };
        let then: [(&str, &[&str]); 3] = [("0", &["a"]), ("1", &["a", "b"]), ("2", &["s"])];
        let mut target = Target::new(plain(&then));
        target.world.fault("2.s apply", Fault::Fails);
        target.up();
        target.world.mend();
        target.world.take(&[]);
        target.sequence = plain(today);
        let history = target.history.clone();
        let mut ledger = FakeLedger::new(&target.sequence, history.clone());
        let ended = up(
            CallKind::Resume,
            &target.sequence,
            history,
            &Options::default(),
            &*target.world,
            &mut ledger,
            &mut FakeOperator::default(),
        );
        assert_eq!((ended.status, ended.exit), (None, ExitCode::Stopped));
        assert_eq!(ended.failures[0].failure.causes, expected);
        assert!(ledger.writes.is_empty());
        assert!(
            target
                .world
                .take(&["apply", "verify", "teardown"])
                .is_empty()
        );
    }
}

#[test]
fn what_is_new_behind_the_resume_point_is_applied() {
    let mut target = Target::new(small(&["0", "1"]));
    target.world.fault("1.s apply", Fault::Fails);
    target.up();
    target.world.mend();
    target.world.take(&[]);
    target.sequence = Sequence::new(vec![
        phase("0", &["s"]),
        phase("0b", &["s"]),
        phase("1", &["a", "s"]),
    ])
    .unwrap();
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
    assert_eq!(
        target.world.take(&["apply"]),
        ["0b apply", "1.a apply", "1 apply"]
    );
    let standing: Vec<String> = target
        .history
        .standing
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(standing, ["0.s", "0b.s", "1.a", "1.s"]);
}

#[test]
fn a_step_that_stands_and_is_defined_no_more_stops_a_new_run_too() {
    let mut target = Target::new(small(&["0", "1"]));
    target.up();
    target.sequence = small(&["0"]);
    let ended = target.up();
    assert_eq!((ended.status, ended.exit), (None, ExitCode::Stopped));
    assert_eq!(ended.failures[0].failure.causes, ["step `1.s` is gone"]);
}

#[test]
fn a_new_run_applies_every_phase_and_inherits_what_stands() {
    let mut target = Target::new(small(&["0", "1", "2"]));
    target.up();
    target.world.take(&[]);
    target.world.fault("0.s apply", Fault::Fails);
    let ended = target.up();
    assert_eq!(ended.status, Some(RunStatus::Failed));
    // What the new run has not come to is still there to be torn down, in the same order.
    let standing: Vec<String> = target
        .history
        .standing
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(standing, ["0.s", "1.s", "2.s"]);
    // Resumed: the phases that stand from the earlier run are preflighted, then applied.
    target.world.mend();
    target.world.take(&[]);
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
    assert_eq!(
        target.world.take(&["preflight", "apply"]),
        ["1+2 preflight", "0 apply", "1 apply", "2 apply"]
    );
}

#[test]
fn a_preflight_that_fails_stops_a_resumed_run_before_it_applies() {
    let mut target = Target::new(small(&["0", "1", "2"]));
    target.up();
    target.world.fault("1.s apply", Fault::Fails);
    target.up();
    target.world.mend();
    target.world.take(&[]);
    target.world.fault("2 preflight", Fault::Fails);
    let ended = target.resume();
    assert_eq!(ended.status, Some(RunStatus::Failed));
    assert_eq!(said(&ended), ["2 preflight fails"]);
    assert_eq!(target.world.take(&["verify", "apply"]), ["0 verify"]);
}

#[test]
fn a_repair_of_a_verified_phase_that_did_not_end_well_stops_a_resumed_run() {
    let mut target = Target::new(small(&["0", "1"]));
    target.world.fault("1.s apply", Fault::Fails);
    target.up();
    target.world.mend();
    target.history.steps.get_mut(&id("0.s")).unwrap().status = StepStatus::Failed;
    let ended = target.resume();
    assert_eq!(ended.exit, ExitCode::Stopped);
    assert_eq!(said(&ended), ["step `0.s` of a verified phase is `failed`"]);
}

#[test]
fn signals_end_a_resumed_run_in_its_re_verify() {
    let failed = || {
        let mut target = Target::new(small(&["0", "1", "2"]));
        target.world.fault_once("2.s apply", Fault::Fails);
        target.up();
        target.world.take(&[]);
        target
    };
    let mut target = failed();
    let mut operator = FakeOperator::stop_at(&target.world, "0.s verify", Stop::Gentle);
    let ended = target.resume_with(&Options::default(), &mut operator);
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Interrupted), ExitCode::Interrupted)
    );
    assert_eq!(target.world.take(&["verify", "check"]), ["0 verify"]);
    let mut target = failed();
    let mut operator = FakeOperator::stop_at(&target.world, "0.s verify", Stop::AfterPhase);
    let ended = target.resume_with(&Options::default(), &mut operator);
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Paused), ExitCode::Interrupted)
    );
    assert_eq!(
        target.world.take(&["verify", "check"]),
        ["0 verify", "0 check"]
    );
    let mut target = failed();
    target.world.fault("0.s verify", Fault::Interrupted);
    let ended = target.resume();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Interrupted), ExitCode::Interrupted)
    );
    assert_eq!(target.history.status_of(&id("0.s")), StepStatus::Verified);
}

/// Two runs: the first with an `old` phase, the second without it.
fn with_removed() -> Target {
    let mut target = Target::new(small(&["0", "old", "1", "2"]));
    target.up();
    target.world.take(&[]);
    target.sequence = small(&["0", "1", "2"]);
    target
}

fn prune(after: Option<&str>) -> Options {
    let prune = vec![Prune {
        step: id("old.s"),
        after: after.map(phase_id),
    }];
    Options {
        prune,
        ..Options::default()
    }
}

#[test]
fn a_removed_step_is_torn_down_after_the_last_phase_that_referred_to_it() {
    for (after, expected) in [
        (
            Some("1"),
            [
                "0 apply",
                "1 apply",
                "old teardown",
                "old residue",
                "2 apply",
            ],
        ),
        (
            None,
            [
                "old teardown",
                "old residue",
                "0 apply",
                "1 apply",
                "2 apply",
            ],
        ),
    ] {
        let mut target = with_removed();
        let ended = target.up_with(&prune(after), &mut FakeOperator::default());
        assert_eq!(ended.status, Some(RunStatus::Finished));
        assert_eq!(
            target.world.take(&["apply", "teardown", "residue"]),
            expected
        );
        assert!(target.words.contains(&"old gone 0".to_owned()));
        assert!(!target.history.teardown_begun);
        assert_eq!(target.world.objects(), ["0.s", "1.s", "2.s"]);
        assert_eq!(target.history.unproven, []);
    }
}

#[test]
fn a_step_removed_from_a_phase_that_stays_leaves_the_phase_alone() {
    let mut target = Target::new(Sequence::new(vec![phase("1", &["a", "b"])]).unwrap());
    target.up();
    target.sequence = Sequence::new(vec![phase("1", &["a"])]).unwrap();
    let prune = vec![Prune {
        step: id("1.b"),
        after: Some(phase_id("1")),
    }];
    let options = Options {
        prune,
        ..Options::default()
    };
    let ended = target.up_with(&options, &mut FakeOperator::default());
    assert_eq!(ended.status, Some(RunStatus::Finished));
    assert_eq!(target.world.objects(), ["1.a"]);
    assert!(!target.words.iter().any(|word| word.starts_with("1 gone")));
}

#[test]
fn a_prune_that_fails_is_tried_again_by_resume() {
    for fault in ["old.s teardown", "old residue"] {
        let mut target = with_removed();
        target.world.fault_once(fault, Fault::Fails);
        let ended = target.up_with(&prune(Some("1")), &mut FakeOperator::default());
        assert_eq!(
            (ended.status, ended.exit),
            (Some(RunStatus::Failed), ExitCode::Failed)
        );
        assert_eq!(said(&ended), [format!("{fault} fails")]);
        assert!(target.words.contains(&"old teardown failed".to_owned()));
        target.world.take(&[]);
        let ended = target.resume_with(&prune(Some("1")), &mut FakeOperator::default());
        assert_eq!(
            ended.status,
            Some(RunStatus::Finished),
            "{:?}",
            said(&ended)
        );
        assert_eq!(target.world.take(&["apply"]), ["2 apply"]);
        assert_eq!(target.history.unproven, []);
        assert_eq!(target.world.objects(), ["0.s", "1.s", "2.s"]);
    }
}

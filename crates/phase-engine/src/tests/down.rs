//! `down`: order, proof, what is deferred, what goes last.

use super::fakes::*;
use crate::*;

fn built(sequence: Sequence) -> Target {
    let mut target = Target::new(sequence);
    assert_eq!(target.up().status, Some(RunStatus::Finished));
    target.world.take(&[]);
    target
}

const VERBS: [&str; 5] = ["teardown", "residue", "holding", "store-going", "forget"];

#[test]
fn everything_goes_in_exact_reverse_and_each_phase_is_proven() {
    let sequence = Sequence::new(vec![
        phase("0", &["s"]),
        phase("1", &["a", "b"]),
        phase("2", &["s"]),
    ]);
    let mut target = built(sequence.unwrap());
    let ended = target.down();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::TornDown), ExitCode::Done)
    );
    assert_eq!(
        target.world.take(&VERBS),
        [
            "2 teardown",
            "2 residue",
            "1.b teardown",
            "1.a teardown",
            "1 residue",
            "all holding",
            "0 store-going",
            "0 teardown",
            "0 residue"
        ]
    );
    target.assert_gone();
    assert_eq!(
        target.words[..3],
        ["call TearDown", "teardown began", "2 tearing down"]
    );
}

#[test]
fn down_again_finds_nothing() {
    let mut target = built(small(&["0", "1"]));
    target.down();
    assert!(target.plan().is_empty());
    let ended = target.down();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::TornDown), ExitCode::Done)
    );
    assert_eq!(
        target.world.take(&["teardown"]),
        ["1 teardown", "0 teardown"]
    );
    let state = RunState::of(&target.history, false);
    assert_eq!(admission(Command::Down, state), Ok(Mode::NothingLeft));
}

#[test]
fn unknown_states_go_after_what_stands_and_before_the_last_phase() {
    let mut target = built(small(&["0", "1", "2"]));
    let mut plan = target.plan();
    let step = |text: &str| TeardownStep {
        id: id(text),
        contained_in: None,
    };
    plan.unknown = vec![step("1.x"), step("0.x"), step("9.x")];
    for text in ["1.x", "0.x", "9.x"] {
        target
            .world
            .objects
            .lock()
            .unwrap()
            .insert(id(text), "?".to_owned());
    }
    let order: Vec<String> = plan
        .order()
        .iter()
        .map(|step| step.id.to_string())
        .collect();
    assert_eq!(order, ["2.s", "1.s", "1.x", "9.x", "0.s", "0.x"]);
    target.down_with(&plan, &FakeOperator::default());
    assert_eq!(
        target.world.take(&["teardown", "residue"]),
        [
            "2 teardown",
            "2 residue",
            "1 teardown",
            "1.x teardown",
            "1 residue",
            "9.x teardown",
            "9 residue",
            "0 teardown",
            "0.x teardown",
            "0 residue"
        ]
    );
    target.assert_gone();
}

#[test]
fn a_teardown_that_fails_stops_the_walk_and_phase_0_is_untouched() {
    let mut target = built(small(&["0", "1", "2"]));
    target.world.fault("1.s teardown", Fault::Fails);
    let ended = target.down();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::TeardownFailed), ExitCode::Failed)
    );
    assert_eq!(
        target.world.take(&["teardown", "store-going"]),
        ["2 teardown", "1 teardown"]
    );
    assert_eq!(
        target.history.status_of(&id("1.s")),
        StepStatus::TeardownFailed
    );
    assert_eq!(target.world.objects(), ["0.s", "1.s"]);
    // Only `down` goes on, and it goes on where it stopped.
    let state = RunState::of(&target.history, true);
    assert_eq!(
        admission(Command::Resume, state),
        Err(Refusal::TeardownBegun)
    );
    target.world.mend();
    target.down();
    assert_eq!(
        target.world.take(&["teardown"]),
        ["1 teardown", "0 teardown"]
    );
    target.assert_gone();
}

#[test]
fn what_is_left_behind_is_a_failure_now_and_at_the_next_down() {
    for unprovable in [false, true] {
        let mut target = built(small(&["0", "1", "2"]));
        let wrong = |target: &Target| {
            if unprovable {
                target.world.fault("2 residue", Fault::Fails);
            } else {
                target
                    .world
                    .residue
                    .lock()
                    .unwrap()
                    .insert(phase_id("2"), true);
            }
        };
        wrong(&target);
        for _ in 0..2 {
            let ended = target.down();
            assert_eq!(ended.status, Some(RunStatus::TeardownFailed));
            assert_eq!(ended.exit, ExitCode::Failed);
            assert_eq!(target.world.objects(), ["0.s", "1.s"]);
            assert_eq!(target.history.unproven, [phase_id("2")]);
        }
        assert_eq!(target.world.take(&["teardown"]), ["2 teardown"]);
        target.world.mend();
        target.down();
        assert_eq!(
            target.world.take(&["teardown", "residue"]),
            [
                "2 residue",
                "1 teardown",
                "1 residue",
                "0 teardown",
                "0 residue"
            ]
        );
        target.assert_gone();
    }
}

#[test]
fn what_phase_0_left_behind_is_looked_for_again() {
    let mut target = built(small(&["0", "1"]));
    target.world.fault_once("0 residue", Fault::Fails);
    assert_eq!(target.down().exit, ExitCode::Failed);
    target.world.take(&[]);
    target.down();
    assert_eq!(
        target.world.take(&VERBS),
        ["all holding", "0 store-going", "0 residue"]
    );
    target.assert_gone();
}

#[test]
fn phase_0_refuses_to_go_while_another_state_holds_a_resource() {
    let mut target = built(small(&["0", "1"]));
    target
        .world
        .objects
        .lock()
        .unwrap()
        .insert(id("7.lost"), "?".to_owned());
    let ended = target.down();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::TeardownFailed), ExitCode::Failed)
    );
    assert_eq!(ended.failures[0].failure.causes, ["step `7.lost`"]);
    assert_eq!(
        target.world.take(&["teardown", "store-going"]),
        ["1 teardown"]
    );
    assert_eq!(target.world.objects(), ["0.s", "7.lost"]);
}

#[test]
fn phase_0_stays_when_its_store_cannot_be_left_or_read() {
    for fault in ["all holding", "0 store-going"] {
        let mut target = built(small(&["0", "1"]));
        target.world.fault_once(fault, Fault::Fails);
        let ended = target.down();
        assert_eq!(said(&ended), [format!("{fault} fails")]);
        assert_eq!(target.world.objects(), ["0.s"]);
        target.down();
        target.assert_gone();
    }
}

#[test]
fn down_after_an_up_that_failed_at_each_phase_in_turn() {
    let ids = ["0", "1a", "1b", "2"];
    for fault in [
        Fault::Fails,
        Fault::FailsLate,
        Fault::Interrupted,
        Fault::Panics,
    ] {
        for at in ids {
            for verb in ["apply", "verify"] {
                let mut target = Target::new(small(&ids));
                target.world.fault(&format!("{at}.s {verb}"), fault);
                assert!(!target.up().exit.is_done() || fault == Fault::FailsLate);
                target.world.mend();
                assert_eq!(target.down().exit, ExitCode::Done, "{at} {verb}");
                target.assert_gone();
            }
        }
    }
}

fn nested() -> Sequence {
    Sequence::new(vec![
        phase("0", &["s"]),
        phase("2", &["cluster"]),
        phase("3", &["apps<2.cluster", "other"]),
        phase("4", &["canary<3.apps"]),
    ])
    .unwrap()
}

#[test]
fn a_step_that_lives_in_another_is_forgotten_once_that_is_proven_gone() {
    let mut target = built(nested());
    target.world.fault("3.apps teardown", Fault::Fails);
    let ended = target.down();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::TornDown), ExitCode::Done)
    );
    assert_eq!(
        target.world.take(&VERBS),
        [
            "4.canary teardown",
            "4 residue",
            "3.other teardown",
            "3.apps teardown",
            "2.cluster teardown",
            "2 residue",
            "3.apps forget",
            "3 residue",
            "all holding",
            "0 store-going",
            "0 teardown",
            "0 residue"
        ]
    );
    target.assert_gone();
    let forgotten = target.world.forgotten.lock().unwrap().clone();
    assert_eq!(forgotten, [(id("3.apps"), Forgetting::WithContainer)]);
    assert_eq!(
        target.history.status_of(&id("3.apps")),
        StepStatus::Forgotten
    );
}

#[test]
fn what_lives_in_what_lives_in_another_is_forgotten_with_it() {
    let mut target = built(nested());
    target.world.fault("3.apps teardown", Fault::Fails);
    target.world.fault("4.canary teardown", Fault::Fails);
    let ended = target.down();
    assert_eq!(
        ended.status,
        Some(RunStatus::TornDown),
        "{:?}",
        said(&ended)
    );
    let calls = target.world.take(&["forget", "residue"]);
    assert_eq!(
        calls,
        [
            "2 residue",
            "4.canary forget",
            "3.apps forget",
            "4 residue",
            "3 residue",
            "0 residue"
        ]
    );
    target.assert_gone();
}

#[test]
fn a_step_that_lives_in_another_of_its_phase_does_not_wait_for_itself() {
    let sequence = Sequence::new(vec![
        phase("0", &["s"]),
        phase("3", &["cluster", "apps<3.cluster", "more<3.apps"]),
    ]);
    let mut target = built(sequence.unwrap());
    target.world.fault("3.apps teardown", Fault::Fails);
    target.world.fault("3.more teardown", Fault::Fails);
    let ended = target.down();
    assert_eq!(
        ended.status,
        Some(RunStatus::TornDown),
        "{:?}",
        said(&ended)
    );
    target.assert_gone();
}

#[test]
fn a_deferred_step_is_not_forgotten_while_its_container_left_something_behind() {
    let mut target = built(nested());
    target.world.fault("3.apps teardown", Fault::Fails);
    target
        .world
        .residue
        .lock()
        .unwrap()
        .insert(phase_id("2"), true);
    let ended = target.down();
    assert_eq!(ended.status, Some(RunStatus::TeardownFailed));
    assert!(target.world.take(&["forget"]).is_empty());
    assert_eq!(target.history.standing, [id("0.s"), id("3.apps")]);
    // The container went in this call; the next one proves it first.
    target.world.residue.lock().unwrap().clear();
    let ended = target.down();
    assert_eq!(
        ended.status,
        Some(RunStatus::TornDown),
        "{:?}",
        said(&ended)
    );
    target.assert_gone();
}

#[test]
fn a_container_that_cannot_go_stops_the_walk() {
    let mut target = built(nested());
    target.world.fault("3.apps teardown", Fault::Fails);
    target.world.fault("2.cluster teardown", Fault::Fails);
    let ended = target.down();
    assert_eq!(ended.status, Some(RunStatus::TeardownFailed));
    assert_eq!(said(&ended), ["2.cluster teardown fails"]);
    target.world.mend();
    target.down();
    target.assert_gone();
}

#[test]
fn a_deferred_step_whose_forgetting_fails_stays() {
    let mut target = built(nested());
    target.world.fault("3.apps teardown", Fault::Fails);
    target.world.fault("3.apps forget", Fault::Fails);
    let ended = target.down();
    assert_eq!(said(&ended), ["3.apps forget fails"]);
    assert_eq!(
        target.history.status_of(&id("3.apps")),
        StepStatus::TeardownFailed
    );
    target.world.mend();
    target.world.fault("3.apps teardown", Fault::Fails);
    target.down();
    target.assert_gone();
}

#[test]
fn what_lives_in_the_last_phase_cannot_wait_for_it() {
    let sequence = Sequence::new(vec![phase("0", &["s"]), phase("1", &["apps<0.s"])]);
    let mut target = built(sequence.unwrap());
    target.world.fault("1.apps teardown", Fault::Fails);
    let ended = target.down();
    assert_eq!(ended.status, Some(RunStatus::TeardownFailed));
    assert_eq!(
        said(&ended),
        ["step `1.apps` could not be torn down, and `0.s`, in which it lives, is not gone"]
    );
    assert_eq!(target.world.objects(), ["0.s", "1.apps"]);
    // The same without a phase that goes last.
    target.last = None;
    target.down();
    target.assert_gone();
}

#[test]
fn forget_gives_a_step_up_and_what_cannot_be_proven_then_is_a_warning() {
    let mut target = built(small(&["0", "1", "2"]));
    target.forget.insert(id("1.s"));
    target.world.fault("1 residue", Fault::Fails);
    let ended = target.down();
    assert_eq!(
        ended.status,
        Some(RunStatus::TornDown),
        "{:?}",
        said(&ended)
    );
    assert_eq!(
        target.world.take(&["teardown"]),
        ["2 teardown", "0 teardown"]
    );
    assert!(target.words.contains(&"1 gone 1".to_owned()));
    let forgotten = target.world.forgotten.lock().unwrap().clone();
    assert_eq!(forgotten, [(id("1.s"), Forgetting::ByOperator)]);
    target.assert_gone();
}

#[test]
fn a_plan_narrowed_to_forget_leaves_everything_else_alone() {
    let sequence = Sequence::new(vec![
        phase("0", &["s"]),
        phase("1", &["a", "b"]),
        phase("2", &["s"]),
    ]);
    let mut target = built(sequence.unwrap());
    let forget = |target: &mut Target, step: &str| {
        let plan = target.plan().narrowed_to_forget(&id(step));
        target.down_with(&plan, &FakeOperator::default())
    };
    let ended = forget(&mut target, "1.b");
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Paused), ExitCode::Done)
    );
    // Its phase still stands, so nothing of it can be proven gone.
    assert_eq!(target.world.take(&VERBS), ["1.b forget"]);
    assert_eq!(target.history.standing, [id("0.s"), id("1.a"), id("2.s")]);
    let state = RunState::of(&target.history, true);
    assert_eq!(admission(Command::Up, state), Err(Refusal::TeardownBegun));
    // The last of its phase: now the phase is proven.
    let ended = forget(&mut target, "2.s");
    assert_eq!(ended.status, Some(RunStatus::Paused));
    assert_eq!(target.world.take(&VERBS), ["2 forget", "2 residue"]);
    // The phase that makes the store does not go while anything else stands.
    let ended = forget(&mut target, "0.s");
    assert_eq!(ended.status, Some(RunStatus::TeardownFailed));
    target.world.take(&VERBS);
    // The rest goes with the next `down`, which remembers what was given up.
    target.world.fault("1 residue", Fault::Fails);
    let ended = target.down();
    assert_eq!(
        ended.status,
        Some(RunStatus::TornDown),
        "{:?}",
        said(&ended)
    );
    assert!(target.words.contains(&"1 gone 1".to_owned()));
    target.assert_gone();
}

#[test]
fn forget_does_not_hide_what_a_probe_finds() {
    let mut target = built(small(&["0", "1"]));
    target.forget.insert(id("1.s"));
    target
        .world
        .residue
        .lock()
        .unwrap()
        .insert(phase_id("1"), true);
    assert_eq!(target.down().status, Some(RunStatus::TeardownFailed));
    let mut target = built(small(&["0", "1"]));
    target.forget.insert(id("1.s"));
    target.world.fault("1.s forget", Fault::Fails);
    assert_eq!(target.down().status, Some(RunStatus::TeardownFailed));
    assert_eq!(
        target.history.status_of(&id("1.s")),
        StepStatus::TeardownFailed
    );
}

#[test]
fn a_stop_lets_the_running_teardown_end_and_starts_no_other() {
    for call in ["2.s teardown", "2 residue", "1.s teardown"] {
        let mut target = built(small(&["0", "1", "2"]));
        let operator = FakeOperator::stop_at(&target.world, call, Stop::Gentle);
        let plan = target.plan();
        let ended = target.down_with(&plan, &operator);
        assert_eq!(ended.status, Some(RunStatus::Interrupted), "{call}");
        assert_eq!(ended.exit, ExitCode::Interrupted, "{call}");
        let calls = target.world.take(&["teardown", "residue"]);
        assert_eq!(calls.last().unwrap(), &call.replace(".s", ""));
        let state = RunState::of(&target.history, true);
        assert_eq!(admission(Command::Up, state), Err(Refusal::TeardownBegun));
        target.down();
        target.assert_gone();
    }
}

#[test]
fn a_hang_up_lets_the_phase_at_hand_go() {
    let sequence = Sequence::new(vec![phase("0", &["s"]), phase("1", &["a", "b"])]);
    let mut target = built(sequence.unwrap());
    let operator = FakeOperator::stop_at(&target.world, "1.b teardown", Stop::AfterPhase);
    let plan = target.plan();
    let ended = target.down_with(&plan, &operator);
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Interrupted), ExitCode::Interrupted)
    );
    let calls = target.world.take(&["teardown", "residue"]);
    assert_eq!(calls, ["1.b teardown", "1.a teardown", "1 residue"]);
}

#[test]
fn a_stop_before_the_first_act_leaves_nothing() {
    let target = built(small(&["0", "1"]));
    target.world.log.lock().unwrap().push("signal".to_owned());
    let operator = FakeOperator::stop_at(&target.world, "signal", Stop::Gentle);
    let plan = target.plan();
    let history = target.history.clone();
    let mut ledger = FakeLedger::new(&target.sequence, history.clone());
    let ended = down(&plan, history, &*target.world, &mut ledger, &operator);
    assert_eq!((ended.status, ended.exit), (None, ExitCode::Interrupted));
    assert!(ledger.writes.is_empty());
}

#[test]
fn a_stop_in_the_last_proof_ends_with_130_though_everything_is_gone() {
    let mut target = built(small(&["0"]));
    let operator = FakeOperator::stop_at(&target.world, "0 residue", Stop::Gentle);
    let plan = target.plan();
    let ended = target.down_with(&plan, &operator);
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::TornDown), ExitCode::Interrupted)
    );
}

#[test]
fn a_destroy_that_a_signal_ended_is_not_deferred() {
    let mut target = built(nested());
    target.world.fault("3.apps teardown", Fault::Interrupted);
    let ended = target.down();
    assert_eq!(
        (ended.status, ended.exit),
        (Some(RunStatus::Interrupted), ExitCode::Interrupted)
    );
    assert_eq!(
        target.history.status_of(&id("3.apps")),
        StepStatus::TeardownFailed
    );
}

#[test]
fn a_panic_in_a_teardown_is_a_failure() {
    let mut target = built(small(&["0", "1"]));
    target.world.fault("1.s teardown", Fault::Panics);
    let ended = target.down();
    assert_eq!(said(&ended), ["step `1.s`: the program itself failed"]);
    target.world.mend();
    target.down();
    target.assert_gone();
}

#[test]
fn a_phase_that_is_gone_is_stored_with_the_next_teardown() {
    let mut target = Target::new(small(&["1", "2", "3"]));
    let mut world = FakeWorld::new();
    world.unchecked = ["1", "2", "3"].map(|id| PhaseId::new(id).unwrap()).into();
    target.world = std::sync::Arc::new(world);
    target.up();
    target.down();
    target.assert_gone();
    // The call; the beginning of each step, with the end of the phase before, and its note; what comes before the last phase,
    // and the last one gone; the end.
    assert_eq!(target.n_writes, 1 + 3 * 2 + 2 + 1, "{:?}", target.words);
}

#[test]
fn a_ledger_that_cannot_be_written_stops_the_teardown_at_once() {
    let mut whole = built(small(&["0", "1"]));
    whole.down();
    for cut in 0..whole.n_writes {
        let mut target = built(small(&["0", "1"]));
        target.cut_at = Some(cut);
        let ended = target.down();
        assert_eq!(
            (ended.status, ended.exit),
            (None, ExitCode::Failed),
            "{cut}"
        );
        let n_teardowns = target.world.take(&["teardown"]).len();
        let n_stored = target
            .words
            .iter()
            .filter(|w| w.ends_with("s tearing-down"))
            .count();
        assert_eq!(
            n_teardowns, n_stored,
            "a teardown that was not stored first, cut at {cut}"
        );
        target.cut_at = None;
        target.down();
        target.assert_gone();
    }
}

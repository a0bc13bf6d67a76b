//! The engine on the record: what is stored, when, and what becomes of a cut.

use std::sync::atomic::Ordering;

use phase_engine::*;
use store::{Fault, MemoryStore, Store, layout};

use super::world::*;
use crate::*;

const PHASES: [(&str, &[&str]); 3] = [("0", &["bucket"]), ("1a", &["net", "edge"]), ("2", &["s"])];

#[test]
fn a_run_that_is_finished_becomes_the_last_known_good() {
    let mut target = Target::new(&PHASES);
    assert_eq!(target.up().status, Some(RunStatus::Finished));
    let record = target.record();
    assert_eq!(record.run, run_id("R001"));
    assert_eq!(record.previous, None);
    assert!(record.finished.is_some());
    let head = target.records().head().unwrap().unwrap().value;
    assert_eq!(head.current, Some(run_id("R001")));
    assert_eq!(head.last_known_good, Some(run_id("R001")));
    assert!(record.proves("b1"));
    assert!(!record.proves("b2"));

    // A second run that fails leaves it; so does a teardown.
    target.world.fail("1a.edge apply");
    *target.world.bundle.lock().unwrap() = Some("b2".to_owned());
    target.up();
    let record = target.record();
    assert_eq!(
        (record.run, record.previous),
        (run_id("R002"), Some(run_id("R001")))
    );
    assert_eq!(
        target.records().last_known_good().unwrap(),
        Some(run_id("R001"))
    );
    target.world.faults.lock().unwrap().clear();
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
    assert_eq!(target.down().status, Some(RunStatus::TornDown));
    let record = target.record();
    assert_eq!(record.status, RunStatus::TornDown);
    assert_eq!(record.run, run_id("R002"));
    assert!(
        record.proves("b2"),
        "a later `down` doesn't matter to a drill"
    );
    assert_eq!(
        target.records().last_known_good().unwrap(),
        Some(run_id("R002"))
    );
}

#[test]
fn a_run_that_applied_some_phase_from_other_definitions_proves_nothing() {
    let mut target = Target::new(&PHASES);
    target.world.fail("2.s apply");
    target.up();
    target.world.faults.lock().unwrap().clear();
    *target.world.bundle.lock().unwrap() = Some("b2".to_owned());
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
    let record = target.record();
    assert!(!record.proves("b1") && !record.proves("b2"));
    assert_eq!(
        record.phase(&phase_id("0")).unwrap().bundle.as_deref(),
        Some("b1")
    );
    assert_eq!(
        record.phase(&phase_id("2")).unwrap().bundle.as_deref(),
        Some("b2")
    );
}

#[test]
fn a_call_that_stops_before_its_first_apply_leaves_nothing() {
    let mut target = Target::new(&PHASES);
    target.world.fail("0.bucket prepare");
    assert_eq!(target.up().status, None);
    assert!(target.store.list("").unwrap().is_empty());
}

#[test]
fn the_record_is_written_first_and_then_the_head() {
    let mut target = Target::new(&PHASES);
    // The head can't be written: the run was never begun, and nothing was applied.
    target.store.fail_from_write(2);
    let ended = target.up();
    assert!(ended.ledger_error.is_some());
    assert!(target.world.applies.lock().unwrap().is_empty());
    target.store.heal();
    assert!(target.records().current().unwrap().is_none());
    assert!(target.records().list().unwrap().is_empty());
    assert!(
        target
            .store
            .get(&layout::record("R001").unwrap())
            .unwrap()
            .is_some()
    );
    // The next run is the first.
    assert_eq!(target.up().status, Some(RunStatus::Finished));
    assert_eq!(target.record().run, run_id("R002"));
    assert_eq!(target.record().previous, None);
}

#[test]
fn what_a_failure_leaves_is_all_there() {
    let mut target = Target::new(&PHASES);
    target.world.fail("1a.edge apply");
    let ended = target.up();
    assert_eq!(ended.status, Some(RunStatus::Failed));
    let record = target.record();
    assert_eq!(record.status, RunStatus::Failed);
    let error = record.error.clone().unwrap();
    assert_eq!(error.step, Some(id("1a.edge")));
    assert_eq!(error.what, "1a.edge apply fails");
    assert_eq!(error.causes, ["Error: quota exceeded"]);
    assert_eq!(error.log.as_deref(), Some("/logs/1a.edge"));
    assert_eq!(error.exit, 1);
    assert_eq!(error.failure(), ended.failures[0]);
    let step = record.step(&id("1a.edge")).unwrap();
    assert_eq!((step.status, step.attempts), (StepStatus::Failed, 1));
    assert_eq!(step.host.as_deref(), Some("desk"));
    let planned = step.planned.clone().unwrap();
    assert!(!planned.complete);
    assert_eq!(planned.changes[0].address.as_str(), "local_file.a");
    assert_eq!(record.suspects.len(), 1);
    assert_eq!(record.suspects[0].step, id("1a.edge"));
    assert!(
        record
            .standing_of(&id("1a.edge"))
            .unwrap()
            .applied
            .attempted
    );
    assert_eq!(
        record.phase(&phase_id("1a")).unwrap().status,
        PhaseStatus::Failed
    );
    let call = &record.calls[0];
    assert_eq!((call.command, call.exit), (CallCommand::Up, Some(1)));
    assert!(call.ended.is_some());
    // The next call has its own entry, and the error is gone with it.
    target.world.faults.lock().unwrap().clear();
    target.resume();
    let record = target.record();
    assert_eq!(record.error, None);
    let commands: Vec<_> = record.calls.iter().map(|call| call.command).collect();
    assert_eq!(commands, [CallCommand::Up, CallCommand::Resume]);
    assert_eq!(record.step(&id("1a.edge")).unwrap().attempts, 2);
    assert_eq!(record.step(&id("1a.edge")).unwrap().planned, None);
    // A suspect stays until somebody settles it, into the next run too.
    assert_eq!(record.suspects.len(), 1);
    target.up();
    assert_eq!(target.record().suspects.len(), 1);
    target.down();
    assert_eq!(target.record().suspects, []);
}

#[test]
fn what_a_phase_made_is_counted() {
    let mut target = Target::new(&PHASES);
    target.up();
    let record = target.record();
    let phase = record.phase(&phase_id("1a")).unwrap();
    assert_eq!(phase.status, PhaseStatus::Verified);
    assert_eq!(phase.made["create"]["local_file"], 4);
    let outputs = &phase.outputs["edge"];
    assert_eq!(outputs.get("address").unwrap(), "192.0.2.1");
    assert_eq!(outputs.iter().count(), 1);
    assert_eq!(phase.steps, [id("1a.net"), id("1a.edge")]);
    let standing = record.standing_of(&id("1a.edge")).unwrap();
    assert_eq!(standing.state, Some(state(2)));
    assert_eq!(standing.applied.definition, "definition of 1a.edge from b1");
    assert_eq!(standing.applied.run, run_id("R001"));
    assert_eq!(standing.outputs, *outputs);
}

#[test]
fn nothing_sensitive_is_ever_stored() {
    let mut target = Target::new(&PHASES);
    target.world.fail("2.s apply");
    target.up();
    target.down();
    for key in target.store.list("").unwrap() {
        let bytes = target.store.get(&key).unwrap().unwrap().bytes;
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("hunter2"), "{key}");
    }
}

/// Runs `first`, cut at each of its store writes in turn; with `lost`, the write is done and its
/// answer gets lost, and every later one fails.
fn cut_everywhere(
    make: impl Fn() -> Target,
    first: impl Fn(&mut Target) -> Ended,
    then: impl Fn(Target, String),
) {
    let mut whole = make();
    let before = whole.store.n_writes();
    assert!(first(&mut whole).exit.is_done());
    let n_writes = whole.store.n_writes() - before;
    for cut in 1..=n_writes {
        for lost in [false, true] {
            let mut target = make();
            let at = target.store.n_writes() + cut;
            target.store.on_operation(move |operation| {
                let now = operation.n_writes_before + 1;
                match operation.kind.writes() {
                    true if now == at && lost => Fault::LoseAnswer,
                    true if now >= at => Fault::Fail,
                    // Nothing can be read back either.
                    false if now > at => Fault::Fail,
                    _ => Fault::None,
                }
            });
            first(&mut target);
            target.store.heal();
            then(target, format!("cut {cut} of {n_writes}, lost {lost}"));
        }
    }
}

#[test]
fn resume_reaches_the_end_from_every_write_that_was_cut() {
    cut_everywhere(
        || Target::new(&PHASES),
        Target::up,
        |mut target, cut| {
            let Some(current) = target.records().current().unwrap() else {
                assert!(target.world.objects.lock().unwrap().is_empty(), "{cut}");
                return;
            };
            let finished = current.value.status == RunStatus::Finished;
            let well: Vec<String> = current
                .value
                .steps
                .iter()
                .filter(|step| step.status.ended_well())
                .map(|step| step.step.to_string())
                .collect();
            target.world.applies.lock().unwrap().clear();
            if !finished {
                assert_eq!(target.resume().status, Some(RunStatus::Finished), "{cut}");
                let again = target.world.applies.lock().unwrap().clone();
                assert!(
                    again.iter().all(|step| !well.contains(step)),
                    "{cut}: {again:?}"
                );
            }
            // Even where the head was not written after the record.
            assert_eq!(
                target.records().last_known_good().unwrap(),
                Some(target.record().run)
            );
            assert_eq!(target.down().status, Some(RunStatus::TornDown), "{cut}");
            let head = target.records().head().unwrap().unwrap().value;
            assert_eq!(
                head.last_known_good, head.current,
                "{cut}: the head was not mended"
            );
        },
    );
}

#[test]
fn down_ends_empty_from_every_write_that_was_cut() {
    cut_everywhere(
        || Target::new(&PHASES),
        Target::up,
        |mut target, cut| {
            if target.records().current().unwrap().is_none() {
                return;
            }
            assert_eq!(target.down().status, Some(RunStatus::TornDown), "{cut}");
            assert!(target.world.objects.lock().unwrap().is_empty(), "{cut}");
            assert_eq!(target.record().standing, [], "{cut}");
        },
    );
    let built = || {
        let mut target = Target::new(&PHASES);
        target.up();
        target
    };
    cut_everywhere(built, Target::down, |mut target, cut| {
        if target.record().status != RunStatus::TornDown {
            assert_eq!(target.down().status, Some(RunStatus::TornDown), "{cut}");
        }
        assert!(target.world.objects.lock().unwrap().is_empty(), "{cut}");
        assert!(
            target
                .record()
                .phases
                .iter()
                .all(|p| p.status == PhaseStatus::TornDown),
            "{cut}"
        );
    });
}

#[test]
fn down_of_a_target_without_any_record_begins_one() {
    let mut target = Target::new(&PHASES);
    assert_eq!(target.down().status, Some(RunStatus::TornDown));
    let record = target.record();
    assert_eq!(record.status, RunStatus::TornDown);
    assert_eq!(record.calls[0].command, CallCommand::Down);
    assert_eq!(record.finished, None);
}

#[test]
fn a_forgotten_step_leaves_its_addresses() {
    let mut target = Target::new(&PHASES);
    target.up();
    target.world.fail("2 residue");
    assert_eq!(target.down_with(&["2.s"]).status, Some(RunStatus::TornDown));
    let record = target.record();
    let step = record.step(&id("2.s")).unwrap();
    assert_eq!(step.status, StepStatus::Forgotten);
    assert_eq!(step.forgotten, ["local_file.a"]);
    let phase = record.phase(&phase_id("2")).unwrap();
    assert_eq!(phase.warnings[0].what, "2 residue fails");
    assert_eq!(phase.status, PhaseStatus::TornDown);
    assert!(phase.verified.is_some());
}

#[test]
fn what_could_not_be_proven_gone_is_remembered() {
    let mut target = Target::new(&PHASES);
    target.up();
    target.world.fail("1a residue");
    assert_eq!(target.down().status, Some(RunStatus::TeardownFailed));
    let record = target.record();
    assert_eq!(
        record.phase(&phase_id("1a")).unwrap().status,
        PhaseStatus::TeardownFailed
    );
    assert_eq!(record.teardown().unproven, [phase_id("1a")]);
    assert_eq!(TargetState::of(Some(&record)), TargetState::TearingDown);
}

#[test]
fn a_second_writer_is_noticed() {
    let mut target = Target::new(&PHASES);
    target.world.fail("2.s apply");
    target.up();
    // Two calls that have read the same.
    let mut first = target.open(CallCommand::Resume).unwrap();
    target.clock.fetch_add(1, Ordering::Relaxed);
    let mut second = target.open(CallCommand::Resume).unwrap();
    let began = || {
        vec![Entry::CallBegan {
            kind: CallKind::Resume,
        }]
    };
    first.append(began()).unwrap();
    let error = second.append(began()).unwrap_err();
    let source = error.source.unwrap();
    let source = source.downcast_ref::<RecordError>().unwrap();
    assert!(matches!(source, RecordError::LockLost { .. }), "{source}");
    assert_eq!(error.what, "cannot keep the record of run `R001`");
}

#[test]
fn whoever_took_the_lock_over_is_noticed() {
    let mut target = Target::new(&PHASES);
    target.world.fail("2.s apply");
    target.up();
    let mut stale = target.open(CallCommand::Resume).unwrap();
    // A take-over rewrites the record with its own number and nothing else.
    let key = layout::record("R001").unwrap();
    let bytes = target.store.get(&key).unwrap().unwrap().bytes;
    let text = String::from_utf8(bytes)
        .unwrap()
        .replace("\"fence\": 1", "\"fence\": 2");
    target.store.set(&key, text);
    assert!(
        stale
            .append(vec![Entry::CallBegan {
                kind: CallKind::Resume
            }])
            .is_err()
    );
}

/// A store that gives other tags than the one that its values came from.
struct Moved(MemoryStore);

impl Store for Moved {
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn get(&self, key: &store::Key) -> Result<Option<store::Versioned>, store::ReadError> {
        let value = self.0.get(key)?;
        Ok(value.map(|value| store::Versioned {
            tag: other(&value.tag),
            ..value
        }))
    }
    fn put_if_absent(
        &self,
        key: &store::Key,
        body: &[u8],
    ) -> Result<store::Tag, store::WriteError> {
        self.0.put_if_absent(key, body).map(|tag| other(&tag))
    }
    fn put_if_match(
        &self,
        key: &store::Key,
        body: &[u8],
        tag: &store::Tag,
    ) -> Result<store::Tag, store::WriteError> {
        let own = tag
            .as_str()
            .strip_prefix("moved-")
            .unwrap_or("not one of ours");
        self.0
            .put_if_match(key, body, &store::Tag::new(own))
            .map(|tag| other(&tag))
    }
    fn delete_if_match(&self, key: &store::Key, tag: &store::Tag) -> Result<(), store::WriteError> {
        self.0.delete_if_match(key, tag)
    }
    fn list(&self, prefix: &str) -> Result<Vec<store::Key>, store::ReadError> {
        self.0.list(prefix)
    }
}

fn other(tag: &store::Tag) -> store::Tag {
    store::Tag::new(format!("moved-{}", tag.as_str()))
}

#[test]
fn a_store_that_was_moved_byte_for_byte_is_written_on() {
    let mut target = Target::new(&PHASES);
    target.up();
    let loaded = target.records().current().unwrap().unwrap();
    let moved = MemoryStore::new();
    for key in target.store.list("").unwrap() {
        moved.set(&key, target.store.get(&key).unwrap().unwrap().bytes);
    }
    let moved = RecordStore::new(std::sync::Arc::new(Moved(moved)));
    let mut record = loaded.clone();
    let mut value = record.value.clone();
    value.decisions.clear();
    value.fence = 7;
    moved.save(&mut record, value).unwrap();
    // Another body is there now, so what was read before the move is stale.
    let mut stale = loaded;
    let value = stale.value.clone();
    let lost = moved.save(&mut stale, Record { fence: 8, ..value });
    assert!(matches!(lost, Err(RecordError::LockLost { .. })));
}

#[test]
fn time_runs_from_the_first_start_to_the_last_verify() {
    let mut target = Target::new(&[("0", &["a"]), ("1", &["b"])]);
    target.clock.store(100, Ordering::Relaxed);
    let options = Options {
        pause: true,
        ..Options::default()
    };
    assert_eq!(
        target.up_with(CallKind::New, &options).status,
        Some(RunStatus::Paused)
    );
    let record = target.record();
    assert_eq!(record.first_start, time(100));
    assert!(!record.over_budget);
    let ended = record.calls[0].ended.unwrap();
    let left = record.budget_left(ended).unwrap();
    assert!((left + ended.seconds_since(time(100)) - 60.0).abs() < 0.01);
    // Writes are a second apart: started, note, succeeded | verifying, verified | phase verified.
    let phase = record.phase(&phase_id("0")).unwrap();
    assert_eq!(
        (
            phase.apply_seconds,
            phase.verify_seconds,
            phase.pause_seconds
        ),
        (3.0, 2.0, 0.0)
    );
    // An hour goes by; it counts for the run, and as the pause after the phase.
    target.clock.fetch_add(3600, Ordering::Relaxed);
    assert_eq!(target.resume().status, Some(RunStatus::Finished));
    let record = target.record();
    let phase = record.phase(&phase_id("0")).unwrap();
    assert_eq!(phase.pause_seconds, 3600.0);
    assert_eq!(phase.apply_seconds, 3.0);
    assert_eq!(
        record.total_seconds,
        record.last_verify.unwrap().seconds_since(time(100))
    );
    assert!(record.total_seconds > 3600.0);
    assert!(record.over_budget);
}

#[test]
fn the_time_that_a_person_took_to_answer_is_a_pause() {
    let mut target = Target::new(&[("0", &["a"]), ("1", &["b"])]);
    target.answer = Some(Answer::Continue);
    let options = Options {
        interactive: true,
        ..Options::default()
    };
    assert_eq!(
        target.up_with(CallKind::New, &options).status,
        Some(RunStatus::Finished)
    );
    let record = target.record();
    assert_eq!(record.phase(&phase_id("0")).unwrap().pause_seconds, 1.0);
    assert_eq!(record.phase(&phase_id("1")).unwrap().pause_seconds, 0.0);
}

#[test]
fn a_start_without_a_word_on_what_from_is_refused() {
    let target = Target::new(&PHASES);
    let mut ledger = target.open(CallCommand::Up).unwrap();
    let step = id("0.bucket");
    let event = StepEvent::Started;
    let error = ledger
        .append(vec![
            Entry::CallBegan {
                kind: CallKind::New,
            },
            Entry::Step {
                step,
                event,
                definition: None,
                detail: None,
                failure: None,
            },
        ])
        .unwrap_err();
    let source = error.source.unwrap();
    assert_eq!(
        source.to_string(),
        "step `0.bucket` was begun without a word on what from"
    );
    assert_eq!(target.store.n_writes(), 0);
}

#[test]
fn an_event_that_cannot_follow_is_refused() {
    let target = Target::new(&PHASES);
    let mut ledger = target.open(CallCommand::Up).unwrap();
    let step = id("0.bucket");
    let event = StepEvent::Succeeded;
    let entry = Entry::Step {
        step,
        event,
        definition: None,
        detail: None,
        failure: None,
    };
    let error = ledger
        .append(vec![
            Entry::CallBegan {
                kind: CallKind::New,
            },
            entry,
        ])
        .unwrap_err();
    assert_eq!(
        error.source.unwrap().to_string(),
        "cannot keep an event of step `0.bucket`"
    );
}

#[test]
fn without_a_run_there_is_nothing_to_go_on_with() {
    let target = Target::new(&PHASES);
    let mut ledger = target.open(CallCommand::Resume).unwrap();
    assert!(matches!(ledger.change(|_| {}), Err(RecordError::NoRun)));
    assert!(
        ledger
            .append(vec![Entry::CallBegan {
                kind: CallKind::Resume
            }])
            .is_err()
    );
    assert_eq!(ledger.history(), History::default());
    assert_eq!(ledger.view().get(), None);
}

#[test]
fn a_decision_is_a_change_of_its_own() {
    let mut target = Target::new(&PHASES);
    target.up();
    target.fence = 5;
    let mut ledger = target.open(CallCommand::Up).unwrap();
    let decision = Decision {
        kind: DecisionKind::Accept,
        at: time(1),
        user: "ada".to_owned(),
        about: Some("1a".to_owned()),
        reason: Some("moved by hand".to_owned()),
    };
    ledger
        .change(|record| record.decisions.push(decision.clone()))
        .unwrap();
    assert_eq!(target.record().decisions, [decision]);
    assert_eq!(target.record().fence, 5);
    assert_eq!(ledger.view().get().unwrap().fence, 5);
}

#[test]
fn a_removed_step_of_a_phase_that_stays_does_not_tear_the_phase_down() {
    let mut target = Target::new(&[("1", &["a", "b"])]);
    target.up();
    target.sequence = sequence(&[("1", &["a"])]);
    target.world.fail("1.b teardown");
    let prune = vec![Prune {
        step: id("1.b"),
        after: Some(phase_id("1")),
    }];
    let options = Options {
        prune,
        ..Options::default()
    };
    let ended = target.up_with(CallKind::New, &options);
    assert_eq!(ended.status, Some(RunStatus::Failed));
    let record = target.record();
    assert_eq!(
        record.phase(&phase_id("1")).unwrap().status,
        PhaseStatus::Verified
    );
    assert_eq!(
        record.step(&id("1.b")).unwrap().status,
        StepStatus::TeardownFailed
    );
    target.world.faults.lock().unwrap().clear();
    assert_eq!(
        target.up_with(CallKind::Resume, &options).status,
        Some(RunStatus::Finished)
    );
    assert_eq!(target.record().standing.len(), 1);
}

#[test]
fn an_interrupted_phase_is_not_a_failed_one() {
    let mut target = Target::new(&PHASES);
    let failure = Failure::new(ExitCode::Interrupted, "a signal");
    target
        .world
        .faults
        .lock()
        .unwrap()
        .insert("1a.net apply".to_owned(), failure);
    assert_eq!(target.up().status, Some(RunStatus::Interrupted));
    let record = target.record();
    assert_eq!(
        record.phase(&phase_id("1a")).unwrap().status,
        PhaseStatus::Interrupted
    );
    assert_eq!(
        record.step(&id("1a.net")).unwrap().status,
        StepStatus::Interrupted
    );
    assert_eq!(record.calls[0].exit, Some(130));
}

#[test]
fn a_re_verify_that_fails_leaves_the_phase_verified() {
    let mut target = Target::new(&PHASES);
    target.world.fail("2.s apply");
    target.up();
    target.world.fail("1a check");
    assert_eq!(target.resume().exit, ExitCode::Stopped);
    let record = target.record();
    assert_eq!(
        record.phase(&phase_id("1a")).unwrap().status,
        PhaseStatus::Verified
    );
    assert_eq!(record.error.unwrap().what, "1a check fails");
    assert_eq!(record.calls[1].exit, Some(3));
}

//! What a standing entry keeps while an apply has not ended well.

use phase_engine::*;

use super::world::*;
use crate::*;

fn bundles<'a>(applied: impl IntoIterator<Item = &'a Applied>) -> Vec<&'a str> {
    applied
        .into_iter()
        .map(|applied| applied.bundle.as_str())
        .collect()
}

#[test]
fn an_entry_is_replaced_at_the_start_and_keeps_what_was_before_until_it_ends_well() {
    let mut target = Target::new(&[("1", &["s"])]);
    let step = id("1.s");
    let bundle = |target: &Target, bundle: &str| {
        *target.world.bundle.lock().unwrap() = Some(bundle.to_owned());
    };
    bundle(&target, "b1");
    target.world.fail("1.s apply");
    target.up();
    let record = target.record();
    let entry = record.standing_of(&step).unwrap();
    assert_eq!(entry.as_applied(), None, "it never ended well");
    assert_eq!(bundles(entry.teardown_order()), ["b1"]);

    target.world.faults.lock().unwrap().clear();
    target.resume();
    let record = target.record();
    let entry = record.standing_of(&step).unwrap();
    assert_eq!(entry.as_applied().unwrap().bundle, "b1");
    assert_eq!(bundles(entry.teardown_order()), ["b1"]);

    // A new run whose apply fails, and fails again from other definitions, twice.
    target.world.fail("1.s apply");
    bundle(&target, "b2");
    target.up();
    let record = target.record();
    let entry = record.standing_of(&step).unwrap();
    assert_eq!(entry.as_applied().unwrap().bundle, "b1");
    assert_eq!(bundles(entry.teardown_order()), ["b2", "b1"]);
    assert_eq!(entry.applied.run, run_id("R003"));
    assert_eq!(
        entry.state,
        Some(state(2)),
        "the state is still the one that was"
    );
    bundle(&target, "b3");
    target.resume();
    target.resume();
    let record = target.record();
    let entry = record.standing_of(&step).unwrap();
    assert_eq!(bundles(entry.teardown_order()), ["b3", "b2", "b1"]);
    assert_eq!(entry.as_applied().unwrap().bundle, "b1");

    target.world.faults.lock().unwrap().clear();
    target.resume();
    let record = target.record();
    let entry = record.standing_of(&step).unwrap();
    assert_eq!(bundles(entry.teardown_order()), ["b3"]);
    assert_eq!(entry.as_applied().unwrap().bundle, "b3");
}

#[test]
fn a_new_run_inherits_what_stands_in_order() {
    let mut target = Target::new(&[("0", &["a"]), ("2", &["c"])]);
    target.up();
    target.sequence = sequence(&[("0", &["a"]), ("1", &["b"]), ("2", &["c"])]);
    target.world.fail("2.c apply");
    target.up();
    let record = target.record();
    let steps: Vec<_> = record
        .standing
        .iter()
        .map(|entry| entry.step.to_string())
        .collect();
    assert_eq!(steps, ["0.a", "1.b", "2.c"]);
    let runs: Vec<_> = record
        .standing
        .iter()
        .map(|entry| entry.applied.run.as_str())
        .collect();
    assert_eq!(runs, ["R002", "R002", "R002"]);
    assert_eq!(record.standing[2].as_applied().unwrap().run, run_id("R001"));
    assert_eq!(TargetState::of(Some(&record)), TargetState::Unfinished);
}

#[test]
fn sensitive_inputs_are_kept_by_keyed_digest_only() {
    let digest = |value: &str| format!("keyed:{value}").len().to_string();
    let inputs = |password: &str| {
        [
            ("zone".to_owned(), Input::plain("example.org")),
            ("password".to_owned(), Input::sensitive(password)),
        ]
    };
    let values = Values::of(inputs("correct horse"), &digest);
    assert_eq!(
        serde_json::to_value(&values).unwrap(),
        serde_json::json!({ "password": { "digest": "21" }, "zone": { "value": "example.org" } })
    );
    let changed = Values::of(inputs("battery"), &digest);
    assert_eq!(changed.changed_from(&values), ["password"]);
    assert_eq!(
        Values::default().changed_from(&values),
        ["password", "zone"]
    );
    assert_eq!(values.iter().count(), 2);
    assert_eq!(format!("{:?}", Input::sensitive("battery")), "[secret]");
    assert!(format!("{:?}", Input::plain("battery")).contains("battery"));
    assert!(Input::sensitive(1).is_sensitive());
}

#[test]
fn the_order_of_members_does_not_change_a_digest() {
    let value = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        Values::of([("x".to_owned(), Input::sensitive(value))], &|value| {
            value.to_owned()
        })
    };
    assert_eq!(
        value(r#"[{"a":1,"b":{"d":1,"c":2}}]"#),
        value(r#"[{"b":{"c":2,"d":1},"a":1}]"#)
    );
}

#[test]
fn a_status_names_the_commands_that_go_on() {
    let name = || "drill".parse::<TargetName>().unwrap();
    let empty = StatusDocument::of(name(), None, None, None);
    assert_eq!((empty.state, empty.since()), (TargetState::Empty, None));
    assert_eq!(empty.next, ["rebuild up --target drill"]);
    let mut target = Target::new(&[("0", &["a"]), ("1", &["b"])]);
    target.world.fail("1.b apply");
    target.up();
    let unfinished = StatusDocument::of(name(), Some(target.record()), None, None);
    assert_eq!(unfinished.state, TargetState::Unfinished);
    assert_eq!(
        unfinished.next,
        [
            "rebuild up --target drill --resume",
            "rebuild down --target drill"
        ]
    );
    assert_eq!(unfinished.since(), target.record().calls[0].ended);
    assert_eq!(unfinished.standing.len(), 2);
    target.world.faults.lock().unwrap().clear();
    target.resume();
    let finished = StatusDocument::of(name(), Some(target.record()), None, None);
    assert_eq!(finished.state, TargetState::Finished);
    target.down();
    let gone = StatusDocument::of(name(), Some(target.record()), None, None);
    assert_eq!(gone.state, TargetState::Empty);
}

#[test]
fn a_step_that_was_moved_stands_by_its_new_name_and_is_found_by_the_old_one() {
    let mut target = Target::new(&[("1", &["a", "b"])]);
    target.up();
    let mut record = target.record();
    let (old, new) = (id("1.a"), id("2.c"));
    record.standing[1].contained_in = Some(id("1.a"));
    record.begin_move(&old, &new);
    assert_eq!(record.standing[0].moving_to, Some(new.clone()));
    record.end_move(&old, &new);
    let entry = record.standing_of(&new).unwrap();
    assert_eq!(
        (&entry.moving_to, &entry.formerly),
        (&None, &vec![old.clone()])
    );
    assert_eq!(entry.applied.called(&new), &old);
    assert_eq!(record.standing[1].contained_in, Some(new.clone()));
    assert!(record.step(&old).is_none() && record.step(&new).is_some());
    assert!(record.standing_of(&old).is_none());
    assert_eq!(record.standing_once_called(&old).unwrap().step, new);
    // There and back: the bundle's own name for it stays the first one.
    record.end_move(&new, &old);
    let entry = record.standing_of(&old).unwrap();
    assert_eq!(entry.formerly, [new]);
    assert_eq!(entry.applied.called(&old), &old);
}

/// The record after these events of a step, each in a write of its own.
fn after(events: Vec<(StepEvent, Detail)>) -> StandingEntry {
    let target = Target::new(&[("1", &["s"])]);
    let mut ledger = target.open(CallCommand::Up).unwrap();
    let starting = Starting {
        kind: "tofu".to_owned(),
        contained_in: None,
        applied: applied("b1"),
        planned: PlannedWork::default(),
    };
    let begin = Detail {
        starting: Some(Box::new(starting)),
        ..Detail::default()
    };
    let mut entries = vec![Entry::CallBegan {
        kind: CallKind::New,
    }];
    let events = std::iter::once((StepEvent::Started, begin)).chain(events);
    for (event, detail) in events {
        entries.push(Entry::step(&id("1.s"), event, Some(detail), None));
        ledger.append(std::mem::take(&mut entries)).unwrap();
    }
    target.record().standing_of(&id("1.s")).unwrap().clone()
}

fn with_state(state: Option<StateMark>) -> Detail {
    Detail {
        state,
        ..Detail::default()
    }
}

#[test]
fn from_the_start_of_what_may_write_a_state_to_its_mark_the_record_says_so() {
    use StepEvent as E;
    let host = |entry: StandingEntry| entry.writing.map(|writing| writing.host);
    let here = Some(Some("desk".to_owned()));
    let none = || with_state(None);
    let well = || (E::Succeeded, with_state(Some(state(3))));
    assert_eq!(host(after(vec![])), here, "an apply that was cut");
    assert_eq!(host(after(vec![well()])), None);
    assert_eq!(host(after(vec![(E::Succeeded, none())])), None);
    // Nobody is at it any more, and what it came to could not be read.
    assert_eq!(host(after(vec![(E::Failed, none())])), Some(None));
    assert_eq!(
        host(after(vec![(E::Failed, with_state(Some(state(2))))])),
        None
    );
    assert_eq!(
        host(after(vec![well(), (E::TeardownStarted, none())])),
        here
    );
    let failed = vec![
        well(),
        (E::TeardownStarted, none()),
        (E::TeardownFailed, none()),
    ];
    assert_eq!(host(after(failed)), Some(None));
}

#[test]
fn a_write_beside_an_apply_is_noted_first_and_explains_what_it_came_to() {
    let mut world = Target::new(&[("1", &["s"])]);
    world.up();
    let mut ledger = world.open(CallCommand::Resume).unwrap();
    let step = id("1.s");
    let known = world.record().standing_of(&step).unwrap().clone();
    let newer = StateMark {
        serial: known.state.as_ref().unwrap().serial + 1,
        digest: "other".to_owned(),
        ..state(0)
    };
    assert!(!known.explains(&newer), "nobody said that it is written");
    ledger
        .append(vec![Entry::Note {
            step: step.clone(),
            detail: Detail {
                writes: true,
                ..Detail::default()
            },
        }])
        .unwrap();
    let mut cut = world.record().standing_of(&step).unwrap().clone();
    assert_eq!(cut.state, known.state);
    assert!(cut.explains(&newer) && cut.explains(known.state.as_ref().unwrap()));
    let foreign = StateMark {
        lineage: "another".to_owned(),
        ..newer.clone()
    };
    let older = StateMark {
        serial: 0,
        ..newer.clone()
    };
    let same_serial = StateMark {
        serial: newer.serial - 1,
        ..newer.clone()
    };
    for strange in [foreign, older, same_serial] {
        assert!(!cut.explains(&strange), "{strange:?}");
        assert!(!cut.settle_writing(Some(strange)));
    }
    assert!(!cut.settle_writing(None), "its state is gone");
    assert!(cut.settle_writing(Some(newer.clone())));
    assert_eq!((cut.state, cut.writing), (Some(newer.clone()), None));
    ledger
        .append(vec![Entry::Note {
            step: step.clone(),
            detail: with_state(Some(newer.clone())),
        }])
        .unwrap();
    let told = world.record().standing_of(&step).unwrap().clone();
    assert_eq!((told.state, told.writing), (Some(newer), None));
}

#[test]
fn a_first_apply_that_was_cut_explains_whatever_state_there_is() {
    let mut first = after(Vec::new());
    assert!(first.clone().settle_writing(None));
    assert!(first.settle_writing(Some(state(1))));
    assert_eq!((first.state, first.writing), (Some(state(1)), None));
}

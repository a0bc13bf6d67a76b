//! Reading and listing what is stored, by this and by other programs, whole and damaged.

use std::sync::Arc;

use phase_engine::*;
use serde_json::{Value, json};
use store::{Fault, MemoryStore, Store, layout};

use super::world::*;
use crate::*;

fn edit(target: &Target, run: &str, edit: impl FnOnce(&mut Value)) {
    let key = layout::record(run).unwrap();
    let mut value: Value =
        serde_json::from_slice(&target.store.get(&key).unwrap().unwrap().bytes).unwrap();
    edit(&mut value);
    target.store.set(&key, value.to_string());
}

fn with_runs(n: usize) -> Target {
    let mut target = Target::new(&[("0", &["a"]), ("1", &["b"])]);
    for _ in 0..n {
        target.up();
    }
    target
}

#[test]
fn a_record_of_a_newer_schema_is_refused_and_not_misread() {
    let target = with_runs(1);
    edit(&target, "R001", |record| {
        *record = json!({ "schema": 2, "run": ["R001"] })
    });
    let error = target.records().current().unwrap_err();
    assert!(matches!(error, RecordError::Newer { .. }), "{error}");
    let Err(error) = target.open(CallCommand::Up) else {
        panic!("it was opened")
    };
    assert_eq!(error.to_string(), "cannot read `run/R001.json`");
    target.store.set(&layout::head(), r#"{"schema":2}"#);
    assert!(matches!(
        target.records().head(),
        Err(RecordError::Newer { .. })
    ));
}

#[test]
fn what_another_program_of_the_same_schema_wrote_is_kept() {
    let mut target = with_runs(1);
    edit(&target, "R001", |record| {
        record["weather"] = json!({ "clouds": 3 });
        record["phases"][0]["mood"] = json!("good");
    });
    assert_eq!(target.record().unknown["weather"], json!({ "clouds": 3 }));
    target.down();
    assert_eq!(target.record().unknown["weather"], json!({ "clouds": 3 }));
    // Of the run that it belongs to; a new one starts without.
    target.up();
    assert!(target.record().unknown.is_empty());
}

#[test]
fn a_record_of_an_older_program_that_lacks_what_came_later_is_read() {
    let target = with_runs(1);
    edit(&target, "R001", |record| {
        let record = record.as_object_mut().unwrap();
        for later in [
            "suspects",
            "decisions",
            "error",
            "over_budget",
            "total_seconds",
        ] {
            record.remove(later);
        }
        record["schema"] = json!(0);
    });
    assert_eq!(target.record().schema, Schema(0));
    assert_eq!(target.record().suspects, []);
}

#[test]
fn runs_are_listed_the_newest_first() {
    let target = with_runs(3);
    let listed = target.records().list().unwrap();
    let runs: Vec<&str> = listed.iter().map(|listed| listed.run.as_str()).collect();
    assert_eq!(runs, ["R003", "R002", "R001"]);
    assert!(listed.iter().all(|listed| listed.record.is_ok()));
    assert!(Target::new(&[]).records().list().unwrap().is_empty());
}

#[test]
fn a_damaged_record_harms_no_other() {
    for damage in ["", "{", "null", r#"{"schema":1}"#, r#"{"schema":9}"#] {
        for at in ["R003", "R002", "R001"] {
            let target = with_runs(3);
            target.store.set(&layout::record(at).unwrap(), damage);
            let listed = target.records().list().unwrap();
            assert_eq!(listed.len(), 3, "{at} {damage}");
            for listed in listed {
                let is_damaged = listed.run.as_str() == at;
                assert_eq!(listed.record.is_err(), is_damaged, "{at} {damage}");
            }
        }
    }
}

#[test]
fn a_record_that_the_head_never_reached_is_not_listed() {
    let mut target = with_runs(1);
    // The second run's head could not be written.
    target.store.fail_from_write(2);
    target.up();
    target.store.heal();
    assert_eq!(target.records().list().unwrap().len(), 1);
    target.up();
    let listed = target.records().list().unwrap();
    let runs: Vec<&str> = listed.iter().map(|listed| listed.run.as_str()).collect();
    assert_eq!(runs, ["R003", "R001"]);
    assert_eq!(target.store.list(layout::RUNS).unwrap().len(), 4);
}

#[test]
fn a_record_under_the_wrong_key_is_no_record() {
    let target = with_runs(2);
    let bytes = target
        .store
        .get(&layout::record("R001").unwrap())
        .unwrap()
        .unwrap()
        .bytes;
    target.store.set(&layout::record("R002").unwrap(), bytes);
    let error = target.records().current().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`run/R002.json` holds the record of run `R001`"
    );
}

#[test]
fn a_head_that_points_to_nothing_is_an_error() {
    let target = with_runs(1);
    target.store.remove(&layout::record("R001").unwrap());
    let error = target.records().current().unwrap_err();
    assert_eq!(error.to_string(), "run `R001` has no record in the store");
    let error = target
        .records()
        .archive(&run_id("R001"), &target.records())
        .unwrap_err();
    assert!(matches!(error, RecordError::Missing { .. }));
    // It is neither listed nor does it harm.
    assert!(target.records().list().unwrap().is_empty());
}

#[test]
fn a_store_that_does_not_answer_is_told_apart_from_one_without_a_run() {
    let target = with_runs(1);
    target.store.on_operation(|_| Fault::Fail);
    assert!(matches!(
        target.records().head(),
        Err(RecordError::Read { .. })
    ));
    assert!(matches!(
        target.records().list(),
        Err(RecordError::List { .. })
    ));
    assert!(target.records().current().is_err());
    assert!(target.records().last_known_good().is_err());
}

#[test]
fn a_target_without_a_run_has_no_last_known_good() {
    let target = Target::new(&[]);
    assert_eq!(target.records().last_known_good().unwrap(), None);
    assert!(!target.records().describe().is_empty());
}

#[test]
fn the_target_file_is_created_once_and_replaced_knowingly() {
    let records = Target::new(&[]).records();
    assert!(records.target().unwrap().is_none());
    let target = TargetJson {
        schema: SCHEMA,
        platform: "homelab".to_owned(),
        target: "live".parse().unwrap(),
        id: "one".to_owned(),
        moved_to: None,
    };
    let mut loaded = records.create_target(&target).unwrap();
    let other = TargetJson {
        id: "two".to_owned(),
        ..target.clone()
    };
    assert!(matches!(
        records.create_target(&other),
        Err(RecordError::LockLost { .. })
    ));
    let moved = MovedTo {
        host: "desk".to_owned(),
        path: "/spool".to_owned(),
    };
    let moved = TargetJson {
        moved_to: Some(moved),
        ..target
    };
    records.replace_target(&mut loaded, moved.clone()).unwrap();
    assert_eq!(records.target().unwrap().unwrap().value, moved);
}

#[test]
fn an_ended_run_is_copied_to_the_archive() {
    let mut target = with_runs(1);
    let archive = RecordStore::new(Arc::new(MemoryStore::new()));
    for _ in 0..2 {
        target.records().archive(&run_id("R001"), &archive).unwrap();
    }
    let copied = archive.record(&run_id("R001")).unwrap().unwrap().value;
    assert_eq!(copied, target.record());
    target.down();
    target.records().archive(&run_id("R001"), &archive).unwrap();
    let copied = archive.record(&run_id("R001")).unwrap().unwrap().value;
    assert_eq!(copied.status, RunStatus::TornDown);
}

#[test]
fn old_records_are_removed_and_what_counts_stays() {
    let mut target = with_runs(5);
    assert_eq!(target.records().prune(9).unwrap(), 0);
    // What a call that begins just now wrote, and the head does not point to yet.
    let newer = layout::record("R999").unwrap();
    target.store.set(&newer, "{}");
    assert_eq!(target.records().prune(2).unwrap(), 2);
    let left = |target: &Target| target.store.list(layout::RUNS).unwrap();
    let names = |target: &Target| -> Vec<String> {
        left(target)
            .iter()
            .filter_map(layout::run_of_record)
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(names(&target), ["R003", "R004", "R005", "R999"]);
    assert_eq!(target.records().prune(2).unwrap(), 0, "it was done");
    target.store.remove(&newer);
    let listed = target.records().list().unwrap();
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|one| one.record.is_ok()));
    let mut told = 0;
    let count = |record: &[u8]| {
        assert!(record.starts_with(b"{"));
        told += 1;
    };
    assert_eq!(target.records().prune_telling(0, count).unwrap(), 2);
    assert_eq!(told, 2);
    assert_eq!(names(&target), ["R005"]);
    assert_eq!(
        target.records().current().unwrap().unwrap().value.run,
        run_id("R005")
    );
    // The next run goes on from it.
    target.up();
    assert_eq!(target.records().list().unwrap().len(), 2);
}

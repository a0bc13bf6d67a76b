//! The serialized form: a snapshot, its schema, and other versions of it.

use serde_json::{Value, json};

use super::world::*;
use crate::*;

/// A record with something in every part.
pub(super) fn rich() -> Record {
    let mut target = Target::new(&[("0", &["bucket"]), ("1a", &["net", "edge"])]);
    target.world.fail("1a.edge apply");
    target.up();
    target.world.faults.lock().unwrap().clear();
    target.resume();
    *target.world.bundle.lock().unwrap() = Some("b2".to_owned());
    target.world.fail("1a.edge apply");
    target.up();
    let mut ledger = target.open(CallCommand::Up).unwrap();
    ledger
        .change(|record| {
            record.decisions.push(Decision {
                kind: DecisionKind::WithoutDrill,
                at: time(7),
                user: "ada".to_owned(),
                about: None,
                reason: Some("the drill's cloud is down".to_owned()),
            });
            record.calls[0].ci_job = Some("https://ci.example.org/1".to_owned());
            record.calls[0].tools.push(ToolRecord {
                name: "rebuild".to_owned(),
                version: "0.1.0".to_owned(),
                sha256: None,
            });
        })
        .unwrap();
    target.record()
}

#[test]
fn the_serialized_form_is_this() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&rich()).unwrap());
}

#[test]
fn the_published_schemas_are_these() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&json_schemas()).unwrap());
}

fn check(schema: &str, value: &Value) -> Result<(), String> {
    let schema = serde_json::to_value(&json_schemas()[schema]).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

#[test]
fn what_is_written_fits_the_published_schemas() {
    let record = rich();
    check("record", &serde_json::to_value(&record).unwrap()).unwrap();
    check("head", &serde_json::to_value(Head::empty(3)).unwrap()).unwrap();
    let target = TargetJson {
        schema: SCHEMA,
        platform: "homelab".to_owned(),
        target: "live".parse().unwrap(),
        id: "x".to_owned(),
        moved_to: Some(MovedTo {
            host: "desk".to_owned(),
            path: "/spool".to_owned(),
        }),
    };
    check("target", &serde_json::to_value(target).unwrap()).unwrap();
    let lock = LockShown {
        user: "ada".to_owned(),
        host: "desk".to_owned(),
        run: None,
        command: "up".to_owned(),
        since: time(0).to_string(),
    };
    let name = "drill".parse().unwrap();
    let run = Some(record.run.clone());
    let status = StatusDocument::of(name, Some(record), run, Some(lock));
    check("status", &serde_json::to_value(&status).unwrap()).unwrap();
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(
        serde_json::from_str::<StatusDocument>(&text).unwrap(),
        status
    );
}

#[test]
fn the_schema_finds_what_is_wrong() {
    let mut value = serde_json::to_value(rich()).unwrap();
    value["status"] = json!("done");
    assert!(check("record", &value).is_err());
    let mut value = serde_json::to_value(rich()).unwrap();
    value.as_object_mut().unwrap().remove("standing");
    assert!(check("record", &value).is_err());
}

#[test]
fn what_is_written_is_read_back() {
    let record = rich();
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    let phase = &record.phases[0];
    assert_eq!(phase.status, PhaseStatus::Verified);
}

#[test]
fn a_newer_schema_is_refused_and_an_older_one_is_read() {
    assert_eq!(Schema(0).readable(), Ok(()));
    assert_eq!(SCHEMA.readable(), Ok(()));
    let newer = Schema(2).readable().unwrap_err();
    assert_eq!(
        newer.to_string(),
        "it has schema version 2, and this program reads up to 1"
    );
}

#[test]
fn a_word_that_is_no_status_is_refused() {
    let mut value = serde_json::to_value(rich()).unwrap();
    value["status"] = json!("done");
    let error = serde_json::from_value::<Record>(value).unwrap_err();
    assert_eq!(error.to_string(), "`done` is no status");
    let mut value = serde_json::to_value(rich()).unwrap();
    value["standing"][0]["step"] = json!("../edge");
    assert!(serde_json::from_value::<Record>(value).is_err());
    let mut value = serde_json::to_value(rich()).unwrap();
    value["phases"][0]["steps"][0] = json!("edge");
    assert!(serde_json::from_value::<Record>(value).is_err());
    let mut value = serde_json::to_value(rich()).unwrap();
    value["previous"] = json!("a/b");
    assert!(serde_json::from_value::<Record>(value).is_err());
}

#[test]
fn times_are_rfc_3339_in_utc() {
    assert_eq!(
        serde_json::to_value(time(0)).unwrap(),
        json!("2027-01-15T08:00:00Z")
    );
    let read: Time = serde_json::from_value(json!("2027-01-15T09:00:00+01:00")).unwrap();
    assert_eq!(read, time(0));
    assert!(serde_json::from_value::<Time>(json!("yesterday")).is_err());
    assert_eq!(time(0).seconds_since(time(5)), 0.0);
    assert_eq!(Time::from(time(5).0).seconds_since(time(0)), 5.0);
}

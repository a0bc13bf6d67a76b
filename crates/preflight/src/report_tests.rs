//! The report's format: what is on stdout must not change unnoticed.

use phase_engine::{PhaseId, TargetName};
use serde_json::{Value, json};

use crate::facts::{
    AttributeDrift, CheckObservation, CheckResult, DriftedObject, IgnoreDrift, Looked,
    PhaseObservation, PlanFacts, Recorded, StateFacts, StateObservation, StepObservation,
};
use crate::report::SENSITIVE;
use crate::{Report, ReportVerdict, judge_first_build, judge_target};

fn stopped() -> Report {
    let drifted = PlanFacts {
        complete: true,
        drift: vec![DriftedObject {
            address: "box_machine.a[0]".into(),
            action: "update".into(),
            provider: "box".into(),
            attributes: vec![
                AttributeDrift {
                    path: "tags.owner".into(),
                    was: Value::Null,
                    is: json!("x"),
                },
                AttributeDrift {
                    path: "size".into(),
                    was: json!("small"),
                    is: json!("xl"),
                },
                AttributeDrift {
                    path: "key".into(),
                    was: SENSITIVE.into(),
                    is: SENSITIVE.into(),
                },
            ],
        }],
        ..PlanFacts::default()
    };
    let edge = StepObservation {
        step: "1a.edge".parse().unwrap(),
        state: Some(StateObservation {
            recorded: Recorded {
                lineage: "l-1".into(),
                serial: 4,
                digest: "d-1".into(),
            },
            found: StateFacts::Present {
                lineage: "l-1".into(),
                serial: 4,
                digest: "d-1".into(),
            },
        }),
        looked: Looked::Planned(Box::new(drifted)),
        ignore: vec![IgnoreDrift {
            address: "box_machine.a".into(),
            attribute: Some("tags.owner".into()),
            reason: "the cloud adds it".into(),
            until: Some(jiff::civil::date(2027, 3, 31)),
        }],
    };
    let bucket = StepObservation {
        state: Some(StateObservation {
            recorded: Recorded {
                lineage: "l-0".into(),
                serial: 2,
                digest: "d-0".into(),
            },
            found: StateFacts::Absent,
        }),
        ..StepObservation::not_run("0.bucket".parse().unwrap(), "there is no state")
    };
    let phases = [
        PhaseObservation {
            id: PhaseId::new("0").unwrap(),
            steps: vec![bucket],
            checks: Vec::new(),
            seconds: 0.1,
        },
        PhaseObservation {
            id: PhaseId::new("1a").unwrap(),
            steps: vec![edge],
            checks: vec![CheckObservation {
                name: "edge answers".into(),
                result: CheckResult::Failed {
                    message: "connection refused".into(),
                },
            }],
            seconds: 1.25,
        },
    ];
    let target = TargetName::new("drill").unwrap();
    let today = jiff::civil::date(2026, 6, 15);
    let mut report = judge_target(&target, &phases, &["9.old".parse().unwrap()], today, 1.5);
    report.stop("run `01J` is unfinished: phase `1b` failed in its apply");
    report
}

#[test]
fn the_serialized_form() {
    insta::assert_json_snapshot!("report", stopped());
}

#[test]
fn it_reads_back_as_it_was_written() {
    let report = stopped();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}

#[test]
fn it_fits_its_published_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(Report)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let first = judge_first_build(&TargetName::new("drill").unwrap(), &[], 0.0);
    assert_eq!(first.verdict, ReportVerdict::FirstBuild);
    for report in [stopped(), first] {
        let document = serde_json::to_value(&report).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&document)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
    let mut wrong = serde_json::to_value(stopped()).unwrap();
    wrong["phases"][0]["verdict"] = json!("fine");
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn masking_reaches_every_text_that_came_from_outside() {
    let mut report = stopped();
    report.phases[1].findings[0].is = json!({"hunter2": ["hunter2", {"deep": "is hunter2 here"}], "pin": 4711, "port": 22, "on": true});
    report.phases[1].findings[0].was = json!("hunter2");
    report.phases[1].findings[0].address = Some("box.a[\"hunter2\"]".into());
    report.phases[1].findings[0].attribute = Some("tags.hunter2".into());
    report.phases[1].notes[0].text = "hunter2".into();
    report.notes[0].text = "hunter2".into();
    report.mask(&|text| text.replace("hunter2", "***").replace("4711", "***"));
    let text = serde_json::to_string(&report).unwrap();
    assert!(
        !text.contains("hunter2") && !text.contains("4711"),
        "{text}"
    );
    assert_eq!(
        report.phases[1].findings[0].is,
        json!({"***": ["***", {"deep": "is *** here"}], "pin": "***", "port": 22, "on": true})
    );
}

//! One step at a time: what was seen, and what is said of it.

use serde_json::{Value, json};

use super::*;
use crate::facts::{
    AttributeDrift, DriftedObject, FailedCheck, OutputChange, PlanError, PlannedChange, Recorded,
};

const TODAY: Date = jiff::civil::date(2026, 6, 15);

fn seen(looked: Looked) -> StepObservation {
    StepObservation {
        step: "1a.edge".parse().unwrap(),
        state: None,
        looked,
        ignore: Vec::new(),
    }
}

fn planned(facts: PlanFacts) -> StepObservation {
    seen(Looked::Planned(Box::new(PlanFacts {
        complete: true,
        ..facts
    })))
}

fn recorded() -> Recorded {
    Recorded {
        lineage: "L".into(),
        serial: 7,
        digest: "D".into(),
    }
}

fn with_state(found: StateFacts) -> StepObservation {
    let state = Some(StateObservation {
        recorded: recorded(),
        found,
    });
    StepObservation {
        state,
        ..planned(PlanFacts::default())
    }
}

fn present(lineage: &str, serial: u64, digest: &str) -> StateFacts {
    StateFacts::Present {
        lineage: lineage.into(),
        serial,
        digest: digest.into(),
    }
}

fn object(address: &str, action: &str, attributes: &[(&str, Value, Value)]) -> DriftedObject {
    DriftedObject {
        address: address.into(),
        action: action.into(),
        provider: "box".into(),
        attributes: attributes
            .iter()
            .map(|(path, was, is)| AttributeDrift {
                path: (*path).into(),
                was: was.clone(),
                is: is.clone(),
            })
            .collect(),
    }
}

fn change(address: &str, action: &str, reason: &str) -> PlannedChange {
    PlannedChange {
        address: address.into(),
        action: action.into(),
        reason: reason.into(),
    }
}

fn output(name: &str, known: Option<bool>) -> OutputChange {
    OutputChange {
        name: name.into(),
        action: "update".into(),
        known,
        was: json!("old"),
        is: json!("new"),
    }
}

fn ignore(address: &str, attribute: Option<&str>, until: Option<&str>) -> IgnoreDrift {
    IgnoreDrift {
        address: address.into(),
        attribute: attribute.map(str::to_owned),
        reason: "the cloud adds it".into(),
        until: until.map(|until| until.parse().unwrap()),
    }
}

/// Verdict, reasons and addresses, in order.
fn judged(seen: &StepObservation) -> (Verdict, Vec<(Reason, String)>, Vec<String>) {
    let judged = judge(seen, TODAY);
    assert_eq!(judged.step, seen.step);
    assert_eq!(judged.verdict.is_clean(), judged.findings.is_empty());
    for finding in &judged.findings {
        assert_eq!(finding.step.as_deref(), Some("edge"));
    }
    for note in &judged.notes {
        assert_eq!(note.step.as_deref(), Some("edge"));
    }
    let place = |finding: &Finding| match (&finding.address, &finding.attribute) {
        (Some(address), Some(attribute)) => format!("{address} {attribute}"),
        (Some(address), None) => address.clone(),
        (None, _) => String::new(),
    };
    let findings = judged
        .findings
        .iter()
        .map(|finding| (finding.reason, place(finding)))
        .collect();
    (
        judged.verdict,
        findings,
        judged.notes.into_iter().map(|note| note.text).collect(),
    )
}

fn one(
    verdict: Verdict,
    reason: Reason,
    place: &str,
) -> (Verdict, Vec<(Reason, String)>, Vec<String>) {
    (verdict, vec![(reason, place.to_owned())], Vec::new())
}

fn clean() -> (Verdict, Vec<(Reason, String)>, Vec<String>) {
    (Verdict::Clean, Vec::new(), Vec::new())
}

#[test]
fn a_whole_plan_with_nothing_in_it_is_clean() {
    assert_eq!(judged(&planned(PlanFacts::default())), clean());
    assert_eq!(judged(&with_state(present("L", 7, "D"))), clean());
    assert_eq!(judged(&seen(Looked::Verified)), clean());
}

/// Case D1: OpenTofu's plan on a lost state says "no changes".
#[test]
fn a_lost_state_is_absent_whatever_the_plan_says() {
    let mut seen = with_state(StateFacts::Absent);
    assert_eq!(
        judged(&seen),
        one(Verdict::StateAbsent, Reason::StateAbsent, "state/1a/edge")
    );
    seen.looked = Looked::VerifyFailed {
        message: "irrelevant".into(),
    };
    let judged = judge(&seen, TODAY);
    assert_eq!(judged.findings.len(), 1);
    assert_eq!(judged.findings[0].was, "lineage L serial 7");
}

#[test]
fn a_state_that_is_not_the_recorded_one_is_unexplained() {
    let unexplained = Verdict::StateUnexplained;
    for (found, reason, was, is) in [
        (
            present("M", 7, "D"),
            Reason::LineageDiffers,
            json!("L"),
            json!("M"),
        ),
        (
            present("M", 9, "E"),
            Reason::LineageDiffers,
            json!("L"),
            json!("M"),
        ),
        (
            present("L", 8, "E"),
            Reason::SerialDiffers,
            json!(7),
            json!(8),
        ),
        (
            present("L", 6, "E"),
            Reason::SerialDiffers,
            json!(7),
            json!(6),
        ),
        (
            present("L", 7, "E"),
            Reason::DigestDiffers,
            json!("D"),
            json!("E"),
        ),
        (
            StateFacts::Damaged {
                message: "not what was written".to_owned(),
            },
            Reason::DigestDiffers,
            json!("D"),
            json!("not what was written"),
        ),
    ] {
        let seen = with_state(found);
        assert_eq!(judged(&seen), one(unexplained, reason, "state/1a/edge"));
        let finding = &judge(&seen, TODAY).findings[0];
        assert_eq!((&finding.was, &finding.is), (&was, &is));
    }
}

#[test]
fn an_unexplained_state_does_not_hide_what_the_plan_shows() {
    let mut seen = with_state(present("L", 8, "E"));
    seen.looked = Looked::Planned(Box::new(PlanFacts {
        complete: true,
        changes: vec![change("box.a", "replace", "tainted")],
        ..PlanFacts::default()
    }));
    let (verdict, findings, _) = judged(&seen);
    assert_eq!(verdict, Verdict::StateUnexplained);
    assert_eq!(findings.len(), 2);
    assert_eq!(findings[1], (Reason::Tainted, "box.a".into()));
}

#[test]
fn a_store_that_cannot_be_read_is_unreachable() {
    let seen = with_state(StateFacts::Unreadable {
        message: "timed out".into(),
    });
    assert_eq!(
        judged(&seen),
        one(
            Verdict::Unreachable,
            Reason::StoreUnreachable,
            "state/1a/edge"
        )
    );
}

#[test]
fn what_a_step_without_plan_says() {
    let message = || "it said so".to_owned();
    for (looked, verdict, reason) in [
        (
            Looked::VerifyFailed { message: message() },
            Verdict::CheckFailed,
            Reason::VerifyFailed,
        ),
        (
            Looked::Differs { message: message() },
            Verdict::Drifted,
            Reason::ChangedOutside,
        ),
        (
            Looked::Unreachable { message: message() },
            Verdict::Unreachable,
            Reason::StepUnreachable,
        ),
        (
            Looked::NotRun { why: message() },
            Verdict::NotRun,
            Reason::NotRun,
        ),
        (
            Looked::Undecided { message: message() },
            Verdict::Undecided,
            Reason::PlanFailed,
        ),
    ] {
        let seen = seen(looked);
        assert_eq!(judged(&seen), one(verdict, reason, ""));
        assert_eq!(judge(&seen, TODAY).findings[0].is, "it said so");
    }
}

/// Cases D12 and D7, and whatever else makes a plan fail.
#[test]
fn an_error_is_never_green() {
    for (kind, verdict, reason) in [
        (
            ErrorKind::Api,
            Verdict::Unreachable,
            Reason::ProviderUnreachable,
        ),
        (ErrorKind::Lock, Verdict::NotRun, Reason::LockHeld),
        (ErrorKind::Other, Verdict::Undecided, Reason::PlanFailed),
    ] {
        let error = PlanError {
            kind,
            address: Some("box.a".into()),
            message: "no".into(),
        };
        for complete in [true, false] {
            let facts = PlanFacts {
                complete,
                errors: vec![error.clone()],
                ..PlanFacts::default()
            };
            assert_eq!(
                judged(&seen(Looked::Planned(Box::new(facts)))),
                one(verdict, reason, "box.a")
            );
        }
    }
}

#[test]
fn a_plan_without_its_end_is_undecided() {
    let cut = seen(Looked::Planned(Box::default()));
    assert_eq!(
        judged(&cut),
        one(Verdict::Undecided, Reason::PlanFailed, "")
    );
}

#[test]
fn any_drift_counts_attribute_by_attribute() {
    let drift = vec![
        object(
            "box.a",
            "update",
            &[
                ("size", json!(1), json!(2)),
                ("tags.x", json!(null), json!("y")),
            ],
        ),
        object("box.b", "update", &[]),
        object("box.c[0]", "delete", &[]),
        object("box.d", "something-new", &[]),
    ];
    let seen = planned(PlanFacts {
        drift,
        ..PlanFacts::default()
    });
    let (verdict, findings, notes) = judged(&seen);
    assert_eq!(verdict, Verdict::Drifted);
    let places: Vec<_> = findings
        .iter()
        .map(|(reason, place)| (*reason, place.as_str()))
        .collect();
    assert_eq!(
        places,
        [
            (Reason::ChangedOutside, "box.a size"),
            (Reason::ChangedOutside, "box.a tags.x"),
            (Reason::ChangedOutside, "box.b"),
            (Reason::DeletedOutside, "box.c[0]"),
            (Reason::ChangedOutside, "box.d"),
        ]
    );
    assert!(notes.is_empty());
    let first = &judge(&seen, TODAY).findings[0];
    assert_eq!((&first.was, &first.is), (&json!(1), &json!(2)));
}

#[test]
fn ignored_drift_is_told_and_the_rest_counts() {
    let attributes = [
        ("tags.owner", json!(null), json!("x")),
        ("size", json!(1), json!(2)),
    ];
    let facts = PlanFacts {
        drift: vec![
            object("box.a[0]", "update", &attributes),
            object("box.b", "delete", &[]),
        ],
        ..PlanFacts::default()
    };
    let mut seen = planned(facts);
    seen.ignore = vec![
        ignore("box.a", Some("tags"), Some("2026-06-15")),
        ignore("box.b", Some("id"), None),
    ];
    let (verdict, findings, notes) = judged(&seen);
    assert_eq!(verdict, Verdict::Drifted);
    assert_eq!(
        findings,
        [
            (Reason::ChangedOutside, "box.a[0] size".to_owned()),
            (Reason::DeletedOutside, "box.b".to_owned())
        ]
    );
    assert_eq!(
        notes,
        [
            "`tags` of `box.a` is ignored until 2026-06-15: the cloud adds it",
            "`id` of `box.b` is ignored: the cloud adds it",
            "`tags.owner` of `box.a[0]` differs and is ignored",
        ]
    );
}

#[test]
fn wholly_ignored_drift_is_clean_and_unknown_drift_cannot_be_ignored() {
    let known = [("tags.owner", json!(null), json!("x"))];
    for (attributes, verdict) in [(&known[..], Verdict::Clean), (&[], Verdict::Drifted)] {
        let drift = vec![object("box.a", "update", attributes)];
        let mut seen = planned(PlanFacts {
            drift,
            ..PlanFacts::default()
        });
        seen.ignore = vec![ignore("box.a", Some("tags"), None)];
        assert_eq!(judged(&seen).0, verdict);
    }
}

/// Case D5: an exception that has ended fails, drift or none.
#[test]
fn an_ended_exception_stops() {
    let mut seen = planned(PlanFacts::default());
    seen.ignore = vec![ignore("box.a", Some("tags"), Some("2026-06-14"))];
    assert_eq!(
        judged(&seen),
        one(Verdict::CheckFailed, Reason::IgnoreExpired, "box.a tags")
    );
    assert_eq!(
        judge(&seen, TODAY).findings[0].is,
        "`tags` of `box.a` was to be ignored until 2026-06-14: the cloud adds it"
    );
    let drift = vec![object("box.a", "update", &[("tags", json!(1), json!(2))])];
    seen.looked = planned(PlanFacts {
        drift,
        ..PlanFacts::default()
    })
    .looked;
    let (verdict, findings, _) = judged(&seen);
    assert_eq!(
        (verdict, findings.len()),
        (Verdict::Drifted, 2),
        "and ignores nothing any more"
    );
}

#[test]
fn tainted_stops_and_other_changes_are_noted() {
    let seen = planned(PlanFacts {
        changes: vec![
            change("box.a", "replace", "tainted"),
            change("box.b", "update", ""),
            change("data.box.c", "read", ""),
            change("box.d", "noop", ""),
        ],
        ..PlanFacts::default()
    });
    let (verdict, findings, notes) = judged(&seen);
    assert_eq!(
        (verdict, findings),
        (Verdict::Tainted, vec![(Reason::Tainted, "box.a".into())])
    );
    assert_eq!(
        notes,
        ["not converging: the definitions that were applied would update `box.b`"]
    );
}

#[test]
fn a_change_that_follows_from_drift_is_not_noted() {
    let seen = planned(PlanFacts {
        drift: vec![object("box.a", "delete", &[])],
        changes: vec![change("box.a", "create", ""), change("box.b", "create", "")],
        ..PlanFacts::default()
    });
    assert_eq!(judged(&seen).2.len(), 1);
}

/// Case D4: an output alone is told apart from drift of a resource.
#[test]
fn an_output_alone_counts_when_its_new_value_is_known() {
    let read = change("data.box.c", "read", "");
    let update = change("box.b", "update", "");
    for (known, changes, counts) in [
        (Some(true), vec![], true),
        (None, vec![], true),
        (Some(true), vec![read.clone()], true),
        (Some(false), vec![], false),
        (Some(true), vec![update.clone()], false),
        (Some(true), vec![read, update], false),
    ] {
        let outputs = vec![output("ip", known)];
        let seen = planned(PlanFacts {
            changes,
            outputs,
            ..PlanFacts::default()
        });
        let (verdict, findings, notes) = judged(&seen);
        if counts {
            assert_eq!(verdict, Verdict::Drifted);
            assert_eq!(findings, [(Reason::OutputsChanged, "output.ip".to_owned())]);
            let finding = &judge(&seen, TODAY).findings[0];
            assert_eq!((&finding.was, &finding.is), (&json!("old"), &json!("new")));
        } else {
            assert_eq!(verdict, Verdict::Clean);
            assert_eq!(
                notes.last().unwrap(),
                "not converging: `output.ip` would change"
            );
        }
    }
}

#[test]
fn an_output_may_be_ignored_or_explained() {
    let facts = || PlanFacts {
        outputs: vec![output("ip", Some(true))],
        ..PlanFacts::default()
    };
    let mut seen = planned(facts());
    seen.ignore = vec![ignore("output.ip", None, None)];
    let (verdict, _, notes) = judged(&seen);
    assert_eq!(verdict, Verdict::Clean);
    assert_eq!(notes[0], "`output.ip` is ignored: the cloud adds it");
    assert_eq!(notes[1], "`output.ip` differs and is ignored");
    let explained_outputs = ["ip".to_owned()].into();
    let seen = planned(PlanFacts {
        explained_outputs,
        ..facts()
    });
    let (verdict, _, notes) = judged(&seen);
    assert_eq!(verdict, Verdict::Clean);
    assert_eq!(
        notes,
        ["`output.ip` changes with a secret or a sensitive input"]
    );
    let mut noop = output("ip", Some(true));
    noop.action = "noop".into();
    assert_eq!(
        judged(&planned(PlanFacts {
            outputs: vec![noop],
            ..PlanFacts::default()
        })),
        clean()
    );
}

/// Case D6.
#[test]
fn a_false_check_block_stops_with_its_message() {
    let checks = vec![FailedCheck {
        name: "certificate".into(),
        message: "it ends tomorrow".into(),
    }];
    let seen = planned(PlanFacts {
        checks,
        ..PlanFacts::default()
    });
    assert_eq!(
        judged(&seen),
        one(
            Verdict::CheckFailed,
            Reason::CheckBlockFalse,
            "check.certificate"
        )
    );
    assert_eq!(judge(&seen, TODAY).findings[0].is, "it ends tomorrow");
}

/// Case D7, within one step.
#[test]
fn all_objects_of_a_provider_gone_at_once_is_unreachable() {
    let gone = |n: usize| {
        (0..n)
            .map(|n| object(&format!("box.a[{n}]"), "delete", &[]))
            .collect()
    };
    for (n_gone, n_all, reason) in [
        (3, 3, Reason::MassDisappearance),
        (2, 2, Reason::DeletedOutside),
        (3, 4, Reason::DeletedOutside),
    ] {
        let facts = PlanFacts {
            drift: gone(n_gone),
            objects: [("box".to_owned(), n_all)].into(),
            ..PlanFacts::default()
        };
        let (verdict, findings, _) = judged(&planned(facts));
        assert_eq!(verdict, reason.verdict());
        assert!(findings.iter().all(|(found, _)| *found == reason));
        assert_eq!(findings.len(), n_gone);
    }
}

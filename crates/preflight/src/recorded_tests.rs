//! Plans that a real OpenTofu 1.12.6 made (`fixtures/recorder`), judged.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};
use tofu::{EventLine, Outcome, PlanDocument};

use crate::facts::{IgnoreDrift, Looked, PlanFacts, StepObservation};
use crate::{NotSettled, Reason, Settle, StepVerdict, Verdict, explained_outputs, judge, settle};

/// One recorded plan.
struct Recorded {
    outcome: Outcome,
    document: Option<PlanDocument>,
}

fn recorded(case: &str) -> Recorded {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(case);
    let events = std::fs::read(directory.join("events.jsonl")).unwrap();
    let mut outcome = Outcome::default();
    for line in events
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        outcome.take(&EventLine::parse(line));
    }
    let document = std::fs::read(directory.join("plan.json")).ok();
    Recorded {
        outcome,
        document: document.map(|raw| PlanDocument::parse(&raw).unwrap()),
    }
}

impl Recorded {
    /// As preflight reads it: the JSON plan only where something shows.
    fn facts(&self) -> PlanFacts {
        let shows = PlanFacts::wants_document(&self.outcome);
        PlanFacts::of_outcome(&self.outcome, self.document.as_ref().filter(|_| shows))
    }

    fn configuration(&self) -> &Value {
        &self.document.as_ref().unwrap().configuration
    }
}

fn judged(facts: PlanFacts, ignore: Vec<IgnoreDrift>) -> StepVerdict {
    let seen = StepObservation {
        looked: Looked::Planned(Box::new(facts)),
        ignore,
        ..StepObservation::not_run("1a.edge".parse().unwrap(), "")
    };
    judge(&seen, jiff::civil::date(2026, 6, 15))
}

/// Verdict, and each finding's reason, address and attribute.
fn summary(judged: &StepVerdict) -> (Verdict, Vec<(Reason, &str, &str)>) {
    let findings = judged.findings.iter().map(|finding| {
        (
            finding.reason,
            finding.address.as_deref().unwrap_or_default(),
            finding.attribute.as_deref().unwrap_or_default(),
        )
    });
    (judged.verdict, findings.collect())
}

#[test]
fn every_case_has_the_verdict_that_the_design_gives_it() {
    use Reason as R;
    use Verdict as V;
    let (a, m0, m1) = (
        "box_machine.a",
        "module.many[0].box_machine.m[0]",
        "module.many[0].box_machine.m[1]",
    );
    for (case, verdict, findings) in [
        ("clean", V::Clean, &[][..]),
        (
            "drift-update",
            V::Drifted,
            &[
                (R::ChangedOutside, a, "size"),
                (R::ChangedOutside, a, "tags.owner"),
            ],
        ),
        (
            "drift-computed",
            V::Drifted,
            &[
                (R::ChangedOutside, a, "mac"),
                (R::ChangedOutside, a, "nic[0].address"),
                (R::OutputsChanged, "output.mac", ""),
            ],
        ),
        (
            "drift-secret",
            V::Drifted,
            &[(R::ChangedOutside, a, "secret")],
        ),
        ("drift-delete", V::Drifted, &[(R::DeletedOutside, a, "")]),
        (
            "all-gone",
            V::Unreachable,
            &[
                (R::MassDisappearance, a, ""),
                (R::MassDisappearance, m0, ""),
                (R::MassDisappearance, m1, ""),
            ],
        ),
        (
            "api-error",
            V::Unreachable,
            &[(R::ProviderUnreachable, a, "")],
        ),
        ("tainted", V::Tainted, &[(R::Tainted, a, "")]),
        (
            "check-false",
            V::CheckFailed,
            &[(R::CheckBlockFalse, "check.size", "")],
        ),
        (
            "check-unknown",
            V::CheckFailed,
            &[(R::CheckBlockFalse, "check.late", "")],
        ),
        (
            "check-data-gone",
            V::Unreachable,
            &[
                (R::ProviderUnreachable, "data.box_machine.watched", ""),
                (R::CheckBlockFalse, "check.watched", ""),
            ],
        ),
        (
            "output-data",
            V::Drifted,
            &[(R::OutputsChanged, "output.watched", "")],
        ),
        (
            "output-secret",
            V::Drifted,
            &[(R::OutputsChanged, "output.password", "")],
        ),
        ("output-beside-change", V::Clean, &[]),
        ("config-error", V::Undecided, &[(R::PlanFailed, "", "")]),
        ("locked", V::NotRun, &[(R::LockHeld, "", "")]),
    ] {
        let judged = judged(recorded(case).facts(), Vec::new());
        assert_eq!(summary(&judged), (verdict, findings.to_vec()), "{case}");
    }
}

#[test]
fn every_recording_is_in_the_table() {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let n_cases = std::fs::read_dir(fixtures)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().join("events.jsonl").exists())
        .count();
    assert_eq!(n_cases, 16);
}

#[test]
fn values_are_those_of_the_json_plan() {
    let values = |case: &str| -> Vec<(Value, Value)> {
        let judged = judged(recorded(case).facts(), Vec::new());
        judged
            .findings
            .into_iter()
            .map(|finding| (finding.was, finding.is))
            .collect()
    };
    assert_eq!(
        values("drift-update"),
        [
            (json!("small"), json!("xl")),
            (Value::Null, json!("someone"))
        ]
    );
    assert_eq!(values("output-data"), [(json!("m"), json!("xxl"))]);
    assert_eq!(values("check-false")[0].1, "box a is small, not other");
    let message = values("check-data-gone")[1].1.as_str().unwrap().to_owned();
    assert!(message.contains("open watched.json"), "{message}");
    let message = values("api-error")[0].1.as_str().unwrap().to_owned();
    assert!(message.contains("connection refused"), "{message}");
}

#[test]
fn sensitive_values_are_masked_before_they_are_facts() {
    for case in ["drift-secret", "output-secret"] {
        let facts = recorded(case).facts();
        let text = format!("{facts:?}");
        assert!(
            text.contains("[sensitive]") && !text.contains("s3cr3t"),
            "{case}: {text}"
        );
    }
}

#[test]
fn without_the_json_plan_it_is_drift_all_the_same() {
    for (case, finding) in [
        (
            "drift-update",
            (Reason::ChangedOutside, "box_machine.a", ""),
        ),
        (
            "output-data",
            (Reason::OutputsChanged, "output.watched", ""),
        ),
    ] {
        let judged = judged(
            PlanFacts::of_outcome(&recorded(case).outcome, None),
            Vec::new(),
        );
        assert_eq!(
            summary(&judged),
            (Verdict::Drifted, vec![finding]),
            "{case}"
        );
    }
}

fn ignore(address: &str, attribute: Option<&str>) -> IgnoreDrift {
    IgnoreDrift {
        address: address.into(),
        attribute: attribute.map(str::to_owned),
        reason: "known".into(),
        until: None,
    }
}

#[test]
fn exceptions_match_what_opentofu_calls_things() {
    let facts = recorded("drift-computed").facts();
    let all = vec![
        ignore("box_machine.a", Some("mac")),
        ignore("box_machine.a", Some("nic[0].address")),
        ignore("output.mac", None),
    ];
    assert_eq!(judged(facts.clone(), all.clone()).verdict, Verdict::Clean);
    for missing in 0..all.len() {
        let mut some = all.clone();
        some.remove(missing);
        assert_eq!(judged(facts.clone(), some).findings.len(), 1);
    }
}

#[test]
fn an_output_that_changed_with_a_secret_is_explained() {
    let recorded = recorded("output-secret");
    let changed = BTreeSet::from(["password".to_owned()]);
    let explained = explained_outputs(recorded.configuration(), &changed, &|_| None);
    assert_eq!(explained, BTreeSet::from(["password".to_owned()]));
    let facts = PlanFacts {
        explained_outputs: explained,
        ..recorded.facts()
    };
    assert_eq!(judged(facts, Vec::new()).verdict, Verdict::Clean);
}

#[test]
fn objects_are_counted_whether_they_are_there_or_gone_and_whether_anything_shows() {
    for case in [
        "clean",
        "drift-update",
        "drift-delete",
        "all-gone",
        "check-false",
    ] {
        let objects = recorded(case).facts().objects;
        assert_eq!(objects["box"], 3, "{case}");
    }
}

#[test]
fn findings_stand_in_one_order_whatever_the_providers_answered_first() {
    let mut recorded = recorded("all-gone");
    let before = recorded.facts();
    recorded.outcome.drift.reverse();
    recorded.outcome.planned.reverse();
    assert_eq!(recorded.facts(), before);
}

#[test]
fn settling_is_for_attributes_that_nothing_sets() {
    let settled = |case: &str| {
        let recorded = recorded(case);
        settle(&recorded.facts(), recorded.configuration())
    };
    let a = || "box_machine.a".to_owned();
    assert_eq!(settled("drift-computed"), Settle::ApplyOnce);
    assert_eq!(settled("clean"), Settle::NotNeeded);
    assert_eq!(
        settled("drift-update"),
        Settle::Fail(NotSettled::Change {
            address: a(),
            action: "update".into()
        })
    );
    assert_eq!(
        settled("drift-secret"),
        Settle::Fail(NotSettled::Set {
            address: a(),
            attribute: "secret".into()
        })
    );
    assert_eq!(settled("api-error"), Settle::Fail(NotSettled::NoAnswer));
}

/// Case J2: a crash before any message.
#[test]
fn a_program_that_dies_without_a_word_is_undecided_with_its_last_lines() {
    let mut outcome = Outcome::default();
    outcome.take(&EventLine::parse(b"panic: runtime error"));
    outcome.take(&EventLine::parse(b"goroutine 1 [running]:"));
    outcome.end(process::Exit::Code(2));
    let judged = judged(PlanFacts::of_outcome(&outcome, None), Vec::new());
    assert_eq!(
        summary(&judged),
        (Verdict::Undecided, vec![(Reason::PlanFailed, "", "")])
    );
    assert_eq!(
        judged.findings[0].is,
        "tofu ended with exit code 2 and told no error\npanic: runtime error\ngoroutine 1 [running]:"
    );
}

#[test]
fn a_stream_that_breaks_off_is_never_green() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/clean/events.jsonl");
    let events = std::fs::read(directory).unwrap();
    let lines: Vec<&[u8]> = events
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect();
    let summary = lines
        .iter()
        .position(|line| String::from_utf8_lossy(line).contains("\"change_summary\""))
        .unwrap();
    for n_lines in 0..=lines.len() {
        let mut outcome = Outcome::default();
        lines[..n_lines]
            .iter()
            .for_each(|line| outcome.take(&EventLine::parse(line)));
        let verdict = judged(PlanFacts::of_outcome(&outcome, None), Vec::new()).verdict;
        assert_eq!(
            verdict.is_clean(),
            n_lines > summary,
            "after {n_lines} lines"
        );
    }
}

#[test]
fn an_error_without_an_address_that_speaks_of_the_network_is_unreachable() {
    for (summary, kind) in [
        ("dial tcp 192.0.2.1:443: i/o timeout", Verdict::Unreachable),
        ("Unsupported argument", Verdict::Undecided),
    ] {
        let event = json!({
            "@level": "error", "@message": "x", "type": "diagnostic",
            "diagnostic": {"severity": "error", "summary": summary, "detail": ""},
        });
        let mut outcome = Outcome::default();
        outcome.take(&EventLine::parse(event.to_string().as_bytes()));
        assert_eq!(
            judged(PlanFacts::of_outcome(&outcome, None), Vec::new()).verdict,
            kind
        );
    }
}

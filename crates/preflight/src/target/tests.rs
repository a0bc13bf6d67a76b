//! Several phases at once.

use phase_engine::PhaseId;

use super::*;
use crate::facts::{CheckObservation, DriftedObject, ErrorKind, PlanError, PlanFacts};

const TODAY: Date = jiff::civil::date(2026, 6, 15);

fn step(id: &str, facts: PlanFacts) -> StepObservation {
    StepObservation {
        step: id.parse().unwrap(),
        state: None,
        looked: Looked::Planned(Box::new(PlanFacts {
            complete: true,
            ..facts
        })),
        ignore: Vec::new(),
    }
}

fn boxes(n_gone: usize, n_all: usize) -> PlanFacts {
    let drift = (0..n_gone).map(|n| DriftedObject {
        address: format!("box.a[{n}]"),
        action: "delete".into(),
        provider: "box".into(),
        attributes: Vec::new(),
    });
    PlanFacts {
        drift: drift.collect(),
        objects: [("box".to_owned(), n_all), ("dns".to_owned(), 1)].into(),
        ..PlanFacts::default()
    }
}

fn phase(id: &str, steps: Vec<StepObservation>) -> PhaseObservation {
    PhaseObservation {
        id: PhaseId::new(id).unwrap(),
        steps,
        checks: Vec::new(),
        seconds: 0.25,
    }
}

fn judged(phases: &[PhaseObservation], unknown: &[&str]) -> Report {
    let unknown: Vec<StepId> = unknown.iter().map(|step| step.parse().unwrap()).collect();
    judge_target(
        &TargetName::new("drill").unwrap(),
        phases,
        &unknown,
        TODAY,
        1.5,
    )
}

fn verdicts(report: &Report) -> Vec<(&str, Verdict)> {
    report
        .phases
        .iter()
        .map(|phase| (phase.id.as_str(), phase.verdict))
        .collect()
}

/// Case D7: the provider's objects lie in two phases.
#[test]
fn objects_of_one_provider_are_counted_over_the_whole_target() {
    let report = judged(
        &[
            phase("1a", vec![step("1a.x", boxes(2, 2))]),
            phase("1b", vec![step("1b.y", boxes(1, 1))]),
        ],
        &[],
    );
    assert_eq!(
        verdicts(&report),
        [("1a", Verdict::Unreachable), ("1b", Verdict::Unreachable)]
    );
    assert!(
        report.phases[0]
            .findings
            .iter()
            .all(|one| one.reason == Reason::MassDisappearance)
    );
    let report = judged(
        &[
            phase("1a", vec![step("1a.x", boxes(3, 3))]),
            phase("1b", vec![step("1b.y", boxes(0, 1))]),
        ],
        &[],
    );
    assert_eq!(
        verdicts(&report),
        [("1a", Verdict::Drifted), ("1b", Verdict::Clean)]
    );
}

#[test]
fn a_plan_with_an_error_proves_neither_presence_nor_loss() {
    let error = PlanError {
        kind: ErrorKind::Api,
        address: None,
        message: "no route".into(),
    };
    let failed = PlanFacts {
        errors: vec![error],
        ..boxes(0, 4)
    };
    let report = judged(
        &[
            phase("1a", vec![step("1a.x", boxes(3, 3))]),
            phase("1b", vec![step("1b.y", failed)]),
        ],
        &[],
    );
    assert_eq!(
        report.phases[0].findings[0].reason,
        Reason::MassDisappearance
    );
}

#[test]
fn the_worst_of_a_phase_is_its_verdict_and_every_finding_stays() {
    let mut one = phase(
        "1a",
        vec![
            step("1a.x", boxes(1, 2)),
            step("1a.y", PlanFacts::default()),
        ],
    );
    one.checks = vec![
        CheckObservation {
            name: "up".into(),
            result: CheckResult::Passed,
        },
        CheckObservation {
            name: "fast".into(),
            result: CheckResult::Failed {
                message: "answered 503".into(),
            },
        },
    ];
    let report = judged(
        &[
            one.clone(),
            phase("1b", vec![step("1b.z", PlanFacts::default())]),
        ],
        &[],
    );
    assert_eq!(
        verdicts(&report),
        [("1a", Verdict::Drifted), ("1b", Verdict::Clean)]
    );
    assert_eq!(report.verdict, ReportVerdict::Stopped);
    assert_eq!(
        (
            report.n_findings(),
            report.seconds,
            report.phases[0].seconds
        ),
        (2, 1.5, 0.25)
    );
    let check = &report.phases[0].findings[1];
    assert_eq!(check.step, None);
    assert_eq!(check.address.as_deref(), Some("fast"));
    assert_eq!(
        (check.reason, &check.is),
        (Reason::PhaseCheckFailed, &"answered 503".into())
    );
    one.steps[0] = StepObservation::not_run("1a.x".parse().unwrap(), "skipped");
    let report = judged(&[one], &[]);
    assert_eq!(verdicts(&report), [("1a", Verdict::NotRun)]);
}

#[test]
fn everything_clean_is_clean() {
    let mut one = phase("0", vec![step("0.a", boxes(0, 3))]);
    one.checks = vec![CheckObservation {
        name: "up".into(),
        result: CheckResult::Passed,
    }];
    let mut only_checks = phase("1", Vec::new());
    only_checks.checks = one.checks.clone();
    let report = judged(&[one, only_checks], &[]);
    assert_eq!(report.verdict, ReportVerdict::Clean);
    assert!(report.passes());
    assert_eq!(report.n_findings(), 0);
}

#[test]
fn what_was_not_looked_at_is_never_green() {
    let mut unasked = phase("1a", vec![step("1a.x", PlanFacts::default())]);
    unasked.checks = vec![CheckObservation {
        name: "up".into(),
        result: CheckResult::NotRun {
            why: "stopping".into(),
        },
    }];
    assert_eq!(
        verdicts(&judged(&[unasked], &[])),
        [("1a", Verdict::NotRun)]
    );
    let empty = judged(&[phase("1a", Vec::new())], &[]);
    assert_eq!(verdicts(&empty), [("1a", Verdict::NotRun)]);
    assert_eq!(empty.phases[0].findings[0].reason, Reason::NotRun);
    let nothing = judged(&[], &[]);
    assert_eq!(nothing.verdict, ReportVerdict::Stopped);
    assert_eq!(nothing.notes[0].text, "nothing was looked at");
}

#[test]
fn a_state_that_the_record_does_not_know_is_unexplained() {
    let report = judged(
        &[phase("1a", vec![step("1a.x", boxes(1, 2))])],
        &["1a.old", "9.gone", "9.too"],
    );
    assert_eq!(
        verdicts(&report),
        [
            ("1a", Verdict::StateUnexplained),
            ("9", Verdict::StateUnexplained)
        ]
    );
    let finding = &report.phases[0].findings[1];
    assert_eq!(finding.reason, Reason::UnknownState);
    assert_eq!(finding.step.as_deref(), Some("old"));
    assert_eq!(finding.address.as_deref(), Some("state/1a/old"));
    assert_eq!(report.phases[1].findings.len(), 2);
}

#[test]
fn a_stop_from_outside_leaves_the_verdicts_alone() {
    let mut report = judged(
        &[phase("1a", vec![step("1a.x", PlanFacts::default())])],
        &[],
    );
    assert!(report.passes());
    report.stop("run `01J` is unfinished: phase `1b` failed");
    assert_eq!(report.verdict, ReportVerdict::Stopped);
    assert_eq!(verdicts(&report), [("1a", Verdict::Clean)]);
    assert_eq!(
        report.notes[0].text,
        "run `01J` is unfinished: phase `1b` failed"
    );
}

//! The verdict of a whole target, from everything that was seen of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use phase_engine::{StepId, TargetName};

use crate::facts::{CheckResult, Looked, PhaseObservation, StepObservation};
use crate::judge::judge_among;
use crate::report::{Finding, Note, PhaseReport, Report, SCHEMA};
use crate::verdict::{Reason, ReportVerdict, Verdict};

/// From this many objects of one provider on, all of them gone at once says more about the way to the
/// provider than about the objects.
const MANY: usize = 3;

/// Judges a target in which something stands. `unknown_states` are states in the store that the
/// record does not know; `today` ends exceptions.
///
/// The phases stay in the order in which they are given; a phase that has nothing but unknown states
/// comes after them.
pub fn judge_target(
    target: &TargetName,
    phases: &[PhaseObservation],
    unknown_states: &[StepId],
    today: Date,
    seconds: f64,
) -> Report {
    let vanished = vanished_providers(phases.iter().flat_map(|phase| &phase.steps));
    let mut reports: Vec<PhaseReport> = phases
        .iter()
        .map(|phase| judge_phase(phase, today, &vanished))
        .collect();
    for step in unknown_states {
        let mut finding = Finding::new(Reason::UnknownState, "the record knows nothing of it")
            .at(format!("state/{}", step.key()));
        finding.step = Some(step.step.to_string());
        let id = step.phase.to_string();
        let place = reports
            .iter()
            .position(|report| report.id == id)
            .unwrap_or_else(|| {
                reports.push(PhaseReport {
                    id,
                    verdict: Verdict::Clean,
                    findings: Vec::new(),
                    notes: Vec::new(),
                    seconds: 0.0,
                });
                reports.len() - 1
            });
        let report = &mut reports[place];
        report.verdict = report.verdict.min(finding.reason.verdict());
        report.findings.push(finding);
    }
    let all = Verdict::worst(reports.iter().map(|report| report.verdict));
    let mut notes = Vec::new();
    if reports.is_empty() {
        notes.push(Note::new("nothing was looked at"));
    }
    Report {
        schema: SCHEMA,
        target: target.to_string(),
        verdict: if all.is_clean() {
            ReportVerdict::Clean
        } else {
            ReportVerdict::Stopped
        },
        phases: reports,
        notes,
        seconds,
    }
}

fn judge_phase(phase: &PhaseObservation, today: Date, vanished: &BTreeSet<String>) -> PhaseReport {
    let mut findings = Vec::new();
    let mut notes = Vec::new();
    let mut verdicts = Vec::new();
    for step in &phase.steps {
        let judged = judge_among(step, today, vanished);
        verdicts.push(judged.verdict);
        findings.extend(judged.findings);
        notes.extend(judged.notes);
    }
    for check in &phase.checks {
        let (reason, text) = match &check.result {
            CheckResult::Passed => {
                verdicts.push(Verdict::Clean);
                continue;
            }
            CheckResult::Failed { message } => (Reason::PhaseCheckFailed, message),
            CheckResult::NotRun { why } => (Reason::NotRun, why),
        };
        verdicts.push(reason.verdict());
        findings.push(Finding::new(reason, text.as_str()).at(check.name.clone()));
    }
    if verdicts.is_empty() {
        findings.push(Finding::new(
            Reason::NotRun,
            "nothing of this phase was looked at",
        ));
    }
    PhaseReport {
        id: phase.id.to_string(),
        verdict: Verdict::worst(verdicts),
        findings,
        notes,
        seconds: phase.seconds,
    }
}

/// The providers that have three objects or more in these steps, all of them gone. A plan with an
/// error tells nothing of what is there, so it counts for neither side.
pub(crate) fn vanished_providers<'a>(
    steps: impl IntoIterator<Item = &'a StepObservation>,
) -> BTreeSet<String> {
    let mut objects: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for step in steps {
        let Looked::Planned(facts) = &step.looked else {
            continue;
        };
        if !facts.errors.is_empty() {
            continue;
        }
        for (provider, n_all) in &facts.objects {
            objects.entry(provider).or_default().0 += n_all;
        }
        for object in facts
            .drift
            .iter()
            .filter(|object| object.action == "delete")
        {
            objects.entry(&object.provider).or_default().1 += 1;
        }
    }
    objects
        .into_iter()
        .filter(|(_, (n_all, n_gone))| *n_gone >= MANY && n_gone >= n_all)
        .map(|(provider, _)| provider.to_owned())
        .collect()
}

#[cfg(test)]
mod tests;

//! Whether nothing stands, so that the first apply may come.

use phase_engine::{PhaseId, TargetName};

use crate::report::{Finding, Note, PhaseReport, Report, SCHEMA};
use crate::verdict::{Reason, ReportVerdict, Verdict};

/// What the residue probes of one phase brought, where nothing stands by the record.
#[derive(Debug, Clone, PartialEq)]
pub struct ResidueOfPhase {
    /// The phase.
    pub id: PhaseId,
    /// Each probe's name, and what it found; none when the phase has no probe.
    pub probes: Vec<(String, ResidueFound)>,
    /// How long they took.
    pub seconds: f64,
}

/// What one residue probe brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResidueFound {
    /// It printed nothing: nothing is left.
    Nothing,
    /// It printed these lines.
    Left(Vec<String>),
    /// It could not be run to its end.
    Failed {
        /// What came instead.
        message: String,
    },
}

/// Judges a target in which nothing stands and whose store holds no state: a first build when every
/// residue probe is silent. Phases without a probe are named, since nothing is proven of them.
pub fn judge_first_build(target: &TargetName, phases: &[ResidueOfPhase], seconds: f64) -> Report {
    let mut unproven = Vec::new();
    let reports: Vec<PhaseReport> = phases
        .iter()
        .map(|phase| {
            if phase.probes.is_empty() {
                unproven.push(format!("`{}`", phase.id));
            }
            let findings: Vec<Finding> = phase.probes.iter().filter_map(finding).collect();
            let verdict = findings
                .iter()
                .map(|finding| finding.reason.verdict())
                .min()
                .unwrap_or(Verdict::Clean);
            PhaseReport {
                id: phase.id.to_string(),
                verdict,
                findings,
                notes: Vec::new(),
                seconds: phase.seconds,
            }
        })
        .collect();
    let clean = reports.iter().all(|phase| phase.verdict.is_clean());
    let mut notes = Vec::new();
    if !unproven.is_empty() {
        let (word, verb) = if unproven.len() == 1 {
            ("phase", "has")
        } else {
            ("phases", "have")
        };
        notes.push(Note::new(format!(
            "{word} {} {verb} no residue probe: nothing proves that nothing is left of it",
            unproven.join(", ")
        )));
    }
    Report {
        schema: SCHEMA,
        target: target.to_string(),
        verdict: if clean {
            ReportVerdict::FirstBuild
        } else {
            ReportVerdict::Stopped
        },
        phases: reports,
        notes,
        seconds,
    }
}

fn finding((name, found): &(String, ResidueFound)) -> Option<Finding> {
    match found {
        ResidueFound::Nothing => None,
        ResidueFound::Left(lines) => {
            Some(Finding::new(Reason::LeftBehind, lines.join("\n")).at(name.clone()))
        }
        ResidueFound::Failed { message } => {
            Some(Finding::new(Reason::ResidueFailed, message.as_str()).at(name.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(probes: &[(&str, &[ResidueFound])]) -> Report {
        let phases: Vec<ResidueOfPhase> = probes
            .iter()
            .map(|(id, found)| ResidueOfPhase {
                id: PhaseId::new(*id).unwrap(),
                probes: found
                    .iter()
                    .enumerate()
                    .map(|(index, found)| (format!("probe {index}"), found.clone()))
                    .collect(),
                seconds: 0.5,
            })
            .collect();
        judge_first_build(&TargetName::new("drill").unwrap(), &phases, 1.5)
    }

    #[test]
    fn silence_everywhere_is_a_first_build() {
        let report = judged(&[
            ("0", &[ResidueFound::Nothing]),
            ("1a", &[ResidueFound::Nothing]),
        ]);
        assert_eq!(report.verdict, ReportVerdict::FirstBuild);
        assert!(report.passes() && report.notes.is_empty());
        assert_eq!((report.seconds, report.phases[0].seconds), (1.5, 0.5));
    }

    #[test]
    fn phases_without_a_probe_are_named_and_do_not_stop() {
        let report = judged(&[("0", &[]), ("1a", &[ResidueFound::Nothing])]);
        assert_eq!(report.verdict, ReportVerdict::FirstBuild);
        assert!(
            report.notes[0]
                .text
                .starts_with("phase `0` has no residue probe")
        );
        let report = judged(&[("0", &[]), ("1a", &[])]);
        assert!(
            report.notes[0]
                .text
                .starts_with("phases `0`, `1a` have no residue probe")
        );
    }

    #[test]
    fn what_is_left_stops_and_so_does_a_probe_that_fails() {
        let left = ResidueFound::Left(vec!["machine-1".into(), "machine-2".into()]);
        let failed = ResidueFound::Failed {
            message: "exit code 1".into(),
        };
        let report = judged(&[("0", &[ResidueFound::Nothing, left]), ("1a", &[failed])]);
        assert_eq!(report.verdict, ReportVerdict::Stopped);
        let found: Vec<_> = report
            .phases
            .iter()
            .map(|phase| (phase.verdict, phase.findings[0].reason))
            .collect();
        assert_eq!(
            found,
            [
                (Verdict::StateUnexplained, Reason::LeftBehind),
                (Verdict::Undecided, Reason::ResidueFailed)
            ]
        );
        assert_eq!(report.phases[0].findings[0].is, "machine-1\nmachine-2");
        assert_eq!(
            report.phases[0].findings[0].address.as_deref(),
            Some("probe 1")
        );
    }
}

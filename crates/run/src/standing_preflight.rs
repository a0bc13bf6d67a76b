//! Preflight of a target: everything that stands, in parallel, each step from what it was applied from.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use checks::Residue;
use phase_engine::{ExitCode, Failure, PhaseId, StepId};
use preflight::{
    Ask, CheckResult, PhaseUnderTest, Probe, Report, ResidueFound, ResidueOfPhase, StepObservation,
    Verdict, judge_first_build,
};

use crate::stop::StopLevel;
use crate::ui::Notice;
use crate::world::{PhaseSource, TargetWorld};

/// A phase as it stands, with the definitions of its checks.
struct StandingPhase {
    under_test: PhaseUnderTest,
    as_applied: PhaseSource,
}

impl TargetWorld<'_, '_> {
    /// The day of today, by which exceptions end.
    pub(crate) fn day(&self) -> jiff::civil::Date {
        jiff::tz::Offset::UTC
            .to_datetime((self.bench.machine.now)())
            .date()
    }

    /// Looks at everything that stands, or at the named phases of it.
    pub(crate) fn look_at_standing(&self, only: Option<&[PhaseId]>) -> Result<Report, Failure> {
        let phases = self.standing_phases(only)?;
        let known: Vec<StepId> = self
            .standing
            .all()
            .into_iter()
            .map(|entry| entry.step)
            .collect();
        let unknown: Vec<StepId> = if only.is_some() {
            Vec::new()
        } else {
            self.bench
                .stated()?
                .into_iter()
                .filter(|step| !known.contains(step))
                .collect()
        };
        let under_test: Vec<PhaseUnderTest> = phases
            .iter()
            .map(|phase| phase.under_test.clone())
            .collect();
        let ask = Ask {
            target: &self.bench.target.name,
            phases: &under_test,
            unknown_states: &unknown,
            today: self.day(),
        };
        let mut report = preflight::run(
            &ask,
            &StandingProbe {
                world: self,
                phases: &phases,
            },
            self.jobs,
        );
        report.mask(&|text| self.bench.masked(text));
        Ok(report)
    }

    /// The phases in which something stands: in today's order, then those that today does not define.
    fn standing_phases(&self, only: Option<&[PhaseId]>) -> Result<Vec<StandingPhase>, Failure> {
        let mut order: Vec<PhaseId> = self
            .today
            .iter()
            .flat_map(|today| today.platform.phases.iter().map(|phase| phase.id.clone()))
            .collect();
        for entry in self.standing.all() {
            if !order.contains(&entry.step.phase) {
                order.push(entry.step.phase);
            }
        }
        let mut phases = Vec::new();
        for id in order {
            if only.is_some_and(|only| !only.contains(&id)) {
                continue;
            }
            let entries = self.standing.of_phase(&id);
            let as_applied = entries
                .iter()
                .rev()
                .find_map(|entry| Some((&entry.step, entry.as_applied()?)));
            let Some((step, applied)) = as_applied else {
                continue;
            };
            let source = self.bench.library.get(&applied.bundle)?;
            let as_applied = PhaseSource::of(source, step, applied);
            let checks = as_applied
                .def()
                .map(|phase| {
                    phase
                        .checks
                        .iter()
                        .map(|check| check.name.clone())
                        .collect()
                })
                .unwrap_or_default();
            let steps = entries.iter().map(|entry| entry.step.clone()).collect();
            phases.push(StandingPhase {
                under_test: PhaseUnderTest { id, steps, checks },
                as_applied,
            });
        }
        Ok(phases)
    }

    /// Why preflight stops where it shows nothing but that it was interrupted.
    pub(crate) fn cut_short(&self, report: &Report) -> Option<Failure> {
        let is_stopping = self.bench.stop.level() >= crate::stop::StopLevel::Gentle;
        (is_stopping && shows_only_a_cut(report)).then(|| {
            Failure::new(
                ExitCode::Interrupted,
                format!(
                    "interrupted in the preflight of target `{}`",
                    self.bench.target.name
                ),
            )
            .hint("nothing was changed; type the same command again")
        })
    }

    /// Asks every residue probe of today's phases: a first build must find nothing.
    pub(crate) fn look_for_residue(&self) -> Result<Report, Failure> {
        let started = Instant::now();
        let today = Arc::clone(self.today()?);
        let mut phases = Vec::new();
        for phase in &today.platform.phases {
            let from = Instant::now();
            let mut probes = Vec::new();
            for probe in &phase.residue {
                let found = self.bench.ask_residue(
                    &today,
                    &phase.id,
                    probe,
                    &self.bench.target.values,
                    Duration::from_millis(1),
                )?;
                let found = match found {
                    Residue::Silent { .. } => ResidueFound::Nothing,
                    Residue::Left { lines, .. } => ResidueFound::Left(lines),
                    Residue::Failed(failure) => ResidueFound::Failed {
                        message: failure.to_string(),
                    },
                };
                probes.push((probe.name.clone(), found));
            }
            phases.push(ResidueOfPhase {
                id: phase.id.clone(),
                probes,
                seconds: from.elapsed().as_secs_f64(),
            });
        }
        let mut report = judge_first_build(
            &self.bench.target.name,
            &phases,
            started.elapsed().as_secs_f64(),
        );
        report.mask(&|text| self.bench.masked(text));
        Ok(report)
    }

    /// Tells the operator what preflight found.
    pub(crate) fn tell_report(&self, report: &Report) {
        let report = serde_json::to_value(report).unwrap_or_default();
        self.bench.ui.tell(&Notice::Preflight { report });
    }
}

/// Looks at what stands.
struct StandingProbe<'w, 'b, 'm> {
    world: &'w TargetWorld<'b, 'm>,
    phases: &'w [StandingPhase],
}

impl Probe for StandingProbe<'_, '_, '_> {
    fn step(&self, step: &StepId) -> StepObservation {
        let world = self.world;
        let Some(entry) = world.standing.get(step) else {
            return StepObservation::not_run(step.clone(), "nothing stands of it");
        };
        let Some(applied) = entry.as_applied() else {
            return StepObservation::not_run(step.clone(), "its first apply has not ended well");
        };
        let mut sight = world.bench.look(&entry, applied, &world.standing);
        if let Some(kept) = sight.plan.take() {
            world
                .plans
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(step.clone(), kept);
        }
        sight.observation
    }

    fn check(&self, phase: &PhaseId, name: &str) -> CheckResult {
        let Some(standing) = self
            .phases
            .iter()
            .find(|standing| standing.under_test.id == *phase)
        else {
            return CheckResult::NotRun {
                why: "nothing stands of its phase".to_owned(),
            };
        };
        let as_applied = &standing.as_applied;
        let Some((def, check)) = as_applied
            .def()
            .and_then(|def| Some((def, def.checks.iter().find(|check| check.name == name)?)))
        else {
            return CheckResult::NotRun {
                why: "it is not defined".to_owned(),
            };
        };
        let bench = self.world.bench;
        let asked = bench
            .need_outputs(check.kind.exprs(), &self.world.standing)
            .and_then(|()| bench.ask(&as_applied.source, def, check, &as_applied.values, false));
        match asked {
            Ok(()) => CheckResult::Passed,
            Err(failure) if failure.is_interrupt() => CheckResult::NotRun { why: failure.what },
            Err(failure) => CheckResult::Failed {
                message: failure.one_line(),
            },
        }
    }

    fn is_stopping(&self) -> bool {
        self.world.bench.stop.level() >= StopLevel::Gentle
    }
}

/// Whether a report stops, and says of no phase anything but that it was not looked at to the end.
fn shows_only_a_cut(report: &Report) -> bool {
    let is_cut = |verdict: Verdict| matches!(verdict, Verdict::NotRun | Verdict::Undecided);
    let mut verdicts = report.phases.iter().map(|phase| phase.verdict);
    verdicts.clone().any(is_cut) && verdicts.all(|verdict| verdict.is_clean() || is_cut(verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_what_stopped_it_only_where_nothing_else_did() {
        let report = |verdicts: &[&str]| -> Report {
            let phases: Vec<_> = verdicts
                .iter()
                .enumerate()
                .map(|(n, verdict)| {
                    serde_json::json!({ "id": n.to_string(), "verdict": verdict, "findings": [],
                                        "notes": [], "seconds": 0.0 })
                })
                .collect();
            serde_json::from_value(serde_json::json!({
                "schema": 1, "target": "drill", "verdict": "stopped", "phases": phases, "notes": [], "seconds": 0.0
            }))
            .unwrap()
        };
        for (verdicts, expected) in [
            (&["clean", "not-run"][..], true),
            (&["undecided"], true),
            (&["clean"], false),
            (&["not-run", "drifted"], false),
            (&["state-unexplained"], false),
        ] {
            assert_eq!(
                shows_only_a_cut(&report(verdicts)),
                expected,
                "{verdicts:?}"
            );
        }
    }
}

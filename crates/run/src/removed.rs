//! Steps that stand and that today's definitions do not hold any more: what stops, and what `--prune` tears down when.

use std::collections::{BTreeMap, BTreeSet};

use phase_engine::{ExitCode, Failure, PhaseId, Prune, Sequence, StepId};
use record::{Decision, DecisionKind, Record, Time};

use crate::api::PruneWhen;
use crate::guard;
use crate::world::TargetWorld;

/// Which step referred to which, as they were last applied.
pub(crate) type References = BTreeMap<StepId, BTreeSet<StepId>>;

/// Says when each removed step goes: after the last phase that referred to it, which is verified without it by then;
/// nothing referred to it, or `first`: before everything.
pub(crate) fn prunes(
    removed: &[StepId],
    references: &References,
    sequence: &Sequence,
    when: PruneWhen,
) -> Vec<Prune> {
    let place = |phase: &PhaseId| sequence.phases().iter().position(|p| p.id == *phase);
    let mut after: BTreeMap<&StepId, Option<usize>> =
        removed.iter().map(|step| (step, None)).collect();
    // What is removed and refers to something removed goes before it; each round goes one reference further.
    for _ in removed.iter().filter(|_| when == PruneWhen::After) {
        for step in removed {
            let by = references
                .iter()
                .filter(|(by, to)| *by != step && to.contains(step));
            let last = by
                .map(|(by, _)| match after.get(by) {
                    Some(after) => *after,
                    None => place(&by.phase),
                })
                .max()
                .flatten();
            after.insert(step, last);
        }
    }
    let phases = sequence.phases();
    let prune = |step: &StepId| Prune {
        step: step.clone(),
        after: after
            .get(step)
            .copied()
            .flatten()
            .map(|index| phases[index].id.clone()),
    };
    removed.iter().map(prune).collect()
}

/// The removed steps that this run has agreed to tear down before.
pub(crate) fn agreed_before(record: &Record) -> BTreeSet<StepId> {
    record
        .decisions
        .iter()
        .filter(|decision| decision.kind == DecisionKind::Prune)
        .filter_map(|decision| decision.about.as_ref()?.parse().ok())
        .collect()
}

/// Removed steps stop preflight, unless they are torn down. Gives how many did.
pub(crate) fn stop_on_removed(
    report: &mut preflight::Report,
    standing: &[StepId],
    sequence: &Sequence,
    pruned: bool,
) -> usize {
    let removed = phase_engine::removed(standing, sequence);
    let stopping = removed.iter().filter(|_| !pruned);
    for step in stopping.clone() {
        report.stop(format!(
            "step `{step}` stands, and today's definitions do not hold it: bring it back, or write \
             `moved_from = \"{step}\"` on the step that took its place, or tear it down with `--prune`"
        ));
    }
    stopping.count()
}

/// What goes on where removed steps stop.
pub(crate) fn ways_on(target: &str) -> String {
    format!(
        "nothing was changed. `rebuild up --target {target} --prune` tears the removed steps down once nothing refers \
         to them, `--prune=first` before everything"
    )
}

impl TargetWorld<'_, '_> {
    /// Which step referred to which when it was last applied, or last attempted, by their names of today.
    pub(crate) fn references(&self) -> Result<References, Failure> {
        let mut references = References::new();
        for entry in self.standing.all() {
            let to = references.entry(entry.step.clone()).or_default();
            to.extend(entry.contained_in.clone());
            for applied in entry.teardown_order() {
                let source = self.bench.library.get(&applied.bundle)?;
                let (_, def) = source.applied_step(&entry.step, applied)?;
                for step in def.refers_to() {
                    let now = self.standing.once_called(&step);
                    to.insert(now.map_or(step, |entry| entry.step));
                }
            }
        }
        Ok(references)
    }

    /// The plan guard for what is pruned: all of it is destroyed.
    pub(crate) fn guard_prune(&self, prunes: &[Prune]) -> Result<(), Failure> {
        let today = self.today()?;
        let removed = |phase: &&PhaseId| prunes.iter().any(|prune| prune.step.phase == **phase);
        let unknown = self
            .agreed
            .allow_destroy
            .iter()
            .find(|phase| today.platform.phase(phase).is_none() && !removed(phase));
        if let Some(phase) = unknown {
            return Err(Failure::new(
                ExitCode::Unusable,
                format!(
                    "`--allow-destroy {phase}` names no phase of this platform, and none that is pruned"
                ),
            ));
        }
        let bench = self.bench;
        for prune in prunes {
            let step = &prune.step;
            let mut addresses = self.addresses(step)?;
            if addresses.is_empty() {
                // What a program made has no address.
                addresses.push(step.to_string());
            }
            let lost: Vec<guard::Planned> = addresses
                .into_iter()
                .map(|address| guard::Planned {
                    address,
                    action: "delete".to_owned(),
                    tainted: false,
                })
                .collect();
            let as_applied = self.phase_sources.get(&step.phase);
            let rules = guard::Rules {
                protected: bench
                    .target
                    .protected
                    .then(|| bench.target.name.to_string()),
                max_destroy: as_applied
                    .and_then(|phase| phase.def())
                    .and_then(|phase| phase.max_destroy),
                allowed: self.agreed.allow_destroy.contains(&step.phase),
                replace: BTreeSet::new(),
            };
            let (why, addresses) = match guard::judge(&lost, &rules) {
                guard::Verdict::Pass => continue,
                guard::Verdict::Stop { why, addresses } => (why, addresses),
            };
            if bench.agree_to_destroy(step, &addresses) {
                continue;
            }
            return Err(Failure::new(
                ExitCode::Declined,
                format!("the plan guard stopped the teardown of removed step `{step}`"),
            )
            .because(why)
            .hint(format!(
                "nothing was changed; agree at a terminal, or add `--allow-destroy {}`",
                step.phase
            )));
        }
        Ok(())
    }

    /// That removed steps are torn down, as it is recorded.
    pub(crate) fn prune_decisions(&self, prunes: &[Prune]) -> Vec<Decision> {
        let decision = |prune: &Prune| Decision {
            kind: DecisionKind::Prune,
            at: Time::from((self.bench.machine.now)()),
            user: self.bench.machine.user.clone(),
            about: Some(prune.step.to_string()),
            reason: None,
        };
        prunes.iter().map(decision).collect()
    }
}

#[cfg(test)]
mod tests {
    use phase_engine::{Phase, StepShape};

    use super::*;

    fn step(id: &str) -> StepId {
        id.parse().unwrap()
    }

    fn sequence(steps: &[&str]) -> Sequence {
        let phases = steps.iter().map(|id| Phase {
            id: step(id).phase,
            canary: false,
            provides_state: false,
            parallel: false,
            steps: vec![StepShape {
                id: step(id),
                refers_to: BTreeSet::new(),
                contained_in: None,
            }],
        });
        Sequence::new(phases.collect()).unwrap()
    }

    fn due(removed: &[&str], references: &[(&str, &str)], when: PruneWhen) -> Vec<String> {
        let mut all = References::new();
        for (by, to) in references {
            all.entry(step(by)).or_default().insert(step(to));
        }
        let removed: Vec<StepId> = removed.iter().map(|id| step(id)).collect();
        let today = sequence(&["0.ground", "1.edge", "2.app"]);
        prunes(&removed, &all, &today, when)
            .iter()
            .map(|prune| match &prune.after {
                Some(after) => format!("{} after {after}", prune.step),
                None => format!("{} first", prune.step),
            })
            .collect()
    }

    #[test]
    fn a_removed_step_goes_after_the_last_phase_that_referred_to_it() {
        let references = [("1.edge", "1.old"), ("2.app", "1.old")];
        assert_eq!(
            due(&["1.old"], &references, PruneWhen::After),
            ["1.old after 2"]
        );
        assert_eq!(
            due(&["1.old"], &references, PruneWhen::First),
            ["1.old first"]
        );
        assert_eq!(due(&["1.old"], &[], PruneWhen::After), ["1.old first"]);
    }

    #[test]
    fn what_a_removed_step_needs_goes_after_it() {
        let references = [("1.mid", "1.low"), ("1.top", "1.mid"), ("1.edge", "1.top")];
        assert_eq!(
            due(&["1.low", "1.mid", "1.top"], &references, PruneWhen::After),
            ["1.low after 1", "1.mid after 1", "1.top after 1"]
        );
    }

    #[test]
    fn removed_steps_that_refer_to_each_other_only_go_first() {
        assert_eq!(
            due(&["1.low", "1.top"], &[("1.top", "1.low")], PruneWhen::After),
            ["1.low first", "1.top first"]
        );
    }
}

//! The target's world: what the engine's walks do to it, through OpenTofu and the platform's programs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use phase_engine::{
    ApplyHow, Basis, ExitCode, Failure, Forgetting, Notes, PhaseId, Preparation, ResidueResult,
    RunId, StepId, StepResult, TeardownResult, World,
};
use platform::{PhaseDef, WORKSPACE_PHASE};
use record::{Detail, StandingEntry};
use serde_json::Value;
use store::lock::Holder;

use crate::bench::Bench;
use crate::library::Source;
use crate::look::KeptPlan;
use crate::moved::Moves;
use crate::prepare_step::Prepared;
use crate::standing::Standing;
use crate::ui::{Doing, Notice};
use crate::upgrade::Upgrade;

/// Definitions to tear a step down with, and what stands of it; nothing where no record knows the step.
pub(crate) type TeardownSource = (Arc<Source>, Option<(StandingEntry, record::Applied)>);

/// A phase as it was applied.
#[derive(Clone)]
pub(crate) struct PhaseSource {
    /// The definitions.
    pub(crate) source: Arc<Source>,
    /// The target's values of then.
    pub(crate) values: BTreeMap<String, Value>,
    /// What the definitions call the phase: another name, where its steps were moved since.
    pub(crate) called: PhaseId,
}

impl PhaseSource {
    /// What a step of the phase was applied from.
    pub(crate) fn of(source: Arc<Source>, step: &StepId, applied: &record::Applied) -> Self {
        Self {
            source,
            values: applied.target.clone(),
            called: applied.called(step).phase.clone(),
        }
    }

    /// What the definitions say of the phase.
    pub(crate) fn def(&self) -> Option<&PhaseDef> {
        self.source.platform.phase(&self.called)
    }
}

/// What a call drives.
pub(crate) struct TargetWorld<'b, 'm> {
    /// What every step works with.
    pub(crate) bench: &'b Bench<'m>,
    /// Today's definitions; none where `rebuild.toml` has faults and only `down` can go on.
    pub(crate) today: Option<Arc<Source>>,
    /// What stands.
    pub(crate) standing: Standing,
    /// For each phase, the definitions that it was last applied from and the target's values of then, as they
    /// were when the call began: a teardown proves with these after the last step is gone.
    pub(crate) phase_sources: BTreeMap<PhaseId, PhaseSource>,
    /// Plans that preflight made of steps as they were applied.
    pub(crate) plans: Mutex<BTreeMap<StepId, KeptPlan>>,
    /// How often this call has changed something: a plan from before says nothing of what comes after.
    pub(crate) n_changes: AtomicU64,
    /// Steps whose plan in this call showed that nothing was to do, and what had been changed when it was made.
    pub(crate) proven: Mutex<BTreeMap<StepId, u64>>,
    /// What was agreed to before the call.
    pub(crate) agreed: Agreed,
    /// Steps that are about to take the place of one that stands.
    pub(crate) moves: Moves,
    /// Steps whose teardown an earlier call began and did not see to its end.
    pub(crate) cut_teardowns: BTreeSet<StepId>,
    /// The run that this call begins or goes on with.
    pub(crate) run: RunId,
    /// What `up --upgrade` takes in the place of what is recorded.
    pub(crate) upgrade: Option<Upgrade>,
    /// How many steps are looked at at once.
    pub(crate) jobs: usize,
    /// The phase that was last told to be worked on, and what is done to it.
    pub(crate) heading: Mutex<Option<(PhaseId, Doing)>>,
}

/// What a person agreed to by flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agreed {
    /// Phases whose plans may destroy.
    pub(crate) allow_destroy: BTreeSet<PhaseId>,
    /// Addresses that may be replaced.
    pub(crate) replace: BTreeSet<String>,
    /// Addresses whose mark for replacement is taken off.
    pub(crate) keep: BTreeSet<String>,
}

impl TargetWorld<'_, '_> {
    /// Today's definitions.
    pub(crate) fn today(&self) -> Result<&Arc<Source>, Failure> {
        self.today
            .as_ref()
            .ok_or_else(|| Failure::new(ExitCode::Unusable, "today's definitions can't be read"))
    }

    /// What stands of a step, or of the one whose place it is about to take.
    pub(crate) fn standing_for(&self, step: &StepId) -> Option<StandingEntry> {
        let from = self.moves.get(step).unwrap_or(step);
        self.standing.get(step).or_else(|| self.standing.get(from))
    }

    /// Tells that something is done to a step, does it, and tells how it ended.
    pub(crate) fn told<T>(
        &self,
        step: &StepId,
        doing: Doing,
        act: impl FnOnce() -> T,
        judged: impl FnOnce(&T) -> (bool, String),
    ) -> T {
        let ui = &self.bench.ui;
        self.tell_phase(&step.phase, doing);
        ui.tell(&Notice::Step {
            step: step.to_string(),
            doing,
        });
        let started = Instant::now();
        let result = act();
        let (ok, summary) = judged(&result);
        ui.tell(&Notice::StepEnded {
            step: step.to_string(),
            doing,
            ok,
            summary,
            seconds: started.elapsed().as_secs_f64(),
        });
        result
    }

    /// Tells that work on a phase begins, once for all of its steps.
    fn tell_phase(&self, phase: &PhaseId, doing: Doing) {
        // A workspace is no phase: its job tells what is done.
        if phase.as_str() == WORKSPACE_PHASE {
            return;
        }
        let mut heading = self.heading.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Some((phase.clone(), doing));
        if *heading == now {
            return;
        }
        *heading = now;
        let as_applied = self.phase_sources.get(phase).and_then(PhaseSource::def);
        let today = self
            .today
            .as_ref()
            .and_then(|source| source.platform.phase(phase));
        let title = as_applied
            .filter(|_| doing != Doing::Apply)
            .or(today)
            .map(|phase| phase.title.clone())
            .unwrap_or_default();
        self.bench.ui.tell(&Notice::Phase {
            phase: phase.to_string(),
            title,
            doing,
        });
    }

    /// Who takes the lock of another store of this target.
    fn holder(&self) -> Holder {
        Holder {
            run: Some(self.run.to_string()),
            ..self.bench.holder.clone()
        }
    }

    fn tell_moved(&self, moved: Option<(String, String)>) {
        if let Some((from, to)) = moved {
            self.bench.ui.tell(&Notice::StoreMoved { from, to });
        }
    }

    /// The definitions of a phase and its values, for what is asked of it on this basis.
    fn phase_source(&self, phase: &PhaseId, basis: Basis) -> Result<PhaseSource, Failure> {
        let entry = self.standing.of_phase(phase).into_iter().next_back();
        let applied = entry.as_ref().and_then(|entry| {
            let applied = match basis {
                Basis::JustApplied => &entry.applied,
                Basis::Standing => entry.as_applied()?,
            };
            Some((&entry.step, applied))
        });
        match applied {
            Some((step, applied)) => {
                let source = self.bench.library.get(&applied.bundle)?;
                Ok(PhaseSource::of(source, step, applied))
            }
            None => Ok(PhaseSource {
                source: Arc::clone(self.today()?),
                values: self.bench.target.values.clone(),
                called: phase.clone(),
            }),
        }
    }

    pub(crate) fn kept_plan(&self, step: &StepId) -> Option<KeptPlan> {
        self.plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(step)
    }

    /// Something is about to change, after which a plan from before proves nothing.
    pub(crate) fn set_changed(&self) {
        self.n_changes.fetch_add(1, Ordering::SeqCst);
    }

    /// How often something was changed so far.
    pub(crate) fn n_changes(&self) -> u64 {
        self.n_changes.load(Ordering::SeqCst)
    }

    /// A plan that was made when `seen` changes had been made showed that nothing was to do.
    pub(crate) fn set_proven(&self, step: &StepId, seen: u64) {
        self.proven
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(step.clone(), seen);
    }

    fn is_proven(&self, step: &StepId) -> bool {
        let proven = self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        proven.get(step) == Some(&self.n_changes())
    }

    /// The definitions to tear a step down with, the one last attempted first; today's where nothing is recorded.
    pub(crate) fn teardown_sources(&self, step: &StepId) -> Result<Vec<TeardownSource>, Failure> {
        let Some(entry) = self.standing.get(step) else {
            let today = self.today()?;
            today.step(step).map_err(|_| {
                Failure::failed(format!(
                    "nothing says what step `{step}` is: neither the record nor today's definitions"
                ))
                .hint("bring back the definitions that made it, then run `rebuild down` again")
            })?;
            return Ok(vec![(Arc::clone(today), None)]);
        };
        entry
            .teardown_order()
            .map(|applied| {
                Ok((
                    self.bench.library.get(&applied.bundle)?,
                    Some((entry.clone(), applied.clone())),
                ))
            })
            .collect()
    }
}

/// The result of an act, as the operator hears of it.
pub(crate) fn judged<D>(result: &StepResult<D>) -> (bool, String) {
    match &result.end {
        Ok(()) => (true, String::new()),
        Err(failure) => (false, failure.what.clone()),
    }
}

impl World for TargetWorld<'_, '_> {
    type Plan = Prepared;
    type Detail = Detail;

    fn definition(&self, step: &StepId) -> Result<String, Failure> {
        Ok(self.resolved(step)?.definition)
    }

    fn prepare(
        &self,
        step: &StepId,
        how: ApplyHow,
        notes: &dyn Notes<Detail>,
    ) -> Preparation<Prepared, Detail> {
        let prepared = self
            .prepare_step(step, how, notes)
            .unwrap_or_else(Preparation::NotReady);
        self.bench.masked_preparation(prepared)
    }

    fn apply(
        &self,
        step: &StepId,
        plan: Prepared,
        notes: &dyn Notes<Detail>,
    ) -> StepResult<Detail> {
        let act = || {
            let (result, summary) = self.apply_step(step, plan, notes);
            (self.bench.masked_result(result), summary)
        };
        self.told(
            step,
            Doing::Apply,
            act,
            |(result, summary): &(StepResult<Detail>, String)| match &result.end {
                Ok(()) => (true, summary.clone()),
                Err(failure) => (false, failure.what.clone()),
            },
        )
        .0
    }

    fn verify(&self, step: &StepId, basis: Basis, notes: &dyn Notes<Detail>) -> StepResult<Detail> {
        if basis == Basis::JustApplied && self.is_proven(step) {
            // The plan that showed that nothing was to do is the proof, as long as nothing changed since.
            return StepResult::well(None);
        }
        self.told(
            step,
            Doing::Verify,
            || {
                let result = self.verify_step(step, basis, notes);
                self.bench.masked_result(result)
            },
            judged,
        )
    }

    fn has_checks(&self, phase: &PhaseId, basis: Basis) -> bool {
        !self
            .phase_source(phase, basis)
            .is_ok_and(|source| source.def().is_none_or(|def| def.checks.is_empty()))
    }

    fn check(&self, phase: &PhaseId, basis: Basis) -> Result<(), Failure> {
        let as_applied = self.phase_source(phase, basis)?;
        let Some(def) = as_applied.def() else {
            return Ok(());
        };
        for check in &def.checks {
            self.bench
                .need_outputs(check.kind.exprs(), &self.standing)?;
            let asked = self
                .bench
                .ask(
                    &as_applied.source,
                    def,
                    check,
                    &as_applied.values,
                    basis == Basis::JustApplied,
                )
                .map_err(|failure| self.bench.masked_failure(failure));
            self.bench.ui.tell(&Notice::Check {
                phase: phase.to_string(),
                check: check.name.clone(),
                failure: asked.as_ref().err().map(|failure| failure.what.clone()),
            });
            if let Err(mut failure) = asked {
                if basis == Basis::Standing {
                    let target = self.bench.target.name.as_str();
                    failure.hint = Some(crate::mend::ways_on(phase.as_str(), target));
                }
                return Err(failure);
            }
        }
        Ok(())
    }

    fn preflight(&self, not_reached: &[PhaseId]) -> Result<(), Failure> {
        let report = self.look_at_standing(Some(not_reached))?;
        self.tell_report(&report);
        if report.passes() {
            return Ok(());
        }
        if let Some(interrupted) = self.cut_short(&report) {
            return Err(interrupted);
        }
        Err(Failure::new(
            ExitCode::Stopped,
            "preflight stopped it: phases that stand from earlier runs are not as applied",
        ))
    }

    fn store_made(&self, _: &PhaseId) -> Result<(), Failure> {
        let bench = self.bench;
        let moved = bench.storage.made(&bench.locks, self.holder())?;
        self.tell_moved(moved);
        Ok(())
    }

    fn store_going(&self, phase: &PhaseId) -> Result<(), Failure> {
        let as_applied = self.phase_sources.get(phase).and_then(PhaseSource::def);
        let today = self.today.as_ref();
        let today = today.and_then(|today| today.platform.phase(phase));
        let provides = as_applied
            .into_iter()
            .chain(today)
            .any(|def| def.provides_state);
        if !provides {
            return Ok(());
        }
        let bench = self.bench;
        let moved = bench.storage.going(&bench.locks, self.holder())?;
        self.tell_moved(moved);
        Ok(())
    }

    fn teardown(&self, step: &StepId, notes: &dyn Notes<Detail>) -> TeardownResult<Detail> {
        self.told(
            step,
            Doing::Teardown,
            || self.bench.masked_teardown(self.teardown_step(step, notes)),
            |result| match result {
                TeardownResult::Gone { .. } => (true, "gone".to_owned()),
                TeardownResult::Empty => (true, "nothing there".to_owned()),
                TeardownResult::Failed { failure, .. } => (false, failure.what.clone()),
            },
        )
    }

    fn has_probes(&self, phase: &PhaseId) -> bool {
        self.n_probes(phase) > 0
    }

    fn residue(&self, phase: &PhaseId, deferred: &[StepId]) -> ResidueResult {
        let result = self
            .residue_of(phase, deferred)
            .unwrap_or_else(ResidueResult::Left);
        let result = self.bench.masked_residue(result);
        if matches!(result, ResidueResult::Clean) {
            self.bench.ui.tell(&Notice::TornDown {
                phase: phase.to_string(),
                n_probes: self.n_probes(phase),
            });
        }
        result
    }

    fn forget(&self, step: &StepId, why: Forgetting) -> Result<Option<Detail>, Failure> {
        let kept = self
            .forget_step(step, why)
            .map(|detail| detail.map(|detail| self.bench.masked_detail(detail)))
            .map_err(|failure| self.bench.masked_failure(failure))?;
        let n = kept.as_ref().map_or(0, |kept| kept.forgotten.len());
        self.bench.ui.tell(&Notice::Warning {
            message: format!(
                "step `{step}` is forgotten, nothing of it was destroyed; the record keeps {n} {}",
                if n == 1 { "address" } else { "addresses" }
            ),
            hint: None,
        });
        Ok(kept)
    }

    fn holding(&self) -> Result<Vec<StepId>, Failure> {
        // A key under `state/` always means that something stands.
        self.bench.stated()
    }
}

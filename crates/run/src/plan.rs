//! `plan`: what `up` would change, phase by phase. Nothing is mocked: what depends on something that is not applied
//! yet waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phase_engine::{ExitCode, Failure, PhaseId, StepId};
use platform::{StepDef, StepKind};
use record::CallCommand;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tofu::{Outcome, PlanMode, PlanOptions, Slot};

use crate::api::{Machine, Site};
use crate::error::{CallError, unusable};
use crate::moved;
use crate::open::{Held, OnFaults, Opened};
use crate::prepare_step::does_nothing;
use crate::standing::Standing;
use crate::stop::StopRequests;
use crate::tofu_work::tofu_failure;
use crate::ui::Ui;
use crate::world::TargetWorld;

/// What an `up` would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanReport {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The worst of its phases.
    pub verdict: PlanVerdict,
    /// The phases, in order.
    pub phases: Vec<PhasePlan>,
    /// Steps that stand and that today's definitions do not hold: they stop `up`.
    pub removed: Vec<String>,
    /// Steps that take the place of one that stands, with its state.
    #[serde(default)]
    pub moved: Vec<MovedShown>,
}

/// One step that takes the place of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedShown {
    /// The step that stands.
    pub from: String,
    /// The step that takes its place.
    pub to: String,
}

/// What a plan comes to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PlanVerdict {
    /// Nothing would change.
    Unchanged,
    /// Something would change.
    Changes,
    /// It depends on something that is not applied yet.
    Waits,
    /// It can't be planned.
    Failed,
}

/// What would change in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhasePlan {
    /// The phase.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The worst of its steps.
    pub verdict: PlanVerdict,
    /// The phases that it waits for.
    pub waits_for: Vec<String>,
    /// Its steps, in order.
    pub steps: Vec<StepPlan>,
}

/// What would change in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepPlan {
    /// The step.
    pub step: String,
    /// Its kind.
    pub kind: String,
    /// What its plan comes to.
    pub verdict: PlanVerdict,
    /// The steps that it waits for.
    pub waits_for: Vec<String>,
    /// How many resources of each action.
    pub counts: BTreeMap<String, u64>,
    /// What would be destroyed or replaced.
    pub lost: Vec<ChangeShown>,
    /// What else would change.
    pub changes: Vec<ChangeShown>,
    /// What is not as it was last applied, apart from what would change.
    pub drift: Vec<ChangeShown>,
    /// Outputs that would change.
    pub outputs: Vec<String>,
    /// Why it can't be planned.
    pub error: Option<String>,
}

/// One change of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeShown {
    /// The resource.
    pub address: String,
    /// OpenTofu's word: `create`, `update`, `replace`, `delete`, …
    pub action: String,
    /// Why, where OpenTofu says it: `tainted` for one.
    pub reason: String,
}

/// Says what an `up` would change, and changes nothing.
///
/// # Errors
/// As `up`, before its first step.
pub fn plan(
    machine: &Machine,
    site: &Site,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<PlanReport, CallError> {
    let opened = Opened::open(machine, site, stop, ui, OnFaults::Stop)?;
    let held = opened.hold("plan", None)?;
    let report = planned(&held);
    held.release();
    report.map_err(CallError::from)
}

fn planned(held: &Held<'_>) -> Result<PlanReport, Failure> {
    let mut inner = held.ledger(CallCommand::Up)?;
    held.settle_leftovers(&mut inner)?;
    let history = inner.history();
    let mut world = held.world(Standing(inner.view()), held.run.clone(), 0)?;
    let today = Arc::clone(world.today()?);
    world.moves = moved::moves(&today.platform, &history)?;
    for (to, from) in &world.moves {
        held.bench.outputs.take_place(to, from);
    }
    world.prepare_all()?;
    let sequence = today
        .platform
        .sequence()
        .map_err(|error| unusable(&error))?;
    let mut unsettled: BTreeSet<StepId> = BTreeSet::new();
    let mut phases = Vec::new();
    for phase in &today.platform.phases {
        let mut steps = Vec::new();
        for def in &phase.steps {
            let step = world.plan_of(def, &unsettled);
            if step.verdict != PlanVerdict::Unchanged {
                unsettled.insert(def.id.clone());
            }
            steps.push(step);
        }
        phases.push(phase_of(&phase.id, &phase.title, steps));
    }
    let standing = moved::after(&world.moves, &history.standing);
    let removed = phase_engine::removed(&standing, &sequence);
    let moved = world.moves.iter().map(|(to, from)| MovedShown {
        from: from.to_string(),
        to: to.to_string(),
    });
    Ok(PlanReport {
        schema: 1,
        target: held.bench.target.name.to_string(),
        verdict: worst(phases.iter().map(|phase| phase.verdict)),
        phases,
        removed: removed.iter().map(ToString::to_string).collect(),
        moved: moved.collect(),
    })
}

impl PlanReport {
    /// What the process ends with: a phase that can't be planned fails; changes are told apart on demand.
    #[must_use]
    pub fn exit(&self, detailed: bool) -> ExitCode {
        let changes = self.verdict != PlanVerdict::Unchanged
            || !self.removed.is_empty()
            || !self.moved.is_empty();
        match self.verdict {
            PlanVerdict::Failed => ExitCode::Failed,
            _ if detailed && changes => ExitCode::Changes,
            _ => ExitCode::Done,
        }
    }
}

fn phase_of(id: &PhaseId, title: &str, steps: Vec<StepPlan>) -> PhasePlan {
    let own = |step: &String| step.starts_with(&format!("{id}."));
    let waits_for: BTreeSet<String> = steps
        .iter()
        .flat_map(|step| &step.waits_for)
        .filter(|step| !own(step))
        .filter_map(|step| step.split_once('.').map(|(phase, _)| phase.to_owned()))
        .collect();
    PhasePlan {
        id: id.to_string(),
        title: title.to_owned(),
        verdict: worst(steps.iter().map(|step| step.verdict)),
        waits_for: waits_for.into_iter().collect(),
        steps,
    }
}

fn worst(verdicts: impl Iterator<Item = PlanVerdict>) -> PlanVerdict {
    verdicts.max().unwrap_or(PlanVerdict::Unchanged)
}

impl TargetWorld<'_, '_> {
    /// Plans one step, unless something that it refers to is not settled yet.
    fn plan_of(&self, def: &StepDef, unsettled: &BTreeSet<StepId>) -> StepPlan {
        let mut plan = StepPlan {
            step: def.id.to_string(),
            kind: def.kind.word().to_owned(),
            verdict: PlanVerdict::Unchanged,
            waits_for: def
                .refers_to()
                .intersection(unsettled)
                .map(ToString::to_string)
                .collect(),
            counts: BTreeMap::new(),
            lost: Vec::new(),
            changes: Vec::new(),
            drift: Vec::new(),
            outputs: Vec::new(),
            error: None,
        };
        if !plan.waits_for.is_empty() {
            plan.verdict = PlanVerdict::Waits;
            return plan;
        }
        if let Err(failure) = self.fill_plan(def, &mut plan) {
            plan.verdict = PlanVerdict::Failed;
            plan.error = Some(self.bench.masked(&failure.one_line()));
        }
        plan
    }

    fn fill_plan(&self, def: &StepDef, plan: &mut StepPlan) -> Result<(), Failure> {
        let resolved = self.resolved(&def.id)?;
        let tofu = match &def.kind {
            StepKind::Exec(_) | StepKind::Talos(_) | StepKind::Ssh(_) | StepKind::Ansible(_) => {
                let same = self.standing.get(&def.id).is_some_and(|entry| {
                    !entry.applied.attempted && entry.applied.definition == resolved.definition
                });
                if !same {
                    plan.verdict = PlanVerdict::Changes;
                }
                return Ok(());
            }
            StepKind::Tofu(tofu) => tofu,
        };
        let session = self.session_today(&def.id, &resolved, def, tofu, Slot::Tree)?;
        let made = session
            .plan(PlanMode::Normal, &PlanOptions::default())
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        if !does_nothing(&made) {
            plan.verdict = PlanVerdict::Changes;
        }
        show(&made.outcome, plan);
        Ok(())
    }
}

/// What a plan's events say.
fn show(outcome: &Outcome, plan: &mut StepPlan) {
    for change in outcome.real_changes() {
        let shown = ChangeShown {
            address: change.address().to_owned(),
            action: change.action.as_str().to_owned(),
            reason: change.reason.clone(),
        };
        *plan.counts.entry(shown.action.clone()).or_default() += 1;
        if matches!(shown.action.as_str(), "delete" | "replace") {
            plan.lost.push(shown);
        } else {
            plan.changes.push(shown);
        }
    }
    plan.drift = outcome
        .drift
        .iter()
        .map(|change| ChangeShown {
            address: change.address().to_owned(),
            action: change.action.as_str().to_owned(),
            reason: change.reason.clone(),
        })
        .collect();
    plan.outputs = outcome
        .outputs
        .iter()
        .filter(|(_, output)| {
            output
                .action
                .as_ref()
                .is_some_and(|action| action.as_str() != "noop")
        })
        .map(|(name, _)| name.clone())
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: &[PlanVerdict]) -> PlanReport {
        let phases: Vec<PhasePlan> = verdicts
            .iter()
            .map(|verdict| PhasePlan {
                id: "1".to_owned(),
                title: String::new(),
                verdict: *verdict,
                waits_for: Vec::new(),
                steps: Vec::new(),
            })
            .collect();
        PlanReport {
            schema: 1,
            target: "drill".to_owned(),
            verdict: worst(verdicts.iter().copied()),
            phases,
            removed: Vec::new(),
            moved: Vec::new(),
        }
    }

    #[test]
    fn a_phase_that_cannot_be_planned_is_a_failure_whatever_the_others_say() {
        use PlanVerdict as V;
        for (verdicts, plain, detailed) in [
            (vec![V::Unchanged], ExitCode::Done, ExitCode::Done),
            (
                vec![V::Changes, V::Unchanged],
                ExitCode::Done,
                ExitCode::Changes,
            ),
            (
                vec![V::Unchanged, V::Waits],
                ExitCode::Done,
                ExitCode::Changes,
            ),
            (
                vec![V::Failed, V::Changes],
                ExitCode::Failed,
                ExitCode::Failed,
            ),
        ] {
            let report = report(&verdicts);
            assert_eq!(report.exit(false), plain, "{verdicts:?}");
            assert_eq!(report.exit(true), detailed, "{verdicts:?}");
        }
    }

    #[test]
    fn a_removed_step_is_a_change() {
        let mut report = report(&[PlanVerdict::Unchanged]);
        report.removed.push("1.gone".to_owned());
        assert_eq!(report.exit(true), ExitCode::Changes);
    }

    #[test]
    fn a_phase_names_the_phases_it_waits_for_and_not_itself() {
        let step = |waits_for: &[&str]| StepPlan {
            step: "1a.x".to_owned(),
            kind: "tofu".to_owned(),
            verdict: PlanVerdict::Waits,
            waits_for: waits_for.iter().map(|step| (*step).to_owned()).collect(),
            counts: BTreeMap::new(),
            lost: Vec::new(),
            changes: Vec::new(),
            drift: Vec::new(),
            outputs: Vec::new(),
            error: None,
        };
        let id = PhaseId::new("1a").unwrap();
        let phase = phase_of(&id, "", vec![step(&["0.a", "1a.y"]), step(&["0.b"])]);
        assert_eq!(phase.waits_for, ["0"]);
        assert_eq!(phase.verdict, PlanVerdict::Waits);
    }
}

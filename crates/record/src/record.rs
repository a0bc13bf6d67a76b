//! The record of one run.

use phase_engine::{
    History, PhaseId, RunId, RunStatus, StepHistory, StepId, TargetName, Teardown, VerifiedPhase,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    CallRecord, Decision, ErrorRecord, PhaseRecord, PhaseStatus, Schema, Seen, StandingEntry,
    StepRecord, Suspect, Time,
};

/// What is kept of a run: `run/<run id>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// The version of this format.
    pub schema: Schema,
    /// The fencing number of the lock under which it was written.
    pub fence: u64,
    /// The run.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub run: RunId,
    /// The run before it, where there is one.
    #[serde(with = "crate::words::maybe", default)]
    #[schemars(with = "Option<String>")]
    pub previous: Option<RunId>,
    /// The platform's name.
    pub platform: String,
    /// The target.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub target: TargetName,
    /// Where the run is.
    #[serde(with = "crate::words::run_status")]
    #[schemars(schema_with = "crate::words::run_status::schema")]
    pub status: RunStatus,
    /// When every phase was verified. Kept when the run is torn down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
    /// When the teardown began: from then on only `down` goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown_began: Option<Time>,
    /// When the first call started.
    pub first_start: Time,
    /// When a phase was last verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verify: Option<Time>,
    /// From the first call's start to the last verify, in seconds, whatever was in between.
    #[serde(default)]
    pub total_seconds: f64,
    /// The platform's `time_budget`, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_seconds: Option<f64>,
    /// The run took longer than its budget.
    #[serde(default)]
    pub over_budget: bool,
    /// The calls, in order.
    pub calls: Vec<CallRecord>,
    /// The phases: those that the run has verified in the order in which it did, then the others.
    pub phases: Vec<PhaseRecord>,
    /// The ledger: every step that the run has come to.
    pub steps: Vec<StepRecord>,
    /// Every step that is applied and not torn down, by whatever run, in order of application.
    pub standing: Vec<StandingEntry>,
    /// Objects that may exist in no state.
    #[serde(default)]
    pub suspects: Vec<Suspect>,
    /// What the last `rebuild preflight` saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// What persons decided.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// Why the last call did not end well.
    #[serde(default)]
    pub error: Option<ErrorRecord>,
    /// What another program of the same schema version wrote and this one does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Record {
    /// Gives the run's history, as the engine needs it.
    pub fn history(&self) -> History {
        let steps = self.steps.iter().map(|step| {
            let definition = step.definition.clone();
            (
                step.step.clone(),
                StepHistory {
                    status: step.status,
                    definition,
                },
            )
        });
        let verified = self.phases.iter().filter(|phase| phase.verified.is_some());
        let mut unproven: Vec<&PhaseRecord> = self
            .phases
            .iter()
            .filter(|phase| phase.status.is_unproven())
            .collect();
        // The list is in order of application, a teardown goes backward.
        unproven.reverse();
        unproven.sort_by_key(|phase| phase.teardown_began);
        History {
            status: Some(self.status),
            teardown_begun: self.teardown_began.is_some(),
            steps: steps.collect(),
            verified: verified
                .map(|phase| VerifiedPhase {
                    phase: phase.id.clone(),
                    steps: phase.steps.clone(),
                })
                .collect(),
            standing: self
                .standing
                .iter()
                .map(|entry| entry.step.clone())
                .collect(),
            unproven: unproven.into_iter().map(|phase| phase.id.clone()).collect(),
        }
    }

    /// Gives what `down` has to do, as far as the record knows. The caller adds unknown states, the
    /// phase that goes last and what is to be forgotten.
    pub fn teardown(&self) -> Teardown {
        Teardown::of(&self.history(), |step| {
            self.standing_of(step)?.contained_in.clone()
        })
    }

    /// Finds a phase.
    pub fn phase(&self, id: &PhaseId) -> Option<&PhaseRecord> {
        self.phases.iter().find(|phase| phase.id == *id)
    }

    /// Finds a step's place in the ledger.
    pub fn step(&self, id: &StepId) -> Option<&StepRecord> {
        self.steps.iter().find(|step| step.step == *id)
    }

    /// Finds what stands of a step.
    pub fn standing_of(&self, id: &StepId) -> Option<&StandingEntry> {
        self.standing.iter().find(|entry| entry.step == *id)
    }

    /// Finds what stands of a step by today's name of it, or by one that it had before and that nothing else has
    /// taken since.
    pub fn standing_once_called(&self, id: &StepId) -> Option<&StandingEntry> {
        let by_former = || {
            self.standing
                .iter()
                .find(|entry| entry.formerly.contains(id))
        };
        self.standing_of(id).or_else(by_former)
    }

    /// Begins to move what stands of a step to another name. Where nothing stands of it, nothing changes.
    pub fn begin_move(&mut self, from: &StepId, to: &StepId) {
        let entry = self.standing.iter_mut().find(|entry| entry.step == *from);
        if let Some(entry) = entry {
            entry.moving_to = Some(to.clone());
        }
    }

    /// Gives what stands of a step its new name, wherever the record refers to it.
    pub fn end_move(&mut self, from: &StepId, to: &StepId) {
        for entry in &mut self.standing {
            if entry.step == *from {
                entry.rename(to);
            }
            if entry.contained_in.as_ref() == Some(from) {
                entry.contained_in = Some(to.clone());
            }
        }
        for suspect in &mut self.suspects {
            if suspect.step == *from {
                suspect.step = to.clone();
            }
        }
        // What this run has done of it so far was done of the step that stands now.
        let is_taken = self.steps.iter().any(|step| step.step == *to);
        for step in self
            .steps
            .iter_mut()
            .filter(|step| step.step == *from && !is_taken)
        {
            step.step = to.clone();
        }
    }

    /// Says whether the run came to be finished at some time and every phase was applied from the
    /// bundle: what a required drill asks for.
    pub fn proves(&self, bundle: &str) -> bool {
        let from_it = |phase: &PhaseRecord| {
            phase.verified.is_none() || phase.bundle.as_deref() == Some(bundle)
        };
        let some = self.phases.iter().any(|phase| phase.verified.is_some());
        self.finished.is_some() && some && self.phases.iter().all(from_it)
    }

    /// Notes that the last call was cut: it is proven dead and told no end. Says whether anything changed.
    ///
    /// Steps that had begun stay `started`: that is how the next call knows which were cut.
    pub fn cut(&mut self) -> bool {
        if self.status != RunStatus::Running {
            return false;
        }
        self.status = RunStatus::Interrupted;
        for phase in &mut self.phases {
            if matches!(phase.status, PhaseStatus::Applying | PhaseStatus::Verifying) {
                phase.status = PhaseStatus::Interrupted;
            }
        }
        true
    }

    /// Gives the seconds of the budget that are left at `now`; negative where it is used up.
    pub fn budget_left(&self, now: Time) -> Option<f64> {
        Some(crate::time::rounded(
            self.budget_seconds? - now.seconds_since(self.first_start),
        ))
    }
}

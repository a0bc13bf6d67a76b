//! What the ledger says so far, as the engine needs it; each entry moves it on.

use std::collections::BTreeMap;

use crate::{
    Basis, Entry, IllegalEvent, PhaseId, RunStatus, Sequence, StepEvent, StepId, StepStatus,
};

/// What this run's ledger says of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepHistory {
    /// The status that follows from what is stored.
    pub status: StepStatus,
    /// The digest of the definitions that its last apply of this run began with.
    pub definition: Option<String>,
}

/// A phase that this run has verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedPhase {
    /// The phase.
    pub phase: PhaseId,
    /// Its steps as they were defined then, in order.
    pub steps: Vec<StepId>,
}

/// What the ledger says so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The status of the run, where there is one.
    pub status: Option<RunStatus>,
    /// A teardown of this run has begun.
    pub teardown_begun: bool,
    /// The steps that this run has come to.
    pub steps: BTreeMap<StepId, StepHistory>,
    /// The phases that this run has verified, in the order in which it did.
    pub verified: Vec<VerifiedPhase>,
    /// Every step that is applied and not torn down, by whatever run, in order of application.
    pub standing: Vec<StepId>,
    /// Phases whose teardown has begun and that are not proven gone, in the order in which it did.
    pub unproven: Vec<PhaseId>,
}

impl History {
    /// Gives what a new run starts from: it inherits what stands and nothing else.
    pub fn of_new_run(standing: Vec<StepId>) -> Self {
        Self {
            standing,
            ..Self::default()
        }
    }

    /// Gives a step's status in this run.
    pub fn status_of(&self, step: &StepId) -> StepStatus {
        self.steps
            .get(step)
            .map_or(StepStatus::Pending, |history| history.status)
    }

    /// Gives the digest of the definitions that this run last began to apply the step with.
    pub fn definition_of(&self, step: &StepId) -> Option<&str> {
        self.steps.get(step)?.definition.as_deref()
    }

    /// Says whether this run has verified the phase.
    pub fn is_verified(&self, phase: &PhaseId) -> bool {
        self.verified
            .iter()
            .any(|verified| verified.phase == *phase)
    }

    /// Moves on by one entry. `sequence` is today's; it places a step among those that stand.
    pub fn absorb<D>(&mut self, entry: &Entry<D>, sequence: &Sequence) -> Result<(), IllegalEvent> {
        match entry {
            Entry::CallBegan { .. } => self.status = Some(RunStatus::Running),
            Entry::Step {
                step,
                event,
                definition,
                ..
            } => {
                let status = self.status_of(step).after(*event)?;
                let history = self.steps.entry(step.clone()).or_insert(StepHistory {
                    status,
                    definition: None,
                });
                history.status = status;
                match event {
                    StepEvent::Started => {
                        history.definition.clone_from(definition);
                        place(&mut self.standing, step, sequence);
                    }
                    StepEvent::TornDown | StepEvent::Forgotten => {
                        self.standing.retain(|standing| standing != step);
                    }
                    _ => {}
                }
            }
            Entry::PhaseVerified {
                phase,
                basis: Basis::JustApplied,
                steps,
            } => {
                self.verified.retain(|verified| verified.phase != *phase);
                self.verified.push(VerifiedPhase {
                    phase: phase.clone(),
                    steps: steps.clone(),
                });
            }
            Entry::TeardownBegan => self.teardown_begun = true,
            Entry::PhaseTearingDown { phase } => {
                if !self.unproven.contains(phase) {
                    self.unproven.push(phase.clone());
                }
            }
            Entry::PhaseGone { phase, .. } => self.unproven.retain(|unproven| unproven != phase),
            Entry::CallEnded { status, .. } => self.status = Some(*status),
            Entry::PhaseApplying { .. }
            | Entry::Note { .. }
            | Entry::PhaseVerifying { .. }
            | Entry::PhaseVerified {
                basis: Basis::Standing,
                ..
            }
            | Entry::PhaseStopped { .. }
            | Entry::Checkpoint { .. }
            | Entry::PhaseTeardownFailed { .. } => {}
        }
        Ok(())
    }
}

/// Gives a step whose apply starts its place among the steps that stand, so that the reverse of
/// the list is an order to tear down in.
///
/// A step that stands already keeps its place where that agrees with today's sequence: what was
/// applied on top of it by an earlier run still stands on it. Otherwise, and when it is new, it
/// goes before the first standing step that today comes after it. Returns the place.
pub fn place(standing: &mut Vec<StepId>, step: &StepId, sequence: &Sequence) -> usize {
    let own = sequence.position(step);
    let comes_after = |other: &StepId| match (own, sequence.position(other)) {
        (Some(own), Some(other)) => other > own,
        _ => false,
    };
    let comes_before = |other: &StepId| match (own, sequence.position(other)) {
        (Some(own), Some(other)) => other < own,
        _ => false,
    };
    if let Some(at) = standing.iter().position(|other| other == step) {
        let fits =
            !standing[..at].iter().any(comes_after) && !standing[at..].iter().any(comes_before);
        if fits {
            return at;
        }
        standing.remove(at);
    }
    let at = standing
        .iter()
        .position(comes_after)
        .unwrap_or(standing.len());
    standing.insert(at, step.clone());
    at
}

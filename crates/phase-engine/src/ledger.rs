//! What is stored of a run, entry by entry, before and after each act.

use std::error::Error;

use crate::{
    Answer, Basis, ExitCode, Failure, PhaseFailure, PhaseId, RunStatus, StepEvent, StepId,
};

/// What a call of a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// `up` that begins a new run.
    New,
    /// `up --resume`.
    Resume,
    /// `down`.
    TearDown,
}

/// In which part of a phase it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A step could not be applied.
    Apply,
    /// A step's verify or a check failed after the apply.
    Verify,
    /// A phase that was verified by an earlier call does not stand as it was; it stays verified.
    Reverify,
}

/// One thing that is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry<D> {
    /// The call begins. In [`CallKind::New`] the run begins with it.
    CallBegan {
        /// What the call does.
        kind: CallKind,
    },
    /// The first step of the phase is about to be applied in this call.
    PhaseApplying {
        /// The phase.
        phase: PhaseId,
    },
    /// A step's status changes.
    Step {
        /// The step.
        step: StepId,
        /// What happened to it.
        event: StepEvent,
        /// The digest of the definitions that are applied; set with [`StepEvent::Started`].
        definition: Option<String>,
        /// What the world gave to keep.
        detail: Option<D>,
        /// Why it did not end well.
        failure: Option<Failure>,
    },
    /// A step at work has something to keep.
    Note {
        /// The step.
        step: StepId,
        /// What the world gave to keep.
        detail: D,
    },
    /// Every step of the phase is applied; its verify begins.
    PhaseVerifying {
        /// The phase.
        phase: PhaseId,
        /// Against what.
        basis: Basis,
    },
    /// The phase is verified.
    PhaseVerified {
        /// The phase.
        phase: PhaseId,
        /// Against what.
        basis: Basis,
        /// Its steps as they were defined then, in order.
        steps: Vec<StepId>,
    },
    /// The phase did not come to its end.
    PhaseStopped {
        /// The phase.
        phase: PhaseId,
        /// Where in it.
        part: Part,
        /// Why.
        failures: Vec<PhaseFailure>,
    },
    /// The operator answered at the checkpoint after a phase.
    Checkpoint {
        /// The phase.
        phase: PhaseId,
        /// The answer.
        answer: Answer,
    },
    /// The teardown of the run begins: from now on only `down` goes on with it.
    TeardownBegan,
    /// The first step of the phase is about to be torn down, or the phase to be proven gone.
    PhaseTearingDown {
        /// The phase.
        phase: PhaseId,
    },
    /// Every step of the phase is gone, and nothing is left behind.
    PhaseGone {
        /// The phase.
        phase: PhaseId,
        /// What could not be proven, where a step of it was forgotten.
        warnings: Vec<Failure>,
    },
    /// The phase's teardown failed, or something is left behind.
    PhaseTeardownFailed {
        /// The phase.
        phase: PhaseId,
        /// Why.
        failure: Failure,
    },
    /// The call ends.
    CallEnded {
        /// The status of the run from now on.
        status: RunStatus,
        /// What the process ends with.
        exit: ExitCode,
        /// Why, where it did not end well.
        failures: Vec<PhaseFailure>,
    },
}

impl<D> Entry<D> {
    /// Makes the entry of a step's event, without definitions.
    pub fn step(
        step: &StepId,
        event: StepEvent,
        detail: Option<D>,
        failure: Option<Failure>,
    ) -> Self {
        Self::Step {
            step: step.clone(),
            event,
            definition: None,
            detail,
            failure,
        }
    }
}

/// Why an entry was not stored. It stops the run at once.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct LedgerError {
    /// What could not be stored and where.
    pub what: String,
    /// Why.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl LedgerError {
    /// Wraps the error behind it.
    pub fn new(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            what: what.into(),
            source: Some(source.into()),
        }
    }
}

/// Where a run's entries are kept.
///
/// Only the thread that drives the run calls it, so that every write has its place in the order.
pub trait Ledger<D> {
    /// Stores the entries in one durable write: all of them or none.
    fn append(&mut self, entries: Vec<Entry<D>>) -> Result<(), LedgerError>;
}

//! What the engine drives: the target's world, and the person who watches.

use crate::{Failure, PhaseId, StepId};

/// How a step that is to be applied was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyHow {
    /// This run has not applied it, or it ended well from other definitions.
    Fresh,
    /// Its last apply of this run, or the verify after it, failed or was interrupted.
    AfterFailure,
    /// Its last apply has a start and no end. The world decides what is left to do: OpenTofu by its
    /// plan, `exec` by its `verify`.
    AfterCut {
        /// The apply that was cut was of the very definitions that are applied now.
        same_definition: bool,
    },
}

/// Against what something is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The phase at hand: what its apply left may still be settling.
    JustApplied,
    /// What stands from an earlier call: nothing may have moved, and nothing is changed.
    Standing,
}

/// What the world answers when a step is about to be applied. Nothing was changed yet.
#[derive(Debug)]
pub enum Preparation<P, D> {
    /// The apply may begin, with this plan, once `detail` is stored.
    Ready {
        /// What `apply` gets back.
        plan: P,
        /// What the ledger keeps of the step before the act.
        detail: D,
    },
    /// A step that was cut turns out to be done: nothing is left to apply.
    AlreadyDone {
        /// What the ledger keeps of the step.
        detail: D,
    },
    /// The apply may not begin: a guard, a person or an error is against it.
    NotReady(Failure),
}

/// How an act on a step ended.
#[derive(Debug)]
pub struct StepResult<D> {
    /// How it ended; a failure with [`crate::ExitCode::Interrupted`] was ended by a signal.
    pub end: Result<(), Failure>,
    /// What the ledger keeps of it, however it ended.
    pub detail: Option<D>,
}

impl<D> StepResult<D> {
    /// Makes the result of an act that ended well.
    pub fn well(detail: Option<D>) -> Self {
        Self {
            end: Ok(()),
            detail,
        }
    }

    /// Makes the result of an act that did not.
    pub fn failed(failure: Failure, detail: Option<D>) -> Self {
        Self {
            end: Err(failure),
            detail,
        }
    }
}

/// How the teardown of a step ended.
#[derive(Debug)]
pub enum TeardownResult<D> {
    /// It is proven gone, and its state moved to its versions.
    Gone {
        /// What the ledger keeps of it.
        detail: Option<D>,
    },
    /// There was nothing to tear down.
    Empty,
    /// Something may be left.
    Failed {
        /// Why; [`crate::ExitCode::Interrupted`] where a signal ended it.
        failure: Failure,
        /// What the ledger keeps of it.
        detail: Option<D>,
    },
}

/// What a phase left behind.
#[derive(Debug)]
pub enum ResidueResult {
    /// No resource is left in its states, and every probe is silent.
    Clean,
    /// Something is left.
    Left(Failure),
    /// A probe could not run, so nothing is proven.
    Unprovable(Failure),
}

/// Why a step is given up without a destroy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgetting {
    /// By `down --forget`.
    ByOperator,
    /// What it lived in is proven gone.
    WithContainer,
}

/// A note was not stored: the run is stopping, and nothing more may be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ledger could not be written")]
pub struct NotStored;

/// Where a step at work leaves what the ledger must keep before the step goes on.
pub trait Notes<D> {
    /// Stores `detail` with the step; returns once that is durable.
    fn note(&self, detail: D) -> Result<(), NotStored>;
}

/// The target's world: everything that a step does, reads or proves.
///
/// It is shared by the threads of a parallel phase. Every apply and every teardown must be safe to
/// repeat.
pub trait World: Sync {
    /// What `prepare` hands to `apply`: a plan, for instance.
    type Plan: Send;
    /// What the ledger keeps with a step's events and the engine never looks into.
    type Detail: Send;

    /// Gives the digest of the step's definitions as they are today, its inputs resolved. The
    /// steps that it refers to have ended well by then.
    fn definition(&self, step: &StepId) -> Result<String, Failure>;

    /// Makes ready to apply: resolves, plans, asks the guard. Nothing is changed by it but what is noted first.
    fn prepare(
        &self,
        step: &StepId,
        how: ApplyHow,
        notes: &dyn Notes<Self::Detail>,
    ) -> Preparation<Self::Plan, Self::Detail>;

    /// Applies what was prepared. The start is stored by now.
    fn apply(
        &self,
        step: &StepId,
        plan: Self::Plan,
        notes: &dyn Notes<Self::Detail>,
    ) -> StepResult<Self::Detail>;

    /// Proves a step.
    fn verify(
        &self,
        step: &StepId,
        basis: Basis,
        notes: &dyn Notes<Self::Detail>,
    ) -> StepResult<Self::Detail>;

    /// Says whether [`World::check`] has anything to ask of the phase. Where that is not known, it has.
    fn has_checks(&self, phase: &PhaseId, basis: Basis) -> bool;

    /// Runs the checks of a phase.
    fn check(&self, phase: &PhaseId, basis: Basis) -> Result<(), Failure>;

    /// Preflights what stands from earlier runs, before a resumed run applies anything.
    fn preflight(&self, not_reached: &[PhaseId]) -> Result<(), Failure>;

    /// Moves everything from the spool into the store that the phase has made. Called when all
    /// steps of a phase with `provides_state` are applied; may be repeated.
    fn store_made(&self, phase: &PhaseId) -> Result<(), Failure>;

    /// Moves everything back into the spool, before the phase that goes last is torn down; may be
    /// repeated.
    fn store_going(&self, phase: &PhaseId) -> Result<(), Failure>;

    /// Tears a step down with the bundle last attempted. The start is stored by now.
    fn teardown(
        &self,
        step: &StepId,
        notes: &dyn Notes<Self::Detail>,
    ) -> TeardownResult<Self::Detail>;

    /// Says whether [`World::residue`] asks more of the phase than what its states hold.
    fn has_probes(&self, phase: &PhaseId) -> bool;

    /// Looks for what a phase left behind. The states of `deferred` steps don't count: they wait
    /// for what they live in.
    fn residue(&self, phase: &PhaseId, deferred: &[StepId]) -> ResidueResult;

    /// Gives a step up without a destroy: moves its state to its versions and gives its addresses.
    fn forget(&self, step: &StepId, why: Forgetting) -> Result<Option<Self::Detail>, Failure>;

    /// Lists every step whose state holds a resource, known to the record or not.
    fn holding(&self) -> Result<Vec<StepId>, Failure>;
}

/// What the operator, or a signal, asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Go on.
    None,
    /// The terminal is gone: finish the phase at hand, then pause.
    AfterPhase,
    /// Start nothing new; let what runs come to its end.
    Gentle,
}

/// The answer at a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Go on with the next phase.
    Continue,
    /// End the call; `up --resume` goes on.
    Pause,
    /// End the call and tear down.
    TearDown,
}

/// The answer after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// Leave the target as it is.
    Leave,
    /// Tear down.
    TearDown,
}

/// Where the run is, at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSummary {
    /// The phase that was verified just now.
    pub phase: PhaseId,
    /// How many phases of the run are verified.
    pub n_verified: usize,
    /// How many phases there are.
    pub n_phases: usize,
    /// The phase that would be next.
    pub next: Option<PhaseId>,
}

/// A failure and where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseFailure {
    /// The phase, where the failure belongs to one.
    pub phase: Option<PhaseId>,
    /// The step, where it belongs to one.
    pub step: Option<StepId>,
    /// What went wrong.
    pub failure: Failure,
}

/// The person, or the job, that watches a call.
pub trait Operator {
    /// Says whether a stop was asked for by now.
    fn stop(&self) -> Stop;

    /// Shows what a phase made. Called after each phase that was verified, and never waits.
    fn summary(&mut self, summary: &PhaseSummary);

    /// Asks how to go on. Called only where [`crate::Options::interactive`] is set and there is a
    /// next phase.
    fn checkpoint(&mut self, summary: &PhaseSummary) -> Answer;

    /// Offers teardown. Called only where [`crate::Options::interactive`] is set, when the failure
    /// is stored.
    fn failed(&mut self, failures: &[PhaseFailure]) -> AfterFailure;
}

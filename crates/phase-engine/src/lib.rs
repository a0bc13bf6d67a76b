//! Phases, steps, order, resume and teardown rules; no IO.
//!
//! The crate knows no file, clock, process or network. What a step really does is behind the trait
//! [`World`], what is kept of it behind [`Ledger`], and whom to ask behind [`Operator`]; time and
//! identifiers are passed in. Nothing here is serializable on purpose: the crate `record` owns the
//! format on disk and converts at its edge.
//!
//! [`admission`] decides whether a command may go on with the target's run, [`up`] walks the phases
//! forward, [`down`] walks what stands backward. Every act is stored before it begins and after it
//! has ended, by the thread that drives the walk and by no other; a write that fails stops the walk
//! at once. Cut after any write, `up --resume` and `down` both find their way from what is stored.

mod admission;
mod book;
mod crew;
mod desk;
mod difference;
mod down;
mod exit;
mod failure;
mod history;
mod ids;
mod ledger;
mod sequence;
mod status;
mod up;
mod world;

#[cfg(test)]
mod tests;

pub use admission::{Command, Mode, Refusal, RunState, admission};
pub use book::Ended;
pub use difference::{Change, Difference, Subject, differences, not_reached, removed};
pub use down::{Teardown, TeardownStep, down};
pub use exit::{ExitCode, Outcome, merge};
pub use failure::Failure;
pub use history::{History, StepHistory, VerifiedPhase, place};
pub use ids::{
    Fence, IdError, MAX_NAME_LENGTH, PhaseId, ResourceAddress, RunId, StepId, StepName, TargetName,
};
pub use ledger::{CallKind, Entry, Ledger, LedgerError, Part};
pub use sequence::{Phase, Sequence, SequenceError, StepShape};
pub use status::{IllegalEvent, RunStatus, StepEvent, StepStatus};
pub use up::{Options, Prune, refused, up};
pub use world::{
    AfterFailure, Answer, ApplyHow, Basis, Forgetting, NotStored, Notes, Operator, PhaseFailure,
    PhaseSummary, Preparation, ResidueResult, StepResult, Stop, TeardownResult, World,
};

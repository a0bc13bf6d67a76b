//! Phases, steps, order, resume and teardown rules; no IO.
//!
//! The crate knows no file, clock, process or network. What a step really does is behind the trait
//! `World`, what is kept of it behind `Ledger`, and whom to ask behind `Operator`; time and
//! identifiers are passed in. Nothing here is serializable on purpose: the crate `record` owns the
//! format on disk and converts at its edge.

mod exit;
mod ids;
mod sequence;
mod status;

pub use exit::{ExitCode, Outcome, merge};
pub use ids::{
    Fence, IdError, MAX_NAME_LENGTH, PhaseId, ResourceAddress, RunId, StepId, StepName, TargetName,
};
pub use sequence::{Phase, Sequence, SequenceError, StepShape};
pub use status::{IllegalEvent, RunStatus, StepEvent, StepStatus};

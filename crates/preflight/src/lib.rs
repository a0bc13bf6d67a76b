//! The verdict: clean only where it is proven.
//!
//! Preflight answers one question about everything that stands: is the target still what was last
//! applied to it? It fails closed: what can't be read, explained or run is never `clean`.
//!
//! - What was seen is plain values ([`StepObservation`], [`PhaseObservation`]);
//!   [`PlanFacts::of_outcome`] makes the plan's part of them from OpenTofu's events and, where
//!   something shows, its JSON plan.
//! - The verdict is a pure function of them ([`judge`], [`judge_target`], [`judge_first_build`],
//!   [`identify`], [`settle`]).
//! - [`run`] looks at everything in parallel through a [`Probe`], which the caller implements.
//! - The answer is a [`Report`], which goes to stdout and into records as it is.
//!
//! The events of a normal plan decide, never an exit code: a refresh-only plan shows no tainted
//! object, and on a lost state it says "no changes".

mod driver;
mod facts;
mod first_build;
mod identity;
mod ignore;
mod judge;
mod outputs;
mod read;
mod report;
mod settle;
mod target;
mod verdict;

pub use driver::{Ask, PhaseUnderTest, Probe, run};
pub use facts::{
    AttributeDrift, CheckObservation, CheckResult, DriftedObject, ErrorKind, FailedCheck,
    IgnoreDrift, Looked, OutputChange, PhaseObservation, PlanError, PlanFacts, PlannedChange,
    Recorded, StateFacts, StateObservation, StepObservation,
};
pub use first_build::{ResidueFound, ResidueOfPhase, judge_first_build};
pub use identity::{Identity, KnownTarget, identify};
pub use judge::{StepVerdict, judge};
pub use outputs::{Locals, explained_outputs};
pub use report::{Finding, Note, PhaseReport, Report, SCHEMA};
pub use settle::{NotSettled, Settle, settle};
pub use target::judge_target;
pub use verdict::{Reason, ReportVerdict, Verdict};

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod report_tests;

//! The ledger of handoffs: each step of a job is written down before it begins and after it ends.
//!
//! A [`Job`] knows what is left of it: steps that ended well are never done again; those that only look
//! (hosts awaited, keys compared) are looked at again, since addresses may have changed. A [`Ledger`] is the
//! file that keeps jobs, one SQLite database for a user. Whatever is cut at whatever moment, the next process
//! finds the step that had begun and not ended.
//!
//! Times are given by the caller, as RFC 3339 texts. Nothing sensitive is ever kept.

mod job;
mod ledger;
mod schema;

pub use job::{Act, End, Job, JobId, JobStatus, Step, StepStatus, TransitionError};
pub use ledger::{Ledger, LedgerError, NewJob, NewStep, Opened};

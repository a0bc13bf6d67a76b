//! The record of a run, its schema and versions, the ledger inside it.
//!
//! The crate owns the format on disk: what [`phase_engine`] thinks in is turned into it here and
//! nowhere else. A [`Record`] is what is kept of one run; [`Head`] is the only pointer to it;
//! [`RecordStore`] reads and writes both; [`RecordLedger`] turns the engine's entries into changes
//! of a record, each a durable write.
//!
//! A record never holds a sensitive value: inputs come in as [`Input`], which says whether they are
//! sensitive, and what is sensitive stays behind as a keyed digest. Texts (errors, addresses) must
//! be masked by the caller.

mod error;
mod fold;
mod head;
mod ledger;
mod parts;
mod prune;
mod record;
mod record_store;
mod schema;
mod standing;
mod status;
mod time;
mod values;
mod words;

#[cfg(test)]
mod tests;

pub use error::RecordError;
pub use head::{Head, MovedTo, TargetJson};
pub use ledger::{Clock, NewRun, RecordLedger, RecordView};
pub use parts::{
    CallCommand, CallRecord, Decision, DecisionKind, Detail, ErrorRecord, PhaseRecord, PhaseStatus,
    PlannedChange, PlannedWork, Seen, SeenPhase, Starting, StepRecord, Suspect, Suspected,
    ToolRecord,
};
pub use record::Record;
pub use record_store::{Listed, Loaded, RecordStore};
pub use schema::{NewerSchema, SCHEMA, Schema, json_schemas};
pub use standing::{Adopted, Applied, StandingEntry, StateMark, Writing};
pub use status::{LockShown, StatusDocument, TargetState};
pub use time::Time;
pub use values::{Input, Outputs, RecordedValue, Values};

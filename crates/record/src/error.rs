//! Why a record could not be read or written.

use phase_engine::{IllegalEvent, RunId, StepId};
use store::{Key, KeyError, ReadError, WriteError};

use crate::NewerSchema;

/// Why a record, a head or a target file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The store gave no answer.
    #[error("cannot read `{key}`")]
    Read {
        /// What was to be read.
        key: Key,
        /// What the store said.
        #[source]
        source: ReadError,
    },
    /// The store could not list the runs.
    #[error("cannot list the runs")]
    List {
        /// What the store said.
        #[source]
        source: ReadError,
    },
    /// It was written by a newer program.
    #[error("cannot read `{key}`")]
    Newer {
        /// What was read.
        key: Key,
        /// The version that was found.
        #[source]
        source: NewerSchema,
    },
    /// It is not what it should be.
    #[error("`{key}` is damaged")]
    Damaged {
        /// What was read.
        key: Key,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// It speaks of another run than its key.
    #[error("`{key}` holds the record of run `{found}`")]
    Mismatch {
        /// What was read.
        key: Key,
        /// The run that it speaks of.
        found: RunId,
    },
    /// The head points to a record that is not there.
    #[error("run `{run}` has no record in the store")]
    Missing {
        /// The run.
        run: RunId,
    },
    /// Someone else wrote in between: the target's lock was lost.
    #[error(
        "`{key}` was written by someone else: this call does not hold the target's lock any more"
    )]
    LockLost {
        /// What was to be written.
        key: Key,
        /// What the store said.
        #[source]
        source: WriteError,
    },
    /// It could not be written.
    #[error("cannot write `{key}`")]
    Write {
        /// What was to be written.
        key: Key,
        /// What the store said.
        #[source]
        source: WriteError,
    },
    /// It could not be turned into JSON.
    #[error("cannot turn `{key}` into JSON")]
    Encode {
        /// What was to be written.
        key: Key,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A run's id makes no key.
    #[error("cannot keep the record of the run")]
    Key {
        /// Why.
        #[source]
        source: KeyError,
    },
    /// An event of a step that can't follow what is stored.
    #[error("cannot keep an event of step `{step}`")]
    Event {
        /// The step.
        step: StepId,
        /// Why.
        #[source]
        source: IllegalEvent,
    },
    /// A step's apply begins and nobody said what from.
    #[error("step `{step}` was begun without a word on what from")]
    Undescribed {
        /// The step.
        step: StepId,
    },
    /// No run is there to go on with.
    #[error("the target has no run to go on with")]
    NoRun,
}

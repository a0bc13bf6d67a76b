//! Why a state was not given, written or locked.

use crate::{LockInfoError, StateLock};
use store::state_file::StateFileError;
use store::{KeyError, ReadError, WriteError};

/// Why a state was not given, written or locked.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Another holds the state's lock.
    #[error("the state of `{step}` is locked by another: {} of {}, lock `{}`", .lock.info.operation, .lock.info.who, .lock.info.id)]
    Locked {
        /// The step.
        step: String,
        /// The lock that is there.
        lock: Box<StateLock>,
    },
    /// A write came without the lock.
    #[error(
        "the state of `{step}` can only be written by the holder of its lock, and it is not locked"
    )]
    NotLocked {
        /// The step.
        step: String,
    },
    /// An unlock named a lock that is not there and was not released just now.
    #[error("the state of `{step}` has no lock `{id}`")]
    UnknownLock {
        /// The step.
        step: String,
        /// The lock that was to be released.
        id: String,
    },
    /// What was to be written is another state's.
    #[error(
        "the state of `{step}` has the lineage `{stored}`, what was to be written has `{offered}`"
    )]
    Lineage {
        /// The step.
        step: String,
        /// The lineage in the store.
        stored: String,
        /// The lineage that was to be written.
        offered: String,
    },
    /// What was to be written is older than what is there.
    #[error(
        "the state of `{step}` has the serial {stored}, what was to be written is older: {offered}"
    )]
    OlderSerial {
        /// The step.
        step: String,
        /// The serial in the store.
        stored: u64,
        /// The serial that was to be written.
        offered: u64,
    },
    /// What was to be written has the serial of what is there and is not the same.
    #[error("the state of `{step}` with the serial {serial} is there already, and is not the same")]
    SameSerial {
        /// The step.
        step: String,
        /// The serial.
        serial: u64,
    },
    /// A state that the record knows is not in the store.
    #[error(
        "the state of `{step}` is lost: it was written with serial {serial} and is not in the store"
    )]
    Lost {
        /// The step.
        step: String,
        /// The serial that the record knows.
        serial: u64,
    },
    /// The state in the store is not the one that the record knows, nor a later one.
    #[error(
        "the state of `{step}` is not the recorded one: lineage `{found_lineage}` and serial {found_serial}, recorded `{lineage}` and {serial}"
    )]
    NotTheRecorded {
        /// The step.
        step: String,
        /// The lineage that the record knows.
        lineage: String,
        /// The serial that the record knows.
        serial: u64,
        /// The lineage in the store.
        found_lineage: String,
        /// The serial in the store.
        found_serial: u64,
    },
    /// The target's lock was taken by another: this process must not write any more.
    #[error("the target's lock was taken by another, so nothing is written any more")]
    LockLost,
    /// The target's lock could not be renewed for a lease, and the store can't be asked.
    #[error("whether the target's lock is still held can't be told, so nothing is written now")]
    LockUnsure,
    /// What was to be written is no state.
    #[error("what was to be written to `{step}` is no state")]
    NotAState {
        /// The step.
        step: String,
        /// What is wrong with it.
        #[source]
        source: StateFileError,
    },
    /// What is in the store is no state, or not the one that was written.
    #[error("`{key}` can't be used")]
    Damaged {
        /// The value.
        key: String,
        /// What is wrong with it.
        #[source]
        source: StateFileError,
    },
    /// The lock in the store can't be read.
    #[error("the lock of the state of `{step}` can't be read")]
    DamagedLock {
        /// The step.
        step: String,
        /// What is wrong with it.
        #[source]
        source: LockInfoError,
    },
    /// The value changed again and again while it was written.
    #[error("`{step}` keeps being changed by another writer")]
    Contended {
        /// The step.
        step: String,
    },
    /// The step has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl BackendError {
    /// Whether a repetition may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::LockUnsure | Self::Contended { .. } | Self::Read(_) | Self::Write(_) => true,
            Self::Locked { .. }
            | Self::NotLocked { .. }
            | Self::UnknownLock { .. }
            | Self::Lineage { .. }
            | Self::OlderSerial { .. }
            | Self::SameSerial { .. }
            | Self::Lost { .. }
            | Self::NotTheRecorded { .. }
            | Self::LockLost
            | Self::NotAState { .. }
            | Self::Damaged { .. }
            | Self::DamagedLock { .. }
            | Self::Key(_) => false,
        }
    }
}

//! Why a lock was not taken, kept or given up.

use super::Holder;
use crate::{Key, ReadError, WriteError};
use std::fmt;

/// Why a lock was not taken, kept or given up.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone holds it.
    #[error("the target is locked: {holder}")]
    Held {
        /// Who.
        holder: Box<Holder>,
        /// What can be done.
        how_to: HowTo,
    },
    /// `unlock` saw its holder renew it.
    #[error("the lock is in use, its holder renewed it just now: {holder}")]
    Beating {
        /// Who.
        holder: Box<Holder>,
    },
    /// `unlock` found nothing to unlock.
    #[error("nobody holds the lock of the target in {store}")]
    NotLocked {
        /// The store, as it describes itself.
        store: String,
    },
    /// Another has taken the lock from this process.
    #[error("the target's lock in {store} was taken by another")]
    Lost {
        /// The store, as it describes itself.
        store: String,
    },
    /// The lock changed hands faster than it could be looked at.
    #[error("the target's lock in {store} keeps changing hands")]
    Contended {
        /// The store, as it describes itself.
        store: String,
    },
    /// `lock.json` is damaged.
    #[error("`lock.json` in {store} can't be read")]
    Unreadable {
        /// The store, as it describes itself.
        store: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A later `rebuild` holds the lock.
    #[error("`lock.json` in {store} has schema {found}: a newer `rebuild` is needed to read it")]
    Newer {
        /// The store, as it describes itself.
        store: String,
        /// The schema that was found.
        found: u32,
    },
    /// A value could not be given the new fencing number, so its stale writer could not be shut out.
    #[error("`{key}` in {store} can't be fenced: {why}")]
    Unfenceable {
        /// The store, as it describes itself.
        store: String,
        /// The value.
        key: Key,
        /// What is wrong with it.
        why: String,
    },
    /// A body could not be written as JSON.
    #[error("cannot write the lock's body")]
    Encode(#[source] serde_json::Error),
    /// The renewal could not be started.
    #[error("cannot start the thread that renews the lock")]
    Thread(#[source] std::io::Error),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What can be done about a lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowTo {
    /// The holder lives on this machine: wait for it, or end it.
    WaitFor {
        /// Its process id.
        pid: u32,
    },
    /// Whether it lives can't be told from here: a person who knows that it is dead may unlock.
    Unlock,
}

impl fmt::Display for HowTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitFor { pid } => {
                write!(f, "wait until process {pid} of this machine has ended")
            }
            Self::Unlock => f.write_str("once you know that it is dead: `rebuild unlock`"),
        }
    }
}

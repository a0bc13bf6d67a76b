//! Why a store gave no answer, or refused a write.

use crate::Key;
use std::error::Error;

/// Why a read gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The value could not be read; whether there is one is not known.
    #[error("cannot read `{key}` from {store}")]
    Unreachable {
        /// The store, as it describes itself.
        store: String,
        /// What was read.
        key: Key,
        /// What the store's medium said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The keys could not be listed.
    #[error("cannot list `{prefix}*` in {store}")]
    List {
        /// The store, as it describes itself.
        store: String,
        /// What the keys were to begin with.
        prefix: String,
        /// What the store's medium said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Why a write did not happen, or may not have happened.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The key is not in the version that the write was for. Nothing was changed.
    #[error("`{key}` in {store} was changed by another writer")]
    Conflict {
        /// The store, as it describes itself.
        store: String,
        /// What was to be written.
        key: Key,
    },
    /// The store did not answer as it should. The write may have landed.
    #[error("cannot write `{key}` to {store}")]
    Unreachable {
        /// The store, as it describes itself.
        store: String,
        /// What was to be written.
        key: Key,
        /// What the store's medium said.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl WriteError {
    /// Whether another writer was there first.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}

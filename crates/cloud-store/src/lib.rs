//! Stores in S3, Google Cloud Storage and Azure Blob Storage, with conditional writes.
//!
//! [`CloudStore`] is a [`store::Store`] over one bucket or container. Keys are mapped one to one, below
//! a prefix. Which servers hold what is promised is in `docs/stores.md`.
//!
//! * Everything that is needed is handed in as a [`Config`]. Credentials come from its values, or,
//!   where it says so, from the cloud's own chain ([`DefaultChain`]).
//! * [`CloudStore::bucket`] tells a missing bucket from everything else that can go wrong.
//! * A write whose answer was lost is [`store::WriteError::Unreachable`]; `store::settle` settles it.
//!   Writes under a condition are tried again only where nothing was sent, or the server said 5xx.

/// The biggest value that a bucket keeps for us, in bytes: more is not read again.
pub const MAX_VALUE: u64 = transport::MAX_BODY;

mod address;
mod client;
mod cloud;
mod config;
mod error;
mod probe;
mod tombstone;
mod transport;

pub use cloud::{BucketState, CloudStore};
pub use config::{
    Azure, AzureCredentials, Config, DefaultChain, Gcs, GcsCredentials, Patience, Place, S3,
    S3Credentials,
};
pub use error::{Fault, OpenError};
pub use probe::Deletes;

//! The store: keys with version tags, the target's lock, lease and fence.
//!
//! A [`Store`] keeps bytes under [`Key`]s. Every write is conditional: it creates a key that is
//! absent, or replaces or deletes the very version that the caller has read. Nothing here knows
//! what a platform, a phase or a run is.
//!
//! * [`Body`] is a value that need not fit into memory.
//! * [`LocalStore`] is a directory, [`MemoryStore`] is for tests.
//! * [`layout`] names every key of a target.
//! * [`lock`] is the target's lock: a lease that is renewed, with a fencing number.
//! * [`state_file`] is the header line in front of OpenTofu's bytes.
//! * [`settle`] is for writes whose answer was lost.

mod body;
mod error;
mod key;
pub mod layout;
mod local;
pub mod lock;
mod memory;
pub mod settle;
pub mod state_file;
mod watched;

#[cfg(any(test, feature = "contract-tests"))]
pub mod contract;

pub use body::{Body, BodyReader, BodyWriter, CHUNK, VersionedBody};
pub use error::{ReadError, WriteError};
pub use key::{Key, KeyError};
pub use local::LocalStore;
pub use memory::{Fault, MemoryStore, Operation, OperationKind};
pub use state_file::{StateHeader, Writer};
pub use watched::watched;

use std::fmt;

/// The version of one value: equal tags mean equal bodies.
///
/// A tag may be made from the body alone, so a value that is replaced by the same bytes need not
/// change its tag. Bodies that take part in fencing therefore hold their fencing number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(String);

impl Tag {
    /// Takes a store's own word for a version.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The tag of a store that has none of its own: the SHA-256 of the body.
    pub fn of(body: &[u8]) -> Self {
        Self(sha256_hex(body))
    }

    /// The tag as the store wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value with the tag of the version that was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The value.
    pub bytes: Vec<u8>,
    /// The version that [`bytes`](Self::bytes) is.
    pub tag: Tag,
}

impl fmt::Debug for Versioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A state may hold secrets, so a value never shows.
        f.debug_struct("Versioned")
            .field("n_bytes", &self.bytes.len())
            .field("tag", &self.tag)
            .finish()
    }
}

/// Where a target's states, records, bundles and locks are kept.
///
/// Every method may be called from many threads and many processes at once. A write that returns
/// `Ok` is durable. A write that returns [`WriteError::Unreachable`] may have landed all the same:
/// see [`settle`].
pub trait Store: Send + Sync {
    /// Says which store this is, for messages: ``directory `/x/y` ``.
    fn describe(&self) -> String;

    /// Reads a value, `None` where there is none.
    fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError>;

    /// Creates a value; [`WriteError::Conflict`] where there is one already.
    fn put_if_absent(&self, key: &Key, body: &[u8]) -> Result<Tag, WriteError>;

    /// Replaces the version `tag`; [`WriteError::Conflict`] where there is another, or none.
    fn put_if_match(&self, key: &Key, body: &[u8], tag: &Tag) -> Result<Tag, WriteError>;

    /// Deletes the version `tag`; [`WriteError::Conflict`] where there is another, or none.
    fn delete_if_match(&self, key: &Key, tag: &Tag) -> Result<(), WriteError>;

    /// Lists, sorted, the keys whose text begins with `prefix`; `""` lists all.
    fn list(&self, prefix: &str) -> Result<Vec<Key>, ReadError>;

    /// [`get`](Self::get) for values that need not fit into memory, where the store can do that.
    fn get_body(&self, key: &Key) -> Result<Option<VersionedBody>, ReadError> {
        let found = self.get(key)?;
        Ok(found.map(|Versioned { bytes, tag }| VersionedBody {
            body: Body::from(bytes),
            tag,
        }))
    }

    /// Reads the first `n_bytes` of a value, or all of a shorter one.
    fn get_start(&self, key: &Key, n_bytes: usize) -> Result<Option<Vec<u8>>, ReadError> {
        let found = self.get(key)?;
        Ok(found.map(|Versioned { mut bytes, .. }| {
            bytes.truncate(n_bytes);
            bytes
        }))
    }

    /// Takes in a value that is to be put here; the default keeps it in memory.
    fn body_writer(&self) -> std::io::Result<BodyWriter> {
        Ok(BodyWriter::in_memory())
    }

    /// [`put_if_absent`](Self::put_if_absent) of `head` with `tail` behind.
    fn put_body_if_absent(&self, key: &Key, head: &[u8], tail: &Body) -> Result<Tag, WriteError> {
        self.put_if_absent(key, &joined(self.describe(), key, head, tail)?)
    }

    /// [`put_if_match`](Self::put_if_match) of `head` with `tail` behind.
    fn put_body_if_match(
        &self,
        key: &Key,
        head: &[u8],
        tail: &Body,
        tag: &Tag,
    ) -> Result<Tag, WriteError> {
        self.put_if_match(key, &joined(self.describe(), key, head, tail)?, tag)
    }
}

fn joined(store: String, key: &Key, head: &[u8], tail: &Body) -> Result<Vec<u8>, WriteError> {
    let tail = tail.to_vec().map_err(|source| WriteError::Unreachable {
        store,
        key: key.clone(),
        source: Box::new(source),
    })?;
    Ok([head, &tail].concat())
}

/// The SHA-256 of `bytes` in lower-case hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest as _;
    hex(&sha2::Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

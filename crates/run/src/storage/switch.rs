//! A store that stands for another, which can change in mid-call: phase 0 makes the store that its states move to.

use std::sync::{Arc, PoisonError, RwLock};

use store::{Body, BodyWriter, Key, ReadError, Store, Tag, Versioned, VersionedBody, WriteError};

/// Passes everything on to the store that counts just now.
///
/// Tags don't outlive a change: a write with a tag of the former store is refused, as any stale one.
pub(crate) struct Switch(RwLock<Arc<dyn Store>>);

impl Switch {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self(RwLock::new(store))
    }

    /// The store that counts.
    pub(crate) fn current(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets another one count from now on.
    pub(crate) fn set(&self, store: Arc<dyn Store>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = store;
    }
}

impl Store for Switch {
    fn describe(&self) -> String {
        self.current().describe()
    }

    fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.current().get(key)
    }

    fn put_if_absent(&self, key: &Key, body: &[u8]) -> Result<Tag, WriteError> {
        self.current().put_if_absent(key, body)
    }

    fn put_if_match(&self, key: &Key, body: &[u8], tag: &Tag) -> Result<Tag, WriteError> {
        self.current().put_if_match(key, body, tag)
    }

    fn delete_if_match(&self, key: &Key, tag: &Tag) -> Result<(), WriteError> {
        self.current().delete_if_match(key, tag)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, ReadError> {
        self.current().list(prefix)
    }

    fn get_body(&self, key: &Key) -> Result<Option<VersionedBody>, ReadError> {
        self.current().get_body(key)
    }

    fn get_start(&self, key: &Key, n_bytes: usize) -> Result<Option<Vec<u8>>, ReadError> {
        self.current().get_start(key, n_bytes)
    }

    fn body_writer(&self) -> std::io::Result<BodyWriter> {
        self.current().body_writer()
    }

    fn put_body_if_absent(&self, key: &Key, head: &[u8], tail: &Body) -> Result<Tag, WriteError> {
        self.current().put_body_if_absent(key, head, tail)
    }

    fn put_body_if_match(
        &self,
        key: &Key,
        head: &[u8],
        tail: &Body,
        tag: &Tag,
    ) -> Result<Tag, WriteError> {
        self.current().put_body_if_match(key, head, tail, tag)
    }
}

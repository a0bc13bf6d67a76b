//! A store at which a test may hurt the program.

use crate::{Body, BodyWriter, Key, ReadError, Store, Tag, Versioned, VersionedBody, WriteError};
use fault::Verdict;
use std::sync::Arc;

/// The store itself; in a process that a test hurts, one that passes a point before and after each operation.
pub fn watched(store: Arc<dyn Store>) -> Arc<dyn Store> {
    if fault::is_armed() {
        Arc::new(Watched(store))
    } else {
        store
    }
}

struct Watched(Arc<dyn Store>);

impl Watched {
    fn reading(&self, key: &Key) -> Result<(), ReadError> {
        fault::point("store.get.before", || about(key))
            .ok()
            .map_err(|error| ReadError::Unreachable {
                store: self.describe(),
                key: key.clone(),
                source: Box::new(error),
            })
    }

    fn write<T>(
        &self,
        names: [&'static str; 2],
        key: &Key,
        act: impl FnOnce() -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        let unreachable = |error: std::io::Error| WriteError::Unreachable {
            store: self.describe(),
            key: key.clone(),
            source: Box::new(error),
        };
        fault::point(names[0], || about(key))
            .ok()
            .map_err(unreachable)?;
        let done = act();
        match (fault::point(names[1], || about(key)), done) {
            (Verdict::Go, done) => done,
            // A conflict is an answer that may be lost as well.
            (Verdict::Refuse(error) | Verdict::Lose(error), _) => Err(unreachable(error)),
        }
    }

    fn put<T>(
        &self,
        key: &Key,
        act: impl FnOnce() -> Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        self.write(["store.put.before", "store.put.after"], key, act)
    }
}

fn about(key: &Key) -> String {
    fault::steady(key.as_str())
}

impl Store for Watched {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.reading(key)?;
        self.0.get(key)
    }

    fn put_if_absent(&self, key: &Key, body: &[u8]) -> Result<Tag, WriteError> {
        self.put(key, || self.0.put_if_absent(key, body))
    }

    fn put_if_match(&self, key: &Key, body: &[u8], tag: &Tag) -> Result<Tag, WriteError> {
        self.put(key, || self.0.put_if_match(key, body, tag))
    }

    fn delete_if_match(&self, key: &Key, tag: &Tag) -> Result<(), WriteError> {
        self.write(["store.delete.before", "store.delete.after"], key, || {
            self.0.delete_if_match(key, tag)
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, ReadError> {
        fault::point("store.get.before", || format!("{}…", fault::steady(prefix)))
            .ok()
            .map_err(|error| ReadError::List {
                store: self.describe(),
                prefix: prefix.to_owned(),
                source: Box::new(error),
            })?;
        self.0.list(prefix)
    }

    fn get_body(&self, key: &Key) -> Result<Option<VersionedBody>, ReadError> {
        self.reading(key)?;
        self.0.get_body(key)
    }

    fn get_start(&self, key: &Key, n_bytes: usize) -> Result<Option<Vec<u8>>, ReadError> {
        self.reading(key)?;
        self.0.get_start(key, n_bytes)
    }

    fn body_writer(&self) -> std::io::Result<BodyWriter> {
        self.0.body_writer()
    }

    fn put_body_if_absent(&self, key: &Key, head: &[u8], tail: &Body) -> Result<Tag, WriteError> {
        self.put(key, || self.0.put_body_if_absent(key, head, tail))
    }

    fn put_body_if_match(
        &self,
        key: &Key,
        head: &[u8],
        tail: &Body,
        tag: &Tag,
    ) -> Result<Tag, WriteError> {
        self.put(key, || self.0.put_body_if_match(key, head, tail, tag))
    }
}

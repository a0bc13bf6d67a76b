//! Stores of tests: one that can be missing or out of reach, and a process that can be cut at any write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cloud_store::Fault;
use store::{Key, MemoryStore, ReadError, Store, Tag, Versioned, WriteError};

/// How many writes a process still does before it is killed.
pub(super) type Life = Arc<AtomicUsize>;

/// A life without an end.
pub(super) fn forever() -> Life {
    Arc::new(AtomicUsize::new(usize::MAX))
}

/// A store as one process sees it.
pub(super) struct Seen {
    pub(super) inner: Arc<MemoryStore>,
    pub(super) life: Life,
    /// What the cloud says to everything.
    pub(super) says: Mutex<Option<Fault>>,
}

impl Seen {
    pub(super) fn of(inner: &Arc<MemoryStore>, life: &Life) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            life: Arc::clone(life),
            says: Mutex::new(None),
        })
    }

    pub(super) fn missing() -> Fault {
        Fault::BucketMissing {
            bucket: "S3 bucket `states`".to_owned(),
        }
    }

    fn fault(&self) -> Option<Fault> {
        let killed = || Fault::Unexpected {
            answer: "killed".to_owned(),
        };
        let said = self.says.lock().unwrap().clone();
        said.or_else(|| (self.life.load(Ordering::SeqCst) == 0).then(killed))
    }

    fn reads(&self, key: &Key) -> Result<(), ReadError> {
        match self.fault() {
            None => Ok(()),
            Some(fault) => Err(ReadError::Unreachable {
                store: self.describe(),
                key: key.clone(),
                source: Box::new(fault),
            }),
        }
    }

    fn writes(&self, key: &Key) -> Result<(), WriteError> {
        if let Some(fault) = self.fault() {
            return Err(WriteError::Unreachable {
                store: self.describe(),
                key: key.clone(),
                source: Box::new(fault),
            });
        }
        self.life.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Store for Seen {
    fn describe(&self) -> String {
        "S3 bucket `states`".to_owned()
    }

    fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.reads(key)?;
        self.inner.get(key)
    }

    fn put_if_absent(&self, key: &Key, body: &[u8]) -> Result<Tag, WriteError> {
        self.writes(key)?;
        self.inner.put_if_absent(key, body)
    }

    fn put_if_match(&self, key: &Key, body: &[u8], tag: &Tag) -> Result<Tag, WriteError> {
        self.writes(key)?;
        self.inner.put_if_match(key, body, tag)
    }

    fn delete_if_match(&self, key: &Key, tag: &Tag) -> Result<(), WriteError> {
        self.writes(key)?;
        self.inner.delete_if_match(key, tag)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, ReadError> {
        self.reads(&store::layout::target_json())?;
        self.inner.list(prefix)
    }
}

//! Reads and writes records and the head.

use std::borrow::Borrow;
use std::sync::Arc;

use phase_engine::RunId;
use serde::{Serialize, de::DeserializeOwned};
use store::{Key, Store, Tag, Versioned, WriteError, layout, settle};

use crate::{Head, Record, RecordError, Schema, TargetJson};

/// A value as it was read, with what the next conditional write of it needs.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    /// The value.
    pub value: T,
    pub(crate) bytes: Vec<u8>,
    pub(crate) tag: Tag,
}

impl<T> Loaded<T> {
    /// The same version, its value held by several at once.
    pub(crate) fn shared(self) -> Loaded<Arc<T>> {
        Loaded {
            value: Arc::new(self.value),
            bytes: self.bytes,
            tag: self.tag,
        }
    }
}

/// One run in a list.
#[derive(Debug)]
pub struct Listed {
    /// The run.
    pub run: RunId,
    /// Its record, or why it can't be read: it harms no other.
    pub record: Result<Record, RecordError>,
}

/// The records and the head of one target.
#[derive(Clone)]
pub struct RecordStore {
    pub(crate) store: Arc<dyn Store>,
}

impl RecordStore {
    /// Uses a target's store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Says which store this is, for messages.
    pub fn describe(&self) -> String {
        self.store.describe()
    }

    pub(crate) fn read(&self, key: &Key) -> Result<Option<Versioned>, RecordError> {
        self.store.get(key).map_err(|source| RecordError::Read {
            key: key.clone(),
            source,
        })
    }

    fn load<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<Loaded<T>>, RecordError> {
        let Some(Versioned { bytes, tag }) = self.read(key)? else {
            return Ok(None);
        };
        let value = decode(key, &bytes)?;
        Ok(Some(Loaded { value, bytes, tag }))
    }

    /// Reads `target.json`.
    pub fn target(&self) -> Result<Option<Loaded<TargetJson>>, RecordError> {
        self.load(&layout::target_json())
    }

    /// Writes `target.json`, where there is none.
    pub fn create_target(&self, target: &TargetJson) -> Result<Loaded<TargetJson>, RecordError> {
        self.create(&layout::target_json(), target.clone())
    }

    /// Replaces `target.json`.
    pub fn replace_target(
        &self,
        target: &mut Loaded<TargetJson>,
        value: TargetJson,
    ) -> Result<(), RecordError> {
        self.replace::<TargetJson, _>(&layout::target_json(), target, value)
    }

    /// Reads the head; a target that has had no run has none.
    pub fn head(&self) -> Result<Option<Loaded<Head>>, RecordError> {
        self.load(&layout::head())
    }

    /// Reads the record of a run.
    pub fn record(&self, run: &RunId) -> Result<Option<Loaded<Record>>, RecordError> {
        let key = key_of(run)?;
        let loaded: Option<Loaded<Record>> = self.load(&key)?;
        match loaded {
            Some(loaded) if loaded.value.run != *run => Err(RecordError::Mismatch {
                key,
                found: loaded.value.run,
            }),
            loaded => Ok(loaded),
        }
    }

    /// Reads the record of the run that the head points to.
    pub fn current(&self) -> Result<Option<Loaded<Record>>, RecordError> {
        let Some(run) = self.head()?.and_then(|head| head.value.current) else {
            return Ok(None);
        };
        self.record(&run)?
            .map(Some)
            .ok_or(RecordError::Missing { run })
    }

    /// Gives the last run that came to be finished.
    ///
    /// A finished run counts from the moment that its record says so, even where the call was cut
    /// before the head said it too.
    pub fn last_known_good(&self) -> Result<Option<RunId>, RecordError> {
        let Some(head) = self.head()? else {
            return Ok(None);
        };
        if let Some(run) = &head.value.current
            && let Some(record) = self.record(run)?
            && record.value.finished.is_some()
        {
            return Ok(Some(run.clone()));
        }
        Ok(head.value.last_known_good)
    }

    /// Lists the runs, the newest first.
    ///
    /// A damaged record is listed as that. A record that the head never came to point to was never
    /// begun, and is not listed.
    pub fn list(&self) -> Result<Vec<Listed>, RecordError> {
        let keys = self
            .store
            .list(layout::RUNS)
            .map_err(|source| RecordError::List { source })?;
        let named = keys.iter().filter_map(layout::run_of_record);
        let mut runs: Vec<RunId> = named.filter_map(|run| RunId::new(run).ok()).collect();
        runs.sort();
        runs.reverse();
        let mut next = self.head()?.and_then(|head| head.value.current);
        if next.is_none() {
            return Ok(Vec::new());
        }
        let mut listed = Vec::new();
        for run in runs {
            // Newer than the one that is due: the head never came to point to it.
            if next.as_ref().is_some_and(|next| run > *next) {
                continue;
            }
            let record = self.record(&run).and_then(|loaded| {
                let loaded = loaded.ok_or_else(|| RecordError::Missing { run: run.clone() })?;
                Ok(loaded.value)
            });
            // After one that can't be read, nobody knows which was before it: each one counts.
            let previous = record.as_ref().ok().map(|record| record.previous.clone());
            let is_first = previous == Some(None);
            next = previous.flatten();
            listed.push(Listed { run, record });
            if is_first {
                break;
            }
        }
        Ok(listed)
    }

    /// Lists what is in an archive, the newest first: it has no head, and may hold records of several targets.
    pub fn archived(&self) -> Result<Vec<Listed>, RecordError> {
        let keys = self
            .store
            .list(layout::RUNS)
            .map_err(|source| RecordError::List { source })?;
        let named = keys.iter().filter_map(layout::run_of_record);
        let mut runs: Vec<RunId> = named.filter_map(|run| RunId::new(run).ok()).collect();
        runs.sort();
        runs.reverse();
        let read = |run: RunId| {
            let record = self.record(&run).and_then(|loaded| {
                let loaded = loaded.ok_or_else(|| RecordError::Missing { run: run.clone() })?;
                Ok(loaded.value)
            });
            Listed { run, record }
        };
        Ok(runs.into_iter().map(read).collect())
    }

    /// Begins a run: its record first, then the head. Cut in between, it was never begun.
    pub fn begin(
        &self,
        record: Record,
        head: &mut Option<Loaded<Head>>,
    ) -> Result<Loaded<Record>, RecordError> {
        let record = self.create(&key_of(&record.run)?, record)?;
        let before = head.as_ref().map(|head| &head.value);
        let value = Head {
            current: Some(record.value.run.clone()),
            fence: record.value.fence,
            ..before
                .cloned()
                .unwrap_or_else(|| Head::empty(record.value.fence))
        };
        match head {
            Some(head) => self.replace::<Head, _>(&layout::head(), head, value)?,
            None => *head = Some(self.create(&layout::head(), value)?),
        }
        Ok(record)
    }

    /// Replaces a record.
    pub fn save<R: Borrow<Record>>(
        &self,
        record: &mut Loaded<R>,
        value: R,
    ) -> Result<(), RecordError> {
        self.replace::<Record, R>(&key_of(&value.borrow().run)?, record, value)
    }

    /// Replaces the head.
    pub fn save_head(&self, head: &mut Loaded<Head>, value: Head) -> Result<(), RecordError> {
        self.replace::<Head, _>(&layout::head(), head, value)
    }

    /// Copies an ended run's record into an archive, over an older copy of it.
    pub fn archive(&self, run: &RunId, archive: &Self) -> Result<(), RecordError> {
        let key = key_of(run)?;
        let Some(record) = self.read(&key)? else {
            return Err(RecordError::Missing { run: run.clone() });
        };
        let written = match archive.read(&key)? {
            Some(copy) if copy.bytes == record.bytes => return Ok(()),
            Some(copy) => settle::put_if_match(&*archive.store, &key, &record.bytes, &copy.tag),
            None => settle::put_if_absent(&*archive.store, &key, &record.bytes),
        };
        written
            .map(|_| ())
            .map_err(|source| RecordError::Write { key, source })
    }

    fn create<T: Serialize>(&self, key: &Key, value: T) -> Result<Loaded<T>, RecordError> {
        let bytes = encode(key, &value)?;
        match settle::put_if_absent(&*self.store, key, &bytes) {
            Ok(tag) => Ok(Loaded { value, bytes, tag }),
            Err(source) => Err(refused(key, source)),
        }
    }

    fn replace<V: Serialize, T: Borrow<V>>(
        &self,
        key: &Key,
        loaded: &mut Loaded<T>,
        value: T,
    ) -> Result<(), RecordError> {
        let bytes = encode(key, value.borrow())?;
        let mut written = settle::put_if_match(&*self.store, key, &bytes, &loaded.tag);
        if written.as_ref().is_err_and(WriteError::is_conflict)
            && let Some(now) = self.read(key)?
            && now.bytes == loaded.bytes
        {
            // The same version under another tag: the store was moved, byte for byte. Had someone
            // else taken the lock, the fence within would differ.
            written = settle::put_if_match(&*self.store, key, &bytes, &now.tag);
        }
        match written {
            Ok(tag) => {
                *loaded = Loaded { value, bytes, tag };
                Ok(())
            }
            Err(source) => Err(refused(key, source)),
        }
    }
}

fn refused(key: &Key, source: WriteError) -> RecordError {
    let key = key.clone();
    if source.is_conflict() {
        RecordError::LockLost { key, source }
    } else {
        RecordError::Write { key, source }
    }
}

pub(crate) fn key_of(run: &RunId) -> Result<Key, RecordError> {
    layout::record(run.as_str()).map_err(|source| RecordError::Key { source })
}

/// Turns a value into the bytes that are stored: readable, with a line end.
fn encode<T: Serialize>(key: &Key, value: &T) -> Result<Vec<u8>, RecordError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|source| RecordError::Encode {
        key: key.clone(),
        source,
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a value, after its schema version was looked at: a newer one is refused, not misread.
fn decode<T: DeserializeOwned>(key: &Key, bytes: &[u8]) -> Result<T, RecordError> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        schema: Schema,
    }
    let damaged = |source| RecordError::Damaged {
        key: key.clone(),
        source,
    };
    let versioned: Versioned = serde_json::from_slice(bytes).map_err(damaged)?;
    let readable = versioned.schema.readable();
    readable.map_err(|source| RecordError::Newer {
        key: key.clone(),
        source,
    })?;
    serde_json::from_slice(bytes).map_err(damaged)
}

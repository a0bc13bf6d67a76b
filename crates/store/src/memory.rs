//! The store of tests: a map in memory, with faults on demand.

use crate::{Key, ReadError, Store, Tag, Versioned, WriteError};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// What is asked of a [`MemoryStore`], as its hook sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Which method was called.
    pub kind: OperationKind,
    /// The key, or the prefix of a list.
    pub key: String,
    /// How many operations of any kind came before, from 0.
    pub n_before: usize,
    /// How many writes and deletes came before, from 0.
    pub n_writes_before: usize,
}

/// The methods of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// [`Store::get`].
    Get,
    /// [`Store::put_if_absent`].
    PutIfAbsent,
    /// [`Store::put_if_match`].
    PutIfMatch,
    /// [`Store::delete_if_match`].
    DeleteIfMatch,
    /// [`Store::list`].
    List,
}

impl OperationKind {
    /// Whether it may change a value.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Get | Self::List)
    }
}

/// What a hook does to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is not done, and the answer is that the store can't be reached.
    Fail,
    /// It is done, and the answer is that the store can't be reached.
    LoseAnswer,
}

type Hook = Box<dyn FnMut(&Operation) -> Fault + Send>;

#[derive(Default)]
struct Inner {
    values: BTreeMap<Key, Vec<u8>>,
    n_operations: usize,
    n_writes: usize,
    /// The thread in which the hook runs just now.
    in_hook: Option<ThreadId>,
}

/// A [`Store`] in memory.
#[derive(Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
    hook: Mutex<Option<Hook>>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// An empty store without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks `hook` about every operation before it is done.
    ///
    /// The hook may itself use the store, to change a value between two steps of the code under
    /// test; its own operations are not asked about. It must not set another hook.
    pub fn on_operation(&self, hook: impl FnMut(&Operation) -> Fault + Send + 'static) {
        *self.hook() = Some(Box::new(hook));
    }

    /// Takes every fault away.
    pub fn heal(&self) {
        *self.hook() = None;
    }

    /// Gives the `nth` write from now (1 is the next) a fault, and only that one.
    pub fn fault_on_write(&self, nth: usize, fault: Fault) {
        let at = self.n_writes() + nth;
        self.on_operation(move |operation| {
            let is_it = operation.kind.writes() && operation.n_writes_before + 1 == at;
            if is_it { fault } else { Fault::None }
        });
    }

    /// Lets the `nth` write from now (1 is the next) and everything after it fail.
    pub fn fail_from_write(&self, nth: usize) {
        let at = self.n_writes() + nth;
        let mut cut = false;
        self.on_operation(move |operation| {
            cut |= operation.kind.writes() && operation.n_writes_before + 1 >= at;
            if cut { Fault::Fail } else { Fault::None }
        });
    }

    /// How many writes and deletes were asked for, done or not.
    pub fn n_writes(&self) -> usize {
        self.locked().n_writes
    }

    /// Sets a value whatever is there; no fault touches it.
    pub fn set(&self, key: &Key, body: impl Into<Vec<u8>>) {
        self.locked().values.insert(key.clone(), body.into());
    }

    /// Removes a value whatever it is; no fault touches it.
    pub fn remove(&self, key: &Key) {
        self.locked().values.remove(key);
    }

    fn hook(&self) -> MutexGuard<'_, Option<Hook>> {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self, kind: OperationKind, key: &str) -> Fault {
        let this = std::thread::current().id();
        if self.locked().in_hook == Some(this) {
            return Fault::None;
        }
        // Held while the hook runs, so that no operation of another thread slips past it.
        let mut hook = self.hook();
        let operation = {
            let mut inner = self.locked();
            let operation = Operation {
                kind,
                key: key.to_owned(),
                n_before: inner.n_operations,
                n_writes_before: inner.n_writes,
            };
            inner.n_operations += 1;
            inner.n_writes += usize::from(kind.writes());
            inner.in_hook = Some(this);
            operation
        };
        let fault = hook.as_mut().map_or(Fault::None, |hook| hook(&operation));
        self.locked().in_hook = None;
        fault
    }

    fn write(
        &self,
        kind: OperationKind,
        key: &Key,
        change: impl FnOnce(&mut BTreeMap<Key, Vec<u8>>) -> Option<Tag>,
    ) -> Result<Tag, WriteError> {
        let fault = self.asked(kind, key.as_str());
        let unreachable = || WriteError::Unreachable {
            store: self.describe(),
            key: key.clone(),
            source: "a fault of the test".into(),
        };
        if fault == Fault::Fail {
            return Err(unreachable());
        }
        let done = change(&mut self.locked().values);
        match (done, fault) {
            (Some(tag), Fault::None) => Ok(tag),
            (None, Fault::None) => Err(WriteError::Conflict {
                store: self.describe(),
                key: key.clone(),
            }),
            (_, Fault::LoseAnswer | Fault::Fail) => Err(unreachable()),
        }
    }
}

impl Store for MemoryStore {
    fn describe(&self) -> String {
        "the store in memory".to_owned()
    }

    fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        if self.asked(OperationKind::Get, key.as_str()) != Fault::None {
            return Err(ReadError::Unreachable {
                store: self.describe(),
                key: key.clone(),
                source: "a fault of the test".into(),
            });
        }
        let bytes = self.locked().values.get(key).cloned();
        Ok(bytes.map(|bytes| Versioned {
            tag: Tag::of(&bytes),
            bytes,
        }))
    }

    fn put_if_absent(&self, key: &Key, body: &[u8]) -> Result<Tag, WriteError> {
        self.write(OperationKind::PutIfAbsent, key, |values| {
            if values.contains_key(key) {
                return None;
            }
            values.insert(key.clone(), body.to_vec());
            Some(Tag::of(body))
        })
    }

    fn put_if_match(&self, key: &Key, body: &[u8], tag: &Tag) -> Result<Tag, WriteError> {
        self.write(OperationKind::PutIfMatch, key, |values| {
            let value = values.get_mut(key).filter(|value| Tag::of(value) == *tag)?;
            *value = body.to_vec();
            Some(Tag::of(body))
        })
    }

    fn delete_if_match(&self, key: &Key, tag: &Tag) -> Result<(), WriteError> {
        self.write(OperationKind::DeleteIfMatch, key, |values| {
            let gone = values
                .get(key)
                .filter(|value| Tag::of(value) == *tag)
                .map(|value| Tag::of(value))?;
            values.remove(key);
            Some(gone)
        })
        .map(drop)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, ReadError> {
        if self.asked(OperationKind::List, prefix) != Fault::None {
            return Err(ReadError::List {
                store: self.describe(),
                prefix: prefix.to_owned(),
                source: "a fault of the test".into(),
            });
        }
        let inner = self.locked();
        Ok(inner
            .values
            .keys()
            .filter(|key| key.as_str().starts_with(prefix))
            .cloned()
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_memory_store_holds_the_contract() {
        crate::contract::check(&|| Arc::new(MemoryStore::new()));
        crate::contract::one_of_many_replaces(Arc::new(MemoryStore::new()), 50, 10);
        crate::contract::one_of_many_creates(Arc::new(MemoryStore::new()), 50, 5);
    }

    #[test]
    fn everything_after_a_cut_fails() {
        let store = MemoryStore::new();
        store.fail_from_write(2);
        let (first, second) = (Key::fixed("a"), Key::fixed("b"));
        store.put_if_absent(&first, b"1").unwrap();
        assert!(store.get(&first).is_ok());
        assert!(store.put_if_absent(&second, b"1").is_err());
        assert!(store.get(&first).is_err());
        store.heal();
        assert!(store.get(&second).unwrap().is_none());
    }

    #[test]
    fn a_hook_may_change_a_value_in_between() {
        let store = Arc::new(MemoryStore::new());
        let key = Key::fixed("a");
        let tag = store.put_if_absent(&key, b"1").unwrap();
        let other = Arc::downgrade(&store);
        let changed = key.clone();
        store.on_operation(move |operation| {
            if operation.kind == OperationKind::PutIfMatch
                && let Some(store) = other.upgrade()
            {
                store.set(&changed, "2");
            }
            Fault::None
        });
        assert!(
            store
                .put_if_match(&key, b"3", &tag)
                .unwrap_err()
                .is_conflict()
        );
    }
}

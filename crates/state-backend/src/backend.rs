//! The rules: who may read, write and lock a state. No HTTP here.

use crate::versions::Ages;
use crate::{BackendError, LockInfo, Names, StateLock};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use store::lock::Hold;
use store::{
    Body, Key, StateHeader, Store, Tag, VersionedBody, Writer, layout, settle, state_file,
};

/// Asked before each write whether the target's lock is still held.
pub type Guard = Arc<dyn Fn() -> Hold + Send + Sync>;

/// How often a write is tried again that met another writer's.
const MAX_TRIES: usize = 10;
/// How many ids of released locks are remembered for each state, for UNLOCKs that are repeated.
const N_RELEASED: usize = 16;

/// A state with its header.
#[derive(Clone, PartialEq, Eq)]
pub struct StateFile {
    /// Who wrote it, its lineage, serial and digest.
    pub header: StateHeader,
    /// OpenTofu's bytes, encrypted where the target is.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for StateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A state may hold secrets.
        f.debug_struct("StateFile")
            .field("header", &self.header)
            .field("n_bytes", &self.bytes.len())
            .finish()
    }
}

/// A state with its header, which need not fit into memory.
#[derive(Debug, Clone)]
pub struct StateBody {
    /// Who wrote it, its lineage, serial and digest.
    pub header: StateHeader,
    /// OpenTofu's bytes, encrypted where the target is.
    pub bytes: Body,
}

impl StateBody {
    pub(crate) fn decode(key: &Key, body: &Body) -> Result<Self, BackendError> {
        match state_file::decode_body(body) {
            Ok((header, bytes)) => Ok(Self { header, bytes }),
            Err(source) => Err(BackendError::Damaged {
                key: key.to_string(),
                source,
            }),
        }
    }

    pub(crate) fn into_file(self, key: &Key) -> Result<StateFile, BackendError> {
        let bytes = self
            .bytes
            .to_vec()
            .map_err(|source| BackendError::Damaged {
                key: key.to_string(),
                source: state_file::StateFileError::Unreadable(source),
            })?;
        Ok(StateFile {
            header: self.header,
            bytes,
        })
    }
}

/// The state that is there.
pub(crate) struct Current {
    pub(crate) state: StateBody,
    /// The whole value, with the header.
    pub(crate) value: Body,
    pub(crate) tag: Tag,
}

/// What the record knows of a state: it must be there, as this or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// Its lineage; empty where the record knows none.
    pub lineage: String,
    /// Its serial.
    pub serial: u64,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It was done.
    New,
    /// The very same was there.
    Already,
}

/// The states of one target.
pub struct StateBackend {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) names: Names,
    fence: u64,
    writer: Writer,
    guard: Guard,
    released: Mutex<HashMap<String, VecDeque<String>>>,
    pub(crate) ages: Mutex<Ages>,
}

impl fmt::Debug for StateBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateBackend")
            .field("store", &self.store.describe())
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

/// By what right a state is changed.
#[derive(Clone, Copy)]
enum Right<'a> {
    /// The id of the state's lock, as a request names it.
    Lock(Option<&'a str>),
    /// This process holds the target's lock and no OpenTofu runs on the state.
    Unlocked,
}

impl StateBackend {
    /// The states in `store`, written by `writer` under the fencing number `fence` while `guard`
    /// says that the target's lock is held.
    pub fn new(store: Arc<dyn Store>, fence: u64, writer: Writer, guard: Guard) -> Self {
        Self {
            store,
            names: Names::Steps,
            fence,
            writer,
            guard,
            released: Mutex::default(),
            ages: Mutex::default(),
        }
    }

    /// The same states, found by `names`.
    #[must_use]
    pub fn named(self, names: Names) -> Self {
        Self { names, ..self }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Reads a step's state; `None` where there is none.
    ///
    /// # Errors
    /// Where the store can't be read, or the state is damaged.
    pub fn read_state(&self, step_key: &str) -> Result<Option<StateFile>, BackendError> {
        let key = self.names.state(step_key)?;
        let found = self.read_body(step_key)?;
        found.map(|state| state.into_file(&key)).transpose()
    }

    /// [`read_state`](Self::read_state) of a state that need not fit into memory.
    ///
    /// # Errors
    /// As [`read_state`](Self::read_state).
    pub fn read_body(&self, step_key: &str) -> Result<Option<StateBody>, BackendError> {
        Ok(self.current(step_key)?.map(|current| current.state))
    }

    /// Reads the header of a step's state alone; nothing is checked against its digest.
    ///
    /// # Errors
    /// As [`read_state`](Self::read_state).
    pub fn read_header(&self, step_key: &str) -> Result<Option<StateHeader>, BackendError> {
        self.header_at(&self.names.state(step_key)?)
    }

    /// Reads a step's state that must be there.
    ///
    /// # Errors
    /// [`BackendError::Lost`] and [`BackendError::NotTheRecorded`] besides those of
    /// [`read_state`](Self::read_state).
    pub fn read_demanded(
        &self,
        step_key: &str,
        demand: &Demand,
    ) -> Result<StateBody, BackendError> {
        let step = step_key.to_owned();
        let Some(file) = self.read_body(step_key)? else {
            return Err(BackendError::Lost {
                step,
                serial: demand.serial,
            });
        };
        let StateHeader {
            lineage, serial, ..
        } = &file.header;
        let is_of_lineage = demand.lineage.is_empty() || demand.lineage == *lineage;
        if !is_of_lineage || *serial < demand.serial {
            return Err(BackendError::NotTheRecorded {
                step,
                lineage: demand.lineage.clone(),
                serial: demand.serial,
                found_lineage: lineage.clone(),
                found_serial: *serial,
            });
        }
        Ok(file)
    }

    /// Writes a state for the holder of the lock `lock_id`.
    ///
    /// # Errors
    /// Where the lock is not held, and for another lineage, an older serial, or other bytes of the
    /// serial that is there. An empty lineage may become a set one.
    pub fn write_state(
        &self,
        step_key: &str,
        bytes: &[u8],
        lock_id: Option<&str>,
    ) -> Result<Written, BackendError> {
        self.write_body(step_key, &Body::from(bytes.to_vec()), lock_id)
    }

    /// [`write_state`](Self::write_state) of a state that need not fit into memory.
    ///
    /// # Errors
    /// As [`write_state`](Self::write_state).
    pub fn write_body(
        &self,
        step_key: &str,
        bytes: &Body,
        lock_id: Option<&str>,
    ) -> Result<Written, BackendError> {
        self.write(step_key, bytes, Right::Lock(lock_id), follows)
    }

    /// Puts a state in the place of the one that is there, for the holder of the lock `lock_id`: an older serial
    /// too, and another lineage where `lineage` names it. What it replaces goes to the versions.
    ///
    /// # Errors
    /// Where the lock is not held, and [`BackendError::Lineage`] where the state is of another lineage than the
    /// one that is there and than `lineage`.
    pub fn restore(
        &self,
        step_key: &str,
        bytes: &Body,
        lock_id: Option<&str>,
        lineage: &str,
    ) -> Result<Written, BackendError> {
        self.write(
            step_key,
            bytes,
            Right::Lock(lock_id),
            |step, stored, offered| {
                if offered.lineage != stored.lineage && offered.lineage != lineage {
                    return Err(other_lineage(step, stored, offered));
                }
                Ok(if offered.digest == stored.digest {
                    Written::Already
                } else {
                    Written::New
                })
            },
        )
    }

    /// Writes what was rescued (an `errored.tfstate`), byte for byte, where no lock is held.
    ///
    /// # Errors
    /// As [`write_state`](Self::write_state); [`BackendError::Locked`] where the state is locked.
    pub fn write_rescued(&self, step_key: &str, bytes: &[u8]) -> Result<Written, BackendError> {
        self.write(
            step_key,
            &Body::from(bytes.to_vec()),
            Right::Unlocked,
            follows,
        )
    }

    /// Moves a state to its versions for the holder of the lock `lock_id`; none is no error.
    ///
    /// # Errors
    /// Where the lock is not held, or the store fails.
    pub fn delete_state(&self, step_key: &str, lock_id: Option<&str>) -> Result<(), BackendError> {
        self.delete(step_key, Right::Lock(lock_id)).map(drop)
    }

    /// Moves the state of a step that is proven gone to its versions; `false` where there is none.
    ///
    /// # Errors
    /// [`BackendError::Locked`] where the state is locked; where the store fails.
    pub fn retire(&self, step_key: &str) -> Result<bool, BackendError> {
        self.delete(step_key, Right::Unlocked)
    }

    /// The steps that have a state, as step keys.
    ///
    /// # Errors
    /// Where the store can't be read.
    pub fn list_states(&self) -> Result<Vec<String>, BackendError> {
        self.list_states_from(layout::STATES)
    }

    /// [`list_states`](Self::list_states) of one phase, whose states alone are looked for.
    ///
    /// # Errors
    /// Where the store can't be read.
    pub fn list_states_of(&self, phase: &str) -> Result<Vec<String>, BackendError> {
        self.list_states_from(&format!("{}{phase}/", layout::STATES))
    }

    fn list_states_from(&self, prefix: &str) -> Result<Vec<String>, BackendError> {
        let keys = self.store.list(prefix)?;
        let paths = keys.iter().filter_map(|key| self.names.path_of_state(key));
        Ok(paths.collect())
    }

    /// The workspaces that have a state, by name; the steps of a target know nothing of them.
    ///
    /// # Errors
    /// Where the store can't be read.
    pub fn list_workspaces(&self) -> Result<Vec<String>, BackendError> {
        let keys = self.store.list(layout::WORKSPACES)?;
        let names = keys.iter().filter_map(layout::workspace_of_state);
        Ok(names.map(ToOwned::to_owned).collect())
    }

    /// The steps whose state is locked, as step keys.
    ///
    /// # Errors
    /// Where the store can't be read.
    pub fn list_locks(&self) -> Result<Vec<String>, BackendError> {
        let keys = self.store.list(layout::STATE_LOCKS)?;
        let paths = keys.iter().filter_map(|key| self.names.path_of_lock(key));
        Ok(paths.collect())
    }

    /// Takes a state's lock; taking it again with the same id changes nothing.
    ///
    /// # Errors
    /// [`BackendError::Locked`] where another holds it.
    pub fn lock(&self, step_key: &str, info: &LockInfo) -> Result<(), BackendError> {
        let key = self.names.lock(step_key)?;
        let lock = StateLock::new(self.fence, self.writer.clone(), info.clone());
        let damaged = |source| BackendError::DamagedLock {
            step: step_key.to_owned(),
            source,
        };
        let body = lock.encode().map_err(damaged)?;
        for _ in 0..MAX_TRIES {
            self.guarded()?;
            match settle::put_if_absent(&*self.store, &key, &body) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
            // Gone again since: one more try.
            let Some((found, _)) = self.current_lock(step_key)? else {
                continue;
            };
            if found.info.id == info.id {
                return Ok(());
            }
            return Err(BackendError::Locked {
                step: step_key.to_owned(),
                lock: Box::new(found),
            });
        }
        Err(BackendError::Contended {
            step: step_key.to_owned(),
        })
    }

    /// Releases a state's lock; releasing it again changes nothing.
    ///
    /// # Errors
    /// [`BackendError::Locked`] where another holds it, [`BackendError::UnknownLock`] where nobody
    /// does and this id is none of the last that were released.
    pub fn unlock(&self, step_key: &str, id: &str) -> Result<(), BackendError> {
        let key = self.names.lock(step_key)?;
        let step = || step_key.to_owned();
        for _ in 0..MAX_TRIES {
            let Some((found, tag)) = self.current_lock(step_key)? else {
                return if self.was_released(step_key, id)? {
                    Ok(())
                } else {
                    Err(BackendError::UnknownLock {
                        step: step(),
                        id: id.to_owned(),
                    })
                };
            };
            if found.info.id != id {
                return Err(BackendError::Locked {
                    step: step(),
                    lock: Box::new(found),
                });
            }
            self.guarded()?;
            // Before it is gone: whoever asks again, of whatever process, is told the same.
            self.note_released(step_key, id)?;
            self.guarded()?;
            match settle::delete_if_match(&*self.store, &key, &tag) {
                Ok(()) => {
                    self.remember_released(step_key, id);
                    return Ok(());
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BackendError::Contended { step: step() })
    }

    /// The lock of a step's state; `None` where it is not locked.
    ///
    /// # Errors
    /// Where the store or the lock can't be read.
    pub fn lock_of(&self, step_key: &str) -> Result<Option<StateLock>, BackendError> {
        self.read_lock(step_key)
            .map(|found| found.map(|(lock, _)| lock))
    }

    /// Releases a state's lock if `is_dead` proves that it was taken in a call that is dead, with
    /// everything that call has started. Gives the lock that was released.
    ///
    /// # Errors
    /// Where the store or the lock can't be read or written.
    pub fn release_lock_of_dead(
        &self,
        step_key: &str,
        is_dead: &dyn Fn(&Writer) -> bool,
    ) -> Result<Option<StateLock>, BackendError> {
        let key = self.names.lock(step_key)?;
        for _ in 0..MAX_TRIES {
            let Some((found, tag)) = self.current_lock(step_key)? else {
                return Ok(None);
            };
            if !is_dead(&found.writer) {
                return Ok(None);
            }
            self.guarded()?;
            match settle::delete_if_match(&*self.store, &key, &tag) {
                Ok(()) => return Ok(Some(found)),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BackendError::Contended {
            step: step_key.to_owned(),
        })
    }

    /// Releases every state's lock of which `is_dead` proves as [`release_lock_of_dead`](Self::release_lock_of_dead)
    /// wants it. Gives the steps.
    ///
    /// # Errors
    /// Where the store or a lock can't be read or written.
    pub fn release_locks_of_dead(
        &self,
        is_dead: &dyn Fn(&Writer) -> bool,
    ) -> Result<Vec<String>, BackendError> {
        let mut released = Vec::new();
        for step_key in self.list_locks()? {
            if self.release_lock_of_dead(&step_key, is_dead)?.is_some() {
                released.push(step_key);
            }
        }
        Ok(released)
    }

    fn write(
        &self,
        step_key: &str,
        bytes: &Body,
        right: Right<'_>,
        may_follow: impl Fn(&str, &StateHeader, &StateHeader) -> Result<Written, BackendError>,
    ) -> Result<Written, BackendError> {
        let key = self.names.state(step_key)?;
        let not_a_state = |source| BackendError::NotAState {
            step: step_key.to_owned(),
            source,
        };
        let header =
            StateHeader::of_body(bytes, self.writer.clone(), self.fence).map_err(not_a_state)?;
        let line = state_file::line(&header).map_err(not_a_state)?;
        for _ in 0..MAX_TRIES {
            self.allowed(step_key, right)?;
            let current = self.current(step_key)?;
            let done = match &current {
                None => {
                    self.guarded()?;
                    settle::put_body_if_absent(&*self.store, &key, &line, bytes)
                }
                Some(current) => {
                    let stored = &current.state.header;
                    self.not_fenced_off(stored.fence)?;
                    if may_follow(step_key, stored, &header)? == Written::Already {
                        return Ok(Written::Already);
                    }
                    self.guarded()?;
                    self.keep(step_key, current)?;
                    self.guarded()?;
                    settle::put_body_if_match(&*self.store, &key, &line, bytes, &current.tag)
                }
            };
            match done {
                Ok(_) => {
                    if current.is_some() {
                        self.prune(step_key);
                    }
                    return Ok(Written::New);
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BackendError::Contended {
            step: step_key.to_owned(),
        })
    }

    fn delete(&self, step_key: &str, right: Right<'_>) -> Result<bool, BackendError> {
        let key = self.names.state(step_key)?;
        for _ in 0..MAX_TRIES {
            self.allowed(step_key, right)?;
            let Some(current) = self.current(step_key)? else {
                return Ok(false);
            };
            self.not_fenced_off(current.state.header.fence)?;
            self.guarded()?;
            self.keep(step_key, &current)?;
            self.guarded()?;
            match settle::delete_if_match(&*self.store, &key, &current.tag) {
                Ok(()) => {
                    self.prune(step_key);
                    return Ok(true);
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BackendError::Contended {
            step: step_key.to_owned(),
        })
    }

    /// Refuses a change by anyone but the holder of the state's lock.
    fn allowed(&self, step_key: &str, right: Right<'_>) -> Result<(), BackendError> {
        let step = step_key.to_owned();
        match (self.current_lock(step_key)?, right) {
            (None, Right::Unlocked) => Ok(()),
            (None, Right::Lock(_)) => Err(BackendError::NotLocked { step }),
            (Some((found, _)), Right::Lock(Some(id))) if found.info.id == id => Ok(()),
            (Some((found, _)), _) => Err(BackendError::Locked {
                step,
                lock: Box::new(found),
            }),
        }
    }

    /// Refuses a write while the target's lock is not held.
    fn guarded(&self) -> Result<(), BackendError> {
        match (self.guard)() {
            Hold::Held => Ok(()),
            Hold::Lost => Err(BackendError::LockLost),
            Hold::Unsure => Err(BackendError::LockUnsure),
        }
    }

    /// A value of a higher number was taken over: the lock is lost, whatever the guard says.
    fn not_fenced_off(&self, found: u64) -> Result<(), BackendError> {
        if found > self.fence {
            Err(BackendError::LockLost)
        } else {
            Ok(())
        }
    }

    fn current(&self, step_key: &str) -> Result<Option<Current>, BackendError> {
        let key = self.names.state(step_key)?;
        let Some(VersionedBody { body: value, tag }) = self.store.get_body(&key)? else {
            return Ok(None);
        };
        Ok(Some(Current {
            state: StateBody::decode(&key, &value)?,
            value,
            tag,
        }))
    }

    pub(crate) fn header_at(&self, key: &Key) -> Result<Option<StateHeader>, BackendError> {
        let Some(start) = self.store.get_start(key, state_file::MAX_HEADER)? else {
            return Ok(None);
        };
        match state_file::header_at_start(&start) {
            Ok((header, _)) => Ok(Some(header)),
            Err(source) => Err(BackendError::Damaged {
                key: key.to_string(),
                source,
            }),
        }
    }

    fn read_lock(&self, step_key: &str) -> Result<Option<(StateLock, Tag)>, BackendError> {
        let Some(value) = self.store.get(&self.names.lock(step_key)?)? else {
            return Ok(None);
        };
        match StateLock::decode(&value.bytes) {
            Ok(lock) => Ok(Some((lock, value.tag))),
            Err(source) => Err(BackendError::DamagedLock {
                step: step_key.to_owned(),
                source,
            }),
        }
    }

    /// The lock that is there, for a caller that means to act on it.
    fn current_lock(&self, step_key: &str) -> Result<Option<(StateLock, Tag)>, BackendError> {
        let found = self.read_lock(step_key)?;
        if let Some((lock, _)) = &found {
            self.not_fenced_off(lock.fence)?;
        }
        Ok(found)
    }

    fn was_released(&self, step_key: &str, id: &str) -> Result<bool, BackendError> {
        let is_known = {
            let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
            let ids = released.get(step_key);
            ids.is_some_and(|ids| ids.iter().any(|released| released == id))
        };
        if is_known {
            return Ok(true);
        }
        let Some(key) = self.names.released(step_key)? else {
            return Ok(false);
        };
        let found = self.store.get(&key)?;
        Ok(found.is_some_and(|found| ids_in(&found.bytes).iter().any(|released| released == id)))
    }

    fn remember_released(&self, step_key: &str, id: &str) {
        let mut released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        let ids = released.entry(step_key.to_owned()).or_default();
        put_last(ids, id);
    }

    /// Notes in the store that a lock is released, where more processes than this one may be asked.
    fn note_released(&self, step_key: &str, id: &str) -> Result<(), BackendError> {
        let Some(key) = self.names.released(step_key)? else {
            return Ok(());
        };
        for _ in 0..MAX_TRIES {
            let found = self.store.get(&key)?;
            let mut ids = found
                .as_ref()
                .map(|found| ids_in(&found.bytes))
                .unwrap_or_default();
            if ids.back().is_some_and(|last| last == id) {
                return Ok(());
            }
            put_last(&mut ids, id);
            let body = serde_json::json!({ "schema": 1, "ids": ids }).to_string();
            let noted = match &found {
                None => settle::put_if_absent(&*self.store, &key, body.as_bytes()),
                Some(found) => {
                    settle::put_if_match(&*self.store, &key, body.as_bytes(), &found.tag)
                }
            };
            match noted {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BackendError::Contended {
            step: step_key.to_owned(),
        })
    }
}

/// The ids of released locks, as they are kept. What can't be read is none: then a repeated UNLOCK is refused.
fn ids_in(bytes: &[u8]) -> VecDeque<String> {
    #[derive(serde::Deserialize)]
    struct Released {
        ids: VecDeque<String>,
    }
    let found = serde_json::from_slice::<Released>(bytes);
    found.map(|found| found.ids).unwrap_or_default()
}

/// Puts an id after the others, of which the last few are kept.
fn put_last(ids: &mut VecDeque<String>, id: &str) {
    ids.retain(|known| known != id);
    ids.push_back(id.to_owned());
    if ids.len() > N_RELEASED {
        ids.pop_front();
    }
}

/// Whether `offered` may replace `stored`, or is the same.
fn follows(
    step_key: &str,
    stored: &StateHeader,
    offered: &StateHeader,
) -> Result<Written, BackendError> {
    let step = || step_key.to_owned();
    let gets_lineage = stored.lineage.is_empty() && !offered.lineage.is_empty();
    if stored.lineage != offered.lineage && !gets_lineage {
        return Err(other_lineage(step_key, stored, offered));
    }
    if offered.serial < stored.serial {
        return Err(BackendError::OlderSerial {
            step: step(),
            stored: stored.serial,
            offered: offered.serial,
        });
    }
    if offered.serial > stored.serial || gets_lineage {
        return Ok(Written::New);
    }
    if offered.digest == stored.digest {
        return Ok(Written::Already);
    }
    Err(BackendError::SameSerial {
        step: step(),
        serial: stored.serial,
    })
}

fn other_lineage(step_key: &str, stored: &StateHeader, offered: &StateHeader) -> BackendError {
    BackendError::Lineage {
        step: step_key.to_owned(),
        stored: stored.lineage.clone(),
        offered: offered.lineage.clone(),
    }
}

#[cfg(test)]
mod tests;

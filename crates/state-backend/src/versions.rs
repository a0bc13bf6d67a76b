//! Earlier versions of a state: kept before a state is replaced, the last ones only.

use crate::{BackendError, StateBackend, StateFile};
use std::collections::HashMap;
use store::{Key, Versioned, layout, settle, state_file};

/// How many earlier versions of a state are kept.
pub const N_VERSIONS: usize = 20;

/// One earlier version of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Where it is.
    pub key: Key,
    /// Its serial.
    pub serial: u64,
    /// Tells apart those of one serial: a step that was built again counts from the start.
    pub copy: u32,
}

/// When a version was written: fencing numbers only rise, and serials do within one.
type Age = (u64, u64, u32);

/// The ages that were read, since versions never change.
pub(crate) type Ages = HashMap<Key, Age>;

impl Version {
    fn parse(key: Key) -> Option<Self> {
        let (_, number) = key.as_str().rsplit_once('@')?;
        let (serial, copy) = number.split_once('.').unwrap_or((number, "1"));
        let (serial, copy) = (serial.parse().ok()?, copy.parse().ok()?);
        Some(Self { key, serial, copy })
    }
}

impl StateBackend {
    /// The earlier versions of a step's state that are kept, by serial.
    ///
    /// # Errors
    /// Where the store can't be read.
    pub fn versions(&self, step_key: &str) -> Result<Vec<Version>, BackendError> {
        let prefix = format!("{}@", layout::state(step_key)?);
        let listed = self.store.list(&prefix)?;
        let mut versions: Vec<_> = listed.into_iter().filter_map(Version::parse).collect();
        versions.sort_by_key(|version| (version.serial, version.copy));
        Ok(versions)
    }

    /// Reads an earlier version; `None` where it is not kept any more.
    ///
    /// # Errors
    /// Where the store can't be read, or the version is damaged.
    pub fn read_version(&self, version: &Version) -> Result<Option<StateFile>, BackendError> {
        match self.store.get(&version.key)? {
            None => Ok(None),
            Some(value) => StateFile::decode(&version.key, &value.bytes).map(Some),
        }
    }

    /// Copies a step's state, as it is stored, to its versions.
    pub(crate) fn keep(
        &self,
        step_key: &str,
        file: &StateFile,
        value: &Versioned,
    ) -> Result<(), BackendError> {
        for copy in 1.. {
            let key = layout::state_version(step_key, file.header.serial, copy)?;
            match settle::put_if_absent(&*self.store, &key, &value.bytes) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
            // Kept already by a write that was cut after this, or another state of that serial.
            let is_same = self.store.get(&key)?.is_some_and(|kept| {
                state_file::decode(&kept.bytes)
                    .is_ok_and(|(kept, _)| kept.digest == file.header.digest)
            });
            if is_same {
                return Ok(());
            }
        }
        Err(BackendError::Contended {
            step: step_key.to_owned(),
        })
    }

    /// Removes the versions beyond the last ones. One too many does no harm, so a store that fails
    /// here fails nothing: the next write does it again.
    pub(crate) fn prune(&self, step_key: &str) {
        let _ = self.try_prune(step_key);
    }

    fn try_prune(&self, step_key: &str) -> Result<(), BackendError> {
        let mut versions = self.versions(step_key)?;
        let n_surplus = versions.len().saturating_sub(N_VERSIONS);
        if n_surplus == 0 {
            return Ok(());
        }
        let mut ages = self
            .ages
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for version in &versions {
            if !ages.contains_key(&version.key) {
                ages.insert(version.key.clone(), self.age(version)?);
            }
        }
        versions.sort_by_key(|version| ages.get(&version.key).copied());
        for version in &versions[..n_surplus] {
            ages.remove(&version.key);
            if let Some(value) = self.store.get(&version.key)? {
                settle::delete_if_match(&*self.store, &version.key, &value.tag)?;
            }
        }
        Ok(())
    }

    fn age(&self, version: &Version) -> Result<Age, BackendError> {
        let value = self.store.get(&version.key)?;
        // What can't be read goes first.
        let header = value.and_then(|value| {
            state_file::decode(&value.bytes)
                .ok()
                .map(|(header, _)| header)
        });
        Ok(header.map_or((0, 0, 0), |header| {
            (header.fence, version.serial, version.copy)
        }))
    }
}

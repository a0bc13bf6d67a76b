//! Earlier versions of a state: kept before a state is replaced, the last ones only.

use crate::backend::Current;
use crate::{BackendError, StateBackend, StateBody, StateFile};
use std::collections::HashMap;
use store::{Key, StateHeader, VersionedBody, settle, state_file};

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
    fn parse(prefix: &str, key: Key) -> Option<Self> {
        let (serial, copy) = numbers(key.as_str().strip_prefix(prefix)?)?;
        Some(Self { key, serial, copy })
    }

    /// What it is called: `7`, or `7.2` where it is the second of that serial.
    pub fn name(&self) -> String {
        match self.copy {
            1 => self.serial.to_string(),
            copy => format!("{}.{copy}", self.serial),
        }
    }
}

fn numbers(name: &str) -> Option<(u64, u32)> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (serial, copy) = name.split_once('.').unwrap_or((name, "1"));
    (is_number(serial) && is_number(copy))
        .then(|| Some((serial.parse().ok()?, copy.parse().ok()?)))
        .flatten()
}

impl StateBackend {
    /// The earlier versions of a step's state that are kept, by serial.
    ///
    /// # Errors
    /// Where the store can't be read.
    pub fn versions(&self, step_key: &str) -> Result<Vec<Version>, BackendError> {
        let prefix = format!("{}@", self.names.state(step_key)?);
        let listed = self.store.list(&prefix)?;
        let parsed = listed
            .into_iter()
            .filter_map(|key| Version::parse(&prefix, key));
        let mut versions: Vec<_> = parsed.collect();
        versions.sort_by_key(|version| (version.serial, version.copy));
        Ok(versions)
    }

    /// Reads an earlier version; `None` where it is not kept any more.
    ///
    /// # Errors
    /// Where the store can't be read, or the version is damaged.
    pub fn read_version(&self, version: &Version) -> Result<Option<StateFile>, BackendError> {
        let found = self.read_version_body(version)?;
        found.map(|state| state.into_file(&version.key)).transpose()
    }

    /// [`read_version`](Self::read_version) of a state that need not fit into memory.
    ///
    /// # Errors
    /// As [`read_version`](Self::read_version).
    pub fn read_version_body(&self, version: &Version) -> Result<Option<StateBody>, BackendError> {
        match self.store.get_body(&version.key)? {
            None => Ok(None),
            Some(VersionedBody { body, .. }) => StateBody::decode(&version.key, &body).map(Some),
        }
    }

    /// Reads the header of an earlier version alone; nothing is checked against its digest.
    ///
    /// # Errors
    /// As [`read_version`](Self::read_version).
    pub fn read_version_header(
        &self,
        version: &Version,
    ) -> Result<Option<StateHeader>, BackendError> {
        self.header_at(&version.key)
    }

    /// The earlier version that is called `name` ([`Version::name`]); `None` where there is none.
    ///
    /// # Errors
    /// Where the path has no key.
    pub fn version_named(
        &self,
        step_key: &str,
        name: &str,
    ) -> Result<Option<Version>, BackendError> {
        let Some((serial, copy)) = numbers(name) else {
            return Ok(None);
        };
        let key = self.names.version(step_key, serial, copy)?;
        Ok(Some(Version { key, serial, copy }))
    }

    /// Copies a step's state, as it is stored, to its versions.
    pub(crate) fn keep(&self, step_key: &str, current: &Current) -> Result<(), BackendError> {
        let header = &current.state.header;
        for copy in 1.. {
            let key = self.names.version(step_key, header.serial, copy)?;
            match settle::put_body_if_absent(&*self.store, &key, b"", &current.value) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
            // Kept already by a write that was cut after this, or another state of that serial.
            let is_same = self.store.get_body(&key)?.is_some_and(|kept| {
                state_file::decode_body(&kept.body)
                    .is_ok_and(|(kept, _)| kept.digest == header.digest)
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
            if let Some(value) = self.store.get_body(&version.key)? {
                settle::delete_if_match(&*self.store, &version.key, &value.tag)?;
            }
        }
        Ok(())
    }

    fn age(&self, version: &Version) -> Result<Age, BackendError> {
        let start = self.store.get_start(&version.key, state_file::MAX_HEADER)?;
        // What can't be read goes first.
        let header = start
            .and_then(|start| state_file::header_at_start(&start).ok())
            .map(|(header, _)| header);
        Ok(header.map_or((0, 0, 0), |header| {
            (header.fence, version.serial, version.copy)
        }))
    }
}

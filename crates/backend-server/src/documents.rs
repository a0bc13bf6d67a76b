//! What is told of states, locks and versions, as JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state_backend::{BackendError, StateBackend};

/// The version of these formats.
const SCHEMA: u32 = 1;

/// The states that a credential may read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatesDocument {
    /// The version of this format.
    pub schema: u32,
    /// The states, by path; a path that is locked and has no state is one as well.
    pub states: Vec<StateEntry>,
}

/// One state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateEntry {
    /// Its path.
    pub path: String,
    /// Its serial; none where there is a lock and no state yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// Its lineage; empty where OpenTofu has given it none yet.
    #[serde(default)]
    pub lineage: String,
    /// OpenTofu's description of the lock, where it is locked: `ID`, `Operation`, `Who`, `Created`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Value>,
    /// What is wrong with it, where it can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The states that are locked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LocksDocument {
    /// The version of this format.
    pub schema: u32,
    /// The states that are locked, by path.
    pub locks: Vec<StateEntry>,
}

impl From<StatesDocument> for LocksDocument {
    fn from(states: StatesDocument) -> Self {
        let locks = states.states.into_iter();
        Self {
            schema: SCHEMA,
            locks: locks.filter(|entry| entry.lock.is_some()).collect(),
        }
    }
}

/// The versions of one state that can be had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VersionsDocument {
    /// The version of this format.
    pub schema: u32,
    /// The state's path.
    pub path: String,
    /// The serial of the state that is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// The lineage of the state that is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    /// The earlier ones, by serial.
    pub versions: Vec<VersionEntry>,
}

/// An earlier version of a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VersionEntry {
    /// What it is called: its serial, and `7.2` for the second of serial 7.
    pub version: String,
    /// Its serial.
    pub serial: u64,
    /// Its lineage.
    pub lineage: String,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// What is wrong with it, where it can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Returns the states of a backend that `may_read` lets through, each with its lock.
///
/// # Errors
/// Where the store can't be read.
pub fn states(
    backend: &StateBackend,
    may_read: impl Fn(&str) -> bool,
) -> Result<StatesDocument, BackendError> {
    let mut paths = backend.list_states()?;
    paths.extend(backend.list_locks()?);
    paths.retain(|path| may_read(path));
    paths.sort();
    paths.dedup();
    let mut states = Vec::with_capacity(paths.len());
    for path in paths {
        let (header, fault) = found(backend.read_header(&path))?;
        let (lock, lock_fault) = found(backend.lock_of(&path))?;
        let is_gone = header.is_none() && lock.is_none();
        let fault = fault.or(lock_fault);
        // Gone since it was listed.
        if is_gone && fault.is_none() {
            continue;
        }
        states.push(StateEntry {
            path,
            serial: header.as_ref().map(|header| header.serial),
            lineage: header.map(|header| header.lineage).unwrap_or_default(),
            lock: lock.and_then(|lock| serde_json::to_value(lock.info).ok()),
            fault,
        });
    }
    Ok(StatesDocument {
        schema: SCHEMA,
        states,
    })
}

/// One damaged value must not hide the others.
fn found<T>(
    read: Result<Option<T>, BackendError>,
) -> Result<(Option<T>, Option<String>), BackendError> {
    match read {
        Ok(value) => Ok((value, None)),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok((None, Some(told(&error)))),
    }
}

fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", told(source)),
        None => error.to_string(),
    }
}

/// Returns the versions of a state that can be had.
///
/// # Errors
/// Where the store can't be read, or the path can't be a state's.
pub fn versions(backend: &StateBackend, path: &str) -> Result<VersionsDocument, BackendError> {
    let (now, _) = found(backend.read_header(path))?;
    let mut versions = Vec::new();
    for version in backend.versions(path)? {
        let (header, fault) = found(backend.read_version_header(&version))?;
        // Pruned since it was listed.
        if header.is_none() && fault.is_none() {
            continue;
        }
        let (lineage, sha256) = header
            .map(|header| (header.lineage, header.digest))
            .unwrap_or_default();
        versions.push(VersionEntry {
            version: version.name(),
            serial: version.serial,
            lineage,
            sha256,
            fault,
        });
    }
    Ok(VersionsDocument {
        schema: SCHEMA,
        path: path.to_owned(),
        serial: now.as_ref().map(|header| header.serial),
        lineage: now.map(|header| header.lineage),
        versions,
    })
}

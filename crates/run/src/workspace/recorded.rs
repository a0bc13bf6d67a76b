//! What this machine keeps of workspaces, without a lock and without asking anything.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use phase_engine::{Failure, StepId, TargetName};
use platform::Platform;
use record::{RecordStore, StandingEntry};
use serde_json::Value;
use store::LocalStore;

use super::WorkspaceSite;
use crate::api::Machine;
use crate::error::{stopped, unusable};
use crate::paths::TargetPaths;

/// What is kept of a workspace.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Whether something of it stands, as far as this machine knows.
    pub stands: bool,
    /// Its outputs that are not sensitive.
    pub outputs: BTreeMap<String, Value>,
}

/// Reads what is kept of a workspace.
///
/// # Errors
/// It can't be read.
pub fn recorded(machine: &Machine, site: &WorkspaceSite) -> Result<Recorded, Failure> {
    let paths = paths(machine, &site.platform_name, &site.site.target)?;
    let entry = entry(&paths, &site.step)?;
    Ok(entry.map_or_else(Recorded::default, |entry| Recorded {
        stands: true,
        outputs: outputs(&entry),
    }))
}

/// The output that names the hosts of a workspace.
pub(super) fn output_of(platform: Option<&Platform>, name: &str) -> String {
    let def = platform.and_then(|platform| platform.workspace(name));
    def.map_or_else(|| "hosts".to_owned(), |def| def.hosts.clone())
}

pub(super) fn names(directory: &Path) -> Result<Vec<String>, Failure> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(stopped(&error)),
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

fn paths(machine: &Machine, platform: &str, target: &str) -> Result<TargetPaths, Failure> {
    let target = TargetName::new(target).map_err(|error| unusable(&error))?;
    Ok(TargetPaths::new(&machine.state_home, platform, &target))
}

pub(super) fn entry(paths: &TargetPaths, step: &StepId) -> Result<Option<StandingEntry>, Failure> {
    let store = LocalStore::open(paths.workspace(step.step.as_str()));
    let current = RecordStore::new(Arc::new(store))
        .current()
        .map_err(|error| stopped(&error))?;
    Ok(current.and_then(|loaded| loaded.value.standing_of(step).cloned()))
}

pub(super) fn outputs(entry: &StandingEntry) -> BTreeMap<String, Value> {
    let outputs = entry.outputs.iter();
    outputs
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect()
}

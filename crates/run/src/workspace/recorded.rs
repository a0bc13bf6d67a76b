//! What this machine keeps of workspaces, without a lock and without asking anything.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use phase_engine::{ExitCode, Failure, StepId, TargetName};
use platform::{DirFiles, Platform, WORKSPACE_PHASE};
use record::{RecordStore, StandingEntry};
use serde_json::Value;
use store::LocalStore;

use super::WorkspaceSite;
use crate::api::{Machine, Site};
use crate::error::{stopped, unusable};
use crate::open::{platform_dir, platform_name_of};
use crate::paths::TargetPaths;

/// What is kept of a workspace.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Whether something of it stands, as far as this machine knows.
    pub stands: bool,
    /// Its outputs that are not sensitive.
    pub outputs: BTreeMap<String, Value>,
}

/// The hosts of a workspace as they are kept.
#[derive(Clone, Debug)]
pub struct RecordedHosts {
    /// The workspace's name.
    pub name: String,
    /// The value of the output that names them.
    pub hosts: Value,
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

/// Reads the hosts of one workspace.
///
/// # Errors
/// Nothing is known here of it or of its hosts.
pub fn recorded_hosts(machine: &Machine, site: &WorkspaceSite) -> Result<RecordedHosts, Failure> {
    let mut recorded = recorded(machine, site)?;
    if !recorded.stands {
        return Err(Failure::failed(format!(
            "nothing stands of workspace `{}`, as far as this machine knows",
            site.name
        ))
        .hint(format!(
            "`rebuild provision run {} PLAYBOOK` makes it, or brings this machine up to date",
            site.as_typed()
        )));
    }
    let output = &site.hosts;
    let hosts = recorded.outputs.remove(output).ok_or_else(|| {
        Failure::failed(format!(
            "workspace `{}` has no output `{output}` that is kept",
            site.name
        ))
        .hint("declare it in the root module, as one that is not sensitive, and apply the workspace again")
    })?;
    Ok(RecordedHosts {
        name: site.name.clone(),
        hosts,
    })
}

/// Reads the hosts of every workspace of a target of which something stands.
///
/// # Errors
/// The target is none, or what is kept can't be read.
pub fn hosts_of_target(
    machine: &Machine,
    platform: Option<&Path>,
    target: &str,
) -> Result<Vec<RecordedHosts>, Failure> {
    let site = Site {
        platform: platform.map(Path::to_owned),
        target: target.to_owned(),
    };
    let root = platform_dir(machine, &site)?;
    let files = DirFiles::open(&root).map_err(|error| unusable(&error))?;
    if !platform::target_names(&files)
        .iter()
        .any(|name| name == target)
    {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!("there is no target `{target}`: no file `targets/{target}.toml`"),
        ));
    }
    let known = platform::survey(&files).platform;
    let paths = paths(machine, &platform_name_of(&root)?, target)?;
    let mut found = Vec::new();
    for name in names(&paths.workspaces())? {
        let Ok(step) = format!("{WORKSPACE_PHASE}.{name}").parse::<StepId>() else {
            continue;
        };
        let Some(entry) = entry(&paths, &step)? else {
            continue;
        };
        let output = output_of(known.as_ref(), &name);
        if let Some(hosts) = outputs(&entry).remove(&output) {
            found.push(RecordedHosts { name, hosts });
        }
    }
    Ok(found)
}

/// The output that names the hosts of a workspace.
pub(super) fn output_of(platform: Option<&Platform>, name: &str) -> String {
    let def = platform.and_then(|platform| platform.workspace(name));
    def.map_or_else(|| "hosts".to_owned(), |def| def.hosts.clone())
}

fn names(directory: &Path) -> Result<Vec<String>, Failure> {
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

fn entry(paths: &TargetPaths, step: &StepId) -> Result<Option<StandingEntry>, Failure> {
    let store = LocalStore::open(paths.workspace(step.step.as_str()));
    let current = RecordStore::new(Arc::new(store))
        .current()
        .map_err(|error| stopped(&error))?;
    Ok(current.and_then(|loaded| loaded.value.standing_of(step).cloned()))
}

fn outputs(entry: &StandingEntry) -> BTreeMap<String, Value> {
    let outputs = entry.outputs.iter();
    outputs
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect()
}

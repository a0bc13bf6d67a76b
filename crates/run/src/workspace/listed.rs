//! The hosts of a target as its store has them: those that the record of its steps says, and those of its workspaces.
//!
//! Nothing is locked and nothing is changed. What this machine keeps of a workspace counts only where the state in the
//! store is the one that it was kept of; otherwise the state itself is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use phase_engine::{ExitCode, Failure, StepId};
use platform::{DirFiles, HostsOutput, Platform, WORKSPACE_PHASE};
use record::{Record, RecordStore};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use state_backend::StateBackend;
use store::Store;
use store::lock::Hold;

use super::WorkspaceSite;
use super::recorded::{entry, names, output_of, outputs};
use crate::api::{Machine, Site};
use crate::error::{CallError, stopped};
use crate::storage::Home;
use crate::target_states::writer;

/// The output of a step that names its hosts, where no other step says another.
const HOSTS: &str = "hosts";

/// Hosts as they are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedHosts {
    /// Whose they are.
    pub of: HostsOf,
    /// The value of the output that names them.
    pub hosts: Value,
}

/// Whose hosts they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostsOf {
    /// A workspace's, by its name.
    Workspace(String),
    /// A step's.
    Step {
        /// The step.
        step: StepId,
        /// The output.
        output: String,
        /// Whether an `ssh` or `ansible` step takes them from there; otherwise it may mean something else.
        is_used: bool,
    },
}

/// What there is of hosts, and what is not told.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The hosts.
    pub hosts: Vec<RecordedHosts>,
    /// What there is besides and can't be told, in words.
    pub left_out: Vec<String>,
}

/// Finds the hosts of one workspace.
///
/// # Errors
/// Nothing stands of it or of its hosts, or nobody but OpenTofu can read them.
pub fn hosts_of_workspace(
    machine: &Machine,
    site: &WorkspaceSite,
) -> Result<RecordedHosts, CallError> {
    let look = Look::open(machine, &site.site)?;
    let Some(mut outputs) = look.outputs_of(&site.step, &site.as_typed())? else {
        return Err(Failure::failed(format!(
            "nothing stands of workspace `{}`: {} has no state of it",
            site.name,
            look.store.describe()
        ))
        .hint(format!(
            "`rebuild provision run {} PLAYBOOK` makes it",
            site.as_typed()
        ))
        .into());
    };
    let output = &site.hosts;
    let hosts = outputs.remove(output).ok_or_else(|| {
        Failure::failed(format!(
            "workspace `{}` has no output `{output}` that is kept",
            site.name
        ))
        .hint("declare it in the root module, as one that is not sensitive, and apply the workspace again")
    })?;
    Ok(RecordedHosts {
        of: HostsOf::Workspace(site.name.clone()),
        hosts,
    })
}

/// Finds the hosts of one step of a target; of another name there are none.
///
/// # Errors
/// The target's store can't be read, or the step stands and no output of it names hosts.
pub fn hosts_of_step(
    machine: &Machine,
    platform: Option<&Path>,
    target: &str,
    step: &StepId,
) -> Result<Option<Listing>, CallError> {
    let look = Look::open(machine, &site_of(platform, target))?;
    let record = look.record()?;
    if record.is_none_or(|record| record.standing_of(step).is_none()) {
        return Ok(None);
    }
    let mut found = look.of_steps()?;
    found
        .hosts
        .retain(|one| matches!(&one.of, HostsOf::Step { step: of, .. } if of == step));
    for one in &mut found.hosts {
        // Who names the step takes its output for hosts.
        if let HostsOf::Step { is_used, .. } = &mut one.of {
            *is_used = true;
        }
    }
    if found.hosts.is_empty() {
        let mut failure = Failure::failed(format!("step `{step}` says no hosts that are kept"));
        for line in &found.left_out {
            failure = failure.because(line.as_str());
        }
        return Err(failure
            .hint("declare an output `hosts` in its root module, as one that is not sensitive")
            .into());
    }
    Ok(Some(found))
}

/// Finds the hosts of all steps and workspaces of a target, of which something stands.
///
/// # Errors
/// The target is none, its store can't be read, or nobody but OpenTofu can read the hosts of a workspace.
pub fn hosts_of_target(
    machine: &Machine,
    platform: Option<&Path>,
    target: &str,
) -> Result<Listing, CallError> {
    let look = Look::open(machine, &site_of(platform, target))?;
    let mut found = look.of_steps()?;
    let mut all: BTreeSet<String> = names(&look.home.paths.workspaces())?.into_iter().collect();
    let listed = look.backend.list_workspaces();
    all.extend(listed.map_err(|error| stopped(&error))?);
    for name in all {
        let Ok(step) = format!("{WORKSPACE_PHASE}.{name}").parse::<StepId>() else {
            continue;
        };
        let Some(mut outputs) = look.outputs_of(&step, &name)? else {
            continue;
        };
        let output = output_of(look.known.as_ref(), &name);
        match outputs.remove(&output) {
            Some(hosts) => found.hosts.push(RecordedHosts {
                of: HostsOf::Workspace(name),
                hosts,
            }),
            None => found.left_out.push(format!(
                "workspace `{name}` has no output `{output}` that is not sensitive"
            )),
        }
    }
    Ok(found)
}

fn site_of(platform: Option<&Path>, target: &str) -> Site {
    Site {
        platform: platform.map(Path::to_owned),
        target: target.to_owned(),
    }
}

/// A target's store, looked at.
struct Look<'m> {
    home: Home<'m>,
    store: Arc<dyn Store>,
    backend: StateBackend,
    /// Today's definitions, where they can be read.
    known: Option<Platform>,
}

impl<'m> Look<'m> {
    fn open(machine: &'m Machine, site: &Site) -> Result<Self, CallError> {
        let home = Home::open(machine, site)?;
        let store = home.known_store()?;
        // Whatever would write through it is refused.
        let nobody = Arc::new(|| Hold::Lost);
        let backend = StateBackend::new(Arc::clone(&store), 0, writer(machine)?, nobody);
        let known = DirFiles::open(&home.root)
            .ok()
            .and_then(|files| platform::survey(&files).platform);
        Ok(Self {
            home,
            store,
            backend,
            known,
        })
    }

    fn record(&self) -> Result<Option<Record>, Failure> {
        let current = RecordStore::new(Arc::clone(&self.store)).current();
        let current = current.map_err(|error| stopped(&error))?;
        Ok(current.map(|loaded| loaded.value))
    }

    fn of_steps(&self) -> Result<Listing, Failure> {
        let used: Vec<&HostsOutput> = self
            .known
            .iter()
            .flat_map(Platform::steps)
            .filter_map(|def| def.kind.hosts_output())
            .collect();
        let mut found = Listing::default();
        for entry in self.record()?.iter().flat_map(|record| &record.standing) {
            let used: BTreeSet<&str> = used
                .iter()
                .filter(|one| one.step == entry.step)
                .map(|one| one.output.as_str())
                .collect();
            let told = entry.outputs.get(HOSTS).map(|_| HOSTS);
            for output in used.iter().copied().chain(told).collect::<BTreeSet<_>>() {
                match entry.outputs.get(output) {
                    Some(hosts) => found.hosts.push(RecordedHosts {
                        of: HostsOf::Step {
                            step: entry.step.clone(),
                            output: output.to_owned(),
                            is_used: used.contains(output),
                        },
                        hosts: hosts.clone(),
                    }),
                    None => found.left_out.push(format!(
                        "the record has no output `{output}` of step `{}`: it is sensitive, or its apply has not ended",
                        entry.step
                    )),
                }
            }
        }
        Ok(found)
    }

    /// The outputs of a workspace that are not sensitive; `None` where the store has no state of it.
    fn outputs_of(
        &self,
        step: &StepId,
        typed: &str,
    ) -> Result<Option<BTreeMap<String, Value>>, Failure> {
        let header = self.backend.read_header(&step.key());
        let Some(header) = header.map_err(|error| stopped(&error))? else {
            return Ok(None);
        };
        let kept = entry(&self.home.paths, step)?;
        let knows_it = kept.is_some();
        let is_of_now = |mark: &record::StateMark| mark.digest == header.digest;
        if let Some(entry) = kept.filter(|entry| entry.state.as_ref().is_some_and(is_of_now)) {
            return Ok(Some(outputs(&entry)));
        }
        let state = self.backend.read_state(&step.key());
        let Some(state) = state.map_err(|error| stopped(&error))? else {
            return Ok(None);
        };
        let read = plain_outputs(&state.bytes).map_err(|error| stopped(&error))?;
        read.map(Some).ok_or_else(|| {
            let name = &step.step;
            let what = if knows_it {
                format!("what this machine keeps of workspace `{name}` is not what stands")
            } else {
                format!("this machine keeps nothing of workspace `{name}`, which stands")
            };
            Failure::new(ExitCode::Stopped, what)
                .because(
                    "its state in the target's store is encrypted: only an apply here reads the hosts in it",
                )
                .hint(format!(
                    "it was applied from another machine, or an apply was cut: `rebuild provision run {typed} PLAYBOOK` brings \
                     this machine up to date; on that machine `rebuild inventory` tells them as well"
                ))
        })
    }
}

#[derive(Deserialize)]
struct StateOutputs {
    #[serde(default)]
    encrypted_data: Option<IgnoredAny>,
    #[serde(default)]
    outputs: BTreeMap<String, StateOutput>,
}

#[derive(Deserialize)]
struct StateOutput {
    value: Value,
    #[serde(default)]
    sensitive: bool,
}

/// The outputs in a state that are not sensitive; `None` where it is encrypted.
fn plain_outputs(bytes: &[u8]) -> Result<Option<BTreeMap<String, Value>>, serde_json::Error> {
    let state: StateOutputs = serde_json::from_slice(bytes)?;
    if state.encrypted_data.is_some() {
        return Ok(None);
    }
    let plain = state.outputs.into_iter();
    let plain = plain.filter(|(_, output)| !output.sensitive);
    Ok(Some(
        plain.map(|(name, output)| (name, output.value)).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_states_plain_outputs_are_read_and_an_encrypted_one_is_said_to_be() {
        let state = br#"{"version":4,"outputs":{
            "hosts":{"value":{"web1":{"address":"192.0.2.1"}},"type":["object",{}]},
            "token":{"value":"s3cret","type":"string","sensitive":true}},"resources":[]}"#;
        let read = plain_outputs(state).unwrap().unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), ["hosts"]);
        assert_eq!(read["hosts"]["web1"]["address"], "192.0.2.1");
        let encrypted =
            br#"{"serial":1,"lineage":"x","encrypted_data":"AAAA","encryption_version":"v0"}"#;
        assert_eq!(plain_outputs(encrypted).unwrap(), None);
        assert!(plain_outputs(b"no state").is_err());
    }
}

//! `inventory`: the hosts of workspaces, as Ansible's script protocol and as a tree.

use fleet::{Fleet, Workspace, WorkspaceName};
use phase_engine::{ExitCode, Failure};
use run::api::Machine;
use run::workspace::{self, RecordedHosts};
use serde_json::{Value, json};

/// The hosts of one workspace, or of a whole target.
pub struct Inventory(Option<Fleet>);

impl Inventory {
    /// The answer to `--list`.
    #[must_use]
    pub fn list(&self) -> Value {
        match &self.0 {
            Some(fleet) => fleet.list(),
            None => json!({ "_meta": { "hostvars": {} } }),
        }
    }

    /// The answer to `--host NAME`; an empty one for a host that is not there, as Ansible expects it.
    #[must_use]
    pub fn host(&self, name: &str) -> Value {
        let found = self
            .0
            .as_ref()
            .zip(name.parse().ok())
            .and_then(|(fleet, name)| fleet.host(&name));
        found.unwrap_or_else(|| json!({}))
    }

    /// The tree for people.
    #[must_use]
    pub fn graph(&self) -> String {
        self.0.as_ref().map(Fleet::graph).unwrap_or_default()
    }
}

/// Reads the hosts from what this machine keeps of them: no lock is taken, nothing is asked.
///
/// # Errors
/// A workspace has no hosts that are known here, or they can't be read.
pub fn inventory(
    machine: &Machine,
    platform: Option<&std::path::Path>,
    workspace: Option<&str>,
    target: Option<&str>,
) -> Result<Inventory, Failure> {
    let recorded = match (workspace, target) {
        (Some(name), target) => {
            let site = workspace::find(machine, platform, name, target)?;
            vec![workspace::recorded_hosts(machine, &site)?]
        }
        (None, Some(target)) => workspace::hosts_of_target(machine, platform, target)?,
        (None, None) => {
            return Err(Failure::new(
                ExitCode::Unusable,
                "`inventory` names neither a workspace nor a target",
            )
            .hint("add the name of a workspace, or `--target TARGET` for all of a target"));
        }
    };
    if recorded.is_empty() {
        return Ok(Inventory(None));
    }
    let mut workspaces = Vec::new();
    for RecordedHosts { name, hosts } in recorded {
        let group: WorkspaceName = name
            .parse()
            .map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
        let parsed = Workspace::parse(group, &hosts).map_err(|error| {
            Failure::of(ExitCode::Failed, &error)
                .hint("mend the output, and apply the workspace again")
        })?;
        workspaces.push(parsed);
    }
    let fleet = Fleet::new(workspaces).map_err(|error| Failure::of(ExitCode::Failed, &error))?;
    Ok(Inventory(Some(fleet)))
}

//! `inventory`: the hosts of a target, as Ansible's script protocol and as a tree.

use std::collections::BTreeSet;
use std::path::Path;

use fleet::{Fleet, FleetError, Workspace, WorkspaceName};
use phase_engine::{ExitCode, Failure, StepId};
use run::CallError;
use run::api::Machine;
use run::workspace::{self, HostsOf, Listing, RecordedHosts};
use serde_json::{Value, json};

/// The hosts of one workspace, of a step, or of a whole target.
pub struct Inventory {
    fleet: Option<Fleet>,
    /// What there is besides and is not told, in words.
    pub left_out: Vec<String>,
}

impl Inventory {
    /// The answer to `--list`.
    #[must_use]
    pub fn list(&self) -> Value {
        match &self.fleet {
            Some(fleet) => fleet.list(),
            None => json!({ "_meta": { "hostvars": {} } }),
        }
    }

    /// The answer to `--host NAME`; an empty one for a host that is not there, as Ansible expects it.
    #[must_use]
    pub fn host(&self, name: &str) -> Value {
        let found = self
            .fleet
            .as_ref()
            .zip(name.parse().ok())
            .and_then(|(fleet, name)| fleet.host(&name));
        found.unwrap_or_else(|| json!({}))
    }

    /// The tree for people.
    #[must_use]
    pub fn graph(&self) -> String {
        self.fleet.as_ref().map(Fleet::graph).unwrap_or_default()
    }
}

/// Reads the hosts from the target's store: no lock is taken, no tool is run.
///
/// # Errors
/// There are no hosts of what is named, or they can't be read.
pub fn inventory(
    machine: &Machine,
    platform: Option<&Path>,
    named: Option<&str>,
    target: Option<&str>,
) -> Result<Inventory, CallError> {
    let listing = match (named, target) {
        (Some(name), target) => of_one(machine, platform, name, target)?,
        (None, Some(target)) => workspace::hosts_of_target(machine, platform, target)?,
        (None, None) => {
            return Err(Failure::new(
                ExitCode::Unusable,
                "`inventory` names neither a workspace nor a target",
            )
            .hint("add the name of a workspace, or `--target TARGET` for all of a target")
            .into());
        }
    };
    Ok(made(listing)?)
}

fn of_one(
    machine: &Machine,
    platform: Option<&Path>,
    name: &str,
    target: Option<&str>,
) -> Result<Listing, CallError> {
    // A workspace's name has no dot; a directory may have one, and is a step's name all the same only where that stands.
    if let (Ok(step), Some(target)) = (name.parse::<StepId>(), target)
        && let Some(found) = workspace::hosts_of_step(machine, platform, target, &step)?
    {
        return Ok(found);
    }
    let site = workspace::find(machine, platform, name, target)?;
    Ok(Listing {
        hosts: vec![workspace::hosts_of_workspace(machine, &site)?],
        left_out: Vec::new(),
    })
}

fn made(listing: Listing) -> Result<Inventory, Failure> {
    let Listing {
        hosts,
        mut left_out,
    } = listing;
    let names = groups(&hosts);
    let mut workspaces = Vec::new();
    for (RecordedHosts { of, hosts }, name) in hosts.iter().zip(names) {
        let group: WorkspaceName = name
            .parse()
            .map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
        match (Workspace::parse(group, hosts), of) {
            (Ok(parsed), _) => workspaces.push(parsed),
            // An output that nothing takes for hosts may be called so and mean something else.
            (
                Err(_),
                HostsOf::Step {
                    step,
                    output,
                    is_used: false,
                },
            ) => {
                left_out.push(format!("output `{output}` of step `{step}` names no hosts"));
            }
            (Err(error), HostsOf::Workspace(_)) => {
                return Err(Failure::of(ExitCode::Failed, &error)
                    .hint("mend the output, and apply the workspace again"));
            }
            (Err(error), HostsOf::Step { step, .. }) => {
                return Err(Failure::of(ExitCode::Failed, &error)
                    .because(format!("step `{step}`"))
                    .hint("mend the output in its root module, and run `rebuild up` again"));
            }
        }
    }
    let fleet = match Fleet::new(workspaces) {
        Ok(fleet) => Some(fleet),
        Err(FleetError::Empty) => None,
        Err(error) => {
            return Err(Failure::of(ExitCode::Failed, &error).hint(
                "name one workspace, or with `--target` one step as PHASE.STEP: its hosts alone are an inventory",
            ));
        }
    };
    Ok(Inventory { fleet, left_out })
}

/// The group of each: a workspace's name; a step's, with its phase before it where another group is called so, and with
/// the output's name after it where that is another's as well.
fn groups(hosts: &[RecordedHosts]) -> Vec<String> {
    let forms = |one: &RecordedHosts| match &one.of {
        HostsOf::Workspace(name) => [name.clone(), name.clone(), name.clone()],
        HostsOf::Step { step, output, .. } => [
            step.step.to_string(),
            format!("{}-{}", step.phase, step.step),
            format!("{}-{}-{output}", step.phase, step.step),
        ],
    };
    let workspaces: BTreeSet<&str> = hosts
        .iter()
        .filter_map(|one| match &one.of {
            HostsOf::Workspace(name) => Some(name.as_str()),
            HostsOf::Step { .. } => None,
        })
        .collect();
    let all: Vec<[String; 3]> = hosts.iter().map(forms).collect();
    let is_free = |index: usize, level: usize| {
        let form = &all[index][level];
        let is_alone = all.iter().filter(|other| other[level] == *form).count() == 1;
        is_alone && !workspaces.contains(form.as_str()) && form.parse::<WorkspaceName>().is_ok()
    };
    let named = hosts.iter().enumerate().map(|(index, one)| match &one.of {
        HostsOf::Workspace(name) => name.clone(),
        HostsOf::Step { .. } => {
            let level = (0..2).find(|level| is_free(index, *level)).unwrap_or(2);
            all[index][level].clone()
        }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_step(step: &str, output: &str, is_used: bool, hosts: Value) -> RecordedHosts {
        let (step, output) = (step.parse().unwrap(), output.to_owned());
        RecordedHosts {
            of: HostsOf::Step {
                step,
                output,
                is_used,
            },
            hosts,
        }
    }

    fn of_workspace(name: &str, hosts: Value) -> RecordedHosts {
        let of = HostsOf::Workspace(name.to_owned());
        RecordedHosts { of, hosts }
    }

    fn host(name: &str) -> Value {
        json!({ name: { "address": "192.0.2.1" } })
    }

    #[test]
    fn a_group_is_called_as_its_step_where_nothing_else_is() {
        let none = || json!({});
        let hosts = [
            of_step("1a.metal", "hosts", true, none()),
            of_step("1a.edge", "hosts", true, none()),
            of_step("1c.edge", "hosts", true, none()),
            of_step("2.prod", "hosts", true, none()),
            of_step("3.all", "hosts", true, none()),
            of_step("4.pool", "hosts", true, none()),
            of_step("4.pool", "spare", true, none()),
            of_workspace("prod", none()),
        ];
        let expected = [
            "metal",
            "1a-edge",
            "1c-edge",
            "2-prod",
            "3-all",
            "4-pool-hosts",
            "4-pool-spare",
            "prod",
        ];
        assert_eq!(groups(&hosts), expected);
    }

    #[test]
    fn an_output_that_only_has_the_name_is_left_out_and_one_that_is_used_is_not() {
        let odd = json!(["a", "list"]);
        let listing = |is_used| Listing {
            hosts: vec![
                of_workspace("prod", host("web1")),
                of_step("1.dns", "hosts", is_used, odd.clone()),
            ],
            left_out: Vec::new(),
        };
        let inventory = made(listing(false)).unwrap();
        assert_eq!(
            inventory.left_out,
            ["output `hosts` of step `1.dns` names no hosts"]
        );
        assert_eq!(inventory.list()["tf"]["hosts"], json!(["web1"]));
        let failure = made(listing(true)).err().unwrap();
        assert!(
            failure.causes.iter().any(|line| line.contains("1.dns")),
            "{failure:?}"
        );
    }

    #[test]
    fn a_host_that_two_name_stops_it_and_the_way_on_is_told() {
        let hosts = vec![
            of_workspace("prod", host("web1")),
            of_step("1.metal", "hosts", true, host("web1")),
        ];
        let left_out = Vec::new();
        let failure = made(Listing { hosts, left_out }).err().unwrap();
        assert!(failure.what.contains("`web1` is in"), "{failure:?}");
        assert!(failure.hint.unwrap().contains("PHASE.STEP"));
    }
}

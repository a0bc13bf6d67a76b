//! What one output says, and the workspaces that one play is given.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::check::{self, HostsError};
use crate::host::{Address, Host, HostName, is_name};

/// A workspace's name, which is a group in the inventory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkspaceName(String);

/// A text is no workspace's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` can't name a workspace: letters, digits, `.`, `_` and `-`, and none of `tf`, `all`, `ungrouped`"
)]
pub struct WorkspaceNameError(String);

impl WorkspaceName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkspaceName {
    type Err = WorkspaceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_name(text) && text != crate::EVERY_HOST && text != "all" && text != "ungrouped" {
            Ok(Self(text.to_owned()))
        } else {
            Err(WorkspaceNameError(text.escape_debug().to_string()))
        }
    }
}

impl fmt::Display for WorkspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The hosts of one output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its name.
    pub name: WorkspaceName,
    /// Its hosts, in the output's order.
    pub hosts: Vec<Host>,
}

impl Workspace {
    /// Reads the value of the output `hosts`.
    ///
    /// # Errors
    /// With every fault, each by its key.
    pub fn parse(name: WorkspaceName, hosts: &Value) -> Result<Self, HostsError> {
        let hosts = check::hosts(&name, hosts)?;
        Ok(Self { name, hosts })
    }
}

/// The workspaces that one play is given: one or more, no host in two of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    pub(crate) workspaces: Vec<Workspace>,
    pub(crate) reached: BTreeMap<HostName, Address>,
}

/// Workspaces that can't be given to one play.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// None was named.
    #[error("a play needs a workspace")]
    Empty,
    /// One was named twice.
    #[error("the workspace `{0}` is named twice")]
    Twice(WorkspaceName),
    /// Ansible would take two hosts for one.
    #[error(
        "the host `{host}` is in `{first}` and in `{second}`, and an inventory knows each name once"
    )]
    SharedHost {
        /// The host's name.
        host: HostName,
        /// A workspace that has it.
        first: WorkspaceName,
        /// The other one.
        second: WorkspaceName,
    },
    /// A group or host of one workspace has another's name.
    #[error("`{name}` in `{inside}` is the name of a workspace that the same play is given")]
    TakenName {
        /// The name.
        name: String,
        /// The workspace that has a group or host of that name.
        inside: WorkspaceName,
    },
    /// A group of one workspace is a host of another.
    #[error("`{name}` is a group in `{group_in}` and a host in `{host_in}`")]
    GroupAndHost {
        /// The name.
        name: String,
        /// The workspace that has the group.
        group_in: WorkspaceName,
        /// The workspace that has the host.
        host_in: WorkspaceName,
    },
}

impl Fleet {
    /// Puts workspaces together.
    ///
    /// # Errors
    /// When their names get into each other's way.
    pub fn new(workspaces: Vec<Workspace>) -> Result<Self, FleetError> {
        if workspaces.is_empty() {
            return Err(FleetError::Empty);
        }
        let mut names = BTreeSet::new();
        let mut of_host: BTreeMap<&HostName, &WorkspaceName> = BTreeMap::new();
        for workspace in &workspaces {
            if !names.insert(workspace.name.as_str()) {
                return Err(FleetError::Twice(workspace.name.clone()));
            }
            for host in &workspace.hosts {
                if let Some(first) = of_host.insert(&host.name, &workspace.name) {
                    return Err(FleetError::SharedHost {
                        host: host.name.clone(),
                        first: first.clone(),
                        second: workspace.name.clone(),
                    });
                }
            }
        }
        for workspace in &workspaces {
            for host in &workspace.hosts {
                let own = std::iter::once(host.name.as_str())
                    .chain(host.groups.iter().map(String::as_str));
                if let Some(taken) = own.into_iter().find(|name| names.contains(name)) {
                    return Err(FleetError::TakenName {
                        name: taken.to_owned(),
                        inside: workspace.name.clone(),
                    });
                }
                for group in &host.groups {
                    if let Some((_, host_in)) =
                        of_host.iter().find(|(name, _)| name.as_str() == group)
                    {
                        return Err(FleetError::GroupAndHost {
                            name: group.clone(),
                            group_in: workspace.name.clone(),
                            host_in: (*host_in).clone(),
                        });
                    }
                }
            }
        }
        Ok(Self {
            workspaces,
            reached: BTreeMap::new(),
        })
    }

    /// Notes the address at which a host answered: Ansible is given that one and no other.
    #[must_use]
    pub fn reached(mut self, host: HostName, at: Address) -> Self {
        self.reached.insert(host, at);
        self
    }

    /// The address at which a host answered, where it did.
    #[must_use]
    pub fn reached_at(&self, host: &HostName) -> Option<&Address> {
        self.reached.get(host)
    }

    /// The workspaces.
    #[must_use]
    pub fn workspaces(&self) -> &[Workspace] {
        &self.workspaces
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.workspaces
            .iter()
            .flat_map(|workspace| &workspace.hosts)
    }

    /// The one workspace, where there is one.
    pub(crate) fn only(&self) -> Option<&Workspace> {
        match self.workspaces.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Each group with its hosts, both sorted: those of the output, the workspaces, and `tf` for one alone.
    pub(crate) fn groups(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for workspace in &self.workspaces {
            for host in &workspace.hosts {
                let mut names: Vec<&str> = host.groups.iter().map(String::as_str).collect();
                names.push(workspace.name.as_str());
                if self.only().is_some() {
                    names.push(crate::EVERY_HOST);
                }
                for name in names {
                    groups.entry(name).or_default().insert(host.name.as_str());
                }
            }
        }
        groups
    }

    /// A host's variables: the output's, and where and as whom Ansible reaches it.
    pub(crate) fn variables(&self, host: &Host) -> serde_json::Map<String, Value> {
        let mut variables = host.variables.clone();
        let address = self
            .reached
            .get(&host.name)
            .or_else(|| host.addresses.first());
        if let Some(address) = address {
            variables.insert("ansible_host".to_owned(), address.as_str().into());
        }
        if host.port != 22 || variables.contains_key("ansible_port") {
            variables.insert("ansible_port".to_owned(), host.port.into());
        }
        if let Some(user) = &host.user {
            variables.insert("ansible_user".to_owned(), user.as_str().into());
        }
        variables
    }
}

//! The inventory as a tree, for people.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::host::Host;
use crate::workspace::Fleet;

impl Fleet {
    /// The tree: workspaces, their groups, and each host with where it is.
    #[must_use]
    pub fn graph(&self) -> String {
        let mut text = String::new();
        for workspace in &self.workspaces {
            let _ = writeln!(text, "{}", workspace.name);
            let mut sections: Vec<(Option<&str>, Vec<&Host>)> = Vec::new();
            let groups: BTreeSet<&str> = workspace
                .hosts
                .iter()
                .flat_map(|host| &host.groups)
                .map(String::as_str)
                .collect();
            for group in groups {
                let members = workspace
                    .hosts
                    .iter()
                    .filter(|host| host.groups.contains(group));
                sections.push((Some(group), members.collect()));
            }
            let alone = workspace.hosts.iter().filter(|host| host.groups.is_empty());
            sections.push((None, alone.collect()));
            let n_entries: usize = sections
                .iter()
                .map(|(group, hosts)| if group.is_some() { 1 } else { hosts.len() })
                .sum();
            let mut n_written = 0;
            for (group, hosts) in &sections {
                let mut indent = "";
                if let Some(group) = group {
                    n_written += 1;
                    let is_last = n_written == n_entries;
                    let _ = writeln!(text, "{} {group}", branch(is_last));
                    indent = if is_last { "   " } else { "│  " };
                }
                for (index, host) in hosts.iter().enumerate() {
                    let is_last = if group.is_some() {
                        index + 1 == hosts.len()
                    } else {
                        n_written += 1;
                        n_written == n_entries
                    };
                    let _ = writeln!(
                        text,
                        "{indent}{} {}  {}",
                        branch(is_last),
                        host.name,
                        self.place(host)
                    );
                }
            }
        }
        text
    }

    fn place(&self, host: &Host) -> String {
        let addresses = match self.reached.get(&host.name) {
            Some(address) => address.to_string(),
            None => host
                .addresses
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        };
        let user = host
            .user
            .as_ref()
            .map(|user| format!("{user}@"))
            .unwrap_or_default();
        let port = if host.port == 22 {
            String::new()
        } else {
            format!(" port {}", host.port)
        };
        format!("{user}{addresses}{port}")
    }
}

fn branch(is_last: bool) -> &'static str {
    if is_last { "└─" } else { "├─" }
}

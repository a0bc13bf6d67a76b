//! What a playbook came to, and how that is told.

use std::collections::{BTreeMap, BTreeSet};

use ansible::{HostCounts, Missing, Verdict};
use process::Exit;

use crate::hands::Hands;

/// What a playbook came to. Everything in it is masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// The verdict, by hosts.
    pub verdict: Verdict,
    /// How Ansible ended.
    pub exit: Exit,
    /// The counts of every host.
    pub hosts: BTreeMap<String, HostCounts>,
    /// The last lines that were no event: what Ansible itself had to say.
    pub tail: Vec<String>,
    /// Whether the caller asked it to stop.
    pub is_stopped: bool,
}

/// A playbook that did not do its part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct PlayFailed {
    /// What happened, in a sentence.
    pub what: String,
    /// Why: a line for each host, or what Ansible said last.
    pub why: Vec<String>,
}

impl PlayFailed {
    /// What the playbook wants and Ansible did not find.
    #[must_use]
    pub fn missing(&self) -> Option<Missing> {
        self.why.iter().find_map(|line| Missing::read(line))
    }
}

impl Played {
    /// The hosts on which something was changed, or would be in check mode.
    ///
    /// # Errors
    /// When it did not end well on every host.
    pub fn changed(&self) -> Result<&BTreeSet<String>, PlayFailed> {
        let names = |hosts: &BTreeSet<String>| {
            let names: Vec<String> = hosts.iter().map(|host| format!("`{host}`")).collect();
            names.join(", ")
        };
        let (what, why) = match &self.verdict {
            Verdict::Done { changed } => return Ok(changed),
            Verdict::Broken { exit } => (
                match exit_means(*exit) {
                    Some(means) => format!("Ansible did not come to its end ({exit}: {means})"),
                    None => format!("Ansible did not come to its end ({exit})"),
                },
                self.tail.clone(),
            ),
            Verdict::NothingMatched => (
                "no host matched: nothing was done".to_owned(),
                vec!["no `hosts:` of the playbook names one of the hosts".to_owned()],
            ),
            Verdict::Failed { hosts, unreachable } => {
                let mut why: Vec<String> = hosts
                    .iter()
                    .map(|(host, (task, message))| format!("`{host}`: task `{task}`: {message}"))
                    .collect();
                why.extend(unreachable.iter().map(|(host, said)| lost(host, said)));
                (format!("tasks failed on {}", counted(hosts.len())), why)
            }
            Verdict::Unreachable { hosts } => (
                format!("{} did not answer", counted(hosts.len())),
                hosts.iter().map(|(host, said)| lost(host, said)).collect(),
            ),
            Verdict::Missed { hosts } => (
                format!("{} had no part in it", counted(hosts.len())),
                vec![format!("no play was run on {}", names(hosts))],
            ),
        };
        Err(PlayFailed { what, why })
    }

    /// One line: `2 hosts, 1 changed`.
    #[must_use]
    pub fn summary(&self) -> String {
        let n_changed = self
            .hosts
            .values()
            .filter(|counts| counts.changed > 0)
            .count();
        format!("{}, {n_changed} changed", counted(self.hosts.len()))
    }
}

fn lost(host: &str, said: &str) -> String {
    match said.trim() {
        "" => format!("`{host}`: unreachable, whatever the playbook says about that"),
        said => format!("`{host}`: unreachable, whatever the playbook says about that: {said}"),
    }
}

/// What an exit code without a word of hosts means: `ansible.errors.ExitCode` of ansible-core 2.19.
fn exit_means(exit: Exit) -> Option<&'static str> {
    Some(match exit {
        Exit::Code(1) => "an error of the playbook or of Ansible's own",
        Exit::Code(4) => "the playbook can't be read",
        Exit::Code(5) => "an option or a setting that it does not take",
        Exit::Code(99) => "interrupted by a signal",
        Exit::Code(250) => "an exception that it did not expect",
        _ => return None,
    })
}

fn counted(n: usize) -> String {
    match n {
        1 => "1 host".to_owned(),
        n => format!("{n} hosts"),
    }
}

impl Hands<'_> {
    pub(crate) fn masked_verdict(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Failed { hosts, unreachable } => Verdict::Failed {
                hosts: hosts
                    .into_iter()
                    .map(|(host, (task, message))| {
                        (host, (self.masked(&task), self.masked(&message)))
                    })
                    .collect(),
                unreachable: self.masked_said(unreachable),
            },
            Verdict::Unreachable { hosts } => Verdict::Unreachable {
                hosts: self.masked_said(hosts),
            },
            other => other,
        }
    }

    fn masked_said(&self, hosts: BTreeMap<String, String>) -> BTreeMap<String, String> {
        hosts
            .into_iter()
            .map(|(host, said)| (host, self.masked(&said)))
            .collect()
    }
}

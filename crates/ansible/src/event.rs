//! What the callback plugin tells, one JSON object a line.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "rebuild", rename_all = "kebab-case")]
pub enum Event {
    /// A play begins.
    Play {
        /// Its name.
        name: String,
        /// The hosts that it names and the limit leaves.
        #[serde(default)]
        hosts: BTreeSet<String>,
        /// Every host that the limit leaves.
        #[serde(default)]
        within: BTreeSet<String>,
    },
    /// A play had no host, and was left out.
    NoHosts,
    /// A task begins.
    Task {
        /// Its name.
        name: String,
    },
    /// A task ended on a host.
    Result {
        /// The host.
        host: String,
        /// The task's name.
        task: String,
        /// How it ended.
        status: Status,
        /// Whether the playbook says to go on all the same.
        ignored: bool,
        /// What it said. May hold a secret: masked before it is shown or kept.
        message: String,
    },
    /// What a task changes, or would change: on demand alone. May hold a secret.
    Diff {
        /// The host.
        host: String,
        /// The task's name.
        task: String,
        /// The difference, as `diff -u` writes it.
        text: String,
    },
    /// The end, with the counts of every host.
    Recap {
        /// The counts by host.
        hosts: BTreeMap<String, HostCounts>,
    },
}

/// How a task ended on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Well, and nothing was to do.
    Ok,
    /// Well, and something was changed.
    Changed,
    /// It was not to be done there.
    Skipped,
    /// In an error.
    Failed,
    /// The host did not answer.
    Unreachable,
}

/// The counts of one host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct HostCounts {
    /// Tasks that ended well, changed ones among them.
    pub ok: u32,
    /// Tasks that changed something.
    pub changed: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Tasks for which the host did not answer.
    pub unreachable: u32,
    /// Tasks that were left out.
    pub skipped: u32,
    /// Failures that a `rescue` took up.
    pub rescued: u32,
    /// Failures that were ignored.
    pub ignored: u32,
}

impl Event {
    /// Reads a line; `None` for whatever else Ansible prints.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_everything_else_is_not() {
        let line = br#"{"host": "web1", "task": "t", "status": "changed", "ignored": false, "message": "", "rebuild": "result"}"#;
        assert!(matches!(
            Event::read(line),
            Some(Event::Result {
                status: Status::Changed,
                ..
            })
        ));
        assert_eq!(
            Event::read(br#"{"rebuild": "no-hosts"}"#),
            Some(Event::NoHosts)
        );
        for other in [
            &b"[WARNING]: x"[..],
            b"",
            b"{}",
            br#"{"rebuild": "new"}"#,
            b"\xff",
        ] {
            assert_eq!(Event::read(other), None);
        }
    }
}

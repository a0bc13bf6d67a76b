//! What every act is done with, and what is told while it is done.

use std::fmt;
use std::path::{Path, PathBuf};

use ansible::{HostCounts, Stop};
use fleet::{Fleet, FleetError, HostsError, Workspace, WorkspaceName, WorkspaceNameError};
use process::Spawner;
use secrets::{Masker, MemoryDir};
use serde_json::Value;
use ssh_reach::{Heard, Rung};

/// What every act is done with.
#[derive(Clone, Copy)]
pub struct Hands<'a> {
    /// What starts programs.
    pub spawner: &'a dyn Spawner,
    /// Memory-backed storage, for everything that is written here but pins: keys, configurations, inventories,
    /// variables, all of Ansible's own files. Its path must hold no blank: the ssh client passes a configuration on
    /// as it is where the way leads through another machine.
    pub memory: &'a MemoryDir,
    /// Hides what is secret in everything that is told.
    pub masker: &'a Masker,
    /// The ssh client.
    pub ssh: &'a Path,
    /// Hears what goes on, masked. From several threads.
    pub tell: &'a (dyn Fn(&Told) + Sync),
    /// Asked several times a second whether to go on.
    pub stop: &'a (dyn Fn() -> Stop + Sync),
}

/// What goes on. Everything in it is masked; its `Display` is one entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A host did not get past this rung yet. Told when the rung is another than before.
    Stands {
        /// The host.
        host: String,
        /// The rung.
        rung: Rung,
        /// What was answered there.
        answer: String,
    },
    /// A host is reached.
    Reached {
        /// The host.
        host: String,
        /// The address that answered.
        address: String,
    },
    /// A play begins.
    Play {
        /// Its name.
        name: String,
        /// How many hosts it has.
        n_hosts: usize,
    },
    /// A task begins.
    Task {
        /// Its name.
        name: String,
    },
    /// A task ended on a host.
    Result {
        /// The host.
        host: String,
        /// The task.
        task: String,
        /// `ok`, `changed`, `skipped`, `failed`, `ignored` or `unreachable`.
        status: &'static str,
        /// What it said.
        message: String,
    },
    /// What a task changes, where that was asked for.
    Diff {
        /// The host.
        host: String,
        /// The task.
        task: String,
        /// The difference, as `diff -u` writes it.
        text: String,
    },
    /// The end, with the counts of one host.
    Host {
        /// The host.
        host: String,
        /// Its counts.
        counts: HostCounts,
    },
    /// Anything else that Ansible printed.
    Line {
        /// The line.
        text: String,
    },
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stands { host, rung, answer } => write!(f, "{host}: {rung}: {answer}"),
            Self::Reached { host, address } => write!(f, "{host}: reached at {address}"),
            Self::Play { name, n_hosts } => write!(f, "PLAY [{name}] on {n_hosts} hosts"),
            Self::Task { name } => write!(f, "TASK [{name}]"),
            Self::Result {
                host,
                status,
                message,
                ..
            } if message.is_empty() => write!(f, "  {status}: {host}"),
            Self::Result {
                host,
                status,
                message,
                ..
            } => write!(f, "  {status}: {host}: {message}"),
            Self::Diff { host, text, .. } => write!(f, "  difference on {host}:\n{text}"),
            Self::Host { host, counts } => write!(
                f,
                "{host}: {} ok, {} changed, {} failed, {} unreachable, {} skipped, {} rescued, {} ignored",
                counts.ok,
                counts.changed,
                counts.failed,
                counts.unreachable,
                counts.skipped,
                counts.rescued,
                counts.ignored
            ),
            Self::Line { text } => f.write_str(text),
        }
    }
}

/// An output that is no fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetFault {
    /// Nothing of that name can be a group.
    #[error("the hosts can't be made a group of the inventory")]
    Name(#[source] WorkspaceNameError),
    /// The output is not as it must be.
    #[error(transparent)]
    Hosts(HostsError),
    /// Names get into each other's way.
    #[error("the hosts can't be put into one inventory")]
    Fleet(#[source] FleetError),
}

/// Reads the value of one output `hosts`, as the workspace `name`.
///
/// # Errors
/// With every fault of the output.
pub fn fleet_of(name: &str, hosts: &Value) -> Result<Fleet, FleetFault> {
    let name: WorkspaceName = name.parse().map_err(FleetFault::Name)?;
    let workspace = Workspace::parse(name, hosts).map_err(FleetFault::Hosts)?;
    Fleet::new(vec![workspace]).map_err(FleetFault::Fleet)
}

impl Hands<'_> {
    pub(crate) fn masked(&self, text: &str) -> String {
        self.masker.mask(text).into_owned()
    }

    pub(crate) fn hear(&self, host: &str, heard: &Heard) {
        let host = host.to_owned();
        (self.tell)(&match heard {
            Heard::Stands { rung, answer } => Told::Stands {
                host,
                rung: *rung,
                answer: self.masked(answer),
            },
            Heard::Reached { address } => Told::Reached {
                host,
                address: address.as_str().to_owned(),
            },
        });
    }

    /// A path in memory that no other act of this process uses.
    pub(crate) fn fresh(&self, what: &str) -> PathBuf {
        use std::sync::atomic::{AtomicU64, Ordering};
        static N: AtomicU64 = AtomicU64::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        self.memory.path().join(format!("{what}-{n}"))
    }
}

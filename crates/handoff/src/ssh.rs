//! Hosts are awaited and onboarded, looked at again, and forgotten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ansible::Stop;
use fleet::{Fleet, HostName};
use known_hosts::{HostPort, KnownHostsError, KnownHostsFile};
use process::files::{FileError, write_atomically};
use secrets::Secret;
use ssh_reach::{HostKeys, Limits, Login, Reach, ReachError, Reached, Rung, Why};

use crate::hands::Hands;

/// The most that a look at hosts that were reached before may take.
const LOOK: Limits = Limits {
    deadline: Duration::from_secs(20),
    settle: Duration::ZERO,
    pause: Duration::from_secs(1),
};

/// What opens the door.
#[derive(Debug, Clone)]
pub enum Identity {
    /// A private key in this file.
    File(PathBuf),
    /// The agent that listens on this socket.
    Agent(PathBuf),
    /// A private key that lies in memory only.
    Key(Secret),
}

/// How a target's hosts are reached.
#[derive(Debug, Clone)]
pub struct SshSettings {
    /// What opens the door.
    pub identity: Identity,
    /// Where the first key of a host comes from.
    pub host_keys: HostKeys,
    /// The target's own known hosts; never the user's.
    pub known_hosts: PathBuf,
    /// How long to wait for what.
    pub limits: Limits,
    /// The most for one connection.
    pub patience: Duration,
}

impl SshSettings {
    /// Settings with the usual limits.
    #[must_use]
    pub fn new(identity: Identity, host_keys: HostKeys, known_hosts: impl Into<PathBuf>) -> Self {
        Self {
            identity,
            host_keys,
            known_hosts: known_hosts.into(),
            limits: Limits::default(),
            patience: Duration::from_secs(10),
        }
    }
}

/// Hosts that were not reached.
#[derive(Debug, thiserror::Error)]
pub enum NotReached {
    /// These were not, each with the reason; the others were.
    #[error("{} of {n_hosts} hosts were not reached", failures.len())]
    Hosts {
        /// The hosts, in the fleet's order.
        failures: Vec<ReachError>,
        /// How many hosts there are.
        n_hosts: usize,
    },
    /// The caller asked to stop.
    #[error("the wait was stopped")]
    Stopped,
    /// The key that opens the door could not be put into memory.
    #[error("the identity key could not be put into memory")]
    Identity(#[source] FileError),
}

impl NotReached {
    /// One line for each host: its name, the rung, the last answer. What a host says must be masked by the caller.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Self::Hosts { failures, .. } = self else {
            return Vec::new();
        };
        let told = failures.iter().map(|failure| {
            let mut line = format!("`{}`: {}", failure.host, failure.why);
            let mut source = std::error::Error::source(&failure.why);
            while let Some(cause) = source {
                line.push_str(&format!(": {cause}"));
                source = cause.source();
            }
            line
        });
        told.collect()
    }

    /// Whether a host showed another key than the one that it must have, which no waiting mends.
    #[must_use]
    pub fn is_wrong_key(&self) -> bool {
        let Self::Hosts { failures, .. } = self else {
            return false;
        };
        failures.iter().any(|failure| {
            matches!(
                &failure.why,
                Why::Alarm {
                    rung: Rung::HostKey,
                    ..
                } | Why::Onboard(ssh_reach::OnboardError::Changed { .. })
            )
        })
    }
}

impl Hands<'_> {
    /// Awaits every host, all at once, and pins their keys.
    ///
    /// `replaced` are hosts whose machines are others than those that were pinned ([`crate::Machines`] tells):
    /// their pins are given up. No other pin ever is.
    ///
    /// # Errors
    /// With every host that was not reached; what was pinned of others stays.
    pub fn reach(
        &self,
        ssh: &SshSettings,
        fleet: &Fleet,
        replaced: &BTreeSet<HostName>,
    ) -> Result<Vec<Reached>, NotReached> {
        self.climb(ssh, ssh.limits, fleet, replaced)
    }

    /// Looks whether every host can be reached now: one success is enough, and after twenty seconds no
    /// further try is made.
    ///
    /// # Errors
    /// With every host that was not reached.
    pub fn verify_reach(
        &self,
        ssh: &SshSettings,
        fleet: &Fleet,
    ) -> Result<Vec<Reached>, NotReached> {
        self.climb(ssh, LOOK, fleet, &BTreeSet::new())
    }

    fn climb(
        &self,
        ssh: &SshSettings,
        limits: Limits,
        fleet: &Fleet,
        replaced: &BTreeSet<HostName>,
    ) -> Result<Vec<Reached>, NotReached> {
        let reach = Reach {
            spawner: self.spawner,
            ssh: self.ssh.to_owned(),
            // A directory of its own: two steps of one phase may wait at once.
            dir: self.fresh("ssh"),
            known_hosts: KnownHostsFile::at(&ssh.known_hosts),
            login: self.login(&ssh.identity).map_err(NotReached::Identity)?,
            host_keys: ssh.host_keys.clone(),
            limits,
            patience: ssh.patience,
        };
        let stop = || (self.stop)() >= Stop::Interrupt;
        let answers = reach.all_heard(fleet, replaced, &stop, &|host, heard| {
            self.hear(host.as_str(), heard);
        });
        let _ = std::fs::remove_dir_all(&reach.dir);
        let n_hosts = answers.len();
        let mut reached = Vec::new();
        let mut failures = Vec::new();
        for answer in answers {
            match answer {
                Ok(one) => reached.push(one),
                Err(error) => failures.push(error),
            }
        }
        let is_stopped = |failure: &ReachError| matches!(failure.why, Why::Stopped);
        if failures.iter().any(is_stopped) {
            return Err(NotReached::Stopped);
        }
        if failures.is_empty() {
            Ok(reached)
        } else {
            Err(NotReached::Hosts { failures, n_hosts })
        }
    }

    pub(crate) fn login(&self, identity: &Identity) -> Result<Login, FileError> {
        Ok(match identity {
            Identity::File(path) => Login::File(path.clone()),
            Identity::Agent(socket) => Login::Agent(socket.clone()),
            Identity::Key(secret) => {
                let path = self.fresh("identity");
                // The client wants the last line ended.
                let key = format!("{}\n", secret.expose().trim_end());
                write_atomically(&path, key.as_bytes(), 0o600)?;
                Login::File(path)
            }
        })
    }
}

/// Takes back every pin of a fleet's hosts; other lines stay as they are.
///
/// # Errors
/// When the file can't be read or written.
pub fn forget(known_hosts: &Path, fleet: &Fleet) -> Result<(), KnownHostsError> {
    let places = fleet.hosts().flat_map(|host| {
        host.addresses
            .iter()
            .map(|address| HostPort::new(address.as_str(), host.port))
    });
    let places: Vec<HostPort> = places.collect();
    KnownHostsFile::at(known_hosts).edit(|known| {
        for place in &places {
            known.forget(place);
        }
        Ok(())
    })
}

//! All hosts at once, each up its ladder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fleet::{Address, Fleet, Host, HostName, Jump};
use known_hosts::{HostPort, KnownHostsError, KnownHostsFile};
use process::Spawner;
use process::files::{FileError, create_private_dir, write_atomically};

use crate::attempt::{Top, Try};
use crate::config::{self, Common, Login};
use crate::ladder::{Decision, Ladder, Limits, Outcome, Rung};
use crate::onboard::{Check, HostKeys, OnboardError, pin_seen, prepare};
use crate::remote;

/// Asked whether to stop; from several threads.
pub type StopFn<'a> = dyn Fn() -> bool + Sync + 'a;
/// Told what became of a host; from several threads.
pub type HearFn<'a> = dyn Fn(&HostName, &Heard) + Sync + 'a;

/// How hosts are reached.
#[derive(Clone)]
pub struct Reach<'a> {
    /// What starts the ssh client.
    pub spawner: &'a dyn Spawner,
    /// The ssh client.
    pub ssh: PathBuf,
    /// A private directory of the target's, for configurations. Nothing secret is written there.
    pub dir: PathBuf,
    /// The target's own known hosts.
    pub known_hosts: KnownHostsFile,
    /// What opens the door.
    pub login: Login,
    /// Where the first key of a host comes from.
    pub host_keys: HostKeys,
    /// How long to wait for what.
    pub limits: Limits,
    /// The most for one connection.
    pub patience: Duration,
}

/// A host that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The host.
    pub host: HostName,
    /// The address that answered, to be handed on.
    pub address: Address,
    /// The Python found there.
    pub python: String,
}

/// What became of a host while it was awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// It did not get past this rung yet.
    Stands {
        /// The rung.
        rung: Rung,
        /// What was answered there.
        answer: String,
    },
    /// It is reached.
    Reached {
        /// The address that answered.
        address: Address,
    },
}

/// A host that was not reached.
#[derive(Debug, thiserror::Error)]
#[error("`{host}` was not reached")]
pub struct ReachError {
    /// The host.
    pub host: HostName,
    /// Why.
    #[source]
    pub why: Why,
}

/// Why a host was not reached.
#[derive(Debug, thiserror::Error)]
pub enum Why {
    /// Its key is not known as it must be.
    #[error("its host key is not settled")]
    Onboard(#[source] OnboardError),
    /// It stands on a rung where waiting does not help: a wrong key, a boot that failed.
    #[error("{rung}: {answer}")]
    Alarm {
        /// The rung.
        rung: Rung,
        /// What was answered.
        answer: String,
    },
    /// The time is over.
    #[error("{}{answer} (after {} s)", rung.map_or_else(String::new, |rung| format!("{rung}: ")), waited.as_secs())]
    TimedOut {
        /// The rung that it stands on.
        rung: Option<Rung>,
        /// What was answered last.
        answer: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The host that it lies behind was not reached.
    #[error("the way to it leads through `{jump}`, which was not reached")]
    Jump {
        /// The host between.
        jump: HostName,
    },
    /// The caller asked to stop.
    #[error("the wait was stopped")]
    Stopped,
    /// The known hosts could not be read or written.
    #[error("its host key could not be pinned")]
    KnownHosts(#[source] KnownHostsError),
    /// A file of the configuration could not be written.
    #[error("the ssh client's configuration could not be written")]
    Config(#[source] FileError),
}

impl From<KnownHostsError> for Why {
    fn from(error: KnownHostsError) -> Self {
        Self::KnownHosts(error)
    }
}

impl From<OnboardError> for Why {
    fn from(error: OnboardError) -> Self {
        Self::Onboard(error)
    }
}

impl Reach<'_> {
    /// Waits for every host of the fleet, all at once.
    ///
    /// `replaced` are the hosts whose machines this very run made: their pinned keys are given up. A host
    /// behind another of the fleet is tried when that one is reached; the key of a jump host elsewhere must be
    /// in the known hosts already.
    ///
    /// Returns one answer for each host, in the fleet's order.
    pub fn all(
        &self,
        fleet: &Fleet,
        replaced: &BTreeSet<HostName>,
        stop: &StopFn<'_>,
    ) -> Vec<Result<Reached, ReachError>> {
        self.all_heard(fleet, replaced, stop, &|_, _| {})
    }

    /// As [`Reach::all`], and tells `hear` whenever a host stands on another rung than before, or is reached.
    pub fn all_heard(
        &self,
        fleet: &Fleet,
        replaced: &BTreeSet<HostName>,
        stop: &StopFn<'_>,
        hear: &HearFn<'_>,
    ) -> Vec<Result<Reached, ReachError>> {
        let told = |host: &Host, why| ReachError {
            host: host.name.clone(),
            why,
        };
        // Every key that is known beforehand is settled before any host is tried: jump hosts need theirs.
        let checks: Vec<Result<Check, Why>> = fleet
            .hosts()
            .map(|host| {
                let is_replaced = replaced.contains(&host.name);
                self.known_hosts
                    .edit(|known| Ok(prepare(known, host, &self.host_keys, is_replaced)?))
            })
            .collect();
        // A host behind another is tried when that one is reached: by its address, and by its key, which may
        // have been pinned only now.
        let mut waiting: Vec<(usize, &Host, Result<Check, Why>)> = fleet
            .hosts()
            .zip(checks)
            .enumerate()
            .map(|(number, (host, check))| (number, host, check))
            .collect();
        let mut so_far = fleet.clone();
        let mut answers: BTreeMap<usize, Result<Reached, ReachError>> = BTreeMap::new();
        while !waiting.is_empty() {
            let names: BTreeSet<&HostName> =
                waiting.iter().map(|(_, host, _)| &host.name).collect();
            let is_ready = |host: &Host| match &host.jump {
                Some(Jump::Host(jump)) => !names.contains(jump),
                _ => true,
            };
            let (now, later): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|(_, host, _)| is_ready(host));
            waiting = later;
            let so_far_now = &so_far;
            let told: Vec<_> = std::thread::scope(|scope| {
                let waits: Vec<_> = now
                    .into_iter()
                    .map(|(number, host, check)| {
                        let wait = scope.spawn(move || {
                            self.one(so_far_now, host, number, check?, (stop, hear))
                        });
                        (number, host, wait)
                    })
                    .collect();
                let joined = waits.into_iter().map(|(number, host, wait)| {
                    let answer = wait
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    (number, answer.map_err(|why| told(host, why)))
                });
                joined.collect()
            });
            for (number, answer) in told {
                if let Ok(reached) = &answer {
                    so_far = so_far.reached(reached.host.clone(), reached.address.clone());
                }
                answers.insert(number, answer);
            }
        }
        answers.into_values().collect()
    }

    fn one(
        &self,
        fleet: &Fleet,
        host: &Host,
        number: usize,
        check: Check,
        (stop, hear): (&StopFn<'_>, &HearFn<'_>),
    ) -> Result<Reached, Why> {
        if let Some(Jump::Host(jump)) = &host.jump
            && fleet.reached_at(jump).is_none()
        {
            return Err(Why::Jump { jump: jump.clone() });
        }
        create_private_dir(&self.dir).map_err(Why::Config)?;
        let config_name = format!("ssh-{number}.config");
        let config_path = self.dir.join(&config_name);
        let first_sight = self.dir.join(format!("ssh-{number}.known_hosts"));
        let mut check = check;
        let mut routes = self.configure(fleet, host, check, &config_path, &first_sight)?;
        let begin = Instant::now();
        let mut ladder = Ladder::new(self.limits);
        let mut stood_on = None;
        loop {
            let attempt = Try {
                spawner: self.spawner,
                ssh: &self.ssh,
                cwd: &self.dir,
                config: &config_name,
                routes: &routes,
                port: host.port,
                python: remote::own_python(host),
                patience: self.patience,
                stop,
            };
            let outcome = attempt.run();
            if stop() {
                return Err(Why::Stopped);
            }
            if let Outcome::NotYet { rung, answer } = &outcome
                && stood_on.replace(*rung) != Some(*rung)
            {
                hear(
                    &host.name,
                    &Heard::Stands {
                        rung: *rung,
                        answer: answer.clone(),
                    },
                );
            }
            // Pinned at once: from here on the host must show that key.
            if check == Check::PinFirst && self.pin_first_sight(host, &first_sight)? {
                check = Check::Strict;
                routes = self.configure(fleet, host, check, &config_path, &first_sight)?;
            }
            match ladder.after(begin.elapsed(), outcome) {
                Decision::Reached(Top { route, python }) => {
                    hear(
                        &host.name,
                        &Heard::Reached {
                            address: route.address.clone(),
                        },
                    );
                    return Ok(Reached {
                        host: host.name.clone(),
                        address: route.address,
                        python,
                    });
                }
                Decision::GiveUp {
                    rung: Some(rung),
                    answer,
                    is_final: true,
                } => return Err(Why::Alarm { rung, answer }),
                Decision::GiveUp { rung, answer, .. } => {
                    return Err(Why::TimedOut {
                        rung,
                        answer,
                        waited: begin.elapsed(),
                    });
                }
                Decision::Again(pause) => {
                    let until = Instant::now() + pause;
                    let step = Duration::from_millis(100);
                    let stopped = process::wait::until(until, step, || stop().then_some(()));
                    if stopped.is_some() {
                        return Err(Why::Stopped);
                    }
                }
            }
        }
    }

    fn configure(
        &self,
        fleet: &Fleet,
        host: &Host,
        check: Check,
        config_path: &Path,
        first_sight: &Path,
    ) -> Result<Vec<config::Route>, Why> {
        let known_hosts = match check {
            Check::Strict => self.known_hosts.path(),
            Check::PinFirst => {
                // The client writes what it saw into a copy; the file itself has one writer.
                let now = self.known_hosts.read()?.to_bytes();
                write_atomically(first_sight, &now, 0o600).map_err(Why::Config)?;
                first_sight
            }
        };
        let common = Common {
            known_hosts,
            login: &self.login,
            connect_seconds: self.patience.as_secs().max(1),
        };
        let (text, routes) = config::of_host(fleet, host, &common, check);
        write_atomically(config_path, text.as_bytes(), 0o600).map_err(Why::Config)?;
        Ok(routes)
    }

    /// Tells whether the client saw a key, which is pinned then.
    fn pin_first_sight(&self, host: &Host, first_sight: &Path) -> Result<bool, Why> {
        let seen = KnownHostsFile::at(first_sight).read()?;
        let places = host
            .addresses
            .iter()
            .map(|address| HostPort::new(address.as_str(), host.port));
        let mut keys = Vec::new();
        for place in places {
            keys.extend(seen.find(&place).keys);
        }
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            return Ok(false);
        }
        self.known_hosts
            .edit(|known| Ok::<_, Why>(pin_seen(known, host, &keys)?))?;
        Ok(true)
    }
}

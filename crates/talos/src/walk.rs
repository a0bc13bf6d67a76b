//! From machine to machine: health before each, version and a new start after each, and an end at the first failure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::judge::{Before, Child, Judgement, Seen, Trouble, judge};
use crate::machine::{Machine, Role};
use crate::version::Version;

/// How many looks a failed command's machine has to show that something was begun all the same.
const LOOKS_AFTER_FAILURE: u32 = 6;

/// What a walk is to do.
#[derive(Debug, Clone)]
pub struct Given {
    /// The machines, control plane first.
    pub machines: Vec<Machine>,
    /// The version that every one is to run.
    pub wanted: Version,
    /// The image that is installed.
    pub image: String,
    /// How many patches are applied to each machine after all run the version.
    pub n_patches: usize,
    /// The bounds.
    pub limits: Limits,
    /// What an earlier call was at when it was cut.
    pub journal: Option<Journal>,
}

/// How long anything may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One machine, from its upgrade's begin until it is back.
    pub node: Duration,
    /// The cluster, to be healthy.
    pub health: Duration,
    /// Between two looks.
    pub every: Duration,
}

/// What is written down before a machine's upgrade begins, and taken away after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The machine's name.
    pub machine: String,
    /// The version that it is upgraded to.
    pub wanted: String,
    /// The version that it ran before.
    pub version: String,
    /// What told that start of it from others.
    pub boot_id: String,
}

/// The operator asks for an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// The command that upgrades one machine, which goes on.
pub trait Upgrade {
    /// Whether it has ended, and well.
    fn ended(&mut self) -> Option<bool>;
    /// Ends it: what it waits for has been seen.
    fn end(&mut self);
    /// The last lines that it wrote.
    fn tail(&self) -> Vec<String>;
}

/// A cluster, as a walk sees it.
pub trait Cluster {
    /// Looks at one machine, within a bounded time.
    fn look(&self, machine: &Machine) -> Seen;
    /// Says what is wrong with the cluster; asked again until it is healthy or has had its time.
    fn health(&self) -> Result<(), String>;
    /// Begins to upgrade a machine.
    ///
    /// # Errors
    /// The command does not start.
    fn upgrade(&self, machine: &Machine) -> Result<Box<dyn Upgrade + '_>, String>;
    /// Applies a patch to a machine.
    ///
    /// # Errors
    /// It was refused.
    fn patch(&self, machine: &Machine, n: usize) -> Result<(), String>;
    /// Writes down what is about to begin, or that it ended, so that it survives a kill.
    ///
    /// # Errors
    /// It can't be written.
    fn note(&self, journal: Option<&Journal>) -> Result<(), String>;
    /// Waits.
    ///
    /// # Errors
    /// The operator asks for an end.
    fn wait(&self, time: Duration) -> Result<(), Stopped>;
    /// How much time has passed since the walk began.
    fn passed(&self) -> Duration;
    /// Told when a machine's upgrade begins, and when it is back.
    fn tell(&self, machine: &Machine, is_back: bool);
}

/// Why a walk came to no good end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// A machine says no version: nobody can tell what to upgrade.
    #[error("machine `{machine}` does not report a version; nothing was upgraded")]
    Unknown {
        /// The machine.
        machine: String,
    },
    /// A machine runs a newer version.
    #[error(
        "machine `{machine}` runs {version}, which is newer than {wanted}; nothing was upgraded"
    )]
    Newer {
        /// The machine.
        machine: String,
        /// What it runs.
        version: Version,
        /// What was asked for.
        wanted: Version,
    },
    /// The cluster is not healthy.
    #[error("the cluster is not healthy {when}: {why}")]
    Unhealthy {
        /// Before which machine, or after which.
        when: String,
        /// What is wrong with it.
        why: String,
    },
    /// A machine's upgrade failed.
    #[error("upgrade of machine `{machine}` failed: {trouble}")]
    Failed {
        /// The machine.
        machine: String,
        /// Why.
        trouble: Trouble,
        /// What the command said last.
        tail: Vec<String>,
        /// How many machines are left as they were.
        n_left: usize,
    },
    /// A patch was refused.
    #[error("machine `{machine}` did not take patch {number}: {why}", number = n + 1)]
    Patch {
        /// The machine.
        machine: String,
        /// Which patch.
        n: usize,
        /// Why.
        why: String,
    },
    /// Something outside of the cluster failed.
    #[error("{0}")]
    Other(String),
    /// The operator asked for an end.
    #[error("interrupted")]
    Stopped,
}

impl From<Stopped> for WalkError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// What a walk did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    /// Machines that were upgraded, in order.
    pub upgraded: Vec<String>,
    /// How many ran the version before.
    pub n_already: usize,
}

/// Upgrades every machine that runs another version, then patches them all.
///
/// # Errors
/// At the first failure; machines further down are left as they are.
pub fn walk(given: &Given, cluster: &dyn Cluster) -> Result<Walked, WalkError> {
    let mut walked = Walked::default();
    if given.machines.is_empty() {
        return Ok(walked);
    }
    // Whatever an earlier call was at comes first: a machine that is on its way back says no version.
    if let Some((machine, before)) = given.at() {
        if finish_cut(given, cluster, machine, &before)? {
            walked.upgraded.push(machine.name.clone());
        }
        cluster.note(None).map_err(WalkError::Other)?;
    }
    let seen = versions(given, cluster)?;
    let todo: Vec<(&Machine, &Before)> = given
        .machines
        .iter()
        .zip(&seen)
        .filter(|(_, before)| before.version != given.wanted)
        .collect();
    walked.n_already = given.machines.len() - todo.len() - walked.upgraded.len();
    for (index, (machine, _)) in todo.iter().enumerate() {
        let when = format!("before machine `{}`", machine.name);
        healthy(given, cluster, &when)?;
        // Since the first look it may have been started anew.
        let before = match cluster.look(machine) {
            Seen::Up { version, boot_id } => Before { version, boot_id },
            Seen::Silent => {
                let machine = machine.name.clone();
                return Err(WalkError::Unknown { machine });
            }
        };
        let n_left = todo.len() - index - 1;
        upgrade(given, cluster, machine, &before, n_left)?;
        walked.upgraded.push(machine.name.clone());
    }
    if let Some(last) = walked.upgraded.last() {
        healthy(given, cluster, &format!("after machine `{last}`"))?;
    }
    for machine in &given.machines {
        for n in 0..given.n_patches {
            cluster.patch(machine, n).map_err(|why| WalkError::Patch {
                machine: machine.name.clone(),
                n,
                why,
            })?;
        }
    }
    if given.n_patches > 0 {
        healthy(given, cluster, "after the patches")?;
    }
    Ok(walked)
}

/// Looks whether every machine runs the version: names and versions of those that do not.
#[must_use]
pub fn verify(given: &Given, cluster: &dyn Cluster) -> Vec<String> {
    let looked = given
        .machines
        .iter()
        .map(|machine| (machine, cluster.look(machine)));
    looked
        .filter_map(|(machine, seen)| match seen {
            Seen::Silent => Some(format!("machine `{}` does not answer", machine.name)),
            Seen::Up { version, .. } if version != given.wanted => Some(format!(
                "machine `{}` runs {version}, and not {}",
                machine.name, given.wanted
            )),
            Seen::Up { .. } => None,
        })
        .collect()
}

impl Given {
    /// The machine that an earlier call was at, where it is still one of ours and meant to run the same version.
    fn at(&self) -> Option<(&Machine, Before)> {
        let journal = self.journal.as_ref()?;
        let machine = self
            .machines
            .iter()
            .find(|machine| machine.name == journal.machine)?;
        let same = journal.wanted.parse::<Version>().ok()? == self.wanted;
        let before = Before {
            version: journal.version.parse().ok()?,
            boot_id: journal.boot_id.clone(),
        };
        same.then_some((machine, before))
    }
}

/// Every machine's version, or a refusal: nothing is upgraded where one is not known.
fn versions(given: &Given, cluster: &dyn Cluster) -> Result<Vec<Before>, WalkError> {
    let mut seen = Vec::new();
    for machine in &given.machines {
        match cluster.look(machine) {
            Seen::Silent => {
                let machine = machine.name.clone();
                return Err(WalkError::Unknown { machine });
            }
            Seen::Up { version, .. } if version > given.wanted => {
                return Err(WalkError::Newer {
                    machine: machine.name.clone(),
                    version,
                    wanted: given.wanted.clone(),
                });
            }
            Seen::Up { version, boot_id } => seen.push(Before { version, boot_id }),
        }
    }
    Ok(seen)
}

/// Waits until the cluster is healthy.
fn healthy(given: &Given, cluster: &dyn Cluster, when: &str) -> Result<(), WalkError> {
    if !given
        .machines
        .iter()
        .any(|machine| machine.role == Role::ControlPlane)
    {
        // Nobody here could say how the cluster is.
        return Ok(());
    }
    let since = cluster.passed();
    loop {
        let Err(why) = cluster.health() else {
            return Ok(());
        };
        if cluster.passed().saturating_sub(since) >= given.limits.health {
            let when = when.to_owned();
            return Err(WalkError::Unhealthy { when, why });
        }
        cluster.wait(given.limits.every)?;
    }
}

fn upgrade(
    given: &Given,
    cluster: &dyn Cluster,
    machine: &Machine,
    before: &Before,
    n_left: usize,
) -> Result<(), WalkError> {
    let journal = Journal {
        machine: machine.name.clone(),
        wanted: given.wanted.to_string(),
        version: before.version.to_string(),
        boot_id: before.boot_id.clone(),
    };
    cluster.note(Some(&journal)).map_err(WalkError::Other)?;
    cluster.tell(machine, false);
    let mut child = cluster.upgrade(machine).map_err(WalkError::Other)?;
    let since = cluster.passed();
    let mut n_after_failure = 0;
    let judged = loop {
        let state = match child.ended() {
            None => Child::Running,
            Some(true) => Child::Well,
            Some(false) if n_after_failure >= LOOKS_AFTER_FAILURE => Child::Failed,
            Some(false) => {
                n_after_failure += 1;
                Child::JustFailed
            }
        };
        let seen = cluster.look(machine);
        let is_over = cluster.passed().saturating_sub(since) >= given.limits.node;
        match judge(before, &given.wanted, &seen, state, is_over) {
            Judgement::Wait => {}
            judged => break judged,
        }
        if let Err(stopped) = cluster.wait(given.limits.every) {
            // The note stays: the next call goes on at this machine.
            child.end();
            return Err(stopped.into());
        }
    };
    child.end();
    let tail = child.tail();
    drop(child);
    cluster.note(None).map_err(WalkError::Other)?;
    match judged {
        Judgement::Failed(trouble) => Err(WalkError::Failed {
            machine: machine.name.clone(),
            trouble,
            tail,
            n_left,
        }),
        Judgement::Done | Judgement::Wait => {
            cluster.tell(machine, true);
            Ok(())
        }
    }
}

/// Looks after the machine that a call was at when it was cut: whether it runs the wanted version since a new start.
/// One that never began is upgraded with the others.
fn finish_cut(
    given: &Given,
    cluster: &dyn Cluster,
    machine: &Machine,
    before: &Before,
) -> Result<bool, WalkError> {
    let since = cluster.passed();
    let mut n_as_it_was = 0;
    loop {
        let seen = cluster.look(machine);
        let is_over = cluster.passed().saturating_sub(since) >= given.limits.node;
        match judge(before, &given.wanted, &seen, Child::Running, is_over) {
            Judgement::Done => return Ok(true),
            Judgement::Failed(Trouble::NotBooted { .. }) => return Ok(false),
            Judgement::Failed(trouble) => {
                cluster.note(None).map_err(WalkError::Other)?;
                return Err(WalkError::Failed {
                    machine: machine.name.clone(),
                    trouble,
                    tail: Vec::new(),
                    n_left: 0,
                });
            }
            Judgement::Wait => {}
        }
        // Its command is dead with the call that it belonged to: what that one began shows soon or never.
        if matches!(seen, Seen::Up { .. }) {
            n_as_it_was += 1;
            if n_as_it_was > LOOKS_AFTER_FAILURE {
                return Ok(false);
            }
        }
        cluster.wait(given.limits.every)?;
    }
}

#[cfg(test)]
mod tests;

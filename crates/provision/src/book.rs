//! The ledger of jobs, with who holds what and what to do about it.

use std::path::PathBuf;

use jobs::{Job, JobId, Ledger, LedgerError};
use phase_engine::{ExitCode, Failure};
use process::{Identity, Liveness};
use run::api::Machine;
use store::lock::Holder;

/// The ledger of this user's jobs, opened for one call.
pub struct Book {
    pub(crate) ledger: Ledger,
    /// This call, as it holds jobs.
    pub(crate) holder: String,
}

/// Where the ledger lies.
pub(crate) fn path(machine: &Machine) -> PathBuf {
    machine.state_home.join("jobs.sqlite")
}

/// The time as the ledger keeps it.
pub(crate) fn now(machine: &Machine) -> String {
    (machine.now)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Book {
    /// Opens it; `command` is what this call is said to do.
    ///
    /// # Errors
    /// It can't be opened or read, or a newer version wrote it. Nothing was touched.
    pub fn open(machine: &Machine, command: &str) -> Result<Self, Failure> {
        let ledger = Ledger::open(&path(machine)).map_err(|error| told(&error))?;
        let identity =
            Identity::of_self().map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
        let holder = Holder {
            identity,
            user: machine.user.clone(),
            host: machine.host.clone(),
            run: None,
            command: command.to_owned(),
            since: now(machine),
        };
        let holder = serde_json::to_string(&holder)
            .map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
        Ok(Self { ledger, holder })
    }

    /// One job.
    ///
    /// # Errors
    /// There is none of this id, or the ledger can't be read.
    pub fn show(&self, id: &str) -> Result<Job, Failure> {
        let id = JobId(id.to_owned());
        self.ledger.show(&id).map_err(|error| told(&error))
    }

    /// Takes a job to run it, with its target's lock held.
    ///
    /// # Errors
    /// Somebody who is seen alive holds it.
    pub fn take(&mut self, id: &JobId) -> Result<Job, Failure> {
        self.ledger
            .take(id, &self.holder, is_over)
            .map_err(|error| told(&error))
    }

    /// Gives a job back.
    ///
    /// # Errors
    /// The ledger can't be written.
    pub fn give_back(&mut self, id: &JobId) -> Result<Job, Failure> {
        self.ledger
            .give_back(id, &self.holder)
            .map_err(|error| told(&error))
    }
}

/// What is known of whoever holds a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nobody, or somebody who is proven dead: one of an earlier boot of this machine is.
    Nobody,
    /// Somebody who lives.
    Alive,
    /// Somebody on another machine or in another process namespace: nothing is known from here.
    Elsewhere,
}

/// Whether the call that held a job is over, as who holds the target's lock may judge: a job is given back before that
/// lock is, so whoever is not seen alive here died, or lost the lock by a person's word. What such a one would still
/// write of the job is refused by the ledger.
pub(crate) fn is_over(holder: &str) -> bool {
    seen_of(holder) != Seen::Alive
}

/// What is known of a job's holder.
pub(crate) fn seen(job: &Job) -> Seen {
    job.holder.as_deref().map_or(Seen::Nobody, seen_of)
}

fn seen_of(holder: &str) -> Seen {
    // What nobody can read was written by nobody who can be looked for here.
    let Ok(holder) = serde_json::from_str::<Holder>(holder) else {
        return Seen::Elsewhere;
    };
    match holder.identity.liveness() {
        Liveness::Dead | Liveness::OtherBoot => Seen::Nobody,
        Liveness::Alive => Seen::Alive,
        Liveness::OtherMachine => Seen::Elsewhere,
    }
}

/// The holder in words, where somebody is not proven dead.
pub(crate) fn runner(job: &Job) -> Option<String> {
    let holder = job.holder.as_deref()?;
    (seen_of(holder) != Seen::Nobody).then(|| in_words(holder))
}

fn in_words(holder: &str) -> String {
    serde_json::from_str::<Holder>(holder)
        .map_or_else(|_| "somebody else".to_owned(), |holder| holder.to_string())
}

/// What went wrong with the ledger, before anything was done.
pub(crate) fn told(error: &LedgerError) -> Failure {
    match error {
        LedgerError::Held { job, holder } => Failure::new(
            ExitCode::Locked,
            format!("job `{job}` is run by {}", in_words(holder)),
        )
        .hint(format!("wait for it; `rebuild jobs show {job}` tells how far it is")),
        LedgerError::Newer { .. } => Failure::of(ExitCode::Stopped, error)
            .hint("use the version of `rebuild` that wrote it, or a newer one; nothing was touched"),
        LedgerError::NoSuchJob(_) => Failure::of(ExitCode::Unusable, error)
            .hint("`rebuild jobs list` shows those of this user on this machine; nothing was touched"),
        LedgerError::AnotherOpen { other } => Failure::of(ExitCode::Stopped, error)
            .hint(format!("`rebuild jobs resume {other}` brings that one to its end first")),
        LedgerError::Transition(jobs::TransitionError::NothingLeft { .. }) => {
            Failure::of(ExitCode::Unusable, error).hint("`--from STEP` names it")
        }
        LedgerError::Transition(jobs::TransitionError::NoSuchStep { .. }) => {
            Failure::of(ExitCode::Unusable, error).hint("`--from STEP` names one of those; nothing was touched")
        }
        LedgerError::Transition(_) => Failure::of(ExitCode::Unusable, error),
        LedgerError::Sqlite { path, .. } => Failure::of(ExitCode::Stopped, error).hint(format!(
            "nothing was touched; where `{}` is damaged, move it away: jobs are known by it alone, what stands is not",
            path.display()
        )),
        LedgerError::Make(_) => Failure::of(ExitCode::Stopped, error)
            .hint("nothing was touched; mend the directory, and run the same command again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(alter: impl FnOnce(&mut Identity)) -> String {
        let mut identity = Identity::of_self().unwrap();
        alter(&mut identity);
        let text = |text: &str| text.to_owned();
        let holder = Holder {
            identity,
            user: text("ada"),
            host: text("box"),
            run: None,
            command: text("provision run"),
            since: text("2026-12-01T10:00:00Z"),
        };
        serde_json::to_string(&holder).unwrap()
    }

    #[test]
    fn only_who_is_seen_alive_here_keeps_a_job_from_the_holder_of_the_targets_lock() {
        let later = |identity: &mut Identity| identity.start_time += 1;
        let namespace = |identity: &mut Identity| identity.pid_namespace.push('x');
        let machine = |identity: &mut Identity| identity.machine_id.push('x');
        let boot = |identity: &mut Identity| identity.boot_id.push('x');
        for (holder, seen, over) in [
            (holder(|_| ()), Seen::Alive, false),
            (holder(later), Seen::Nobody, true),
            (holder(boot), Seen::Nobody, true),
            (holder(namespace), Seen::Elsewhere, true),
            (holder(machine), Seen::Elsewhere, true),
            ("of a later version".to_owned(), Seen::Elsewhere, true),
        ] {
            assert_eq!(
                (seen_of(&holder), is_over(&holder)),
                (seen, over),
                "{holder}"
            );
        }
    }
}

//! What a workspace captures lies in its target's envelope: put there by a `bootstrap`, taken from it by any later call.

use std::collections::{BTreeMap, BTreeSet};

use envelope::{Captured, KeyName};
use phase_engine::{ExitCode, Failure};
use record::{CallCommand, RecordedValue};

use super::Workspace;
use crate::error::failed;
use crate::sealed::SealedError;
use crate::standing::Standing;

impl Workspace<'_> {
    /// Those of the names that nothing has given a value yet.
    pub(super) fn lacking(&self, names: Vec<String>) -> Vec<String> {
        let given = self.held.bench.captured_inputs();
        let is_lacking = |name: &String| !given.contains_key(name);
        names.into_iter().filter(is_lacking).collect()
    }

    /// Gives the workspace what the target's envelope holds of the variables that it captures and that nothing has
    /// given yet. What the envelope lacks is left.
    ///
    /// # Errors
    /// One that is there can't be opened, or is no text.
    pub fn give_sealed(&self) -> Result<(), Failure> {
        let names = match self.def() {
            Ok(def) => def.captured,
            Err(_) => self.recorded_as_secret()?,
        };
        let there = self.sealed_names()?;
        let names = self.lacking(names);
        self.give_opened(names.into_iter().filter(|name| there.contains(name)), None)
    }

    /// The same for what a job sealed: `names` are its secrets, and what another put in their place is refused.
    ///
    /// # Errors
    /// One that the workspace wants is not there, can't be opened, is no text, or is not this job's.
    pub fn give_sealed_by(&self, job: &str, names: &[String]) -> Result<(), Failure> {
        let wanted = self.lacking(self.captures()?);
        let names = wanted.into_iter().filter(|name| names.contains(name));
        self.give_opened(names, Some(job))
    }

    fn give_opened(
        &self,
        names: impl Iterator<Item = String>,
        job: Option<&str>,
    ) -> Result<(), Failure> {
        let sealed = self.held.bench.secrets.sealed();
        let mut opened = BTreeMap::new();
        for name in names {
            let secret = sealed.open(&name, job).and_then(|found| {
                let key = name.parse()?;
                found.to_secret().ok_or(SealedError::NotText(key))
            });
            let secret = secret.map_err(|error| self.untaken(&error))?;
            opened.insert(name, secret);
        }
        self.give(opened)
    }

    /// The names of all that the target's envelope holds.
    pub(super) fn sealed_names(&self) -> Result<BTreeSet<String>, Failure> {
        let listed = self.held.bench.secrets.sealed().envelope().list();
        let listed = listed.map_err(|error| self.untaken(&error.into()))?;
        Ok(listed.iter().map(KeyName::to_string).collect())
    }

    /// Whether the target's envelope holds all of these, and each is this job's.
    #[must_use]
    pub fn is_sealed_by(&self, job: &str, names: &[String]) -> bool {
        let sealed = self.held.bench.secrets.sealed();
        names
            .iter()
            .all(|name| sealed.open(name, Some(job)).is_ok())
    }

    /// Seals what a play captured into the target's envelope, as `job`'s.
    ///
    /// # Errors
    /// It can't be sealed or written.
    pub(super) fn seal(&self, job: &str, captured: &Captured) -> Result<(), Failure> {
        let sealed = self.held.bench.secrets.sealed();
        sealed
            .seal(job, &captured.key, captured.expose())
            .map_err(|error| self.untaken(&error))
    }

    /// Looks, before anything runs, whether what is captured can be sealed, and opened again by a later call.
    ///
    /// # Errors
    /// The target has no envelope, or the key that opens it can't be had.
    pub(super) fn can_seal(&self) -> Result<(), Failure> {
        let sealed = self.held.bench.secrets.sealed();
        sealed
            .recipients()
            .and_then(|_| sealed.identities())
            .map(drop)
            .map_err(|error| self.untaken(&error))
    }

    /// Variables of one that is defined no more, whose values a record can't hold.
    fn recorded_as_secret(&self) -> Result<Vec<String>, Failure> {
        let ledger = self.held.ledger(CallCommand::Provision)?;
        let standing = Standing(ledger.view());
        let Some(entry) = standing.get(&self.site.step) else {
            return Ok(Vec::new());
        };
        let mut names = BTreeSet::new();
        for applied in entry.teardown_order() {
            let secret = applied
                .values
                .iter()
                .filter(|(_, value)| !matches!(value, RecordedValue::Value(_)));
            names.extend(secret.map(|(name, _)| name.to_owned()));
        }
        Ok(names.into_iter().collect())
    }

    fn untaken(&self, error: &SealedError) -> Failure {
        let failure = match error {
            SealedError::Envelope(_) => failed(error),
            _ => Failure::of(ExitCode::Unusable, error),
        };
        failure.hint(error.hint(&self.site.site.target))
    }
}

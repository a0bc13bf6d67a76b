//! What a workspace captures lies in its target's envelope: put there by a `bootstrap`, taken from it by any later call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use envelope::{Captured, KeyName};
use phase_engine::{ExitCode, Failure};
use record::{CallCommand, RecordedValue};
use secrets::Secret;

use super::{LOST, Workspace};
use crate::error::failed;
use crate::sealed::SealedError;
use crate::standing::Standing;
use crate::ui::Notice;

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

    /// The same for a teardown, which needs all that it was applied with.
    ///
    /// # Errors
    /// Something of it is not there or can't be opened, with the ways on.
    pub(super) fn give_for_teardown(&self, standing: &Standing) -> Result<(), Failure> {
        let site = &self.site;
        let ways = |failure: Failure, name: &str| {
            let first = failure.hint.clone().map(|hint| format!("{hint}. "));
            failure.hint(format!(
                "{}Where that is gone for good: `rebuild secrets seal {name} --target {}` takes the value again, sealed to \
                 the recipients of today; `rebuild provision down {} --without-captured REASON` destroys without it. \
                 Nothing was touched",
                first.unwrap_or_default(),
                site.site.target,
                site.as_typed()
            ))
        };
        let captured = self.def().map(|def| def.captured).unwrap_or_default();
        let first = captured.first().map_or("NAME", String::as_str);
        self.give_sealed().map_err(|failure| ways(failure, first))?;
        let applied = standing.get(&site.step);
        let was_given = |name: &String| {
            let mut all = applied.iter().flat_map(|entry| entry.teardown_order());
            all.any(|applied| applied.values.iter().any(|(given, _)| given == name))
        };
        match self.lacking(captured).into_iter().find(was_given) {
            None => Ok(()),
            Some(name) => Err(ways(
                Failure::new(
                    ExitCode::Unusable,
                    format!(
                        "workspace `{}` was applied with `{name}`, which the envelope of target `{}` does not hold",
                        site.name, site.site.target
                    ),
                ),
                &name,
            )),
        }
    }

    /// Gives what can be opened of what it captures. The rest is lost, and is done without in a teardown.
    ///
    /// # Errors
    /// What its record says can't be read.
    pub(super) fn give_what_opens(&self) -> Result<(), Failure> {
        let bench = &self.held.bench;
        let (known, names) = match self.def() {
            Ok(def) => (true, def.captured),
            Err(_) => (false, self.recorded_as_secret()?),
        };
        let there = self.sealed_names().unwrap_or_default();
        for name in self.lacking(names) {
            let why = if there.contains(&name) {
                match self.give_opened(std::iter::once(name.clone()), None) {
                    Ok(()) => continue,
                    Err(failure) => in_one_line(&failure),
                }
            } else if known {
                "the envelope does not hold it".to_owned()
            } else {
                // Any other secret of it, which its definitions say the source of.
                continue;
            };
            bench.ui.tell(&Notice::Warning {
                message: format!("`{name}` is done without: {why}"),
                hint: None,
            });
            if known {
                let mut own = bench
                    .captured
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                own.insert(name, Secret::new(LOST.to_owned()));
            }
        }
        bench.without_captured.store(true, Ordering::Relaxed);
        Ok(())
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

fn in_one_line(failure: &Failure) -> String {
    let parts = std::iter::once(&failure.what).chain(&failure.causes);
    parts.map(String::as_str).collect::<Vec<_>>().join(": ")
}

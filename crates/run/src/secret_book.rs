//! The target's secrets: fetched once a call, only those that are used, and made known to the masker.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use phase_engine::{ExitCode, Failure};
use platform::{Platform, Reference, Target};
use secrets::{FetchError, Masker, Secret, Source};

use crate::api::Machine;
use crate::sealed::{Sealed, SealedError};
use crate::ui::{Notice, Ui};

/// Why a secret is not there.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch secret `{name}` of target `{target}`")]
pub(crate) struct SecretError {
    /// The secret.
    pub(crate) name: String,
    /// The target.
    pub(crate) target: String,
    /// Why.
    #[source]
    pub(crate) source: Box<FetchError>,
}

impl SecretError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> String {
        let file = format!("targets/{}.toml", self.target);
        let first = match &*self.source {
            FetchError::Unset { name } => format!("set the variable: `export {name}=…`"),
            FetchError::Empty { .. } => "give it a value".to_owned(),
            FetchError::Command { .. } | FetchError::CommandFailed { .. } => {
                "run the command by hand, and mend what it says".to_owned()
            }
            FetchError::Envelope { source, .. } => {
                source.downcast_ref::<SealedError>().map_or_else(
                    || "mend the source".to_owned(),
                    |why| why.hint(&self.target),
                )
            }
            _ => "mend the source".to_owned(),
        };
        format!(
            "{first}; {file} says where `{}` comes from. Nothing was touched",
            self.name
        )
    }
}

/// The secrets of a call, by name.
pub(crate) struct SecretBook {
    sources: BTreeMap<String, Source>,
    sealed: Sealed,
    target: String,
    machine: Machine,
    root: PathBuf,
    masker: Masker,
    ui: Arc<dyn Ui>,
    values: Mutex<BTreeMap<String, Secret>>,
}

impl SecretBook {
    /// Fetches the named secrets of the target; their commands run in the caller's environment and, as relative
    /// paths do, count from the platform's directory.
    ///
    /// # Errors
    /// One of them can't be had; the first is reported, nothing else was done.
    pub(crate) fn fetch(
        names: &BTreeSet<String>,
        target: &Target,
        machine: &Machine,
        root: &Path,
        masker: &Masker,
        ui: &Arc<dyn Ui>,
    ) -> Result<Self, SecretError> {
        let book = Self {
            sources: target.secrets.clone(),
            sealed: Sealed::new(target, machine, root),
            target: target.name.to_string(),
            machine: machine.clone(),
            root: root.to_owned(),
            masker: masker.clone(),
            ui: Arc::clone(ui),
            values: Mutex::default(),
        };
        for name in names {
            book.get(name)?;
        }
        Ok(book)
    }

    /// Fetches more of them.
    ///
    /// # Errors
    /// As [`SecretBook::fetch`].
    pub(crate) fn need(&self, names: &BTreeSet<String>) -> Result<(), SecretError> {
        names.iter().try_for_each(|name| self.get(name).map(drop))
    }

    /// The platform's directory, from which relative files count.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a secret's value. One that only an older bundle refers to is fetched when it is asked for.
    pub(crate) fn expose(&self, name: &str) -> Option<String> {
        match self.get(name) {
            Ok(secret) => secret.map(|secret| secret.expose().to_owned()),
            Err(error) => {
                // The reference will be said to have no value; this says why.
                let why = Failure::of(ExitCode::Unusable, &error);
                self.ui.tell(&Notice::Warning {
                    message: why.what,
                    hint: Some(why.causes.join(": ")),
                });
                None
            }
        }
    }

    fn get(&self, name: &str) -> Result<Option<Secret>, SecretError> {
        // Held while it is fetched, so that each command runs once a call.
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = values.get(name) {
            return Ok(Some(secret.clone()));
        }
        let Some(source) = self.sources.get(name) else {
            return Ok(None);
        };
        let secret = self.take(name, source)?;
        values.insert(name.to_owned(), secret.clone());
        Ok(Some(secret))
    }

    /// Fetches a value from its source, the envelope included, and makes it known to the masker.
    ///
    /// # Errors
    /// It can't be had.
    pub(crate) fn take(&self, name: &str, source: &Source) -> Result<Secret, SecretError> {
        let secret = match source {
            // The key that opens it is fetched once a call.
            Source::Envelope(entry) => self.sealed.secret(entry).map_err(|source| SecretError {
                name: name.to_owned(),
                target: self.target.clone(),
                source: Box::new(FetchError::Envelope {
                    name: entry.clone(),
                    source: Box::new(source),
                }),
            }),
            _ => fetch_one(source, name, &self.target, &self.machine, &self.root),
        }?;
        self.masker.add(name, &secret);
        Ok(secret)
    }

    /// The target's envelope.
    pub(crate) fn sealed(&self) -> &Sealed {
        &self.sealed
    }
}

/// Fetches one value from its source; a relative file, and a command, count from the platform's directory.
///
/// # Errors
/// It can't be had.
pub(crate) fn fetch_one(
    source: &Source,
    name: &str,
    target: &str,
    machine: &Machine,
    root: &Path,
) -> Result<Secret, SecretError> {
    source
        .fetch(&machine.env, &machine.home, root, machine.spawner.as_ref())
        .map_err(|source| SecretError {
            name: name.to_owned(),
            target: target.to_owned(),
            source: Box::new(source),
        })
}

/// Names the secrets that open the target's stores: those of `[store]` and `[archive]`, and those of the cloud's variables in `[env]`.
pub(crate) fn used_by_store(target: &Target) -> BTreeSet<String> {
    let clouds = ["AWS_", "GOOGLE_", "AZURE_"];
    let of_cloud = |name: &str| clouds.iter().any(|begin| name.starts_with(begin));
    let stores = [Some(&target.store), target.archive.as_ref()];
    let stores = || stores.iter().copied().flatten();
    let mut exprs: Vec<_> = stores().flat_map(platform::StoreDef::exprs).collect();
    if stores().any(|store| matches!(store, platform::StoreDef::Cloud(_))) {
        let variables = target.env.iter().filter(|(name, _)| of_cloud(name));
        exprs.extend(variables.filter_map(|(_, value)| value.expr()));
    }
    secrets_of(&exprs)
}

fn secrets_of(exprs: &[&platform::Expr]) -> BTreeSet<String> {
    exprs
        .iter()
        .flat_map(|expr| expr.references())
        .filter_map(|located| match &located.reference {
            Reference::Secret { name } => Some(name.clone()),
            _ => None,
        })
        .collect()
}

/// Names the secrets that a step refers to.
pub(crate) fn used_by_step(step: &platform::StepDef) -> BTreeSet<String> {
    secrets_of(&step.exprs())
}

/// Names the secrets that the platform or the target's environment refers to.
pub(crate) fn used(platform: &Platform, target: &Target) -> BTreeSet<String> {
    let mut exprs = Vec::new();
    for phase in &platform.phases {
        exprs.extend(phase.steps.iter().flat_map(platform::StepDef::exprs));
        for check in &phase.checks {
            exprs.extend(check.kind.exprs());
        }
        for residue in &phase.residue {
            exprs.extend(
                residue
                    .argv
                    .iter()
                    .chain(residue.env.values().filter_map(platform::EnvValue::expr)),
            );
        }
    }
    exprs.extend(target.env.values().filter_map(platform::EnvValue::expr));
    secrets_of(&exprs)
}

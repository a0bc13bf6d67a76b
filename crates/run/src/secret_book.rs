//! The target's secrets: fetched once a call, only those that are used, and made known to the masker.

use std::collections::{BTreeMap, BTreeSet};

use platform::{Platform, Reference, Target};
use secrets::{FetchError, Masker, Secret};

use crate::api::Machine;

/// Why a secret is not there.
#[derive(Debug, thiserror::Error)]
#[error("cannot fetch secret `{name}` of target `{target}`")]
pub struct SecretError {
    /// The secret.
    pub name: String,
    /// The target.
    pub target: String,
    /// Why.
    #[source]
    pub source: FetchError,
}

/// The secrets of a call, by name.
#[derive(Default)]
pub struct SecretBook {
    values: BTreeMap<String, Secret>,
}

impl SecretBook {
    /// Fetches the named secrets of the target; their commands run in the caller's environment.
    ///
    /// # Errors
    /// One of them can't be had; the first is reported, nothing else was done.
    pub fn fetch(
        names: &BTreeSet<String>,
        target: &Target,
        machine: &Machine,
        masker: &Masker,
    ) -> Result<Self, SecretError> {
        let mut values = BTreeMap::new();
        for name in names {
            let Some(source) = target.secrets.get(name) else {
                continue;
            };
            let secret = fetch_one(source, name, target, machine)?;
            masker.add(name, &secret);
            values.insert(name.clone(), secret);
        }
        Ok(Self { values })
    }

    /// Returns a secret's value.
    #[must_use]
    pub fn expose(&self, name: &str) -> Option<String> {
        self.values
            .get(name)
            .map(|secret| secret.expose().to_owned())
    }
}

/// Fetches one value from its source.
///
/// # Errors
/// It can't be had.
pub fn fetch_one(
    source: &secrets::Source,
    name: &str,
    target: &Target,
    machine: &Machine,
) -> Result<Secret, SecretError> {
    source
        .fetch(
            &machine.env,
            &machine.home,
            &machine.cwd,
            machine.spawner.as_ref(),
        )
        .map_err(|source| SecretError {
            name: name.to_owned(),
            target: target.name.as_str().to_owned(),
            source,
        })
}

/// Names the secrets that the platform or the target's environment refers to.
#[must_use]
pub fn used(platform: &Platform, target: &Target) -> BTreeSet<String> {
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
    exprs
        .iter()
        .flat_map(|expr| expr.references())
        .filter_map(|located| match &located.reference {
            Reference::Secret { name } => Some(name.clone()),
            _ => None,
        })
        .collect()
}

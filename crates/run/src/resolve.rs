//! From expressions to values: a step's inputs, its environment, its arguments.

use std::collections::BTreeMap;
use std::ffi::OsString;

use phase_engine::{ExitCode, Failure, StepId};
use platform::{EnvValue, Expr, Resolved, StepDef, TofuStep};
use secrets::TargetKey;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::environment::Environment;
use crate::scope::CallScope;

/// The inputs of one tofu step, by variable.
pub(crate) type Inputs = BTreeMap<String, Resolved>;

/// Resolves every input of a tofu step. A variable that the root module calls sensitive makes its value sensitive.
pub(crate) fn inputs(
    step: &StepId,
    tofu: &TofuStep,
    exprs: &BTreeMap<String, Expr>,
    scope: &CallScope<'_>,
) -> Result<Inputs, Failure> {
    let mut inputs = Inputs::new();
    for (name, expr) in exprs {
        let mut resolved = value(step, &format!("variable `{name}`"), expr, scope)?;
        resolved.sensitive |= tofu
            .module
            .variables
            .get(name)
            .is_some_and(|variable| variable.sensitive);
        inputs.insert(name.clone(), resolved);
    }
    Ok(inputs)
}

/// Resolves one expression of a step.
pub(crate) fn value(
    step: &StepId,
    what: &str,
    expr: &Expr,
    scope: &CallScope<'_>,
) -> Result<Resolved, Failure> {
    expr.resolve(scope).map_err(|error| {
        Failure::failed(format!("step `{step}`: {what} has no value")).because(error.to_string())
    })
}

/// Resolves an argument list.
pub(crate) fn argv(
    what: &str,
    exprs: &[Expr],
    scope: &CallScope<'_>,
) -> Result<Vec<String>, Failure> {
    exprs
        .iter()
        .map(|expr| {
            expr.resolve(scope)
                .map(Resolved::into_text)
                .map_err(|error| {
                    Failure::failed(format!("{what}: an argument has no value"))
                        .because(error.to_string())
                })
        })
        .collect()
}

/// Builds an environment: the base, then what the target names, then what is named here.
pub(crate) fn env(
    what: &str,
    base: &Environment,
    layers: &[&BTreeMap<String, EnvValue>],
    caller: &Environment,
    scope: &CallScope<'_>,
) -> Result<Environment, Failure> {
    let mut env = base.clone();
    for (name, value) in layers.iter().copied().flatten() {
        let value: OsString = match value {
            EnvValue::Value(expr) => expr
                .resolve(scope)
                .map(Resolved::into_text)
                .map_err(|error| {
                    Failure::failed(format!(
                        "{what}: variable `{name}` of the environment has no value"
                    ))
                    .because(error.to_string())
                })?
                .into(),
            EnvValue::From(from) => match caller.get(&OsString::from(from)) {
                Some(value) => value.clone(),
                None => {
                    return Err(Failure::new(
                        ExitCode::Unusable,
                        format!(
                            "the target passes `{from}` of the caller's environment on, and it is not set"
                        ),
                    ));
                }
            },
        };
        env.insert(name.into(), value);
    }
    Ok(env)
}

/// The inputs as a record may keep them: sensitive ones as a keyed digest only.
pub(crate) fn recordable(
    inputs: &Inputs,
    key: &TargetKey,
) -> Result<(Map<String, Value>, BTreeMap<String, String>), Failure> {
    let mut plain = Map::new();
    let mut digests = BTreeMap::new();
    for (name, resolved) in inputs {
        if resolved.sensitive {
            digests.insert(name.clone(), digest(&resolved.value, key)?);
        } else {
            plain.insert(name.clone(), resolved.value.clone());
        }
    }
    Ok((plain, digests))
}

/// The keyed digest of a value that a record can't hold.
pub(crate) fn digest(value: &Value, key: &TargetKey) -> Result<String, Failure> {
    key.digest(&value.to_string())
        .map_err(|error| Failure::of(ExitCode::Unusable, &error))
}

/// The digest of a step's definitions: its section, its files, and its resolved inputs.
pub(crate) fn definition(
    step: &StepDef,
    files: &str,
    plain: &Map<String, Value>,
    digests: &BTreeMap<String, String>,
) -> String {
    let mut hash = Sha256::new();
    for part in [step.section_digest.as_str(), files] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let sorted: BTreeMap<&String, &Value> = plain.iter().collect();
    hash.update(serde_json::json!({ "plain": sorted, "sensitive": digests }).to_string());
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

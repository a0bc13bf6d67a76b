//! From expressions to values: a step's inputs, its environment, its arguments.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;

use phase_engine::{ExitCode, Failure, StepId};
use platform::{EnvValue, Expr, Resolved, TofuStep};
use record::{Input, Values};
use secrets::TargetKey;
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
            let resolved = expr.resolve(scope).map_err(|error| {
                Failure::failed(format!("{what}: an argument has no value"))
                    .because(error.to_string())
            })?;
            // Found before anything runs where it is declared sensitive; an output may also turn out to hold a secret.
            if resolved.sensitive {
                return Err(
                    Failure::failed(format!("{what}: an argument holds a secret")).hint(
                        "every process of the machine can read arguments: hand it over in `env` or `stdin`",
                    ),
                );
            }
            Ok(resolved.into_text())
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

/// The inputs as the record keeps them: sensitive ones as a keyed digest only.
pub(crate) fn values(inputs: &Inputs, key: &TargetKey) -> Result<Values, Failure> {
    let failed = RefCell::new(None);
    let digest = |text: &str| match key.digest(text) {
        Ok(digest) => digest,
        Err(error) => {
            *failed.borrow_mut() = Some(Failure::of(ExitCode::Unusable, &error));
            String::new()
        }
    };
    let values = Values::of(
        inputs.iter().map(|(name, input)| {
            let value = input.value.clone();
            (
                name.clone(),
                if input.sensitive {
                    Input::sensitive(value)
                } else {
                    Input::plain(value)
                },
            )
        }),
        &digest,
    );
    match failed.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(values),
    }
}

/// The digest of a step's definitions: its section and files, and its resolved inputs.
pub(crate) fn definition(files: &str, values: &Values) -> String {
    let values = serde_json::to_string(values).unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [files, values.as_str()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

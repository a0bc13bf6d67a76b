//! A standing step with the definitions and values that it was applied from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use phase_engine::{ExitCode, Failure, StepId};
use platform::{EnvValue, Expr, Reference, Resolved, StepDef, StepKind, TofuStep};
use record::{Applied, RecordedValue, StandingEntry};
use serde_json::Value;
use state_backend::GrantOptions;
use tofu::{Session, Slot};

use crate::bench::Bench;
use crate::library::{Extras, Source};
use crate::masking::holds_secret;
use crate::resolve;
use crate::scope::Output;
use crate::standing::Standing;
use crate::tofu_work::{Wanted, tofu_failure};
use crate::workspace::LOST;

/// A session of a step as it was applied, and what differs in its values since.
pub(crate) struct AppliedSession {
    /// The session.
    pub(crate) session: Session,
    /// Variables whose sensitive value is another one now.
    pub(crate) changed: BTreeSet<String>,
}

impl Bench<'_> {
    /// Makes known what the outputs of a standing step were, as far as the record may hold them.
    pub(crate) fn recall_outputs(
        &self,
        entry: &StandingEntry,
        standing: &Standing,
    ) -> Result<(), Failure> {
        let mut outputs: BTreeMap<String, Output> = entry
            .outputs
            .iter()
            .map(|(name, value)| {
                (
                    name.to_owned(),
                    Output {
                        value: Some(value.clone()),
                        sensitive: false,
                    },
                )
            })
            .collect();
        let Some(applied) = entry.as_applied() else {
            return Ok(());
        };
        let source = self.library.get(&applied.bundle)?;
        if let StepKind::Tofu(tofu) = &source.applied_step(&entry.step, applied)?.1.kind {
            for name in tofu.module.outputs.keys() {
                outputs.entry(name.clone()).or_insert(Output {
                    value: None,
                    sensitive: true,
                });
            }
        }
        // What was applied before it was moved refers to it by the name of then.
        for name in &entry.formerly {
            if standing.get(name).is_none() {
                self.outputs.put(name, outputs.clone());
            }
        }
        self.outputs.put(&entry.step, outputs);
        Ok(())
    }

    /// Reads the sensitive outputs that `exprs` refer to, from the states of the steps that make them.
    pub(crate) fn need_outputs<'e>(
        &self,
        exprs: impl IntoIterator<Item = &'e Expr>,
        standing: &Standing,
    ) -> Result<(), Failure> {
        for located in exprs.into_iter().flat_map(Expr::references) {
            let Reference::Output { step, output, .. } = &located.reference else {
                continue;
            };
            let known = self
                .outputs
                .get(step, output)
                .is_some_and(|output| output.value.is_some());
            if !known {
                self.read_outputs(step, standing)?;
            }
        }
        Ok(())
    }

    pub(crate) fn read_outputs(&self, step: &StepId, standing: &Standing) -> Result<(), Failure> {
        let Some(entry) = standing.once_called(&self.outputs.standing_name(step)) else {
            return Err(Failure::failed(format!(
                "an output of step `{step}` is needed, and nothing stands of it"
            )));
        };
        let source = self.library.get(&entry.applied.bundle)?;
        let (_, def) = source.applied_step(&entry.step, &entry.applied)?;
        let StepKind::Tofu(tofu) = &def.kind else {
            return Err(Failure::failed(format!("step `{step}` has no outputs")));
        };
        let applied = self.applied_session(&entry, &entry.applied, &source, def, tofu, standing)?;
        let outputs = applied
            .session
            .output_json()
            .map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        let outputs = outputs
            .into_iter()
            .map(|(name, output)| {
                if output.sensitive {
                    self.mask_value(&format!("{step}.{name}"), &output.value);
                }
                let sensitive = output.sensitive || holds_secret(&self.masker, &output.value);
                let value = Some(output.value);
                (name, Output { value, sensitive })
            })
            .collect();
        self.outputs.put(step, outputs);
        Ok(())
    }

    /// Makes the texts in a sensitive value known to the masker.
    pub(crate) fn mask_value(&self, name: &str, value: &Value) {
        match value {
            Value::String(text) => self.masker.add_text(name, text),
            Value::Array(items) => items.iter().for_each(|item| self.mask_value(name, item)),
            Value::Object(members) => members
                .values()
                .for_each(|item| self.mask_value(name, item)),
            Value::Number(number) => self.masker.add_text(name, &number.to_string()),
            Value::Bool(_) | Value::Null => {}
        }
    }

    /// Opens a session on a step as it was applied, in its tree, with the values of then: sensitive ones, which
    /// a record can't hold, from where they come from now.
    pub(crate) fn applied_session(
        &self,
        entry: &StandingEntry,
        applied: &Applied,
        source: &Arc<Source>,
        def: &StepDef,
        tofu: &TofuStep,
        standing: &Standing,
    ) -> Result<AppliedSession, Failure> {
        let step = &entry.step;
        let mut variables = BTreeMap::new();
        let mut changed = BTreeSet::new();
        for (name, recorded) in applied.values.iter() {
            if let RecordedValue::Value(value) = recorded {
                variables.insert(name.to_owned(), value.clone());
                continue;
            }
            let captured = self.captured_inputs().remove(name);
            let resolved = match captured {
                Some(captured) => captured,
                // What nothing of the definitions of then gives a value came from memory.
                None if self.without_captured.load(Ordering::Relaxed)
                    && !tofu.vars.contains_key(name)
                    && !applied.target.contains_key(name) =>
                {
                    Resolved {
                        value: Value::from(LOST),
                        sensitive: true,
                    }
                }
                None => {
                    let expr = tofu
                        .vars
                        .get(name)
                        .cloned()
                        .unwrap_or_else(|| Expr::target(name));
                    self.need_outputs([&expr], standing)?;
                    let scope = self.scope(&applied.target);
                    resolve::value(step, &format!("variable `{name}`"), &expr, &scope)?
                }
            };
            self.mask_value(&format!("{step}.{name}"), &resolved.value);
            variables.insert(name.to_owned(), resolved.value.clone());
            let sensitive = Resolved {
                sensitive: true,
                ..resolved
            };
            let now = resolve::values(&BTreeMap::from([(name.to_owned(), sensitive)]), &self.key)?;
            if now.get(name) != Some(recorded) {
                changed.insert(name.to_owned());
            }
        }
        self.need_outputs(def.env.values().filter_map(EnvValue::expr), standing)?;
        let extras = self.extras(applied)?;
        let session = self.session(Wanted {
            step,
            source,
            def,
            tofu,
            slot: Slot::Tree,
            variables,
            extras,
            state_providers: applied.providers.keys().cloned().collect(),
            state: Some(GrantOptions::default()),
            state_of: None,
        })?;
        Ok(AppliedSession { session, changed })
    }

    /// What `init` had added before an apply, where that was recorded.
    pub(crate) fn extras(&self, applied: &Applied) -> Result<Option<Arc<Extras>>, Failure> {
        applied
            .init_extras
            .as_ref()
            .map(|digest| self.library.extras(digest))
            .transpose()
    }
}

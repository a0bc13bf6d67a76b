//! Where references get their values: the target's values, its secrets, outputs of earlier steps.

use std::collections::BTreeMap;
use std::sync::Mutex;

use phase_engine::StepId;
use platform::Scope;
use serde_json::Value;

use crate::secret_book::SecretBook;

/// Outputs of steps as they are now; filled as steps are applied or looked at.
#[derive(Debug, Default)]
pub(crate) struct OutputBook {
    steps: Mutex<BTreeMap<StepId, BTreeMap<String, Output>>>,
    /// Steps that are about to take another one's place: until then their outputs are that one's.
    taking: Mutex<BTreeMap<StepId, StepId>>,
}

/// One output of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Output {
    /// Its value; `None` where it is sensitive and was not read yet.
    pub(crate) value: Option<Value>,
    /// Whether OpenTofu calls it sensitive.
    pub(crate) sensitive: bool,
}

impl OutputBook {
    /// Takes the outputs of a step, in place of what was known of it.
    pub(crate) fn put(&self, step: &StepId, outputs: BTreeMap<String, Output>) {
        self.lock().insert(step.clone(), outputs);
    }

    /// From now on one step's outputs are another one's, as long as nothing is known of its own.
    pub(crate) fn take_place(&self, step: &StepId, of: &StepId) {
        self.taking
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(step.clone(), of.clone());
    }

    /// The step whose outputs are to be read for this one.
    pub(crate) fn standing_name(&self, step: &StepId) -> StepId {
        self.taking
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(step)
            .unwrap_or(step)
            .clone()
    }

    /// Returns one output.
    #[must_use]
    pub(crate) fn get(&self, step: &StepId, name: &str) -> Option<Output> {
        let own = self.lock().get(step).cloned();
        let outputs = own.or_else(|| self.lock().get(&self.standing_name(step)).cloned());
        outputs?.get(name).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<StepId, BTreeMap<String, Output>>> {
        self.steps
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The scope of one step or check.
pub(crate) struct CallScope<'a> {
    /// The target's values: today's, or those that were recorded.
    pub(crate) values: &'a BTreeMap<String, Value>,
    /// The target's secrets of today.
    pub(crate) secrets: &'a SecretBook,
    /// Outputs of steps.
    pub(crate) outputs: &'a OutputBook,
}

impl Scope for CallScope<'_> {
    fn target(&self, name: &str) -> Option<Value> {
        self.values.get(name).cloned()
    }

    fn secret(&self, name: &str) -> Option<String> {
        self.secrets.expose(name)
    }

    fn output(&self, step: &StepId, output: &str) -> Option<(Value, bool)> {
        let output = self.outputs.get(step, output)?;
        Some((output.value?, output.sensitive))
    }
}

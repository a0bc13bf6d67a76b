//! Values that a `nodes` step is given without a line: whose machines they are, and the run that made them.

use phase_engine::{Failure, StepId};
use platform::{GIVEN_VARIABLES, Resolved, TofuStep};
use record::RecordedValue;
use serde_json::Value;

use crate::resolve::Inputs;
use crate::world::TargetWorld;

impl TargetWorld<'_, '_> {
    /// Adds the values that a nodes step is given, where nothing else gives them.
    ///
    /// The run is the one that made the step: another one that changes nothing else leaves it as it is.
    pub(crate) fn add_given(
        &self,
        step: &StepId,
        tofu: &TofuStep,
        inputs: &mut Inputs,
    ) -> Result<(), Failure> {
        if tofu.nodes.is_none() {
            return Ok(());
        }
        for name in GIVEN_VARIABLES {
            if inputs.contains_key(name) || !tofu.module.variables.contains_key(name) {
                continue;
            }
            let value = match name {
                "platform" => Value::from(self.today()?.platform.name.as_str()),
                "target" => Value::from(self.bench.target.name.as_str()),
                _ => self
                    .recorded(step, name)
                    .unwrap_or_else(|| Value::from(self.run.as_str())),
            };
            let sensitive = false;
            inputs.insert(name.to_owned(), Resolved { value, sensitive });
        }
        Ok(())
    }

    /// What a standing step was last given.
    fn recorded(&self, step: &StepId, name: &str) -> Option<Value> {
        let entry = self.standing.get(step)?;
        match entry.applied.values.get(name)? {
            RecordedValue::Value(value) => Some(value.clone()),
            _ => None,
        }
    }
}

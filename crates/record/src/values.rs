//! Inputs and outputs of a step, of which the sensitive ones leave no value behind.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value with the knowledge whether it is sensitive. Not serializable on purpose.
#[derive(Clone, PartialEq)]
pub struct Input {
    value: Value,
    sensitive: bool,
}

impl Input {
    /// Takes a value that may be shown.
    pub fn plain(value: impl Into<Value>) -> Self {
        Self {
            value: value.into(),
            sensitive: false,
        }
    }

    /// Takes a value that may not be shown: a secret, or what was made from one.
    pub fn sensitive(value: impl Into<Value>) -> Self {
        Self {
            value: value.into(),
            sensitive: true,
        }
    }

    /// Says whether it may not be shown.
    pub fn is_sensitive(&self) -> bool {
        self.sensitive
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sensitive {
            f.write_str("[secret]")
        } else {
            self.value.fmt(f)
        }
    }
}

/// What the record keeps of one input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedValue {
    /// The value itself.
    Value(Value),
    /// The keyed digest of a sensitive one.
    Digest(String),
}

/// The resolved inputs of a step, as the record keeps them. Made of [`Input`]s only.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Values(BTreeMap<String, RecordedValue>);

impl Values {
    /// Keeps plain inputs, and of sensitive ones the keyed digest of their JSON, which `digest`
    /// makes (of object members in order of their names, so that the same value has the same digest).
    pub fn of(
        inputs: impl IntoIterator<Item = (String, Input)>,
        digest: &dyn Fn(&str) -> String,
    ) -> Self {
        let recorded = |input: Input| {
            if input.sensitive {
                RecordedValue::Digest(digest(&sorted(input.value).to_string()))
            } else {
                RecordedValue::Value(input.value)
            }
        };
        Self(
            inputs
                .into_iter()
                .map(|(name, input)| (name, recorded(input)))
                .collect(),
        )
    }

    /// Finds one.
    pub fn get(&self, name: &str) -> Option<&RecordedValue> {
        self.0.get(name)
    }

    /// Gives all of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RecordedValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Gives the names of those that are not as they are in `other`, or not in both.
    pub fn changed_from<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let names: std::collections::BTreeSet<&str> = self
            .0
            .keys()
            .chain(other.0.keys())
            .map(String::as_str)
            .collect();
        names
            .into_iter()
            .filter(|name| self.get(name) != other.get(name))
            .collect()
    }
}

/// Orders the members of objects by their names.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<String, Value> = members
                .into_iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect();
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// The outputs of a step that are not sensitive. Made of [`Input`]s only.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Outputs(BTreeMap<String, Value>);

impl Outputs {
    /// Keeps the plain ones; of sensitive ones nothing is left.
    pub fn of(outputs: impl IntoIterator<Item = (String, Input)>) -> Self {
        let plain = outputs.into_iter().filter(|(_, output)| !output.sensitive);
        Self(plain.map(|(name, output)| (name, output.value)).collect())
    }

    /// Finds one.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Gives all of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Says whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

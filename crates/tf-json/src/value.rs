//! Values of arguments.

use std::collections::BTreeMap;

use serde_json::Number;

use crate::{BuildError, Expression, Reference, Template};

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing: as if the argument were not there.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, in any of JSON's notations.
    Number(Number),
    /// Text, an expression, or both.
    Template(Template),
    /// Several values.
    List(Vec<Self>),
    /// Values by key. A key is a template too.
    Object(BTreeMap<Template, Self>),
}

impl Value {
    /// Returns an object with these literal keys.
    pub fn object<K: Into<Template>, V: Into<Self>>(
        members: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let members = members
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()));
        Self::Object(members.collect())
    }

    /// Returns a list.
    pub fn list<V: Into<Self>>(items: impl IntoIterator<Item = V>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }

    /// Takes plain JSON, in which every text is literal.
    #[must_use]
    pub fn literal(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(value) => Self::Number(value.clone()),
            serde_json::Value::String(text) => Self::from(text.as_str()),
            serde_json::Value::Array(items) => {
                Self::List(items.iter().map(Self::literal).collect())
            }
            serde_json::Value::Object(members) => Self::Object(
                members
                    .iter()
                    .map(|(key, value)| (Template::literal(key), Self::literal(value)))
                    .collect(),
            ),
        }
    }

    /// Reads a value as OpenTofu does: every text is a template.
    ///
    /// # Errors
    /// When a text is no template.
    pub fn parse(json: &serde_json::Value) -> Result<Self, BuildError> {
        Ok(match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(value) => Self::Number(value.clone()),
            serde_json::Value::String(text) => Self::Template(Template::parse(text)?),
            serde_json::Value::Array(items) => {
                Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            serde_json::Value::Object(members) => {
                let mut object = BTreeMap::new();
                for (key, value) in members {
                    object.insert(Template::parse(key)?, Self::parse(value)?);
                }
                Self::Object(object)
            }
        })
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl From<Number> for Value {
    fn from(value: Number) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Template(Template::literal(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Template(Template::literal(text))
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Template> for Value {
    fn from(template: Template) -> Self {
        Self::Template(template)
    }
}

impl From<Expression> for Value {
    fn from(expression: Expression) -> Self {
        Self::Template(expression.into())
    }
}

impl From<Reference> for Value {
    fn from(reference: Reference) -> Self {
        Self::from(Expression::from(reference))
    }
}

impl From<&Reference> for Value {
    fn from(reference: &Reference) -> Self {
        Self::from(Expression::from(reference))
    }
}

impl<V: Into<Self>> From<Vec<V>> for Value {
    fn from(items: Vec<V>) -> Self {
        Self::list(items)
    }
}

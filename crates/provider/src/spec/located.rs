//! Values that know the line they were read from.

use serde_json::{Map, Number, Value as Json};

/// A value and its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Located {
    /// From 1.
    pub(crate) line: Option<usize>,
    /// What it is.
    pub(crate) data: Data,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Located>),
    Table(Vec<(String, Located)>),
}

impl Located {
    /// Returns the value without its lines.
    pub(crate) fn to_json(&self) -> Json {
        match &self.data {
            Data::Null => Json::Null,
            Data::Bool(value) => Json::Bool(*value),
            Data::Number(value) => Json::Number(value.clone()),
            Data::Text(text) => Json::String(text.clone()),
            Data::List(items) => items.iter().map(Self::to_json).collect(),
            Data::Table(members) => Json::Object(
                members
                    .iter()
                    .map(|(key, value)| (key.clone(), value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns the member of a table.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.data {
            Data::Table(members) => members
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns what kind of value it is, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a truth value",
            Data::Number(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
        }
    }
}

//! What stands between a block's braces: arguments and nested blocks.

use std::collections::BTreeMap;

use crate::{Identifier, Value};

/// The arguments and nested blocks of a block. Setting a name again replaces it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    entries: BTreeMap<Identifier, Entry>,
}

/// An argument, or all nested blocks of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An argument.
    Attribute(Value),
    /// Nested blocks. Read back from JSON they look like a list of objects, and are written alike.
    Blocks(Vec<Body>),
}

impl Body {
    /// Returns a body with nothing in it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an argument.
    #[must_use]
    pub fn set(mut self, name: impl Into<Identifier>, value: impl Into<Value>) -> Self {
        self.entries
            .insert(name.into(), Entry::Attribute(value.into()));
        self
    }

    /// Sets an argument, or leaves it out: `null`, `[]` and nothing are three things to a provider.
    #[must_use]
    pub fn set_some(self, name: impl Into<Identifier>, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.set(name, value),
            None => self,
        }
    }

    /// Adds a nested block after those of the same name.
    #[must_use]
    pub fn block(mut self, name: impl Into<Identifier>, body: Self) -> Self {
        let entry = self
            .entries
            .entry(name.into())
            .or_insert_with(|| Entry::Blocks(Vec::new()));
        if let Entry::Blocks(blocks) = entry {
            blocks.push(body);
        } else {
            *entry = Entry::Blocks(vec![body]);
        }
        self
    }

    /// Adds nested blocks; with none, the name does not appear at all.
    #[must_use]
    pub fn blocks(
        self,
        name: impl Into<Identifier>,
        bodies: impl IntoIterator<Item = Self>,
    ) -> Self {
        let name = name.into();
        bodies
            .into_iter()
            .fold(self, |body, block| body.block(name.clone(), block))
    }

    /// Returns arguments and nested blocks in the order of their names.
    pub fn entries(&self) -> impl Iterator<Item = (&Identifier, &Entry)> {
        self.entries.iter()
    }

    /// Returns the argument or blocks of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    pub(crate) fn insert(&mut self, name: Identifier, entry: Entry) {
        self.entries.insert(name, entry);
    }
}

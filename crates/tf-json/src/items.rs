//! The blocks at the top of a document, other than settings and providers.

use crate::{Body, Condition, Expression, Identifier, Meta, ProviderReference, Reference, Value};

/// A `resource` or `data` block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Its arguments and nested blocks.
    pub body: Body,
    /// What OpenTofu itself reads in it.
    pub meta: Meta,
}

/// A `variable` block. OpenTofu evaluates neither its default nor its description, so they are not escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variable {
    /// The type constraint, bare, such as `list(string)`.
    pub kind: Option<Expression>,
    /// The value where none is given.
    pub default: Option<serde_json::Value>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether OpenTofu hides it.
    pub sensitive: bool,
    /// Whether OpenTofu keeps it out of plan and state.
    pub ephemeral: bool,
    /// Whether it may be null; OpenTofu's own rule otherwise.
    pub nullable: Option<bool>,
    /// What must hold of it.
    pub validations: Vec<Condition>,
}

/// An `output` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// What it gives out.
    pub value: Value,
    /// What it is; not evaluated, so not escaped.
    pub description: Option<String>,
    /// Whether OpenTofu hides it.
    pub sensitive: bool,
    /// Whether OpenTofu keeps it out of the state.
    pub ephemeral: bool,
    /// What must be done before; written bare.
    pub depends_on: Vec<Reference>,
    /// What must hold before it is given out.
    pub preconditions: Vec<Condition>,
}

impl Output {
    /// Returns an output of this value.
    pub fn new(value: impl Into<Value>) -> Self {
        Self {
            value: value.into(),
            description: None,
            sensitive: false,
            ephemeral: false,
            depends_on: Vec::new(),
            preconditions: Vec::new(),
        }
    }

    /// Hides it.
    #[must_use]
    pub fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }
}

/// A `module` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Where it is.
    pub source: Value,
    /// Which versions of it will do.
    pub version: Option<String>,
    /// Its arguments.
    pub arguments: Body,
    /// Which provider configurations it gets, by the name it knows them by; written bare.
    pub providers: Vec<(ProviderReference, ProviderReference)>,
    /// What OpenTofu itself reads in it. A module has neither `provider` nor `lifecycle`.
    pub meta: Meta,
}

/// A `moved` block: both addresses are written bare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The address that was.
    pub from: Reference,
    /// The address that is.
    pub to: Reference,
}

/// An `import` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The address, written bare.
    pub to: Reference,
    /// The provider's name for the object.
    pub id: Value,
    /// By which configuration of its provider; written bare.
    pub provider: Option<ProviderReference>,
    /// One for each of these.
    pub for_each: Option<Value>,
}

/// A `removed` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The address, written bare.
    pub from: Reference,
    /// Whether the object goes too; OpenTofu's own rule otherwise.
    pub destroy: Option<bool>,
}

/// A `check` block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// A data source that is read for this check alone: its kind, its name and what is asked. A fault
    /// while it is read is a warning.
    pub data: Option<(Identifier, Identifier, Resource)>,
    /// What must hold; at least one.
    pub assertions: Vec<Condition>,
}

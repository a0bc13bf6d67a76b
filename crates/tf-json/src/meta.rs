//! Meta-arguments: what OpenTofu itself reads in a block, in the form in which it wants it.

use crate::{Expression, Identifier, Reference, Value};

/// The meta-arguments of a resource, data source or module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// How many.
    pub count: Option<Value>,
    /// One for each of these.
    pub for_each: Option<Value>,
    /// What must be done before; written bare.
    pub depends_on: Vec<Reference>,
    /// By which configuration of its provider; written bare.
    pub provider: Option<ProviderReference>,
    /// When it is replaced, what is not looked at, what must hold.
    pub lifecycle: Lifecycle,
}

/// A provider's configuration: its local name and, where there are several, its alias.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProviderReference {
    /// The local name.
    pub name: Identifier,
    /// Which of several.
    pub alias: Option<Identifier>,
}

/// The `lifecycle` block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// The new one before the old one goes.
    pub create_before_destroy: Option<bool>,
    /// Refuse to destroy it.
    pub prevent_destroy: Option<bool>,
    /// Which arguments may differ; written bare.
    pub ignore_changes: IgnoreChanges,
    /// What replaces it by changing; written bare.
    pub replace_triggered_by: Vec<Reference>,
    /// What must hold before.
    pub preconditions: Vec<Condition>,
    /// What must hold after.
    pub postconditions: Vec<Condition>,
}

/// Which arguments may differ from what stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IgnoreChanges {
    /// None of them.
    #[default]
    Nothing,
    /// Every one.
    All,
    /// These.
    These(Vec<Reference>),
}

/// Something that must hold, and what is said when it doesn't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What must be true.
    pub condition: Expression,
    /// What is said otherwise.
    pub error_message: Value,
}

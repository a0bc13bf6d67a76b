//! A reduced schema.

use std::collections::BTreeMap;
use std::fmt;

/// What one version of a provider takes, or as much of it as is needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The address, such as `siderolabs/talos`.
    pub provider: String,
    /// The version.
    pub version: String,
    /// Where it was read.
    pub source: String,
    /// The provider's own configuration.
    pub provider_config: Block,
    /// Resources by kind.
    pub resources: BTreeMap<String, Block>,
    /// Data sources by kind.
    pub data_sources: BTreeMap<String, Block>,
}

/// Arguments and nested blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// Arguments by name.
    pub attributes: BTreeMap<String, Attribute>,
    /// Nested blocks by name.
    pub blocks: BTreeMap<String, NestedBlock>,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// What its value is.
    pub kind: Kind,
    /// Whether it must be set.
    pub required: bool,
    /// Whether it may be set.
    pub optional: bool,
    /// Whether the provider sets it.
    pub computed: bool,
    /// Whether OpenTofu hides it.
    pub sensitive: bool,
    /// Whether it goes away.
    pub deprecated: bool,
}

/// What an argument's value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A value of one type.
    Type(Type),
    /// Objects whose members have properties of their own.
    Nested(Mode, BTreeMap<String, Attribute>),
}

/// A type, as OpenTofu writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// `string`.
    String,
    /// `number`.
    Number,
    /// `bool`.
    Bool,
    /// Anything, or not known.
    Any,
    /// `list(…)` or `set(…)`.
    List(Box<Self>),
    /// `map(…)`.
    Map(Box<Self>),
    /// `object({…})`: every member must be given, if only as null.
    Object(BTreeMap<String, Self>),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String => f.write_str("string"),
            Self::Number => f.write_str("number"),
            Self::Bool => f.write_str("bool"),
            Self::Any => f.write_str("any"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(of) => write!(f, "map({of})"),
            Self::Object(members) => {
                f.write_str("object({")?;
                for (index, (name, of)) in members.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{name} = {of}")?;
                }
                f.write_str("})")
            }
        }
    }
}

/// How many there may be, and how they are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One.
    Single,
    /// Any number, in order.
    List,
    /// Any number, without order.
    Set,
    /// Any number, by key.
    Map,
}

/// A nested block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedBlock {
    /// How many there may be.
    pub mode: Mode,
    /// The least number of them.
    pub min_items: u64,
    /// The greatest number of them.
    pub max_items: Option<u64>,
    /// What stands in it.
    pub block: Block,
}

impl Attribute {
    /// Returns whether a configuration may set it.
    #[must_use]
    pub fn is_settable(&self) -> bool {
        self.required || self.optional
    }
}

impl Kind {
    /// Returns whether its value is one of text, number and truth.
    pub(crate) fn is_primitive(&self) -> bool {
        matches!(self, Self::Type(Type::String | Type::Number | Type::Bool))
    }
}

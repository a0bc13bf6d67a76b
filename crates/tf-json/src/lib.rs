//! OpenTofu's JSON syntax as types that make a wrong document hard to write.
//!
//! A literal is escaped wherever OpenTofu would read it as a template (in map keys too) and nowhere else;
//! an expression is one on purpose; a reference stands bare where OpenTofu wants it bare. Maps are written
//! in the order of their keys, so the same input gives the same bytes. Nothing here reads or writes a file.
//!
//! What OpenTofu itself can't carry: it normalises every string to Unicode's composed form (NFC).

mod body;
mod document;
mod error;
mod expression;
mod items;
mod meta;
mod name;
mod read;
mod read_items;
mod reference;
mod settings;
mod template;
mod value;
mod write;

pub use body::{Body, Entry};
pub use document::Document;
pub use error::{BuildError, ReadError};
pub use expression::Expression;
pub use items::{Check, Import, Module, Moved, Output, Removed, Resource, Variable};
pub use meta::{Condition, IgnoreChanges, Lifecycle, Meta, ProviderReference};
pub use name::Identifier;
pub use reference::Reference;
pub use settings::{Encryption, EncryptionTarget, RequiredProvider, Settings};
pub use template::{Part, Template};
pub use value::Value;

#[cfg(test)]
mod tests;

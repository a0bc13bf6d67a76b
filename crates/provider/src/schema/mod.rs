//! What real providers take: reduced schemas, and documents checked against them.
//!
//! `cargo xtask schema` reduces what `tofu providers schema -json` prints to the files in `schemas/`.

mod check;
mod complete;
mod fault;
mod load;
mod types;
mod value;

pub use fault::{Problem, SchemaFault};
pub use load::{ReadSchemaError, Schemas};
pub use types::{Attribute, Block, Kind, Mode, NestedBlock, Schema, Type};

#[cfg(test)]
mod mutation_tests;
#[cfg(test)]
mod tests;

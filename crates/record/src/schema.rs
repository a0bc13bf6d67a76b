//! Schema versions: who may read what, and the published JSON Schemas.

use std::collections::BTreeMap;

use schemars::{JsonSchema, schema_for};
use serde::{Deserialize, Serialize};

use crate::{Head, Record, StatusDocument, TargetJson};

/// The schema version that this program writes.
pub const SCHEMA: Schema = Schema(1);

/// The version of a format.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Schema(pub u32);

/// What is to be read was written by a newer program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has schema version {}, and this program reads up to {}", found.0, SCHEMA.0)]
pub struct NewerSchema {
    /// The version that was found.
    pub found: Schema,
}

impl Schema {
    /// Decides who may read what: a newer version is refused, an older one and the own are read.
    pub fn readable(self) -> Result<(), NewerSchema> {
        if self > SCHEMA {
            Err(NewerSchema { found: self })
        } else {
            Ok(())
        }
    }
}

impl Default for Schema {
    fn default() -> Self {
        SCHEMA
    }
}

/// Gives the published JSON Schemas of this crate's documents, by name.
pub fn json_schemas() -> BTreeMap<&'static str, schemars::Schema> {
    BTreeMap::from([
        ("head", schema_for!(Head)),
        ("record", schema_for!(Record)),
        ("status", schema_for!(StatusDocument)),
        ("target", schema_for!(TargetJson)),
    ])
}

//! The head, which is the only pointer to a record, and whose store this is.

use phase_engine::{RunId, TargetName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{SCHEMA, Schema};

/// `run/head.json`: the only pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// The version of this format.
    pub schema: Schema,
    /// The fencing number of the lock under which it was written.
    pub fence: u64,
    /// The run that the target is in, or was in last.
    #[serde(with = "crate::words::maybe", default)]
    #[schemars(with = "Option<String>")]
    pub current: Option<RunId>,
    /// The last run that came to be finished.
    #[serde(with = "crate::words::maybe", default)]
    #[schemars(with = "Option<String>")]
    pub last_known_good: Option<RunId>,
}

impl Head {
    /// Gives the head of a target that has had no run.
    pub fn empty(fence: u64) -> Self {
        Self {
            schema: SCHEMA,
            fence,
            current: None,
            last_known_good: None,
        }
    }
}

/// `target.json`: this store belongs to that target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetJson {
    /// The version of this format.
    pub schema: Schema,
    /// The platform's name.
    pub platform: String,
    /// The target.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub target: TargetName,
    /// A random id, made when the store was first used; remembered on each machine that used it.
    pub id: String,
    /// Where everything went when `down` emptied this store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<MovedTo>,
}

/// Where a store's contents went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MovedTo {
    /// The machine.
    pub host: String,
    /// The directory of the spool on it.
    pub path: String,
}

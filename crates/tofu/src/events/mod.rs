//! The machine-readable UI stream of `tofu … -json`, one typed [`Event`] a line.
//!
//! Types of the stream as of UI version 1.2 (OpenTofu 1.12). Nothing here is ever fatal: an unknown
//! type becomes [`Event::Other`], a line that is not JSON becomes [`Event::Text`].

pub(crate) use diagnostic::has_true;

mod diagnostic;
mod parse;
#[cfg(test)]
mod tests;

pub use diagnostic::{
    Diagnostic, Difference, Position, Severity, Snippet, SourceRange, StatedValue,
};
pub use parse::EventLine;
pub(crate) use parse::{EMERGENCY, without_colour};

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The first message: versions of OpenTofu and of the stream.
    Version {
        /// OpenTofu's version, as it says it.
        tofu: String,
        /// The stream's version, `major.minor`.
        ui: String,
    },
    /// A remark with no structure; also messages without a type (`init`).
    Log(String),
    /// An error or a warning.
    Diagnostic(Box<Diagnostic>),
    /// A difference between the state and the world.
    ResourceDrift(Change),
    /// What the plan would do to one resource instance.
    PlannedChange(Change),
    /// Counts, at the end of a plan and of an apply.
    ChangeSummary(ChangeSummary),
    /// The root module's outputs: actions after a plan, values after an apply.
    Outputs(BTreeMap<String, OutputEvent>),
    /// An apply of one resource instance started, went on, ended or failed.
    Apply(ApplyStage, Hook),
    /// A provisioner of one resource instance started, printed, ended or failed.
    Provision(ProvisionStage, Hook),
    /// A refresh of one resource instance started or ended.
    Refresh(RefreshStage, Hook),
    /// A message of `tofu test`.
    Test(TestEvent),
    /// The whole state, printed because it could be written nowhere else. Never goes to disk in clear.
    EmergencyState(RawState),
    /// A type that this version does not know.
    Other {
        /// The message's `type`.
        kind: String,
        /// The message for people.
        message: String,
    },
    /// A line that is not a message: a panic, a lock notice, a plugin's own output.
    Text(String),
}

/// The bytes of a state. Its `Debug` shows the length only.
#[derive(Clone, PartialEq, Eq)]
pub struct RawState(pub Vec<u8>);

impl fmt::Debug for RawState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawState({} bytes)", self.0.len())
    }
}

/// Where an apply of one resource instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyStage {
    /// `apply_start`
    Started,
    /// `apply_progress`, every ten seconds
    Progress,
    /// `apply_complete`
    Completed,
    /// `apply_errored`
    Errored,
}

/// Where a provisioner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvisionStage {
    /// `provision_start`
    Started,
    /// `provision_progress`: one line of its output
    Progress,
    /// `provision_complete`
    Completed,
    /// `provision_errored`
    Errored,
}

/// Where a refresh is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshStage {
    /// `refresh_start`
    Started,
    /// `refresh_complete`
    Completed,
}

/// The address of a resource instance and its parts.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
pub struct Resource {
    /// The whole address, `module.a.null_resource.b[0]`.
    pub addr: String,
    /// The module's address, empty for the root module.
    #[serde(default)]
    pub module: String,
    /// The type, `terraform_data`.
    #[serde(default)]
    pub resource_type: String,
    /// The name.
    #[serde(default)]
    pub resource_name: String,
    /// The local name of the provider that the type implies.
    #[serde(default)]
    pub implied_provider: String,
    /// The `count` or `for_each` key.
    #[serde(default)]
    pub resource_key: Value,
}

/// What is done, or planned, to a resource instance or an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Action {
    /// Nothing.
    #[default]
    Noop,
    /// Another address for the same object.
    Move,
    /// Made.
    Create,
    /// Read in the apply (a data resource).
    Read,
    /// Changed in place.
    Update,
    /// Destroyed and made again, in either order.
    Replace,
    /// Destroyed.
    Delete,
    /// Taken into the state.
    Import,
    /// Dropped from the state, not destroyed (`remove` in the stream).
    Forget,
    /// An action that this version does not know.
    Other(String),
}

impl Action {
    /// Reads the stream's word.
    #[must_use]
    pub fn from_word(word: &str) -> Self {
        match word {
            "noop" | "no-op" => Self::Noop,
            "move" => Self::Move,
            "create" => Self::Create,
            "read" => Self::Read,
            "update" => Self::Update,
            "replace" => Self::Replace,
            "delete" => Self::Delete,
            "import" => Self::Import,
            "remove" | "forget" => Self::Forget,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The word used in reports and records.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Noop => "noop",
            Self::Move => "move",
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Replace => "replace",
            Self::Delete => "delete",
            Self::Import => "import",
            Self::Forget => "forget",
            Self::Other(word) => word,
        }
    }

    /// Whether an object goes: destroyed or replaced. An unknown action counts as one.
    #[must_use]
    pub fn destroys(&self) -> bool {
        matches!(self, Self::Replace | Self::Delete | Self::Other(_))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_word(&String::deserialize(deserializer)?))
    }
}

impl Serialize for Action {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One planned change or drift. The stream carries no values.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
pub struct Change {
    /// The resource instance.
    pub resource: Resource,
    /// Where the object was before a move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_resource: Option<Resource>,
    /// What is to happen, or has happened.
    #[serde(default)]
    pub action: Action,
    /// Why, `tainted` for one: empty when the configuration alone asks for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Change {
    /// The resource instance's address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.resource.addr
    }

    /// Whether an interrupt or a failed creation marked the object for replacement.
    #[must_use]
    pub fn is_tainted(&self) -> bool {
        self.reason == "tainted"
    }
}

/// Counts of a plan or an apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
pub struct ChangeSummary {
    /// Created, the creating half of replacements included.
    #[serde(default)]
    pub add: u64,
    /// Changed in place.
    #[serde(default)]
    pub change: u64,
    /// Imported.
    #[serde(default)]
    pub import: u64,
    /// Destroyed, the destroying half of replacements included.
    #[serde(default)]
    pub remove: u64,
    /// Dropped from the state.
    #[serde(default)]
    pub forget: u64,
    /// Of a plan, an apply or a destroy.
    #[serde(default)]
    pub operation: SummaryOperation,
}

/// What a summary sums up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryOperation {
    /// A plan.
    Plan,
    /// An apply.
    Apply,
    /// An apply of a destroy plan.
    Destroy,
    /// A word that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// One output in an `outputs` message.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
pub struct OutputEvent {
    /// Whether the value is held back.
    #[serde(default)]
    pub sensitive: bool,
    /// After a plan: what would become of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// After an apply: its type, as OpenTofu's type expression in JSON.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Value>,
    /// After an apply, when it is not sensitive: its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// What a hook message says of a resource instance.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
pub struct Hook {
    /// The resource instance.
    pub resource: Resource,
    /// What is done to it.
    #[serde(default)]
    pub action: Action,
    /// The identifying attribute's name, `id` most often.
    #[serde(default)]
    pub id_key: String,
    /// The identifying attribute's value.
    #[serde(default)]
    pub id_value: String,
    /// Seconds since the start.
    #[serde(default)]
    pub elapsed_seconds: f64,
    /// The provisioner's name.
    #[serde(default)]
    pub provisioner: String,
    /// One line of a provisioner's output.
    #[serde(default)]
    pub output: String,
}

/// A message of `tofu test`.
#[derive(Debug, Clone, PartialEq)]
pub enum TestEvent {
    /// One file begins or ended: its path and status.
    File {
        /// Path of the test file.
        path: String,
        /// `pass`, `fail`, `error`, `skip`, `pending`.
        status: String,
    },
    /// One `run` block ended.
    Run {
        /// Path of the test file.
        path: String,
        /// The block's name.
        run: String,
        /// `pass`, `fail`, `error`, `skip`, `pending`.
        status: String,
    },
    /// The end: counts.
    Summary(TestSummary),
    /// Objects that the test made and could not destroy. OpenTofu exits 0 all the same.
    Cleanup {
        /// Addresses of what is left behind.
        left_behind: Vec<String>,
    },
    /// A second interrupt: what is left behind or was under way.
    Interrupt {
        /// Addresses of what is left behind.
        left_behind: Vec<String>,
    },
    /// Anything else: `test_abstract`, `test_plan`, `test_state`.
    Other(String),
}

/// Counts of a whole `tofu test`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
pub struct TestSummary {
    /// `pass`, `fail`, `error`, `skip`, `pending`.
    #[serde(default)]
    pub status: String,
    /// Runs that passed.
    #[serde(default)]
    pub passed: u64,
    /// Runs whose assertions failed.
    #[serde(default)]
    pub failed: u64,
    /// Runs that could not be judged.
    #[serde(default)]
    pub errored: u64,
    /// Runs left out.
    #[serde(default)]
    pub skipped: u64,
}

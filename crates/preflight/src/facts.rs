//! What was seen, as plain values: the verdict's only input.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use phase_engine::{PhaseId, StepId};
use serde_json::Value;

/// Everything that was seen of one standing step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepObservation {
    /// The step.
    pub step: StepId,
    /// Its state against the recorded one; `None` for a kind of step that has no state.
    pub state: Option<StateObservation>,
    /// What looking at the world brought.
    pub looked: Looked,
    /// The exceptions that the step's definitions make.
    pub ignore: Vec<IgnoreDrift>,
}

impl StepObservation {
    /// A step that was not looked at.
    pub fn not_run(step: StepId, why: impl Into<String>) -> Self {
        Self {
            step,
            state: None,
            looked: Looked::NotRun { why: why.into() },
            ignore: Vec::new(),
        }
    }
}

/// A state in the store against what the record says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateObservation {
    /// What is recorded.
    pub recorded: Recorded,
    /// What the store has.
    pub found: StateFacts,
}

/// What `standing` says of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// OpenTofu's lineage.
    pub lineage: String,
    /// OpenTofu's serial.
    pub serial: u64,
    /// The digest of the stored bytes.
    pub digest: String,
}

/// What the store has of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateFacts {
    /// Nothing.
    Absent,
    /// A state.
    Present {
        /// OpenTofu's lineage.
        lineage: String,
        /// OpenTofu's serial.
        serial: u64,
        /// The digest of the stored bytes.
        digest: String,
    },
    /// What is there is no state, or not the one that its header tells of.
    Damaged {
        /// What is wrong with it, with its causes.
        message: String,
    },
    /// The store could not be read.
    Unreadable {
        /// Why, with its causes.
        message: String,
    },
}

/// What looking at the world brought.
#[derive(Debug, Clone, PartialEq)]
pub enum Looked {
    /// A plan of the as-applied bundle (boxed: it is much the largest).
    Planned(Box<PlanFacts>),
    /// The step's own verify holds.
    Verified,
    /// The step's own verify does not hold.
    VerifyFailed {
        /// What it said.
        message: String,
    },
    /// The step's own verify shows a difference (Ansible's check mode, a Talos version).
    Differs {
        /// What differs.
        message: String,
    },
    /// What the step verifies gives no answer.
    Unreachable {
        /// What came instead.
        message: String,
    },
    /// It was not looked at: skipped, the lock is held, the call is stopping.
    NotRun {
        /// Why.
        why: String,
    },
    /// Looking failed, and nothing can be said.
    Undecided {
        /// Why.
        message: String,
    },
}

/// What a normal plan of the as-applied bundle says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanFacts {
    /// Whether the plan's closing summary came: without it the plan is no answer.
    pub complete: bool,
    /// Objects that are not as the state has them.
    pub drift: Vec<DriftedObject>,
    /// What the plan would change.
    pub changes: Vec<PlannedChange>,
    /// Outputs that would change.
    pub outputs: Vec<OutputChange>,
    /// `check` blocks that are false, or could not be evaluated.
    pub checks: Vec<FailedCheck>,
    /// Errors.
    pub errors: Vec<PlanError>,
    /// How many managed objects of each provider the state has, those that are gone included.
    pub objects: BTreeMap<String, usize>,
    /// Outputs whose change a changed secret or sensitive input explains.
    pub explained_outputs: BTreeSet<String>,
}

impl PlanFacts {
    /// What the plan would change, data resources that are read aside: those mean nothing.
    pub fn real_changes(&self) -> impl Iterator<Item = &PlannedChange> {
        self.changes
            .iter()
            .filter(|change| !matches!(change.action.as_str(), "read" | "noop"))
    }
}

/// An object that is not as the state has it.
#[derive(Debug, Clone, PartialEq)]
pub struct DriftedObject {
    /// The resource instance.
    pub address: String,
    /// OpenTofu's word: `update`, `delete`.
    pub action: String,
    /// The provider, as its events name it.
    pub provider: String,
    /// What differs, attribute by attribute, sensitive values masked; empty where it is not known.
    pub attributes: Vec<AttributeDrift>,
}

/// One attribute that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeDrift {
    /// Its path, as `tags.team` or `rules[0].port`.
    pub path: String,
    /// What was applied.
    pub was: Value,
    /// What is there.
    pub is: Value,
}

/// What the plan would do to one resource instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedChange {
    /// The resource instance.
    pub address: String,
    /// OpenTofu's word: `create`, `update`, `replace`, `delete`, `read`, …
    pub action: String,
    /// OpenTofu's reason, `tainted` for one; empty when there is none.
    pub reason: String,
}

/// An output that would change.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputChange {
    /// Its name.
    pub name: String,
    /// OpenTofu's word: `create`, `update`, `delete`.
    pub action: String,
    /// Whether the new value is known already; `None` where the JSON plan was not read.
    pub known: Option<bool>,
    /// What it is in the state, masked when it is sensitive.
    pub was: Value,
    /// What it would become, masked when it is sensitive.
    pub is: Value,
}

/// A `check` block that is false, or could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    /// The block's name.
    pub name: String,
    /// Its error message.
    pub message: String,
}

/// An error of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// What kind it is.
    pub kind: ErrorKind,
    /// The resource instance or provider that said it.
    pub address: Option<String>,
    /// What it said.
    pub message: String,
}

/// What kind an error of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A provider's API, or the way to it.
    Api,
    /// The state's lock is held.
    Lock,
    /// Anything else.
    Other,
}

/// An exception from drift, with an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoreDrift {
    /// The resource instance, a resource for all its instances, the beginning of addresses with a `*` after it, or
    /// `output.NAME`.
    pub address: String,
    /// The attribute, with everything below it; none is needed for an output.
    pub attribute: Option<String>,
    /// Why; shown in every report.
    pub reason: String,
    /// The last day on which it counts; for ever when there is none.
    pub until: Option<Date>,
}

/// Everything that was seen of one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseObservation {
    /// The phase.
    pub id: PhaseId,
    /// Its standing steps, in order.
    pub steps: Vec<StepObservation>,
    /// Its own checks, in order.
    pub checks: Vec<CheckObservation>,
    /// How long looking took.
    pub seconds: f64,
}

/// What came of one check of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckObservation {
    /// The check's name.
    pub name: String,
    /// What came of it.
    pub result: CheckResult,
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// It holds.
    Passed,
    /// It does not.
    Failed {
        /// What came instead.
        message: String,
    },
    /// It was not asked.
    NotRun {
        /// Why.
        why: String,
    },
}

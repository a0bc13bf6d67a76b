//! The parts of a record, and what the world hands in to be kept.

use std::collections::BTreeMap;

use phase_engine::{
    ExitCode, Failure, PhaseFailure, PhaseId, ResourceAddress, RunId, StepId, StepStatus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Applied, Input, Outputs, Record, StateMark, Time};

/// A tool that a call used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRecord {
    /// Its name: `tofu`, `ansible`, `rebuild`.
    pub name: String,
    /// Its version, as it says itself.
    pub version: String,
    /// The SHA-256 of its program, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The command that a call was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CallCommand {
    /// `up`.
    Up,
    /// `up --resume`.
    Resume,
    /// `down`.
    Down,
    /// `repair`.
    Repair,
    /// `accept`.
    Accept,
    /// `state migrate`.
    Migrate,
    /// A handoff's apply of its workspace, or its teardown.
    Provision,
}

/// One invocation of `up` or `down` within the run, or of a command that mends what it left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRecord {
    /// The command.
    pub command: CallCommand,
    /// When it started.
    pub started: Time,
    /// When it ended; a call that was cut has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// What the process ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// Who called.
    pub user: String,
    /// On which machine.
    pub host: String,
    /// The CI job that called, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_job: Option<String>,
    /// `rebuild` itself and the tools that it used.
    #[serde(default)]
    pub tools: Vec<ToolRecord>,
    /// The commit of the definitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The definitions differed from that commit.
    #[serde(default)]
    pub dirty: bool,
    /// The digest of the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
}

/// What the record says of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseStatus {
    /// Its steps are applied, or their apply was cut.
    Applying,
    /// It is verified for the first time, or that was cut.
    Verifying,
    /// It is verified.
    Verified,
    /// A step of it, its verify or a check failed.
    Failed,
    /// A signal ended it.
    Interrupted,
    /// It is torn down, or that was cut.
    TearingDown,
    /// It is proven gone.
    TornDown,
    /// Its teardown failed, or something was left behind.
    TeardownFailed,
}

impl PhaseStatus {
    /// Says whether its teardown has begun and is not proven to have ended.
    pub fn is_unproven(self) -> bool {
        matches!(self, Self::TearingDown | Self::TeardownFailed)
    }
}

/// One phase of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseRecord {
    /// The phase.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub id: PhaseId,
    /// Its status.
    pub status: PhaseStatus,
    /// The commit that it was last applied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The bundle that it was last applied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// When the run first verified it. Kept when it is torn down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Time>,
    /// When it was last verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verify: Option<Time>,
    /// When its teardown began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown_began: Option<Time>,
    /// How long its apply took, in seconds, over all calls.
    #[serde(default)]
    pub apply_seconds: f64,
    /// How long its verify took, in seconds, over all calls.
    #[serde(default)]
    pub verify_seconds: f64,
    /// How long the run paused after it, in seconds.
    #[serde(default)]
    pub pause_seconds: f64,
    /// Its steps in order, as they were defined when it was verified.
    #[serde(with = "crate::words::list", default)]
    #[schemars(with = "Vec<String>")]
    pub steps: Vec<StepId>,
    /// How many resources of which type it created, changed and so on: by action, then by type.
    #[serde(default)]
    pub made: BTreeMap<String, BTreeMap<String, u64>>,
    /// The outputs of its steps that are not sensitive, by the steps' names.
    #[serde(default)]
    pub outputs: BTreeMap<String, Outputs>,
    /// What could not be proven when it was torn down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<ErrorRecord>,
}

/// One resource that an apply was going to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedChange {
    /// The resource.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub address: ResourceAddress,
    /// What was to be done: `create`, `replace`.
    pub action: String,
    /// Its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The id of the object that the state had of it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
}

/// What an apply was going to create and replace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlannedWork {
    /// All of it is listed. While it is not, and the host is lost, the step itself is suspect.
    pub complete: bool,
    /// What is known of it.
    #[serde(default)]
    pub changes: Vec<PlannedChange>,
}

/// One step of the run: its place in the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// The step.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub step: StepId,
    /// Its status.
    #[serde(with = "crate::words::step_status")]
    #[schemars(schema_with = "crate::words::step_status::schema")]
    pub status: StepStatus,
    /// How often its apply was begun in this run.
    #[serde(default)]
    pub attempts: u32,
    /// When its last apply began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When its last apply ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// The machine on which its last apply or teardown began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The digest of the definitions that its last apply began from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// What its last apply was going to create and replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlannedWork>,
    /// What was given up when it was forgotten: the addresses of its resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
    /// Why its last act did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
}

/// An object that may exist in no state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suspect {
    /// The step.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub step: StepId,
    /// The resource; where it is not known, the step itself is suspect.
    #[serde(
        with = "crate::words::maybe",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub address: Option<ResourceAddress>,
    /// Its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its id, where one was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The id of the object that it was made in the place of: its state may have that one under the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
    /// The machine on which it may have been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Since when.
    pub since: Time,
    /// The run that may have made it.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub run: RunId,
}

/// What may exist in no state, as it is found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Suspected {
    /// The resource; where it is not known, the step itself is suspect.
    pub address: Option<ResourceAddress>,
    /// Its provider.
    pub provider: Option<String>,
    /// Its id, where one was told.
    pub id: Option<String>,
    /// The id of the object that it was made in the place of.
    pub was: Option<String>,
}

impl Suspect {
    /// Gives what it is, without where and when.
    pub fn suspected(&self) -> Suspected {
        Suspected {
            address: self.address.clone(),
            provider: self.provider.clone(),
            id: self.id.clone(),
            was: self.was.clone(),
        }
    }
}

/// What a preflight saw. Names only: the values are in its own report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// When.
    pub at: Time,
    /// Whether a change might have been made.
    pub passes: bool,
    /// The phases.
    pub phases: Vec<SeenPhase>,
}

/// What a preflight saw of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenPhase {
    /// The phase.
    pub id: String,
    /// Its verdict.
    pub verdict: String,
    /// What spoke against going on: step, address, attribute and reason.
    pub findings: Vec<String>,
}

/// What a person decided and is recorded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecisionKind {
    /// `up --first-build`.
    FirstBuild,
    /// `up --without-drill`.
    WithoutDrill,
    /// `--lost-host`.
    LostHost,
    /// `--allow-destroy`, or a person who agreed at the terminal.
    AllowDestroy,
    /// `--replace`.
    Replace,
    /// `--keep`.
    Keep,
    /// `repair`.
    Repair,
    /// `accept`.
    Accept,
    /// `down --forget`.
    Forget,
    /// `moved_from`: a step took the place of another.
    Moved,
    /// `--prune`: a removed step is torn down.
    Prune,
    /// `rebuild unlock`.
    Unlock,
    /// `suspects --import`: an object that was in no state is in one now.
    Import,
    /// `suspects --gone`: somebody looked, and the object does not exist.
    Gone,
    /// `state migrate`: a state that was kept elsewhere is kept here from then on.
    Migrate,
    /// `state migrate --back`: a state is kept elsewhere again.
    MigrateBack,
    /// `provision down --without-captured`: a workspace is torn down without secrets that are lost.
    WithoutCaptured,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// What was decided.
    pub kind: DecisionKind,
    /// When.
    pub at: Time,
    /// By whom.
    pub user: String,
    /// What it is about: a phase, a step, an address, a host, an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Why, in that person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A failure, as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRecord {
    /// The phase.
    #[serde(
        with = "crate::words::maybe",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub phase: Option<PhaseId>,
    /// The step.
    #[serde(
        with = "crate::words::maybe",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub step: Option<StepId>,
    /// What was tried.
    pub what: String,
    /// Why it failed, outermost first.
    #[serde(default)]
    pub causes: Vec<String>,
    /// What is safe to type next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where the whole log is, on the machine of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The exit code that it leads to.
    pub exit: u8,
}

impl StepRecord {
    /// Gives the id of the object that its last apply was to make another one in the place of.
    pub fn had(&self, address: &ResourceAddress) -> Option<String> {
        let mut planned = self.planned.as_ref()?.changes.iter();
        planned
            .find(|change| change.address == *address)?
            .was
            .clone()
    }
}

impl Record {
    /// Notes what may exist in no state, unless it is known already. Says whether it was not.
    pub fn suspect(
        &mut self,
        step: &StepId,
        found: Suspected,
        host: Option<String>,
        since: Time,
    ) -> bool {
        let mut known = self.suspects.iter();
        if known.any(|known| known.step == *step && known.address == found.address) {
            return false;
        }
        self.suspects.push(Suspect {
            step: step.clone(),
            address: found.address,
            provider: found.provider,
            id: found.id,
            was: found.was,
            host,
            since,
            run: self.run.clone(),
        });
        true
    }
}

impl ErrorRecord {
    /// Keeps a failure. Its texts must be masked.
    pub fn of(phase: Option<&PhaseId>, step: Option<&StepId>, failure: &Failure) -> Self {
        Self {
            phase: phase.cloned(),
            step: step.cloned(),
            what: failure.what.clone(),
            causes: failure.causes.clone(),
            hint: failure.hint.clone(),
            log: failure.log.as_ref().map(|log| log.display().to_string()),
            exit: failure.exit.code(),
        }
    }

    /// Gives the failure again.
    pub fn failure(&self) -> PhaseFailure {
        PhaseFailure {
            phase: self.phase.clone(),
            step: self.step.clone(),
            failure: Failure {
                exit: ExitCode::from_code(self.exit).unwrap_or(ExitCode::Failed),
                what: self.what.clone(),
                causes: self.causes.clone(),
                hint: self.hint.clone(),
                log: self.log.as_ref().map(Into::into),
            },
        }
    }
}

impl From<&PhaseFailure> for ErrorRecord {
    fn from(failure: &PhaseFailure) -> Self {
        Self::of(
            failure.phase.as_ref(),
            failure.step.as_ref(),
            &failure.failure,
        )
    }
}

/// What a step's apply begins from, handed in with its start.
#[derive(Debug, Clone, PartialEq)]
pub struct Starting {
    /// The step's kind.
    pub kind: String,
    /// The step inside whose things it lives.
    pub contained_in: Option<StepId>,
    /// What it begins from; `attempted` is set by the ledger.
    pub applied: Applied,
    /// What it is going to create and replace, complete where a plan was made first.
    pub planned: PlannedWork,
}

/// What the world hands in to be kept with an event of a step, or while the step is at work.
///
/// Each part stands for itself; what is empty changes nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detail {
    /// The apply begins. Needed with every start.
    pub starting: Option<Box<Starting>>,
    /// The state of the step is about to be changed outside of an apply or a teardown of it, which say so themselves.
    pub writes: bool,
    /// More of what is going to be created and replaced.
    pub planned: Vec<PlannedChange>,
    /// The state as it is now.
    pub state: Option<StateMark>,
    /// What was done so far, since the last detail: by action, then by type.
    pub made: BTreeMap<String, BTreeMap<String, u64>>,
    /// The outputs.
    pub outputs: Option<Vec<(String, Input)>>,
    /// Objects that may exist in no state.
    pub suspects: Vec<Suspected>,
    /// The addresses that were given up.
    pub forgotten: Vec<String>,
}

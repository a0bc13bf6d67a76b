//! What `rebuild status --output json` prints.

use phase_engine::{RunId, RunStatus, TargetName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Record, Schema, StandingEntry, Time};

/// Where a target is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetState {
    /// Nothing stands.
    Empty,
    /// A run is unfinished.
    Unfinished,
    /// The last run is finished, and stands.
    Finished,
    /// A teardown has begun and not ended.
    TearingDown,
}

impl TargetState {
    /// Reads it off the record of the target's run.
    pub fn of(record: Option<&Record>) -> Self {
        let Some(record) = record else {
            return Self::Empty;
        };
        match record.status {
            RunStatus::TornDown => Self::Empty,
            _ if record.teardown_began.is_some() => Self::TearingDown,
            RunStatus::Finished => Self::Finished,
            _ => Self::Unfinished,
        }
    }
}

/// Who holds the target's lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockShown {
    /// Who called.
    pub user: String,
    /// On which machine.
    pub host: String,
    /// The run, where there is one by then.
    #[serde(default)]
    pub run: Option<String>,
    /// The command.
    pub command: String,
    /// Since when, by that machine's clock.
    pub since: String,
}

/// The status of a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusDocument {
    /// The version of this format.
    pub schema: Schema,
    /// The target.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub target: TargetName,
    /// Where it is, in one word.
    pub state: TargetState,
    /// Who holds its lock.
    pub lock: Option<LockShown>,
    /// What stands, in order of application.
    pub standing: Vec<StandingEntry>,
    /// The record of its run.
    pub run: Option<Record>,
    /// The last run that came to be finished.
    #[serde(with = "crate::words::maybe", default)]
    #[schemars(with = "Option<String>")]
    pub last_known_good: Option<RunId>,
    /// The commands that go on from here.
    pub next: Vec<String>,
}

impl StatusDocument {
    /// Puts it together, with the commands that go on from here.
    pub fn of(
        target: TargetName,
        record: Option<Record>,
        last_known_good: Option<RunId>,
        lock: Option<LockShown>,
    ) -> Self {
        let state = TargetState::of(record.as_ref());
        let up = format!("rebuild up --target {target}");
        let down = format!("rebuild down --target {target}");
        let next = match state {
            TargetState::Empty => vec![up],
            TargetState::Unfinished => vec![format!("{up} --resume"), down],
            TargetState::Finished => vec![format!("rebuild preflight --target {target}"), up, down],
            TargetState::TearingDown => vec![down],
        };
        let standing = record
            .as_ref()
            .map(|record| record.standing.clone())
            .unwrap_or_default();
        let schema = Schema::default();
        Self {
            schema,
            target,
            state,
            lock,
            standing,
            run: record,
            last_known_good,
            next,
        }
    }

    /// Says since when the run has been as it is: the last call's end, or its start.
    pub fn since(&self) -> Option<Time> {
        let call = self.run.as_ref()?.calls.last()?;
        Some(call.ended.unwrap_or(call.started))
    }
}

//! What stands, step by step, and what it was applied from.

use std::collections::BTreeMap;

use phase_engine::{RunId, StepId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Outputs, Time, ToolRecord, Values};

/// What one apply of a step began from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// The digest of the bundle.
    pub bundle: String,
    /// The digest of what `init` added to it: dependency lock file, downloaded modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_extras: Option<String>,
    /// What the bundle calls the step, where that is another name: the step was moved since.
    #[serde(
        with = "crate::words::maybe",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub called: Option<StepId>,
    /// The commit that the bundle was packed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The digest of the step's definitions.
    #[serde(default)]
    pub definition: String,
    /// The step's resolved inputs.
    #[serde(default)]
    pub values: Values,
    /// The target's values then, which its phase's checks refer to.
    #[serde(default)]
    pub target: BTreeMap<String, Value>,
    /// The tool that applied it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRecord>,
    /// The providers, by source address, with their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, String>,
    /// The run that applied it.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub run: RunId,
    /// When the apply began.
    pub since: Time,
    /// It has not ended well: it failed, it was interrupted or cut, or it is at work.
    #[serde(default)]
    pub attempted: bool,
}

/// Which state a step has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateMark {
    /// The state's lineage.
    pub lineage: String,
    /// The state's serial within its lineage.
    pub serial: u64,
    /// The SHA-256 of the state as it is stored, in hexadecimal.
    pub digest: String,
}

/// A change of a step's state that has begun, and whose outcome the record does not know: an apply, a destroy, an import.
///
/// It is stored before anything may write the state, and goes with the first mark of the state that is stored after it.
/// So a state of the recorded lineage that is newer than the recorded one is explained by it, and by nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Writing {
    /// The machine that is at it, or was when its call was cut; none once it is seen to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Since when.
    pub since: Time,
}

/// Where a step's state was kept before it was taken over. It was left there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Adopted {
    /// The old place, in words that hold no secret.
    pub from: String,
    /// The workspace there, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The lineage of the state, here as there.
    pub lineage: String,
    /// Its serial there, when it was taken over.
    pub serial: u64,
    /// When that was.
    pub at: Time,
}

/// One step that stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StandingEntry {
    /// The step.
    #[serde(with = "crate::words::text")]
    #[schemars(with = "String")]
    pub step: StepId,
    /// What it was called before, the latest first.
    #[serde(
        with = "crate::words::list",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Vec<String>")]
    pub formerly: Vec<StepId>,
    /// The step that takes its place: its state is on the way there, and every call brings that to its end first.
    #[serde(
        with = "crate::words::maybe",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub moving_to: Option<StepId>,
    /// Its kind: `tofu`, `nodes`, `ssh`, `ansible`, `talos`, `exec`.
    pub kind: String,
    /// The step inside whose things it lives.
    #[serde(
        with = "crate::words::maybe",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub contained_in: Option<StepId>,
    /// The last apply of it that began. `down` uses it.
    #[serde(flatten)]
    pub applied: Applied,
    /// While that has not ended well: what was applied before it, the latest first, down to the last that ended
    /// well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<Applied>,
    /// Its state, where its kind has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateMark>,
    /// What may be changing that state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writing: Option<Writing>,
    /// Its outputs that are not sensitive.
    #[serde(default, skip_serializing_if = "Outputs::is_empty")]
    pub outputs: Outputs,
    /// Where its state came from, where it was not made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<Adopted>,
}

impl Applied {
    /// Gives the name under which the bundle defines the step that stands as `step` today.
    pub fn called<'a>(&'a self, step: &'a StepId) -> &'a StepId {
        self.called.as_ref().unwrap_or(step)
    }
}

impl StandingEntry {
    /// Takes another step's name; what its bundles call it stays known.
    pub(crate) fn rename(&mut self, to: &StepId) {
        let from = std::mem::replace(&mut self.step, to.clone());
        for applied in std::iter::once(&mut self.applied).chain(&mut self.previous) {
            applied.called.get_or_insert_with(|| from.clone());
        }
        self.formerly.retain(|name| name != to);
        self.formerly.insert(0, from);
        self.moving_to = None;
    }

    /// Gives the last apply that ended well: what preflight and a re-verify hold the world against.
    pub fn as_applied(&self) -> Option<&Applied> {
        self.teardown_order().find(|applied| !applied.attempted)
    }

    /// Says whether its kind has a state.
    pub fn has_state(&self) -> bool {
        matches!(self.kind.as_str(), "tofu" | "nodes")
    }

    /// Says whether a state is the recorded one, or one that the change of it that has begun may have made: of its
    /// lineage, and newer.
    pub fn explains(&self, found: &StateMark) -> bool {
        match &self.state {
            Some(known) if found == known => true,
            Some(known) => {
                // A first state may be given its lineage later, once.
                let is_of_it = found.lineage == known.lineage || known.lineage.is_empty();
                self.writing.is_some() && is_of_it && found.serial > known.serial
            }
            None => true,
        }
    }

    /// Takes what the store has for what the change of the state came to that had begun, where that explains it. Only
    /// once nobody is at it any more. Says whether anything changed.
    pub fn settle_writing(&mut self, found: Option<StateMark>) -> bool {
        let is_explained = match &found {
            Some(found) => self.explains(found),
            None => self.state.is_none(),
        };
        if self.writing.is_none() || !is_explained {
            return false;
        }
        self.writing = None;
        self.state = found;
        true
    }

    /// Gives the bundles to tear it down with: the one last attempted, then those before it.
    pub fn teardown_order(&self) -> impl Iterator<Item = &Applied> {
        std::iter::once(&self.applied).chain(&self.previous)
    }

    /// Begins another apply: what was applied before stays known until this one ends well.
    pub(crate) fn attempt(&mut self, applied: Applied) {
        let former = std::mem::replace(&mut self.applied, applied);
        let now = &self.applied;
        let same = former.bundle == now.bundle && former.init_extras == now.init_extras;
        // An attempt from the same bundle as this one adds nothing to undo it with.
        if !(former.attempted && same) {
            self.previous.insert(0, former);
        }
    }

    /// The last apply ended well.
    pub(crate) fn settle(&mut self) {
        self.applied.attempted = false;
        self.previous.clear();
    }
}

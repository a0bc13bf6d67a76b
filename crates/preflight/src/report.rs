//! The report: what goes to stdout, to a terminal and into records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::verdict::{Reason, ReportVerdict, Verdict};

/// The version of the report's format.
pub const SCHEMA: u32 = 1;

/// What a sensitive value is shown as.
pub(crate) const SENSITIVE: &str = "[sensitive]";

/// What preflight says of a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of this format: 1.
    pub schema: u32,
    /// The target's name.
    pub target: String,
    /// Whether a change may be made.
    pub verdict: ReportVerdict,
    /// The phases, in the platform's order.
    pub phases: Vec<PhaseReport>,
    /// What concerns no single phase: why it stopped all the same, or what a first build can't prove.
    pub notes: Vec<Note>,
    /// How long it took.
    pub seconds: f64,
}

/// What preflight says of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseReport {
    /// The phase's id.
    pub id: String,
    /// The worst that was found.
    pub verdict: Verdict,
    /// What speaks against going on; none when the phase is clean.
    pub findings: Vec<Finding>,
    /// What is worth knowing and does not stop.
    pub notes: Vec<Note>,
    /// How long it took.
    pub seconds: f64,
}

/// One thing that speaks against going on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The step, without its phase; null for a check of the phase.
    pub step: Option<String>,
    /// What it is about: a resource instance, `output.NAME`, `check.NAME`, a state's key.
    pub address: Option<String>,
    /// The attribute that differs, as `tags.team` or `rules[0].port`.
    pub attribute: Option<String>,
    /// What it should be: the value last applied, or the recorded one.
    pub was: Value,
    /// What it is: the value found, or the message that came. Sensitive values are `[sensitive]`.
    pub is: Value,
    /// Why it speaks against going on.
    pub reason: Reason,
}

impl Finding {
    /// A finding with nothing but its reason and what came.
    pub(crate) fn new(reason: Reason, is: impl Into<Value>) -> Self {
        Self {
            step: None,
            address: None,
            attribute: None,
            was: Value::Null,
            is: is.into(),
            reason,
        }
    }

    pub(crate) fn at(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    pub(crate) fn attribute(mut self, attribute: impl Into<String>) -> Self {
        self.attribute = Some(attribute.into());
        self
    }

    pub(crate) fn was(mut self, was: impl Into<Value>) -> Self {
        self.was = was.into();
        self
    }
}

/// One thing worth knowing that does not stop by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The step, without its phase; null where it concerns the phase or the target.
    pub step: Option<String>,
    /// What there is to know, in one sentence.
    pub text: String,
}

impl Note {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            step: None,
            text: text.into(),
        }
    }
}

impl Report {
    /// Stops for a cause that lies outside the phases (an unfinished run, a removed step): the phases'
    /// verdicts stay as they are.
    pub fn stop(&mut self, why: impl Into<String>) {
        self.verdict = ReportVerdict::Stopped;
        self.notes.push(Note::new(why));
    }

    /// Whether a change may be made.
    pub fn passes(&self) -> bool {
        self.verdict != ReportVerdict::Stopped
    }

    /// How many findings there are in all phases.
    pub fn n_findings(&self) -> usize {
        self.phases.iter().map(|phase| phase.findings.len()).sum()
    }

    /// Puts every text that came from outside through `mask`, keys of values included. Reports may
    /// leave the process only after this.
    pub fn mask(&mut self, mask: &dyn Fn(&str) -> String) {
        for note in &mut self.notes {
            note.text = mask(&note.text);
        }
        for phase in &mut self.phases {
            for note in &mut phase.notes {
                note.text = mask(&note.text);
            }
            for finding in &mut phase.findings {
                for text in [&mut finding.address, &mut finding.attribute]
                    .into_iter()
                    .flatten()
                {
                    *text = mask(text);
                }
                mask_value(&mut finding.was, mask);
                mask_value(&mut finding.is, mask);
            }
        }
    }
}

fn mask_value(value: &mut Value, mask: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = mask(text),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_value(item, mask)),
        Value::Object(map) => {
            *map = std::mem::take(map)
                .into_iter()
                .map(|(key, mut item)| {
                    mask_value(&mut item, mask);
                    (mask(&key), item)
                })
                .collect();
        }
        // A number may be a secret too (a PIN): what masks to something else is shown as that.
        Value::Number(number) => {
            let text = number.to_string();
            let masked = mask(&text);
            if masked != text {
                *value = Value::String(masked);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

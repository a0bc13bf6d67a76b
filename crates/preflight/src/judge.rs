//! The verdict of one step.

use std::collections::BTreeSet;

use jiff::civil::Date;
use phase_engine::StepId;

use crate::facts::{
    ErrorKind, IgnoreDrift, Looked, PlanFacts, StateFacts, StateObservation, StepObservation,
};
use crate::report::{Finding, Note};
use crate::target::vanished_providers;
use crate::verdict::{Reason, Verdict};

/// What is known of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepVerdict {
    /// The step.
    pub step: StepId,
    /// The worst that was found.
    pub verdict: Verdict,
    /// What speaks against going on; none when the verdict is clean.
    pub findings: Vec<Finding>,
    /// What is worth knowing and does not stop.
    pub notes: Vec<Note>,
}

/// Judges one step by itself. `today` ends exceptions.
///
/// Objects of one provider may be spread over several steps, so a whole target is judged by
/// [`crate::judge_target`].
pub fn judge(seen: &StepObservation, today: Date) -> StepVerdict {
    judge_among(seen, today, &vanished_providers([seen]))
}

/// Judges one step, knowing the providers of which every object in the target is gone.
pub(crate) fn judge_among(
    seen: &StepObservation,
    today: Date,
    vanished: &BTreeSet<String>,
) -> StepVerdict {
    let mut case = Case {
        today,
        ignore: &seen.ignore,
        findings: Vec::new(),
        notes: Vec::new(),
    };
    case.exceptions();
    let lost = match &seen.state {
        Some(state) => case.state(&seen.step, state),
        None => false,
    };
    // A plan on a lost state says nothing: it would create everything anew.
    if !lost {
        case.looked(&seen.looked, vanished);
    }
    let Case {
        mut findings,
        mut notes,
        ..
    } = case;
    let name = seen.step.step.to_string();
    for finding in &mut findings {
        finding.step = Some(name.clone());
    }
    for note in &mut notes {
        note.step = Some(name.clone());
    }
    let verdict = findings
        .iter()
        .map(|finding| finding.reason.verdict())
        .min()
        .unwrap_or(Verdict::Clean);
    StepVerdict {
        step: seen.step.clone(),
        verdict,
        findings,
        notes,
    }
}

struct Case<'a> {
    today: Date,
    ignore: &'a [IgnoreDrift],
    findings: Vec<Finding>,
    notes: Vec<Note>,
}

impl Case<'_> {
    fn find(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(Note::new(text));
    }

    /// Every exception is told in every report; one that has ended stops.
    fn exceptions(&mut self) {
        for rule in self.ignore {
            let what = match &rule.attribute {
                Some(attribute) => format!("`{}` of `{}`", attribute, rule.address),
                None => format!("`{}`", rule.address),
            };
            match rule.until {
                Some(until) if rule.has_ended(self.today) => {
                    let mut finding = Finding::new(
                        Reason::IgnoreExpired,
                        format!("{what} was to be ignored until {until}: {}", rule.reason),
                    )
                    .at(rule.address.clone());
                    finding.attribute.clone_from(&rule.attribute);
                    self.findings.push(finding);
                }
                Some(until) => {
                    self.note(format!("{what} is ignored until {until}: {}", rule.reason));
                }
                None => self.note(format!("{what} is ignored: {}", rule.reason)),
            }
        }
    }

    fn ignores(&self, matches: impl Fn(&IgnoreDrift) -> bool) -> bool {
        self.ignore
            .iter()
            .any(|rule| !rule.has_ended(self.today) && matches(rule))
    }

    /// Compares the state with the recorded one; whether it is lost.
    fn state(&mut self, step: &StepId, state: &StateObservation) -> bool {
        let recorded = &state.recorded;
        let key = format!("state/{}", step.key());
        match &state.found {
            StateFacts::Absent => {
                let was = format!("lineage {} serial {}", recorded.lineage, recorded.serial);
                let finding = Finding::new(Reason::StateAbsent, serde_json::Value::Null);
                self.find(finding.at(key).was(was));
                return true;
            }
            StateFacts::Unreadable { message } => {
                self.find(Finding::new(Reason::StoreUnreachable, message.as_str()).at(key));
            }
            StateFacts::Damaged { message } => {
                let finding = Finding::new(Reason::DigestDiffers, message.as_str());
                self.find(finding.at(key).was(recorded.digest.as_str()));
            }
            StateFacts::Present {
                lineage,
                serial,
                digest,
            } => {
                if *lineage != recorded.lineage {
                    let finding = Finding::new(Reason::LineageDiffers, lineage.as_str());
                    self.find(finding.at(key).was(recorded.lineage.as_str()));
                } else if *serial != recorded.serial {
                    let finding = Finding::new(Reason::SerialDiffers, *serial);
                    self.find(finding.at(key).was(recorded.serial));
                } else if *digest != recorded.digest {
                    let finding = Finding::new(Reason::DigestDiffers, digest.as_str());
                    self.find(finding.at(key).was(recorded.digest.as_str()));
                }
            }
        }
        false
    }

    fn looked(&mut self, looked: &Looked, vanished: &BTreeSet<String>) {
        let (reason, text) = match looked {
            Looked::Verified => return,
            Looked::Planned(facts) => return self.plan(facts, vanished),
            Looked::VerifyFailed { message } => (Reason::VerifyFailed, message),
            Looked::Differs { message } => (Reason::ChangedOutside, message),
            Looked::Unreachable { message } => (Reason::StepUnreachable, message),
            Looked::NotRun { why } => (Reason::NotRun, why),
            Looked::Undecided { message } => (Reason::PlanFailed, message),
        };
        self.find(Finding::new(reason, text.as_str()));
    }

    fn plan(&mut self, facts: &PlanFacts, vanished: &BTreeSet<String>) {
        for error in &facts.errors {
            let reason = match error.kind {
                ErrorKind::Api => Reason::ProviderUnreachable,
                ErrorKind::Lock => Reason::LockHeld,
                ErrorKind::Other => Reason::PlanFailed,
            };
            let mut finding = Finding::new(reason, error.message.as_str());
            finding.address.clone_from(&error.address);
            self.find(finding);
        }
        if !facts.complete && facts.errors.is_empty() {
            let message = "the plan ended with neither a summary nor an error";
            self.find(Finding::new(Reason::PlanFailed, message));
        }
        self.drift(facts, vanished);
        self.changes(facts);
        self.outputs(facts);
        for check in &facts.checks {
            let finding = Finding::new(Reason::CheckBlockFalse, check.message.as_str());
            self.find(finding.at(format!("check.{}", check.name)));
        }
    }

    fn drift(&mut self, facts: &PlanFacts, vanished: &BTreeSet<String>) {
        for object in &facts.drift {
            if object.action == "delete" {
                let reason = if vanished.contains(&object.provider) {
                    Reason::MassDisappearance
                } else {
                    Reason::DeletedOutside
                };
                self.find(Finding::new(reason, serde_json::Value::Null).at(object.address.clone()));
                continue;
            }
            let changed = || {
                Finding::new(Reason::ChangedOutside, serde_json::Value::Null)
                    .at(object.address.clone())
            };
            // Without values nothing can be told apart, so nothing is ignored.
            if object.attributes.is_empty() {
                self.find(changed());
            }
            for attribute in &object.attributes {
                if self.ignores(|rule| rule.names(&object.address, &attribute.path)) {
                    self.note(format!(
                        "`{}` of `{}` differs and is ignored",
                        attribute.path, object.address
                    ));
                    continue;
                }
                let mut finding = changed().attribute(attribute.path.clone());
                finding.was = attribute.was.clone();
                finding.is = attribute.is.clone();
                self.find(finding);
            }
        }
    }

    fn changes(&mut self, facts: &PlanFacts) {
        for change in facts.real_changes() {
            if change.reason == "tainted" {
                let finding = Finding::new(Reason::Tainted, serde_json::Value::Null);
                self.find(finding.at(change.address.clone()));
            } else if !facts
                .drift
                .iter()
                .any(|object| object.address == change.address)
            {
                // What follows from drift needs no note of its own.
                self.note(format!(
                    "not converging: the definitions that were applied would {} `{}`",
                    change.action, change.address
                ));
            }
        }
    }

    fn outputs(&mut self, facts: &PlanFacts) {
        let beside_a_change = facts.real_changes().next().is_some();
        for output in facts
            .outputs
            .iter()
            .filter(|output| output.action != "noop")
        {
            let address = format!("output.{}", output.name);
            if facts.explained_outputs.contains(&output.name) {
                self.note(format!(
                    "`{address}` changes with a secret or a sensitive input"
                ));
            } else if beside_a_change || output.known == Some(false) {
                self.note(format!("not converging: `{address}` would change"));
            } else if self.ignores(|rule| rule.names_output(&output.name)) {
                self.note(format!("`{address}` differs and is ignored"));
            } else {
                let mut finding =
                    Finding::new(Reason::OutputsChanged, output.is.clone()).at(address);
                finding.was = output.was.clone();
                self.find(finding);
            }
        }
    }
}

#[cfg(test)]
mod tests;

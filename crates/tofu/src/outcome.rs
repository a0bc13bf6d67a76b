//! What a command's event stream came to: the facts that verdicts, records and rescues are made from.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use process::Exit;

use crate::events::{
    ApplyStage, Change, ChangeSummary, Diagnostic, Event, EventLine, Hook, OutputEvent, RawState,
    SummaryOperation,
};

/// How many lines that are no messages are kept.
const TAIL: usize = 40;

/// A `check` block that is not known to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCheck {
    /// The block's name.
    pub name: String,
    /// Its error message, or OpenTofu's where it could not be evaluated.
    pub message: String,
}

/// What has happened to one resource instance in an apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// The instance's address.
    pub address: String,
    /// The action's word.
    pub action: String,
    /// The object's id, where OpenTofu tells one.
    pub id: Option<String>,
}

/// The events of one command, summed up. Filled by [`Outcome::take`], ended by [`Outcome::end`].
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// How the process ended; `None` when its end was never seen.
    pub exit: Option<Exit>,
    /// Differences between the state and the world, in order.
    pub drift: Vec<Change>,
    /// What the plan would do, in order; `noop` included where OpenTofu tells it (moves, imports).
    pub planned: Vec<Change>,
    /// The plan's counts.
    pub plan_summary: Option<ChangeSummary>,
    /// The apply's or destroy's counts.
    pub apply_summary: Option<ChangeSummary>,
    /// The last `outputs` message: after a plan actions, after an apply values of those not sensitive.
    pub outputs: BTreeMap<String, OutputEvent>,
    /// Errors and warnings, in order.
    pub diagnostics: Vec<Diagnostic>,
    /// `check` blocks that failed or could not be evaluated.
    pub failed_checks: Vec<FailedCheck>,
    /// Managed instances that were refreshed, each with the provider that its type implies; those that
    /// turned out to be gone included.
    pub refreshed: BTreeMap<String, String>,
    /// The ids of the objects that the state had of them, where OpenTofu tells one.
    pub had: BTreeMap<String, String>,
    /// Instances whose apply started, with the last action.
    pub started: Vec<Touched>,
    /// Instances whose apply ended well.
    pub completed: Vec<Touched>,
    /// Instances whose apply failed.
    pub errored: Vec<Touched>,
    /// Whether we sent an interrupt, or OpenTofu said that it got one.
    pub interrupted: bool,
    /// Whether we killed the process group.
    pub killed: bool,
    /// The state that OpenTofu could write nowhere: a source for the rescue, never for a disk.
    pub emergency_state: Option<RawState>,
    /// The last lines that are no messages, colour codes removed.
    pub tail: VecDeque<String>,
    /// Whether any message of the `-json` stream was seen.
    pub spoke_json: bool,
}

impl Outcome {
    /// Adds one line.
    pub fn take(&mut self, line: &EventLine) {
        match &line.event {
            Event::Text(text) => {
                // Errors for people come in a frame.
                let text =
                    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '╷' | '│' | '╵'));
                if !text.is_empty() {
                    if self.tail.len() == TAIL {
                        self.tail.pop_front();
                    }
                    self.tail.push_back(text.to_owned());
                }
                return;
            }
            Event::ResourceDrift(change) => self.drift.push(change.clone()),
            Event::PlannedChange(change) => self.planned.push(change.clone()),
            Event::ChangeSummary(summary) => {
                if summary.operation == SummaryOperation::Plan {
                    self.plan_summary = Some(*summary);
                } else {
                    self.apply_summary = Some(*summary);
                }
            }
            Event::Outputs(outputs) => self.outputs.clone_from(outputs),
            Event::Diagnostic(diagnostic) => {
                if let Some(name) = diagnostic.failed_check()
                    && !diagnostic.is_error()
                {
                    self.failed_checks.push(FailedCheck {
                        name: name.to_owned(),
                        message: if diagnostic.detail.trim().is_empty() {
                            diagnostic.summary.clone()
                        } else {
                            diagnostic.detail.clone()
                        },
                    });
                }
                self.diagnostics.push((**diagnostic).clone());
            }
            Event::Apply(stage, hook) => {
                let one = Touched {
                    address: hook.resource.addr.clone(),
                    action: hook.action.as_str().to_owned(),
                    id: id_of(hook),
                };
                match stage {
                    ApplyStage::Started => self.started.push(one),
                    ApplyStage::Completed => self.completed.push(one),
                    ApplyStage::Errored => self.errored.push(one),
                    ApplyStage::Progress => {}
                }
            }
            Event::Refresh(_, hook) => {
                let resource = &hook.resource;
                if let Some(id) = id_of(hook) {
                    self.had.entry(resource.addr.clone()).or_insert(id);
                }
                self.refreshed
                    .insert(resource.addr.clone(), resource.implied_provider.clone());
            }
            Event::Log(message) if message.starts_with("Stopping operation") => {
                self.interrupted = true
            }
            Event::EmergencyState(state) => self.emergency_state = Some(state.clone()),
            _ => {}
        }
        self.spoke_json = true;
    }

    /// Notes the process's end.
    pub fn end(&mut self, exit: Exit) {
        self.exit = Some(exit);
    }

    /// Whether the process ended by itself with code 0 and told no error.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self.exit, Some(Exit::Code(0))) && self.errors().next().is_none()
    }

    /// Errors, in order.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.is_error())
    }

    /// Instances whose object may exist in no state: an apply that started and has no end; one that
    /// failed after an interrupt or in a command whose end was not seen; one that was created by a command that
    /// did not come to its own end, since OpenTofu writes the state at the end (and every 20 s before).
    #[must_use]
    pub fn suspects(&self) -> BTreeSet<String> {
        // What is only read makes no object.
        let makes = |one: &&Touched| !matches!(&*one.action, "read" | "open" | "renew" | "close");
        let mut open: BTreeMap<&str, i64> = BTreeMap::new();
        for one in self.started.iter().filter(makes) {
            *open.entry(&one.address).or_default() += 1;
        }
        for one in self.completed.iter().chain(&self.errored).filter(makes) {
            *open.entry(&one.address).or_default() -= 1;
        }
        let mut suspects: BTreeSet<String> = open
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(address, _)| address.to_owned())
            .collect();
        if self.interrupted || self.killed || !matches!(self.exit, Some(Exit::Code(_))) {
            suspects.extend(
                self.errored
                    .iter()
                    .filter(makes)
                    .map(|one| one.address.clone()),
            );
        }
        if !self.wrote_its_state() {
            let created = self.completed.iter().filter(|one| one.action == "create");
            suspects.extend(created.map(|one| one.address.clone()));
        }
        suspects
    }

    /// Whether it got as far as writing down all that it made: it says so, or ended by itself. Whatever else it ends
    /// with, a panic's code included, tells nothing of the state.
    fn wrote_its_state(&self) -> bool {
        let ended_by_itself = !self.killed && matches!(self.exit, Some(Exit::Code(0 | 1)));
        ended_by_itself || self.apply_summary.is_some()
    }

    /// The error of a state lock that someone else holds: the command did not run.
    #[must_use]
    pub fn lock_error(&self) -> Option<&Diagnostic> {
        self.errors().find(|diagnostic| {
            diagnostic
                .summary
                .starts_with("Error acquiring the state lock")
        })
    }

    /// Whether the data directory or the lock file no longer fit and `init` is what helps.
    #[must_use]
    pub fn needs_init(&self) -> bool {
        self.errors().any(needs_init)
            || (!self.spoke_json
                && self
                    .tail
                    .iter()
                    .any(|line| NEEDS_INIT.iter().any(|text| line.contains(text))))
    }

    /// Planned changes that mean something: all but `read` and `noop`.
    pub fn real_changes(&self) -> impl Iterator<Item = &Change> {
        use crate::events::Action;
        self.planned
            .iter()
            .filter(|change| !matches!(change.action, Action::Read | Action::Noop))
    }

    /// Planned changes of what an interrupt or a failed creation tainted.
    pub fn tainted(&self) -> impl Iterator<Item = &Change> {
        self.planned.iter().filter(|change| change.is_tainted())
    }
}

/// The id that a message tells. An object without one is told by another attribute, which names it to people only.
fn id_of(hook: &Hook) -> Option<String> {
    let is_told = hook.id_key == "id" && !hook.id_value.is_empty();
    is_told.then(|| hook.id_value.clone())
}

/// What OpenTofu says when its data directory does not fit the configuration.
const NEEDS_INIT: [&str; 8] = [
    "unavailable provider",
    "Module not installed",
    "ackend initialization required",
    "Required plugins are not installed",
    "Inconsistent dependency lock file",
    "Could not load plugin",
    "there is no package for",
    "Missing required provider",
];

pub(crate) fn needs_init(diagnostic: &Diagnostic) -> bool {
    NEEDS_INIT.iter().any(|text| diagnostic.mentions(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Action;

    /// A stream that a real OpenTofu wrote (`fixtures/record.sh`), with the end that it had.
    fn recorded(name: &str, exit: Exit) -> Outcome {
        let path = format!("{}/fixtures/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let mut outcome = Outcome::default();
        for line in std::fs::read(path)
            .unwrap()
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            outcome.take(&EventLine::parse(line));
        }
        outcome.end(exit);
        outcome
    }

    fn addresses(changes: &[Change]) -> Vec<(&str, &Action)> {
        changes
            .iter()
            .map(|change| (change.address(), &change.action))
            .collect()
    }

    #[test]
    fn a_clean_plan_says_nothing() {
        let outcome = recorded("clean", Exit::Code(0));
        assert!(outcome.is_success() && outcome.drift.is_empty() && outcome.planned.is_empty());
        assert!(
            outcome
                .outputs
                .values()
                .all(|output| output.action == Some(Action::Noop))
        );
    }

    #[test]
    fn drift_is_told_apart_from_what_is_planned() {
        let outcome = recorded("drift", Exit::Code(0));
        assert_eq!(
            addresses(&outcome.drift),
            [("local_file.a", &Action::Delete)]
        );
        assert_eq!(
            addresses(&outcome.planned),
            [("local_file.a", &Action::Create)]
        );
        let refresh_only = recorded("drift-refresh-only", Exit::Code(0));
        assert_eq!(
            addresses(&refresh_only.drift),
            [("local_file.a", &Action::Delete)]
        );
        assert!(refresh_only.planned.is_empty());
    }

    #[test]
    fn taint_is_a_reason_of_a_planned_change() {
        let outcome = recorded("tainted", Exit::Code(0));
        assert!(outcome.drift.is_empty());
        assert_eq!(
            outcome.tainted().map(Change::address).collect::<Vec<_>>(),
            ["local_file.a"]
        );
        assert!(outcome.planned[0].action.destroys());
    }

    #[test]
    fn a_false_check_is_a_success_that_names_it() {
        let outcome = recorded("check-false", Exit::Code(0));
        assert!(outcome.is_success());
        assert_eq!(
            outcome.failed_checks,
            [FailedCheck {
                name: "right".into(),
                message: "x is not a".into()
            }]
        );
    }

    #[test]
    fn an_apply_gives_outputs_but_for_sensitive_ones() {
        let outcome = recorded("apply", Exit::Code(0));
        assert_eq!(outcome.outputs["name"].value, Some("./made".into()));
        assert_eq!(
            (
                outcome.outputs["secret"].sensitive,
                &outcome.outputs["secret"].value
            ),
            (true, &None)
        );
        assert_eq!(outcome.apply_summary.unwrap().add, 1);
        assert_eq!(outcome.plan_summary.unwrap().add, 1);
        let destroyed = recorded("destroy", Exit::Code(0)).apply_summary.unwrap();
        assert_eq!((destroyed.remove, destroyed.add), (1, 0));
    }

    #[test]
    fn a_failed_resource_is_no_suspect_where_the_apply_ended_by_itself() {
        let outcome = recorded("errors", Exit::Code(1));
        assert!(!outcome.is_success());
        assert_eq!(outcome.errored[0].address, "terraform_data.bad");
        assert_eq!(outcome.completed[0].address, "terraform_data.good");
        assert!(outcome.suspects().is_empty());
        assert!(outcome.errors().next().unwrap().detail.contains("reason"));
    }

    #[test]
    fn an_interrupted_creation_is_a_suspect() {
        let outcome = recorded("cut-int", Exit::Code(1));
        assert!(outcome.interrupted, "OpenTofu says so itself");
        assert_eq!(
            outcome.suspects().into_iter().collect::<Vec<_>>(),
            ["terraform_data.slow"]
        );
    }

    #[test]
    fn a_creation_without_end_is_a_suspect_however_the_process_ended() {
        for exit in [Exit::Signal(9), Exit::Code(1)] {
            let outcome = recorded("cut-kill", exit);
            assert!(outcome.suspects().contains("terraform_data.slow"));
            assert_eq!(outcome.completed[0].address, "terraform_data.first");
        }
    }

    #[test]
    fn what_was_created_is_a_suspect_until_the_state_is_written() {
        let made = "terraform_data.first";
        for exit in [Exit::Signal(9), Exit::Code(2), Exit::Code(11)] {
            assert!(
                recorded("cut-kill", exit).suspects().contains(made),
                "{exit:?}"
            );
        }
        let mut unseen = recorded("cut-kill", Exit::Code(1));
        assert!(
            !unseen.suspects().contains(made),
            "it ended by itself, and wrote its state before"
        );
        unseen.exit = None;
        assert!(unseen.suspects().contains(made));
        unseen.exit = Some(Exit::Code(1));
        unseen.killed = true;
        assert!(unseen.suspects().contains(made));
        // The summary comes after the state is written.
        let mut whole = recorded("apply", Exit::Code(0));
        whole.exit = None;
        assert!(!whole.completed.is_empty() && whole.suspects().is_empty());
        // What was destroyed is not there any more.
        let mut destroyed = recorded("destroy", Exit::Signal(9));
        destroyed.apply_summary = None;
        assert!(!destroyed.completed.is_empty() && destroyed.suspects().is_empty());
    }

    #[test]
    fn a_replacement_has_two_starts_and_two_ends() {
        let one = |stage, action: &str| EventLine {
            event: Event::Apply(
                stage,
                crate::events::Hook {
                    resource: crate::events::Resource {
                        addr: "a.b".into(),
                        ..Default::default()
                    },
                    action: Action::from_word(action),
                    ..Default::default()
                },
            ),
            message: String::new(),
            timestamp: None,
        };
        let mut outcome = Outcome::default();
        outcome.take(&one(ApplyStage::Started, "delete"));
        outcome.take(&one(ApplyStage::Completed, "delete"));
        outcome.take(&one(ApplyStage::Started, "create"));
        outcome.end(Exit::Code(1));
        assert_eq!(outcome.suspects().len(), 1);
        let found = outcome.may_exist();
        assert!(found[0].is_made && found[0].id.is_none());
        let mut created = one(ApplyStage::Completed, "create");
        if let Event::Apply(_, hook) = &mut created.event {
            (hook.id_key, hook.id_value) = ("id".to_owned(), "new".to_owned());
        }
        outcome.take(&created);
        assert!(outcome.suspects().is_empty());
        let mut cut = outcome.clone();
        cut.end(Exit::Signal(9));
        assert_eq!(cut.may_exist()[0].id.as_deref(), Some("new"));
        // Reading makes nothing, so a read without an end leaves nothing behind.
        outcome.take(&one(ApplyStage::Started, "read"));
        assert!(outcome.suspects().is_empty());
        outcome.take(&one(ApplyStage::Errored, "read"));
        outcome.end(Exit::Signal(9));
        assert_eq!(outcome.suspects().len(), 1, "the creation, in no state yet");
        outcome.apply_summary = Some(ChangeSummary::default());
        assert!(outcome.suspects().is_empty());
    }

    #[test]
    fn only_what_was_being_made_is_in_the_place_of_another() {
        let mut outcome = Outcome::default();
        let refreshed = r#"{"@message":"","type":"refresh_start","hook":{"resource":{"addr":"a.b"},"id_key":"id","id_value":"old"}}"#;
        let cut = r#"{"@message":"","type":"apply_start","hook":{"resource":{"addr":"a.b"},"action":"delete","id_key":"id","id_value":"old"}}"#;
        for line in [refreshed, cut] {
            outcome.take(&EventLine::parse(line.as_bytes()));
        }
        outcome.end(Exit::Signal(9));
        assert_eq!(outcome.had["a.b"], "old");
        let found = outcome.may_exist();
        assert!(!found[0].is_made && found[0].id.is_none(), "{found:?}");
    }

    #[test]
    fn a_refused_lock_is_told_apart() {
        let outcome = recorded("locked", Exit::Code(1));
        assert!(outcome.lock_error().is_some() && !outcome.needs_init());
    }
}

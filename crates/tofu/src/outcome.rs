//! What a command's event stream came to: the facts that verdicts, records and rescues are made from.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use process::Exit;

use crate::events::{
    ApplyStage, Change, ChangeSummary, Diagnostic, Event, EventLine, OutputEvent, RawState,
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
    /// failed after an interrupt or in a command whose end was not seen.
    #[must_use]
    pub fn suspects(&self) -> BTreeSet<String> {
        let mut open: BTreeMap<&str, i64> = BTreeMap::new();
        for one in &self.started {
            *open.entry(&one.address).or_default() += 1;
        }
        for one in self.completed.iter().chain(&self.errored) {
            *open.entry(&one.address).or_default() -= 1;
        }
        let mut suspects: BTreeSet<String> = open
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(address, _)| address.to_owned())
            .collect();
        if self.interrupted || self.killed || !matches!(self.exit, Some(Exit::Code(_))) {
            suspects.extend(self.errored.iter().map(|one| one.address.clone()));
        }
        suspects
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

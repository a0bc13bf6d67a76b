//! What changed in the part of the sequence that a run has behind it; pure.

use std::fmt;

use crate::{History, PhaseId, Sequence, StepId, VerifiedPhase};

/// A phase or a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A phase.
    Phase(PhaseId),
    /// A step.
    Step(StepId),
}

/// How it differs from what the run has verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Today's platform defines it, the run did not come to it.
    New,
    /// The run applied it, today's platform does not define it.
    Gone,
    /// It is in another place.
    Moved,
}

/// One difference before the resume point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub subject: Subject,
    /// How.
    pub change: Change,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Change::New => "is new",
            Change::Gone => "is gone",
            Change::Moved => "was moved",
        };
        match &self.subject {
            Subject::Phase(phase) => write!(f, "phase `{phase}` {change}"),
            Subject::Step(step) => write!(f, "step `{step}` {change}"),
        }
    }
}

/// Compares two lists of ids; `new_from` cuts off what comes late enough to be no difference.
fn compare<T: PartialEq>(then: &[T], now: &[T], new_from: usize) -> Vec<(usize, bool, Change)> {
    // Index, whether it is one of `now`, how it changed.
    let mut found = Vec::new();
    for (index, id) in now.iter().enumerate().take(new_from) {
        if !then.contains(id) {
            found.push((index, true, Change::New));
        }
    }
    for (index, id) in then.iter().enumerate() {
        if !now.contains(id) {
            found.push((index, false, Change::Gone));
        }
    }
    let common_then = then.iter().enumerate().filter(|(_, id)| now.contains(id));
    let common_now = now.iter().filter(|id| then.contains(id));
    for ((index, then), now) in common_then.zip(common_now) {
        if then != now {
            found.push((index, false, Change::Moved));
        }
    }
    found
}

/// Gives every phase and step that is new, gone or moved before the resume point.
pub fn differences(verified: &[VerifiedPhase], today: &Sequence) -> Vec<Difference> {
    let mut differences = Vec::new();
    let then: Vec<&PhaseId> = verified.iter().map(|verified| &verified.phase).collect();
    let now: Vec<&PhaseId> = today.phases().iter().map(|phase| &phase.id).collect();
    let resume_point = now
        .iter()
        .rposition(|id| then.contains(id))
        .map_or(0, |last| last + 1);
    for (index, is_now, change) in compare(&then, &now, resume_point) {
        let id = if is_now { now[index] } else { then[index] };
        differences.push(Difference {
            subject: Subject::Phase(id.clone()),
            change,
        });
    }
    for verified in verified {
        let Some(phase) = today.phase(&verified.phase) else {
            continue;
        };
        let now = phase.step_ids();
        for (index, is_now, change) in compare(&verified.steps, &now, now.len()) {
            let id = if is_now {
                &now[index]
            } else {
                &verified.steps[index]
            };
            differences.push(Difference {
                subject: Subject::Step(id.clone()),
                change,
            });
        }
    }
    differences
}

/// Gives every step that stands and that today's platform does not define, in order of application.
pub fn removed(standing: &[StepId], today: &Sequence) -> Vec<StepId> {
    standing
        .iter()
        .filter(|step| today.step(step).is_none())
        .cloned()
        .collect()
}

/// Gives every phase that stands from earlier runs and that this run has not come to.
pub fn not_reached(history: &History, today: &Sequence) -> Vec<PhaseId> {
    let untouched = |phase: &&crate::Phase| {
        !history.is_verified(&phase.id)
            && phase
                .steps
                .iter()
                .all(|step| !history.steps.contains_key(&step.id))
            && phase
                .steps
                .iter()
                .any(|step| history.standing.contains(&step.id))
    };
    today
        .phases()
        .iter()
        .filter(untouched)
        .map(|phase| phase.id.clone())
        .collect()
}

//! What stands, as the ledger last stored it, for the threads that work on steps.

use phase_engine::{Entry, Failure, Ledger, LedgerError, PhaseId, StepId, StepStatus};
use record::{Decision, Detail, Record, RecordLedger, RecordView, StandingEntry};

/// A look at the record's `standing`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing(pub(crate) RecordView);

impl Standing {
    /// Finds what stands of a step.
    pub(crate) fn get(&self, step: &StepId) -> Option<StandingEntry> {
        self.0.get()?.standing_of(step).cloned()
    }

    /// How far the run came with a step; none of one that it has not begun.
    pub(crate) fn status_of(&self, step: &StepId) -> Option<StepStatus> {
        Some(self.0.get()?.step(step)?.status)
    }

    /// Everything that stands, in order of application.
    pub(crate) fn all(&self) -> Vec<StandingEntry> {
        self.0
            .get()
            .map(|record| record.standing.clone())
            .unwrap_or_default()
    }

    /// What stands of a phase, in order of application.
    pub(crate) fn of_phase(&self, phase: &PhaseId) -> Vec<StandingEntry> {
        self.all()
            .into_iter()
            .filter(|entry| entry.step.phase == *phase)
            .collect()
    }
}

/// The call's ledger. Whatever an entry refers to is in the store before the entry is.
pub(crate) struct CallLedger<'a> {
    /// The ledger that writes the record.
    inner: RecordLedger,
    before: Box<dyn FnMut() -> Result<(), Failure> + 'a>,
    decisions: Vec<Decision>,
}

impl<'a> CallLedger<'a> {
    /// Makes a ledger that does `before` before each write.
    pub(crate) fn new(
        inner: RecordLedger,
        before: impl FnMut() -> Result<(), Failure> + 'a,
    ) -> Self {
        Self {
            inner,
            before: Box::new(before),
            decisions: Vec::new(),
        }
    }

    /// Takes a decision that led to this call; it is stored with the first entry's record.
    pub(crate) fn decided(&mut self, decision: Decision) {
        self.decisions.push(decision);
    }

    /// The record as it was last stored; none before the first entry of a target's first run.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.inner.record()
    }
}

impl Ledger<Detail> for CallLedger<'_> {
    fn append(&mut self, entries: Vec<Entry<Detail>>) -> Result<(), LedgerError> {
        (self.before)().map_err(|failure| {
            let causes = failure.causes.join(": ");
            LedgerError::new(failure.what, causes)
        })?;
        self.inner.append(entries)?;
        if self.decisions.is_empty() {
            return Ok(());
        }
        let decisions = std::mem::take(&mut self.decisions);
        self.inner
            .change(|record| record.decisions.extend(decisions))
            .map_err(|error| LedgerError::new("a decision could not be stored", error))
    }
}

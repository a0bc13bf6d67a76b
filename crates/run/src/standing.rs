//! What stands, as the ledger last stored it, for the threads that work on steps.

use phase_engine::{Entry, Failure, Ledger, LedgerError, PhaseId, StepId};
use record::{Detail, Record, RecordLedger, RecordView, StandingEntry};

/// A look at the record's `standing`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing(pub(crate) RecordView);

impl Standing {
    /// Finds what stands of a step.
    pub(crate) fn get(&self, step: &StepId) -> Option<StandingEntry> {
        self.0.get()?.standing_of(step).cloned()
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

/// The call's ledger. What a first build writes before its run begins is written with the first entry.
pub(crate) struct CallLedger<'a> {
    /// The ledger that writes the record.
    pub(crate) inner: RecordLedger,
    first: Option<Box<dyn FnOnce() -> Result<(), Failure> + 'a>>,
}

impl<'a> CallLedger<'a> {
    /// Makes a ledger that does `first` before its first write.
    pub(crate) fn new(
        inner: RecordLedger,
        first: impl FnOnce() -> Result<(), Failure> + 'a,
    ) -> Self {
        Self {
            inner,
            first: Some(Box::new(first)),
        }
    }

    /// The record as it was last stored; none before the first entry of a target's first run.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.inner.record()
    }
}

impl Ledger<Detail> for CallLedger<'_> {
    fn append(&mut self, entries: Vec<Entry<Detail>>) -> Result<(), LedgerError> {
        if let Some(first) = self.first.take() {
            first().map_err(|failure| {
                let causes = failure.causes.join(": ");
                LedgerError::new(failure.what, causes)
            })?;
        }
        self.inner.append(entries)
    }
}

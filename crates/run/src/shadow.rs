//! What stands, as the ledger last stored it, for the threads that work on steps.

use std::sync::{Arc, PoisonError, RwLock};

use phase_engine::{Entry, Ledger, LedgerError, PhaseId, StepId};
use record::{Detail, Record, RecordLedger, StandingEntry};

/// A copy of the record's `standing`, kept up by [`ShadowedLedger`].
#[derive(Debug, Default)]
pub(crate) struct Shadow(RwLock<Vec<StandingEntry>>);

impl Shadow {
    /// Finds what stands of a step.
    pub(crate) fn get(&self, step: &StepId) -> Option<StandingEntry> {
        self.read().iter().find(|entry| entry.step == *step).cloned()
    }

    /// Everything that stands, in order of application.
    pub(crate) fn all(&self) -> Vec<StandingEntry> {
        self.read().clone()
    }

    /// What stands of a phase, in order of application.
    pub(crate) fn of_phase(&self, phase: &PhaseId) -> Vec<StandingEntry> {
        self.read().iter().filter(|entry| entry.step.phase == *phase).cloned().collect()
    }

    /// Takes over what the record says.
    pub(crate) fn set(&self, standing: &[StandingEntry]) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = standing.to_vec();
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<StandingEntry>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The run's ledger; what it has stored is what the shadow shows.
pub(crate) struct ShadowedLedger {
    /// The ledger that writes the record.
    pub(crate) inner: RecordLedger,
    shadow: Arc<Shadow>,
}

impl ShadowedLedger {
    pub(crate) fn new(inner: RecordLedger, shadow: Arc<Shadow>) -> Self {
        let ledger = Self { inner, shadow };
        ledger.cast();
        ledger
    }

    /// The record as it was last stored; none before the first entry of a new run.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.inner.record()
    }

    fn cast(&self) {
        if let Some(record) = self.record() {
            self.shadow.set(&record.standing);
        }
    }
}

impl Ledger<Detail> for ShadowedLedger {
    fn append(&mut self, entries: Vec<Entry<Detail>>) -> Result<(), LedgerError> {
        let stored = self.inner.append(entries);
        self.cast();
        stored
    }
}

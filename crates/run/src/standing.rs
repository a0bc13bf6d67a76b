//! What stands, as the ledger last stored it, for the threads that work on steps.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use phase_engine::{
    CallKind, Entry, Failure, Ledger, LedgerError, PhaseId, StepEvent, StepId, StepStatus,
};
use record::{Decision, Detail, Record, RecordLedger, RecordView, StandingEntry};

use crate::bench::Consents;
use crate::ui::{Notice, Ui};

/// A look at the record's `standing`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing(pub(crate) RecordView);

impl Standing {
    /// Finds what stands of a step.
    pub(crate) fn get(&self, step: &StepId) -> Option<StandingEntry> {
        self.0.get()?.standing_of(step).cloned()
    }

    /// Finds what stands of a step by today's name, or by one that it had before it was moved.
    pub(crate) fn once_called(&self, step: &StepId) -> Option<StandingEntry> {
        self.0.get()?.standing_once_called(step).cloned()
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

    /// Steps whose teardown has begun and has no end.
    pub(crate) fn cut_teardowns(&self) -> BTreeSet<StepId> {
        let record = self.0.get();
        record
            .iter()
            .flat_map(|record| &record.steps)
            .filter(|step| step.status == StepStatus::TearingDown)
            .map(|step| step.step.clone())
            .collect()
    }

    /// What stands of a phase, in order of application.
    pub(crate) fn of_phase(&self, phase: &PhaseId) -> Vec<StandingEntry> {
        self.all()
            .into_iter()
            .filter(|entry| entry.step.phase == *phase)
            .collect()
    }
}

/// Hears which steps' bad ends are stored.
type OnEnd<'a> = Box<dyn Fn(&[StepId]) + 'a>;

/// The steps whose acts are seen to have ended badly, by entries that are stored.
pub(crate) fn ended_badly(entries: &[Entry<Detail>]) -> Vec<StepId> {
    let ended = entries.iter().filter_map(|entry| match entry {
        Entry::Step { step, event, .. } => matches!(
            event,
            StepEvent::Failed
                | StepEvent::Interrupted
                | StepEvent::VerifyFailed
                | StepEvent::TeardownFailed
        )
        .then(|| step.clone()),
        _ => None,
    });
    ended.collect()
}

/// The call's ledger. Whatever an entry refers to is in the store before the entry is.
pub(crate) struct CallLedger<'a> {
    /// The ledger that writes the record.
    inner: RecordLedger,
    before: Box<dyn FnMut() -> Result<(), Failure> + 'a>,
    ended: OnEnd<'a>,
    decisions: Vec<Decision>,
    /// What a person agrees to while the call goes on.
    consents: Consents,
    ui: Arc<dyn Ui>,
}

impl<'a> CallLedger<'a> {
    /// Makes a ledger that does `before` before each write and tells what could not be proven of a phase.
    pub(crate) fn new(
        inner: RecordLedger,
        ui: Arc<dyn Ui>,
        consents: Consents,
        before: impl FnMut() -> Result<(), Failure> + 'a,
        ended: impl Fn(&[StepId]) + 'a,
    ) -> Self {
        Self {
            inner,
            before: Box::new(before),
            ended: Box::new(ended),
            decisions: Vec::new(),
            consents,
            ui,
        }
    }

    /// What people hear of an entry.
    fn notices(entry: &Entry<Detail>) -> Vec<Notice> {
        let Entry::PhaseGone { phase, warnings } = entry else {
            return Vec::new();
        };
        let warning = |failure: &Failure| Notice::Warning {
            message: std::iter::once(&failure.what)
                .chain(&failure.causes)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(": "),
            hint: Some(format!(
                "a step of phase `{phase}` was forgotten; what is left of it is yours to find"
            )),
        };
        warnings.iter().map(warning).collect()
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
        let notices: Vec<Notice> = entries.iter().flat_map(Self::notices).collect();
        let began = entries.iter().find_map(|entry| match entry {
            Entry::CallBegan { kind } => Some(*kind),
            _ => None,
        });
        let ended = ended_badly(&entries);
        self.inner.append(entries)?;
        (self.ended)(&ended);
        if let (Some(CallKind::New | CallKind::Resume), Some(record)) = (began, self.record()) {
            self.ui.tell(&Notice::Run {
                id: record.run.to_string(),
                resumed: began == Some(CallKind::Resume),
            });
        }
        for notice in &notices {
            self.ui.tell(notice);
        }
        let mut decisions = std::mem::take(&mut self.decisions);
        decisions.append(&mut self.consents.lock().unwrap_or_else(PoisonError::into_inner));
        if decisions.is_empty() {
            return Ok(());
        }
        self.inner
            .change(|record| record.decisions.extend(decisions))
            .map_err(|error| LedgerError::new("a decision could not be stored", error))
    }
}

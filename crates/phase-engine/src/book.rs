//! A ledger with the history that follows it, and the ends that a walk can come to.

use crate::{
    CallKind, Entry, ExitCode, Failure, History, Ledger, LedgerError, PhaseFailure, RunStatus,
    Sequence, StepEvent, StepId, merge,
};

/// How a call ended.
#[derive(Debug)]
pub struct Ended {
    /// The status of the run that was stored; nothing where nothing was, or could be, stored.
    pub status: Option<RunStatus>,
    /// What the process ends with.
    pub exit: ExitCode,
    /// Why, where it did not end well.
    pub failures: Vec<PhaseFailure>,
    /// Verified steps whose definitions have changed: pending for the next `up`.
    pub pending: Vec<StepId>,
    /// The operator asked for teardown.
    pub tear_down: bool,
    /// The ledger write that stopped the run.
    pub ledger_error: Option<LedgerError>,
}

/// Why a walk can't go on at all.
pub(crate) enum Halt {
    /// The ledger can't be written.
    Ledger(LedgerError),
    /// The call ends so.
    End(Box<End>),
}

/// How a walk ends.
pub(crate) struct End {
    pub(crate) status: RunStatus,
    pub(crate) exit: ExitCode,
    pub(crate) failures: Vec<PhaseFailure>,
    pub(crate) tear_down: bool,
}

impl From<LedgerError> for Halt {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl Halt {
    pub(crate) fn end(status: RunStatus, exit: ExitCode) -> Self {
        Self::End(Box::new(End {
            status,
            exit,
            failures: Vec::new(),
            tear_down: false,
        }))
    }
}

/// A ledger and the history that follows it.
pub(crate) struct Book<'a, D, L: Ledger<D>> {
    pub(crate) history: History,
    sequence: &'a Sequence,
    ledger: &'a mut L,
    kind: CallKind,
    /// The call's own beginning is stored.
    pub(crate) begun: bool,
    /// What goes in front of the next write.
    held: Vec<Entry<D>>,
}

impl<'a, D, L: Ledger<D>> Book<'a, D, L> {
    pub(crate) fn new(
        history: History,
        sequence: &'a Sequence,
        ledger: &'a mut L,
        kind: CallKind,
    ) -> Self {
        Self {
            history,
            sequence,
            ledger,
            kind,
            begun: false,
            held: Vec::new(),
        }
    }

    /// Stores entries in one write, those that are held in front; the call's beginning goes in front of the first.
    pub(crate) fn append(&mut self, mut entries: Vec<Entry<D>>) -> Result<(), LedgerError> {
        if !self.begun {
            entries.insert(0, Entry::CallBegan { kind: self.kind });
        }
        let history = self.history_after(&entries)?;
        entries.splice(0..0, std::mem::take(&mut self.held));
        self.ledger.append(entries)?;
        self.history = history;
        self.begun = true;
        Ok(())
    }

    /// Leaves entries to the next write, which spares one.
    ///
    /// Only for what ended well, with nothing but decisions before that write: a kill in between costs no more than
    /// one right before the entries would have.
    pub(crate) fn hold(&mut self, entries: Vec<Entry<D>>) -> Result<(), LedgerError> {
        if !self.begun {
            return self.append(entries);
        }
        self.history = self.history_after(&entries)?;
        self.held.extend(entries);
        Ok(())
    }

    fn history_after(&self, entries: &[Entry<D>]) -> Result<History, LedgerError> {
        let mut history = self.history.clone();
        for entry in entries {
            history
                .absorb(entry, self.sequence)
                .map_err(|illegal| LedgerError::new("cannot store an event of a step", illegal))?;
        }
        Ok(history)
    }

    /// Stores one event of a step.
    pub(crate) fn step(
        &mut self,
        step: &StepId,
        event: StepEvent,
        detail: Option<D>,
        failure: Option<Failure>,
    ) -> Result<(), LedgerError> {
        self.append(vec![Entry::step(step, event, detail, failure)])
    }

    /// Stores the end of the call, where anything of it was stored, and gives it.
    pub(crate) fn close(&mut self, halt: Halt, pending: Vec<StepId>) -> Ended {
        let end = match halt {
            Halt::Ledger(error) => return lost(error, pending),
            Halt::End(end) => *end,
        };
        let mut status = None;
        if self.begun {
            let entry = Entry::CallEnded {
                status: end.status,
                exit: end.exit,
                failures: end.failures.clone(),
            };
            if let Err(error) = self.append(vec![entry]) {
                let mut ended = lost(error, pending);
                ended.failures.splice(0..0, end.failures);
                return ended;
            }
            status = Some(end.status);
        }
        Ended {
            status,
            exit: end.exit,
            failures: end.failures,
            pending,
            tear_down: end.tear_down,
            ledger_error: None,
        }
    }
}

/// The end of a call whose ledger can't be written.
fn lost(error: LedgerError, pending: Vec<StepId>) -> Ended {
    let failure = Failure::of(ExitCode::Failed, &error).hint(
        "nothing more was begun; when the store can be written, `up --resume` or `down` goes on",
    );
    Ended {
        status: None,
        exit: ExitCode::Failed,
        failures: vec![PhaseFailure {
            phase: None,
            step: None,
            failure,
        }],
        pending,
        tear_down: false,
        ledger_error: Some(error),
    }
}

/// Gives the status and the exit code that failures lead to.
pub(crate) fn verdict(failures: &[PhaseFailure], failed: RunStatus) -> (RunStatus, ExitCode) {
    let exit = merge(failures.iter().map(|failure| failure.failure.exit));
    let status = if exit == ExitCode::Interrupted {
        RunStatus::Interrupted
    } else {
        failed
    };
    (status, exit)
}

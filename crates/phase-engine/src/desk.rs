//! What the driving thread does while steps are at work: it stores, and it decides what may begin.

use std::num::NonZeroUsize;

use crate::book::Book;
use crate::crew::{self, Desk, Job, Line, Panicked};
use crate::{
    ApplyHow, Basis, Entry, ExitCode, Failure, Ledger, LedgerError, NotStored, Notes, Operator,
    Phase, PhaseFailure, PhaseId, Preparation, StepEvent, StepHistory, StepId, StepResult,
    StepStatus, Stop, TeardownResult, World,
};

/// What a worker asks the desk for.
enum Question<D> {
    /// May this step's apply begin? Stores that it does.
    Begin { definition: String, detail: D },
    /// Stores a note.
    Note(D),
}

/// A worker's notes to the ledger.
struct LineNotes<'a, D, R>(&'a Line<Question<D>, R>);

impl<D, R> Notes<D> for LineNotes<'_, D, R> {
    fn note(&self, detail: D) -> Result<(), NotStored> {
        if self.0.ask(Question::Note(detail)) {
            Ok(())
        } else {
            Err(NotStored)
        }
    }
}

/// What came of the work on a phase's steps.
#[derive(Default)]
pub(crate) struct Told {
    /// What did not end well.
    pub(crate) failures: Vec<PhaseFailure>,
    /// A stop was asked for before everything had begun.
    pub(crate) cut_short: bool,
    /// The ledger write that failed.
    pub(crate) halt: Option<LedgerError>,
}

impl Told {
    /// Takes the answer of the ledger; says whether it was stored.
    fn stored(&mut self, result: Result<(), LedgerError>) -> bool {
        match result {
            Ok(()) => true,
            Err(error) => {
                self.halt.get_or_insert(error);
                false
            }
        }
    }

    fn failed(&mut self, step: &StepId, failure: Failure) {
        self.failures.push(PhaseFailure {
            phase: Some(step.phase.clone()),
            step: Some(step.clone()),
            failure,
        });
    }
}

/// A fault of the program in a step; what the step left is not known, so it counts as cut.
fn panicked(step: &StepId) -> Failure {
    Failure::failed(format!("step `{step}`: the program itself failed"))
        .because("this is a fault of rebuild, not of your platform")
        .hint("the step counts as cut: `up --resume` or `down` goes on from there")
}

/// What a worker made of a step that is to be applied.
enum Applied<D> {
    /// It ended well from the same definitions, so it was left alone.
    Kept,
    /// It could not begin.
    NotReady(Failure),
    /// The desk did not let it begin.
    NotBegun,
    /// It was cut, and nothing is left to do.
    AlreadyDone { definition: String, detail: D },
    /// It was applied.
    Ended(StepResult<D>),
}

/// Applies one step, on a worker's thread.
fn apply_one<W: World>(
    world: &W,
    step: &StepId,
    history: Option<&StepHistory>,
    line: &Line<Question<W::Detail>, Applied<W::Detail>>,
) -> Applied<W::Detail> {
    let definition = match world.definition(step) {
        Ok(definition) => definition,
        Err(failure) => return Applied::NotReady(failure),
    };
    let status = history.map_or(StepStatus::Pending, |history| history.status);
    let same = history.is_some_and(|history| history.definition.as_ref() == Some(&definition));
    let how = match status {
        StepStatus::Succeeded | StepStatus::Verified if same => return Applied::Kept,
        StepStatus::Started => ApplyHow::AfterCut {
            same_definition: same,
        },
        StepStatus::Failed | StepStatus::Interrupted | StepStatus::VerifyFailed => {
            ApplyHow::AfterFailure
        }
        _ => ApplyHow::Fresh,
    };
    match world.prepare(step, how, &LineNotes(line)) {
        Preparation::NotReady(failure) => Applied::NotReady(failure),
        Preparation::AlreadyDone { detail } => Applied::AlreadyDone { definition, detail },
        Preparation::Ready { plan, detail } => {
            if !line.ask(Question::Begin { definition, detail }) {
                return Applied::NotBegun;
            }
            Applied::Ended(world.apply(step, plan, &LineNotes(line)))
        }
    }
}

/// Stores for the steps of a phase that is applied.
struct ApplyDesk<'a, 'b, D, L: Ledger<D>, O> {
    phase: &'a PhaseId,
    book: &'a mut Book<'b, D, L>,
    operator: &'a O,
    /// The phase's own beginning is stored.
    applying: bool,
    /// The steps that have not come to their end.
    n_left: usize,
    /// The end of the last step may wait for the next write.
    may_hold: bool,
    told: Told,
}

impl<D, L: Ledger<D>, O: Operator> ApplyDesk<'_, '_, D, L, O> {
    /// Stores entries that begin or end an apply, the phase's own beginning in front.
    fn append(&mut self, entries: Vec<Entry<D>>) -> bool {
        let entries = self.begun_with(entries);
        let stored = self.told.stored(self.book.append(entries));
        self.applying |= stored;
        stored
    }

    /// [`append`](Self::append) of a step's good end: the last one of a phase waits for the write that the phase's verify
    /// begins with right after it.
    fn append_at_end(&mut self, entries: Vec<Entry<D>>) -> bool {
        if !self.may_hold || self.n_left > 0 || !self.told.failures.is_empty() {
            return self.append(entries);
        }
        let entries = self.begun_with(entries);
        let stored = self.told.stored(self.book.hold(entries));
        self.applying |= stored;
        stored
    }

    fn begun_with(&self, mut entries: Vec<Entry<D>>) -> Vec<Entry<D>> {
        if !self.applying {
            let phase = self.phase.clone();
            entries.insert(0, Entry::PhaseApplying { phase });
        }
        entries
    }

    fn started(step: &StepId, definition: String, detail: D) -> Entry<D> {
        Entry::Step {
            step: step.clone(),
            event: StepEvent::Started,
            definition: Some(definition),
            detail: Some(detail),
            failure: None,
        }
    }
}

impl<D, L: Ledger<D>, O: Operator> Desk<Question<D>, Applied<D>> for ApplyDesk<'_, '_, D, L, O> {
    fn may_begin(&mut self) -> bool {
        if self.told.halt.is_some() || !self.told.failures.is_empty() {
            return false;
        }
        let stop = self.operator.stop() == Stop::Gentle;
        self.told.cut_short |= stop;
        !stop
    }

    fn ask(&mut self, step: &StepId, question: Question<D>) -> bool {
        match question {
            Question::Begin { definition, detail } => {
                self.may_begin() && self.append(vec![Self::started(step, definition, detail)])
            }
            Question::Note(detail) => {
                self.told.halt.is_none()
                    && self.told.stored(self.book.append(vec![Entry::Note {
                        step: step.clone(),
                        detail,
                    }]))
            }
        }
    }

    fn done(&mut self, step: &StepId, result: Result<Applied<D>, Panicked>) -> bool {
        self.n_left -= 1;
        match result {
            Ok(Applied::Kept) => true,
            Ok(Applied::NotBegun) => false,
            Ok(Applied::NotReady(failure)) => {
                self.told.failed(step, failure);
                false
            }
            Err(Panicked) => {
                self.told.failed(step, panicked(step));
                false
            }
            Ok(Applied::AlreadyDone { definition, detail }) => {
                if self.told.halt.is_some() {
                    return false;
                }
                // One that was cut from these very definitions needs its end only.
                let cut = self.book.history.status_of(step) == StepStatus::Started;
                let same = self.book.history.definition_of(step) == Some(definition.as_str());
                self.append_at_end(if cut && same {
                    vec![Entry::step(step, StepEvent::Succeeded, Some(detail), None)]
                } else {
                    vec![
                        Self::started(step, definition, detail),
                        Entry::step(step, StepEvent::Succeeded, None, None),
                    ]
                })
            }
            Ok(Applied::Ended(StepResult { end, detail })) => {
                if self.told.halt.is_some() {
                    return false;
                }
                match end {
                    Ok(()) => {
                        let entry = Entry::step(step, StepEvent::Succeeded, detail, None);
                        self.append_at_end(vec![entry])
                    }
                    Err(failure) => {
                        let event = if failure.is_interrupt() {
                            StepEvent::Interrupted
                        } else {
                            StepEvent::Failed
                        };
                        let entry = Entry::step(step, event, detail, Some(failure.clone()));
                        self.append(vec![entry]);
                        self.told.failed(step, failure);
                        false
                    }
                }
            }
        }
    }
}

/// Applies the steps of a phase that need it.
pub(crate) fn apply_steps<W: World, L: Ledger<W::Detail>, O: Operator>(
    phase: &Phase,
    limit: NonZeroUsize,
    world: &W,
    book: &mut Book<'_, W::Detail, L>,
    operator: &O,
) -> Told {
    let jobs: Vec<Job> = phase
        .steps
        .iter()
        .map(|step| Job {
            step: step.id.clone(),
            waits_for: phase.waits_for(&step.id),
        })
        .collect();
    let before = book.history.steps.clone();
    let mut desk = ApplyDesk {
        phase: &phase.id,
        book,
        operator,
        applying: false,
        n_left: jobs.len(),
        may_hold: !phase.provides_state,
        told: Told::default(),
    };
    crew::work(
        &jobs,
        limit,
        &|step, line| apply_one(world, step, before.get(step), line),
        &mut desk,
    );
    desk.told
}

/// Stores for the steps of a phase that is verified.
struct VerifyDesk<'a, 'b, D, L: Ledger<D>, O> {
    basis: Basis,
    /// The steps that have not come to their end.
    n_left: usize,
    /// The end of the last step may wait for the next write.
    may_hold: bool,
    book: &'a mut Book<'b, D, L>,
    operator: &'a O,
    told: Told,
}

impl<D, L: Ledger<D>, O: Operator> Desk<D, StepResult<D>> for VerifyDesk<'_, '_, D, L, O> {
    fn may_begin(&mut self) -> bool {
        // What stands is looked at as a whole; after an apply the first fault is enough.
        let faulty = self.basis == Basis::JustApplied && !self.told.failures.is_empty();
        if self.told.halt.is_some() || faulty {
            return false;
        }
        let stop = self.operator.stop() == Stop::Gentle;
        self.told.cut_short |= stop;
        !stop
    }

    fn ask(&mut self, step: &StepId, detail: D) -> bool {
        self.told.halt.is_none()
            && self.told.stored(self.book.append(vec![Entry::Note {
                step: step.clone(),
                detail,
            }]))
    }

    fn done(&mut self, step: &StepId, result: Result<StepResult<D>, Panicked>) -> bool {
        self.n_left -= 1;
        let Ok(StepResult { end, detail }) = result else {
            self.told.failed(step, panicked(step));
            return false;
        };
        if self.told.halt.is_some() {
            return false;
        }
        match end {
            Ok(()) => {
                let entry = Entry::step(step, StepEvent::Verified, detail, None);
                // That the phase is verified is written right after it.
                let holds = self.may_hold && self.n_left == 0 && self.told.failures.is_empty();
                self.told.stored(if holds {
                    self.book.hold(vec![entry])
                } else {
                    self.book.append(vec![entry])
                })
            }
            Err(failure) => {
                // What a signal ended has no verdict, and a phase that was verified stays so.
                if self.basis == Basis::JustApplied && !failure.is_interrupt() {
                    let kept = Some(failure.clone());
                    let entry = Entry::step(step, StepEvent::VerifyFailed, detail, kept);
                    self.told.stored(self.book.append(vec![entry]));
                }
                self.told.failed(step, failure);
                false
            }
        }
    }
}

/// A worker's notes while it verifies or tears down.
struct PlainNotes<'a, D, R>(&'a Line<D, R>);

impl<D, R> Notes<D> for PlainNotes<'_, D, R> {
    fn note(&self, detail: D) -> Result<(), NotStored> {
        if self.0.ask(detail) {
            Ok(())
        } else {
            Err(NotStored)
        }
    }
}

/// Verifies every step of a phase.
pub(crate) fn verify_steps<W: World, L: Ledger<W::Detail>, O: Operator>(
    phase: &Phase,
    basis: Basis,
    limit: NonZeroUsize,
    world: &W,
    book: &mut Book<'_, W::Detail, L>,
    operator: &O,
) -> Told {
    let mut told = Told::default();
    for step in &phase.steps {
        // A `repair` of a verified phase began it and did not come to its end.
        let status = book.history.status_of(&step.id);
        if basis == Basis::Standing && status.after(StepEvent::Verified).is_err() {
            let what = format!("step `{}` of a verified phase is `{status}`", step.id);
            let hint = format!("`rebuild repair {}`", step.id.phase);
            told.failed(&step.id, Failure::new(ExitCode::Stopped, what).hint(hint));
        }
    }
    let jobs: Vec<Job> = phase
        .steps
        .iter()
        .filter(|step| {
            told.failures
                .iter()
                .all(|failure| failure.step.as_ref() != Some(&step.id))
        })
        .map(|step| Job {
            step: step.id.clone(),
            waits_for: Default::default(),
        })
        .collect();
    let mut desk = VerifyDesk {
        basis,
        n_left: jobs.len(),
        may_hold: !world.has_checks(&phase.id, basis),
        book,
        operator,
        told,
    };
    crew::work(
        &jobs,
        limit,
        &|step, line| world.verify(step, basis, &PlainNotes(line)),
        &mut desk,
    );
    desk.told
}

/// Stores the notes of a step that is torn down.
struct TeardownDesk<'a, 'b, D, L: Ledger<D>> {
    book: &'a mut Book<'b, D, L>,
    result: Option<TeardownResult<D>>,
    halt: Option<LedgerError>,
}

impl<D, L: Ledger<D>> Desk<D, TeardownResult<D>> for TeardownDesk<'_, '_, D, L> {
    fn may_begin(&mut self) -> bool {
        true
    }

    fn ask(&mut self, step: &StepId, detail: D) -> bool {
        if self.halt.is_some() {
            return false;
        }
        match self.book.append(vec![Entry::Note {
            step: step.clone(),
            detail,
        }]) {
            Ok(()) => true,
            Err(error) => {
                self.halt = Some(error);
                false
            }
        }
    }

    fn done(&mut self, step: &StepId, result: Result<TeardownResult<D>, Panicked>) -> bool {
        self.result = Some(result.unwrap_or_else(|Panicked| TeardownResult::Failed {
            failure: panicked(step),
            detail: None,
        }));
        true
    }
}

/// Tears one step down, whose beginning is stored.
pub(crate) fn teardown_step<W: World, L: Ledger<W::Detail>>(
    step: &StepId,
    world: &W,
    book: &mut Book<'_, W::Detail, L>,
) -> Result<TeardownResult<W::Detail>, LedgerError> {
    let jobs = [Job {
        step: step.clone(),
        waits_for: Default::default(),
    }];
    let mut desk = TeardownDesk {
        book,
        result: None,
        halt: None,
    };
    crew::work(
        &jobs,
        NonZeroUsize::MIN,
        &|step, line| world.teardown(step, &PlainNotes(line)),
        &mut desk,
    );
    match (desk.halt, desk.result) {
        (Some(error), _) => Err(error),
        (None, Some(result)) => Ok(result),
        (None, None) => Ok(TeardownResult::Failed {
            failure: panicked(step),
            detail: None,
        }),
    }
}

//! `up`: walks the phases forward, from nothing or from where the run stopped.

use std::num::NonZeroUsize;

use crate::book::{Book, End, Halt, verdict};
use crate::desk::{Told, apply_steps, teardown_step, verify_steps};
use crate::{
    AfterFailure, Answer, Basis, CallKind, Change, Difference, Ended, Entry, ExitCode, Failure,
    History, Ledger, Operator, Part, Phase, PhaseFailure, PhaseId, PhaseSummary, ResidueResult,
    RunStatus, Sequence, StepEvent, StepId, Stop, Subject, TeardownResult, World, differences,
    not_reached, removed,
};

/// A removed step that is torn down in the course of an `up`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune {
    /// The step, which stands and is defined no more.
    pub step: StepId,
    /// The last phase that referred to it; without one it goes before everything.
    pub after: Option<PhaseId>,
}

/// What was asked of an `up`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Ends the call when this phase is verified.
    pub through: Option<PhaseId>,
    /// Ends the call at the next checkpoint.
    pub pause: bool,
    /// A person is at the terminal and may be asked.
    pub interactive: bool,
    /// How many steps of a parallel phase are worked on at once.
    pub jobs: NonZeroUsize,
    /// The removed steps that this call may tear down.
    pub prune: Vec<Prune>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            through: None,
            pause: false,
            interactive: false,
            jobs: NonZeroUsize::new(8).unwrap_or(NonZeroUsize::MIN),
            prune: Vec::new(),
        }
    }
}

/// Walks the phases forward.
///
/// With [`CallKind::New`], `history` is [`History::of_new_run`] and every phase is applied; with
/// [`CallKind::Resume`] it is what the ledger says, and the phases that it says are verified are
/// verified again and not applied. Until the first apply begins, nothing is stored.
pub fn up<W, L, O>(
    kind: CallKind,
    sequence: &Sequence,
    history: History,
    options: &Options,
    world: &W,
    ledger: &mut L,
    operator: &mut O,
) -> Ended
where
    W: World,
    L: Ledger<W::Detail>,
    O: Operator,
{
    if let Some(refusal) = refused(kind, sequence, &history, options) {
        return Ended {
            status: None,
            exit: refusal.exit,
            failures: vec![PhaseFailure {
                phase: None,
                step: None,
                failure: refusal,
            }],
            pending: Vec::new(),
            tear_down: false,
            ledger_error: None,
        };
    }
    let book = Book::new(history, sequence, ledger, kind);
    let mut walk = Walk {
        book,
        sequence,
        options,
        world,
        operator,
        pending: Vec::new(),
    };
    let halt = walk.walk(kind).unwrap_or_else(|halt| halt);
    let pending = std::mem::take(&mut walk.pending);
    let mut ended = walk.book.close(halt, pending);
    let may_ask = options.interactive
        && ended.status == Some(RunStatus::Failed)
        && ended.exit == ExitCode::Failed
        && walk.operator.stop() == Stop::None;
    if may_ask && walk.operator.failed(&ended.failures) == AfterFailure::TearDown {
        ended.tear_down = true;
    }
    ended
}

/// Says, before anything is touched, why the walk may not begin; nothing where it may.
pub fn refused(
    kind: CallKind,
    sequence: &Sequence,
    history: &History,
    options: &Options,
) -> Option<Failure> {
    if let Some(through) = &options.through
        && sequence.phase(through).is_none()
    {
        return Some(Failure::new(
            ExitCode::Unusable,
            format!("`--through {through}` names no phase of this platform"),
        ));
    }
    let mut found = if kind == CallKind::Resume {
        differences(&history.verified, sequence)
    } else {
        Vec::new()
    };
    for step in removed(&history.standing, sequence) {
        let difference = Difference {
            subject: Subject::Step(step),
            change: Change::Gone,
        };
        let pruned = |prune: &Prune| Subject::Step(prune.step.clone()) == difference.subject;
        if !found.contains(&difference) && !options.prune.iter().any(pruned) {
            found.push(difference);
        }
    }
    if found.is_empty() {
        return None;
    }
    let what = match kind {
        CallKind::Resume => "the definitions changed in what this run has behind it",
        _ => "steps stand that the definitions do not hold any more",
    };
    let mut failure = Failure::new(ExitCode::Stopped, what);
    failure.causes = found.iter().map(ToString::to_string).collect();
    Some(failure)
}

struct Walk<'a, W: World, L: Ledger<W::Detail>, O> {
    book: Book<'a, W::Detail, L>,
    sequence: &'a Sequence,
    options: &'a Options,
    world: &'a W,
    operator: &'a mut O,
    pending: Vec<StepId>,
}

impl<W: World, L: Ledger<W::Detail>, O: Operator> Walk<'_, W, L, O> {
    /// Walks to the end, which is a [`Halt`] as well.
    fn walk(&mut self, kind: CallKind) -> Result<Halt, Halt> {
        if kind == CallKind::Resume {
            self.book.append(Vec::new())?;
            self.reverify()?;
            self.preflight()?;
            self.prove_pruned(None)?;
        }
        self.prune(None)?;
        let sequence = self.sequence;
        for (index, phase) in sequence.phases().iter().enumerate() {
            if !self.book.history.is_verified(&phase.id) {
                self.begin(Stop::AfterPhase)?;
                self.apply(phase)?;
                self.verify(phase)?;
                self.prune(Some(&phase.id))?;
                self.checkpoint(index)?;
            } else {
                self.prune(Some(&phase.id))?;
            }
        }
        let exit = match self.operator.stop() {
            Stop::None => ExitCode::Done,
            Stop::AfterPhase | Stop::Gentle => ExitCode::Interrupted,
        };
        Ok(Halt::end(RunStatus::Finished, exit))
    }

    /// Ends the call where a stop of at least `from` was asked for.
    fn begin(&self, from: Stop) -> Result<(), Halt> {
        match self.operator.stop() {
            stop if stop < from || stop == Stop::None => Ok(()),
            Stop::AfterPhase => Err(Halt::end(RunStatus::Paused, ExitCode::Interrupted)),
            _ => Err(Halt::end(RunStatus::Interrupted, ExitCode::Interrupted)),
        }
    }

    /// Stores that a phase stopped, and ends the call.
    fn stopped(&mut self, phase: &PhaseId, part: Part, failures: Vec<PhaseFailure>) -> Halt {
        let (status, mut exit) = verdict(&failures, RunStatus::Failed);
        if part == Part::Reverify && exit != ExitCode::Interrupted {
            exit = ExitCode::Stopped;
        }
        // Before the first apply, nothing is left behind, not even this.
        if self.book.begun {
            let failures = failures.clone();
            let entry = Entry::PhaseStopped {
                phase: phase.clone(),
                part,
                failures,
            };
            if let Err(error) = self.book.append(vec![entry]) {
                return Halt::Ledger(error);
            }
        }
        Halt::End(Box::new(End {
            status,
            exit,
            failures,
            tear_down: false,
        }))
    }

    /// Verifies again, from what stands, each phase that the run has verified, and applies none.
    fn reverify(&mut self) -> Result<(), Halt> {
        let sequence = self.sequence;
        let verified = |phase: &&Phase| self.book.history.is_verified(&phase.id);
        let phases: Vec<&Phase> = sequence.phases().iter().filter(verified).collect();
        for phase in phases {
            self.begin(Stop::AfterPhase)?;
            self.prove(phase, Basis::Standing)?;
            for step in &phase.steps {
                let today = self.world.definition(&step.id).ok();
                if today.as_deref() != self.book.history.definition_of(&step.id) {
                    self.pending.push(step.id.clone());
                }
            }
            if self.options.through.as_ref() == Some(&phase.id) {
                self.begin(Stop::AfterPhase)?;
                let all = sequence
                    .phases()
                    .iter()
                    .all(|p| self.book.history.is_verified(&p.id));
                if !all {
                    return Err(Halt::end(RunStatus::Paused, ExitCode::Done));
                }
            }
        }
        Ok(())
    }

    /// Preflights the phases that stand from earlier runs and are not reached yet.
    fn preflight(&mut self) -> Result<(), Halt> {
        let phases = not_reached(&self.book.history, self.sequence);
        if phases.is_empty() {
            return Ok(());
        }
        self.begin(Stop::AfterPhase)?;
        self.world.preflight(&phases).map_err(|failure| {
            let failures = vec![PhaseFailure {
                phase: None,
                step: None,
                failure,
            }];
            let (status, exit) = verdict(&failures, RunStatus::Failed);
            Halt::End(Box::new(End {
                status,
                exit,
                failures,
                tear_down: false,
            }))
        })
    }

    /// Applies the steps of a phase that need it.
    fn apply(&mut self, phase: &Phase) -> Result<(), Halt> {
        let limit = if phase.parallel {
            self.options.jobs
        } else {
            NonZeroUsize::MIN
        };
        let told = apply_steps(phase, limit, self.world, &mut self.book, self.operator);
        self.settle(phase, Part::Apply, told)?;
        if phase.provides_state {
            self.begin(Stop::Gentle)?;
            if let Err(failure) = self.world.store_made(&phase.id) {
                let failures = vec![PhaseFailure {
                    phase: Some(phase.id.clone()),
                    step: None,
                    failure,
                }];
                return Err(self.stopped(&phase.id, Part::Apply, failures));
            }
        }
        Ok(())
    }

    /// Verifies a phase that was applied just now.
    fn verify(&mut self, phase: &Phase) -> Result<(), Halt> {
        self.prove(phase, Basis::JustApplied)
    }

    /// Verifies each step of a phase, then runs its checks.
    fn prove(&mut self, phase: &Phase, basis: Basis) -> Result<(), Halt> {
        self.begin(Stop::Gentle)?;
        let part = match basis {
            Basis::JustApplied => Part::Verify,
            Basis::Standing => Part::Reverify,
        };
        self.book.append(vec![Entry::PhaseVerifying {
            phase: phase.id.clone(),
            basis,
        }])?;
        let limit = if phase.parallel {
            self.options.jobs
        } else {
            NonZeroUsize::MIN
        };
        let mut told = verify_steps(
            phase,
            basis,
            limit,
            self.world,
            &mut self.book,
            self.operator,
        );
        // What stands is looked at as a whole; what was applied just now stops at the first fault.
        let look_on = told.failures.is_empty()
            || (basis == Basis::Standing
                && told.failures.iter().all(|f| !f.failure.is_interrupt()));
        if look_on && told.halt.is_none() && !told.cut_short {
            self.begin(Stop::Gentle)?;
            if let Err(failure) = self.world.check(&phase.id, basis) {
                let phase = Some(phase.id.clone());
                told.failures.push(PhaseFailure {
                    phase,
                    step: None,
                    failure,
                });
            }
        }
        self.settle(phase, part, told)?;
        let steps = phase.step_ids();
        self.book.append(vec![Entry::PhaseVerified {
            phase: phase.id.clone(),
            basis,
            steps,
        }])?;
        Ok(())
    }

    /// Goes on where the crew did all of its work, else ends the call.
    fn settle(&mut self, phase: &Phase, part: Part, told: Told) -> Result<(), Halt> {
        if let Some(error) = told.halt {
            return Err(Halt::Ledger(error));
        }
        if !told.failures.is_empty() {
            return Err(self.stopped(&phase.id, part, told.failures));
        }
        if told.cut_short {
            return Err(Halt::end(RunStatus::Interrupted, ExitCode::Interrupted));
        }
        Ok(())
    }

    /// Shows what a phase made and decides whether the call goes on.
    fn checkpoint(&mut self, index: usize) -> Result<(), Halt> {
        let phases = self.sequence.phases();
        let phase = &phases[index].id;
        let next = phases.get(index + 1).map(|next| next.id.clone());
        let summary = PhaseSummary {
            phase: phase.clone(),
            n_verified: self.book.history.verified.len(),
            n_phases: phases.len(),
            next,
        };
        self.operator.summary(&summary);
        if summary.next.is_none() {
            return Ok(());
        }
        self.begin(Stop::AfterPhase)?;
        if self.options.through.as_ref() == Some(phase) || self.options.pause {
            return Err(Halt::end(RunStatus::Paused, ExitCode::Done));
        }
        if !self.options.interactive {
            return Ok(());
        }
        let answer = self.operator.checkpoint(&summary);
        self.book.append(vec![Entry::Checkpoint {
            phase: phase.clone(),
            answer,
        }])?;
        self.begin(Stop::AfterPhase)?;
        match answer {
            Answer::Continue => Ok(()),
            Answer::Pause => Err(Halt::end(RunStatus::Paused, ExitCode::Done)),
            Answer::TearDown => Err(Halt::End(Box::new(End {
                status: RunStatus::Paused,
                exit: ExitCode::Done,
                failures: Vec::new(),
                tear_down: true,
            }))),
        }
    }

    /// Tears down the removed steps that are due, the last applied first.
    fn prune(&mut self, after: Option<&PhaseId>) -> Result<(), Halt> {
        let due = |step: &&StepId| {
            self.options
                .prune
                .iter()
                .any(|prune| prune.step == **step && prune.after.as_ref() == after)
        };
        let standing = &self.book.history.standing;
        let due: Vec<StepId> = standing.iter().rev().filter(due).cloned().collect();
        for step in due {
            self.begin(Stop::Gentle)?;
            self.prune_step(&step)?;
        }
        Ok(())
    }

    fn prune_step(&mut self, step: &StepId) -> Result<(), Halt> {
        let mut entries = Vec::new();
        if self.sequence.phase(&step.phase).is_none() {
            // The whole phase goes, and is proven gone once its last step is.
            entries.push(Entry::PhaseTearingDown {
                phase: step.phase.clone(),
            });
        }
        entries.push(Entry::step(step, StepEvent::TeardownStarted, None, None));
        self.book.append(entries)?;
        match teardown_step(step, self.world, &mut self.book)? {
            TeardownResult::Gone { detail } => {
                self.book.step(step, StepEvent::TornDown, detail, None)?;
            }
            TeardownResult::Empty => self.book.step(step, StepEvent::TornDown, None, None)?,
            TeardownResult::Failed { failure, detail } => {
                let kept = Some(failure.clone());
                self.book
                    .step(step, StepEvent::TeardownFailed, detail, kept)?;
                return Err(self.prune_failed(&step.phase, Some(step.clone()), failure));
            }
        }
        self.prove_pruned(Some(&step.phase))
    }

    /// Proves gone the phases that were pruned and of which nothing stands any more, those that
    /// an earlier call of this run could not prove included.
    fn prove_pruned(&mut self, only: Option<&PhaseId>) -> Result<(), Halt> {
        for phase in self.book.history.unproven.clone() {
            let stands = self
                .book
                .history
                .standing
                .iter()
                .any(|step| step.phase == phase);
            if stands || only.is_some_and(|only| *only != phase) {
                continue;
            }
            self.begin(Stop::Gentle)?;
            match self.world.residue(&phase, &[]) {
                ResidueResult::Clean => {
                    self.book.append(vec![Entry::PhaseGone {
                        phase,
                        warnings: Vec::new(),
                    }])?;
                }
                ResidueResult::Left(failure) | ResidueResult::Unprovable(failure) => {
                    return Err(self.prune_failed(&phase, None, failure));
                }
            }
        }
        Ok(())
    }

    fn prune_failed(&mut self, phase: &PhaseId, step: Option<StepId>, failure: Failure) -> Halt {
        // Of a phase that stays, only a step was to go.
        if self.book.history.unproven.contains(phase) {
            let failure = failure.clone();
            let entry = Entry::PhaseTeardownFailed {
                phase: phase.clone(),
                failure,
            };
            if let Err(error) = self.book.append(vec![entry]) {
                return Halt::Ledger(error);
            }
        }
        let failures = vec![PhaseFailure {
            phase: Some(phase.clone()),
            step,
            failure,
        }];
        let (status, exit) = verdict(&failures, RunStatus::Failed);
        Halt::End(Box::new(End {
            status,
            exit,
            failures,
            tear_down: false,
        }))
    }
}

//! `down`: walks what stands backward, and proves each phase gone.

use std::collections::BTreeSet;

use crate::book::{Book, End, Halt, verdict};
use crate::desk::teardown_step;
use crate::{
    CallKind, Ended, Entry, ExitCode, Failure, Forgetting, History, Ledger, Operator, PhaseFailure,
    PhaseId, ResidueResult, RunStatus, Sequence, StepEvent, StepId, StepStatus, Stop,
    TeardownResult, World,
};

/// A step that is to be torn down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeardownStep {
    /// The step.
    pub id: StepId,
    /// The step inside whose things it lives.
    pub contained_in: Option<StepId>,
}

/// What there is to tear down.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Teardown {
    /// Every step that stands, in order of application.
    pub standing: Vec<TeardownStep>,
    /// Steps with a state that nothing stands for, in the order in which they are torn down.
    pub unknown: Vec<TeardownStep>,
    /// Phases that an earlier call tore down and could not prove gone.
    pub unproven: Vec<PhaseId>,
    /// The phase that goes last whatever the order of application: the one that makes the store.
    pub last: Option<PhaseId>,
    /// Steps that are given up without a destroy (`down --forget`).
    pub forget: BTreeSet<StepId>,
    /// Steps that stay: they stand, and this call leaves them alone.
    pub staying: BTreeSet<StepId>,
}

/// One stage of the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage<'a> {
    /// Tear a step down, or forget it.
    Step(&'a TeardownStep),
    /// Prove a phase gone.
    Prove(&'a PhaseId),
    /// Everything but the last phase must be gone by now.
    BeforeLast(&'a PhaseId),
}

impl Teardown {
    /// Says whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.standing.is_empty() && self.unknown.is_empty() && self.unproven.is_empty()
    }

    /// Gives the steps in the order in which they are torn down, as `down --dry-run` lists them.
    pub fn order(&self) -> Vec<&TeardownStep> {
        let (last, others): (Vec<_>, Vec<_>) = self
            .standing
            .iter()
            .rev()
            .chain(&self.unknown)
            .partition(|step| Some(&step.id.phase) == self.last.as_ref());
        others.into_iter().chain(last).collect()
    }

    /// Reads off a history what stands and what is not proven gone.
    pub fn of(history: &History, contained_in: impl Fn(&StepId) -> Option<StepId>) -> Self {
        let standing = history.standing.iter().map(|step| TeardownStep {
            id: step.clone(),
            contained_in: contained_in(step),
        });
        Self {
            standing: standing.collect(),
            unproven: history.unproven.clone(),
            ..Self::default()
        }
    }

    /// Leaves nothing in the plan but one step, which is given up without a destroy. A phase of
    /// which something stays is not proven.
    pub fn narrowed_to_forget(mut self, step: &StepId) -> Self {
        let stays: Vec<TeardownStep> = self
            .standing
            .extract_if(.., |other| other.id != *step)
            .chain(self.unknown.extract_if(.., |other| other.id != *step))
            .collect();
        self.staying = stays.into_iter().map(|step| step.id).collect();
        self.unproven.retain(|phase| *phase == step.phase);
        self.forget = BTreeSet::from([step.clone()]);
        self
    }

    fn stays(&self, phase: &PhaseId) -> bool {
        self.staying.iter().any(|step| step.phase == *phase)
    }

    fn is_last(&self, phase: &PhaseId) -> bool {
        self.last.as_ref() == Some(phase)
    }

    /// Gives the walk, stage by stage.
    fn stages(&self) -> Vec<Stage<'_>> {
        let order = self.order();
        let is_bare = |phase: &&PhaseId| {
            !self.stays(phase) && order.iter().all(|step| step.id.phase != **phase)
        };
        // The phase whose teardown began last is proven first.
        let bare: Vec<&PhaseId> = self.unproven.iter().rev().filter(is_bare).collect();
        let mut stages: Vec<Stage<'_>> = bare
            .iter()
            .filter(|phase| !self.is_last(phase))
            .map(|phase| Stage::Prove(phase))
            .collect();
        let mut is_before_last = true;
        for (index, step) in order.iter().enumerate() {
            let phase = &step.id.phase;
            if is_before_last && self.is_last(phase) {
                is_before_last = false;
                stages.push(Stage::BeforeLast(phase));
            }
            stages.push(Stage::Step(step));
            let is_its_last = order[index + 1..]
                .iter()
                .all(|later| later.id.phase != *phase);
            if is_its_last && !self.stays(phase) {
                stages.push(Stage::Prove(phase));
            }
        }
        for phase in bare.into_iter().filter(|phase| self.is_last(phase)) {
            stages.push(Stage::BeforeLast(phase));
            stages.push(Stage::Prove(phase));
        }
        stages
    }

    fn holds(&self, step: &StepId) -> bool {
        self.standing
            .iter()
            .chain(&self.unknown)
            .any(|other| other.id == *step)
    }
}

/// Walks what stands backward.
///
/// `history` is what the ledger says of the run. A teardown that fails stops the walk; a step that
/// lives in another one's things is deferred then, and forgotten when those are proven gone.
pub fn down<W, L, O>(
    plan: &Teardown,
    history: History,
    world: &W,
    ledger: &mut L,
    operator: &O,
) -> Ended
where
    W: World,
    L: Ledger<W::Detail>,
    O: Operator,
{
    let sequence = Sequence::default();
    let book = Book::new(history, &sequence, ledger, CallKind::TearDown);
    let mut walk = Walk {
        book,
        plan,
        world,
        operator,
        at_hand: None,
        gone: BTreeSet::new(),
        proven: BTreeSet::new(),
        deferred: Vec::new(),
        postponed: Vec::new(),
    };
    let halt = walk.walk().unwrap_or_else(|halt| halt);
    walk.book.close(halt, Vec::new())
}

struct Walk<'a, W: World, L: Ledger<W::Detail>, O> {
    book: Book<'a, W::Detail, L>,
    plan: &'a Teardown,
    world: &'a W,
    operator: &'a O,
    /// The phase that the walk is in.
    at_hand: Option<PhaseId>,
    /// The steps that this walk tore down or forgot.
    gone: BTreeSet<StepId>,
    /// The phases that this walk proved gone.
    proven: BTreeSet<PhaseId>,
    /// Steps whose destroy failed and that wait for what they live in.
    deferred: Vec<TeardownStep>,
    /// Phases that can't be proven gone before what their deferred steps live in.
    postponed: Vec<PhaseId>,
}

impl<W: World, L: Ledger<W::Detail>, O: Operator> Walk<'_, W, L, O> {
    /// Walks to the end, which is a [`Halt`] as well.
    fn walk(&mut self) -> Result<Halt, Halt> {
        self.begin(None)?;
        if self.book.history.teardown_begun {
            self.book.append(Vec::new())?;
        } else {
            self.book.append(vec![Entry::TeardownBegan])?;
        }
        let plan = self.plan;
        let stages = plan.stages();
        for (index, stage) in stages.iter().enumerate() {
            match *stage {
                Stage::Step(step) => {
                    self.begin(Some(&step.id.phase))?;
                    let proof = matches!(stages.get(index + 1), Some(Stage::Prove(_)));
                    self.step(step, proof && !self.world.has_probes(&step.id.phase))?;
                }
                Stage::Prove(phase) => {
                    self.begin(Some(phase))?;
                    // The next step begins with a write right after it.
                    let step_next = matches!(stages.get(index + 1), Some(Stage::Step(_)));
                    self.prove(phase, step_next)?;
                }
                Stage::BeforeLast(phase) => {
                    self.begin(Some(phase))?;
                    self.before_last(phase)?;
                }
            }
        }
        self.release()?;
        let exit = match self.operator.stop() {
            Stop::None => ExitCode::Done,
            Stop::AfterPhase | Stop::Gentle => ExitCode::Interrupted,
        };
        // What stays is for another `down`.
        let status = if plan.staying.is_empty() {
            RunStatus::TornDown
        } else {
            RunStatus::Paused
        };
        Ok(Halt::end(status, exit))
    }

    /// Ends the call where a stop was asked for; [`Stop::AfterPhase`] lets the phase at hand end.
    fn begin(&mut self, phase: Option<&PhaseId>) -> Result<(), Halt> {
        let stops = match self.operator.stop() {
            Stop::None => false,
            Stop::AfterPhase => self.at_hand.is_none() || self.at_hand.as_ref() != phase,
            Stop::Gentle => true,
        };
        if stops {
            return Err(Halt::end(RunStatus::Interrupted, ExitCode::Interrupted));
        }
        self.at_hand = phase.cloned();
        Ok(())
    }

    /// Stores that a phase's teardown failed, and ends the call.
    fn failed(
        &mut self,
        phase: &PhaseId,
        step: Option<&StepId>,
        failure: Failure,
        mut entries: Vec<Entry<W::Detail>>,
    ) -> Halt {
        entries.push(Entry::PhaseTeardownFailed {
            phase: phase.clone(),
            failure: failure.clone(),
        });
        if let Err(error) = self.book.append(entries) {
            return Halt::Ledger(error);
        }
        let failures = vec![PhaseFailure {
            phase: Some(phase.clone()),
            step: step.cloned(),
            failure,
        }];
        let (status, exit) = verdict(&failures, RunStatus::TeardownFailed);
        Halt::End(Box::new(End {
            status,
            exit,
            failures,
            tear_down: false,
        }))
    }

    /// Tears one step down, forgets it, or defers it. `may_hold`: that it is gone may wait for the next write.
    fn step(&mut self, step: &TeardownStep, may_hold: bool) -> Result<(), Halt> {
        let id = &step.id;
        let mut entries = Vec::new();
        if !self.book.history.unproven.contains(&id.phase) {
            entries.push(Entry::PhaseTearingDown {
                phase: id.phase.clone(),
            });
        }
        entries.push(Entry::step(id, StepEvent::TeardownStarted, None, None));
        self.book.append(entries)?;
        if self.plan.forget.contains(id) {
            return self.forget(id, Forgetting::ByOperator);
        }
        let gone = match teardown_step(id, self.world, &mut self.book)? {
            TeardownResult::Gone { detail } => Ok(detail),
            TeardownResult::Empty => Ok(None),
            TeardownResult::Failed { failure, detail } => Err((failure, detail)),
        };
        let (failure, detail) = match gone {
            Ok(detail) => {
                let entry = Entry::step(id, StepEvent::TornDown, detail, None);
                if may_hold {
                    self.book.hold(vec![entry])?;
                } else {
                    self.book.append(vec![entry])?;
                }
                self.gone.insert(id.clone());
                return Ok(());
            }
            Err(failed) => failed,
        };
        let entry = Entry::step(id, StepEvent::TeardownFailed, detail, Some(failure.clone()));
        if step.contained_in.is_some() && !failure.is_interrupt() {
            self.book.append(vec![entry])?;
            self.deferred.push(step.clone());
            return Ok(());
        }
        Err(self.failed(&id.phase, Some(id), failure, vec![entry]))
    }

    /// Gives a step up.
    fn forget(&mut self, step: &StepId, why: Forgetting) -> Result<(), Halt> {
        match self.world.forget(step, why) {
            Ok(detail) => {
                self.book.step(step, StepEvent::Forgotten, detail, None)?;
                self.gone.insert(step.clone());
                Ok(())
            }
            Err(failure) => {
                let mut entries = Vec::new();
                if why == Forgetting::ByOperator {
                    let kept = Some(failure.clone());
                    entries.push(Entry::step(step, StepEvent::TeardownFailed, None, kept));
                }
                Err(self.failed(&step.phase, Some(step), failure, entries))
            }
        }
    }

    /// Gives the step that a deferred one waits for: the first around it that is not deferred too.
    fn holder(&self, step: &TeardownStep) -> Option<StepId> {
        let mut holder = step.contained_in.clone()?;
        // Each is contained in one before it, so this ends; the bound is for a damaged record.
        for _ in 0..self.deferred.len() {
            match self.deferred.iter().find(|deferred| deferred.id == holder) {
                Some(deferred) => holder = deferred.contained_in.clone()?,
                None => break,
            }
        }
        Some(holder)
    }

    /// Says whether what a deferred step lives in is torn down.
    fn is_gone(&self, holder: &StepId) -> bool {
        self.gone.contains(holder) || !self.plan.holds(holder)
    }

    /// Proves a phase gone, once nothing in it waits for another one. `may_hold`: that may wait for the next write.
    fn prove(&mut self, phase: &PhaseId, may_hold: bool) -> Result<(), Halt> {
        let deferred: Vec<TeardownStep> = self
            .deferred
            .iter()
            .filter(|step| step.id.phase == *phase)
            .cloned()
            .collect();
        let waits = deferred.iter().any(|step| {
            self.holder(step).is_none_or(|holder| {
                !self.is_gone(&holder)
                    || (holder.phase != *phase && !self.proven.contains(&holder.phase))
            })
        });
        if waits {
            if !self.postponed.contains(phase) {
                self.postponed.push(phase.clone());
            }
            return Ok(());
        }
        let ids: Vec<StepId> = deferred.iter().map(|step| step.id.clone()).collect();
        let mut warnings = Vec::new();
        match self.world.residue(phase, &ids) {
            ResidueResult::Clean => {}
            ResidueResult::Unprovable(failure) if self.is_forgotten_in(phase) => {
                warnings.push(failure);
            }
            ResidueResult::Left(failure) | ResidueResult::Unprovable(failure) => {
                return Err(self.failed(phase, None, failure, Vec::new()));
            }
        }
        for step in &ids {
            self.forget_deferred(step)?;
        }
        let gone = Entry::PhaseGone {
            phase: phase.clone(),
            warnings,
        };
        // A step that waits for this phase is forgotten now, and no sooner than this is known.
        if may_hold && self.deferred.is_empty() && self.postponed.is_empty() {
            self.book.hold(vec![gone])?;
        } else {
            self.book.append(vec![gone])?;
        }
        self.proven.insert(phase.clone());
        self.postponed.retain(|postponed| postponed != phase);
        self.resolve()
    }

    /// Says whether a step of the phase was given up, by this call or an earlier one: what could be
    /// asked of the phase may have gone with it.
    fn is_forgotten_in(&self, phase: &PhaseId) -> bool {
        self.book
            .history
            .steps
            .iter()
            .any(|(step, history)| step.phase == *phase && history.status == StepStatus::Forgotten)
    }

    fn forget_deferred(&mut self, step: &StepId) -> Result<(), Halt> {
        self.forget(step, Forgetting::WithContainer)?;
        self.deferred.retain(|deferred| deferred.id != *step);
        Ok(())
    }

    /// Forgets the deferred steps whose container is proven gone, and proves the phases that waited.
    fn resolve(&mut self) -> Result<(), Halt> {
        for step in self.deferred.clone() {
            let free = self
                .holder(&step)
                .is_some_and(|holder| self.is_gone(&holder) && self.proven.contains(&holder.phase));
            if free {
                self.forget_deferred(&step.id)?;
            }
        }
        for phase in self.postponed.clone() {
            // A phase that still waits stays where it is.
            if self.postponed.contains(&phase) {
                self.prove(&phase, false)?;
            }
        }
        Ok(())
    }

    /// Brings what is deferred to its end; what can't be is a failure.
    fn release(&mut self) -> Result<(), Halt> {
        for step in self.deferred.clone() {
            // Its container went in an earlier call, which may have been cut before the proof.
            if let Some(holder) = self.holder(&step)
                && !self.plan.holds(&holder)
                && !self.proven.contains(&holder.phase)
            {
                self.prove(&holder.phase, false)?;
            }
        }
        let Some(step) = self.deferred.first().cloned() else {
            return Ok(());
        };
        let container = step
            .contained_in
            .map_or_else(String::new, |id| id.to_string());
        let failure = Failure::failed(format!(
            "step `{}` could not be torn down, and `{container}`, in which it lives, is not gone",
            step.id
        ))
        .hint(format!("`rebuild down --forget {}` gives it up", step.id));
        Err(self.failed(&step.id.phase, Some(&step.id), failure, Vec::new()))
    }

    /// Lets the last phase go only when nothing else holds anything.
    fn before_last(&mut self, phase: &PhaseId) -> Result<(), Halt> {
        self.release()?;
        let left = match self.world.holding() {
            Ok(holding) => holding,
            Err(failure) => return Err(self.failed(phase, None, failure, Vec::new())),
        };
        let mut left: Vec<StepId> = left
            .into_iter()
            .filter(|step| step.phase != *phase)
            .collect();
        left.sort();
        if !left.is_empty() {
            let mut failure = Failure::failed(format!(
                "phase `{phase}` holds the states and can't go: other states still hold resources"
            ));
            failure.causes = left.iter().map(|step| format!("step `{step}`")).collect();
            return Err(self.failed(phase, None, failure, Vec::new()));
        }
        match self.world.store_going(phase) {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.failed(phase, None, failure, Vec::new())),
        }
    }
}

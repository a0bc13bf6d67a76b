//! A world, a ledger and an operator in memory.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use crate::*;

pub(super) type Log = Arc<Mutex<Vec<String>>>;

pub(super) fn id(text: &str) -> StepId {
    text.parse().unwrap()
}

pub(super) fn phase_id(text: &str) -> PhaseId {
    text.parse().unwrap()
}

/// Makes a phase of steps, each `name` or `name<container` or `name:reference,reference`.
pub(super) fn phase(phase: &str, steps: &[&str]) -> Phase {
    let shape = |text: &&str| {
        let (text, contained_in) = match text.split_once('<') {
            Some((name, container)) => (name, Some(id(container))),
            None => (*text, None),
        };
        let (name, references) = text.split_once(':').unwrap_or((text, ""));
        StepShape {
            id: id(&format!("{phase}.{name}")),
            refers_to: references
                .split(',')
                .filter(|r| !r.is_empty())
                .map(id)
                .collect(),
            contained_in,
        }
    };
    Phase {
        id: phase_id(phase),
        canary: false,
        provides_state: phase == "0",
        parallel: false,
        steps: steps.iter().map(shape).collect(),
    }
}

pub(super) fn parallel(id: &str, steps: &[&str]) -> Phase {
    Phase {
        parallel: true,
        ..phase(id, steps)
    }
}

/// The phases of the design, a step `s` in each.
pub(super) fn small(ids: &[&str]) -> Sequence {
    Sequence::new(ids.iter().map(|id| phase(id, &["s"])).collect()).unwrap()
}

/// What the fake world is to do wrong, by call (`1a.s apply`), and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Fails,
    Interrupted,
    /// A guard or a person is against it.
    Declined,
    /// Does what was asked, then fails.
    FailsLate,
    Panics,
}

/// The fake world.
pub(super) struct FakeWorld {
    pub(super) log: Log,
    pub(super) faults: Mutex<BTreeMap<String, (Fault, usize)>>,
    /// What exists, and of which definition.
    pub(super) objects: Mutex<BTreeMap<StepId, String>>,
    pub(super) definitions: Mutex<BTreeMap<StepId, String>>,
    /// How each apply was begun.
    pub(super) hows: Mutex<Vec<(StepId, ApplyHow)>>,
    pub(super) bases: Mutex<Vec<(String, Basis)>>,
    pub(super) forgotten: Mutex<Vec<(StepId, Forgetting)>>,
    /// Steps that are judged by their own verify when they were cut.
    pub(super) judged: BTreeSet<StepId>,
    /// Every act is done twice.
    pub(super) twice: bool,
    /// The process is dead: nothing has an effect any more.
    pub(super) dead: Mutex<bool>,
    pub(super) residue: Mutex<BTreeMap<PhaseId, bool>>,
    /// Two steps that must be at work at the same time.
    pub(super) together: Option<Arc<std::sync::Barrier>>,
    /// Phases that are said to have neither checks nor probes.
    pub(super) unchecked: BTreeSet<PhaseId>,
    /// What is there as it should be is not applied.
    pub(super) sees_what_is_there: bool,
}

impl FakeWorld {
    pub(super) fn new() -> Self {
        Self {
            log: Log::default(),
            faults: Mutex::default(),
            objects: Mutex::default(),
            definitions: Mutex::default(),
            hows: Mutex::default(),
            bases: Mutex::default(),
            forgotten: Mutex::default(),
            judged: BTreeSet::new(),
            twice: false,
            dead: Mutex::new(false),
            residue: Mutex::default(),
            together: None,
            unchecked: BTreeSet::new(),
            sees_what_is_there: false,
        }
    }

    pub(super) fn fault(&self, call: &str, fault: Fault) {
        self.faults
            .lock()
            .unwrap()
            .insert(call.to_owned(), (fault, usize::MAX));
    }

    pub(super) fn fault_once(&self, call: &str, fault: Fault) {
        self.faults
            .lock()
            .unwrap()
            .insert(call.to_owned(), (fault, 1));
    }

    pub(super) fn mend(&self) {
        self.faults.lock().unwrap().clear();
        self.residue.lock().unwrap().clear();
        *self.dead.lock().unwrap() = false;
    }

    pub(super) fn define(&self, step: &str, definition: &str) {
        self.definitions
            .lock()
            .unwrap()
            .insert(id(step), definition.to_owned());
    }

    pub(super) fn objects(&self) -> Vec<String> {
        self.objects
            .lock()
            .unwrap()
            .keys()
            .map(ToString::to_string)
            .collect()
    }

    /// Takes what was called, with only these verbs; a step `s` goes by its phase.
    pub(super) fn take(&self, verbs: &[&str]) -> Vec<String> {
        let calls: Vec<String> = self.log.lock().unwrap().drain(..).collect();
        let wanted = |call: &String| verbs.iter().any(|verb| call.ends_with(&format!(" {verb}")));
        calls
            .into_iter()
            .filter(wanted)
            .map(|call| call.replace(".s ", " "))
            .collect()
    }

    fn call(&self, what: &str, verb: &str) -> Result<Option<Fault>, Failure> {
        let call = format!("{what} {verb}");
        if *self.dead.lock().unwrap() {
            return Err(Failure::failed("the process is dead"));
        }
        self.log.lock().unwrap().push(call.clone());
        let mut faults = self.faults.lock().unwrap();
        let Some((fault, left)) = faults.get_mut(&call) else {
            return Ok(None);
        };
        if *left == 0 {
            return Ok(None);
        }
        *left = left.saturating_sub(1);
        let fault = *fault;
        drop(faults);
        match fault {
            Fault::Fails => Err(Failure::failed(format!("{call} fails"))),
            Fault::Interrupted => Err(Failure::new(
                ExitCode::Interrupted,
                format!("{call} was interrupted"),
            )),
            Fault::Declined => Err(Failure::new(
                ExitCode::Declined,
                format!("{call} was declined"),
            )),
            Fault::FailsLate => Ok(Some(fault)),
            Fault::Panics => panic!("{call} panics"),
        }
    }

    fn definition_now(&self, step: &StepId) -> String {
        let definitions = self.definitions.lock().unwrap();
        definitions
            .get(step)
            .cloned()
            .unwrap_or_else(|| "d1".to_owned())
    }

    fn n_times(&self) -> usize {
        if self.twice { 2 } else { 1 }
    }
}

fn late(fault: Option<Fault>, what: &str) -> Result<(), Failure> {
    match fault {
        Some(_) => Err(Failure::failed(format!("{what} fails late"))),
        None => Ok(()),
    }
}

impl World for FakeWorld {
    type Plan = String;
    type Detail = String;

    fn definition(&self, step: &StepId) -> Result<String, Failure> {
        self.call(&step.to_string(), "define")?;
        Ok(self.definition_now(step))
    }

    fn prepare(
        &self,
        step: &StepId,
        how: ApplyHow,
        _: &dyn Notes<String>,
    ) -> Preparation<String, String> {
        if let Err(failure) = self.call(&step.to_string(), "prepare") {
            return Preparation::NotReady(failure);
        }
        self.hows.lock().unwrap().push((step.clone(), how));
        let definition = self.definition_now(step);
        let exists = self.objects.lock().unwrap().get(step) == Some(&definition);
        let judged = matches!(how, ApplyHow::AfterCut { .. }) && self.judged.contains(step);
        if (judged || self.sees_what_is_there) && exists {
            return Preparation::AlreadyDone {
                detail: "judged".to_owned(),
            };
        }
        Preparation::Ready {
            plan: definition,
            detail: "planned".to_owned(),
        }
    }

    fn apply(&self, step: &StepId, plan: String, notes: &dyn Notes<String>) -> StepResult<String> {
        let fault = match self.call(&step.to_string(), "apply") {
            Ok(fault) => fault,
            Err(failure) => return StepResult::failed(failure, Some("failed".to_owned())),
        };
        if let Some(barrier) = &self.together {
            barrier.wait();
        }
        if let Err(error) = notes.note("creating".to_owned()) {
            return StepResult::failed(Failure::of(ExitCode::Failed, &error), None);
        }
        for _ in 0..self.n_times() {
            if !*self.dead.lock().unwrap() {
                self.objects
                    .lock()
                    .unwrap()
                    .insert(step.clone(), plan.clone());
            }
        }
        StepResult {
            end: late(fault, "apply"),
            detail: Some("applied".to_owned()),
        }
    }

    fn verify(&self, step: &StepId, basis: Basis, notes: &dyn Notes<String>) -> StepResult<String> {
        let call = format!("{step} verify");
        self.bases.lock().unwrap().push((call, basis));
        if let Err(failure) = self.call(&step.to_string(), "verify") {
            return StepResult::failed(failure, None);
        }
        let stored = notes.note("looked".to_owned());
        let exists = self.objects.lock().unwrap().contains_key(step);
        match (stored, exists) {
            (Ok(()), true) => StepResult::well(None),
            _ => StepResult::failed(Failure::failed(format!("{step} is not there")), None),
        }
    }

    fn has_checks(&self, phase: &PhaseId, _: Basis) -> bool {
        !self.unchecked.contains(phase)
    }

    fn check(&self, phase: &PhaseId, basis: Basis) -> Result<(), Failure> {
        self.bases
            .lock()
            .unwrap()
            .push((format!("{phase} check"), basis));
        self.call(phase.as_str(), "check").map(|_| ())
    }

    fn preflight(&self, not_reached: &[PhaseId]) -> Result<(), Failure> {
        let names: Vec<&str> = not_reached.iter().map(PhaseId::as_str).collect();
        self.call(&names.join("+"), "preflight").map(|_| ())
    }

    fn store_made(&self, phase: &PhaseId) -> Result<(), Failure> {
        self.call(phase.as_str(), "store-made").map(|_| ())
    }

    fn store_going(&self, phase: &PhaseId) -> Result<(), Failure> {
        self.call(phase.as_str(), "store-going").map(|_| ())
    }

    fn teardown(&self, step: &StepId, notes: &dyn Notes<String>) -> TeardownResult<String> {
        let fault = match self.call(&step.to_string(), "teardown") {
            Ok(fault) => fault,
            Err(failure) => {
                return TeardownResult::Failed {
                    failure,
                    detail: None,
                };
            }
        };
        if notes.note("destroying".to_owned()).is_err() {
            let failure = Failure::failed("not stored");
            return TeardownResult::Failed {
                failure,
                detail: None,
            };
        }
        if !self.objects.lock().unwrap().contains_key(step) {
            return TeardownResult::Empty;
        }
        for _ in 0..self.n_times() {
            if !*self.dead.lock().unwrap() {
                self.objects.lock().unwrap().remove(step);
            }
        }
        match late(fault, "teardown") {
            Ok(()) => TeardownResult::Gone {
                detail: Some("gone".to_owned()),
            },
            Err(failure) => TeardownResult::Failed {
                failure,
                detail: None,
            },
        }
    }

    fn has_probes(&self, phase: &PhaseId) -> bool {
        !self.unchecked.contains(phase)
    }

    fn residue(&self, phase: &PhaseId, deferred: &[StepId]) -> ResidueResult {
        match self.call(phase.as_str(), "residue") {
            Ok(_) => {}
            Err(failure) => return ResidueResult::Unprovable(failure),
        }
        let probe_finds = self
            .residue
            .lock()
            .unwrap()
            .get(phase)
            .copied()
            .unwrap_or(false);
        let objects = self.objects.lock().unwrap();
        let left = objects
            .keys()
            .any(|step| step.phase == *phase && !deferred.contains(step));
        if left || probe_finds {
            return ResidueResult::Left(Failure::failed(format!("{phase} left something behind")));
        }
        ResidueResult::Clean
    }

    fn forget(&self, step: &StepId, why: Forgetting) -> Result<Option<String>, Failure> {
        self.call(&step.to_string(), "forget")?;
        self.forgotten.lock().unwrap().push((step.clone(), why));
        self.objects.lock().unwrap().remove(step);
        Ok(Some("addresses".to_owned()))
    }

    fn holding(&self) -> Result<Vec<StepId>, Failure> {
        self.call("all", "holding")?;
        Ok(self.objects.lock().unwrap().keys().cloned().collect())
    }
}

/// The fake ledger: keeps every write, and the history that follows from them.
pub(super) struct FakeLedger {
    pub(super) writes: Vec<Vec<Entry<String>>>,
    pub(super) history: History,
    pub(super) sequence: Sequence,
    /// Refuses every write from this one on.
    pub(super) cut_at: Option<usize>,
    /// What dies with the process right after the last write before the cut.
    pub(super) kills: Option<Arc<FakeWorld>>,
}

impl FakeLedger {
    pub(super) fn new(sequence: &Sequence, history: History) -> Self {
        Self {
            writes: Vec::new(),
            history,
            sequence: sequence.clone(),
            cut_at: None,
            kills: None,
        }
    }

    /// The entries so far, one word each.
    pub(super) fn words(&self) -> Vec<String> {
        self.writes.iter().flatten().map(word).collect()
    }

    pub(super) fn end(&self) -> Option<(RunStatus, ExitCode)> {
        match self.writes.last()?.last()? {
            Entry::CallEnded { status, exit, .. } => Some((*status, *exit)),
            _ => None,
        }
    }
}

fn word(entry: &Entry<String>) -> String {
    match entry {
        Entry::CallBegan { kind } => format!("call {kind:?}"),
        Entry::PhaseApplying { phase } => format!("{phase} applying"),
        Entry::Step { step, event, .. } => format!("{step} {event}"),
        Entry::Note { step, detail } => format!("{step} note {detail}"),
        Entry::PhaseVerifying { phase, basis } => format!("{phase} verifying {basis:?}"),
        Entry::PhaseVerified { phase, basis, .. } => format!("{phase} verified {basis:?}"),
        Entry::PhaseStopped { phase, part, .. } => format!("{phase} stopped {part:?}"),
        Entry::Checkpoint { phase, answer } => format!("{phase} checkpoint {answer:?}"),
        Entry::TeardownBegan => "teardown began".to_owned(),
        Entry::PhaseTearingDown { phase } => format!("{phase} tearing down"),
        Entry::PhaseGone { phase, warnings } => format!("{phase} gone {}", warnings.len()),
        Entry::PhaseTeardownFailed { phase, .. } => format!("{phase} teardown failed"),
        Entry::CallEnded { status, exit, .. } => format!("call ended {status} {exit}"),
    }
}

impl Ledger<String> for FakeLedger {
    fn append(&mut self, entries: Vec<Entry<String>>) -> Result<(), LedgerError> {
        if self.cut_at.is_some_and(|cut| self.writes.len() >= cut) {
            return Err(LedgerError::new("cannot write the record", std::fmt::Error));
        }
        for entry in &entries {
            self.history.absorb(entry, &self.sequence).unwrap();
        }
        self.writes.push(entries);
        if self.cut_at.is_some_and(|cut| self.writes.len() >= cut)
            && let Some(world) = &self.kills
        {
            *world.dead.lock().unwrap() = true;
        }
        Ok(())
    }
}

/// The fake operator: answers by script, and asks for a stop once a call was seen.
#[derive(Default)]
pub(super) struct FakeOperator {
    pub(super) answers: Vec<Answer>,
    pub(super) after_failure: Option<AfterFailure>,
    pub(super) stop_once: Option<(String, Stop)>,
    pub(super) log: Log,
    pub(super) asked: RefCell<Vec<String>>,
}

impl FakeOperator {
    pub(super) fn stop_at(world: &FakeWorld, call: &str, stop: Stop) -> Self {
        Self {
            stop_once: Some((call.to_owned(), stop)),
            log: Arc::clone(&world.log),
            ..Self::default()
        }
    }
}

impl Operator for FakeOperator {
    fn stop(&self) -> Stop {
        match &self.stop_once {
            Some((call, stop)) if self.log.lock().unwrap().contains(call) => *stop,
            _ => Stop::None,
        }
    }

    fn summary(&mut self, summary: &PhaseSummary) {
        let PhaseSummary {
            phase,
            n_verified,
            n_phases,
            ..
        } = summary;
        self.asked
            .borrow_mut()
            .push(format!("{phase} summary {n_verified}/{n_phases}"));
    }

    fn checkpoint(&mut self, summary: &PhaseSummary) -> Answer {
        self.asked
            .borrow_mut()
            .push(format!("{} checkpoint", summary.phase));
        if self.answers.is_empty() {
            Answer::Continue
        } else {
            self.answers.remove(0)
        }
    }

    fn failed(&mut self, failures: &[PhaseFailure]) -> AfterFailure {
        self.asked
            .borrow_mut()
            .push(format!("failed {}", failures.len()));
        self.after_failure.unwrap_or(AfterFailure::Leave)
    }
}

/// One target: a world and what its ledger says.
pub(super) struct Target {
    pub(super) world: Arc<FakeWorld>,
    pub(super) sequence: Sequence,
    pub(super) history: History,
    /// The entries of the last call.
    pub(super) words: Vec<String>,
    pub(super) n_writes: usize,
    pub(super) cut_at: Option<usize>,
    /// The process dies with the cut, before the next act.
    pub(super) kill: bool,
    pub(super) last: Option<PhaseId>,
    pub(super) forget: BTreeSet<StepId>,
}

impl Target {
    pub(super) fn new(sequence: Sequence) -> Self {
        Self {
            world: Arc::new(FakeWorld::new()),
            last: sequence.first().cloned(),
            sequence,
            history: History::default(),
            words: Vec::new(),
            n_writes: 0,
            cut_at: None,
            kill: false,
            forget: BTreeSet::new(),
        }
    }

    fn keep(&mut self, ledger: FakeLedger, ended: &Ended) {
        if ended.ledger_error.is_none() {
            assert_eq!(
                ledger.end(),
                ended.status.map(|status| (status, ended.exit))
            );
        }
        self.words = ledger.words();
        self.n_writes = ledger.writes.len();
        self.history = ledger.history;
    }

    fn ledger(&self, history: History) -> FakeLedger {
        let mut ledger = FakeLedger::new(&self.sequence, history);
        ledger.cut_at = self.cut_at;
        ledger.kills = self.kill.then(|| Arc::clone(&self.world));
        ledger
    }

    pub(super) fn up_with(&mut self, options: &Options, operator: &mut FakeOperator) -> Ended {
        let history = History::of_new_run(self.history.standing.clone());
        let mut ledger = self.ledger(history.clone());
        let kind = CallKind::New;
        let world = &*self.world;
        let ended = up(
            kind,
            &self.sequence,
            history,
            options,
            world,
            &mut ledger,
            operator,
        );
        if ledger.writes.is_empty() {
            assert_eq!(ended.status, None);
            self.words.clear();
        } else {
            self.keep(ledger, &ended);
        }
        ended
    }

    pub(super) fn up(&mut self) -> Ended {
        self.up_with(&Options::default(), &mut FakeOperator::default())
    }

    pub(super) fn resume_with(&mut self, options: &Options, operator: &mut FakeOperator) -> Ended {
        let history = self.history.clone();
        let mut ledger = self.ledger(history.clone());
        let kind = CallKind::Resume;
        let world = &*self.world;
        let ended = up(
            kind,
            &self.sequence,
            history,
            options,
            world,
            &mut ledger,
            operator,
        );
        self.keep(ledger, &ended);
        ended
    }

    pub(super) fn resume(&mut self) -> Ended {
        self.resume_with(&Options::default(), &mut FakeOperator::default())
    }

    pub(super) fn plan(&self) -> Teardown {
        let contained = |step: &StepId| self.sequence.step(step)?.contained_in.clone();
        let mut plan = Teardown::of(&self.history, contained);
        plan.last = self.last.clone();
        plan.forget = self.forget.clone();
        plan
    }

    pub(super) fn down_with(&mut self, plan: &Teardown, operator: &FakeOperator) -> Ended {
        let history = self.history.clone();
        let mut ledger = self.ledger(history.clone());
        let ended = down(plan, history, &*self.world, &mut ledger, operator);
        self.keep(ledger, &ended);
        ended
    }

    pub(super) fn down(&mut self) -> Ended {
        let plan = self.plan();
        self.down_with(&plan, &FakeOperator::default())
    }

    /// Every step that stands is at its place and exists.
    pub(super) fn assert_gone(&self) {
        assert_eq!(self.world.objects(), Vec::<String>::new());
        assert_eq!(self.history.standing, []);
        assert_eq!(self.history.unproven, []);
        assert_eq!(self.history.status, Some(RunStatus::TornDown));
    }
}

pub(super) fn jobs(n: usize) -> Options {
    Options {
        jobs: NonZeroUsize::new(n).unwrap(),
        ..Options::default()
    }
}

/// What failed, in one line each.
pub(super) fn said(ended: &Ended) -> Vec<String> {
    ended
        .failures
        .iter()
        .map(|failure| failure.failure.to_string())
        .collect()
}

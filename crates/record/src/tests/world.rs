//! A small world for the engine, and a ledger that is compared with the engine's own history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phase_engine::*;
use store::MemoryStore;

use crate::*;

pub(super) fn id(text: &str) -> StepId {
    text.parse().unwrap()
}

pub(super) fn phase_id(text: &str) -> PhaseId {
    text.parse().unwrap()
}

pub(super) fn run_id(text: &str) -> RunId {
    text.parse().unwrap()
}

pub(super) fn time(second: i64) -> Time {
    // 2027-01-15T08:00:00Z, a time like any other.
    Time(jiff::Timestamp::from_second(1_800_000_000 + second).unwrap())
}

pub(super) fn sequence(phases: &[(&str, &[&str])]) -> Sequence {
    let phase = |(phase, steps): &(&str, &[&str])| Phase {
        id: phase_id(phase),
        canary: false,
        provides_state: *phase == "0",
        parallel: false,
        steps: steps
            .iter()
            .map(|step| StepShape {
                id: id(&format!("{phase}.{step}")),
                refers_to: BTreeSet::new(),
                contained_in: None,
            })
            .collect(),
    };
    Sequence::new(phases.iter().map(phase).collect()).unwrap()
}

pub(super) fn applied(bundle: &str) -> Applied {
    let inputs = [
        ("zone".to_owned(), Input::plain("example.org")),
        ("token".to_owned(), Input::sensitive("hunter2-hunter2")),
    ];
    Applied {
        target: BTreeMap::new(),
        bundle: bundle.to_owned(),
        called: None,
        init_extras: Some("extras".to_owned()),
        commit: Some("c0ffee".to_owned()),
        definition: String::new(),
        values: Values::of(inputs, &|value| format!("keyed:{}", value.len())),
        tool: Some(ToolRecord {
            name: "tofu".to_owned(),
            version: "1.12.6".to_owned(),
            sha256: Some("ab".repeat(32)),
        }),
        providers: BTreeMap::from([(
            "registry.opentofu.org/hashicorp/local".to_owned(),
            "2.5.2".to_owned(),
        )]),
        run: run_id("overwritten"),
        since: time(0),
        attempted: false,
    }
}

/// Everything works, but for the calls that are named in `faults`.
#[derive(Default)]
pub(super) struct World {
    pub(super) faults: Mutex<BTreeMap<String, Failure>>,
    pub(super) objects: Mutex<BTreeSet<StepId>>,
    pub(super) applies: Mutex<Vec<String>>,
    pub(super) bundle: Mutex<Option<String>>,
}

impl World {
    pub(super) fn fail(&self, call: &str) {
        let failure = Failure::failed(format!("{call} fails"))
            .because("Error: quota exceeded")
            .hint("`rebuild up --target drill --resume`")
            .log("/logs/1a.edge");
        self.faults.lock().unwrap().insert(call.to_owned(), failure);
    }

    fn call(&self, call: &str) -> Result<(), Failure> {
        match self.faults.lock().unwrap().get(call) {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    fn applied(&self) -> Applied {
        applied(self.bundle.lock().unwrap().as_deref().unwrap_or("b1"))
    }
}

pub(super) fn state(serial: u64) -> StateMark {
    StateMark {
        lineage: "lineage".to_owned(),
        serial,
        digest: format!("digest-{serial}"),
    }
}

impl phase_engine::World for World {
    type Plan = ();
    type Detail = Detail;

    fn definition(&self, step: &StepId) -> Result<String, Failure> {
        Ok(format!(
            "definition of {step} from {}",
            self.applied().bundle
        ))
    }

    fn prepare(
        &self,
        step: &StepId,
        _: ApplyHow,
        _: &dyn Notes<Detail>,
    ) -> Preparation<(), Detail> {
        if let Err(failure) = self.call(&format!("{step} prepare")) {
            return Preparation::NotReady(failure);
        }
        let starting = Starting {
            kind: "tofu".to_owned(),
            contained_in: None,
            applied: self.applied(),
            planned: PlannedWork::default(),
        };
        let detail = Detail {
            starting: Some(Box::new(starting)),
            ..Detail::default()
        };
        Preparation::Ready { plan: (), detail }
    }

    fn apply(&self, step: &StepId, (): (), notes: &dyn Notes<Detail>) -> StepResult<Detail> {
        self.applies.lock().unwrap().push(step.to_string());
        let change = PlannedChange {
            address: "local_file.a".parse().unwrap(),
            action: "create".to_owned(),
            provider: None,
            was: None,
        };
        let note = Detail {
            planned: vec![change],
            ..Detail::default()
        };
        if let Err(error) = notes.note(note) {
            return StepResult::failed(Failure::of(ExitCode::Failed, &error), None);
        }
        if let Err(failure) = self.call(&format!("{step} apply")) {
            let suspects = vec![crate::Suspected {
                address: Some("local_file.a".parse().unwrap()),
                ..Default::default()
            }];
            return StepResult::failed(
                failure,
                Some(Detail {
                    suspects,
                    ..Detail::default()
                }),
            );
        }
        self.objects.lock().unwrap().insert(step.clone());
        let made = BTreeMap::from([("local_file".to_owned(), 2)]);
        StepResult::well(Some(Detail {
            state: Some(state(1)),
            made: BTreeMap::from([("create".to_owned(), made)]),
            outputs: Some(vec![
                ("address".to_owned(), Input::plain("192.0.2.1")),
                ("password".to_owned(), Input::sensitive("hunter2-hunter2")),
            ]),
            ..Detail::default()
        }))
    }

    fn verify(&self, step: &StepId, basis: Basis, _: &dyn Notes<Detail>) -> StepResult<Detail> {
        let settled = (basis == Basis::JustApplied).then(|| Detail {
            state: Some(state(2)),
            ..Detail::default()
        });
        StepResult {
            end: self.call(&format!("{step} verify")),
            detail: settled,
        }
    }

    fn has_checks(&self, _: &PhaseId, _: Basis) -> bool {
        true
    }

    fn check(&self, phase: &PhaseId, _: Basis) -> Result<(), Failure> {
        self.call(&format!("{phase} check"))
    }

    fn preflight(&self, _: &[PhaseId]) -> Result<(), Failure> {
        Ok(())
    }

    fn store_made(&self, _: &PhaseId) -> Result<(), Failure> {
        Ok(())
    }

    fn store_going(&self, _: &PhaseId) -> Result<(), Failure> {
        Ok(())
    }

    fn teardown(&self, step: &StepId, _: &dyn Notes<Detail>) -> TeardownResult<Detail> {
        if let Err(failure) = self.call(&format!("{step} teardown")) {
            return TeardownResult::Failed {
                failure,
                detail: None,
            };
        }
        match self.objects.lock().unwrap().remove(step) {
            true => TeardownResult::Gone { detail: None },
            false => TeardownResult::Empty,
        }
    }

    fn has_probes(&self, _: &PhaseId) -> bool {
        true
    }

    fn residue(&self, phase: &PhaseId, _: &[StepId]) -> ResidueResult {
        match self.call(&format!("{phase} residue")) {
            Ok(()) => ResidueResult::Clean,
            Err(failure) => ResidueResult::Unprovable(failure),
        }
    }

    fn forget(&self, step: &StepId, _: Forgetting) -> Result<Option<Detail>, Failure> {
        self.objects.lock().unwrap().remove(step);
        Ok(Some(Detail {
            forgotten: vec!["local_file.a".to_owned()],
            ..Detail::default()
        }))
    }

    fn holding(&self) -> Result<Vec<StepId>, Failure> {
        Ok(self.objects.lock().unwrap().iter().cloned().collect())
    }
}

/// Nobody is there to stop or to be asked; with `answer`, somebody is.
#[derive(Default)]
pub(super) struct Operator {
    pub(super) answer: Option<Answer>,
}

impl phase_engine::Operator for Operator {
    fn stop(&self) -> Stop {
        Stop::None
    }

    fn summary(&mut self, _: &PhaseSummary) {}

    fn checkpoint(&mut self, _: &PhaseSummary) -> Answer {
        self.answer.unwrap_or(Answer::Continue)
    }

    fn failed(&mut self, _: &[PhaseFailure]) -> AfterFailure {
        AfterFailure::Leave
    }
}

/// The ledger under test; what it says must always be what the engine's own history says.
struct Compared {
    ledger: RecordLedger,
    history: History,
    sequence: Sequence,
}

impl Ledger<Detail> for Compared {
    fn append(&mut self, entries: Vec<Entry<Detail>>) -> Result<(), LedgerError> {
        let mut history = self.history.clone();
        for entry in &entries {
            history.absorb(entry, &self.sequence).unwrap();
        }
        self.ledger.append(entries)?;
        self.history = history;
        assert_eq!(self.ledger.history(), self.history);
        assert_eq!(self.ledger.view().get().as_deref(), self.ledger.record());
        Ok(())
    }
}

/// A target in a store in memory.
pub(super) struct Target {
    pub(super) store: Arc<MemoryStore>,
    pub(super) world: World,
    pub(super) sequence: Sequence,
    pub(super) clock: Arc<AtomicI64>,
    pub(super) fence: u64,
    pub(super) next_run: u32,
    pub(super) answer: Option<Answer>,
}

impl Target {
    pub(super) fn new(phases: &[(&str, &[&str])]) -> Self {
        Self {
            store: Arc::new(MemoryStore::new()),
            world: World::default(),
            sequence: sequence(phases),
            clock: Arc::default(),
            fence: 1,
            next_run: 1,
            answer: None,
        }
    }

    pub(super) fn records(&self) -> RecordStore {
        RecordStore::new(self.store.clone())
    }

    pub(super) fn record(&self) -> Record {
        self.records().current().unwrap().unwrap().value
    }

    pub(super) fn call(&self, command: CallCommand) -> CallRecord {
        CallRecord {
            command,
            started: time(self.clock.load(Ordering::Relaxed)),
            ended: None,
            exit: None,
            user: "ada".to_owned(),
            host: "desk".to_owned(),
            ci_job: None,
            tools: Vec::new(),
            commit: Some("c0ffee".to_owned()),
            dirty: false,
            bundle: Some(self.world.applied().bundle),
        }
    }

    pub(super) fn open(&self, command: CallCommand) -> Result<RecordLedger, RecordError> {
        let new_run = NewRun {
            run: run_id(&format!("R{:03}", self.next_run)),
            platform: "homelab".to_owned(),
            target: "drill".parse().unwrap(),
            budget: Some(Duration::from_secs(60)),
        };
        // Each look at the clock is a second later.
        let clock = Arc::clone(&self.clock);
        let tell = move || time(clock.fetch_add(1, Ordering::Relaxed) + 1);
        let (records, sequence) = (self.records(), self.sequence.clone());
        let call = self.call(command);
        RecordLedger::open(records, self.fence, sequence, new_run, call, Box::new(tell))
    }

    fn compared(&mut self, command: CallCommand) -> Compared {
        let ledger = self.open(command).unwrap();
        self.next_run += 1;
        let history = match command {
            CallCommand::Up => History::of_new_run(ledger.history().standing),
            CallCommand::Resume
            | CallCommand::Down
            | CallCommand::Repair
            | CallCommand::Accept
            | CallCommand::Migrate
            | CallCommand::Provision => ledger.history(),
        };
        Compared {
            ledger,
            history,
            sequence: self.sequence.clone(),
        }
    }

    pub(super) fn up_with(&mut self, kind: CallKind, options: &Options) -> Ended {
        let command = if kind == CallKind::New {
            CallCommand::Up
        } else {
            CallCommand::Resume
        };
        let mut ledger = self.compared(command);
        let history = ledger.history.clone();
        let mut operator = Operator {
            answer: self.answer,
        };
        up(
            kind,
            &self.sequence,
            history,
            options,
            &self.world,
            &mut ledger,
            &mut operator,
        )
    }

    pub(super) fn up(&mut self) -> Ended {
        self.up_with(CallKind::New, &Options::default())
    }

    pub(super) fn resume(&mut self) -> Ended {
        self.up_with(CallKind::Resume, &Options::default())
    }

    pub(super) fn down_with(&mut self, forget: &[&str]) -> Ended {
        let mut ledger = self.compared(CallCommand::Down);
        let mut plan = ledger
            .ledger
            .record()
            .map(Record::teardown)
            .unwrap_or_default();
        plan.last = self.sequence.first().cloned();
        plan.forget = forget.iter().map(|step| id(step)).collect();
        let history = ledger.history.clone();
        down(
            &plan,
            history,
            &self.world,
            &mut ledger,
            &Operator::default(),
        )
    }

    pub(super) fn down(&mut self) -> Ended {
        self.down_with(&[])
    }
}

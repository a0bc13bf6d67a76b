//! A call from its lock to its end: the ledger, the world, and what a killed call left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use phase_engine::{ExitCode, Failure, PhaseId, RunId, Sequence, StepId};
use record::{CallCommand, CallRecord, NewRun, Record, RecordLedger, StandingEntry, Time};
use secrets::Masker;

use crate::error::{CallError, stopped, unusable};
use crate::known;
use crate::leftovers::Found;
use crate::moved::Moves;
use crate::open::{First, Held, tools};
use crate::standing::{CallLedger, Standing};
use crate::ui::Notice;
use crate::world::{Agreed, PhaseSource, TargetWorld};

/// How a call ended.
#[derive(Debug)]
pub struct Ended {
    /// The record of the run, where there is one.
    pub record: Option<Record>,
    /// Why it did not end well.
    pub error: Option<CallError>,
    /// What the process ends with.
    pub exit: ExitCode,
}

impl Ended {
    /// A call that ended with an error.
    pub(crate) fn failed(record: Option<Record>, error: CallError) -> Self {
        Self {
            record,
            exit: error.exit(),
            error: Some(error),
        }
    }

    /// A call that ended well.
    pub(crate) fn well(record: Option<Record>) -> Self {
        Self {
            record,
            error: None,
            exit: ExitCode::Done,
        }
    }
}

impl Held<'_> {
    /// This call, as the record keeps it.
    pub(crate) fn call(&self, command: CallCommand) -> CallRecord {
        let bench = &self.bench;
        let today = self.today.as_ref().ok();
        let now = (bench.machine.now)();
        CallRecord {
            command,
            started: Time::from(now),
            ended: None,
            exit: None,
            user: bench.machine.user.clone(),
            host: bench.machine.host.clone(),
            ci_job: bench.machine.ci_job.clone(),
            tools: tools(bench),
            commit: today.and_then(|today| today.commit.clone()),
            dirty: today.is_some_and(|today| today.dirty),
            bundle: today.map(|today| today.bundle.digest().to_owned()),
        }
    }

    /// Opens the ledger of this call. Nothing is written before its first entry.
    pub(crate) fn ledger(&self, command: CallCommand) -> Result<RecordLedger, Failure> {
        self.ledger_in(self.records_of_call(), command)
    }

    /// What stands of the target's own steps, whatever this call is about.
    pub(crate) fn target_standing(&self) -> Result<Standing, Failure> {
        let records = record::RecordStore::new(Arc::clone(&self.store));
        Ok(Standing(
            self.ledger_in(records, CallCommand::Provision)?.view(),
        ))
    }

    /// Opens the ledger of this call in other records.
    pub(crate) fn ledger_in(
        &self,
        records: record::RecordStore,
        command: CallCommand,
    ) -> Result<RecordLedger, Failure> {
        let bench = &self.bench;
        let today = self.today.as_ref().ok();
        let sequence = match today {
            Some(today) if bench.workspace.is_none() => today
                .platform
                .sequence()
                .map_err(|error| unusable(&error))?,
            _ => Sequence::default(),
        };
        let call = self.call(command);
        let new_run = NewRun {
            run: self.run.clone(),
            platform: self.platform_name.clone(),
            target: bench.target.name.clone(),
            budget: today.and_then(|today| today.platform.time_budget),
        };
        let clock = Arc::clone(&bench.machine.now);
        RecordLedger::open(
            records,
            self.lock.fence(),
            sequence,
            new_run,
            call,
            Box::new(move || Time::from(clock())),
        )
        .map_err(|error| stopped(&error))
    }

    /// Where the record of this call lies: the target's store, or this machine for a workspace's.
    fn records_of_call(&self) -> record::RecordStore {
        let store: Arc<dyn store::Store> = match &self.bench.workspace {
            None => Arc::clone(&self.store),
            Some(step) => Arc::new(store::LocalStore::open(
                self.paths.workspace(step.step.as_str()),
            )),
        };
        record::RecordStore::new(store)
    }

    /// Waits for what a killed call started, brings what it left to the store, and records both.
    ///
    /// In this order: a kill at any instant of it loses nothing. What a child may have made is in the record before
    /// its state is touched, its state is in the store before its output is forgotten.
    pub(crate) fn settle_leftovers(&self, ledger: &mut RecordLedger) -> Result<(), Failure> {
        let bench = &self.bench;
        bench.await_children()?;
        bench.release_locks_of_dead()?;
        let found = bench.leftovers()?;
        let now = Time::from((bench.machine.now)());
        if let Some(record) = ledger.record() {
            let mut settled = record.clone();
            // We hold the target's lock, so nobody runs what the record says is running.
            let mut is_changed = settled.cut();
            for found in &found {
                is_changed |= suspect(&mut settled, found, &bench.masker, now);
            }
            if is_changed {
                ledger
                    .change(|record| *record = settled)
                    .map_err(|error| stopped(&error))?;
            }
        }
        let standing = Standing(ledger.view());
        let mut marks = Vec::new();
        for found in &found {
            if let Some(mark) = bench.rescue(found, &standing)? {
                marks.push((&found.step, mark));
            }
        }
        if let Some(record) = ledger.record() {
            let mut settled = record.clone();
            for (step, mark) in marks {
                let entries = &mut settled.standing;
                if let Some(entry) = entries.iter_mut().find(|entry| entry.step == *step) {
                    entry.state = Some(mark);
                    entry.writing = None;
                }
            }
            // Of what was written on another machine `settle_lost_hosts` asks whether it is lost.
            let here = bench.machine.host.as_str();
            bench.settle_writings(&mut settled, |host| host.is_none_or(|host| host == here))?;
            self.clear_suspects(&mut settled, &standing);
            if settled != *record {
                ledger
                    .change(|record| *record = settled)
                    .map_err(|error| stopped(&error))?;
            }
        }
        bench.forget_leftovers(&found)?;
        self.settle_moves(ledger)
    }

    /// A suspect that is in its step's state is none: it was rescued with it, or a person has imported it.
    fn clear_suspects(&self, record: &mut Record, standing: &Standing) {
        let steps: BTreeSet<StepId> = record
            .suspects
            .iter()
            .filter(|suspect| suspect.address.is_some())
            .map(|suspect| suspect.step.clone())
            .collect();
        for step in steps {
            // A step that does not stand any more has no state that could tell.
            if standing.get(&step).is_none() {
                continue;
            }
            // What can't be read now can't clear anything either.
            let Ok(objects) = self.bench.objects_now(&step, standing) else {
                continue;
            };
            record
                .suspects
                .retain(|suspect| suspect.step != step || !objects.has(&suspect.suspected()));
        }
    }

    /// The world that a walk drives.
    pub(crate) fn world(
        &self,
        standing: Standing,
        run: RunId,
        jobs: usize,
    ) -> Result<TargetWorld<'_, '_>, Failure> {
        for entry in standing.all() {
            self.new_enough_for(&entry)?;
            self.bench.recall_outputs(&entry, &standing)?;
        }
        let phase_sources = self.phase_sources(&standing)?;
        let cut_teardowns = standing.cut_teardowns();
        let jobs = match jobs {
            0 => std::thread::available_parallelism().map_or(2, std::num::NonZeroUsize::get),
            jobs => jobs,
        };
        Ok(TargetWorld {
            bench: &self.bench,
            today: self.today.as_ref().ok().cloned(),
            standing,
            phase_sources,
            plans: Mutex::default(),
            n_changes: AtomicU64::new(0),
            proven: Mutex::default(),
            cut_teardowns,
            jobs,
            run,
            heading: Mutex::default(),
            agreed: Agreed::default(),
            upgrade: None,
            moves: Moves::new(),
        })
    }

    /// What each phase of which something stands was last applied from.
    pub(crate) fn phase_sources(
        &self,
        standing: &Standing,
    ) -> Result<BTreeMap<PhaseId, PhaseSource>, Failure> {
        let mut sources = BTreeMap::new();
        for entry in standing.all() {
            let source = self.bench.library.get(&entry.applied.bundle)?;
            let found = PhaseSource::of(source, &entry.step, &entry.applied);
            sources.insert(entry.step.phase, found);
        }
        Ok(sources)
    }

    /// A tool older than the one that last wrote a state is refused: it may misread what it finds there.
    fn new_enough_for(&self, entry: &StandingEntry) -> Result<(), Failure> {
        let program = &self.bench.program;
        let Some(writer) = entry
            .applied
            .tool
            .as_ref()
            .filter(|tool| tool.name == "tofu")
        else {
            return Ok(());
        };
        if program.is_new_enough_for(&writer.version) {
            return Ok(());
        }
        Err(Failure::new(
            ExitCode::Unusable,
            format!(
                "`{}` is OpenTofu {}, and the state of step `{}` was written by {}",
                program.path.display(),
                program.version,
                entry.step,
                writer.version
            ),
        )
        .hint("use that version or a newer one; an older one may misread the state. Nothing was changed"))
    }

    /// The ledger with what must be in the store before it is: what a first build writes before its run begins,
    /// and bundles.
    pub(crate) fn with_first<'a>(&'a self, ledger: RecordLedger) -> CallLedger<'a> {
        let mut is_first = true;
        let consents = Arc::clone(&self.bench.consents);
        let before = move || {
            if is_first {
                self.write_first()?;
                is_first = false;
            }
            self.bench.library.flush()
        };
        let ended = |steps: &[StepId]| self.bench.forget_ended(steps);
        CallLedger::new(ledger, Arc::clone(&self.bench.ui), consents, before, ended)
    }

    pub(crate) fn write_first(&self) -> Result<(), Failure> {
        let lost = |error: &(dyn std::error::Error + 'static)| Failure::of(ExitCode::Failed, error);
        let First { keys, target, id } = &self.first;
        if let Some(keys) = keys {
            store::settle::put_if_absent(self.store.as_ref(), &store::layout::keys_json(), keys)
                .map_err(|error| lost(&error))?;
        }
        if let Some(target) = target {
            self.records
                .create_target(target)
                .map_err(|error| lost(&error))?;
        }
        known::remember(&self.paths.known(), id).map_err(|error| lost(&error))?;
        if let Ok(today) = &self.today {
            self.bench.library.keep(&today.bundle)?;
        }
        Ok(())
    }

    /// Gives the lock back. Losing it is no failure of what was done.
    pub(crate) fn release(self) {
        let Self { bench, lock, .. } = self;
        let ui = Arc::clone(&bench.ui);
        let backend = Arc::clone(bench.server.backend());
        bench.server.stop();
        // A `tofu` that was killed could not give its state's lock back; nobody is served any more.
        let released = process::Identity::of_self()
            .map_err(|error| error.to_string())
            .and_then(|me| {
                backend
                    .release_locks_of_dead(&|writer| writer.identity == me)
                    .map_err(|error| error.to_string())
            });
        if let Err(message) = released {
            ui.tell(&Notice::Warning {
                message,
                hint: None,
            });
        }
        // Both, where the states moved in this call.
        if let Err(error) = lock.release() {
            ui.tell(&Notice::Warning {
                message: error.to_string(),
                hint: None,
            });
        }
    }
}

/// Records what a dead child may have made; says whether anything of it is new.
fn suspect(record: &mut Record, found: &Found, masker: &Masker, now: Time) -> bool {
    let mut is_changed = false;
    let of_step = record.step(&found.step);
    let host = of_step.and_then(|step| step.host.clone());
    for suspected in found.suspects(Some(record), masker) {
        is_changed |= record.suspect(&found.step, suspected, host.clone(), now);
    }
    is_changed
}

//! The ledger inside the record: each of the engine's entries becomes a durable write.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use phase_engine::{
    CallKind, Entry, History, Ledger, LedgerError, RunId, RunStatus, Sequence, TargetName,
};

use crate::fold::{Bucket, Fold};
use crate::{CallRecord, Detail, Head, Loaded, Record, RecordError, RecordStore, SCHEMA, Time};

/// Tells the time.
pub type Clock = Box<dyn Fn() -> Time + Send>;

/// What a run is begun with, if this call comes to begin one.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Its id.
    pub run: RunId,
    /// The platform's name.
    pub platform: String,
    /// The target.
    pub target: TargetName,
    /// The platform's `time_budget`.
    pub budget: Option<Duration>,
}

/// A look at the record as it was last stored, for the threads that work on steps.
#[derive(Debug, Clone, Default)]
pub struct RecordView(Arc<Mutex<Option<Arc<Record>>>>);

impl RecordView {
    /// Gives the record as it was last stored; none where the target has had no run.
    pub fn get(&self) -> Option<Arc<Record>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, record: &Arc<Record>) {
        let record = Some(Arc::clone(record));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = record;
    }
}

/// The ledger of a call: the record that the head points to, or the one that this call begins.
///
/// Nothing is written before the first entry. Each write goes to the record first, then, where the
/// pointer changes, to the head.
pub struct RecordLedger {
    store: RecordStore,
    head: Option<Loaded<Head>>,
    current: Option<Loaded<Arc<Record>>>,
    view: RecordView,
    fence: u64,
    sequence: Sequence,
    new_run: NewRun,
    call: CallRecord,
    clock: Clock,
    /// When this call last wrote, and on what time was spent since.
    last: Option<Time>,
    bucket: Option<Bucket>,
}

impl RecordLedger {
    /// Reads where the target is. `fence` is the number of the target's lock, which this call
    /// holds; `sequence` is today's.
    pub fn open(
        store: RecordStore,
        fence: u64,
        sequence: Sequence,
        new_run: NewRun,
        call: CallRecord,
        clock: Clock,
    ) -> Result<Self, RecordError> {
        let head = store.head()?;
        let current = store.current()?.map(Loaded::shared);
        let view = RecordView::default();
        if let Some(current) = &current {
            view.set(&current.value);
        }
        Ok(Self {
            store,
            head,
            current,
            view,
            fence,
            sequence,
            new_run,
            call,
            clock,
            last: None,
            bucket: None,
        })
    }

    /// Gives the record as it was last stored.
    pub fn record(&self) -> Option<&Record> {
        self.current.as_ref().map(|current| &*current.value)
    }

    /// Gives a look at the record that follows this ledger.
    pub fn view(&self) -> RecordView {
        self.view.clone()
    }

    /// Gives what the ledger says so far; of a target that has had no run, nothing.
    pub fn history(&self) -> History {
        self.record().map_or_else(History::default, Record::history)
    }

    /// Changes the record of the target's run by something else than an entry: a decision, a
    /// suspect, what a rescue or a repair did.
    pub fn change(&mut self, change: impl FnOnce(&mut Record)) -> Result<(), RecordError> {
        let Some(current) = &mut self.current else {
            return Err(RecordError::NoRun);
        };
        let mut record = Record::clone(&current.value);
        change(&mut record);
        record.fence = self.fence;
        self.store.save(current, Arc::new(record))?;
        self.view.set(&current.value);
        self.mend_head()
    }

    /// Changes the record of the target's run; where nothing stands from one, begins a run that has
    /// applied nothing: what stands in it was made elsewhere.
    pub fn adopt(
        &mut self,
        change: impl FnOnce(&mut Record, &Sequence),
    ) -> Result<(), RecordError> {
        let former = self.record();
        if former.is_some_and(|record| record.status != RunStatus::TornDown) {
            let sequence = self.sequence.clone();
            return self.change(|record| change(record, &sequence));
        }
        let now = (self.clock)();
        let mut record = self.begin(former);
        record.status = RunStatus::Finished;
        record.calls.push(CallRecord {
            ended: Some(now),
            exit: Some(0),
            ..self.call.clone()
        });
        change(&mut record, &self.sequence);
        let begun = self.store.begin(record, &mut self.head)?.shared();
        self.view.set(&begun.value);
        self.current = Some(begun);
        Ok(())
    }

    /// Gives the record that a call of this kind goes on with, and whether it is a new one.
    fn base(&self, entries: &[Entry<Detail>]) -> Result<(Record, bool), RecordError> {
        let current = self.record();
        match (entries.first(), current) {
            (
                Some(Entry::CallBegan {
                    kind: CallKind::New,
                }),
                _,
            )
            | (
                Some(Entry::CallBegan {
                    kind: CallKind::TearDown,
                }),
                None,
            ) => Ok((self.begin(current), true)),
            (_, Some(current)) => Ok((current.clone(), false)),
            (_, None) => Err(RecordError::NoRun),
        }
    }

    /// Makes the record of a new run, which inherits what stands and what is suspect.
    fn begin(&self, former: Option<&Record>) -> Record {
        Record {
            schema: SCHEMA,
            fence: self.fence,
            run: self.new_run.run.clone(),
            previous: former.map(|former| former.run.clone()),
            platform: self.new_run.platform.clone(),
            target: self.new_run.target.clone(),
            status: RunStatus::Running,
            finished: None,
            teardown_began: None,
            first_start: self.call.started,
            last_verify: None,
            total_seconds: 0.0,
            budget_seconds: self.new_run.budget.map(|budget| budget.as_secs_f64()),
            over_budget: false,
            calls: Vec::new(),
            phases: Vec::new(),
            steps: Vec::new(),
            standing: former
                .map(|former| former.standing.clone())
                .unwrap_or_default(),
            suspects: former
                .map(|former| former.suspects.clone())
                .unwrap_or_default(),
            seen: None,
            decisions: Vec::new(),
            error: None,
            unknown: Default::default(),
        }
    }

    fn store(&mut self, entries: Vec<Entry<Detail>>) -> Result<(), RecordError> {
        let now = (self.clock)();
        let (mut record, is_new) = self.base(&entries)?;
        let mut bucket = self.bucket.clone();
        let mut fold = Fold {
            record: &mut record,
            sequence: &self.sequence,
            call: &self.call,
            now,
        };
        if let Some(last) = self.last {
            fold.spend(&entries, &bucket, last);
        }
        for entry in entries {
            fold.entry(entry, &mut bucket)?;
        }
        record.fence = self.fence;
        match &mut self.current {
            Some(current) if !is_new => self.store.save(current, Arc::new(record))?,
            _ => self.current = Some(self.store.begin(record, &mut self.head)?.shared()),
        }
        if let Some(current) = &self.current {
            self.view.set(&current.value);
        }
        self.last = Some(now);
        self.bucket = bucket;
        self.mend_head()
    }

    /// Lets the head say that the run is finished, once its record does; a call may have been cut
    /// between the two.
    fn mend_head(&mut self) -> Result<(), RecordError> {
        let (Some(head), Some(current)) = (&mut self.head, &self.current) else {
            return Ok(());
        };
        let run = &current.value.run;
        if current.value.finished.is_none() || head.value.last_known_good.as_ref() == Some(run) {
            return Ok(());
        }
        let value = Head {
            fence: self.fence,
            last_known_good: Some(run.clone()),
            ..head.value.clone()
        };
        self.store.save_head(head, value)
    }
}

impl Ledger<Detail> for RecordLedger {
    fn append(&mut self, entries: Vec<Entry<Detail>>) -> Result<(), LedgerError> {
        let run = self
            .record()
            .map_or(&self.new_run.run, |record| &record.run)
            .clone();
        self.store(entries).map_err(|error| {
            LedgerError::new(format!("cannot keep the record of run `{run}`"), error)
        })
    }
}

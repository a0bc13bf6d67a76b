//! Turns the engine's entries into changes of a record.

use phase_engine::{
    Basis, CallKind, Entry, ExitCode, Failure, Part, PhaseFailure, PhaseId, RunStatus, Sequence,
    StepEvent, StepId, StepStatus, merge, place,
};

use crate::time::rounded;
use crate::{
    Applied, CallRecord, Detail, ErrorRecord, PhaseRecord, PhaseStatus, PlannedChange, PlannedWork,
    Record, RecordError, StandingEntry, Starting, StepRecord, Time, Writing,
};

/// Which of a phase's times is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bucket {
    phase: PhaseId,
    is_verify: bool,
}

/// One write: the record as it will be, and what is needed to get it there.
pub(crate) struct Fold<'a> {
    pub(crate) record: &'a mut Record,
    pub(crate) sequence: &'a Sequence,
    pub(crate) call: &'a CallRecord,
    pub(crate) now: Time,
}

impl Fold<'_> {
    /// Adds the time since the last write to what it was spent on.
    pub(crate) fn spend(
        &mut self,
        entries: &[Entry<Detail>],
        bucket: &Option<Bucket>,
        since: Time,
    ) {
        let seconds = self.now.seconds_since(since);
        let add = |time: &mut f64| *time = rounded(*time + seconds);
        match (entries.first(), bucket) {
            // Asking took it.
            (Some(Entry::Checkpoint { phase, .. }), _) => {
                add(&mut self.phase(phase).pause_seconds);
            }
            // Between two phases: what made the next one ready.
            (Some(Entry::PhaseApplying { phase }), _) => {
                add(&mut self.phase(phase).apply_seconds);
            }
            (
                _,
                Some(Bucket {
                    phase,
                    is_verify: false,
                }),
            ) => {
                add(&mut self.phase(phase).apply_seconds);
            }
            (
                _,
                Some(Bucket {
                    phase,
                    is_verify: true,
                }),
            ) => {
                add(&mut self.phase(phase).verify_seconds);
            }
            (_, None) => {}
        }
    }

    /// Applies one entry.
    pub(crate) fn entry(
        &mut self,
        entry: Entry<Detail>,
        bucket: &mut Option<Bucket>,
    ) -> Result<(), RecordError> {
        match entry {
            Entry::CallBegan { kind } => self.call_began(kind),
            Entry::PhaseApplying { phase } => {
                *bucket = Some(Bucket {
                    phase: phase.clone(),
                    is_verify: false,
                });
                let (commit, bundle) = (self.call.commit.clone(), self.call.bundle.clone());
                let phase = self.phase(&phase);
                phase.status = PhaseStatus::Applying;
                phase.commit = commit;
                phase.bundle = bundle;
            }
            Entry::Step {
                step,
                event,
                definition,
                detail,
                failure,
            } => {
                self.step(&step, event, definition, detail, failure)?;
            }
            Entry::Note { step, detail } => self.detail(&step, detail),
            Entry::PhaseVerifying { phase, basis } => {
                *bucket = Some(Bucket {
                    phase: phase.clone(),
                    is_verify: true,
                });
                if basis == Basis::JustApplied {
                    self.phase(&phase).status = PhaseStatus::Verifying;
                }
            }
            Entry::PhaseVerified {
                phase,
                basis,
                steps,
            } => {
                *bucket = None;
                self.verified(&phase, basis, steps);
            }
            Entry::PhaseStopped {
                phase,
                part,
                failures,
            } => {
                *bucket = None;
                if part != Part::Reverify {
                    let exit = merge(failures.iter().map(|failure| failure.failure.exit));
                    let interrupted = exit == ExitCode::Interrupted;
                    self.phase(&phase).status = if interrupted {
                        PhaseStatus::Interrupted
                    } else {
                        PhaseStatus::Failed
                    };
                }
            }
            Entry::Checkpoint { .. } => {}
            Entry::TeardownBegan => self.record.teardown_began = Some(self.now),
            Entry::PhaseTearingDown { phase } => {
                let now = self.now;
                let phase = self.phase(&phase);
                phase.status = PhaseStatus::TearingDown;
                phase.teardown_began.get_or_insert(now);
            }
            Entry::PhaseGone { phase, warnings } => {
                self.record
                    .suspects
                    .retain(|suspect| suspect.step.phase != phase);
                let warning = |failure| ErrorRecord::of(Some(&phase), None, failure);
                let warnings = warnings.iter().map(warning).collect();
                let phase = self.phase(&phase);
                phase.status = PhaseStatus::TornDown;
                phase.warnings = warnings;
            }
            Entry::PhaseTeardownFailed { phase, .. } => {
                let phase = self.phase(&phase);
                // Of a phase that stays, only a step was to go.
                if phase.status.is_unproven() {
                    phase.status = PhaseStatus::TeardownFailed;
                }
            }
            Entry::CallEnded {
                status,
                exit,
                failures,
            } => {
                *bucket = None;
                self.call_ended(status, exit, &failures);
            }
        }
        Ok(())
    }

    fn call_began(&mut self, kind: CallKind) {
        let paused = self.record.status == RunStatus::Paused && kind == CallKind::Resume;
        let ended = self.record.calls.last().and_then(|call| call.ended);
        if let (true, Some(ended)) = (paused, ended) {
            let seconds = self.call.started.seconds_since(ended);
            let verified = self
                .record
                .phases
                .iter_mut()
                .filter(|phase| phase.verified.is_some());
            if let Some(phase) = verified.last() {
                phase.pause_seconds = rounded(phase.pause_seconds + seconds);
            }
        }
        self.record.status = RunStatus::Running;
        self.record.error = None;
        self.record.calls.push(self.call.clone());
    }

    fn call_ended(&mut self, status: RunStatus, exit: ExitCode, failures: &[PhaseFailure]) {
        self.record.status = status;
        self.record.error = failures.first().map(ErrorRecord::from);
        if status == RunStatus::Finished {
            self.record.finished.get_or_insert(self.now);
        }
        for phase in &mut self.record.phases {
            if matches!(phase.status, PhaseStatus::Applying | PhaseStatus::Verifying) {
                phase.status = match status {
                    RunStatus::Interrupted | RunStatus::Paused => PhaseStatus::Interrupted,
                    _ => PhaseStatus::Failed,
                };
            }
        }
        if let Some(call) = self.record.calls.last_mut() {
            call.ended = Some(self.now);
            call.exit = Some(exit.code());
        }
    }

    fn verified(&mut self, id: &PhaseId, basis: Basis, steps: Vec<StepId>) {
        let now = self.now;
        let phase = self.phase(id);
        phase.last_verify = Some(now);
        if basis == Basis::JustApplied {
            phase.status = PhaseStatus::Verified;
            phase.steps = steps;
            // Those that are verified stand in front, in the order in which they were.
            let phases = &mut self.record.phases;
            let at = phases
                .iter()
                .position(|phase| phase.id == *id)
                .unwrap_or_default();
            let mut phase = phases.remove(at);
            phase.verified.get_or_insert(now);
            let behind = phases.iter().position(|phase| phase.verified.is_none());
            let to = if at < behind.unwrap_or(phases.len()) {
                at
            } else {
                behind.unwrap_or(at)
            };
            phases.insert(to, phase);
        }
        let record = &mut *self.record;
        record.last_verify = Some(now);
        record.total_seconds = now.seconds_since(record.first_start);
        record.over_budget = record
            .budget_seconds
            .is_some_and(|budget| record.total_seconds > budget);
    }

    fn phase(&mut self, id: &PhaseId) -> &mut PhaseRecord {
        let phases = &mut self.record.phases;
        let at = phases
            .iter()
            .position(|phase| phase.id == *id)
            .unwrap_or_else(|| {
                phases.push(PhaseRecord {
                    id: id.clone(),
                    status: PhaseStatus::Applying,
                    commit: None,
                    bundle: None,
                    verified: None,
                    last_verify: None,
                    teardown_began: None,
                    apply_seconds: 0.0,
                    verify_seconds: 0.0,
                    pause_seconds: 0.0,
                    steps: Vec::new(),
                    made: Default::default(),
                    outputs: Default::default(),
                    warnings: Vec::new(),
                });
                phases.len() - 1
            });
        &mut phases[at]
    }

    fn step_record(&mut self, id: &StepId) -> &mut StepRecord {
        let steps = &mut self.record.steps;
        let at = steps
            .iter()
            .position(|step| step.step == *id)
            .unwrap_or_else(|| {
                steps.push(StepRecord {
                    step: id.clone(),
                    status: StepStatus::Pending,
                    attempts: 0,
                    started: None,
                    ended: None,
                    host: None,
                    definition: None,
                    planned: None,
                    forgotten: Vec::new(),
                    error: None,
                });
                steps.len() - 1
            });
        &mut steps[at]
    }

    fn standing(&mut self, id: &StepId) -> Option<&mut StandingEntry> {
        self.record
            .standing
            .iter_mut()
            .find(|entry| entry.step == *id)
    }

    fn step(
        &mut self,
        id: &StepId,
        event: StepEvent,
        definition: Option<String>,
        mut detail: Option<Detail>,
        failure: Option<Failure>,
    ) -> Result<(), RecordError> {
        let (now, host) = (self.now, self.call.host.clone());
        let error = failure.map(|failure| ErrorRecord::of(Some(&id.phase), Some(id), &failure));
        let starting = detail.as_mut().and_then(|detail| detail.starting.take());
        let step = self.step_record(id);
        step.status = step
            .status
            .after(event)
            .map_err(|source| RecordError::Event {
                step: id.clone(),
                source,
            })?;
        step.error = error;
        match event {
            StepEvent::Started => {
                let Some(starting) = starting else {
                    return Err(RecordError::Undescribed { step: id.clone() });
                };
                step.attempts += 1;
                step.started = Some(now);
                step.ended = None;
                step.host = Some(host);
                step.definition.clone_from(&definition);
                step.planned = Some(starting.planned.clone());
                self.stand(id, *starting, definition.unwrap_or_default());
                self.writes(id);
            }
            StepEvent::Succeeded => {
                step.ended = Some(now);
                step.planned = None;
                if let Some(standing) = self.standing(id) {
                    standing.settle();
                    standing.writing = None;
                }
            }
            StepEvent::Failed | StepEvent::Interrupted => {
                step.ended = Some(now);
                self.wrote(id);
            }
            StepEvent::TeardownStarted => {
                step.host = Some(host);
                self.writes(id);
            }
            StepEvent::TornDown | StepEvent::Forgotten => {
                self.record.standing.retain(|entry| entry.step != *id);
            }
            StepEvent::Verified | StepEvent::VerifyFailed | StepEvent::TeardownFailed => {
                self.wrote(id);
            }
        }
        if let Some(detail) = detail {
            self.detail(id, detail);
        }
        Ok(())
    }

    /// From now on the state of a step may be written.
    fn writes(&mut self, id: &StepId) {
        let writing = Writing {
            host: Some(self.call.host.clone()),
            since: self.now,
        };
        if let Some(standing) = self.standing(id).filter(|entry| entry.has_state()) {
            standing.writing = Some(writing);
        }
    }

    /// Nobody writes the state of a step any more. What it came to is in the detail, or for the next call to see.
    fn wrote(&mut self, id: &StepId) {
        let writing = self.standing(id).and_then(|entry| entry.writing.as_mut());
        if let Some(writing) = writing {
            writing.host = None;
        }
    }

    /// Replaces what stands of a step as its apply begins, at its place in order of application.
    fn stand(&mut self, id: &StepId, starting: Starting, definition: String) {
        let applied = Applied {
            definition,
            run: self.record.run.clone(),
            since: self.now,
            attempted: true,
            ..starting.applied
        };
        let standing = &mut self.record.standing;
        let mut ids: Vec<StepId> = standing.iter().map(|entry| entry.step.clone()).collect();
        let former = ids
            .iter()
            .position(|other| other == id)
            .map(|at| standing.remove(at));
        let entry = match former {
            Some(mut entry) => {
                entry.kind = starting.kind;
                entry.contained_in = starting.contained_in;
                entry.attempt(applied);
                entry
            }
            None => StandingEntry {
                step: id.clone(),
                formerly: Vec::new(),
                moving_to: None,
                kind: starting.kind,
                contained_in: starting.contained_in,
                applied,
                previous: Vec::new(),
                state: None,
                writing: None,
                outputs: Default::default(),
                adopted: None,
            },
        };
        let at = place(&mut ids, id, self.sequence);
        standing.insert(at, entry);
    }

    fn detail(&mut self, id: &StepId, detail: Detail) {
        let Detail {
            starting: _,
            writes,
            planned,
            state,
            made,
            outputs,
            suspects,
            forgotten,
        } = detail;
        let now = self.now;
        let host = self.call.host.clone();
        if writes {
            self.writes(id);
        }
        let step = self.step_record(id);
        if !planned.is_empty() {
            let work = step.planned.get_or_insert_with(PlannedWork::default);
            for change in planned {
                let is_it = |known: &PlannedChange| {
                    known.address == change.address && known.action == change.action
                };
                // A plan that was made first told more of it.
                if !work.changes.iter().any(is_it) {
                    work.changes.push(change);
                }
            }
        }
        step.forgotten.extend(forgotten);
        if !made.is_empty() {
            let phase = self.phase(&id.phase);
            for (action, types) in made {
                let counts = phase.made.entry(action).or_default();
                for (kind, count) in types {
                    *counts.entry(kind).or_default() += count;
                }
            }
        }
        if let Some(outputs) = outputs {
            let outputs = crate::Outputs::of(outputs);
            let of_phase = &mut self.phase(&id.phase).outputs;
            of_phase.insert(id.step.to_string(), outputs.clone());
            if let Some(standing) = self.standing(id) {
                standing.outputs = outputs;
            }
        }
        if let (Some(state), Some(standing)) = (state, self.standing(id)) {
            standing.state = Some(state);
            standing.writing = None;
        }
        for found in suspects {
            self.record.suspect(id, found, Some(host.clone()), now);
        }
    }
}

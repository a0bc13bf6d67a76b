//! What `repair` and `accept` have in common: which phase, whether it may be mended at all, and what is recorded.
//!
//! Neither is a run of its own. The call and the decision go into the record of the target's run with the first
//! thing that is done; a call that finds nothing to do leaves nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use phase_engine::{
    Basis, Entry, ExitCode, Failure, Ledger, NotStored, Notes, PhaseId, RunState, StepEvent,
    StepId, StepStatus,
};
use platform::{PhaseDef, StepDef, TofuStep};
use preflight::{Looked, PlanFacts, StepObservation, Verdict};
use record::{
    Applied, CallCommand, CallRecord, Decision, DecisionKind, Detail, Record, RecordLedger,
    StandingEntry, StateMark, Time,
};
use tofu::{Planned, Session};

use crate::api::{Machine, MendOptions, Site};
use crate::error::{CallError, stopped};
use crate::guard;
use crate::library::Source;
use crate::open::{Held, OnFaults, Opened};
use crate::session::Ended;
use crate::standing::Standing;
use crate::stop::{StopLevel, StopRequests};
use crate::ui::{Notice, Ui};
use crate::world::{Agreed, TargetWorld};

/// Opens a call that mends a phase, does it, and ends it.
pub(crate) fn mend(
    machine: &Machine,
    site: &Site,
    options: &MendOptions,
    command: CallCommand,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
    work: impl FnOnce(&TargetWorld<'_, '_>, &Mending) -> Result<(), Failure>,
) -> Ended {
    let word = word(command);
    let opened = Opened::open(machine, site, stop, ui, OnFaults::GoOn);
    let held = match opened.and_then(|opened| opened.hold(word, None)) {
        Ok(held) => held,
        Err(error) => return Ended::failed(None, error),
    };
    let (record, ended) = mended(&held, options, command, work);
    held.release();
    match ended {
        Ok(()) => Ended::well(record),
        Err(failure) => Ended::failed(record, CallError::from(failure)),
    }
}

/// What the flags of a call agree to, as the record has it.
fn flags(options: &MendOptions) -> Vec<(DecisionKind, String)> {
    let all = [
        (DecisionKind::AllowDestroy, &options.allow_destroy),
        (DecisionKind::Replace, &options.replace),
        (DecisionKind::Keep, &options.keep),
    ];
    all.into_iter()
        .flat_map(|(kind, names)| names.iter().map(move |name| (kind, name.clone())))
        .collect()
}

/// What puts drift right besides a teardown.
pub(crate) fn ways_on(phase: &str, target: &str) -> String {
    format!(
        "`rebuild repair {phase} --target {target}` brings phase `{phase}` back to what was applied, \
         `rebuild accept {phase} --target {target} --reason TEXT` takes it as it is"
    )
}

/// A repair in a phase that a run has behind it must come to its end before the run goes on.
pub(crate) fn none_cut(record: &Record, target: &str) -> Result<(), Failure> {
    let history = record.history();
    let cut = record.steps.iter().find(|step| {
        history.is_verified(&step.step.phase)
            && matches!(
                step.status,
                StepStatus::Started | StepStatus::Failed | StepStatus::Interrupted
            )
    });
    let Some(step) = cut else {
        return Ok(());
    };
    let phase = &step.step.phase;
    Err(Failure::new(
        ExitCode::Stopped,
        format!(
            "the repair of phase `{phase}` has not come to a good end: step `{}` is `{}`",
            step.step, step.status
        ),
    )
    .hint(format!(
        "`rebuild repair {phase} --target {target}` goes on with it"
    )))
}

fn word(command: CallCommand) -> &'static str {
    match command {
        CallCommand::Accept => "accept",
        _ => "repair",
    }
}

fn mended(
    held: &Held<'_>,
    options: &MendOptions,
    command: CallCommand,
    work: impl FnOnce(&TargetWorld<'_, '_>, &Mending) -> Result<(), Failure>,
) -> (Option<Record>, Result<(), Failure>) {
    let mut inner = match held.ledger(command) {
        Ok(inner) => inner,
        Err(failure) => return (None, Err(failure)),
    };
    let ready = ready(held, options, command, &mut inner);
    let (phase, record) = match ready {
        Ok(ready) => ready,
        Err(failure) => return (inner.record().cloned(), Err(failure)),
    };
    let mut world = match held.world(Standing(inner.view()), record.run.clone(), 0) {
        Ok(world) => world,
        Err(failure) => return (Some(record), Err(failure)),
    };
    world.agreed = Agreed {
        allow_destroy: options
            .allow_destroy
            .iter()
            .filter_map(|phase| PhaseId::new(phase.as_str()).ok())
            .collect(),
        replace: options.replace.iter().cloned().collect(),
        keep: options.keep.iter().cloned().collect(),
    };
    let mending = Mending {
        command,
        phase,
        call: held.call(command),
        reason: options.reason.clone(),
        flags: flags(options),
        ledger: Mutex::new(Book {
            inner,
            has_begun: false,
        }),
    };
    let done = work(&world, &mending).and_then(|()| mending.prove(&world));
    if done.is_ok() {
        mending.tell_idle(&world);
    }
    let done = mending.end(&world, done);
    let record = mending.lock().inner.record().cloned();
    held.archive_ended(record.as_ref());
    (
        record,
        done.map_err(|failure| held.bench.masked_failure(failure)),
    )
}

/// Brings what a dead call left to its end, and says which phase is to be mended, or why none may.
fn ready(
    held: &Held<'_>,
    options: &MendOptions,
    command: CallCommand,
    inner: &mut RecordLedger,
) -> Result<(PhaseId, Record), Failure> {
    held.settle_leftovers(inner)?;
    held.settle_lost_hosts(inner, None)?;
    let target = held.bench.target.name.as_str();
    let phase = PhaseId::new(options.phase.as_str())
        .map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
    if let Some(other) = options
        .allow_destroy
        .iter()
        .find(|allowed| **allowed != options.phase)
    {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!("`--allow-destroy {other}` is not the phase that is mended, `{phase}`"),
        ));
    }
    let Some(record) = inner.record().cloned() else {
        return Err(nothing_stands(&phase, &[]));
    };
    if RunState::of(&record.history(), false).is_tearing_down() {
        return Err(phase_engine::Refusal::TeardownBegun.failure(&held.bench.target.name));
    }
    crate::suspects::none_unsettled(Some(&record), target)?;
    let standing: Vec<&StandingEntry> = record
        .standing
        .iter()
        .filter(|entry| entry.step.phase == phase)
        .collect();
    if standing.is_empty() {
        return Err(nothing_stands(&phase, &record.standing));
    }
    for entry in standing {
        let is_whole = entry
            .as_applied()
            .is_some_and(|applied| applied.bundle == entry.applied.bundle);
        if !is_whole {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "step `{}` was last applied from other definitions, and that did not end well",
                    entry.step
                ),
            )
            .hint(format!(
                "`rebuild up --target {target} --resume` applies it; `{}` is for what was applied whole",
                word(command)
            )));
        }
    }
    Ok((phase, record))
}

fn nothing_stands(phase: &PhaseId, standing: &[StandingEntry]) -> Failure {
    let mut phases: Vec<String> = Vec::new();
    for entry in standing {
        let name = format!("`{}`", entry.step.phase);
        if !phases.contains(&name) {
            phases.push(name);
        }
    }
    let failure = Failure::new(
        ExitCode::Unusable,
        format!("nothing of phase `{phase}` stands"),
    );
    if phases.is_empty() {
        failure.hint("there is nothing to mend; `rebuild up` builds")
    } else {
        failure.hint(format!("what stands is of phases {}", phases.join(", ")))
    }
}

/// What a call that mends has under its hands.
pub(crate) struct Mending {
    command: CallCommand,
    pub(crate) phase: PhaseId,
    call: CallRecord,
    reason: Option<String>,
    /// What the flags of this call agree to.
    flags: Vec<(DecisionKind, String)>,
    ledger: Mutex<Book>,
}

/// The ledger, and whether the call is in it.
struct Book {
    inner: RecordLedger,
    has_begun: bool,
}

impl Mending {
    fn lock(&self) -> MutexGuard<'_, Book> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores entries; the call and the decision that led to it in front of the first.
    pub(crate) fn append(
        &self,
        world: &TargetWorld<'_, '_>,
        entries: Vec<Entry<Detail>>,
    ) -> Result<(), Failure> {
        let mut book = self.lock();
        if !book.has_begun {
            let decision = Decision {
                kind: match self.command {
                    CallCommand::Accept => DecisionKind::Accept,
                    _ => DecisionKind::Repair,
                },
                at: Time::from((world.bench.machine.now)()),
                user: world.bench.machine.user.clone(),
                about: Some(self.phase.to_string()),
                reason: self
                    .reason
                    .as_deref()
                    .map(|reason| world.bench.masked(reason)),
            };
            let call = self.call.clone();
            let mut decisions = vec![decision.clone()];
            decisions.extend(self.flags.iter().map(|(kind, about)| Decision {
                kind: *kind,
                about: Some(about.clone()),
                reason: None,
                ..decision.clone()
            }));
            book.inner
                .change(|record| {
                    record.calls.push(call);
                    record.decisions.extend(decisions);
                })
                .map_err(|error| stopped(&error))?;
            book.has_begun = true;
        }
        let consents = std::mem::take(
            &mut *world
                .bench
                .consents
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        if !consents.is_empty() {
            book.inner
                .change(|record| record.decisions.extend(consents))
                .map_err(|error| stopped(&error))?;
        }
        let ended = crate::standing::ended_badly(&entries);
        book.inner.append(entries).map_err(|error| {
            Failure::of(ExitCode::Failed, &error)
                .hint("nothing more was begun; type the same command again")
        })?;
        world.bench.forget_ended(&ended);
        Ok(())
    }

    /// Stores one event of a step.
    pub(crate) fn step(
        &self,
        world: &TargetWorld<'_, '_>,
        step: &StepId,
        event: StepEvent,
        detail: Option<Detail>,
        failure: Option<Failure>,
    ) -> Result<(), Failure> {
        self.append(world, vec![Entry::step(step, event, detail, failure)])
    }

    /// The steps of the phase that stand, in order of application.
    pub(crate) fn steps(&self, world: &TargetWorld<'_, '_>) -> Result<Vec<MendStep>, Failure> {
        let mut steps = Vec::new();
        for entry in world.standing.of_phase(&self.phase) {
            let Some(applied) = entry.as_applied().cloned() else {
                continue;
            };
            let source = world.bench.library.get(&applied.bundle)?;
            steps.push(MendStep {
                entry,
                applied,
                source,
            });
        }
        Ok(steps)
    }

    /// Says whether an apply of the step has a beginning and no good end, so that its state may have moved on.
    pub(crate) fn was_cut(&self, step: &StepId) -> bool {
        let book = self.lock();
        let status = book
            .inner
            .record()
            .and_then(|record| record.step(step))
            .map(|step| step.status);
        matches!(
            status,
            Some(StepStatus::Started | StepStatus::Failed | StepStatus::Interrupted)
        )
    }

    /// Proves the phase: its checks, with the time that they have after an apply, then what preflight sees.
    fn prove(&self, world: &TargetWorld<'_, '_>) -> Result<(), Failure> {
        self.go_on(world)?;
        if self.lock().has_begun {
            phase_engine::World::check(world, &self.phase, Basis::JustApplied)?;
        }
        let report = world.look_at_standing(Some(std::slice::from_ref(&self.phase)))?;
        world.tell_report(&report);
        if report.passes() {
            return Ok(());
        }
        self.go_on(world)?;
        let target = &world.bench.target.name;
        let failure = Failure::failed(format!(
            "phase `{}` is not as applied after `{}`",
            self.phase,
            word(self.command)
        ));
        Err(match self.command {
            CallCommand::Accept => failure.hint(format!(
                "`accept` takes what changed in objects; what a check or a program looks at must be put right: \
                 `rebuild repair {} --target {target}`, or by hand",
                self.phase
            )),
            _ => failure.hint(format!(
                "what it shows is not of these definitions' making: put it right by hand, or \
                 `rebuild accept {} --target {target} --reason TEXT` takes it as it is",
                self.phase
            )),
        })
    }

    /// A call that found nothing to do says so.
    fn tell_idle(&self, world: &TargetWorld<'_, '_>) {
        if self.lock().has_begun {
            return;
        }
        let (phase, word) = (&self.phase, word(self.command));
        world.bench.ui.tell(&Notice::Told {
            message: format!(
                "phase `{phase}` is as it was applied: nothing to {word}, and nothing was recorded"
            ),
        });
    }

    /// Stops where that was asked for.
    pub(crate) fn go_on(&self, world: &TargetWorld<'_, '_>) -> Result<(), Failure> {
        if world.bench.stop.level() < StopLevel::Gentle {
            return Ok(());
        }
        Err(
            Failure::new(ExitCode::Interrupted, "interrupted").hint(format!(
                "`rebuild {} {}` goes on",
                word(self.command),
                self.phase
            )),
        )
    }

    /// Stores the end of the call, where anything of it was stored.
    fn end(&self, world: &TargetWorld<'_, '_>, done: Result<(), Failure>) -> Result<(), Failure> {
        let mut book = self.lock();
        if !book.has_begun {
            return done;
        }
        let exit = done.as_ref().err().map_or(ExitCode::Done, |why| why.exit);
        let now = Time::from((world.bench.machine.now)());
        let stored = book.inner.change(|record| {
            if let Some(call) = record.calls.last_mut() {
                call.ended = Some(now);
                call.exit = Some(exit.code());
            }
        });
        done.and(stored.map_err(|error| stopped(&error)))
    }
}

/// A step at work keeps its notes in the record.
pub(crate) struct MendNotes<'a, 'b, 'm> {
    pub(crate) mending: &'a Mending,
    pub(crate) world: &'a TargetWorld<'b, 'm>,
    pub(crate) step: &'a StepId,
}

impl Notes<Detail> for MendNotes<'_, '_, '_> {
    fn note(&self, detail: Detail) -> Result<(), NotStored> {
        let detail = self.world.bench.masked_detail(detail);
        let entry = Entry::Note {
            step: self.step.clone(),
            detail,
        };
        self.mending
            .append(self.world, vec![entry])
            .map_err(|_| NotStored)
    }
}

/// One step as it was applied.
pub(crate) struct MendStep {
    /// What stands.
    pub(crate) entry: StandingEntry,
    /// What it was applied from.
    pub(crate) applied: Applied,
    /// The definitions of then.
    pub(crate) source: Arc<Source>,
}

impl MendStep {
    /// What they say of the step and its phase.
    pub(crate) fn def(&self) -> Result<(&PhaseDef, &StepDef), Failure> {
        self.source.applied_step(&self.entry.step, &self.applied)
    }

    /// A session on what the step was applied from.
    pub(crate) fn session(
        &self,
        world: &TargetWorld<'_, '_>,
        def: &StepDef,
        tofu: &TofuStep,
    ) -> Result<Session, Failure> {
        let applied = world.bench.applied_session(
            &self.entry,
            &self.applied,
            &self.source,
            def,
            tofu,
            &world.standing,
        )?;
        Ok(applied.session)
    }

    /// The state of the step, which must be of the recorded lineage, and whether it is the recorded one.
    pub(crate) fn state(&self, world: &TargetWorld<'_, '_>) -> Result<(StateMark, bool), Failure> {
        let step = &self.entry.step;
        let target = &world.bench.target.name;
        let recorded = self.entry.state.as_ref();
        let Some(found) = world.bench.mark(step)? else {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!("the state of step `{step}` is not in the store, so nothing says what it made"),
            )
            .hint(format!(
                "restore it from its versions in the store; `rebuild down --target {target} --forget {step} --reason \
                 TEXT` gives up what it made"
            )));
        };
        if let Some(recorded) = recorded.filter(|recorded| recorded.lineage != found.lineage) {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "the state of step `{step}` is another one: its lineage is not the recorded one"
                ),
            )
            .because(format!(
                "recorded is `{}`, found is `{}`",
                recorded.lineage, found.lineage
            ))
            .hint(
                "restore the recorded state from its versions in the store; nothing was changed",
            ));
        }
        let is_recorded = recorded == Some(&found);
        Ok((found, is_recorded))
    }
}

impl TargetWorld<'_, '_> {
    /// Stops where a plan shows that every object of a provider is gone: the way to it is more likely to be.
    pub(crate) fn unless_unreachable(
        &self,
        step: &MendStep,
        plan: &Planned,
    ) -> Result<(), Failure> {
        let seen = StepObservation {
            step: step.entry.step.clone(),
            state: None,
            looked: Looked::Planned(Box::new(PlanFacts::of_outcome(&plan.outcome, None))),
            ignore: Vec::new(),
        };
        if preflight::judge(&seen, self.day()).verdict != Verdict::Unreachable {
            return Ok(());
        }
        let gone: Vec<String> = plan
            .outcome
            .drift
            .iter()
            .filter(|change| change.action.as_str() == "delete")
            .map(|change| change.address().to_owned())
            .collect();
        self.agree(
            step,
            &gone,
            "all of its objects seem to be gone, which is rather said of a service that can't be reached",
        )
    }

    /// The plan guard, for objects that are lost to what stands.
    pub(crate) fn guard_lost(&self, step: &MendStep, lost: &[String]) -> Result<(), Failure> {
        let (phase, _) = step.def()?;
        let changes: Vec<guard::Planned> = lost
            .iter()
            .map(|address| guard::Planned {
                address: address.clone(),
                action: "delete".to_owned(),
                tainted: false,
            })
            .collect();
        let rules = guard::Rules {
            protected: self
                .bench
                .target
                .protected
                .then(|| self.bench.target.name.to_string()),
            max_destroy: phase.max_destroy,
            allowed: false,
            replace: BTreeSet::new(),
        };
        match guard::judge(&changes, &rules) {
            guard::Verdict::Pass => Ok(()),
            guard::Verdict::Stop { why, addresses } => self.agree(step, &addresses, &why),
        }
    }

    fn agree(&self, step: &MendStep, addresses: &[String], why: &str) -> Result<(), Failure> {
        let id = &step.entry.step;
        let agreed = self.agreed.allow_destroy.contains(&id.phase)
            || self.bench.agree_to_destroy(id, addresses);
        if agreed {
            return Ok(());
        }
        let mut failure = Failure::new(
            ExitCode::Declined,
            format!("the plan guard stopped step `{id}`"),
        )
        .because(why.to_owned());
        if !why.contains('`') {
            failure = failure.because(addresses.join(", "));
        }
        Err(failure.hint(format!(
            "nothing of this step was changed; agree at a terminal, or add `--allow-destroy {}`",
            id.phase
        )))
    }
}

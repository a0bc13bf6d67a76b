//! `up`: definitions, lock, `init` and `validate`, preflight, then the walk.

use std::num::NonZeroUsize;
use std::sync::Arc;

use phase_engine::{
    CallKind, Command, ExitCode, Failure, History, Mode, Options, PhaseFailure, PhaseId, Prune,
    RunState, Sequence, StepId, admission,
};
use preflight::Verdict;
use record::{CallCommand, Record};

use crate::api::{Machine, PruneWhen, Site, UpOptions};
use crate::error::{CallError, stopped, unusable};
use crate::moved;
use crate::open::{Held, OnFaults, Opened};
use crate::operator::Watch;
use crate::removed::{self, agreed_before, prunes, stop_on_removed};
use crate::session::Ended;
use crate::standing::Standing;
use crate::stop::StopRequests;
use crate::ui::{Notice, Ui};
use crate::upgrade::Upgrade;
use crate::world::{Agreed, TargetWorld};

/// Rebuilds a target, or goes on with its unfinished run.
pub fn up(
    machine: &Machine,
    site: &Site,
    options: &UpOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Ended {
    match held_up(machine, site, options, stop, ui) {
        Ok(ended) => ended,
        Err(error) => Ended::failed(None, error),
    }
}

fn held_up(
    machine: &Machine,
    site: &Site,
    options: &UpOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Ended, CallError> {
    let opened = Opened::open(machine, site, stop, ui, OnFaults::Stop)?;
    let through = match &options.through {
        None => None,
        Some(phase) => Some(phase_named(&opened, "--through", phase)?),
    };
    let agreed = Agreed {
        allow_destroy: options
            .allow_destroy
            .iter()
            .map(|phase| match PhaseId::new(phase.as_str()) {
                // A phase that is pruned is defined no more.
                Ok(removed) if options.prune.is_some() => Ok(removed),
                _ => phase_named(&opened, "--allow-destroy", phase),
            })
            .collect::<Result<_, _>>()?,
        replace: options.replace.iter().cloned().collect(),
        keep: options.keep.iter().cloned().collect(),
    };
    let held = opened.hold("up", options.first_build.as_deref())?;
    let ended = walk(&held, options, through, agreed);
    held.release();
    Ok(match ended {
        Ok(ended) => ended,
        Err((record, error)) => Ended::failed(record.map(|record| *record), error),
    })
}

/// The phase that a flag names.
pub(crate) fn phase_named(
    opened: &Opened<'_>,
    flag: &str,
    phase: &str,
) -> Result<PhaseId, CallError> {
    let phases = opened.today().map(|today| {
        today
            .platform
            .phases
            .iter()
            .map(|phase| phase.id.clone())
            .collect::<Vec<_>>()
    });
    let phases = phases.unwrap_or_default();
    phases
        .iter()
        .find(|id| id.as_str() == phase)
        .cloned()
        .ok_or_else(|| {
            let names = phases
                .iter()
                .map(|id| format!("`{id}`"))
                .collect::<Vec<_>>()
                .join(", ");
            Failure::new(
                ExitCode::Unusable,
                format!("`{flag} {phase}` names no phase of this platform"),
            )
            .hint(format!("its phases are {names}"))
            .into()
        })
}

type Walked = Result<Ended, (Option<Box<Record>>, CallError)>;

fn walk(held: &Held<'_>, options: &UpOptions, through: Option<PhaseId>, agreed: Agreed) -> Walked {
    let (kind, command, call) = if options.resume {
        (CallKind::Resume, Command::Resume, CallCommand::Resume)
    } else {
        (CallKind::New, Command::Up, CallCommand::Up)
    };
    let fail = |record: Option<Record>| {
        move |failure: Failure| (record.map(Box::new), CallError::from(failure))
    };
    let mut inner = held.ledger(call).map_err(fail(None))?;
    held.settle_leftovers(&mut inner)
        .map_err(fail(inner.record().cloned()))?;
    held.archive_ended(inner.record());
    held.settle_lost_hosts(&mut inner, options.lost_host.as_deref())
        .map_err(fail(inner.record().cloned()))?;
    let record = inner.record().cloned();
    let history = inner.history();
    let standing = Standing(inner.view());
    let run = record
        .as_ref()
        .filter(|_| options.resume)
        .map_or(&held.run, |record| &record.run)
        .clone();
    let mut decisions = decisions(held, options);
    let mut world = held
        .world(standing, run, options.jobs)
        .map_err(fail(record.clone()))?;
    world.agreed = agreed;
    world.upgrade = options.upgrade.then(Upgrade::default);
    let states = !held
        .bench
        .stated()
        .map_err(fail(record.clone()))?
        .is_empty();
    let target = &held.bench.target.name;
    let mode = admission(command, RunState::of(&history, states));
    if let Err(refusal) = mode {
        // An unfinished run: the verdicts are told all the same.
        if command == Command::Up && !history.standing.is_empty() {
            let report = world.look_at_standing(None).map_err(fail(record.clone()))?;
            world.tell_report(&report);
        }
        let mut failure = refusal.failure(target);
        if let (phase_engine::Refusal::Unfinished { .. }, Some(record)) = (refusal, &record) {
            failure.what = crate::look_commands::unfinished(record);
        }
        return Err(fail(record)(failure));
    }
    crate::suspects::none_unsettled(record.as_ref(), target.as_str())
        .map_err(fail(record.clone()))?;
    if let (true, Some(record)) = (options.resume, &record) {
        crate::mend::none_cut(record, target.as_str())
            .map_err(|failure| (Some(Box::new(record.clone())), CallError::from(failure)))?;
    }
    let sequence = world
        .today()
        .and_then(|today| today.platform.sequence().map_err(|error| unusable(&error)));
    let sequence = sequence.map_err(fail(record.clone()))?;
    let moves = world
        .today()
        .and_then(|today| moved::moves(&today.platform, &history));
    world.moves = moves.map_err(fail(record.clone()))?;
    world.prepare_all().map_err(fail(record.clone()))?;
    world.tell_upgrade();
    let history = History {
        standing: moved::after(&world.moves, &history.standing),
        ..history
    };
    let removed = phase_engine::removed(&history.standing, &sequence);
    let mut history = match mode {
        Ok(Mode::Resume) => history,
        _ => {
            preflight_of_new_run(&world, &history, &sequence, states, options.prune.is_some())
                .map_err(fail(record.clone()))?;
            History::of_new_run(history.standing)
        }
    };
    let waived = held
        .demand_drill(
            options.without_drill.as_deref(),
            record.as_ref().filter(|_| options.resume),
        )
        .map_err(fail(record.clone()))?;
    decisions.extend(waived);
    let agreed_before = record
        .as_ref()
        .filter(|_| options.resume)
        .map(agreed_before)
        .unwrap_or_default();
    let going: Vec<StepId> = removed
        .into_iter()
        .filter(|step| options.prune.is_some() || agreed_before.contains(step))
        .collect();
    let prune = if going.is_empty() {
        Vec::new()
    } else {
        let references = world.references().map_err(fail(record.clone()))?;
        let when = options.prune.unwrap_or(PruneWhen::After);
        prunes(&going, &references, &sequence, when)
    };
    // What an earlier call of this run was agreed to is not asked again.
    let unasked: Vec<Prune> = prune
        .iter()
        .filter(|prune| !agreed_before.contains(&prune.step))
        .cloned()
        .collect();
    world.guard_prune(&unasked).map_err(fail(record.clone()))?;
    decisions.extend(world.prune_decisions(&unasked));
    let interactive = !options.no_pause && held.bench.ui.interactive();
    let walk_options = Options {
        through,
        pause: options.pause,
        interactive,
        jobs: NonZeroUsize::new(world.jobs).unwrap_or(NonZeroUsize::MIN),
        prune,
    };
    if let Some(mut refused) = phase_engine::refused(kind, &sequence, &history, &walk_options) {
        if refused.hint.is_none() {
            let is_behind = !phase_engine::differences(&history.verified, &sequence).is_empty();
            refused.hint = Some(refused_hint(target.as_str(), is_behind));
        }
        return Err(fail(record)(refused));
    }
    if !world.moves.is_empty() {
        decisions.extend(
            held.make_moves(&mut inner, &world.moves)
                .map_err(fail(record.clone()))?,
        );
        world
            .settle_after_moves(held)
            .map_err(fail(record.clone()))?;
        let moved = inner.history();
        history = match kind {
            CallKind::Resume => moved,
            _ => History::of_new_run(moved.standing),
        };
    }
    let resumed = kind == CallKind::Resume;
    let id = record
        .as_ref()
        .filter(|_| resumed)
        .map_or(&held.run, |record| &record.run);
    // Who is told that the target is locked is told by which run.
    if let Err(error) = held.lock.set_run(id.as_str()) {
        return Err(fail(record)(stopped(&error)));
    }
    let mut watch = Watch {
        bench: &held.bench,
        today: held.today.as_ref().ok().cloned(),
        view: inner.view(),
    };
    let mut ledger = held.with_first(inner);
    for decision in decisions {
        ledger.decided(decision);
    }
    let ended = phase_engine::up(
        kind,
        &sequence,
        history,
        &walk_options,
        &world,
        &mut ledger,
        &mut watch,
    );
    if !ended.pending.is_empty() {
        let steps = ended
            .pending
            .iter()
            .map(|step| format!("`{step}`"))
            .collect::<Vec<_>>()
            .join(", ");
        held.bench.ui.tell(&Notice::Warning {
            message: format!("the definitions of {steps} have changed since they were applied"),
            hint: Some(format!(
                "once this run is finished, `rebuild up --target {target}` applies them"
            )),
        });
    }
    let record = ledger.record().cloned();
    held.archive_ended(record.as_ref());
    if ended.tear_down {
        drop(world);
        return crate::down::tear_down_now(held).map_err(|error| (record.map(Box::new), error));
    }
    Ok(concluded(record, ended, target.as_str(), Walk::Up))
}

/// Which way a walk went, and so what goes on from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// `up`.
    Up,
    /// `down`: once it has begun nothing else goes on.
    Down,
}

impl Walk {
    /// What is safe to type after a failure.
    pub(crate) fn ways_on(self, target: &str) -> String {
        match self {
            Self::Up => format!(
                "`rebuild up --target {target} --resume` goes on, `rebuild down --target {target}` tears down"
            ),
            Self::Down => format!(
                "mend what failed, then `rebuild down --target {target}` goes on where it stopped; what is dead and \
                 can't be reached: `--forget PHASE.STEP --reason TEXT`"
            ),
        }
    }
}

/// What a person decided by flags of this call.
fn decisions(held: &Held<'_>, options: &UpOptions) -> Vec<record::Decision> {
    use record::DecisionKind as Kind;
    let about = |kind, names: &[String]| {
        names
            .iter()
            .map(move |name| record::Decision {
                kind,
                at: record::Time::from((held.bench.machine.now)()),
                user: held.bench.machine.user.clone(),
                about: Some(name.clone()),
                reason: None,
            })
            .collect::<Vec<_>>()
    };
    let mut decisions = about(Kind::FirstBuild, options.first_build.as_slice());
    decisions.extend(about(Kind::AllowDestroy, &options.allow_destroy));
    decisions.extend(about(Kind::Replace, &options.replace));
    decisions.extend(about(Kind::Keep, &options.keep));
    decisions
}

/// What the engine's end means to the caller.
pub(crate) fn concluded(
    record: Option<Record>,
    ended: phase_engine::Ended,
    target: &str,
    walk: Walk,
) -> Ended {
    let ways_on = match ended.status {
        // Nothing was stored, so there is nothing to go on with.
        None => format!(
            "nothing was changed; mend it and type the same command again on target `{target}`"
        ),
        Some(_) => walk.ways_on(target),
    };
    let error = match (ended.ledger_error, ended.failures.into_iter().next()) {
        (Some(error), _) => Some(Failure::of(ExitCode::Failed, &error).hint(format!(
            "the store could not be written, so nothing more was begun; once it can: {}",
            walk.ways_on(target)
        ))),
        (
            None,
            Some(PhaseFailure {
                phase,
                step,
                failure,
            }),
        ) => Some(placed(failure, phase, step, &ways_on)),
        (None, None) if ended.exit == ExitCode::Interrupted => Some(
            Failure::new(ExitCode::Interrupted, "interrupted").hint(match walk {
                Walk::Up => walk.ways_on(target),
                Walk::Down => format!("`rebuild down --target {target}` goes on"),
            }),
        ),
        (None, None) => None,
    };
    Ended {
        record,
        exit: ended.exit,
        error: error.map(CallError::from),
    }
}

/// A failure with its place in front and a way on behind.
fn placed(
    mut failure: Failure,
    phase: Option<PhaseId>,
    step: Option<phase_engine::StepId>,
    ways_on: &str,
) -> Failure {
    let place = match (&phase, &step) {
        (_, Some(step)) => format!("step `{step}`"),
        (Some(phase), None) => format!("phase `{phase}`"),
        (None, None) => String::new(),
    };
    if !place.is_empty() && !failure.what.contains(&place) {
        failure.what = format!("{place}: {}", failure.what);
    }
    if failure.hint.is_none() {
        failure.hint = Some(ways_on.to_owned());
    }
    failure
}

/// What goes on where the definitions changed behind a run, or a step is gone that it has not come to.
fn refused_hint(target: &str, is_behind: bool) -> String {
    if is_behind {
        return format!(
            "nothing was changed: bring the definitions back to what the run has verified, end it with `rebuild up \
             --target {target} --resume`, and change them then; or `rebuild down --target {target}`"
        );
    }
    format!(
        "nothing was changed: bring the step back, or write `moved_from` on the one that took its place, or \
         `rebuild up --target {target} --resume --prune` tears it down"
    )
}

/// Preflight before a new run changes anything.
pub(crate) fn preflight_of_new_run(
    world: &TargetWorld<'_, '_>,
    history: &History,
    sequence: &Sequence,
    states: bool,
    pruned: bool,
) -> Result<(), Failure> {
    let mut report = if history.standing.is_empty() && !states {
        world.look_for_residue()?
    } else {
        world.look_at_standing(None)?
    };
    let is_clean = report.passes();
    let n_removed = stop_on_removed(&mut report, &history.standing, sequence, pruned);
    world.tell_report(&report);
    if report.passes() {
        return Ok(());
    }
    if let Some(interrupted) = world.cut_short(&report) {
        return Err(interrupted);
    }
    let target = world.bench.target.name.as_str();
    let mut failure = stopped_by(&report, target);
    if is_clean && n_removed > 0 {
        failure.hint = Some(removed::ways_on(target));
    }
    Err(failure)
}

/// Why preflight stopped a call.
pub(crate) fn stopped_by(report: &preflight::Report, target: &str) -> Failure {
    let mut failure = Failure::new(
        ExitCode::Stopped,
        format!("preflight stopped `up` on target `{target}`"),
    );
    for phase in report
        .phases
        .iter()
        .filter(|phase| !phase.verdict.is_clean())
    {
        let n = phase.findings.len();
        failure = failure.because(format!(
            "phase `{}` is `{}`: {n} {}",
            phase.id,
            phase.verdict,
            if n == 1 { "finding" } else { "findings" }
        ));
    }
    for note in &report.notes {
        failure = failure.because(note.text.clone());
    }
    let mendable = report.phases.iter().find(|phase| {
        matches!(
            phase.verdict,
            Verdict::StateUnexplained | Verdict::Tainted | Verdict::Drifted | Verdict::CheckFailed
        )
    });
    failure.hint(match mendable {
        Some(phase) => format!(
            "nothing was changed. {}; or `rebuild down --target {target}` tears down",
            crate::mend::ways_on(&phase.id, target)
        ),
        None => format!(
            "nothing was changed. Bring the target back to what was applied and type the command again, or \
             `rebuild down --target {target}` tears down"
        ),
    })
}

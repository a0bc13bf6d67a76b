//! Commands that change nothing: `preflight`, `status`, `runs`; and `unlock`.

use std::sync::Arc;

use phase_engine::{ExitCode, Failure, RunId, RunStatus};
use preflight::Report;
use process::{Identity, Liveness};
use record::{CallCommand, Listed, LockShown, Record, RecordStore, StatusDocument};
use state_backend::StateBackend;
use store::lock::{self, Holder, LockNotice, TargetLock};
use store::{Store, Writer};

use crate::api::{Machine, PreflightOptions, Site};
use crate::error::{CallError, stopped};
use crate::moved;
use crate::open::{Held, OnFaults, Opened, locked, moment};
use crate::removed::{self, stop_on_removed};
use crate::standing::Standing;
use crate::stop::StopRequests;
use crate::storage::Home;
use crate::store_move::store_being_filled;
use crate::ui::{Notice, Ui};
use crate::up::stopped_by;

/// What `preflight` came to.
#[derive(Debug)]
pub struct Preflighted {
    /// The report; none where nothing could be looked at.
    pub report: Option<Report>,
    /// Why it stops.
    pub error: Option<CallError>,
    /// What the process ends with.
    pub exit: ExitCode,
}

/// Looks whether the target is what was last applied to it.
pub fn preflight(
    machine: &Machine,
    site: &Site,
    options: &PreflightOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Preflighted {
    let held = Opened::open(machine, site, stop, ui, OnFaults::Stop)
        .and_then(|opened| opened.hold("preflight", options.first_build.as_deref()));
    let looked = held.and_then(|held| {
        let looked = look(&held, options);
        held.release();
        looked.map_err(CallError::from)
    });
    match looked {
        Ok((report, None)) => Preflighted {
            report: Some(report),
            error: None,
            exit: ExitCode::Done,
        },
        Ok((report, Some(failure))) => Preflighted {
            report: Some(report),
            exit: failure.exit,
            error: Some(failure.into()),
        },
        Err(error) => Preflighted {
            report: None,
            exit: error.exit(),
            error: Some(error),
        },
    }
}

fn look(held: &Held<'_>, options: &PreflightOptions) -> Result<(Report, Option<Failure>), Failure> {
    let mut inner = held.ledger(CallCommand::Up)?;
    held.settle_leftovers(&mut inner)?;
    let history = inner.history();
    let world = held.world(Standing(inner.view()), held.run.clone(), options.jobs)?;
    let target = held.bench.target.name.as_str();
    let mut report = if history.standing.is_empty() && held.bench.stated()?.is_empty() {
        world.look_for_residue()?
    } else {
        world.look_at_standing(None)?
    };
    held.remember_seen(&mut inner, &report);
    let is_clean = report.passes();
    let mut n_removed = 0;
    if let Ok(today) = &held.today {
        let sequence = today.platform.sequence().map_err(|error| stopped(&error))?;
        let moves = moved::moves(&today.platform, &history)?;
        let standing = moved::after(&moves, &history.standing);
        n_removed = stop_on_removed(&mut report, &standing, &sequence, options.prune.is_some());
    }
    let missing = match options.without_drill {
        true => None,
        false => held.drill_missing()?,
    };
    if let Some(missing) = &missing {
        report.stop(missing.one_line());
    }
    let record = inner.record();
    for suspect in record
        .map(|record| record.suspects.as_slice())
        .unwrap_or_default()
    {
        report.stop(crate::suspects::told(suspect));
    }
    if let Some(record) = record.filter(|record| !record.status.has_ended()) {
        report.stop(unfinished(record));
    }
    let stops = (!report.passes()).then(|| {
        if let Some(interrupted) = world.cut_short(&report) {
            return interrupted;
        }
        let mut failure = stopped_by(&report, target);
        failure.what = format!("preflight stops on target `{target}`");
        if is_clean && n_removed > 0 {
            failure.hint = Some(removed::ways_on(target));
        } else if let (true, Some(missing)) = (is_clean, missing) {
            failure.hint = missing.hint;
        }
        if record.is_some_and(|record| record.status == RunStatus::Running || !record.status.has_ended()) {
            failure.hint = Some(format!(
                "`rebuild up --target {target} --resume` goes on with the run, `rebuild down --target {target}` tears down"
            ));
        }
        failure
    });
    Ok((report, stops))
}

/// Which run is unfinished, where it stopped and how.
pub(crate) fn unfinished(record: &Record) -> String {
    let place = record
        .error
        .as_ref()
        .map(|error| match (&error.step, &error.phase) {
            (Some(step), _) => format!(" at step `{step}`: {}", error.what),
            (None, Some(phase)) => format!(" in phase `{phase}`: {}", error.what),
            (None, None) => format!(": {}", error.what),
        })
        .unwrap_or_default();
    format!(
        "run `{}` is unfinished, it is `{}`{place}",
        record.run, record.status
    )
}

/// The store of a site, without a lock: for commands that only read records.
fn store_of(
    machine: &Machine,
    site: &Site,
) -> Result<(Arc<dyn Store>, phase_engine::TargetName), CallError> {
    let home = Home::open(machine, site)?;
    Ok((home.known_store()?, home.target.name))
}

/// The store that a move was filling.
fn store_named(
    machine: &Machine,
    site: &Site,
    to: &str,
) -> Result<(Arc<dyn Store>, phase_engine::TargetName), CallError> {
    let home = Home::open(machine, site)?;
    Ok((store_being_filled(to, &home)?, home.target.name))
}

fn inspect(store: &dyn Store) -> Result<Option<lock::LockBody>, Failure> {
    lock::inspect(store).map_err(|error| stopped(&error))
}

/// Whether it is proven that no call is at work.
fn nobody_runs(lock: Option<&lock::LockBody>) -> bool {
    lock.is_none_or(|body| body.holder.identity.liveness() == Liveness::Dead)
}

/// Reads records without the lock, and who holds it. Where nobody is at work before and after the reading, a run
/// whose record says that it is running was cut, and `cut` is told so.
fn read_unlocked<T>(
    store: &dyn Store,
    read: impl FnOnce() -> Result<T, Failure>,
    cut: impl FnOnce(&mut T),
) -> Result<(T, Option<lock::LockBody>), Failure> {
    let before = inspect(store)?;
    let mut found = read()?;
    let after = inspect(store)?;
    if nobody_runs(before.as_ref()) && nobody_runs(after.as_ref()) {
        cut(&mut found);
    }
    Ok((found, after))
}

/// Says where a target is.
///
/// # Errors
/// The definitions or the store can't be read.
pub fn status(machine: &Machine, site: &Site) -> Result<StatusDocument, CallError> {
    let (store, target) = store_of(machine, site)?;
    let records = RecordStore::new(Arc::clone(&store));
    let read = || records.current().map_err(|error| stopped(&error));
    let (current, held) = read_unlocked(store.as_ref(), read, |current| {
        if let Some(current) = current {
            current.value.cut();
        }
    })?;
    let record = current.map(|loaded| loaded.value);
    let last_known_good = records.last_known_good().map_err(|error| stopped(&error))?;
    let lock = held.map(|body| body.holder).map(|holder| LockShown {
        user: holder.user,
        host: holder.host,
        run: holder.run,
        command: holder.command,
        since: holder.since,
    });
    Ok(StatusDocument::of(target, record, last_known_good, lock))
}

/// Lists the runs of a target, the newest first.
///
/// # Errors
/// The definitions or the store can't be read.
pub fn runs_list(machine: &Machine, site: &Site) -> Result<Vec<Listed>, CallError> {
    let (store, _) = store_of(machine, site)?;
    let records = RecordStore::new(Arc::clone(&store));
    let read = || records.list().map_err(|error| stopped(&error));
    let (listed, _) = read_unlocked(store.as_ref(), read, |listed| {
        for record in listed
            .iter_mut()
            .filter_map(|listed| listed.record.as_mut().ok())
        {
            record.cut();
        }
    })?;
    Ok(listed)
}

/// Shows one run of a target.
///
/// # Errors
/// There is no such run, or it can't be read.
pub fn runs_show(machine: &Machine, site: &Site, run: &str) -> Result<Record, CallError> {
    let (store, target) = store_of(machine, site)?;
    let run = RunId::new(run).map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
    let records = RecordStore::new(Arc::clone(&store));
    let read = || records.record(&run).map_err(|error| stopped(&error));
    let (found, _) = read_unlocked(store.as_ref(), read, |found| {
        if let Some(found) = found {
            found.value.cut();
        }
    })?;
    Ok(found
        .ok_or_else(|| {
            Failure::new(
                ExitCode::Unusable,
                format!("target `{target}` has no run `{run}`"),
            )
            .hint(format!("`rebuild runs list --target {target}` names them"))
        })?
        .value)
}

/// What `unlock` removed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Unlocked {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// Whose lock it was.
    pub holder: Option<String>,
}

/// Removes the lock of a holder that shows no life for one lease; `to` names the store that a move was filling, whose lock
/// that move holds as well.
///
/// # Errors
/// Nobody holds it, or its holder renewed it meanwhile.
pub fn unlock(
    machine: &Machine,
    site: &Site,
    to: Option<&str>,
    ui: &Arc<dyn Ui>,
) -> Result<Unlocked, CallError> {
    let (store, target) = match to {
        None => store_of(machine, site)?,
        Some(to) => store_named(machine, site, to)?,
    };
    let me = Holder {
        identity: Identity::of_self().map_err(|error| stopped(&error))?,
        user: machine.user.clone(),
        host: machine.host.clone(),
        run: None,
        command: "unlock".to_owned(),
        since: moment((machine.now)()),
    };
    let mut notify = |notice: LockNotice| {
        ui.tell(&Notice::Waiting {
            what: crate::open::waiting_for(&notice),
        })
    };
    let writer = Writer {
        identity: me.identity.clone(),
        user: me.user.clone(),
        host: me.host.clone(),
        run: None,
    };
    let states = Arc::clone(&store);
    let mut of_states = Ok(Vec::new());
    let mut give_up_states = |lock: &TargetLock, former: Option<&Holder>| {
        let handle = lock.handle();
        let guard = Arc::new(move || handle.hold());
        let backend = StateBackend::new(Arc::clone(&states), lock.fence(), writer.clone(), guard);
        of_states = backend.release_locks_of_dead(&|writer| {
            former.is_some_and(|former| former.identity == writer.identity)
        });
    };
    let removed = lock::unlock_and(store, me, machine.lease, &mut notify, &mut give_up_states)
        .map_err(|error| locked(&error, &target))?;
    of_states.map_err(|error| stopped(&error))?;
    ui.tell(&Notice::Warning {
        message: "the store is fenced from that holder; what it or its children still do elsewhere, in a cloud, is not".to_owned(),
        hint: None,
    });
    Ok(Unlocked {
        schema: 1,
        target: target.to_string(),
        holder: removed.holder.map(|holder| holder.to_string()),
    })
}

//! Commands that change nothing: `preflight`, `status`, `runs`; and `unlock`.

use std::sync::Arc;

use phase_engine::{ExitCode, Failure, RunId, RunStatus};
use platform::TargetDefinitions;
use preflight::Report;
use process::Identity;
use record::{CallCommand, Listed, LockShown, Record, RecordStore, StatusDocument};
use store::Store;
use store::lock::{self, Holder, LockNotice};

use crate::api::{Machine, Site};
use crate::error::{CallError, stopped};
use crate::open::{
    Held, OnFaults, Opened, definitions, locked, moment, open_store, the_known_store,
};
use crate::paths::TargetPaths;
use crate::standing::Standing;
use crate::stop::StopRequests;
use crate::ui::{Notice, Ui};
use crate::up::{stop_on_removed, stopped_by};

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
    jobs: usize,
    first_build: Option<&str>,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Preflighted {
    let held = Opened::open(machine, site, stop, ui, OnFaults::Stop)
        .and_then(|opened| opened.hold("preflight", first_build));
    let looked = held.and_then(|held| {
        let looked = look(&held, jobs);
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

fn look(held: &Held<'_>, jobs: usize) -> Result<(Report, Option<Failure>), Failure> {
    let mut inner = held.ledger(CallCommand::Up)?;
    held.settle_leftovers(&mut inner)?;
    let history = inner.history();
    let world = held.world(Standing(inner.view()), held.run.clone(), jobs)?;
    let target = held.bench.target.name.as_str();
    let mut report = if history.standing.is_empty() && held.bench.stated()?.is_empty() {
        world.look_for_residue()?
    } else {
        world.look_at_standing(None)?
    };
    if let Ok(today) = &held.today {
        let sequence = today.platform.sequence().map_err(|error| stopped(&error))?;
        stop_on_removed(&mut report, &history.standing, &sequence);
    }
    let record = inner.record();
    if let Some(record) = record.filter(|record| !record.status.has_ended()) {
        report.stop(unfinished(record));
    }
    let stops = (!report.passes()).then(|| {
        let mut failure = stopped_by(&report, target);
        failure.what = format!("preflight stops on target `{target}`");
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
    let (
        root,
        TargetDefinitions {
            target, platform, ..
        },
    ) = definitions(machine, site)?;
    let name = match platform {
        Ok(platform) => platform.name,
        Err(_) => crate::open::platform_name_of(&root)?,
    };
    let paths = TargetPaths::new(&machine.state_home, &name, &target.name);
    let store = open_store(&target, &paths, machine);
    // A store that is not the known one says "empty" of a target that stands.
    the_known_store(&store, &paths, &name, &target.name, None)?;
    Ok((store, target.name))
}

/// Says where a target is.
///
/// # Errors
/// The definitions or the store can't be read.
pub fn status(machine: &Machine, site: &Site) -> Result<StatusDocument, CallError> {
    let (store, target) = store_of(machine, site)?;
    let records = RecordStore::new(Arc::clone(&store));
    let record = records
        .current()
        .map_err(|error| stopped(&error))?
        .map(|loaded| loaded.value);
    let last_known_good = records.last_known_good().map_err(|error| stopped(&error))?;
    let held = lock::inspect(store.as_ref()).map_err(|error| stopped(&error))?;
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
    Ok(RecordStore::new(store)
        .list()
        .map_err(|error| stopped(&error))?)
}

/// Shows one run of a target.
///
/// # Errors
/// There is no such run, or it can't be read.
pub fn runs_show(machine: &Machine, site: &Site, run: &str) -> Result<Record, CallError> {
    let (store, target) = store_of(machine, site)?;
    let run = RunId::new(run).map_err(|error| Failure::of(ExitCode::Unusable, &error))?;
    let found = RecordStore::new(store)
        .record(&run)
        .map_err(|error| stopped(&error))?;
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

/// Removes the lock of a holder that shows no life for one lease.
///
/// # Errors
/// Nobody holds it, or its holder renewed it meanwhile.
pub fn unlock(machine: &Machine, site: &Site, ui: &Arc<dyn Ui>) -> Result<Unlocked, CallError> {
    let (store, target) = store_of(machine, site)?;
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
    let removed = lock::unlock(store, me, machine.lease, &mut notify)
        .map_err(|error| locked(&error, &target))?;
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

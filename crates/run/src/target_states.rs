//! `state … --target T`: the states of a target as its store keeps them, looked at and put back without OpenTofu.

use std::sync::Arc;

use phase_engine::{ExitCode, Failure, StepId};
use process::Identity;
use state_backend::{BackendError, LockInfo, StateBackend};
use store::lock::{Hold, Holder, LockNotice, TargetLock};
use store::{Body, Writer};

use crate::api::{Machine, Site};
use crate::error::{CallError, stopped, unusable};
use crate::open::{locked, moment, waiting_for};
use crate::storage::{CallLocks, Home};
use crate::ui::{Notice, Ui};

/// Returns the states of a target, for reading alone.
///
/// # Errors
/// The target file has faults, or its store can't be read or is not the one that this machine knows.
pub fn target_states(machine: &Machine, site: &Site) -> Result<StateBackend, CallError> {
    let home = Home::open(machine, site)?;
    let store = home.known_store()?;
    // Whatever would write through it is refused.
    let nobody = Arc::new(|| Hold::Lost);
    Ok(StateBackend::new(store, 0, writer(machine)?, nobody))
}

/// Returns the name by which a backend of a target knows the state of a step: `PHASE.STEP` or `PHASE/STEP`.
///
/// # Errors
/// It is no name of a step.
pub fn state_of_step(named: &str) -> Result<String, Failure> {
    let step: StepId = named.replacen('/', ".", 1).parse().map_err(|error| {
        unusable(&error).hint("a target's state is named by its step, `PHASE.STEP`")
    })?;
    Ok(step.key())
}

/// Puts a state in the place of the one of a step, under the target's lock. What it replaces goes to the versions. What
/// stands by the record stays as it was: `accept` takes the restored state into it.
///
/// # Errors
/// The target or the state is locked, or the state is of another lineage than the one that is
/// there and than `lineage`.
pub fn restore_target_state(
    machine: &Machine,
    site: &Site,
    state: &str,
    bytes: &Body,
    lineage: &str,
    ui: &Arc<dyn Ui>,
) -> Result<(), CallError> {
    let home = Home::open(machine, site)?;
    let store = home.known_store()?;
    let name = &home.target.name;
    let holder = Holder {
        identity: Identity::of_self().map_err(|error| stopped(&error))?,
        user: machine.user.clone(),
        host: machine.host.clone(),
        run: None,
        command: "state restore".to_owned(),
        since: moment((machine.now)()),
    };
    let mut notify = |notice: LockNotice| {
        ui.tell(&Notice::Waiting {
            what: waiting_for(&notice),
        });
    };
    let lock = TargetLock::acquire(Arc::clone(&store), holder, machine.lease, &mut notify)
        .map_err(|error| locked(&error, name))?;
    let locks = Arc::new(CallLocks::new(Arc::clone(&store), lock, machine.lease));
    let done = home.storage.still_counts(&store).and_then(|()| {
        let guard = Arc::clone(&locks);
        let backend = StateBackend::new(
            Arc::clone(&store),
            locks.fence(),
            writer(machine)?,
            Arc::new(move || guard.hold()),
        );
        put_back(machine, &backend, state, bytes, lineage)
    });
    let released = locks.release();
    done?;
    if let Err(error) = released {
        ui.tell(&Notice::Warning {
            message: error.to_string(),
            hint: None,
        });
    }
    Ok(())
}

fn put_back(
    machine: &Machine,
    backend: &StateBackend,
    state: &str,
    bytes: &Body,
    lineage: &str,
) -> Result<(), Failure> {
    let info = LockInfo::new(
        "rebuild state restore",
        "puts an earlier state back",
        &format!("{}@{}", machine.user, machine.host),
        (machine.now)(),
    );
    backend
        .lock(state, &info)
        .map_err(|error| failure(&error))?;
    let done = backend.restore(state, bytes, Some(&info.id), lineage);
    let unlocked = backend.unlock(state, &info.id);
    done.map_err(|error| failure(&error))?;
    unlocked.map_err(|error| failure(&error))
}

/// Why a state of a target can't be had or put back.
fn failure(error: &BackendError) -> Failure {
    match error {
        BackendError::Locked { .. } => Failure::of(ExitCode::Locked, error)
            .hint("`tofu` works on it, or a call was cut: any next call of this target releases the lock of a dead one"),
        BackendError::Lineage { .. } => Failure::of(ExitCode::Declined, error),
        BackendError::NotAState { .. } | BackendError::Key(_) => unusable(error),
        _ => stopped(error),
    }
}

pub(crate) fn writer(machine: &Machine) -> Result<Writer, Failure> {
    Ok(Writer {
        identity: Identity::of_self().map_err(|error| stopped(&error))?,
        user: machine.user.clone(),
        host: machine.host.clone(),
        run: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_named_by_its_step() {
        assert_eq!(state_of_step("1a.edge").expect("a step"), "1a/edge");
        assert_eq!(state_of_step("1a/edge").expect("a step"), "1a/edge");
        for wrong in ["", "edge", "1a/edge/x", "1a.edge@7", "../x"] {
            assert_eq!(
                state_of_step(wrong).expect_err("no step").exit,
                ExitCode::Unusable,
                "{wrong}"
            );
        }
    }
}

//! One answer to one probe.

use std::time::Duration;

use process::Spawner;

use crate::deadline::Deadline;
use crate::failure::{Came, ProbeFailure};
use crate::probe::Probe;
use crate::{dns, exec, http, tcp};

/// Asks once and gives up after `timeout`. Only an exec probe uses the spawner.
pub fn run_once(
    probe: &Probe,
    timeout: Duration,
    spawner: &dyn Spawner,
) -> Result<(), ProbeFailure> {
    ask(probe, timeout, &|| false, spawner).map_err(|came| failure(probe, came))
}

pub(crate) fn failure(probe: &Probe, came: Came) -> ProbeFailure {
    ProbeFailure {
        asked: probe.asked(),
        came,
    }
}

pub(crate) fn ask(
    probe: &Probe,
    timeout: Duration,
    stop: &dyn Fn() -> bool,
    spawner: &dyn Spawner,
) -> Result<(), Came> {
    let deadline = Deadline::after(timeout);
    match probe {
        Probe::Http(probe) => http::ask(probe, deadline),
        Probe::Tcp(probe) => tcp::ask(probe, deadline),
        Probe::Dns(probe) => dns::ask(probe, deadline),
        Probe::Exec(call) => exec::ask(call, deadline, stop, spawner),
    }
}

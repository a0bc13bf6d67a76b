//! Process groups: one signal to all of them, and a kill that is verified.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, kill_process_group};

use crate::identity::system;
use crate::spawn::Signal;
use crate::wait;

/// How long a killed group may take to be gone. A process in the kernel's hands (a hung disk) can
/// take longer; then we say so.
const LIMIT: Duration = Duration::from_secs(10);

/// Why a process group is not proven dead.
#[derive(Debug, thiserror::Error)]
pub enum KillError {
    /// The system refused to signal it.
    #[error("cannot kill process group {group}")]
    Refused {
        /// The group's number.
        group: u32,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The processes of the system could not be listed.
    #[error("cannot verify that process group {group} is dead")]
    Unverified {
        /// The group's number.
        group: u32,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Something lives on.
    #[error("killed, but still alive in process group {group}: {pids:?}")]
    Survivors {
        /// The group's number.
        group: u32,
        /// The process ids.
        pids: Vec<u32>,
    },
}

/// Signals a group; one that is gone, or of zombies only, is no error.
pub(crate) fn signal(group: Pid, signal: Signal) -> io::Result<()> {
    match kill_process_group(group, signal.of_system()) {
        // macOS answers EPERM for a group of zombies.
        Err(Errno::PERM) if cfg!(target_os = "macos") => Ok(()),
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Kills a group, again and again until no process of it lives.
pub(crate) fn kill(group: Pid) -> Result<(), KillError> {
    let number = group.as_raw_pid().unsigned_abs();
    let mut living = Vec::new();
    let outcome = wait::until(Instant::now() + LIMIT, Duration::from_millis(5), || {
        // What was forked while we looked gets it in the next round.
        if let Err(source) = signal(group, Signal::Kill) {
            return Some(Err(KillError::Refused {
                group: number,
                source,
            }));
        }
        match members(number) {
            Ok(pids) if pids.is_empty() => Some(Ok(())),
            Ok(pids) => {
                living = pids;
                None
            }
            Err(source) => Some(Err(KillError::Unverified {
                group: number,
                source,
            })),
        }
    });
    outcome.unwrap_or(Err(KillError::Survivors {
        group: number,
        pids: living,
    }))
}

/// The living processes of a group.
pub(crate) fn members(group: u32) -> io::Result<Vec<u32>> {
    Ok(system::all()?
        .into_iter()
        .filter(|(_, stat)| stat.group == group && !stat.is_dead)
        .map(|(pid, _)| pid)
        .collect())
}

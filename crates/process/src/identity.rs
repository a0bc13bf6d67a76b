//! Who a process is: a pid means nothing without its machine, its boot and its start.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::files::{FileError, read_passing, write_passing};
use crate::wait;

/// Who a process is, so that nobody can be mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The machine: `/etc/machine-id`, or `hostname:NAME` where there is none. Clones share it.
    pub machine_id: String,
    /// The boot: `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The process namespace that the pid belongs to: the link `/proc/self/ns/pid`.
    pub pid_namespace: String,
    /// The process id.
    pub pid: u32,
    /// When it started: clock ticks since the boot (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

/// What is known of a process by its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It lives, or this user may not see that it doesn't.
    Alive,
    /// It is proven dead: gone, a zombie, or its pid is another's by now.
    Dead,
    /// The same machine id with another boot: dead, unless the id is a clone's.
    OtherBoot,
    /// Another machine or process namespace: nothing can be told from here.
    OtherMachine,
}

/// What became of [`wait_until_dead`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// It is dead.
    Dead,
    /// The caller did not want to wait any longer.
    GaveUp,
    /// It cannot be seen from here.
    Unseen(Liveness),
}

/// Why an identity could not be told, written or read.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A fact of the system could not be read.
    #[error("cannot read {what}")]
    Fact {
        /// Which: `the boot id`, …
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// The process id.
        pid: u32,
    },
    /// A marker could not be read.
    #[error("cannot read the process marker `{}`", path.display())]
    Marker {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A marker is not what the launcher writes.
    #[error("the process marker `{}` is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A marker could not be written.
    #[error("cannot write a process marker")]
    Write(#[source] FileError),
}

impl Identity {
    /// Tells who this process is.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn of_self() -> Result<Self, IdentityError> {
        static SELF: OnceLock<Identity> = OnceLock::new();
        let pid = std::process::id();
        match SELF.get() {
            // What was forked off is another one.
            Some(known) if known.pid == pid => Ok(known.clone()),
            _ => {
                let found = Self::of(pid)?;
                let _ = SELF.set(found.clone());
                Ok(found)
            }
        }
    }

    /// Tells who a process of this machine and namespace is.
    ///
    /// # Errors
    /// When there is none, or when the system does not tell.
    pub fn of(pid: u32) -> Result<Self, IdentityError> {
        let stat = system::stat(pid)?.ok_or(IdentityError::NoProcess { pid })?;
        let place = Place::of_self()?;
        Ok(Self {
            machine_id: place.machine_id.clone(),
            boot_id: place.boot_id.clone(),
            pid_namespace: place.pid_namespace.clone(),
            pid,
            start_time: stat.start_time,
        })
    }

    /// Tells whether that process lives. Dead is said only where it is proven.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        let Ok(place) = Place::of_self() else {
            return Liveness::OtherMachine;
        };
        if self.machine_id != place.machine_id {
            return Liveness::OtherMachine;
        }
        if self.boot_id != place.boot_id {
            return Liveness::OtherBoot;
        }
        if self.pid_namespace != place.pid_namespace {
            return Liveness::OtherMachine;
        }
        match system::stat(self.pid) {
            Ok(Some(stat)) if stat.start_time == self.start_time && !stat.is_dead => {
                Liveness::Alive
            }
            Ok(Some(_)) => Liveness::Dead,
            // A `/proc` may hide the processes of others: only a kill that finds none proves it.
            Ok(None) if !exists(self.pid) => Liveness::Dead,
            Ok(None) | Err(_) => Liveness::Alive,
        }
    }

    /// Writes this identity to a marker file, whole, for this user alone.
    ///
    /// A power cut may take it: then the process that it names is gone too.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_marker(&self, path: &Path) -> Result<(), IdentityError> {
        let bytes = serde_json::to_vec(self).map_err(|source| IdentityError::Damaged {
            path: path.to_owned(),
            source,
        })?;
        write_passing(path, &bytes, 0o600).map_err(IdentityError::Write)
    }

    /// Reads a marker file; none is `None`.
    ///
    /// # Errors
    /// When it cannot be read or is damaged: it must not be taken for "nobody".
    pub fn read_marker(path: &Path) -> Result<Option<Self>, IdentityError> {
        let bytes = match read_passing(path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(source) => {
                return Err(IdentityError::Marker {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| IdentityError::Damaged {
                path: path.to_owned(),
                source,
            })
    }
}

/// Waits until a process that need not be our child is dead, as long as `keep_waiting` says so.
///
/// `keep_waiting` is asked some times a second, so that it can say a word and watch for signals.
pub fn wait_until_dead(identity: &Identity, keep_waiting: &mut dyn FnMut() -> bool) -> Waited {
    const STEP: Duration = Duration::from_millis(200);
    let watch = system::Watch::on(identity);
    loop {
        match identity.liveness() {
            Liveness::Dead => return Waited::Dead,
            Liveness::Alive => {}
            unseen => return Waited::Unseen(unseen),
        }
        if !keep_waiting() {
            return Waited::GaveUp;
        }
        watch.pause(STEP, || identity.liveness() != Liveness::Alive);
    }
}

/// Tells whether a pid is anybody's, whoever may signal it.
pub(crate) fn exists(pid: u32) -> bool {
    let Some(pid) = raw_pid(pid) else {
        return false;
    };
    !matches!(rustix::process::test_kill_process(pid), Err(Errno::SRCH))
}

pub(crate) fn raw_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Where this process runs; it does not change while we live.
struct Place {
    machine_id: String,
    boot_id: String,
    pid_namespace: String,
}

impl Place {
    fn of_self() -> Result<&'static Self, IdentityError> {
        static PLACE: OnceLock<Place> = OnceLock::new();
        if let Some(place) = PLACE.get() {
            return Ok(place);
        }
        let told = fault::place();
        let machine = told.and_then(|place| place.machine.clone());
        let boot = told.and_then(|place| place.boot.clone());
        let place = Self {
            machine_id: machine.unwrap_or_else(system::machine_id),
            boot_id: boot.map_or_else(system::boot_id, Ok)?,
            pid_namespace: system::pid_namespace()?,
        };
        Ok(PLACE.get_or_init(|| place))
    }
}

/// Without a machine id the host's name must do, and says so.
fn machine_id_by_hostname() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("hostname:{name}")
}

/// What the system tells of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Ended, and not yet reaped.
    pub(crate) is_dead: bool,
    /// Its process group.
    pub(crate) group: u32,
    /// Ticks (Linux) or seconds (elsewhere).
    pub(crate) start_time: u64,
}

#[cfg(target_os = "linux")]
pub(crate) mod system {
    //! Linux: everything is in `/proc`.

    use std::fs::File;
    use std::io::Read;

    use super::*;

    pub(crate) fn machine_id() -> String {
        ["/etc/machine-id", "/var/lib/dbus/machine-id"]
            .iter()
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .map(|text| text.trim().to_owned())
            .find(|id| !id.is_empty() && id != "uninitialized")
            .unwrap_or_else(machine_id_by_hostname)
    }

    pub(crate) fn boot_id() -> Result<String, IdentityError> {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim().to_owned())
            .map_err(|source| IdentityError::Fact {
                what: "the boot id",
                source,
            })
    }

    pub(crate) fn pid_namespace() -> Result<String, IdentityError> {
        std::fs::read_link("/proc/self/ns/pid")
            .map(|link| link.to_string_lossy().into_owned())
            .map_err(|source| IdentityError::Fact {
                what: "the process namespace",
                source,
            })
    }

    /// `None` when there is no such process, or it is hidden from us.
    pub(crate) fn stat(pid: u32) -> Result<Option<Stat>, IdentityError> {
        let mut text = Vec::new();
        let read = File::open(format!("/proc/{pid}/stat"))
            .and_then(|mut file| file.read_to_end(&mut text));
        match read {
            Ok(_) => parse_stat(&text)
                .map(Some)
                .ok_or_else(|| IdentityError::Fact {
                    what: "the state of a process",
                    source: io::Error::from(io::ErrorKind::InvalidData),
                }),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) =>
            {
                Ok(None)
            }
            Err(source) => Err(IdentityError::Fact {
                what: "the state of a process",
                source,
            }),
        }
    }

    /// Reads `/proc/PID/stat` (`man 5 proc_pid_stat`). A program's name may hold `)` and spaces, so
    /// the fields are counted from the last `)` on.
    pub(crate) fn parse_stat(text: &[u8]) -> Option<Stat> {
        let after_name = text.iter().rposition(|b| *b == b')')? + 1;
        let fields = std::str::from_utf8(&text[after_name..]).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        let group = fields.nth(1)?.parse().ok()?;
        let start_time = fields.nth(16)?.parse().ok()?;
        Some(Stat {
            is_dead: matches!(state, "Z" | "X" | "x"),
            group,
            start_time,
        })
    }

    /// Every process that we can see.
    pub(crate) fn all() -> io::Result<Vec<(u32, Stat)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            if let Ok(Some(stat)) = stat(pid) {
                found.push((pid, stat));
            }
        }
        Ok(found)
    }

    /// Notices a process's end at once where the kernel has pidfds.
    pub(crate) struct Watch(Option<rustix::fd::OwnedFd>);

    impl Watch {
        pub(crate) fn on(identity: &Identity) -> Self {
            let flags = rustix::process::PidfdFlags::empty();
            // The pid may be another's by now; the caller asks `liveness` after this.
            Self(raw_pid(identity.pid).and_then(|p| rustix::process::pidfd_open(p, flags).ok()))
        }

        pub(crate) fn pause(&self, time: Duration, mut is_over: impl FnMut() -> bool) {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let Some(fd) = &self.0 else {
                let deadline = Instant::now() + time;
                wait::until(deadline, Duration::from_millis(20), || {
                    is_over().then_some(())
                });
                return;
            };
            let limit = Timespec::try_from(time).ok();
            // An interrupted poll is a short pause, no more.
            let ended = poll(&mut [PollFd::new(fd, PollFlags::IN)], limit.as_ref());
            if ended.is_ok_and(|n| n > 0) && !is_over() {
                // Ended, and not yet visible as such, or not the process that was meant.
                wait::pause(Duration::from_millis(5));
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
#[path = "identity_ps.rs"]
pub(crate) mod system;

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;

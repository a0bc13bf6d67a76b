//! The launcher: becomes the program, after what only the child itself can do.
//!
//! `rebuild __launch --ending with-us|on-its-own --parent PID [--marker FILE] -- PROGRAM [ARG…]`
//!
//! It writes its [`Identity`] to the marker (pid and start time stay the same over an exec), asks
//! for the parent-death signal or ignores SIGHUP, and becomes PROGRAM. Whoever reads the marker
//! after our death therefore knows: either the program runs under that identity, or it never will.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::identity::{Identity, IdentityError};
use crate::spawn::Ending;
use crate::wait;

/// The launcher's exit code when it could not prepare: bad arguments, no marker, parent gone.
pub const EXIT_UNPREPARED: u8 = 125;
/// The launcher's exit code when the system would not run the program.
pub const EXIT_NOT_RUN: u8 = 126;

/// Why the launcher did not become the program.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The arguments are not those that the module names.
    #[error("bad launcher arguments: {what}")]
    Usage {
        /// What is wrong.
        what: String,
    },
    /// The caller died in the meantime: nothing may begin that nobody knows of.
    #[error("the caller, process {parent}, is gone")]
    ParentGone {
        /// Its process id.
        parent: u32,
    },
    /// The marker was not written.
    #[error("cannot mark the process as started")]
    Marker(#[source] IdentityError),
    /// The system refused a setting.
    #[error("cannot {doing}")]
    Setting {
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The system would not run the program.
    #[error("cannot run program `{}`", program.display())]
    Exec {
        /// The program.
        program: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// The launcher's arguments, without its own name.
#[must_use]
pub(crate) fn arguments(ending: Ending, marker: Option<&PathBuf>) -> Vec<OsString> {
    let ending = match ending {
        Ending::WithUs => "with-us",
        Ending::OnItsOwn => "on-its-own",
    };
    let parent = std::process::id().to_string();
    let mut arguments: Vec<OsString> = vec![
        "--ending".into(),
        ending.into(),
        "--parent".into(),
        parent.into(),
    ];
    if let Some(marker) = marker {
        arguments.extend(["--marker".into(), marker.into()]);
    }
    if let Some(place) = fault::place() {
        let named = [("--machine", &place.machine), ("--boot", &place.boot)];
        for (name, value) in named {
            if let Some(value) = value {
                arguments.extend([name.into(), value.into()]);
            }
        }
    }
    arguments.push("--".into());
    arguments
}

/// The launcher's whole work, with the arguments after `__launch`; comes back only when it failed.
///
/// The reason is written to stderr, which is the program's output for whoever started it.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let error = launch(arguments);
    let mut text = format!("launcher: {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(deeper) = cause {
        text.push_str(&format!(": {deeper}"));
        cause = deeper.source();
    }
    // There is nowhere else to say it.
    let _ = writeln!(io::stderr(), "{text}");
    match error {
        LaunchError::Exec { .. } => ExitCode::from(EXIT_NOT_RUN),
        _ => ExitCode::from(EXIT_UNPREPARED),
    }
}

/// Becomes the program; comes back only with the reason why it didn't.
pub fn launch(arguments: impl IntoIterator<Item = OsString>) -> LaunchError {
    let order = match Order::parse(arguments.into_iter()) {
        Ok(order) => order,
        Err(what) => return LaunchError::Usage { what },
    };
    match order.prepare() {
        Ok(()) => order.exec(),
        Err(error) => error,
    }
}

struct Order {
    ending: Ending,
    parent: u32,
    marker: Option<PathBuf>,
    /// Where it is to say that it runs; tests alone say it.
    place: fault::Place,
    program: PathBuf,
    args: Vec<OsString>,
}

impl Order {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut ending, mut parent, mut marker) = (None, None, None);
        let mut place = fault::Place::default();
        loop {
            let name = arguments.next().ok_or("no `--`")?;
            if name == "--" {
                break;
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name:?} has no value"))?;
            match (name.to_str(), value.to_str()) {
                (Some("--ending"), Some("with-us")) => ending = Some(Ending::WithUs),
                (Some("--ending"), Some("on-its-own")) => ending = Some(Ending::OnItsOwn),
                (Some("--parent"), Some(pid)) => parent = pid.parse().ok(),
                (Some("--marker"), _) => marker = Some(PathBuf::from(value)),
                (Some("--machine"), Some(name)) => place.machine = Some(name.to_owned()),
                (Some("--boot"), Some(name)) => place.boot = Some(name.to_owned()),
                _ => return Err(format!("{name:?} {value:?}")),
            }
        }
        Ok(Self {
            ending: ending.ok_or("no `--ending`")?,
            parent: parent.ok_or("no `--parent`")?,
            marker,
            place,
            program: arguments.next().ok_or("no program")?.into(),
            args: arguments.collect(),
        })
    }

    fn prepare(&self) -> Result<(), LaunchError> {
        if self.place != fault::Place::default() {
            fault::at(self.place.clone());
        }
        if self.ending == Ending::WithUs {
            die_with_parent().map_err(|source| LaunchError::Setting {
                doing: "ask to die with the caller",
                source,
            })?;
        }
        let ignored: &[i32] = match self.ending {
            Ending::OnItsOwn => &[libc::SIGHUP, libc::SIGTTIN, libc::SIGTTOU],
            Ending::WithUs => &[libc::SIGTTIN, libc::SIGTTOU],
        };
        for signal in ignored {
            ignore(*signal).map_err(|source| LaunchError::Setting {
                doing: "ignore a signal",
                source,
            })?;
        }
        if let Some(marker) = &self.marker {
            Identity::of_self()
                .and_then(|identity| identity.write_marker(marker))
                .map_err(LaunchError::Marker)?;
        }
        // Last of all. A caller that died before this leaves no program; one that dies after it
        // leaves a program and, on disk already, the marker that names it.
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
        if parent == Some(self.parent) {
            Ok(())
        } else {
            Err(LaunchError::ParentGone {
                parent: self.parent,
            })
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this crate alone spawns")]
    fn exec(self) -> LaunchError {
        let deadline = Instant::now() + Duration::from_millis(500);
        let failed = wait::until(deadline, Duration::from_millis(10), || {
            let error = Command::new(&self.program).args(&self.args).exec();
            // Somebody has the program open for writing, most likely a fork that is about to close
            // it; anything else stays as it is.
            (error.kind() != io::ErrorKind::ExecutableFileBusy).then_some(error)
        });
        let source = failed.unwrap_or_else(|| io::ErrorKind::ExecutableFileBusy.into());
        LaunchError::Exec {
            program: self.program,
            source,
        }
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent() -> io::Result<()> {
    let signal = Some(rustix::process::Signal::KILL);
    Ok(rustix::process::set_parent_process_death_signal(signal)?)
}

/// There is no such signal here: the program ends when its pipes close, or by itself.
#[cfg(not(target_os = "linux"))]
fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Ignores a signal, in the program too: an ignored signal stays ignored over an exec.
///
/// SIGHUP kills `tofu` at once and loses the state. SIGTTIN and SIGTTOU stop, for ever, a program
/// that asks at a terminal which its group does not own; ignored, its question fails instead.
#[expect(
    unsafe_code,
    reason = "no sound wrapper sets SIG_IGN; this one call does"
)]
fn ignore(signal: i32) -> io::Result<()> {
    // SAFETY: SIG_IGN runs no code of ours, and nothing else in the launcher, which has one thread
    // and ends by exec, touches this signal's disposition.
    let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if before == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Tells whether `name` is what names the launcher among a program's own subcommands.
#[must_use]
pub fn is_launcher(name: &OsStr) -> bool {
    name == NAME
}

/// The hidden subcommand under which a program offers the launcher.
pub const NAME: &str = "__launch";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Order, String> {
        Order::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn what_the_spawner_writes_is_what_the_launcher_reads() {
        let marker = PathBuf::from("/m");
        let mut line = arguments(Ending::OnItsOwn, Some(&marker));
        line.extend(["/bin/tofu".into(), "--".into(), "--marker".into()]);
        let order = Order::parse(line.into_iter()).unwrap();
        assert_eq!(order.ending, Ending::OnItsOwn);
        assert_eq!(order.parent, std::process::id());
        assert_eq!(order.marker, Some(marker));
        assert_eq!(order.program, PathBuf::from("/bin/tofu"));
        assert_eq!(order.args, ["--", "--marker"]);
    }

    #[test]
    fn an_order_that_lacks_anything_is_refused() {
        for line in [
            "--ending with-us --parent 1",
            "--ending with-us --parent 1 --",
            "--ending with-us -- true",
            "--parent 1 -- true",
            "--ending maybe --parent 1 -- true",
            "--ending with-us --parent one -- true",
            "--ending with-us --parent 1 --marker",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

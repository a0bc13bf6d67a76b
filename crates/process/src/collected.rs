//! A program run to its end within a time, its output whole.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::group::KillError;
use crate::invocation::Invocation;
use crate::spawn::{Exit, How, Progress, ReadError, SpawnError, Spawner, Stream};

/// What a program wrote, and how it ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Collected {
    /// Its stdout (and, where one file was followed, its stderr), without one trailing newline.
    pub stdout: Vec<u8>,
    /// Its stderr, without one trailing newline.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub exit: Exit,
}

/// Shows sizes only: the output may be secret.
impl std::fmt::Debug for Collected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collected")
            .field("stdout_bytes", &self.stdout.len())
            .field("stderr_bytes", &self.stderr.len())
            .field("exit", &self.exit)
            .finish()
    }
}

/// Why a program was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// It did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Its output could not be read; it was killed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It took too long; it was killed.
    #[error("program `{}` did not end within {} s and was killed", program.display(), limit.as_secs())]
    TimedOut {
        /// The program.
        program: PathBuf,
        /// The time that it had.
        limit: Duration,
    },
    /// The caller wanted no more of it; it was killed.
    #[error("program `{}` was interrupted", program.display())]
    Stopped {
        /// The program.
        program: PathBuf,
    },
    /// It had to be killed, and is not proven dead.
    #[error(transparent)]
    Kill(#[from] KillError),
}

/// Runs a program that only reads to its end, `limit` at most, and collects its output.
///
/// `stop` is asked some times a second; when it says so, and when the time is over, the program's
/// whole group is killed.
///
/// # Errors
/// When the program did not end by itself. A code other than 0 is no error here.
pub fn collect(
    spawner: &dyn Spawner,
    call: &Invocation,
    how: &How,
    limit: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Collected, CollectError> {
    const STEP: Duration = Duration::from_millis(100);
    let program = || call.program.clone();
    let deadline = Instant::now() + limit;
    let mut running = spawner.start(call, how)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut has_stdout, mut has_stderr) = (false, false);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match running.next(STEP.min(left)) {
            Ok(Progress::Line(line, stream)) => {
                let (bytes, has_any) = match stream {
                    Stream::Stdout | Stream::Merged => (&mut stdout, &mut has_stdout),
                    Stream::Stderr => (&mut stderr, &mut has_stderr),
                };
                if *has_any {
                    bytes.push(b'\n');
                }
                *has_any = true;
                bytes.extend(line);
            }
            Ok(Progress::Ended(exit)) => {
                let _ = fault::point("child.end", || call.brief());
                return Ok(Collected {
                    stdout,
                    stderr,
                    exit,
                });
            }
            Ok(Progress::Quiet) => {}
            Err(error) => {
                running.kill_group()?;
                return Err(error.into());
            }
        }
        let is_late = Instant::now() >= deadline;
        if is_late || stop() {
            running.kill_group()?;
            return Err(if is_late {
                CollectError::TimedOut {
                    program: program(),
                    limit,
                }
            } else {
                CollectError::Stopped { program: program() }
            });
        }
    }
}

/// The system's own error behind an error of this crate, where there is one.
impl CollectError {
    /// Tells whether the program is simply not there.
    #[must_use]
    pub fn is_missing_program(&self) -> bool {
        match self {
            Self::Spawn(SpawnError::Missing { .. }) => true,
            Self::Spawn(SpawnError::Start { source, .. }) => {
                source.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}

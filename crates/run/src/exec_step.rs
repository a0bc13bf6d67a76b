//! One program of the platform, run as a step: followed, masked, stopped only as the operator asks.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use process::{Exit, How, Invocation, Progress, Running, Signal, SpawnError, Spawner};
use secrets::Masker;

use crate::environment::Environment;
use crate::stop::{StopLevel, StopRequests};

/// How many of the last lines an error shows.
const TAIL_LINES: usize = 20;
/// How often a running program is looked after.
const TICK: Duration = Duration::from_millis(100);
/// How long a program has after the one SIGINT that its time-out brings, before its group is killed.
const AFTER_TIMEOUT: Duration = Duration::from_secs(60);

/// A program to run.
pub(crate) struct ExecCall<'a> {
    /// Program and arguments.
    pub(crate) argv: &'a [String],
    /// Its whole environment.
    pub(crate) env: Environment,
    /// Where it works.
    pub(crate) cwd: &'a Path,
    /// What it reads.
    pub(crate) stdin: Option<Vec<u8>>,
    /// For one that changes things: the memory-backed file of its output, and its marker.
    pub(crate) changes: Option<(PathBuf, PathBuf)>,
    /// The file that the masked copy of its output is added to.
    pub(crate) log: &'a Path,
    /// The longest that it may take.
    pub(crate) timeout: Option<Duration>,
}

/// Why a program did not do its part.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    /// It named no program.
    #[error("the command is empty")]
    Empty,
    /// It did not start.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: SpawnError,
    },
    /// Its output can't be read any more.
    #[error("lost the output of `{program}`")]
    Read {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: process::ReadError,
    },
    /// It could not be killed.
    #[error("cannot kill `{program}` and what it started")]
    Kill {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: process::KillError,
    },
    /// It ended by a signal of the operator.
    #[error("`{program}` was interrupted ({exit})")]
    Interrupted {
        /// The program.
        program: String,
        /// How it ended.
        exit: Exit,
    },
    /// It took too long.
    #[error("`{program}` did not end within its timeout of {} s", limit.as_secs())]
    TimedOut {
        /// The program.
        program: String,
        /// The time that it had.
        limit: Duration,
    },
    /// It ended by itself, and not well.
    #[error("`{program}` ended with {exit}")]
    Exited {
        /// The program.
        program: String,
        /// How it ended.
        exit: Exit,
        /// The last lines that it wrote, masked.
        tail: Vec<String>,
    },
}

impl ExecError {
    /// The last lines that the program wrote, masked.
    pub(crate) fn tail(&self) -> &[String] {
        match self {
            Self::Exited { tail, .. } => tail,
            _ => &[],
        }
    }

    /// Whether a signal of the operator ended it.
    pub(crate) fn is_interrupt(&self) -> bool {
        matches!(self, Self::Interrupted { .. })
    }
}

/// Runs a program to its end. Only exit code 0 is well.
///
/// # Errors
/// It did not start, or did not end well.
pub(crate) fn run(
    call: &ExecCall<'_>,
    spawner: &dyn Spawner,
    masker: &Masker,
    stop: &StopRequests,
) -> Result<(), ExecError> {
    let (name, args) = call.argv.split_first().ok_or(ExecError::Empty)?;
    let program = || masker.mask(name).into_owned();
    let mut invocation = Invocation::new(name, call.cwd).args(args);
    invocation.env.clone_from(&call.env);
    invocation.stdin.clone_from(&call.stdin);
    let how = match &call.changes {
        Some((output, marker)) => How::changer(output, marker),
        None => How::reader(),
    };
    let mut running = spawner
        .start(&invocation, &how)
        .map_err(|source| ExecError::Start {
            program: program(),
            source,
        })?;
    let mut guard = Guard {
        started: Instant::now(),
        timeout: call.timeout,
        signals: 0,
        timed_out: None,
    };
    let mut log = Log::open(call.log);
    let exit = loop {
        match running.next(TICK).map_err(|source| ExecError::Read {
            program: program(),
            source,
        })? {
            Progress::Line(line, _) => log.take(&masker.mask(&String::from_utf8_lossy(&line))),
            Progress::Quiet => {}
            Progress::Ended(exit) => break exit,
        }
        guard
            .look(stop.level(), running.as_ref())
            .map_err(|source| ExecError::Kill {
                program: program(),
                source,
            })?;
    };
    match exit {
        exit if exit.is_success() => Ok(()),
        _ if guard.timed_out.is_some() => Err(ExecError::TimedOut {
            program: program(),
            limit: call.timeout.unwrap_or_default(),
        }),
        exit if guard.signals > 0 => Err(ExecError::Interrupted {
            program: program(),
            exit,
        }),
        exit => Err(ExecError::Exited {
            program: program(),
            exit,
            tail: log.tail.into(),
        }),
    }
}

/// Passes on what the operator and the clock ask, each once.
struct Guard {
    started: Instant,
    timeout: Option<Duration>,
    signals: u32,
    timed_out: Option<Instant>,
}

impl Guard {
    fn look(&mut self, level: StopLevel, running: &dyn Running) -> Result<(), process::KillError> {
        if self
            .timeout
            .is_some_and(|limit| self.started.elapsed() >= limit)
            && self.timed_out.is_none()
        {
            self.timed_out = Some(Instant::now());
            interrupt(running);
        }
        if self
            .timed_out
            .is_some_and(|since| since.elapsed() >= AFTER_TIMEOUT)
        {
            return running.kill_group();
        }
        if level >= StopLevel::Interrupt && self.signals == 0 {
            self.signals = 1;
            interrupt(running);
        }
        if level == StopLevel::Kill && self.signals == 1 {
            self.signals = 2;
            return running.kill_group();
        }
        Ok(())
    }
}

/// A signal that finds nobody is no fault: the program has ended meanwhile.
fn interrupt(running: &dyn Running) {
    let _ = running.signal_group(Signal::Interrupt);
}

/// The masked copy on disk, and the last lines for the error. A log that can't be kept stops nothing.
pub(crate) struct Log {
    file: Option<std::fs::File>,
    tail: VecDeque<String>,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Self {
        let file = path
            .parent()
            .and_then(|parent| std::fs::create_dir_all(parent).ok())
            .and_then(|()| {
                OpenOptions::new()
                    .create(true)
                    .append(true)
                    .mode(0o600)
                    .open(path)
                    .ok()
            });
        Self {
            file,
            tail: VecDeque::new(),
        }
    }

    pub(crate) fn take(&mut self, line: &str) {
        if let Some(file) = &mut self.file
            && writeln!(file, "{line}").is_err()
        {
            self.file = None;
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line.to_owned());
    }
}

//! The contract of a spawner and of a program that runs.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::group::KillError;
use crate::identity::{Identity, IdentityError};
use crate::invocation::Invocation;

/// Starts programs.
pub trait Spawner: Send + Sync {
    /// Starts one program, in a process group of its own.
    ///
    /// # Errors
    /// When the program cannot be started; nothing of it runs then.
    fn start(&self, call: &Invocation, how: &How) -> Result<Box<dyn Running>, SpawnError>;
}

/// How to start a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct How {
    /// What our end means to it.
    pub ending: Ending,
    /// Where its output goes.
    pub output: Output,
    /// The file that the launcher writes the program's [`Identity`] to before it becomes it.
    pub marker: Option<PathBuf>,
}

impl How {
    /// A program that only reads: captured, and dies with us.
    #[must_use]
    pub fn reader() -> Self {
        Self {
            ending: Ending::WithUs,
            output: Output::Captured,
            marker: None,
        }
    }

    /// A program that changes things: its output goes to the file `path`, its identity to the file
    /// `marker`, and it outlives us.
    pub fn changer(path: impl Into<PathBuf>, marker: impl Into<PathBuf>) -> Self {
        Self {
            ending: Ending::OnItsOwn,
            output: Output::Followed { path: path.into() },
            marker: Some(marker.into()),
        }
    }
}

/// What our end means to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It dies with us, by the parent-death signal (Linux), and when its [`Running`] is dropped.
    WithUs,
    /// It runs to its end, whatever becomes of us or of its [`Running`]; SIGHUP does not reach it.
    OnItsOwn,
}

/// Where a program's output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// To pipes, drained all the time that it runs.
    Captured,
    /// Stdout and stderr both to one file, made here (0600, must not exist), which we follow.
    Followed {
        /// The file; in a memory-backed directory where the output may hold a secret.
        path: PathBuf,
    },
}

/// A program that was started.
///
/// Dropping it kills the group of a program that ends [`Ending::WithUs`] and leaves one that ends
/// [`Ending::OnItsOwn`] alone. A program that ended stays a zombie until the drop, so that its pid
/// and its group's number cannot become another's while signals may still be sent.
pub trait Running: Send {
    /// Who it is. The same before and after the launcher has become the program.
    fn identity(&self) -> &Identity;

    /// Gives the next line, or says after `wait` that there was none, or how it ended.
    ///
    /// Every line is delivered before [`Progress::Ended`], a last one without newline too. A
    /// grandchild that keeps the output open cannot hold this up. Once ended, it says so again.
    ///
    /// # Errors
    /// When the output cannot be read; never hidden as an end.
    fn next(&mut self, wait: Duration) -> Result<Progress, ReadError>;

    /// Sends one signal to its process group. A group that is gone is no error.
    ///
    /// # Errors
    /// When the system refuses.
    fn signal_group(&self, signal: Signal) -> io::Result<()>;

    /// Kills its whole process group and proves that nothing of it lives.
    ///
    /// # Errors
    /// When something of it still lives after some seconds.
    fn kill_group(&self) -> Result<(), KillError>;

    /// Waits for its end, however long that takes. Lines can still be read afterwards.
    ///
    /// # Errors
    /// When the exit status got lost.
    fn wait(&mut self) -> io::Result<Exit>;
}

/// What [`Running::next`] saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// One line, without its newline; any length, any bytes.
    Line(Vec<u8>, Stream),
    /// Nothing new within the time.
    Quiet,
    /// It ended, and every line was delivered.
    Ended(Exit),
}

/// Which output a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The program's stdout.
    Stdout,
    /// The program's stderr.
    Stderr,
    /// The one file that both go to ([`Output::Followed`]).
    Merged,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// Tells whether it ended by itself with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

/// Reads as `exit code 1` or `signal 9`.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// A signal that we send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGINT: asks `tofu` to end gently.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal is gone.
    Hangup,
    /// SIGKILL; [`Running::kill_group`] verifies as well.
    Kill,
}

impl Signal {
    /// The signal's number, as in [`Exit::Signal`].
    #[must_use]
    pub fn number(self) -> i32 {
        self.of_system().as_raw()
    }

    pub(crate) fn of_system(self) -> rustix::process::Signal {
        match self {
            Self::Interrupt => rustix::process::Signal::INT,
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Hangup => rustix::process::Signal::HUP,
            Self::Kill => rustix::process::Signal::KILL,
        }
    }
}

/// Why a program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No such program.
    #[error("there is no program `{}`{}", program.display(), if *on_path { " on its PATH" } else { "" })]
    Missing {
        /// The program as it was named.
        program: PathBuf,
        /// Whether it was looked up on the invocation's `PATH`.
        on_path: bool,
    },
    /// The file is there and is no program.
    #[error("`{}` is not an executable file", program.display())]
    NotExecutable {
        /// The file.
        program: PathBuf,
    },
    /// The directory that it should run in is not there.
    #[error("program `{}` has no directory `{}` to run in", program.display(), cwd.display())]
    NoDirectory {
        /// The program.
        program: PathBuf,
        /// The directory.
        cwd: PathBuf,
    },
    /// One argument or variable is longer than the system takes; it belongs into a file.
    #[error(
        "{what} of program `{}` is {n_bytes} bytes long, and the system takes {limit} at most: pass it in a file",
        program.display()
    )]
    StringTooLong {
        /// The program.
        program: PathBuf,
        /// Which one: `argument 3` or ``variable `NAME` ``; never its value.
        what: String,
        /// Its length in bytes.
        n_bytes: usize,
        /// The most that the system takes, in bytes.
        limit: usize,
    },
    /// Arguments and environment together are longer than the system takes.
    #[error(
        "arguments and environment of program `{}` are {n_bytes} bytes long, more than the system takes: pass values in a file",
        program.display()
    )]
    TooLong {
        /// The program.
        program: PathBuf,
        /// Their length in bytes.
        n_bytes: usize,
    },
    /// The file for its output could not be made.
    #[error("cannot make the output file `{}` of program `{}`", path.display(), program.display())]
    OutputFile {
        /// The program.
        program: PathBuf,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot start program `{}`", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// It was started, and could not be identified; it was killed again.
    #[error("cannot tell who the started program `{}` is", program.display())]
    Unidentified {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: IdentityError,
    },
    /// A fake met a call that it has no script for.
    #[error("unscripted call of `{}` with arguments {args:?}", program.display())]
    Unscripted {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        args: Vec<std::ffi::OsString>,
    },
}

/// Why a program's output or end could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The output could not be read.
    #[error("cannot read the output of process {pid}")]
    Output {
        /// The program's process id.
        pid: u32,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// How it ended is not known.
    #[error("cannot tell how process {pid} ended")]
    Exit {
        /// The program's process id.
        pid: u32,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

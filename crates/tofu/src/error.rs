//! Why a command gave no answer, in words for people.

use std::fmt;
use std::path::{Path, PathBuf};

use process::{Exit, KillError, ReadError, SpawnError};

use crate::events::Diagnostic;
use crate::outcome::Outcome;
use crate::plan_document::PlanDocumentError;
use crate::step_dir::{PlaceError, StepKey};

/// What kind of failure an `init` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitFailure {
    /// The network, or a registry that was busy. Tried again already, and still so.
    Network,
    /// The dependency lock file does not fit the configuration and the state.
    LockFile {
        /// Entries that neither the configuration nor the state needs.
        surplus: Vec<String>,
        /// Providers that are needed and have no entry.
        missing: Vec<String>,
    },
    /// The backend is not the one that the override asks for.
    Backend {
        /// The type that was found instead; `None` when none was set up.
        found: Option<String>,
    },
    /// Anything else: a missing module, a wrong version constraint, a syntax error.
    Other,
}

/// Why a command failed, apart from what it said.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// It ended with a code other than 0, by a signal, or with an error message.
    #[error("it ended with {0}")]
    Ended(Exit),
    /// It was interrupted because the caller wanted it.
    #[error("it was interrupted")]
    Interrupted,
    /// It took longer than it may, and was interrupted.
    #[error("it did not end within its timeout, and was interrupted")]
    TimedOut,
    /// It was `init`, and of this kind.
    #[error("its initialization failed")]
    Init(InitFailure),
    /// A child of an earlier call still works on this step: never two at once.
    #[error("process {pid} of an earlier call still works on this step")]
    StillRunning {
        /// The child's process id.
        pid: u32,
    },
    /// A state that could be written nowhere else lies in the tree: going on would fork the state.
    #[error("`{}` holds a state that was not rescued yet", path.display())]
    Unrescued {
        /// The `errored.tfstate`.
        path: PathBuf,
    },
    /// It could not be started.
    #[error("it could not be started")]
    Start(#[source] SpawnError),
    /// Its output could not be read. It may still run.
    #[error("its output could not be read")]
    Read(#[source] ReadError),
    /// It was to be killed and is not proven dead.
    #[error("it could not be killed")]
    Kill(#[source] KillError),
    /// Its tree could not be prepared.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A file that it needs could not be made or read.
    #[error("cannot {doing}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It said something else than the JSON that is expected.
    #[error("its answer can't be read")]
    Answer(#[source] serde_json::Error),
    /// Its plan document can't be read.
    #[error(transparent)]
    Document(#[from] PlanDocumentError),
}

/// A command that failed: what, where, why, and what it said.
#[derive(Debug)]
pub struct RunError {
    /// The step.
    pub step: StepKey,
    /// `plan`, `apply`, …
    pub command: &'static str,
    /// Why.
    pub cause: Box<Cause>,
    /// Everything that was heard until then.
    pub outcome: Box<Outcome>,
    /// The masked transcript, when there is one.
    pub transcript: Option<PathBuf>,
}

impl RunError {
    pub(crate) fn new(step: &StepKey, command: &'static str, cause: impl Into<Cause>) -> Self {
        Self {
            step: step.clone(),
            command,
            cause: Box::new(cause.into()),
            outcome: Box::default(),
            transcript: None,
        }
    }

    /// How the process ended, if it ran and ended.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.outcome.exit
    }

    /// The first error that the command told: the cause, most often.
    #[must_use]
    pub fn first_diagnostic(&self) -> Option<&Diagnostic> {
        self.outcome.errors().next()
    }

    /// Every error that the command told, in order.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<&Diagnostic> {
        self.outcome.errors().collect()
    }

    /// The last lines that were no messages: all there is when it died before it could speak JSON.
    #[must_use]
    pub fn tail(&self) -> String {
        self.outcome
            .tail
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The transcript's path.
    #[must_use]
    pub fn transcript(&self) -> Option<&Path> {
        self.transcript.as_deref()
    }

    /// Whether the state lock was refused: the command did nothing.
    #[must_use]
    pub fn is_lock_refused(&self) -> bool {
        self.outcome.lock_error().is_some()
    }

    /// Whether it was interrupted or killed because the caller wanted it.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        matches!(*self.cause, Cause::Interrupted)
    }

    /// Whether the clock ended it.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(*self.cause, Cause::TimedOut)
    }

    /// What kind of `init` failure it is, if it is one.
    #[must_use]
    pub fn init_failure(&self) -> Option<&InitFailure> {
        match &*self.cause {
            Cause::Init(failure) => Some(failure),
            _ => None,
        }
    }
}

impl fmt::Display for RunError {
    /// One line for the command and its end, then every error with the first cause on top; the raw
    /// tail where there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`tofu {}` of step `{}` failed", self.command, self.step)?;
        match &*self.cause {
            Cause::Ended(exit) => write!(f, " with {exit}")?,
            Cause::Interrupted => f.write_str(": it was interrupted")?,
            Cause::TimedOut => f.write_str(": it did not end within its timeout")?,
            Cause::Init(InitFailure::LockFile { surplus, missing }) => {
                f.write_str(": the dependency lock file does not fit")?;
                for (what, names) in [("not needed", surplus), ("missing", missing)] {
                    if !names.is_empty() {
                        write!(f, "; {what}: `{}`", names.join("`, `"))?;
                    }
                }
            }
            Cause::Init(InitFailure::Backend { found }) => {
                let found = found.as_deref().unwrap_or("none");
                write!(f, ": the backend is `{found}`, not `http`")?;
            }
            Cause::Init(InitFailure::Network) => f.write_str(": the network")?,
            Cause::Init(InitFailure::Other) => {}
            other => write!(f, ": {other}")?,
        }
        let mut errors = self.outcome.errors().peekable();
        if errors.peek().is_some() {
            let n_errors = self.outcome.errors().count();
            const SHOWN: usize = 10;
            for error in errors.take(SHOWN) {
                write!(f, "\n  {error}")?;
            }
            if n_errors > SHOWN {
                write!(f, "\n  … and {} more", n_errors - SHOWN)?;
            }
        } else {
            const LINES: usize = 12;
            let skip = self.outcome.tail.len().saturating_sub(LINES);
            for line in self.outcome.tail.iter().skip(skip) {
                write!(f, "\n  {}", line.chars().take(500).collect::<String>())?;
            }
        }
        if let Some(transcript) = &self.transcript {
            write!(f, "\n  the whole log: {}", transcript.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The cause's own words are in the message already; what is beneath them is not.
        std::error::Error::source(&*self.cause)
    }
}

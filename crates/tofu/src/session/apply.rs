//! `apply` and `destroy`, which outlive us, and what a killed call left of one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use process::Identity;
use secrets::Masker;
use serde::{Deserialize, Serialize};

use super::{Planned, Session};
use crate::arguments::Command;
use crate::disk;
use crate::error::RunError;
use crate::events::EventLine;
use crate::outcome::Outcome;
use crate::step_dir::StepDir;

/// What is applied.
#[derive(Debug, Clone, Copy)]
pub enum ApplyWhat<'p> {
    /// Exactly this plan.
    Saved(&'p Planned),
    /// The configuration, planned and applied by one process.
    Direct,
    /// Everything goes, planned and applied by one process.
    DirectDestroy {
        /// Whether the objects are read before.
        refresh: bool,
    },
}

/// An apply that ended well.
#[derive(Debug, Clone)]
pub struct Applied {
    /// What the event stream said; `outputs` has the values that are not sensitive.
    pub outcome: Outcome,
    /// The masked transcript.
    pub transcript: Option<PathBuf>,
}

/// What is left of a changing command whose caller was killed.
#[derive(Debug, Clone)]
pub struct Leftover {
    /// Who the child was, if it was started.
    pub identity: Option<Identity>,
    /// `apply`, `destroy`, `state push`.
    pub command: String,
    /// What its output said, where that is still in memory: who to suspect, and a state that it may
    /// have printed.
    pub outcome: Option<Outcome>,
    /// The memory-backed file of its output, as far as it was noted.
    pub output: Option<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct OutputNote {
    command: String,
    path: PathBuf,
}

impl Session {
    /// Applies. The process is not ours to end: it outlives this one.
    ///
    /// # Errors
    /// When OpenTofu could not do all of it. [`Outcome::suspects`] then names what may exist in no
    /// state, and the tree may hold an `errored.tfstate`.
    pub fn apply(&self, what: ApplyWhat<'_>) -> Result<Applied, RunError> {
        let ran = match what {
            // A saved plan fits the data directory that it was made with, or no longer at all.
            ApplyWhat::Saved(plan) => {
                let command = Command::ApplySaved {
                    plan: plan.file().to_owned(),
                };
                self.run_once(&command, plan.data_dir(), false, None)?
            }
            ApplyWhat::Direct => self.run(&Command::ApplyDirect {
                destroy: false,
                refresh: true,
            })?,
            ApplyWhat::DirectDestroy { refresh } => self.run(&Command::ApplyDirect {
                destroy: true,
                refresh,
            })?,
        };
        Ok(Applied {
            outcome: ran.outcome,
            transcript: ran.transcript,
        })
    }
}

impl StepDir {
    /// Notes where the next changing child's output goes, before it starts.
    pub(crate) fn note_output(&self, command: &str, path: &Path) -> io::Result<()> {
        disk::private_dir(self.path())?;
        self.clear_marker()?;
        let bytes = serde_json::to_vec(&OutputNote {
            command: command.to_owned(),
            path: path.to_owned(),
        })?;
        disk::write(&self.output_note(), &bytes, 0o600)
    }

    /// What a killed call left: read it once its child is dead, before memory-backed directories of
    /// dead owners are swept. `None` when the last changing command was seen to its end.
    ///
    /// # Errors
    /// When the note or the marker can't be read.
    pub fn leftover(&self, masker: &Masker) -> io::Result<Option<Leftover>> {
        let identity = Identity::read_marker(&self.marker()).map_err(io::Error::other)?;
        let note: OutputNote = match process::files::read_passing(&self.output_note()) {
            Ok(Some(bytes)) => serde_json::from_slice(&bytes)?,
            Ok(None) => {
                return Ok(identity.map(|identity| Leftover {
                    identity: Some(identity),
                    command: "apply".to_owned(),
                    outcome: None,
                    output: None,
                }));
            }
            Err(error) => return Err(error),
        };
        let outcome = match fs::read(&note.path) {
            Ok(bytes) => {
                let mut outcome = Outcome::default();
                for line in bytes
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    let mut line = EventLine::parse(line);
                    super::mask(&mut line, masker);
                    outcome.take(&line);
                }
                Some(outcome)
            }
            Err(_) => None,
        };
        Ok(Some(Leftover {
            identity,
            command: note.command,
            outcome,
            output: Some(note.path),
        }))
    }

    /// Forgets what a killed call left, its child's output included: all of it is safe elsewhere.
    ///
    /// # Errors
    /// When a file can't be removed.
    pub fn forget_leftover(&self, leftover: &Leftover) -> io::Result<()> {
        if let Some(output) = &leftover.output {
            disk::remove_if_there(output)?;
        }
        self.clear_marker()
    }
}

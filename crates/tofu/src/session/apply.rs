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
use crate::outcome::{Outcome, Touched};
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
    /// What it may have made that is in no state, where the caller saw its end and was killed before anybody took
    /// note of it; masked.
    pub suspects: Vec<MayExist>,
}

/// An object that may exist in no state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MayExist {
    /// The resource instance.
    pub address: String,
    /// Its provider, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its id, where its creation came to an end that told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether a creation began: what the state had at the address before is another object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_made: bool,
}

/// What is kept on disk of a changing command: where its output goes while it runs, and what it may have made once it
/// has ended.
#[derive(Serialize, Deserialize)]
struct OutputNote {
    command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suspects: Vec<MayExist>,
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

impl Outcome {
    /// What may exist in no state, each with the provider that its plan named.
    #[must_use]
    pub fn may_exist(&self) -> Vec<MayExist> {
        let provider = |address: &str| {
            let planned = self.planned.iter();
            let mut planned = planned.filter(|change| change.address() == address);
            Some(planned.next()?.resource.implied_provider.clone())
        };
        let created = |of: &[Touched], address: &str| {
            let mut created = of.iter().rev();
            created
                .find(|one| one.action == "create" && one.address == address)
                .cloned()
        };
        let suspects = self.suspects().into_iter();
        suspects
            .map(|address| MayExist {
                provider: provider(&address),
                id: created(&self.completed, &address).and_then(|one| one.id),
                is_made: created(&self.started, &address).is_some(),
                address,
            })
            .collect()
    }
}

impl StepDir {
    /// Notes where the next changing child's output goes, before it starts.
    pub(crate) fn note_output(&self, command: &str, path: &Path) -> io::Result<()> {
        disk::private_dir(self.path())?;
        self.clear_marker()?;
        let bytes = serde_json::to_vec(&OutputNote {
            command: command.to_owned(),
            path: Some(path.to_owned()),
            suspects: Vec::new(),
        })?;
        disk::write(&self.output_note(), &bytes, 0o600)
    }

    /// Takes down how a changing child ended that was seen to its end, and forgets its output. What it may have made
    /// and left in no state stays noted until [`StepDir::forget_ended`]: its caller may be killed before anybody else
    /// knows of it. A state that it could only print stays where it is, in memory, for the rescue.
    ///
    /// Says whether its output is still needed.
    pub(crate) fn note_end(
        &self,
        command: &str,
        output: &Path,
        outcome: &Outcome,
        masker: &Masker,
    ) -> io::Result<bool> {
        if outcome.emergency_state.is_some() {
            return Ok(true);
        }
        let suspects: Vec<MayExist> = if outcome.is_success() {
            Vec::new()
        } else {
            outcome.may_exist()
        };
        if suspects.is_empty() {
            disk::remove_if_there(output)?;
            self.clear_marker()?;
            return Ok(false);
        }
        let masked = suspects.into_iter().map(|one| MayExist {
            address: masker.mask(&one.address).into_owned(),
            id: one.id.map(|id| masker.mask(&id).into_owned()),
            ..one
        });
        let bytes = serde_json::to_vec(&OutputNote {
            command: command.to_owned(),
            path: None,
            suspects: masked.collect(),
        })?;
        // It has to outlast a power cut: the output goes with it.
        process::files::write_atomically(&self.output_note(), &bytes, 0o600)
            .map_err(io::Error::other)?;
        disk::remove_if_there(output)?;
        Ok(false)
    }

    /// Forgets what a child that was seen to its end may have made: it is recorded. What is left of any other stays.
    ///
    /// # Errors
    /// When the note can't be read or removed.
    pub fn forget_ended(&self) -> io::Result<()> {
        match self.read_note()? {
            Some(note) if note.path.is_none() => self.clear_marker(),
            _ => Ok(()),
        }
    }

    fn read_note(&self) -> io::Result<Option<OutputNote>> {
        match process::files::read_passing(&self.output_note())? {
            Some(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            None => Ok(None),
        }
    }

    /// What a killed call left: read it once its child is dead, before memory-backed directories of
    /// dead owners are swept. `None` when the last changing command was seen to its end.
    ///
    /// # Errors
    /// When the note or the marker can't be read.
    pub fn leftover(&self, masker: &Masker) -> io::Result<Option<Leftover>> {
        let identity = Identity::read_marker(&self.marker()).map_err(io::Error::other)?;
        let Some(note) = self.read_note()? else {
            return Ok(identity.map(|identity| Leftover {
                identity: Some(identity),
                command: "apply".to_owned(),
                outcome: None,
                output: None,
                suspects: Vec::new(),
            }));
        };
        let outcome = match note.path.as_ref().map(fs::read) {
            Some(Ok(bytes)) => {
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
            Some(Err(_)) | None => None,
        };
        Ok(Some(Leftover {
            identity,
            command: note.command,
            outcome,
            output: note.path,
            suspects: note.suspects,
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

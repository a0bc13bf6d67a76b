//! `plan`, and `show` of what it saved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrets::MemoryDir;

use super::Session;
use crate::arguments::{Command, PlanMode, PlanOptions};
use crate::error::{Cause, RunError};
use crate::outcome::Outcome;
use crate::plan_document::PlanDocument;

/// A plan that was made and saved, in memory-backed storage: it holds values.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What kind it is.
    pub mode: PlanMode,
    /// What the event stream said.
    pub outcome: Outcome,
    /// The masked transcript.
    pub transcript: Option<PathBuf>,
    file: PathBuf,
    data_dir: PathBuf,
    // The file's directory goes with the last of these.
    _memory: Arc<MemoryDir>,
}

impl Planned {
    /// The saved plan.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.data_dir
    }
}

impl Session {
    /// Makes a plan and saves it.
    ///
    /// # Errors
    /// When OpenTofu can't plan, or the state is locked by someone else
    /// ([`RunError::is_lock_refused`]).
    pub fn plan(&self, mode: PlanMode, options: &PlanOptions) -> Result<Planned, RunError> {
        let file = self.fresh_file("plan");
        let ran = self.run(&Command::Plan {
            mode,
            options: options.clone(),
            out: file.clone(),
        })?;
        Ok(Planned {
            mode,
            outcome: ran.outcome,
            transcript: ran.transcript,
            file,
            data_dir: self.warm_data_dir()?,
            _memory: Arc::clone(&self.memory),
        })
    }

    /// The plan with its values. Never echoed.
    ///
    /// # Errors
    /// When it can't be read, or is of an unknown major format.
    pub fn show(&self, plan: &Planned) -> Result<PlanDocument, RunError> {
        let command = Command::Show {
            plan: plan.file.clone(),
        };
        let ran = self.run_once(&command, plan.data_dir(), false, None)?;
        PlanDocument::parse(&ran.stdout)
            .map_err(|error| self.error(command.name(), Cause::Document(error)))
    }
}

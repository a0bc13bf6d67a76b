//! Commands that only read, and those that write a state by hand. Nothing of their output is echoed.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::Session;
use crate::arguments::Command;
use crate::error::{Cause, RunError};
use crate::events::Diagnostic;
use crate::outcome::needs_init;
use crate::state::{StateFacts, StateFactsError};

/// One root module output with its value, sensitive ones included.
#[derive(Clone, PartialEq, Deserialize)]
pub struct OutputValue {
    /// Whether it is sensitive.
    #[serde(default)]
    pub sensitive: bool,
    /// OpenTofu's type expression in JSON.
    #[serde(default, rename = "type")]
    pub type_: Value,
    /// The value.
    #[serde(default)]
    pub value: Value,
}

impl fmt::Debug for OutputValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputValue")
            .field("sensitive", &self.sensitive)
            .finish_non_exhaustive()
    }
}

/// What `validate` found.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Validation {
    /// Whether the configuration is valid.
    #[serde(default)]
    pub valid: bool,
    /// Errors and warnings.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
}

impl Session {
    /// Checks the configuration. Faults in it are an answer, not an error.
    ///
    /// # Errors
    /// When OpenTofu could not say.
    pub fn validate(&self) -> Result<Vec<Diagnostic>, RunError> {
        let first = self.validate_once()?;
        if first
            .iter()
            .any(|fault| fault.is_error() && needs_init(fault))
        {
            let data_dir = self.warm_data_dir()?;
            self.reinit(&data_dir)?;
            return self.validate_once();
        }
        Ok(first)
    }

    fn validate_once(&self) -> Result<Vec<Diagnostic>, RunError> {
        let data_dir = self.warm_data_dir()?;
        let ran = self.run_raw(&Command::Validate, &data_dir, false, None)?;
        match serde_json::from_slice::<Validation>(&ran.stdout) {
            Ok(validation) => {
                let mut diagnostics = validation.diagnostics;
                for diagnostic in &mut diagnostics {
                    diagnostic.summary =
                        self.settings.masker.mask(&diagnostic.summary).into_owned();
                    diagnostic.detail = self.settings.masker.mask(&diagnostic.detail).into_owned();
                }
                Ok(diagnostics)
            }
            Err(_) => {
                let cause = ran.outcome.exit.map_or(Cause::Interrupted, Cause::Ended);
                Err(RunError {
                    outcome: Box::new(ran.outcome),
                    transcript: ran.transcript,
                    ..self.error("validate", cause)
                })
            }
        }
    }

    /// Every root module output of the state, sensitive ones included.
    ///
    /// # Errors
    /// When the state can't be read.
    pub fn output_json(&self) -> Result<BTreeMap<String, OutputValue>, RunError> {
        let ran = self.run(&Command::Output)?;
        serde_json::from_slice(&ran.stdout)
            .map_err(|error| self.error("output", Cause::Answer(error)))
    }

    /// The state, decrypted; `None` when there is none.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn state_pull(&self) -> Result<Option<Vec<u8>>, RunError> {
        let ran = self.run(&Command::StatePull)?;
        if ran.stdout.trim_ascii().is_empty() {
            return Ok(None);
        }
        // For a state that is not there OpenTofu prints one that never was.
        let facts =
            StateFacts::read(&ran.stdout).map_err(|StateFactsError::Unreadable(error)| {
                self.error("state pull", Cause::Answer(error))
            })?;
        let was_never = facts.lineage.is_empty() && facts.serial == 0 && facts.addresses.is_empty();
        Ok((!was_never).then_some(ran.stdout))
    }

    /// Writes a plain state through the encryption. OpenTofu refuses another lineage and an older
    /// serial.
    ///
    /// # Errors
    /// When it is refused or can't be written.
    pub fn state_push(&self, plain: &[u8]) -> Result<(), RunError> {
        self.run_with_stdin(&Command::StatePush, Some(plain))
            .map(drop)
    }

    /// Takes an object that exists and is in no state into the state, under an address of the configuration.
    ///
    /// # Errors
    /// When the configuration has no such resource, the state has it already, or no such object exists.
    pub fn import(&self, address: &str, id: &str) -> Result<(), RunError> {
        self.run(&Command::Import {
            address: address.to_owned(),
            id: id.to_owned(),
        })
        .map(drop)
    }

    /// Takes back that an object is to be replaced.
    ///
    /// # Errors
    /// When there is no such object, or it is not tainted.
    pub fn untaint(&self, address: &str) -> Result<(), RunError> {
        self.run(&Command::Untaint {
            address: address.to_owned(),
        })
        .map(drop)
    }
}

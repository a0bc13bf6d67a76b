//! What a person without `rebuild` would write: a loop over the root modules.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::meter::{Reading, measure};
use super::platform::{PHASES, root_module, write_root_modules};
use crate::sh::Cmd;
use crate::tools::Tools;

/// The loop, on root modules of its own with local states.
pub(super) struct Loop {
    tofu: PathBuf,
    cli_config: PathBuf,
    directory: PathBuf,
}

impl Loop {
    /// Writes the root modules.
    pub(super) fn set_up(here: &Path, tools: &Tools, n_objects: usize) -> Result<Self> {
        std::fs::create_dir_all(here.join("lab")).context("cannot make the loop's directory")?;
        write_root_modules(here, n_objects)?;
        Ok(Self {
            tofu: tools.tofu.path.clone(),
            cli_config: tools.cli_config.clone(),
            directory: here.to_path_buf(),
        })
    }

    /// Runs one of the measured parts.
    pub(super) fn part(&self, part: usize) -> Result<Reading> {
        match part {
            0 | 2 => self.up(),
            1 => self.plans(),
            _ => self.down(),
        }
    }

    fn up(&self) -> Result<Reading> {
        let mut sum = Reading::default();
        let mut before = None;
        for phase in PHASES {
            sum += self.measure(phase, &["init", "-input=false"], None)?;
            sum += self.measure(
                phase,
                &["plan", "-input=false", "-out=plan.out"],
                before.as_deref(),
            )?;
            sum += self.measure(phase, &["apply", "-input=false", "plan.out"], None)?;
            sum += self.measure(
                phase,
                &[
                    "plan",
                    "-input=false",
                    "-refresh-only",
                    "-detailed-exitcode",
                ],
                before.as_deref(),
            )?;
            before = Some(self.made(phase));
        }
        Ok(sum)
    }

    fn plans(&self) -> Result<Reading> {
        let mut sum = Reading::default();
        let mut before = None;
        for phase in PHASES {
            sum += self.measure(
                phase,
                &["plan", "-input=false", "-detailed-exitcode"],
                before.as_deref(),
            )?;
            before = Some(self.made(phase));
        }
        Ok(sum)
    }

    fn down(&self) -> Result<Reading> {
        let mut sum = Reading::default();
        for (index, phase) in PHASES.iter().enumerate().rev() {
            let before = index.checked_sub(1).map(|before| self.made(PHASES[before]));
            sum += self.measure(phase, &["init", "-input=false"], None)?;
            sum += self.measure(
                phase,
                &["destroy", "-input=false", "-auto-approve"],
                before.as_deref(),
            )?;
        }
        Ok(sum)
    }

    /// Returns the output of a phase that the next one reads. The loop knows it without asking.
    fn made(&self, phase: &str) -> String {
        format!("{}/{phase}-0", self.directory.join("lab").display())
    }

    fn measure(&self, phase: &str, args: &[&str], before: Option<&str>) -> Result<Reading> {
        let takes_variables = !matches!(args, ["init", ..] | ["apply", ..]);
        let mut call = Cmd::new(&self.tofu)
            .shown_as("tofu")
            .args(args)
            .current_dir(&self.directory.join(root_module(phase)))
            .env("TF_CLI_CONFIG_FILE", &self.cli_config)
            .env("CHECKPOINT_DISABLE", "1");
        if takes_variables {
            call = call
                .arg("-var")
                .arg(format!("lab={}", self.directory.join("lab").display()));
            if let Some(before) = before {
                call = call.arg("-var").arg(format!("before={before}"));
            }
        }
        measure(call)
    }
}

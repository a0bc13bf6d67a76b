//! `fmt` and `test`, for definitions that are checked without a target.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use process::{CollectError, Exit, How, Invocation, Spawner, collect};

use crate::control::{Control, Wanted};
use crate::error::Cause;
use crate::events::{Diagnostic, Event, EventLine, TestEvent, without_colour};
use crate::program::Program;

/// How long `fmt` may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The command could not be run to its end.
    #[error("cannot run `tofu {command}` in `{}`", directory.display())]
    Run {
        /// The command.
        command: &'static str,
        /// Where.
        directory: PathBuf,
        /// Why.
        #[source]
        source: CollectError,
    },
    /// The command could not be followed to its end.
    #[error("cannot run `tofu {command}` in `{}`", directory.display())]
    Follow {
        /// The command.
        command: &'static str,
        /// Where.
        directory: PathBuf,
        /// Why.
        #[source]
        source: Cause,
    },
    /// It ended with an error.
    #[error("`tofu {command}` in `{}` ended with {exit}: {said}", directory.display())]
    Ended {
        /// The command.
        command: &'static str,
        /// Where.
        directory: PathBuf,
        /// How.
        exit: Exit,
        /// What it said.
        said: String,
    },
}

/// What `tofu test` came to. It passes only when nothing failed and nothing was left behind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TestReport {
    /// Runs that passed.
    pub passed: u64,
    /// Runs that did not: `file: run`.
    pub failed: Vec<String>,
    /// Objects that could not be destroyed. OpenTofu exits 0 all the same.
    pub left_behind: Vec<String>,
    /// Errors.
    pub errors: Vec<Diagnostic>,
    /// How the process ended.
    pub exit: Option<Exit>,
}

impl TestReport {
    /// Whether every run passed and nothing was left behind. No tests at all pass.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.exit == Some(Exit::Code(0))
            && self.failed.is_empty()
            && self.left_behind.is_empty()
            && self.errors.is_empty()
    }

    fn take(&mut self, line: &EventLine) {
        match &line.event {
            Event::Test(TestEvent::Run { path, run, status }) => match status.as_str() {
                "pass" => self.passed += 1,
                "fail" | "error" => self.failed.push(format!("{path}: {run}")),
                _ => {}
            },
            Event::Test(
                TestEvent::Cleanup { left_behind } | TestEvent::Interrupt { left_behind },
            ) => {
                self.left_behind.extend(left_behind.iter().cloned());
            }
            Event::Diagnostic(diagnostic) if diagnostic.is_error() => {
                self.errors.push((**diagnostic).clone())
            }
            _ => {}
        }
    }
}

/// Runs `fmt` and `test` in a throw-away copy.
#[derive(Clone)]
pub struct Checker {
    /// The `tofu` to run.
    pub program: Program,
    /// The whole environment; HOME, TMPDIR and the CLI configuration among it.
    pub env: BTreeMap<OsString, OsString>,
    /// Starts processes.
    pub spawner: Arc<dyn Spawner>,
    /// Says what is wanted while a command runs.
    pub control: Arc<dyn Control>,
}

impl Checker {
    /// The files that are not in the canonical form. OpenTofu judges no `.tf.json`.
    ///
    /// # Errors
    /// When a file can't be parsed or `fmt` can't run.
    pub fn fmt_check(&self, directory: &Path) -> Result<Vec<String>, CheckError> {
        self.fmt(directory, &["fmt", "-check", "-list=true", "-no-color"])
    }

    /// Brings files into the canonical form, and names those that it changed.
    ///
    /// # Errors
    /// When a file can't be parsed or `fmt` can't run.
    pub fn fmt_fix(&self, directory: &Path) -> Result<Vec<String>, CheckError> {
        self.fmt(directory, &["fmt", "-list=true", "-no-color"])
    }

    fn fmt(&self, directory: &Path, arguments: &[&str]) -> Result<Vec<String>, CheckError> {
        let call = self.call(directory, arguments);
        let mut stop = || self.control.wanted() != Wanted::Run;
        let collected = collect(
            self.spawner.as_ref(),
            &call,
            &How::reader(),
            PATIENCE,
            &mut stop,
        )
        .map_err(|source| CheckError::Run {
            command: "fmt",
            directory: directory.to_owned(),
            source,
        })?;
        let files: Vec<String> = String::from_utf8_lossy(&collected.stdout)
            .lines()
            .map(str::trim)
            .filter(|line| {
                line.ends_with(".tf")
                    || line.ends_with(".tfvars")
                    || line.ends_with(".tofu")
                    || line.ends_with(".hcl")
            })
            .map(str::to_owned)
            .collect();
        match collected.exit {
            // 3: some file is not in the canonical form.
            Exit::Code(0 | 3) => Ok(files),
            exit => Err(CheckError::Ended {
                command: "fmt",
                directory: directory.to_owned(),
                exit,
                said: without_colour(&String::from_utf8_lossy(&collected.stderr))
                    .trim()
                    .to_owned(),
            }),
        }
    }

    /// Runs the tests of a root module or module. Faults are in the report.
    ///
    /// # Errors
    /// When `test` can't run.
    pub fn test_json(&self, directory: &Path) -> Result<TestReport, CheckError> {
        let call = self.call(directory, &["test", "-json", "-no-color"]);
        let mut report = TestReport::default();
        let driven = crate::drive::drive(
            self.spawner.as_ref(),
            &call,
            &How::reader(),
            self.control.as_ref(),
            Duration::ZERO,
            &mut |line, _| report.take(&EventLine::parse(line)),
            &mut |_| {},
        )
        .map_err(|source| CheckError::Follow {
            command: "test",
            directory: directory.to_owned(),
            source,
        })?;
        report.exit = Some(driven.exit);
        Ok(report)
    }

    fn call(&self, directory: &Path, arguments: &[&str]) -> Invocation {
        let mut words = self.program.command.iter().cloned();
        let program = words
            .next()
            .unwrap_or_else(|| self.program.path.clone().into());
        let mut call = Invocation::new(PathBuf::from(program), directory)
            .args(words)
            .args(arguments.iter().copied());
        call.env = self.env.clone();
        call
    }
}

//! OpenTofu as a subprocess: typed commands, event stream, working directory, plugin cache.
//!
//! A [`Workshop`] is a target's working directory; it gives each step a [`StepDir`]. A [`Session`]
//! holds everything that one step's commands need, and runs them. What a command said becomes an
//! [`Outcome`]: *the event stream decides, never the exit code*. What changes something outlives us
//! ([`Session::apply`]), and what a killed call left is found by [`StepDir::running_child`],
//! [`StepDir::leftover`] and [`StepDir::errored_state`].
//!
//! Values never reach a disk: variables, saved plans and raw output lie in memory-backed storage,
//! and the transcript is a masked copy.

mod arguments;
mod check;
mod cli_config;
mod control;
mod disk;
mod drive;
pub mod encryption;
mod environment;
mod error;
pub mod events;
mod lock_file;
mod old_backend;
mod outcome;
mod plan_document;
mod plugins;
mod program;
mod session;
mod state;
mod step_dir;
mod transcript;
mod workshop;

pub use arguments::{PlanMode, PlanOptions};
pub use check::{CheckError, Checker, TestReport};
pub use cli_config::CliConfigError;
pub use control::{Control, Observer, Uncontrolled, Unobserved, Wanted};
pub use environment::{Backend, PLUGIN_TLS_OFF};
pub use error::{Cause, InitFailure, RunError};
pub use events::{Action, Change, Diagnostic, Event, EventLine, Severity};
pub use lock_file::{LOCK_FILE_NAME, LockEntry, LockFile, LockFileError};
pub use old_backend::{OldBackend, OldBackendSettings};
pub use outcome::{FailedCheck, Outcome, Touched};
pub use plan_document::{
    AttributeChange, CheckAddress, CheckResult, PlanDocument, PlanDocumentError, ResourceChange,
    Shown, ValueChange,
};
pub use plugins::{Package, PluginCache};
pub use program::{FindError, PROGRAM, Program};
pub use session::{
    Applied, ApplyWhat, DownloadedModule, InitReport, Leftover, LockPolicy, MayExist, ModuleFile,
    OutputValue, Planned, Session, SessionSettings, Validation,
};
pub use state::{
    StateFacts, StateFactsError, is_too_short_for_resources, with_lineage, with_next_serial,
    with_serial,
};
pub use step_dir::{
    ERRORED_STATE, InitInputs, OVERRIDE_FILE, PlaceError, RunningChild, Slot, StepDir, StepKey,
    StepKeyError,
};
pub use workshop::{Workshop, WorkshopError};

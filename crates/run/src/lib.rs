//! up, down, preflight, check, status: the parts put together.

pub mod api;
mod apply_step;
mod as_applied;
mod bench;
mod check;
mod down;
pub mod environment;
mod error;
mod exec_step;
mod guard;
mod known;
mod leftovers;
mod library;
mod look;
mod look_commands;
mod lost_host;
mod masking;
mod open;
mod operator;
mod paths;
mod phase_probes;
mod plan;
mod prepare_all;
mod prepare_step;
mod rescue;
mod resolve;
mod scope;
mod secret_book;
mod session;
mod standing;
mod standing_preflight;
mod states;
pub mod stop;
mod suspects;
mod teardown_step;
mod tofu_work;
pub mod ui;
mod up;
mod verify_step;
mod world;

pub use check::check;
pub use definition_check::{
    CheckReport, DefinitionFault, Finding, LeftBehind, Lint, ModuleReport, Severity, Tests,
};
pub use down::{DryRun, DryStep, down, down_dry_run};
pub use error::CallError;
pub use look_commands::{Preflighted, Unlocked, preflight, runs_list, runs_show, status, unlock};
pub use plan::{ChangeShown, PhasePlan, PlanReport, PlanVerdict, StepPlan, plan};
pub use session::Ended;
pub use suspects::{SettledHow, SettledShown, SuspectShown, SuspectsReport, suspects};
pub use up::up;

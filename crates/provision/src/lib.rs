//! Handoffs as jobs: a workspace is applied, its hosts awaited and onboarded, and given to Ansible.
//!
//! A [`Book`] is the ledger of this user's jobs with the words for what goes wrong with it. [`drive`] walks the
//! steps of one job: each is written down before it begins and after it ends, so that whatever is cut goes on at
//! the step that had not ended. What a step does is the caller's ([`Acts`]): the handoff's own acts work on a
//! workspace under its target's lock.

mod begin;
mod book;
mod bootstrap;
mod documents;
mod drive;
mod inventory;
mod jobs_commands;
mod provision;

pub use book::Book;
pub use bootstrap::{BOOTSTRAP_STEPS, BootstrapOptions, bootstrap};
pub use documents::{JobDocument, JobShown, JobsDocument, ProvisionStatus, StepShown};
pub use drive::{Acts, Done, Driven, Driver, How, drive};
pub use inventory::{Inventory, inventory};
pub use jobs_commands::{jobs_list, jobs_show, redrive, resume};
pub use provision::{
    Ended, ProvisionOptions, ProvisionedDown, STEPS, down, down_dry_run, run, status,
};

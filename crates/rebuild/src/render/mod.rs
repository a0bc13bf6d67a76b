//! Documents as people read them; pure, so that each has a snapshot.

mod check;
mod discovered;
mod dry_run;
mod explain;
mod jobs;
mod migrated;
mod plan;
mod preflight;
mod providers;
mod rendered;
mod run;
mod runs;
mod secrets;
mod states;
mod status;
mod suspects;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use check::check;
pub(crate) use discovered::discovered;
pub(crate) use dry_run::dry_run;
pub(crate) use explain::explain;
pub(crate) use jobs::{job, jobs, provision_dry_run, provision_status};
pub(crate) use migrated::migrated;
pub(crate) use plan::plan;
pub(crate) use preflight::preflight;
pub(crate) use providers::{providers, schema, schemas};
pub(crate) use rendered::rendered;
pub(crate) use run::{run, run_whole};
pub(crate) use runs::{RunsDocument, runs, runs_document};
pub(crate) use secrets::{secret_sealed, secrets_list, secrets_rekeyed};
pub(crate) use states::{Listed, states, versions};
pub(crate) use status::status;
pub(crate) use suspects::suspects;

//! `jobs`: listed, shown, gone on with, begun again.

use std::path::Path;
use std::sync::Arc;

use jobs::{Job, JobId, LedgerError};
use phase_engine::{ExitCode, Failure};
use run::CallError;
use run::api::Machine;
use run::stop::{StopLevel, StopRequests};
use run::ui::Ui;
use run::workspace::{self, WorkspaceSite};

use crate::begin::{There, instead_of};
use crate::book::{Book, Seen, runner, seen, told};
use crate::bootstrap;
use crate::documents::{JobDocument, JobShown, JobsDocument};
use crate::provision::{Ended, Spec, with_workspace};

/// Lists the jobs of this user on this machine; of one target, where it is named.
///
/// # Errors
/// The ledger can't be read.
pub fn jobs_list(machine: &Machine, target: Option<&str>) -> Result<JobsDocument, Failure> {
    let book = Book::open(machine, "jobs list")?;
    let jobs = book.ledger.list().map_err(|error| told(&error))?;
    let wanted = |job: &&Job| target.is_none_or(|target| job.target == target);
    Ok(JobsDocument {
        schema: 1,
        jobs: jobs.iter().filter(wanted).map(JobShown::of).collect(),
    })
}

/// Shows one job.
///
/// # Errors
/// There is none of this id, or the ledger can't be read.
pub fn jobs_show(machine: &Machine, id: &str) -> Result<JobDocument, Failure> {
    let book = Book::open(machine, "jobs show")?;
    Ok(JobDocument::of(&book.show(id)?))
}

/// Goes on with one job, or with each that was cut. One that failed is gone on with only where it is named; one that
/// somebody has of whom nothing is known from here is tried, and its target's lock decides.
///
/// Returns a result for each, in order of their ids.
///
/// # Errors
/// The ledger can't be read, or there is no such job.
pub fn resume(
    machine: &Machine,
    id: Option<&str>,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Vec<Result<Ended, CallError>>, Failure> {
    let book = Book::open(machine, "jobs resume")?;
    let ids: Vec<JobId> = match id {
        Some(id) => {
            let job = book.show(id)?;
            if JobShown::of(&job).status == "succeeded" {
                return Err(Failure::new(
                    ExitCode::Unusable,
                    format!("every step of job `{id}` has ended well"),
                )
                .hint(format!(
                    "`rebuild jobs redrive {id} --from STEP` does steps again"
                )));
            }
            vec![job.id]
        }
        None => {
            let mut jobs = book.ledger.list().map_err(|error| told(&error))?;
            jobs.reverse();
            let cut = |job: &&Job| {
                let shown = JobShown::of(job);
                shown.is_held() || shown.is_left() && shown.status != "failed"
            };
            jobs.iter().filter(cut).map(|job| job.id.clone()).collect()
        }
    };
    drop(book);
    let mut ended = Vec::new();
    for id in ids {
        if stop.level() > StopLevel::None {
            break;
        }
        let there = There { id, redrive: None };
        ended.push(go_on(machine, &there, stop, ui));
    }
    Ok(ended)
}

/// Makes a job go on from a step, which and all after it are done again; without a name, from where it stopped.
///
/// # Errors
/// There is no such job or step, somebody runs it, another job of its workspace is not over.
pub fn redrive(
    machine: &Machine,
    id: &str,
    from: Option<&str>,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Ended, CallError> {
    // What can be told at once is told before its target is locked, under which it is done.
    let book = Book::open(machine, "jobs redrive")?;
    let mut job = book.show(id)?;
    drop(book);
    if let Some(holder) = job.holder.clone().filter(|_| seen(&job) == Seen::Alive) {
        let job = job.id;
        return Err(told(&LedgerError::Held { job, holder }).into());
    }
    job.redrive(from)
        .map_err(|error| told(&LedgerError::Transition(error)))?;
    let there = There {
        id: job.id,
        redrive: Some(from.map(str::to_owned)),
    };
    go_on(machine, &there, stop, ui)
}

fn go_on(
    machine: &Machine,
    there: &There,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Ended, CallError> {
    let book = Book::open(machine, "jobs resume")?;
    let job = book.show(&there.id.0)?;
    drop(book);
    let ended = gone_on(machine, &job, there, stop, ui);
    ended.map_err(|error| match error {
        CallError::Failure(failure) if failure.exit == ExitCode::Locked => {
            let Job { id, workspace, .. } = &job;
            let not = format!("job `{id}` of workspace `{workspace}` was not gone on with");
            CallError::Failure(failure.because(match runner(&job) {
                Some(holder) => format!("{not}; it is held by {holder}"),
                None => not,
            }))
        }
        other => other,
    })
}

fn gone_on(
    machine: &Machine,
    job: &Job,
    there: &There,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Ended, CallError> {
    if job.kind == bootstrap::KIND {
        let spec = bootstrap::Spec::read(job)?;
        let site = site_of(machine, &spec.platform_dir, &spec.workspace, job)?;
        let options = spec.options(&job.playbook);
        return bootstrap::with_workspace(machine, &site, &options, stop, ui, Some(there));
    }
    let spec = Spec::read(job)?;
    let site = site_of(machine, &spec.platform_dir, &spec.workspace, job)?;
    let options = spec.options(&job.playbook);
    with_workspace(machine, &site, &options, stop, ui, Some(there))
}

fn site_of(
    machine: &Machine,
    platform_dir: &Path,
    workspace: &str,
    job: &Job,
) -> Result<WorkspaceSite, Failure> {
    if !platform_dir.is_dir() {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!(
                "the platform of job `{}` is gone: there is no directory `{}`",
                job.id,
                platform_dir.display()
            ),
        )
        .hint(format!(
            "put it back there; or, where the platform is now, `{}` begins a new job. Nothing was touched",
            instead_of(job)
        )));
    }
    workspace::find(machine, Some(platform_dir), workspace, Some(&job.target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(kind: &str) -> Job {
        Job {
            id: JobId("01".to_owned()),
            kind: kind.to_owned(),
            platform: "lab".to_owned(),
            target: "drill".to_owned(),
            workspace: "prod".to_owned(),
            playbook: "site.yml".to_owned(),
            spec: r#"{"of":"another version"}"#.to_owned(),
            created_at: "2026-12-01T10:00:00Z".to_owned(),
            abandoned: None,
            holder: None,
            steps: Vec::new(),
        }
    }

    #[test]
    fn what_another_version_wrote_is_told_with_both_ways_on() {
        let failure = Spec::read(&job("provision")).unwrap_err();
        assert_eq!(failure.exit, ExitCode::Stopped);
        let hint = failure.hint.unwrap();
        assert!(
            hint.contains("`rebuild provision run prod site.yml --give-up REASON`"),
            "{hint}"
        );
        let failure = bootstrap::Spec::read(&job("bootstrap")).unwrap_err();
        let hint = failure.hint.unwrap();
        assert!(
            hint.contains("`rebuild bootstrap run site.yml prod --give-up REASON`"),
            "{hint}"
        );
    }

    #[test]
    fn of_a_job_that_is_not_there_the_list_is_named() {
        let failure = told(&jobs::LedgerError::NoSuchJob(JobId("01".to_owned())));
        assert_eq!(failure.exit, ExitCode::Unusable);
        assert!(failure.hint.unwrap().starts_with("`rebuild jobs list`"));
    }
}

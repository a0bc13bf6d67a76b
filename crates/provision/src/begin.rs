//! What the kinds of jobs share: how one is begun or found, what is told of its steps.

use std::sync::Arc;

use jobs::{Job, JobId, NewJob, NewStep, Opened};
use phase_engine::{ExitCode, Failure};
use run::CallError;
use run::api::Machine;
use run::stop::StopRequests;
use run::ui::{Notice, Ui};
use run::workspace::{Workspace, WorkspaceSite};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::book::{self, Book, is_over, told};
use crate::documents::JobDocument;
use crate::drive::{Acts, Done, Driven, Driver, drive};
use crate::provision::Ended;

/// Opens the ledger, takes the target's lock, and works on the workspace until it is given back.
pub(crate) fn with_workspace(
    machine: &Machine,
    site: &WorkspaceSite,
    command: &str,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
    work: impl FnOnce(&Workspace<'_>, &mut Book) -> Result<Ended, Failure>,
) -> Result<Ended, CallError> {
    // Before the target is locked: a ledger that can't be read is told first.
    let mut book = Book::open(machine, command)?;
    let workspace = Workspace::open(machine, site, command, stop, ui)?;
    let ended = work(&workspace, &mut book);
    workspace.release();
    Ok(ended?)
}

/// The job that a call is about.
pub(crate) struct Asked<'a> {
    /// `provision` or `bootstrap`.
    pub(crate) kind: &'a str,
    /// Its steps, and which of them only look.
    pub(crate) steps: &'a [(&'a str, bool)],
    /// The playbook, within the platform.
    pub(crate) playbook: &'a str,
    /// What goes on with it needs to know.
    pub(crate) spec: &'a str,
    /// Why one that is not over is given up for a new one.
    pub(crate) give_up: Option<&'a str>,
    /// One that is there.
    pub(crate) job: Option<&'a There>,
}

/// A job that is there, to be gone on with.
pub(crate) struct There {
    /// Which.
    pub(crate) id: JobId,
    /// Whether it is made to go on from a step, and from which: none is where it stopped.
    pub(crate) redrive: Option<Option<String>>,
}

impl Asked<'_> {
    /// Finds the job or begins it, takes it, and walks it with what `acts` makes of it.
    pub(crate) fn walked<A: Acts>(
        &self,
        machine: &Machine,
        book: &mut Book,
        site: &WorkspaceSite,
        ui: &Arc<dyn Ui>,
        acts: impl FnOnce(&mut Book, &Job) -> Result<A, Failure>,
    ) -> Result<Ended, Failure> {
        let (job, resumed) = self.found(machine, book, site)?;
        let mut acts = acts(book, &job)?;
        let id = job.id;
        self.take(book, &id, site, resumed, ui)?;
        let job = id.clone();
        let driven = drive(Driver { book, job }, &mut acts);
        ended(book, &id, driven)
    }

    /// The job, and whether it was there before.
    fn found(
        &self,
        machine: &Machine,
        book: &mut Book,
        site: &WorkspaceSite,
    ) -> Result<(Job, bool), Failure> {
        let opened = match self.job {
            Some(There { id, redrive }) => {
                let ledger = &mut book.ledger;
                let job = match redrive {
                    Some(from) => ledger.redrive(id, from.as_deref(), is_over),
                    None => ledger.show(id),
                };
                Opened::Unfinished(job.map_err(|error| told(&error))?)
            }
            None => self.opened(machine, book, site)?,
        };
        Ok(match opened {
            Opened::New(job) => (job, false),
            Opened::Unfinished(job) => (job, true),
        })
    }

    /// Takes it for this call, and tells which it is.
    fn take(
        &self,
        book: &mut Book,
        id: &JobId,
        site: &WorkspaceSite,
        resumed: bool,
        ui: &Arc<dyn Ui>,
    ) -> Result<(), Failure> {
        book.take(id)?;
        book.ledger
            .respecify(id, &book.holder, self.spec)
            .map_err(|error| told(&error))?;
        ui.tell(&Notice::Job {
            id: id.to_string(),
            workspace: site.name.clone(),
            resumed,
        });
        Ok(())
    }

    /// The job that is not over, or a new one.
    fn opened(
        &self,
        machine: &Machine,
        book: &mut Book,
        site: &WorkspaceSite,
    ) -> Result<Opened, Failure> {
        let new = || NewJob {
            id: JobId(ulid::Ulid::generate().to_string()),
            kind: self.kind.to_owned(),
            platform: site.platform_name.clone(),
            target: site.site.target.clone(),
            workspace: site.name.clone(),
            playbook: self.playbook.to_owned(),
            spec: self.spec.to_owned(),
            steps: self
                .steps
                .iter()
                .map(|(name, looks)| NewStep {
                    name: (*name).to_owned(),
                    looks: *looks,
                })
                .collect(),
        };
        let now = book::now(machine);
        let opened = book
            .ledger
            .open_job(new(), &now)
            .map_err(|error| told(&error))?;
        let Opened::Unfinished(job) = &opened else {
            return Ok(opened);
        };
        if let Some(reason) = self.give_up {
            let reason = format!("{now} {}: {reason}", machine.user);
            book.ledger
                .abandon(&job.id, &reason, is_over)
                .and_then(|_| book.ledger.open_job(new(), &now))
                .map_err(|error| told(&error))
        } else if job.kind == self.kind && job.playbook == self.playbook {
            Ok(opened)
        } else {
            Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "job `{}` of workspace `{}` is not over: {} with playbook `{}`",
                    job.id, site.name, job.kind, job.playbook
                ),
            )
            .hint(format!(
                "`rebuild jobs resume {}` goes on with it, `--give-up REASON` ends it for this one; nothing was touched",
                job.id
            )))
        }
    }
}

/// Gives the job back to the ledger, and says how it ended.
fn ended(book: &mut Book, id: &JobId, driven: Driven) -> Result<Ended, Failure> {
    let Driven { job, failure } = driven;
    let given_back = book.give_back(id);
    let failure = failure
        .or_else(|| given_back.as_ref().err().cloned())
        .map(|failure| with_ways_on(failure, id));
    match given_back.ok().or(job) {
        Some(job) => Ok((JobDocument::of(&job), failure)),
        None => Err(failure.unwrap_or_else(|| Failure::failed("the ledger of jobs is gone"))),
    }
}

/// What a job goes on with, as the ledger keeps it.
pub(crate) fn spec_text(spec: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(spec).map_err(|error| Failure::of(ExitCode::Unusable, &error))
}

/// The command that gives a job up for a new one.
pub(crate) fn instead_of(job: &Job) -> String {
    let Job {
        kind,
        playbook,
        workspace,
        ..
    } = job;
    let words = match kind.as_str() {
        crate::bootstrap::KIND => format!("{playbook} {workspace}"),
        _ => format!("{workspace} {playbook}"),
    };
    format!("rebuild {kind} run {words} --give-up REASON")
}

/// Reads what a job goes on with.
pub(crate) fn read_spec<T: DeserializeOwned>(job: &Job) -> Result<T, Failure> {
    serde_json::from_str(&job.spec).map_err(|error| {
        let mut failure = Failure::of(ExitCode::Stopped, &error);
        failure.causes.insert(0, std::mem::take(&mut failure.what));
        failure.what = format!("what job `{}` goes on with can't be read", job.id);
        failure.hint(format!(
            "another version of `rebuild` wrote it, which can go on with it; `{}` begins a new one",
            instead_of(job)
        ))
    })
}

/// Tells that a step begins, or ended, which took so many seconds.
pub(crate) fn step_told(ui: &dyn Ui, step: &str, ended: Option<(&Result<Done, Failure>, f64)>) {
    let step = step.to_owned();
    let notice = match ended {
        None => Notice::JobStep { step },
        Some((result, seconds)) => Notice::JobStepEnded {
            step,
            ok: result.is_ok(),
            summary: match result {
                Ok(done) => done.summary.clone(),
                Err(failure) => failure.what.clone(),
            },
            seconds,
        },
    };
    ui.tell(&notice);
}

fn with_ways_on(failure: Failure, id: &JobId) -> Failure {
    if failure.hint.is_some() {
        return failure;
    }
    if failure.is_interrupt() {
        return failure.hint(format!(
            "the same command goes on at that step, as `rebuild jobs resume {id}` does"
        ));
    }
    failure.hint(format!(
        "mend it, then the same command goes on at that step, as `rebuild jobs resume {id}` does; `rebuild jobs redrive {id} --from STEP` begins earlier"
    ))
}

//! `provision`, `jobs` and `inventory`.

use std::io::Write as _;
use std::sync::Arc;

use phase_engine::ExitCode;
use provision::{BootstrapOptions, Ended, JobsDocument, ProvisionOptions};
use run::CallError;
use run::stop::StopRequests;
use run::ui::{Notice, Ui};
use run::workspace::{self, WorkspaceDown, WorkspaceSite};

use super::telling::document;
use super::{Asks, Context, Told};
use crate::failure::Failure;
use crate::handoff_args::{
    Bootstrap, BootstrapCommand, Inventory, Jobs, JobsCommand, Provision, ProvisionCommand,
    ProvisionDown, ProvisionRun, WorkspaceNamed,
};
use crate::render;

pub(super) fn provision(context: &Context, asked: Provision) -> Told {
    match asked.command {
        ProvisionCommand::Run(run) => {
            let grace = run.stop.grace;
            context.operated(grace, Asks::People, |stop, ui| {
                run_one(context, run, stop, ui)
            })
        }
        ProvisionCommand::Status(named) => {
            let status =
                site(context, &named).and_then(|site| provision::status(&context.machine, &site));
            match status {
                Ok(status) => Told::done(
                    document(&status),
                    render::provision_status(&status, context.out),
                ),
                Err(failure) => Told::failed(failure.into()),
            }
        }
        ProvisionCommand::Down(down) => {
            let grace = down.stop.grace;
            context.operated(grace, Asks::People, |stop, ui| {
                down_one(context, &down, stop, ui)
            })
        }
    }
}

fn site(context: &Context, named: &WorkspaceNamed) -> Result<WorkspaceSite, phase_engine::Failure> {
    let WorkspaceNamed { workspace, target } = named;
    let platform = context.platform.as_deref();
    workspace::find(&context.machine, platform, workspace, target.as_deref())
}

fn run_one(
    context: &Context,
    asked: ProvisionRun,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    let named = WorkspaceNamed {
        workspace: asked.workspace,
        target: asked.target,
    };
    let (apply, give_up) = asked.consent.into_parts();
    let options = ProvisionOptions {
        playbook: asked.playbook,
        with: asked.with,
        limit: asked.limit,
        diff: asked.diff,
        wait: asked.wait,
        apply,
        give_up,
    };
    match site(context, &named) {
        Ok(site) => {
            let ended = provision::run(&context.machine, &site, &options, stop, ui);
            one_job(context, ended)
        }
        Err(failure) => Told::failed(failure.into()),
    }
}

/// A job that was worked on: it is the document, whatever it came to.
fn one_job(context: &Context, ended: Result<Ended, CallError>) -> Told {
    match ended {
        Ok((job, failure)) => Told {
            document: Some(document(&job)),
            text: render::job(&job, context.out),
            exit: failure.as_ref().map_or(ExitCode::Done, |one| one.exit),
            failure: failure.map(Failure::from),
        },
        Err(error) => Told::failed(Failure::of_call(error, context.err)),
    }
}

fn down_one(
    context: &Context,
    asked: &ProvisionDown,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    let site = match site(context, &asked.workspace) {
        Ok(site) => site,
        Err(failure) => return Told::failed(failure.into()),
    };
    let machine = &context.machine;
    if asked.dry_run {
        return match provision::down_dry_run(machine, &site, stop, ui) {
            Ok(dry) => Told::done(document(&dry), render::provision_dry_run(&dry, context.out)),
            Err(error) => Told::failed(Failure::of_call(error, context.err)),
        };
    }
    let options = WorkspaceDown {
        confirm: asked.confirm.clone(),
        dry_run: false,
        without_captured: asked.without_captured.clone(),
    };
    match provision::down(machine, &site, &options, stop, ui) {
        Ok(down) => {
            let text = if down.stood {
                format!("nothing is left of workspace {}\n", down.workspace)
            } else {
                format!("nothing stands of workspace {}\n", down.workspace)
            };
            Told::done(document(&down), text)
        }
        Err(error) => Told::failed(Failure::of_call(error, context.err)),
    }
}

pub(super) fn bootstrap(context: &Context, asked: Bootstrap) -> Told {
    let BootstrapCommand::Run(run) = asked.command;
    let (apply, give_up) = run.consent.into_parts();
    let options = BootstrapOptions {
        playbook: run.playbook,
        inventory: run.inventory,
        limit: run.limit,
        apply,
        give_up,
    };
    let site = match site(context, &run.workspace) {
        Ok(site) => site,
        Err(failure) => return Told::failed(failure.into()),
    };
    context.operated(run.stop.grace, Asks::People, |stop, ui| {
        let ended = provision::bootstrap(&context.machine, &site, &options, stop, ui);
        one_job(context, ended)
    })
}

pub(super) fn jobs(context: &Context, asked: Jobs) -> Told {
    let machine = &context.machine;
    match asked.command {
        JobsCommand::List(list) => match provision::jobs_list(machine, list.target.as_deref()) {
            Ok(jobs) => Told::done(document(&jobs), render::jobs(&jobs.jobs, context.out)),
            Err(failure) => Told::failed(failure.into()),
        },
        JobsCommand::Show(show) => match provision::jobs_show(machine, &show.id) {
            Ok(job) => Told::done(document(&job), render::job(&job, context.out)),
            Err(failure) => Told::failed(failure.into()),
        },
        JobsCommand::Resume(resume) => context.operated(
            resume.stop.grace,
            Asks::Nothing,
            |stop, ui| match provision::resume(machine, resume.id.as_deref(), stop, ui) {
                Ok(ended) => several_jobs(context, ended, ui),
                Err(failure) => Told::failed(failure.into()),
            },
        ),
        JobsCommand::Redrive(redrive) => {
            context.operated(redrive.stop.grace, Asks::People, |stop, ui| {
                let from = redrive.from.as_deref();
                let ended = provision::redrive(machine, &redrive.id, from, stop, ui);
                one_job(context, ended)
            })
        }
    }
}

fn several_jobs(context: &Context, ended: Vec<Result<Ended, CallError>>, ui: &Arc<dyn Ui>) -> Told {
    let mut exits = Vec::new();
    let mut jobs = Vec::new();
    let mut failures = Vec::new();
    for one in ended {
        match one {
            Ok((job, failure)) => {
                exits.push(failure.as_ref().map_or(ExitCode::Done, |one| one.exit));
                failures.extend(failure.map(Failure::from));
                jobs.push(job.job);
            }
            Err(error) => {
                exits.push(error.exit());
                failures.push(Failure::of_call(error, context.err));
            }
        }
    }
    let text = match (jobs.is_empty(), failures.is_empty()) {
        (true, true) => "no job was cut: there is nothing to go on with\n".to_owned(),
        // What stopped it is told; it is no list of jobs.
        (true, false) => String::new(),
        (false, _) => render::jobs(&jobs, context.out),
    };
    let document = document(&JobsDocument { schema: 1, jobs });
    let mut failures = failures.into_iter();
    let failure = failures.next();
    for other in failures {
        let parts = std::iter::once(other.message).chain(other.causes);
        ui.tell(&Notice::Warning {
            message: parts.collect::<Vec<_>>().join(": "),
            hint: other.hint,
        });
    }
    Told {
        document: Some(document),
        text,
        failure,
        exit: exits.into_iter().fold(ExitCode::Done, worse),
    }
}

/// The first that is not well.
fn worse(one: ExitCode, other: ExitCode) -> ExitCode {
    if one == ExitCode::Done { other } else { one }
}

pub(super) fn inventory(context: &Context, asked: &Inventory) -> Told {
    let found = provision::inventory(
        &context.machine,
        context.platform.as_deref(),
        asked.workspace.as_deref(),
        asked.target.as_deref(),
    );
    let inventory = match found {
        Ok(inventory) => inventory,
        Err(error) => return Told::failed(Failure::of_call(error, context.err)),
    };
    // Beside what a script prints: Ansible shows it where it is asked to, and reads standard output alone.
    for line in &inventory.left_out {
        let _ = writeln!(std::io::stderr(), "warning: not in this inventory: {line}");
    }
    match &asked.host {
        Some(name) => script(inventory.host(name)),
        None if asked.list => script(inventory.list()),
        None => Told::done(inventory.list(), inventory.graph()),
    }
}

/// A document of Ansible's, which is printed as it is whatever the output.
fn script(document: serde_json::Value) -> Told {
    let text = format!("{document}\n");
    Told::done(document, text)
}

//! `provision`: apply, await, onboard, Ansible, under one job.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jobs::{Job, JobStatus};
use phase_engine::Failure;
use run::CallError;
use run::api::Machine;
use run::stop::{StopLevel, StopRequests};
use run::ui::Ui;
use run::workspace::{
    self, Awaited, Workspace, WorkspaceApply, WorkspaceDown, WorkspaceDryRun, WorkspacePlay,
    WorkspaceSite,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::begin::{self, Asked, There, read_spec, spec_text, step_told};
use crate::book::{self, Book, is_over, told};
use crate::documents::{JobDocument, JobShown, ProvisionStatus, next};
use crate::drive::{Acts, Done, How};

/// The steps, and which of them only look.
pub const STEPS: [(&str, bool); 4] = [
    ("apply", false),
    ("await", true),
    ("onboard", true),
    ("ansible", false),
];

/// The kind of such a job.
const KIND: &str = "provision";

/// Options of `provision run`.
#[derive(Clone, Debug, Default)]
pub struct ProvisionOptions {
    /// The playbook, seen from here or from the platform.
    pub playbook: String,
    /// Workspaces whose hosts the play is given besides.
    pub with: Vec<String>,
    /// The hosts that it is limited to.
    pub limit: Option<String>,
    /// Whether differences are told.
    pub diff: bool,
    /// How long the hosts are awaited.
    pub wait: Option<Duration>,
    /// What the apply may do.
    pub apply: WorkspaceApply,
    /// Why the job of this workspace that is not over is given up for a new one.
    pub give_up: Option<String>,
}

/// What goes on with a job needs to know, besides what the ledger has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The platform's directory.
    pub(crate) platform_dir: PathBuf,
    /// The workspace's name, or its root module's directory.
    pub(crate) workspace: String,
    with: Vec<String>,
    limit: Option<String>,
    diff: bool,
    wait_seconds: Option<u64>,
}

impl Spec {
    fn of(site: &WorkspaceSite, options: &ProvisionOptions) -> Self {
        Self {
            platform_dir: site.root.clone(),
            workspace: site.absolute(),
            with: options.with.clone(),
            limit: options.limit.clone(),
            diff: options.diff,
            wait_seconds: options.wait.map(|wait| wait.as_secs()),
        }
    }

    /// Reads what a job has.
    pub(crate) fn read(job: &Job) -> Result<Self, Failure> {
        read_spec(job)
    }

    /// The options that it was begun with.
    pub(crate) fn options(&self, playbook: &str) -> ProvisionOptions {
        ProvisionOptions {
            playbook: self.platform_dir.join(playbook).display().to_string(),
            with: self.with.clone(),
            limit: self.limit.clone(),
            diff: self.diff,
            wait: self.wait_seconds.map(Duration::from_secs),
            apply: WorkspaceApply::default(),
            give_up: None,
        }
    }
}

/// How a handoff ended: the job, and why it did not come to its end.
pub type Ended = (JobDocument, Option<Failure>);

/// Runs a playbook on the hosts of a workspace, after it is applied and they are there. A job of the workspace that was
/// cut goes on at the step that had not ended.
///
/// # Errors
/// Nothing was begun: faults, a lock, another job that is not over, a ledger that can't be read.
pub fn run(
    machine: &Machine,
    site: &WorkspaceSite,
    options: &ProvisionOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Ended, CallError> {
    with_workspace(machine, site, options, stop, ui, None)
}

/// The same for one job that is there.
pub(crate) fn with_workspace(
    machine: &Machine,
    site: &WorkspaceSite,
    options: &ProvisionOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
    job: Option<&There>,
) -> Result<Ended, CallError> {
    begin::with_workspace(
        machine,
        site,
        "provision run",
        stop,
        ui,
        |workspace, book| {
            let play = workspace.play_of(WorkspacePlay {
                playbook: options.playbook.clone(),
                with: options.with.clone(),
                limit: options.limit.clone(),
                diff: options.diff,
            })?;
            let asked = Asked {
                kind: KIND,
                steps: &STEPS,
                playbook: &play.playbook.clone(),
                spec: &spec_text(&Spec::of(workspace.site(), options))?,
                give_up: options.give_up.as_deref(),
                job,
            };
            asked.walked(machine, book, workspace.site(), ui, |_, _| {
                Ok(Handoff {
                    machine,
                    workspace,
                    options,
                    play,
                    stop,
                    ui,
                    awaited: None,
                })
            })
        },
    )
}

/// The acts of a handoff.
struct Handoff<'w, 'm> {
    machine: &'w Machine,
    workspace: &'w Workspace<'m>,
    options: &'w ProvisionOptions,
    play: WorkspacePlay,
    stop: &'w Arc<StopRequests>,
    ui: &'w Arc<dyn Ui>,
    awaited: Option<Awaited>,
}

impl Acts for Handoff<'_, '_> {
    fn act(&mut self, step: &str, _: How) -> Result<Done, Failure> {
        self.done(step)
            .map_err(|failure| self.workspace.masked(failure))
    }

    fn tell(&self, step: &str, ended: Option<(&Result<Done, Failure>, f64)>) {
        step_told(self.ui.as_ref(), step, ended);
    }

    fn is_stopped(&self) -> bool {
        self.stop.level() > StopLevel::None
    }

    fn now(&self) -> String {
        book::now(self.machine)
    }
}

impl Handoff<'_, '_> {
    fn done(&mut self, step: &str) -> Result<Done, Failure> {
        match step {
            "apply" => {
                let applied = self.workspace.apply(&self.options.apply)?;
                Ok(Done {
                    summary: applied.summary,
                    outputs: serde_json::to_value(applied.outputs).ok(),
                })
            }
            "await" => {
                let awaited = self
                    .workspace
                    .await_hosts(&self.play.with, self.options.wait)?;
                let done = Done {
                    summary: awaited.summary(),
                    outputs: Some(awaited.outputs()),
                };
                self.awaited = Some(awaited);
                Ok(done)
            }
            "onboard" => {
                let awaited = self.awaited()?;
                let keys = self.workspace.onboard(awaited)?;
                Ok(Done {
                    summary: "every host answers under its pinned key".to_owned(),
                    outputs: Some(keys),
                })
            }
            _ => {
                let awaited = self.awaited()?;
                let summary = self.workspace.play(awaited, &self.play)?;
                Ok(Done {
                    outputs: Some(json!({ "summary": summary })),
                    summary,
                })
            }
        }
    }

    fn awaited(&self) -> Result<&Awaited, Failure> {
        self.awaited
            .as_ref()
            .ok_or_else(|| Failure::failed("the hosts were not awaited before this step"))
    }
}

/// Tells where a workspace is, from what this machine keeps of it.
///
/// # Errors
/// That can't be read.
pub fn status(machine: &Machine, site: &WorkspaceSite) -> Result<ProvisionStatus, Failure> {
    let book = Book::open(machine, "provision status")?;
    let jobs = book
        .ledger
        .of_workspace(&site.platform_name, &site.site.target, &site.name)
        .map_err(|error| told(&error))?;
    let recorded = workspace::recorded(machine, site)?;
    let job = jobs.first().map(JobShown::of);
    let next = match &job {
        Some(job) if job.is_left() || job.is_held() => next(job),
        _ if recorded.stands => vec![
            format!(
                "rebuild inventory {} --target {} --graph",
                site.name, site.site.target
            ),
            format!("rebuild provision down {}", site.as_typed()),
        ],
        _ => vec![format!(
            "rebuild provision run {} PLAYBOOK",
            site.as_typed()
        )],
    };
    Ok(ProvisionStatus {
        schema: 1,
        platform: site.platform_name.clone(),
        target: site.site.target.clone(),
        workspace: site.name.clone(),
        stands: recorded.stands,
        job,
        outputs: recorded.outputs,
        next,
    })
}

/// What `provision down` came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ProvisionedDown {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The workspace.
    pub workspace: String,
    /// Whether there was anything to tear down.
    pub stood: bool,
}

/// Destroys what a workspace made, forgets its hosts and gives up its job that is not over.
///
/// # Errors
/// As `down`: nobody named a protected target, the target is locked, the destroy failed.
pub fn down(
    machine: &Machine,
    site: &WorkspaceSite,
    options: &WorkspaceDown,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<ProvisionedDown, CallError> {
    let mut book = Book::open(machine, "provision down")?;
    let workspace = Workspace::open_down(machine, site, options, stop, ui)?;
    let without = options.without_captured.as_deref();
    let gone = gone(machine, &workspace, without, &mut book);
    workspace.release();
    Ok(ProvisionedDown {
        schema: 1,
        target: site.site.target.clone(),
        workspace: site.name.clone(),
        stood: gone?,
    })
}

fn gone(
    machine: &Machine,
    workspace: &Workspace<'_>,
    without: Option<&str>,
    book: &mut Book,
) -> Result<bool, Failure> {
    let site = workspace.site();
    // From here on nothing may go on with it.
    let jobs = book
        .ledger
        .of_workspace(&site.platform_name, &site.site.target, &site.name)
        .map_err(|error| told(&error))?;
    let is_open = |job: &&Job| !matches!(job.status(), JobStatus::Succeeded | JobStatus::Abandoned);
    for job in jobs.iter().filter(is_open) {
        let reason = format!(
            "{} {}: the workspace is torn down",
            book::now(machine),
            machine.user
        );
        book.ledger
            .abandon(&job.id, &reason, is_over)
            .map_err(|error| told(&error))?;
    }
    let stood = workspace.destroy(without)?;
    workspace.forget_hosts()?;
    Ok(stood)
}

/// Lists what `provision down` would destroy.
///
/// # Errors
/// As [`down`], before its first act.
pub fn down_dry_run(
    machine: &Machine,
    site: &WorkspaceSite,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<WorkspaceDryRun, CallError> {
    let options = WorkspaceDown {
        dry_run: true,
        ..WorkspaceDown::default()
    };
    let workspace = Workspace::open_down(machine, site, &options, stop, ui)?;
    let dry = workspace.dry_run();
    workspace.release();
    Ok(dry?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_goes_on_with_what_it_was_begun_with() {
        let spec = Spec {
            platform_dir: "/lab".into(),
            workspace: "prod".to_owned(),
            with: vec!["stage".to_owned()],
            limit: Some("tf:prod".to_owned()),
            diff: true,
            wait_seconds: Some(60),
        };
        let text = serde_json::to_string(&spec).unwrap();
        let read: Spec = serde_json::from_str(&text).unwrap();
        let options = read.options("playbooks/site.yml");
        assert_eq!(options.playbook, "/lab/playbooks/site.yml");
        assert_eq!(options.limit.as_deref(), Some("tf:prod"));
        assert_eq!(
            (options.diff, options.wait),
            (true, Some(Duration::from_secs(60)))
        );
    }
}

//! `bootstrap`: Ansible first, then what it captured is sealed and given to a workspace, under one job.

use std::path::PathBuf;
use std::sync::Arc;

use jobs::{Job, JobId, StepStatus};
use phase_engine::Failure;
use run::CallError;
use run::api::Machine;
use run::stop::{StopLevel, StopRequests};
use run::ui::Ui;
use run::workspace::{CapturePlay, Caught, Workspace, WorkspaceApply, WorkspaceSite};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::begin::{self, Asked, There, read_spec, spec_text, step_told};
use crate::book::{self, is_over, told};
use crate::drive::{Acts, Done, How};
use crate::provision::Ended;

/// The steps; none of them only looks.
pub const BOOTSTRAP_STEPS: [(&str, bool); 3] =
    [("ansible", false), ("seal", false), ("apply", false)];

/// The kind of such a job.
pub(crate) const KIND: &str = "bootstrap";

/// Options of `bootstrap run`.
#[derive(Clone, Debug, Default)]
pub struct BootstrapOptions {
    /// The playbook, seen from here or from the platform.
    pub playbook: String,
    /// The inventory that it is run on; this machine alone without one.
    pub inventory: Option<PathBuf>,
    /// The hosts that it is limited to.
    pub limit: Option<String>,
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
    inventory: Option<PathBuf>,
    limit: Option<String>,
}

impl Spec {
    /// Reads what a job has.
    pub(crate) fn read(job: &Job) -> Result<Self, Failure> {
        read_spec(job)
    }

    /// The options that it was begun with.
    pub(crate) fn options(&self, playbook: &str) -> BootstrapOptions {
        BootstrapOptions {
            playbook: self.platform_dir.join(playbook).display().to_string(),
            inventory: self.inventory.clone(),
            limit: self.limit.clone(),
            ..BootstrapOptions::default()
        }
    }
}

/// Runs a playbook that captures secrets, seals them, and applies the workspace with them. A job of the workspace that
/// was cut goes on: from the envelope, once all is sealed.
///
/// # Errors
/// Nothing was begun: faults, a lock, another job that is not over, a ledger that can't be read.
pub fn bootstrap(
    machine: &Machine,
    site: &WorkspaceSite,
    options: &BootstrapOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Result<Ended, CallError> {
    with_workspace(machine, site, options, stop, ui, None)
}

/// The same for one job that is there.
pub(crate) fn with_workspace(
    machine: &Machine,
    site: &WorkspaceSite,
    options: &BootstrapOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
    job: Option<&There>,
) -> Result<Ended, CallError> {
    begin::with_workspace(
        machine,
        site,
        "bootstrap run",
        stop,
        ui,
        |workspace, book| {
            let play = workspace.capture_of(CapturePlay {
                playbook: options.playbook.clone(),
                inventory: options.inventory.clone(),
                limit: options.limit.clone(),
            })?;
            let site = workspace.site();
            let spec = Spec {
                platform_dir: site.root.clone(),
                workspace: site.absolute(),
                inventory: play.inventory.clone(),
                limit: play.limit.clone(),
            };
            let asked = Asked {
                kind: KIND,
                steps: &BOOTSTRAP_STEPS,
                playbook: &play.playbook.clone(),
                spec: &spec_text(&spec)?,
                give_up: options.give_up.as_deref(),
                job,
            };
            asked.walked(machine, book, site, ui, |book, job| {
                let captured = names_of(job, "ansible", "captured");
                // What was captured and not sealed is gone with the call that captured it.
                if wants_ansible(job) && !workspace.is_sealed_by(&job.id.0, &captured) {
                    book.ledger
                        .redrive(&job.id, Some("ansible"), is_over)
                        .map_err(|error| told(&error))?;
                }
                Ok(Handoff {
                    machine,
                    workspace,
                    options,
                    play,
                    stop,
                    ui,
                    job: job.id.clone(),
                    caught: None,
                    captured,
                    sealed: names_of(job, "seal", "sealed"),
                })
            })
        },
    )
}

/// Whether the play ended well and what it captured is not all sealed.
fn wants_ansible(job: &Job) -> bool {
    let is = |name: &str, status: StepStatus| {
        let step = job.steps.iter().find(|step| step.name == name);
        step.is_some_and(|step| step.status == status)
    };
    is("ansible", StepStatus::Succeeded) && !is("seal", StepStatus::Succeeded)
}

/// The names that a step of the job left in the ledger, where it ended well.
fn names_of(job: &Job, step: &str, output: &str) -> Vec<String> {
    let step = job.steps.iter().find(|one| one.name == step);
    let outputs = step
        .filter(|step| step.status == StepStatus::Succeeded)
        .and_then(|step| step.outputs.as_deref())
        .and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let names = outputs
        .as_ref()
        .and_then(|outputs| outputs[output].as_array());
    let names = names.into_iter().flatten();
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// The acts of a bootstrap.
struct Handoff<'w, 'm> {
    machine: &'w Machine,
    workspace: &'w Workspace<'m>,
    options: &'w BootstrapOptions,
    play: CapturePlay,
    stop: &'w Arc<StopRequests>,
    ui: &'w Arc<dyn Ui>,
    job: JobId,
    caught: Option<Caught>,
    /// What an earlier call captured, and the ledger knows of.
    captured: Vec<String>,
    /// What is sealed.
    sealed: Vec<String>,
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
            "ansible" => {
                let caught = self.workspace.capture(&self.play)?;
                let done = Done {
                    summary: caught.summary.clone(),
                    outputs: Some(json!({ "captured": caught.names() })),
                };
                self.caught = Some(caught);
                Ok(done)
            }
            "seal" => {
                let names = match self.caught.take() {
                    Some(caught) => self.workspace.seal_caught(&self.job.0, caught)?,
                    // All of it was sealed by a call that was cut before it could say so.
                    None => self.captured.clone(),
                };
                self.sealed.clone_from(&names);
                Ok(Done {
                    summary: match names.as_slice() {
                        [one] => format!("`{one}` is sealed"),
                        all => format!("{} secrets are sealed", all.len()),
                    },
                    outputs: Some(json!({ "sealed": names })),
                })
            }
            _ => {
                self.workspace.give_sealed_by(&self.job.0, &self.sealed)?;
                let applied = self.workspace.apply(&self.options.apply)?;
                Ok(Done {
                    summary: applied.summary,
                    outputs: serde_json::to_value(applied.outputs).ok(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jobs::Step;

    use super::*;

    fn job(statuses: [StepStatus; 3]) -> Job {
        let steps = BOOTSTRAP_STEPS.iter().zip(statuses);
        Job {
            id: JobId("01".to_owned()),
            kind: KIND.to_owned(),
            platform: "lab".to_owned(),
            target: "drill".to_owned(),
            workspace: "next".to_owned(),
            playbook: "seed.yml".to_owned(),
            spec: "{}".to_owned(),
            created_at: "2026-12-01T10:00:00Z".to_owned(),
            abandoned: None,
            holder: None,
            steps: steps
                .map(|((name, looks), status)| Step {
                    name: (*name).to_owned(),
                    looks: *looks,
                    status,
                    n_attempts: 1,
                    started_at: None,
                    ended_at: None,
                    outputs: Some(r#"{"sealed":["a","token"]}"#.to_owned()),
                    error: None,
                })
                .collect(),
        }
    }

    #[test]
    fn ansible_is_run_again_only_where_what_it_captured_was_not_sealed() {
        use StepStatus::{Failed, Pending, Started, Succeeded};
        for (statuses, expected) in [
            ([Pending, Pending, Pending], false),
            ([Started, Pending, Pending], false),
            ([Succeeded, Pending, Pending], true),
            ([Succeeded, Started, Pending], true),
            ([Succeeded, Failed, Pending], true),
            ([Succeeded, Succeeded, Pending], false),
            ([Succeeded, Succeeded, Failed], false),
        ] {
            assert_eq!(wants_ansible(&job(statuses)), expected, "{statuses:?}");
        }
    }

    #[test]
    fn what_a_job_sealed_is_known_by_its_ledger() {
        use StepStatus::{Pending, Started, Succeeded};
        let sealed = |statuses| names_of(&job(statuses), "seal", "sealed");
        assert_eq!(sealed([Succeeded, Succeeded, Pending]), ["a", "token"]);
        assert!(sealed([Succeeded, Started, Pending]).is_empty());
    }
}

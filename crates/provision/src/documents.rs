//! What `jobs` and `provision status` print as JSON.

use std::collections::BTreeMap;

use jobs::{Job, JobStatus, Step};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::book::{Seen, runner, seen};

/// `jobs list`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobsDocument {
    /// The version of this format.
    pub schema: u32,
    /// The jobs, the newest first.
    pub jobs: Vec<JobShown>,
}

/// `jobs show`, and the end of a handoff.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobDocument {
    /// The version of this format.
    pub schema: u32,
    /// The job.
    #[serde(flatten)]
    pub job: JobShown,
    /// Commands that go on from here.
    pub next: Vec<String>,
}

/// `provision status`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProvisionStatus {
    /// The version of this format.
    pub schema: u32,
    /// The platform.
    pub platform: String,
    /// The target.
    pub target: String,
    /// The workspace.
    pub workspace: String,
    /// Whether something of it stands, as far as this machine knows.
    pub stands: bool,
    /// Its last job.
    pub job: Option<JobShown>,
    /// Its outputs that are not sensitive, as they were when it was last applied from this machine.
    pub outputs: BTreeMap<String, Value>,
    /// Commands that go on from here.
    pub next: Vec<String>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JobShown {
    /// Its id.
    pub id: String,
    /// `provision` or `bootstrap`.
    pub kind: String,
    /// The platform.
    pub platform: String,
    /// The target.
    pub target: String,
    /// The workspace.
    pub workspace: String,
    /// The playbook.
    pub playbook: String,
    /// `pending`, `running`, `held`, `cut`, `paused`, `failed`, `interrupted`, `succeeded` or `abandoned`.
    ///
    /// `held`: somebody on another machine or in another container has it, and nobody can tell from here whether they
    /// live.
    pub status: String,
    /// Who runs it now, or has it.
    pub runner: Option<String>,
    /// When it was made.
    pub created: String,
    /// When and why a person gave it up.
    pub abandoned: Option<String>,
    /// Its steps, in order.
    pub steps: Vec<StepShown>,
}

/// One step of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepShown {
    /// Its name.
    pub name: String,
    /// `pending`, `started`, `succeeded`, `failed` or `interrupted`.
    pub status: String,
    /// How often it was begun.
    pub attempts: u32,
    /// When it was begun last.
    pub started: Option<String>,
    /// When it ended last.
    pub ended: Option<String>,
    /// What it left behind.
    pub outputs: Option<Value>,
    /// What it failed with.
    pub error: Option<String>,
}

impl JobShown {
    /// A job as it is shown.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self {
            id: job.id.to_string(),
            kind: job.kind.clone(),
            platform: job.platform.clone(),
            target: job.target.clone(),
            workspace: job.workspace.clone(),
            playbook: job.playbook.clone(),
            status: word(job.status(), seen(job)).to_owned(),
            runner: runner(job),
            created: job.created_at.clone(),
            abandoned: job.abandoned.clone(),
            steps: job.steps.iter().map(StepShown::of).collect(),
        }
    }

    /// Whether somebody has it of whom nothing is known from here.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.status == "held"
    }

    /// Whether something is left to do and nobody does it.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.runner.is_none() && !matches!(self.status.as_str(), "succeeded" | "abandoned")
    }
}

impl StepShown {
    fn of(step: &Step) -> Self {
        Self {
            name: step.name.clone(),
            status: step.status.as_str().to_owned(),
            attempts: step.n_attempts,
            started: step.started_at.clone(),
            ended: step.ended_at.clone(),
            outputs: step
                .outputs
                .as_deref()
                .and_then(|text| serde_json::from_str(text).ok()),
            error: step.error.clone(),
        }
    }
}

impl JobDocument {
    /// A job with what goes on from it.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let job = JobShown::of(job);
        let next = next(&job);
        Self {
            schema: 1,
            job,
            next,
        }
    }
}

/// What goes on from a job.
pub(crate) fn next(job: &JobShown) -> Vec<String> {
    let id = &job.id;
    if job.is_left() {
        return vec![
            format!("rebuild jobs resume {id}"),
            format!(
                "rebuild jobs redrive {id} --from {}",
                job.steps.first().map_or("STEP", |step| &step.name)
            ),
        ];
    }
    match job.status.as_str() {
        // The target's lock tells whether they are at work: it is shown, and asked for.
        "held" => vec![
            format!("rebuild status --target {}", job.target),
            format!("rebuild jobs resume {id}"),
        ],
        // A bootstrap's workspace need not have hosts.
        "succeeded" if job.kind == crate::bootstrap::KIND => vec![format!(
            "rebuild provision status {} --target {}",
            job.workspace, job.target
        )],
        "succeeded" => vec![format!(
            "rebuild inventory {} --target {} --graph",
            job.workspace, job.target
        )],
        _ => Vec::new(),
    }
}

fn word(status: JobStatus, seen: Seen) -> &'static str {
    match status {
        JobStatus::Succeeded => "succeeded",
        JobStatus::Abandoned => "abandoned",
        _ if seen == Seen::Alive => "running",
        _ if seen == Seen::Elsewhere => "held",
        JobStatus::Pending => "pending",
        JobStatus::Started => "cut",
        JobStatus::Paused => "paused",
        JobStatus::Failed => "failed",
        JobStatus::Interrupted => "interrupted",
    }
}

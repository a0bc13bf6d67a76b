//! What a call tells while it goes on, and what it asks a person.

use schemars::JsonSchema;
use serde::Serialize;

/// One thing that happened in a call; printed for people, or as one line of `--output ndjson`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Notice {
    /// Definitions are read and packed.
    Bundle {
        /// The bundle's digest.
        digest: String,
        /// The commit that the files come from.
        commit: Option<String>,
        /// Whether the work tree differs from that commit.
        dirty: bool,
    },
    /// A tool was found fit.
    Tool {
        /// Which.
        name: String,
        /// Where.
        path: String,
        /// Which version.
        version: String,
    },
    /// Variables of the caller that steer a tool and do not reach a step.
    EnvironmentDropped {
        /// Their names; values never.
        names: Vec<String>,
    },
    /// Secrets too short to be masked in a tool's output.
    Unmaskable {
        /// Their names.
        names: Vec<String>,
    },
    /// The target is locked for this call.
    Locked {
        /// The fencing number of this call.
        fence: u64,
    },
    /// A part of the definitions is being checked, or was.
    Checking {
        /// Which.
        what: String,
        /// Whether it is good, once that is known.
        good: Option<bool>,
    },
    /// Something is waited for.
    Waiting {
        /// What, in words.
        what: String,
    },
    /// The states, records and bundles of the target are in another store from now on.
    StoreMoved {
        /// Where they were.
        from: String,
        /// Where they are.
        to: String,
    },
    /// A root module is being made ready.
    Init {
        /// The step.
        step: String,
        /// Whether a warm data directory was used again.
        warm: bool,
    },
    /// A provider or module is taken in another version than the one that was applied.
    Upgrade {
        /// The step.
        step: String,
        /// `provider` or `module`.
        kind: String,
        /// The provider's source address, or the module's path of calls.
        name: String,
        /// The version that was applied; none of a module whose source has no versions.
        from: Option<String>,
        /// The version that is applied now.
        to: Option<String>,
    },
    /// Preflight has come to its verdict.
    Preflight {
        /// The whole report.
        report: serde_json::Value,
    },
    /// A run began or goes on.
    Run {
        /// Its id.
        id: String,
        /// Whether it goes on from an earlier call.
        resumed: bool,
    },
    /// Work on a phase begins.
    Phase {
        /// Its id.
        phase: String,
        /// Its title.
        title: String,
        /// What is done to it.
        doing: Doing,
    },
    /// Work on a step begins.
    Step {
        /// Its id.
        step: String,
        /// What is done to it.
        doing: Doing,
    },
    /// A resource moved on.
    Resource {
        /// The step.
        step: String,
        /// The resource's address.
        address: String,
        /// What OpenTofu does to it: `create`, `update`, `delete`, …
        action: String,
        /// How far it got.
        stage: Stage,
        /// For how long so far, in seconds.
        seconds: u64,
    },
    /// A host that is awaited or configured moved on.
    Host {
        /// The step.
        step: String,
        /// The host.
        host: String,
        /// What is known of it now, in words: the rung that it stands on, or what was done to it.
        what: String,
    },
    /// A task of a playbook began.
    Task {
        /// The step.
        step: String,
        /// Its name.
        task: String,
    },
    /// A task of a playbook ended on a host.
    TaskEnded {
        /// The step.
        step: String,
        /// The host.
        host: String,
        /// The task's name.
        task: String,
        /// `ok`, `changed`, `skipped`, `failed`, `ignored` or `unreachable`.
        status: String,
        /// What it said.
        message: String,
    },
    /// What a task of a playbook changes on a host, where the step shows differences.
    Difference {
        /// The step.
        step: String,
        /// The host.
        host: String,
        /// The task's name.
        task: String,
        /// The difference, line by line.
        text: String,
    },
    /// A running step has been silent for minutes.
    Quiet {
        /// The step.
        step: String,
        /// The last address that it named.
        address: Option<String>,
        /// For how long it has said nothing, in seconds.
        seconds: u64,
    },
    /// Work on a step ended.
    StepEnded {
        /// The step.
        step: String,
        /// What was done to it.
        doing: Doing,
        /// Whether it went well.
        ok: bool,
        /// One line for people.
        summary: String,
        /// How long it took, in seconds.
        seconds: f64,
    },
    /// A check of a phase was tried.
    Check {
        /// The phase.
        phase: String,
        /// The check's name.
        check: String,
        /// What is wrong, where it failed.
        failure: Option<String>,
    },
    /// A phase is applied and verified.
    Verified {
        /// The checkpoint's summary.
        summary: Checkpoint,
    },
    /// A phase is torn down and proven gone.
    TornDown {
        /// Its id.
        phase: String,
        /// How many residue probes were asked and found nothing.
        n_probes: usize,
    },
    /// A handoff's job began or goes on.
    Job {
        /// Its id.
        id: String,
        /// The workspace.
        workspace: String,
        /// Whether it goes on from an earlier call.
        resumed: bool,
    },
    /// Work on a step of a job begins.
    JobStep {
        /// Its name.
        step: String,
    },
    /// Work on a step of a job ended.
    JobStepEnded {
        /// Its name.
        step: String,
        /// Whether it went well.
        ok: bool,
        /// One line for people.
        summary: String,
        /// How long it took, in seconds.
        seconds: f64,
    },
    /// There is nothing to tear down.
    NothingLeft {
        /// The target.
        target: String,
    },
    /// What a call did or found, where nothing else tells it.
    Told {
        /// It, in one line.
        message: String,
    },
    /// Something that a person should know and that stops nothing.
    Warning {
        /// What.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

/// What is done to a phase or step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// It is applied.
    Apply,
    /// It is verified.
    Verify,
    /// It is torn down.
    Teardown,
}

/// How far a resource got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// OpenTofu has begun.
    Started,
    /// OpenTofu is done.
    Completed,
    /// OpenTofu failed.
    Errored,
}

/// The summary that is printed after each verified phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Checkpoint {
    /// The phase.
    pub phase: String,
    /// Its title.
    pub title: String,
    /// What it made: an item for each action and type, as `3 terraform_data created`.
    pub made: Vec<String>,
    /// Time in apply and verify of this phase, in seconds.
    pub phase_seconds: f64,
    /// Time of the run so far, in seconds.
    pub run_seconds: f64,
    /// What is left of the budget, in seconds; negative once it is spent.
    pub budget_left_seconds: Option<f64>,
    /// The next phase, if there is one.
    pub next: Option<String>,
}

/// What was done to a resource, for what OpenTofu calls the action: `create` gives `created`.
#[must_use]
pub fn done(action: &str) -> &str {
    match action {
        "create" => "created",
        "update" => "updated",
        "delete" => "destroyed",
        "replace" => "replaced",
        "import" => "imported",
        "forget" | "remove" => "forgotten",
        "move" => "moved",
        other => other,
    }
}

/// What a person answers at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go on with the next phase.
    Continue,
    /// End the call here; `up --resume` goes on.
    Pause,
    /// Tear everything down.
    TearDown,
}

/// The operator's end of a call, shared as `Arc<dyn Ui>` with what follows a child. Only asks when `interactive`; telling must never fail or block the call.
pub trait Ui: Send + Sync {
    /// Tells what happened.
    fn tell(&self, notice: &Notice);
    /// Whether a person can be asked.
    fn interactive(&self) -> bool;
    /// Asks what to do after a verified phase.
    fn at_checkpoint(&self, summary: &Checkpoint) -> Answer;
    /// Asks whether to tear down after a failure.
    fn tear_down_after_failure(&self, target: &str, protected: bool) -> bool;
    /// Asks for the target's name to be typed; true when it was.
    fn confirm_by_name(&self, target: &str, what: &str) -> bool;
    /// Asks whether a plan that destroys may go on; the addresses are what it destroys or replaces.
    fn agree_to_destroy(&self, step: &str, addresses: &[String]) -> bool;
}

/// Nobody: for commands that tell one thing at their end. It hears nothing and agrees to nothing.
pub(crate) struct Nobody;

impl Ui for Nobody {
    fn tell(&self, _: &Notice) {}

    fn interactive(&self) -> bool {
        false
    }

    fn at_checkpoint(&self, _: &Checkpoint) -> Answer {
        Answer::Pause
    }

    fn tear_down_after_failure(&self, _: &str, _: bool) -> bool {
        false
    }

    fn confirm_by_name(&self, _: &str, _: &str) -> bool {
        false
    }

    fn agree_to_destroy(&self, _: &str, _: &[String]) -> bool {
        false
    }
}

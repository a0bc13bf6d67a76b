//! The command line of handoffs: `provision`, `jobs`, `inventory`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use run::workspace::WorkspaceApply;

use crate::args::{Stop, duration};

#[derive(Args, Debug)]
pub(crate) struct Provision {
    #[command(subcommand)]
    pub(crate) command: ProvisionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProvisionCommand {
    /// Apply a workspace, await its hosts, onboard them and run a playbook on them; go on where that was cut
    Run(ProvisionRun),
    /// Say how far the last job of a workspace is, what it left behind and what to type next
    Status(WorkspaceNamed),
    /// Destroy what a workspace made, and forget its hosts
    Down(ProvisionDown),
}

/// Which workspace is meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkspaceNamed {
    /// The workspace: a name of `[workspace]` in rebuild.toml, or with `--target` a root module's directory
    #[arg(value_name = "WORKSPACE")]
    pub(crate) workspace: String,
    /// The target; a workspace of rebuild.toml says its own
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
}

/// What a job may do that is not done without being asked for.
#[derive(Args, Debug)]
pub(crate) struct Consent {
    /// Let the workspace's plan destroy and replace on a protected target
    #[arg(long)]
    pub(crate) allow_destroy: bool,
    /// Let this tainted resource be replaced; may be given again
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) replace: Vec<String>,
    /// Keep this tainted resource as it is; may be given again
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) keep: Vec<String>,
    /// Give up the job of the workspace that is not over, and begin a new one; the reason is kept with it
    #[arg(long, value_name = "REASON")]
    pub(crate) give_up: Option<String>,
}

impl Consent {
    /// What the apply may do, and why the job that is not over is given up.
    pub(crate) fn into_parts(self) -> (WorkspaceApply, Option<String>) {
        let apply = WorkspaceApply {
            allow_destroy: self.allow_destroy,
            replace: self.replace,
            keep: self.keep,
        };
        (apply, self.give_up)
    }
}

#[derive(Args, Debug)]
pub(crate) struct ProvisionRun {
    /// The workspace: a name of `[workspace]` in rebuild.toml, or with `--target` a root module's directory
    #[arg(value_name = "WORKSPACE")]
    pub(crate) workspace: String,
    /// The playbook, seen from here or from the platform's directory
    #[arg(value_name = "PLAYBOOK")]
    pub(crate) playbook: String,
    /// The target; a workspace of rebuild.toml says its own
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Give the play the hosts of this workspace as well, as they stand; may be given again
    #[arg(long, value_name = "WORKSPACE")]
    pub(crate) with: Vec<String>,
    /// Limit the play to these hosts: a pattern of Ansible's, in which `tf:NAME` are the hosts of a workspace
    #[arg(long, value_name = "PATTERN")]
    pub(crate) limit: Option<String>,
    /// Show what tasks change in files
    #[arg(long)]
    pub(crate) diff: bool,
    /// How long the hosts are awaited (`30s`, `10m`) [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) consent: Consent,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct ProvisionDown {
    #[command(flatten)]
    pub(crate) workspace: WorkspaceNamed,
    /// The name of a protected target, where nobody can be asked to type it
    #[arg(long, value_name = "TARGET")]
    pub(crate) confirm: Option<String>,
    /// Print every resource that would go, and touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Destroy it without the secrets that it captured, where nothing opens them any more; the reason is recorded
    #[arg(long, value_name = "REASON")]
    pub(crate) without_captured: Option<String>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Bootstrap {
    #[command(subcommand)]
    pub(crate) command: BootstrapCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BootstrapCommand {
    /// Run a playbook that captures secrets in memory, seal them, and apply a workspace with them; go on where that was cut
    Run(BootstrapRun),
}

#[derive(Args, Debug)]
pub(crate) struct BootstrapRun {
    /// The playbook, seen from here or from the platform's directory
    #[arg(value_name = "PLAYBOOK")]
    pub(crate) playbook: String,
    #[command(flatten)]
    pub(crate) workspace: WorkspaceNamed,
    /// Run it on this inventory of Ansible's [default: this machine alone, as `localhost`]
    #[arg(long, value_name = "FILE")]
    pub(crate) inventory: Option<PathBuf>,
    /// Limit the play to these hosts: a pattern of Ansible's
    #[arg(long, value_name = "PATTERN")]
    pub(crate) limit: Option<String>,
    #[command(flatten)]
    pub(crate) consent: Consent,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Jobs {
    #[command(subcommand)]
    pub(crate) command: JobsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List the jobs of this user on this machine, the newest first
    List(JobsList),
    /// Show one job
    Show(JobsShow),
    /// Go on with every job that was cut, or with one job
    Resume(JobsResume),
    /// Do the steps of a job again, from the one that failed or from a step that is named
    Redrive(JobsRedrive),
}

#[derive(Args, Debug)]
pub(crate) struct JobsList {
    /// Only those of this target
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct JobsShow {
    /// The job's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

#[derive(Args, Debug)]
pub(crate) struct JobsResume {
    /// The job's id; one that failed is gone on with only where it is named
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct JobsRedrive {
    /// The job's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The step to begin from: `apply`, `await`, `onboard`, `ansible`; of a bootstrap `ansible`, `seal`, `apply`
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Inventory {
    /// The workspace, or with `--target` a step as PHASE.STEP; without it, all hosts of the target
    #[arg(value_name = "WORKSPACE")]
    pub(crate) workspace: Option<String>,
    /// The target
    #[arg(long, value_name = "TARGET", required_unless_present = "workspace")]
    pub(crate) target: Option<String>,
    /// Print groups and hosts as Ansible's inventory scripts do
    #[arg(long, conflicts_with_all = ["host", "graph"])]
    pub(crate) list: bool,
    /// Print the variables of one host as Ansible's inventory scripts do
    #[arg(long, value_name = "NAME", conflicts_with = "graph")]
    pub(crate) host: Option<String>,
    /// Draw workspaces, groups and hosts as a tree; this is what is done without a flag
    #[arg(long)]
    pub(crate) graph: bool,
}

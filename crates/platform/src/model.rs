//! What the definitions say: the platform, its phases, steps and checks, and one target.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use phase_engine::{Phase, PhaseId, Sequence, SequenceError, StepId, StepShape, TargetName};
use secrets::Source;
use semver::VersionReq;
use serde_json::Value;

use crate::expr::{Expr, Located, Part, Reference};
use crate::fault::Fault;
use crate::module::RootModule;
use crate::nodes::NodesDef;
use crate::store_def::StoreDef;

/// A platform and one target of it, without faults.
#[derive(Debug, Clone)]
pub struct Definitions {
    /// What `rebuild.toml` and the root modules say.
    pub platform: Platform,
    /// What the target file says.
    pub target: Target,
    /// What is legal and yet likely to hurt.
    pub warnings: Vec<Fault>,
}

/// The phases of a platform, in order.
#[derive(Debug, Clone)]
pub struct Platform {
    /// Name of the platform.
    pub name: String,
    /// The time after which a run is marked as over its budget; never stops one.
    pub time_budget: Option<Duration>,
    /// The tools that a run demands, by name (`tofu`, `ansible`, `tflint`, `talosctl`).
    pub tools: BTreeMap<String, ToolDef>,
    /// The phases, in order.
    pub phases: Vec<PhaseDef>,
    /// The workspaces of handoffs, by name.
    pub workspaces: Vec<WorkspaceDef>,
    /// Files of the root modules that `nodes` steps are rendered into, by path within the bundle.
    pub rendered: BTreeMap<String, Vec<u8>>,
}

impl Platform {
    /// Returns every step in order.
    pub fn steps(&self) -> impl Iterator<Item = &StepDef> {
        self.phases.iter().flat_map(|phase| &phase.steps)
    }

    /// Returns what the phase engine needs to know of it.
    ///
    /// # Errors
    /// None for a platform that was loaded without faults.
    pub fn sequence(&self) -> Result<Sequence, SequenceError> {
        let shape = |step: &StepDef| StepShape {
            id: step.id.clone(),
            refers_to: step.refers_to(),
            contained_in: step.contained_in.clone(),
        };
        let phase = |phase: &PhaseDef| Phase {
            id: phase.id.clone(),
            canary: phase.canary,
            provides_state: phase.provides_state,
            parallel: phase.parallel,
            steps: phase.steps.iter().map(shape).collect(),
        };
        Sequence::new(self.phases.iter().map(phase).collect())
    }

    /// Returns the step with this id, one of a workspace too.
    pub fn step(&self, id: &StepId) -> Option<&StepDef> {
        Some(self.step_in_phase(id)?.1)
    }

    /// Returns the step with this id and its phase, one of a workspace too.
    pub fn step_in_phase(&self, id: &StepId) -> Option<(&PhaseDef, &StepDef)> {
        let of_phase = |phase: &'_ &PhaseDef| phase.id == id.phase;
        let of_workspaces = self.workspaces.iter().map(|workspace| &workspace.phase);
        self.phases
            .iter()
            .chain(of_workspaces)
            .filter(of_phase)
            .find_map(|phase| Some((phase, phase.steps.iter().find(|step| step.id == *id)?)))
    }

    /// Returns the workspace with this name.
    pub fn workspace(&self, name: &str) -> Option<&WorkspaceDef> {
        self.workspaces
            .iter()
            .find(|workspace| workspace.name().as_str() == name)
    }

    /// Returns the phase with this id.
    pub fn phase(&self, id: &PhaseId) -> Option<&PhaseDef> {
        self.phases.iter().find(|phase| phase.id == *id)
    }
}

/// What a run demands of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolDef {
    /// The versions that will do.
    pub version: Option<VersionReq>,
    /// Digest of the program, lower-case hexadecimal.
    pub sha256: Option<String>,
    /// Program and first arguments; found on PATH otherwise.
    pub command: Option<Vec<String>>,
    /// OpenTofu's CLI configuration, a path within the platform.
    pub cli_config: Option<String>,
}

/// One phase.
#[derive(Debug, Clone)]
pub struct PhaseDef {
    /// Its id.
    pub id: PhaseId,
    /// Its title for people; the id where none is given.
    pub title: String,
    /// Whether it makes the store that the target's states are kept in.
    pub provides_state: bool,
    /// Whether it is the canary, which comes last.
    pub canary: bool,
    /// Whether steps that don't refer to each other run at once.
    pub parallel: bool,
    /// The most objects that a plan of this phase may destroy before a person is asked.
    pub max_destroy: Option<u32>,
    /// Its steps, in order.
    pub steps: Vec<StepDef>,
    /// Probes of what it made.
    pub checks: Vec<CheckDef>,
    /// Probes of what must be gone after its teardown.
    pub residue: Vec<ResidueDef>,
    /// Bytes of `rebuild.toml` where its id stands.
    pub span: Range<usize>,
}

/// A root module that no step owns, applied by handoffs.
#[derive(Debug, Clone)]
pub struct WorkspaceDef {
    /// The target that it is applied in.
    pub target: TargetName,
    /// The output that names the hosts.
    pub hosts: String,
    /// Variables that `bootstrap` captures: sensitive ones, which nothing else gives a value.
    pub captured: Vec<String>,
    /// The phase [`WORKSPACE_PHASE`] with one step, which applies the root module.
    pub phase: PhaseDef,
}

/// The phase that the steps of workspaces are said to be in; no phase of a platform can have this id.
pub const WORKSPACE_PHASE: &str = "workspace";

impl WorkspaceDef {
    /// Returns the step that applies its root module, `workspace.NAME`.
    pub fn step(&self) -> &StepDef {
        &self.phase.steps[0]
    }

    /// Returns its name.
    pub fn name(&self) -> &phase_engine::StepName {
        &self.step().id.step
    }

    /// Returns its root module's path within the platform.
    pub fn root(&self) -> &str {
        match &self.step().kind {
            StepKind::Tofu(tofu) => &tofu.root,
            _ => "",
        }
    }
}

/// A root module that is named by its directory, on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRoot {
    /// Its path within the platform.
    pub root: String,
    /// The target that it is applied in.
    pub target: TargetName,
}

/// One step.
#[derive(Debug, Clone)]
pub struct StepDef {
    /// Its id.
    pub id: StepId,
    /// What it does.
    pub kind: StepKind,
    /// Steps that must be done before it though it doesn't refer to them.
    pub after: Vec<StepId>,
    /// The step that made what this one lives inside of.
    pub contained_in: Option<StepId>,
    /// Drift that is known and excused.
    pub ignore_drift: Vec<IgnoreDrift>,
    /// The longest that one act of it may take; no end otherwise.
    pub timeout: Option<Duration>,
    /// What is added to its environment, after the target's.
    pub env: BTreeMap<String, EnvValue>,
    /// The step whose state it takes over.
    pub moved_from: Option<StepId>,
    /// How many operations OpenTofu does at once.
    pub parallelism: Option<u32>,
    /// Whether a destroy refreshes first.
    pub destroy_refresh: bool,
    /// SHA-256 of what its section says, comments and order of keys apart; hexadecimal.
    pub section_digest: String,
    /// Bytes of `rebuild.toml` where its name stands.
    pub span: Range<usize>,
}

impl StepDef {
    /// Returns every value with references in it that the step resolves, its environment included.
    pub fn exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = match &self.kind {
            StepKind::Tofu(tofu) => tofu.inputs.values().collect(),
            StepKind::Exec(exec) => exec.argvs().flatten().chain(&exec.stdin).collect(),
            StepKind::Talos(talos) => talos.exprs(),
            StepKind::Ssh(_) => Vec::new(),
            StepKind::Ansible(ansible) => ansible.vars.values().collect(),
        };
        exprs.extend(self.env.values().filter_map(EnvValue::expr));
        exprs
    }

    /// Returns every value with references in it that one of its programs is started with.
    pub fn exprs_of<'s>(&'s self, exec: &'s ExecStep, argv: &'s [Expr]) -> Vec<&'s Expr> {
        let env = self.env.values().filter_map(EnvValue::expr);
        argv.iter().chain(&exec.stdin).chain(env).collect()
    }

    /// Returns the steps that must be done before it: those it refers to, `after`, `contained_in`.
    pub fn refers_to(&self) -> BTreeSet<StepId> {
        let mut steps: BTreeSet<StepId> = self
            .after
            .iter()
            .chain(&self.contained_in)
            .chain(self.kind.machines_of())
            .cloned()
            .collect();
        for located in self.exprs().iter().flat_map(|expr| expr.references()) {
            if let Reference::Output { step, .. } = &located.reference {
                steps.insert(step.clone());
            }
        }
        steps
    }
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum StepKind {
    /// Applies a root module.
    Tofu(TofuStep),
    /// Runs programs of the platform.
    Exec(ExecStep),
    /// Upgrades Talos, machine by machine.
    Talos(TalosStep),
    /// Awaits hosts and pins their keys.
    Ssh(SshStep),
    /// Runs a playbook on hosts.
    Ansible(AnsibleStep),
}

impl StepKind {
    /// Returns the word that `rebuild.toml` uses for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Tofu(tofu) if tofu.nodes.is_some() => "nodes",
            Self::Tofu(_) => "tofu",
            Self::Exec(_) => "exec",
            Self::Talos(_) => "talos",
            Self::Ssh(_) => "ssh",
            Self::Ansible(_) => "ansible",
        }
    }

    /// Returns the output whose hosts it reaches over SSH.
    pub fn hosts_output(&self) -> Option<&HostsOutput> {
        match self {
            Self::Ssh(ssh) => Some(&ssh.hosts),
            Self::Ansible(ansible) => Some(&ansible.hosts),
            Self::Tofu(_) | Self::Exec(_) | Self::Talos(_) => None,
        }
    }

    /// Returns the step before it that made the machines it works on.
    fn machines_of(&self) -> Option<&StepId> {
        match self {
            Self::Talos(talos) if !talos.is_before_hosts => Some(&talos.hosts),
            _ => self.hosts_output().map(|hosts| &hosts.step),
        }
    }
}

/// A root module and the values of its variables.
#[derive(Debug, Clone)]
pub struct TofuStep {
    /// Path of the root module within the platform.
    pub root: String,
    /// The values that the step itself gives.
    pub vars: BTreeMap<String, Expr>,
    /// Every value that goes into the var file: `vars`, and the target's values by name.
    pub inputs: BTreeMap<String, Expr>,
    /// What the root module declares.
    pub module: Arc<RootModule>,
    /// Where it has the root module from, when that is rendered from specs.
    pub nodes: Option<NodesDef>,
}

/// An upgrade of Talos, and what is applied to each machine after it.
#[derive(Debug, Clone)]
pub struct TalosStep {
    /// The step whose outputs `hosts` and `talosconfig` say which machines there are, and how to reach them.
    pub hosts: StepId,
    /// Whether that step comes later: what stands of it is upgraded before it is applied.
    pub is_before_hosts: bool,
    /// The version that every machine is to run, such as `v1.11.2`.
    pub version: Expr,
    /// The image that is installed; Talos' own of that version otherwise.
    pub image: Option<Expr>,
    /// The client configuration, in place of the output.
    pub talosconfig: Option<Expr>,
    /// Patches of every machine's configuration, applied after the upgrade: paths within the platform.
    pub patches: Vec<String>,
    /// How long one machine may take to come back.
    pub node_timeout: Duration,
    /// How long the cluster may take to be healthy.
    pub health_timeout: Duration,
    /// How long is waited between two looks.
    pub every: Duration,
}

impl TalosStep {
    /// Returns every value with references in it.
    pub fn exprs(&self) -> Vec<&Expr> {
        std::iter::once(&self.version)
            .chain(&self.image)
            .chain(&self.talosconfig)
            .collect()
    }
}

/// The output that says which hosts there are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostsOutput {
    /// The step that has it, before the one that names it.
    pub step: StepId,
    /// Its name.
    pub output: String,
}

impl HostsOutput {
    /// Returns the reference to it.
    pub fn expr(&self) -> Expr {
        let reference = Reference::Output {
            step: self.step.clone(),
            output: self.output.clone(),
            path: Vec::new(),
        };
        Expr::Text(vec![Part::Reference(Located {
            reference,
            span: None,
        })])
    }

    /// Returns the group that all of them are in, which is the step's name; `None` where that means something else
    /// in an inventory.
    pub fn group(&self) -> Option<fleet::WorkspaceName> {
        self.step.step.as_str().parse().ok()
    }
}

/// Hosts that are awaited over SSH, and whose keys are pinned.
#[derive(Debug, Clone)]
pub struct SshStep {
    /// The hosts.
    pub hosts: HostsOutput,
    /// How long each of them may take to come.
    pub timeout: Duration,
}

/// A playbook that is run on hosts.
#[derive(Debug, Clone)]
pub struct AnsibleStep {
    /// The hosts.
    pub hosts: HostsOutput,
    /// The playbook: a path within the platform.
    pub playbook: String,
    /// The playbook that undoes it; nothing is left behind where there is none.
    pub teardown: Option<String>,
    /// The pattern that limits it.
    pub limit: Option<String>,
    /// Extra variables.
    pub vars: BTreeMap<String, Expr>,
    /// Whether a run in check mode proves it: what would be changed is drift.
    pub verify: bool,
    /// Whether differences are shown.
    pub diff: bool,
}

/// Programs of the platform: one to apply, one to verify, one to tear down.
#[derive(Debug, Clone)]
pub struct ExecStep {
    /// Makes it; must be safe to repeat.
    pub apply: Vec<Expr>,
    /// Proves it; changes nothing.
    pub verify: Vec<Expr>,
    /// Undoes it; empty when nothing is left behind.
    pub teardown: Vec<Expr>,
    /// What each of them reads.
    pub stdin: Option<Expr>,
}

impl ExecStep {
    /// Returns the three argument lists.
    pub fn argvs(&self) -> impl Iterator<Item = &Vec<Expr>> {
        [&self.apply, &self.verify, &self.teardown].into_iter()
    }
}

/// A variable of a step's environment.
#[derive(Debug, Clone, PartialEq)]
pub enum EnvValue {
    /// A value.
    Value(Expr),
    /// The caller's variable of this name.
    From(String),
}

impl EnvValue {
    /// Returns the value, unless it is the caller's.
    pub fn expr(&self) -> Option<&Expr> {
        match self {
            Self::Value(expr) => Some(expr),
            Self::From(_) => None,
        }
    }
}

/// Drift that is known and excused until a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoreDrift {
    /// Address of the resource, or `output.NAME`.
    pub address: String,
    /// The attribute; every one of the resource otherwise.
    pub attribute: Option<String>,
    /// Why it is excused.
    pub reason: String,
    /// The last day on which it is.
    pub until: Date,
}

/// A probe of what a phase made.
#[derive(Debug, Clone)]
pub struct CheckDef {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub kind: CheckKind,
    /// How long it is tried after an apply.
    pub within: Duration,
    /// How long it waits between two tries.
    pub every: Duration,
    /// Bytes of `rebuild.toml` where its name stands.
    pub span: Range<usize>,
}

/// What a check asks.
#[derive(Debug, Clone)]
pub enum CheckKind {
    /// A GET that must be answered.
    Http {
        /// The address.
        url: Expr,
        /// The status that is right.
        status: u16,
        /// A text that the body must hold.
        body_contains: Option<Expr>,
    },
    /// A connection that must be accepted.
    Tcp {
        /// `HOST:PORT`.
        address: Expr,
    },
    /// A name that must resolve.
    Dns {
        /// The name.
        name: Expr,
        /// Type of the records (`A`, `AAAA`, `CNAME`, `TXT`, `MX`, `NS`, `SRV`, `PTR`).
        record: String,
        /// The records that must be there; any will do when empty.
        expect: Vec<Expr>,
        /// The server to ask, `ADDRESS` or `ADDRESS:PORT`; the machine's own otherwise.
        server: Option<Expr>,
    },
    /// A program of the platform that must exit with 0.
    Exec {
        /// Program and arguments.
        argv: Vec<Expr>,
        /// What is added to its environment.
        env: BTreeMap<String, EnvValue>,
    },
}

impl CheckKind {
    /// Returns every value with references in it.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Self::Http {
                url, body_contains, ..
            } => std::iter::once(url).chain(body_contains).collect(),
            Self::Tcp { address } => vec![address],
            Self::Dns {
                name,
                expect,
                server,
                ..
            } => std::iter::once(name).chain(expect).chain(server).collect(),
            Self::Exec { argv, env } => argv
                .iter()
                .chain(env.values().filter_map(EnvValue::expr))
                .collect(),
        }
    }
}

/// A probe that must print nothing once a phase is gone.
#[derive(Debug, Clone)]
pub struct ResidueDef {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<Expr>,
    /// What is added to its environment.
    pub env: BTreeMap<String, EnvValue>,
    /// How long it is tried.
    pub within: Duration,
    /// Bytes of `rebuild.toml` where its name stands.
    pub span: Range<usize>,
}

/// One place the platform is built in.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub name: TargetName,
    /// Whether a teardown needs its name typed and a plan that destroys needs a person.
    pub protected: bool,
    /// Where its states and records are kept.
    pub store: StoreDef,
    /// How its states are encrypted.
    pub encryption: Option<EncryptionDef>,
    /// Where the former passphrase comes from, while a change of keys stands unfinished.
    pub former: Option<Source>,
    /// The values that phases may read.
    pub values: BTreeMap<String, Value>,
    /// Where its secrets come from.
    pub secrets: BTreeMap<String, Source>,
    /// What is added to every step's environment.
    pub env: BTreeMap<String, EnvValue>,
    /// The drill that `up` wants to have seen.
    pub drill: Option<DrillDef>,
    /// A second store, to which each ended record is copied.
    pub archive: Option<StoreDef>,
    /// How hosts are reached.
    pub ssh: Option<SshDef>,
    /// How secrets are kept under git.
    pub envelope: Option<EnvelopeDef>,
}

/// The drill that an `up` wants: a finished run of another target, from the same definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrillDef {
    /// The target that is drilled.
    pub target: TargetName,
    /// How old a drill may be.
    pub max_age: Duration,
}

/// How states and plans are encrypted.
#[derive(Debug, Clone)]
pub struct EncryptionDef {
    /// Where the passphrase comes from.
    pub passphrase: Source,
    /// How OpenTofu gets the key.
    pub mode: EncryptionMode,
}

/// How OpenTofu gets the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncryptionMode {
    /// From us, stretched once a call.
    #[default]
    External,
    /// By OpenTofu's own stretching, for states that plain OpenTofu reads too.
    Pbkdf2,
}

/// How hosts are reached.
#[derive(Debug, Clone)]
pub struct SshDef {
    /// The fleet's key; the running agent's where it is `None`.
    pub identity: Option<Source>,
    /// How a host proves that it is the right one.
    pub host_keys: HostKeys,
}

/// How a host proves that it is the right one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKeys {
    /// Its key is declared in the workspace's outputs.
    Declared,
    /// Its key is signed by this authority.
    Ca(String),
    /// Its key is pinned on first sight.
    TrustFirst,
}

/// How secrets are kept under git: sealed, each in a file of its own beside the target file.
#[derive(Debug, Clone)]
pub struct EnvelopeDef {
    /// Public keys whose owners can open it.
    pub recipients: Vec<String>,
    /// Where the key that opens it comes from.
    pub identity: Option<Source>,
}

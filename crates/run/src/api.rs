//! What a caller hands in: the machine as values, and the options of each command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use process::Spawner;

/// The machine and its user, read once by the binary and passed on as values.
#[derive(Clone)]
pub struct Machine {
    /// The caller's whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// The directory that the caller works in.
    pub cwd: PathBuf,
    /// The caller's home.
    pub home: PathBuf,
    /// Where this machine keeps targets: `$XDG_STATE_HOME/rebuild`.
    pub state_home: PathBuf,
    /// Who calls.
    pub user: String,
    /// On which host.
    pub host: String,
    /// The address of the CI job that calls, where one does.
    pub ci_job: Option<String>,
    /// This program, which is also the launcher and the key provider.
    pub exe: PathBuf,
    /// This program's version.
    pub version: String,
    /// Starts every child.
    pub spawner: Arc<dyn Spawner>,
    /// The clock.
    pub now: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    /// How long the target's lock is good for without a renewal.
    pub lease: Duration,
    /// How long a tool may say nothing before the operator hears of it.
    pub patience: Duration,
    /// How many rounds OpenTofu's own stretching of a passphrase makes; its default (600,000) where none is said.
    pub rounds: Option<u32>,
}

/// Where a command works.
#[derive(Clone, Debug)]
pub struct Site {
    /// `--platform`; without it `rebuild.toml` is looked for here and above.
    pub platform: Option<PathBuf>,
    /// `--target`.
    pub target: String,
}

/// When `--prune` tears removed steps down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneWhen {
    /// After the last phase that referred to them is verified without them.
    After,
    /// Before everything.
    First,
}

/// Options of `preflight`.
#[derive(Clone, Debug, Default)]
pub struct PreflightOptions {
    /// The id of a store that is known to be gone for good.
    pub first_build: Option<String>,
    /// How many steps are looked at in parallel; 0 for as many as there are cores.
    pub jobs: usize,
    /// Removed steps don't stop: the `up` that follows tears them down.
    pub prune: Option<PruneWhen>,
    /// A missing drill does not stop.
    pub without_drill: bool,
}

/// Options of `up`.
#[derive(Clone, Debug, Default)]
pub struct UpOptions {
    /// Go on with the unfinished run.
    pub resume: bool,
    /// End after this phase is verified.
    pub through: Option<String>,
    /// End the call at the next checkpoint.
    pub pause: bool,
    /// Never wait, never ask.
    pub no_pause: bool,
    /// Phases whose plans may destroy and replace on a protected target.
    pub allow_destroy: Vec<String>,
    /// Tainted addresses that may be replaced.
    pub replace: Vec<String>,
    /// Tainted addresses that are kept as they are.
    pub keep: Vec<String>,
    /// Take newer versions of providers and modules than those that were applied.
    pub upgrade: bool,
    /// A machine that is lost for good, with what it was at work on.
    pub lost_host: Option<String>,
    /// The id of a store that is known to be gone for good.
    pub first_build: Option<String>,
    /// How many steps are looked at in parallel; 0 for as many as there are cores.
    pub jobs: usize,
    /// Tear down what stands and is defined no more.
    pub prune: Option<PruneWhen>,
    /// Why the run goes on without the required drill.
    pub without_drill: Option<String>,
}

/// Options of `repair` and `accept`.
#[derive(Clone, Debug, Default)]
pub struct MendOptions {
    /// The phase.
    pub phase: String,
    /// The same phase, whose objects may be destroyed, replaced or forgotten.
    pub allow_destroy: Vec<String>,
    /// Tainted addresses that may be replaced.
    pub replace: Vec<String>,
    /// Tainted addresses that are kept as they are.
    pub keep: Vec<String>,
    /// Why the world is accepted as it is.
    pub reason: Option<String>,
}

/// Options of `down`.
#[derive(Clone, Debug, Default)]
pub struct DownOptions {
    /// The target's name, typed as a flag.
    pub confirm: Option<String>,
    /// Print what would go and touch nothing.
    pub dry_run: bool,
    /// A machine that is lost for good, with what it was at work on.
    pub lost_host: Option<String>,
    /// A step that is dead and can't be reached.
    pub forget: Option<String>,
    /// Why it is forgotten.
    pub reason: Option<String>,
}

/// Options of `suspects`.
#[derive(Clone, Debug, Default)]
pub struct SuspectsOptions {
    /// `ADDRESS=ID`: objects that exist, to be taken into their step's state.
    pub imports: Vec<String>,
    /// Addresses, or steps, of what does not exist.
    pub gone: Vec<String>,
    /// A machine that is lost for good, with what it was at work on.
    pub lost_host: Option<String>,
    /// The workspace of a handoff whose objects are meant, in place of the target's steps.
    pub workspace: Option<String>,
}

/// Options of `state migrate`.
#[derive(Clone, Debug, Default)]
pub struct MigrateOptions {
    /// `PHASE.STEP`.
    pub step: String,
    /// Give the state back to where it came from.
    pub back: bool,
    /// The workspace of the old backend.
    pub workspace: Option<String>,
    /// What `init -backend-config` of the old backend is given.
    pub backend_config: Vec<String>,
}

/// Options of `render`.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// The target whose values are looked at as well.
    pub target: Option<String>,
    /// The directory to write to, or to compare with.
    pub out: Option<PathBuf>,
    /// Compare, and change nothing.
    pub check: bool,
}

/// Options of `discover`.
#[derive(Clone, Debug, Default)]
pub struct DiscoverOptions {
    /// Networks, or single addresses.
    pub networks: Vec<String>,
    /// The file of specs and the group in it that machines are added to.
    pub write: Option<(PathBuf, String)>,
    /// Addresses that are added without a question.
    pub accept: Vec<String>,
}

/// Options of `check`.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Format instead of complaining.
    pub fix: bool,
    /// A missing TFLint is an error.
    pub require_tflint: bool,
}

//! The command line: what can be typed, and what each word means.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::handoff_args::{Bootstrap, Inventory, Jobs, Provision};
use crate::later;

/// Stands a whole platform up from nothing with OpenTofu, phase by phase, proves it, and tears it down.
#[derive(Debug, Parser)]
#[command(
    name = "rebuild",
    version,
    arg_required_else_help = true,
    subcommand_required = true
)]
#[command(
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = false
)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 usage or definitions, 3 stopped by preflight, \
4 locked, 5 declined, 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The heading under which they stand in each command's help.
const EVERYWHERE: &str = "Options of every command";

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Where the platform is; without it, `rebuild.toml` is looked for here and above
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DIR")]
    pub(crate) platform: Option<PathBuf>,
    /// What goes to standard output: text, one JSON document, or events as JSON lines
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "FORMAT", default_value = "human")]
    pub(crate) output: Output,
    /// When to use colour; `auto` means on a terminal, and not where `NO_COLOR` is set
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// Say more: tools, resources and warm directories
    #[arg(short, long, global = true, help_heading = EVERYWHERE, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Human,
    Json,
    Ndjson,
}

/// `--prune`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Prune {
    /// After the last phase that referred to them is verified without them
    After,
    /// Before everything
    First,
}

impl From<Prune> for run::api::PruneWhen {
    fn from(prune: Prune) -> Self {
        match prune {
            Prune::After => Self::After,
            Prune::First => Self::First,
        }
    }
}

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a small platform that works, to start from
    Init(Init),
    /// Apply and verify every phase of a target, in order
    Up(Up),
    /// Tear down everything that stands in a target, in reverse, and prove it gone
    Down(Down),
    /// Compare a target with what was last applied to it; change nothing
    Preflight(Preflight),
    /// Show what `up` would change, phase by phase; change nothing
    Plan(Plan),
    /// Format, validate, lint and test every root module and module; no target, no credentials
    Check(Check),
    /// Say what stands in a target, what its last run did and what to type next
    Status(Status),
    /// Tell on one page where a target is, what is wrong with it as far as is known, and what to type next
    Explain(Explain),
    /// Look at the runs of a target
    Runs(Runs),
    /// List objects that may exist in no state, and settle them
    Suspects(Suspects),
    /// Hand a workspace to Ansible: apply it, await and onboard its hosts, run a playbook on them
    #[command(visible_alias = "handoff")]
    Provision(Provision),
    /// Ansible first: capture secrets in memory, seal them, and apply a workspace with them
    Bootstrap(Bootstrap),
    /// Look at the jobs of handoffs, go on with them, do their steps again
    Jobs(Jobs),
    /// Print the hosts of a workspace, or of all of a target, as an inventory of Ansible's
    Inventory(Inventory),
    /// Bring what stands of a phase back to the definitions that it was applied from, and verify it
    Repair(Repair),
    /// Take what stands of a phase as it is, drift and all, with a reason
    Accept(Accept),
    /// Take states over from where they were kept before; look at those of a served backend, put earlier ones back
    State(State),
    /// Serve states to OpenTofu wherever it runs, and point it at them
    Backend(Backend),
    /// Take the lock of a target from a holder that is gone
    Unlock(Unlock),
    /// Move a target from the store that it has to another one
    Store(Store),
    /// Show, write or compare the root modules that `nodes` steps are rendered into
    Render(Render),
    /// List the providers that specs are rendered for: kinds, versions, credentials
    Providers(Providers),
    /// Scan networks once for machines that wait for their configuration
    Discover(Discover),
    /// Seal secrets into the envelope of a target, open them, seal them to others
    Secrets(Secrets),
}

/// `--target`, of which there is no default.
#[derive(Args, Debug)]
pub(crate) struct Target {
    /// The target: the name of a file in `targets/`
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: String,
}

/// How a command reacts to being told to stop.
#[derive(Args, Debug)]
pub(crate) struct Stop {
    /// After Ctrl-C or SIGTERM, let the running step go on this long, then interrupt it (`30s`, `5m`)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) grace: Option<Duration>,
}

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The directory to write it into; made where it is missing
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Go on with the unfinished run
    #[arg(long)]
    pub(crate) resume: bool,
    /// End the call once this phase is verified
    #[arg(long, value_name = "PHASE")]
    pub(crate) through: Option<String>,
    /// End the call at the next checkpoint
    #[arg(long)]
    pub(crate) pause: bool,
    /// Never wait and never ask
    #[arg(long)]
    pub(crate) no_pause: bool,
    /// Let plans of this phase destroy and replace on a protected target; may be given again
    #[arg(long, value_name = "PHASE")]
    pub(crate) allow_destroy: Vec<String>,
    /// Let this tainted resource be replaced; may be given again
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) replace: Vec<String>,
    /// Keep this tainted resource as it is; may be given again
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) keep: Vec<String>,
    /// Take newer versions of providers and modules than those that were applied, and say which move
    #[arg(long)]
    pub(crate) upgrade: bool,
    /// Take this machine, on which a call was cut, as lost for good, with what it was at work on
    #[arg(long, value_name = "HOST")]
    pub(crate) lost_host: Option<String>,
    /// Build anew although the store with this id is missing
    #[arg(long, value_name = "ID")]
    pub(crate) first_build: Option<String>,
    /// Tear down steps that stand and are defined no more: once nothing refers to them, or before everything
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "after")]
    pub(crate) prune: Option<Prune>,
    /// Go on without the drill that the target requires; the reason goes into the record
    #[arg(long, value_name = "REASON")]
    pub(crate) without_drill: Option<String>,
    /// Look at this many steps in parallel [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
#[command(override_usage = "rebuild down [OPTIONS] <--target <TARGET>|--confirm <TARGET>>")]
pub(crate) struct Down {
    /// The target: the name of a file in `targets/`
    #[arg(long, value_name = "TARGET", required_unless_present = "confirm")]
    pub(crate) target: Option<String>,
    /// The name of a protected target, where nobody can be asked to type it; names the target by itself
    #[arg(long, value_name = "TARGET")]
    pub(crate) confirm: Option<String>,
    /// Print every resource that would go, in order, and touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take this machine, on which a call was cut, as lost for good, with what it was at work on
    #[arg(long, value_name = "HOST")]
    pub(crate) lost_host: Option<String>,
    /// Forget a step that is dead and can't be reached, instead of destroying what it made
    #[arg(long, value_name = "PHASE.STEP", requires = "reason")]
    pub(crate) forget: Option<String>,
    /// Why it is forgotten; goes into the record
    #[arg(long, value_name = "TEXT", requires = "forget")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Preflight {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Build anew although the store with this id is missing
    #[arg(long, value_name = "ID")]
    pub(crate) first_build: Option<String>,
    /// Don't stop for steps that stand and are defined no more: `up --prune` tears them down
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "after")]
    pub(crate) prune: Option<Prune>,
    /// Don't stop for want of the drill that the target requires
    #[arg(long, value_name = "REASON")]
    pub(crate) without_drill: Option<String>,
    /// Look at this many steps in parallel [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Exit with 6 where something would change
    #[arg(long)]
    pub(crate) detailed_exitcode: bool,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Repair {
    /// The phase, as it stands
    #[arg(value_name = "PHASE")]
    pub(crate) phase: String,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Let the plans of this phase destroy and replace on a protected target: the same phase again
    #[arg(long, value_name = "PHASE")]
    pub(crate) allow_destroy: Vec<String>,
    /// Let this tainted resource be replaced; may be given again
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) replace: Vec<String>,
    /// Keep this tainted resource as it is; may be given again
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) keep: Vec<String>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Accept {
    /// The phase, as it stands
    #[arg(value_name = "PHASE")]
    pub(crate) phase: String,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Why it is taken as it is; goes into the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Let objects that are gone be given up on a protected target: the same phase again
    #[arg(long, value_name = "PHASE")]
    pub(crate) allow_destroy: Vec<String>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    /// Format files instead of complaining
    #[arg(long)]
    pub(crate) fix: bool,
    /// Fail where TFLint is not installed
    #[arg(long)]
    pub(crate) require_tflint: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Runs {
    #[command(subcommand)]
    pub(crate) command: RunsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs of a target, the newest first
    List(Target),
    /// Show one run
    Show(RunsShow),
}

#[derive(Args, Debug)]
pub(crate) struct RunsShow {
    /// The run's id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Args, Debug)]
pub(crate) struct Suspects {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Take an object that exists into its step's state; before the address may stand `PHASE.STEP:`; may be given again
    #[arg(long, value_name = "ADDRESS=ID")]
    pub(crate) import: Vec<String>,
    /// Say that you looked and there is no such object; a step of which nothing is known is named itself; may be given again
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gone: Vec<String>,
    /// Take this machine, on which a call was cut, as lost for good, with what it was at work on
    #[arg(long, value_name = "HOST")]
    pub(crate) lost_host: Option<String>,
    /// Those of a handoff's workspace, in place of the target's steps
    #[arg(long, value_name = "WORKSPACE")]
    pub(crate) workspace: Option<String>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct State {
    #[command(subcommand)]
    pub(crate) command: StateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Take over the state of a root module that was applied before; the old one is left in place
    Migrate(Migrate),
    /// Take everything that is stored to the passphrase or mode that the target file names today
    Rekey(Rekey),
    /// List the states of a served backend or of a target
    List(StateList),
    /// List the earlier versions of a state of a served backend or of a target
    Versions(StateVersions),
    /// Print a state of a served backend or of a target as it is kept, or write it into a file
    Pull(StatePull),
    /// Put an earlier state in the place of the one that is there, which is kept
    Restore(StateRestore),
    /// List the states of a served backend or of a target that are locked, and by whom
    Locks(StatesOf),
}

#[derive(Args, Debug)]
pub(crate) struct Rekey {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The variable that holds the former passphrase; `former` in `[encryption]` does as well
    #[arg(long, value_name = "NAME", conflicts_with = "former_file")]
    pub(crate) former_env: Option<String>,
    /// The file that holds the former passphrase
    #[arg(long, value_name = "FILE")]
    pub(crate) former_file: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// The step whose root module it is
    #[arg(value_name = "PHASE.STEP")]
    pub(crate) step: String,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Give the state back to where it was
    #[arg(long)]
    pub(crate) back: bool,
    /// The workspace of the old backend [default: OpenTofu's `default`]
    #[arg(long, value_name = "NAME")]
    pub(crate) workspace: Option<String>,
    /// What the old backend's block leaves out: a file, or `KEY=VALUE` where it is no secret; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) backend_config: Vec<String>,
    #[command(flatten)]
    pub(crate) stop: Stop,
}

#[derive(Args, Debug)]
pub(crate) struct Store {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Copy everything of a target, read it back, compare it, and let the other store count
    Move(StoreMove),
}

#[derive(Args, Debug)]
pub(crate) struct StoreMove {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Where to: a directory (`/srv/states`), or what `[store]` is to say (`s3 = { bucket = "…", region = "…" }`)
    #[arg(long, value_name = "STORE")]
    pub(crate) to: String,
}

#[derive(Args, Debug)]
pub(crate) struct Unlock {
    #[command(flatten)]
    pub(crate) target: Target,
    /// The store that a `store move` was filling, as its `--to` says, instead of the target's own
    #[arg(long, value_name = "STORE")]
    pub(crate) to: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Render {
    /// A target, whose values are looked at as well
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Write to this directory instead of standard output, one directory a step
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write nothing; fail where the files of `--out` differ
    #[arg(long, requires = "out")]
    pub(crate) check: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Providers {
    #[command(subcommand)]
    pub(crate) command: Option<ProvidersCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProvidersCommand {
    /// Show what a resource of a provider takes, in the version that is rendered for
    Schema(ProvidersSchema),
}

#[derive(Args, Debug)]
pub(crate) struct ProvidersSchema {
    /// The provider, as `rebuild providers` lists it
    #[arg(value_name = "PROVIDER")]
    pub(crate) provider: String,
    /// A resource, or a data source as `data.NAME`; all are listed without one
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Discover {
    /// Networks to scan, such as `192.168.1.0/24`, or single addresses; 4096 addresses at most
    #[arg(value_name = "CIDR", required = true)]
    pub(crate) networks: Vec<String>,
    /// Add the machines that you confirm to a group of this file of specs
    #[arg(long, value_name = "FILE", requires = "group")]
    pub(crate) write: Option<PathBuf>,
    /// The NodeGroup of the class `metal` that they are added to
    #[arg(long, value_name = "NAME", requires = "write")]
    pub(crate) group: Option<String>,
    /// Add this machine without a question; may be given again
    #[arg(long, value_name = "ADDRESS", requires = "write")]
    pub(crate) accept: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Secrets {
    #[command(subcommand)]
    pub(crate) command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Seal a value: from standard input, a file, or typed without being shown
    Seal(SecretsSeal),
    /// Print a value; not into a file or pipe unless `--force` says so
    Open(SecretsOpen),
    /// Seal every secret anew, to the recipients that the target file names now
    Rekey(Target),
    /// List the secrets: since when they are sealed, and to whom; no key is needed
    List(Target),
}

#[derive(Args, Debug)]
pub(crate) struct SecretsSeal {
    /// The secret's name: letters, digits, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Take the value from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Keep every byte: without it, one newline at the end is not part of the value
    #[arg(long)]
    pub(crate) exact: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SecretsOpen {
    /// The secret's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print it although nobody reads it at a terminal, or it is no text
    #[arg(long)]
    pub(crate) force: bool,
}

/// Which served backend is meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct Served {
    /// The served backend: its address, or a file with the line that it printed [default: `REBUILD_BACKEND`, or that of `TF_HTTP_ADDRESS`]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server: Option<String>,
    /// Trust the certificates in this file instead of the built-in ones [default: `REBUILD_BACKEND_CA_FILE`]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Whose states are meant: those of a served backend, or of a target.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatesOf {
    #[command(flatten)]
    pub(crate) served: Served,
    /// The states of this target, in its own store, each named by its step (`PHASE.STEP`)
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["server", "ca_file"])]
    pub(crate) target: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct StateList {
    /// Only those at or below this path; of a target, of this phase
    #[arg(value_name = "PATH")]
    pub(crate) under: Option<String>,
    #[command(flatten)]
    pub(crate) of: StatesOf,
}

#[derive(Args, Debug)]
pub(crate) struct StateVersions {
    /// The state's path
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) of: StatesOf,
}

#[derive(Args, Debug)]
pub(crate) struct StatePull {
    /// The state's path
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// An earlier version, as `rebuild state versions` names it
    #[arg(id = "earlier", long = "version", value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// Write it into this file, for this user alone, instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) into: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) of: StatesOf,
}

#[derive(Args, Debug)]
pub(crate) struct StateRestore {
    /// The state's path
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// The earlier version to put back, as `rebuild state versions` names it
    #[arg(
        id = "earlier",
        long = "version",
        value_name = "VERSION",
        conflicts_with = "file"
    )]
    pub(crate) version: Option<String>,
    /// The file with the state to put back
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The lineage of what is put back, where the state that is there is of another
    #[arg(long, value_name = "LINEAGE")]
    pub(crate) lineage: Option<String>,
    /// The state's path once more, or the target's name, where nobody can be asked to type it
    #[arg(long, value_name = "PATH")]
    pub(crate) confirm: Option<String>,
    #[command(flatten)]
    pub(crate) of: StatesOf,
}

#[derive(Args, Debug)]
pub(crate) struct Backend {
    #[command(subcommand)]
    pub(crate) command: BackendCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackendCommand {
    /// Serve states over HTTP from a directory or a bucket, until SIGINT or SIGTERM
    Serve(BackendServe),
    /// Print what points OpenTofu at a state of a served backend: lines for a shell, or a backend block
    Env(BackendEnv),
}

#[derive(Args, Debug)]
pub(crate) struct BackendServe {
    /// Where to listen; port 0 takes any [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Where the states are: a directory, or `s3://`, `gs://` or `az://`
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// TLS, credentials and limits; without it, this machine alone may come, with a credential that is printed once
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct BackendEnv {
    /// The state's path
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// Print a backend block; name and password stay in the environment
    #[arg(long)]
    pub(crate) hcl: bool,
    #[command(flatten)]
    pub(crate) served: Served,
}

/// The whole command line, with what is recognised only to be refused.
pub(crate) fn command() -> clap::Command {
    later::add_to(Cli::command())
}

/// Reads a length of time as people write it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| "a length of time looks like `30s`, `5m` or `1h 30m`".to_owned())?;
    Duration::try_from(span).map_err(|_| "a length of time can't be negative".to_owned())
}

/// Finds out which output was asked for on a command line that can't be read as a whole.
pub(crate) fn output_asked(args: &[std::ffi::OsString]) -> Output {
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    let value =
        words
            .iter()
            .enumerate()
            .rev()
            .find_map(|(i, word)| match word.strip_prefix("--output") {
                Some("") => words.get(i + 1).map(|next| next.to_string()),
                Some(rest) => rest.strip_prefix('=').map(str::to_owned),
                None => None,
            });
    value
        .and_then(|value| Output::from_str(&value, false).ok())
        .unwrap_or(Output::Human)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for wrong in ["", "30", "soon", "-1s", "1 fortnight"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_output_is_known_even_where_the_rest_can_not_be_read() {
        let asked =
            |words: &[&str]| output_asked(&words.iter().map(Into::into).collect::<Vec<_>>());
        assert_eq!(
            asked(&["up", "--output", "json", "--nonsense"]),
            Output::Json
        );
        assert_eq!(asked(&["--output=ndjson"]), Output::Ndjson);
        assert_eq!(
            asked(&["--output", "json", "--output", "human"]),
            Output::Human
        );
        assert_eq!(asked(&["--output"]), Output::Human);
        assert_eq!(asked(&["--output", "xml"]), Output::Human);
        assert_eq!(asked(&["--outputs", "json"]), Output::Human);
    }
}

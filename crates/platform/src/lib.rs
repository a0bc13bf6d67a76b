//! The platform and target files: parse, resolve, underline faults; bundles.
//!
//! [`load`] reads `rebuild.toml`, one target file and the root modules, from a directory or from a
//! stored bundle, and finds everything that is wrong with them before anything runs. Nothing here
//! runs OpenTofu, fetches a secret or writes into a platform.

mod bundle;
mod check;
mod credentials;
mod expr;
mod fault;
mod files;
mod init;
mod load;
mod model;
mod module;
mod near;
mod nodes;
mod parse;
mod playbook;
mod reader;
mod store_def;

pub use bundle::{
    Bundle, BundleError, BundleFile, Git, GitError, GitState, GitView, MAX_BYTES, MAX_FILES, NoGit,
};
pub use expr::{Expr, ExprError, Located, Part, Reference, ResolveError, Resolved, Scope, escape};
pub use fault::{Fault, Faults};
pub use files::{
    DirFiles, Entry, Files, MemoryFiles, PLATFORM_FILE, ReadError, RootError, find_root, join,
};
pub use init::{InitError, init};
pub use load::{
    Survey, TargetDefinitions, TargetFile, load, load_platform, load_platform_with, load_target,
    load_target_with, load_today, own_states, platform_name, store_of_text, survey, target_names,
};
pub use model::{
    AnsibleStep, CheckDef, CheckKind, Definitions, DrillDef, EncryptionDef, EncryptionMode,
    EnvValue, EnvelopeDef, ExecStep, HostKeys, HostsOutput, IgnoreDrift, NamedRoot, PhaseDef,
    Platform, ResidueDef, SshDef, SshStep, StepDef, StepKind, TalosStep, Target, TofuStep, ToolDef,
    WORKSPACE_PHASE, WorkspaceDef,
};
pub use module::{Locals, ModuleCall, Output, ProviderRequirement, RootModule, Variable};
pub use module::{OwnState, backend_alone, is_configuration_file};
pub use nodes::{GENERATED, GIVEN_VARIABLES, NodesDef, generated_root};
pub use playbook::{PlayHosts, plays};
pub use secrets::Source;
pub use store_def::{
    AzureCredentialsDef, CloudDef, CloudPlace, GcsCredentialsDef, S3KeysDef, StoreDef,
};

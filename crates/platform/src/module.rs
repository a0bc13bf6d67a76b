//! Root modules: what their `.tf`, `.tofu` and JSON files declare, as far as a platform needs it.
//!
//! The rules of which file counts are OpenTofu's: `.tofu` stands in for a `.tf` of the same name,
//! `override` files are merged last, hidden files and editors' leftovers don't count, and folders
//! below (`tests/` for one) are not part of the module.

mod hcl;
mod json;
mod own_state;
mod read;
mod references;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub use own_state::{OwnState, backend_alone};
pub(crate) use read::Modules;
pub use read::is_configuration_file;

use crate::fault::TextFile;

/// What a root module declares.
#[derive(Debug, Clone, Default)]
pub struct RootModule {
    /// Its path within the platform.
    pub path: String,
    /// Its variables by name.
    pub variables: BTreeMap<String, Variable>,
    /// Its outputs by name.
    pub outputs: BTreeMap<String, Output>,
    /// The modules that it calls.
    pub calls: Vec<ModuleCall>,
    /// The providers that it and the local modules it reaches require, by local name.
    pub providers: BTreeMap<String, ProviderRequirement>,
    /// What each of its local values refers to, as `var.a`, `data.kind.name`, `module.m.output`.
    pub locals: Locals,
    /// The same of the local modules that it reaches, with what those call, by directory.
    pub(crate) below: BTreeMap<String, Below>,
    /// The configuration files that count, as paths within the platform.
    pub files: Vec<String>,
    /// Directories of all local modules that it reaches, itself not included.
    pub modules: BTreeSet<String>,
    /// Variables that a committed `terraform.tfvars` or `*.auto.tfvars` gives a value.
    pub set_by_tfvars: BTreeSet<String>,
    /// The state that it keeps by itself; a fault until it was taken over.
    pub own_state: Option<OwnState>,
    /// Whether faults kept some of it unread.
    pub(crate) incomplete: bool,
}

/// What the local values of one module refer to.
pub type Locals = BTreeMap<String, Vec<String>>;

/// What is kept of a module that a root module reaches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Below {
    locals: Locals,
    /// Directories by the names of calls.
    calls: BTreeMap<String, String>,
}

impl RootModule {
    /// What the local values of the module at a path of calls refer to, `[]` being the root module itself.
    /// `None` for a module that is not part of the platform.
    pub fn locals_at(&self, path: &[String]) -> Option<&Locals> {
        let Some((first, rest)) = path.split_first() else {
            return Some(&self.locals);
        };
        let call = self.calls.iter().find(|call| call.name == *first)?;
        let mut module = self.below.get(call.directory.as_ref()?)?;
        for name in rest {
            module = self.below.get(module.calls.get(name)?)?;
        }
        Some(&module.locals)
    }
}

/// A variable of a root module.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Whether it has a default.
    pub has_default: bool,
    /// Whether it is declared sensitive.
    pub sensitive: bool,
    /// Its type as written.
    pub type_text: Option<String>,
    pub(crate) place: Place,
}

/// An output of a root module.
#[derive(Debug, Clone)]
pub struct Output {
    /// Whether it is declared sensitive.
    pub sensitive: bool,
}

/// A call of another module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleCall {
    /// Its name.
    pub name: String,
    /// Its source as written; `None` when it is no plain text.
    pub source: Option<String>,
    /// Its directory within the platform, for local sources.
    pub directory: Option<String>,
}

/// What is required of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderRequirement {
    /// Its source address as written.
    pub source: Option<String>,
    /// Its version constraint as written.
    pub version: Option<String>,
}

/// Where something is declared.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) file: TextFile,
    pub(crate) span: Range<usize>,
}

/// What one file declares, before the files of a module are merged.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) variables: Vec<DeclaredVariable>,
    pub(crate) outputs: Vec<DeclaredOutput>,
    pub(crate) calls: Vec<DeclaredCall>,
    pub(crate) backends: Vec<DeclaredBackend>,
    pub(crate) providers: Vec<(String, ProviderRequirement)>,
    /// Local values with what they refer to.
    pub(crate) locals: Vec<(String, Vec<String>)>,
    /// Uses of what differs from machine to machine, with the word used.
    pub(crate) unsteady: Vec<(&'static str, Range<usize>)>,
    /// Resources that make a file in the module's own tree, with the place that says where.
    pub(crate) made_files: Vec<(String, Range<usize>)>,
}

/// Types of resources that make the file that their `filename` names, on the machine that applies.
const FILE_MAKERS: [&str; 2] = ["local_file", "local_sensitive_file"];

/// Tells whether a `filename` as written lies in the module's tree: below `path.module` or
/// `path.root`, or relative.
fn is_in_tree(filename: &str) -> bool {
    let text = filename.trim_matches('"');
    let refers = ["path.module", "path.root"]
        .iter()
        .any(|word| text.contains(word));
    let is_plain = filename.len() > text.len() && !text.starts_with(['/', '$', '~']);
    refers || is_plain
}

#[derive(Debug)]
pub(crate) struct DeclaredVariable {
    pub(crate) name: String,
    pub(crate) has_default: bool,
    pub(crate) sensitive: Option<bool>,
    pub(crate) type_text: Option<String>,
    pub(crate) span: Range<usize>,
}

#[derive(Debug)]
pub(crate) struct DeclaredOutput {
    pub(crate) name: String,
    pub(crate) sensitive: Option<bool>,
}

#[derive(Debug)]
pub(crate) struct DeclaredCall {
    pub(crate) name: String,
    pub(crate) source: Option<String>,
    pub(crate) span: Range<usize>,
}

/// A `backend` or `cloud` block.
#[derive(Debug)]
pub(crate) struct DeclaredBackend {
    /// `backend "s3"` or `cloud`.
    pub(crate) what: String,
    /// Whether it is an empty `backend "http"`, which ours takes the place of.
    pub(crate) harmless: bool,
    /// Its settings; `None` for one that is no plain text.
    pub(crate) settings: BTreeMap<String, Option<String>>,
    pub(crate) span: Range<usize>,
}

/// Why a file can't be parsed.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
}

#[cfg(test)]
mod tests;

//! What a caller hands in, and what it hears meanwhile.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use process::Spawner;

/// What is to be checked, with what.
pub struct CheckRequest<'a> {
    /// The platform directory, as [`platform::find_root`] gives it.
    pub platform_dir: &'a Path,
    /// Brings files into their canonical form instead of complaining.
    pub fix: bool,
    /// Makes it an error that TFLint is not installed.
    pub require_tflint: bool,
    /// The caller's PATH, on which programs are found.
    pub path_env: Option<&'a OsStr>,
    /// The environment of every child, allow-listed; HOME, TMPDIR and what steers OpenTofu are set here.
    pub base_env: &'a BTreeMap<OsString, OsString>,
    /// The caller's whole environment, in which git runs.
    pub caller_env: &'a BTreeMap<OsString, OsString>,
    /// The directory that the throw-away copy is made in.
    pub temp_dir: &'a Path,
    /// The directory of TFLint's plugins, where the caller has installed any.
    pub tflint_plugins: Option<&'a Path>,
    /// The file that remembers versions of programs; see [`tofu::Program::find`].
    pub program_cache: Option<&'a Path>,
    /// Starts every child.
    pub spawner: Arc<dyn Spawner>,
    /// Asked some times a second: whether to stop. Tests are interrupted, so that they clean up.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told what happens.
    pub notify: &'a (dyn Fn(&CheckNotice) + Sync),
}

/// What happens while definitions are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckNotice {
    /// This many root modules and modules are going to be checked.
    Started {
        /// How many.
        n_modules: usize,
    },
    /// One of them begins to be checked.
    Checking {
        /// Its path within the platform.
        module: String,
    },
    /// One of them is checked.
    Checked {
        /// Its path within the platform.
        module: String,
        /// Whether there is nothing against it.
        good: bool,
    },
    /// A file of the platform directory was brought into its canonical form.
    Fixed {
        /// Its path within the platform.
        file: String,
    },
}

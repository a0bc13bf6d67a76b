//! Why nothing could be said of the definitions.

use std::io;
use std::path::PathBuf;

use platform::BundleError;
use process::files::FileError;
use tofu::{FindError, RunError, WorkshopError};

/// Why the definitions were not checked. What is wrong with *them* is in the report.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The directory is no platform.
    #[error("no rebuild.toml in `{}`", directory.display())]
    NoPlatform {
        /// The directory.
        directory: PathBuf,
    },
    /// The files of the platform can't be gathered.
    #[error("cannot gather the files of the platform `{}`", directory.display())]
    Gather {
        /// The platform directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: BundleError,
    },
    /// There is no OpenTofu that fits.
    #[error(transparent)]
    Tofu(#[from] FindError),
    /// A program is another one than rebuild.toml names by its digest.
    #[error("`{}` has the SHA-256 {found}, and rebuild.toml demands {wanted}", path.display())]
    Digest {
        /// The program.
        path: PathBuf,
        /// Its digest.
        found: String,
        /// What is demanded.
        wanted: String,
    },
    /// TFLint is required and not there.
    #[error("TFLint is required, and there is no `tflint` on the PATH")]
    NoTflint,
    /// TFLint has another version than rebuild.toml demands.
    #[error("`{}` has version {found}, and rebuild.toml demands `{wanted}`", path.display())]
    TflintVersion {
        /// The program.
        path: PathBuf,
        /// Its version, or that it does not say one.
        found: String,
        /// What is demanded.
        wanted: String,
    },
    /// The throw-away copy can't be made.
    #[error("cannot make the throw-away copy in `{}`", path.display())]
    Copy {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The directory that OpenTofu works in can't be prepared.
    #[error(transparent)]
    Workshop(#[from] WorkshopError),
    /// OpenTofu could not be run over a module.
    #[error("cannot check `{module}`")]
    Run {
        /// The module's path within the platform.
        module: String,
        /// Why.
        #[source]
        source: Box<RunError>,
    },
    /// `tofu fmt` or `tofu test` could not be run over a module.
    #[error("cannot check `{module}`")]
    Command {
        /// The module's path within the platform.
        module: String,
        /// Why.
        #[source]
        source: Box<tofu::CheckError>,
    },
    /// A file could not be brought into its canonical form.
    #[error("cannot format `{file}`")]
    Fix {
        /// Its path within the platform.
        file: String,
        /// Why.
        #[source]
        source: FileError,
    },
    /// The caller wanted no more.
    #[error("the check was interrupted{}", left(left_behind))]
    Interrupted {
        /// Objects that interrupted tests could not destroy: `module: address (id)`.
        left_behind: Vec<String>,
    },
}

impl CheckError {
    /// Interrupted, with nothing left behind.
    pub(crate) fn interrupted() -> Self {
        Self::Interrupted {
            left_behind: Vec::new(),
        }
    }
}

fn left(left_behind: &[String]) -> String {
    if left_behind.is_empty() {
        String::new()
    } else {
        format!("; its tests left behind {}", left_behind.join(", "))
    }
}

//! A target's working directory: nothing of the platform directory is ever written.
//!
//! ```text
//! cli.tofurc offline.tofurc   the CLI configuration, whole and without a registry
//! plugins/                    the plugin cache
//! home/ tmp/                  HOME and TMPDIR of every child
//! logs/PHASE/STEP/            masked transcripts
//! steps/PHASE/STEP/           trees, data directories, the child's marker
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli_config::{self, CliConfigError};
use crate::disk;
use crate::plugins::PluginCache;
use crate::step_dir::{StepDir, StepKey, StepKeyError};

/// Why a working directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkshopError {
    /// A directory or file of it can't be made.
    #[error("cannot use the working directory `{}`", path.display())]
    Io {
        /// The working directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The base CLI configuration is wrong.
    #[error(transparent)]
    CliConfig(#[from] CliConfigError),
}

/// A target's working directory.
#[derive(Debug, Clone)]
pub struct Workshop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    plugins: PluginCache,
}

impl Workshop {
    /// Opens, and makes where it is missing, the working directory at the absolute path `root`.
    /// `cli_config` is the base CLI configuration that the target names.
    ///
    /// # Errors
    /// When it can't be made, or the base configuration can't be read.
    pub fn open(root: &Path, cli_config: Option<&Path>) -> Result<Self, WorkshopError> {
        let failed = |source: io::Error| WorkshopError::Io {
            path: root.to_owned(),
            source,
        };
        if !root.is_absolute() {
            return Err(failed(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the path is not absolute",
            )));
        }
        for directory in [
            root.to_owned(),
            root.join("home"),
            root.join("tmp"),
            root.join("logs"),
            root.join("steps"),
        ] {
            disk::private_dir(&directory).map_err(failed)?;
        }
        let plugins = PluginCache::open(root).map_err(failed)?;
        let base = match cli_config {
            None => None,
            Some(path) => Some((
                path,
                fs::read_to_string(path).map_err(|source| CliConfigError::Read {
                    path: path.to_owned(),
                    source,
                })?,
            )),
        };
        let texts = cli_config::render(
            plugins.path(),
            base.as_ref().map(|(path, text)| (*path, text.as_str())),
        )?;
        let workshop = Self {
            shared: Arc::new(Shared {
                root: root.to_owned(),
                plugins,
            }),
        };
        for (path, text) in [
            (workshop.cli_config(), texts.whole),
            (workshop.offline_cli_config(), texts.offline),
        ] {
            if fs::read_to_string(&path).is_ok_and(|there| there == text) {
                continue;
            }
            disk::write(&path, text.as_bytes(), 0o600).map_err(failed)?;
        }
        Ok(workshop)
    }

    /// The working directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    /// The directory of one step, made when something is put there.
    #[must_use]
    pub fn step(&self, key: &StepKey) -> StepDir {
        StepDir::new(
            key.clone(),
            self.shared.root.join("steps").join(key.as_str()),
        )
    }

    /// Every step that has a directory here, whoever made it: where a killed call may have left
    /// something.
    ///
    /// # Errors
    /// When a directory can't be read.
    pub fn steps(&self) -> io::Result<Vec<StepDir>> {
        let root = self.shared.root.join("steps");
        let mut found = Vec::new();
        let mut open = vec![String::new()];
        while let Some(prefix) = open.pop() {
            let directory = root.join(&prefix);
            let is_step = ["tree", "beside", "data", "child.json"]
                .iter()
                .any(|name| directory.join(name).exists());
            if is_step && !prefix.is_empty() {
                let key = prefix
                    .parse()
                    .map_err(|error: StepKeyError| io::Error::other(error))?;
                found.push(StepDir::new(key, directory));
                continue;
            }
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                if entry.file_type()?.is_dir()
                    && let Ok(name) = entry.file_name().into_string()
                {
                    open.push(if prefix.is_empty() {
                        name
                    } else {
                        format!("{prefix}/{name}")
                    });
                }
            }
        }
        found.sort_by(|left, right| left.key().cmp(right.key()));
        Ok(found)
    }

    /// The plugin cache.
    #[must_use]
    pub fn plugins(&self) -> &PluginCache {
        &self.shared.plugins
    }

    /// The CLI configuration of every child.
    #[must_use]
    pub fn cli_config(&self) -> PathBuf {
        self.shared.root.join("cli.tofurc")
    }

    /// The CLI configuration of an `init` whose every provider is in the cache.
    #[must_use]
    pub fn offline_cli_config(&self) -> PathBuf {
        self.shared.root.join("offline.tofurc")
    }

    /// HOME of every child.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.shared.root.join("home")
    }

    /// TMPDIR of every child.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.shared.root.join("tmp")
    }

    /// Where the masked transcripts of a step go.
    #[must_use]
    pub fn logs(&self, key: &StepKey) -> PathBuf {
        self.shared.root.join("logs").join(key.as_str())
    }
}

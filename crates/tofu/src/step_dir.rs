//! One step's directory: its tree at a path that never changes, a second tree beside it, and a data
//! directory for every state of what `init` reads.

mod data_dir;
pub(crate) use data_dir::backend_type;
pub(crate) use place::hex;

mod place;
#[cfg(test)]
mod tests;

pub use data_dir::InitInputs;
pub use place::PlaceError;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use process::{Identity, Liveness};

use crate::disk::{read_if_there, remove_if_there};

/// The file that OpenTofu leaves a state in that it could write nowhere else.
pub const ERRORED_STATE: &str = "errored.tfstate";

/// The override file that makes every root module's backend ours. It sorts after every other.
pub const OVERRIDE_FILE: &str = "zzzz_rebuild_override.tofu.json";

const OVERRIDE: &[u8] = b"{\"terraform\":{\"backend\":{\"http\":{}}}}\n";

/// A step's key, `1a/edge`: one or more legal names with slashes between.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey(String);

/// Why a text is no step key.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is not a step's key: names of letters, digits, `-`, `_` and `.` with slashes between"
)]
pub struct StepKeyError(String);

impl FromStr for StepKey {
    type Err = StepKeyError;

    fn from_str(text: &str) -> Result<Self, StepKeyError> {
        let legal = |name: &str| {
            !name.is_empty()
                && name.len() <= 128
                && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        if text.split('/').all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(StepKeyError(text.to_owned()))
        }
    }
}

impl StepKey {
    /// The key's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which of a step's two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// The one that plans and applies work in. Its path must never change.
    Tree,
    /// The one that today's definitions are read and validated in while the other holds older ones.
    Beside,
}

impl Slot {
    fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Beside => "beside",
        }
    }
}

/// What a killed call may have left of a step's child.
#[derive(Debug, Clone)]
pub struct RunningChild {
    /// Who it is.
    pub identity: Identity,
    /// Whether it lives.
    pub liveness: Liveness,
}

/// One step's directory.
#[derive(Debug, Clone)]
pub struct StepDir {
    key: StepKey,
    path: PathBuf,
}

impl StepDir {
    pub(crate) fn new(key: StepKey, path: PathBuf) -> Self {
        Self { key, path }
    }

    /// The step's key.
    #[must_use]
    pub fn key(&self) -> &StepKey {
        &self.key
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The root of one of its trees.
    #[must_use]
    pub fn tree(&self, slot: Slot) -> PathBuf {
        self.path.join(slot.name())
    }

    /// The directory of the root module at `module` (a path in the bundle) in one of its trees.
    ///
    /// # Errors
    /// When the path leads out of the tree.
    pub fn root_module(&self, slot: Slot, module: &str) -> Result<PathBuf, PlaceError> {
        Ok(self.tree(slot).join(relative(module)?))
    }

    /// The file in which the launcher writes who the child is, before it becomes `tofu`.
    #[must_use]
    pub fn marker(&self) -> PathBuf {
        self.path.join("child.json")
    }

    /// The file that tells where the last changing child's output goes.
    #[must_use]
    pub(crate) fn output_note(&self) -> PathBuf {
        self.path.join("output.json")
    }

    /// The child that the marker names, and whether it lives. A marker that can't be read is an
    /// error: going on could mean two at once.
    ///
    /// # Errors
    /// When the marker can't be read.
    pub fn running_child(&self) -> io::Result<Option<RunningChild>> {
        let identity = Identity::read_marker(&self.marker()).map_err(io::Error::other)?;
        Ok(identity.map(|identity| {
            let liveness = identity.liveness();
            RunningChild { identity, liveness }
        }))
    }

    /// Forgets the marker of a child that has ended, and where its output went.
    ///
    /// # Errors
    /// When a file can't be removed.
    pub fn clear_marker(&self) -> io::Result<()> {
        remove_if_there(&self.marker())?;
        remove_if_there(&self.output_note())
    }

    /// The state that OpenTofu could write nowhere else, byte for byte, from the root module at
    /// `module` in the tree.
    ///
    /// # Errors
    /// When there is one and it can't be read.
    pub fn errored_state(&self, module: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self
            .root_module(Slot::Tree, module)
            .map_err(io::Error::other)?
            .join(ERRORED_STATE);
        read_if_there(&path)
    }

    /// Every `errored.tfstate` in either tree, wherever its root module was then.
    ///
    /// # Errors
    /// When a directory can't be read.
    pub fn errored_states(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut open = vec![self.tree(Slot::Tree), self.tree(Slot::Beside)];
        while let Some(directory) = open.pop() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    open.push(entry.path());
                } else if entry.file_name() == ERRORED_STATE {
                    found.push(entry.path());
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Removes `errored.tfstate` once its content is safe elsewhere.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn remove_errored_state(&self, module: &str) -> io::Result<()> {
        remove_if_there(
            &self
                .root_module(Slot::Tree, module)
                .map_err(io::Error::other)?
                .join(ERRORED_STATE),
        )
    }
}

/// A path in a bundle as a relative path that stays below where it is joined to.
pub(crate) fn relative(path: &str) -> Result<PathBuf, PlaceError> {
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => {
                return Err(PlaceError::Outside {
                    path: path.to_owned(),
                });
            }
        }
    }
    Ok(clean)
}

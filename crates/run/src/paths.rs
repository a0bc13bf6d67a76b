//! Where this machine keeps what belongs to one target.

use std::path::{Path, PathBuf};

use phase_engine::TargetName;

/// The directories of one target on this machine.
#[derive(Clone, Debug)]
pub(crate) struct TargetPaths {
    root: PathBuf,
}

impl TargetPaths {
    /// Names the directories of `target` of `platform` under the user's state home.
    #[must_use]
    pub(crate) fn new(state_home: &Path, platform: &str, target: &TargetName) -> Self {
        Self {
            root: state_home
                .join("targets")
                .join(platform)
                .join(target.as_str()),
        }
    }

    /// The local store, where the target file names none.
    #[must_use]
    pub(crate) fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The archive, where the target file names no directory for it.
    #[must_use]
    pub(crate) fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }

    /// What stands in for a store until phase 0 has made it.
    #[must_use]
    pub(crate) fn spool(&self) -> PathBuf {
        self.root.join("spool")
    }

    /// The working directory: trees, data directories, plugin cache.
    #[must_use]
    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Masked logs of every call, by run.
    #[must_use]
    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// What stands of handoffs' workspaces, one directory each.
    #[must_use]
    pub(crate) fn workspaces(&self) -> PathBuf {
        self.root.join("workspaces")
    }

    /// What stands of a handoff's workspace, and what it was applied from.
    #[must_use]
    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.workspaces().join(name)
    }

    /// The host keys that are pinned; never the user's own file.
    #[must_use]
    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.root.join("ssh").join("known_hosts")
    }

    /// Whose keys those are.
    #[must_use]
    pub(crate) fn machines(&self) -> PathBuf {
        self.root.join("ssh").join("machines.json")
    }

    /// The id of the store that this machine has seen.
    #[must_use]
    pub(crate) fn known(&self) -> PathBuf {
        self.root.join("known.json")
    }
}

//! A target with its stores, for commands that run no step: nothing is packed and no tool is looked for.

use std::path::PathBuf;
use std::sync::Arc;

use phase_engine::Failure;
use platform::{Target, TargetDefinitions};
use secrets::Masker;
use store::Store;

use super::{Opener, Storage};
use crate::api::{Machine, Site};
use crate::error::{CallError, unusable};
use crate::open::{definitions, platform_name_of, the_known_store};
use crate::paths::TargetPaths;
use crate::secret_book::{self, SecretBook};
use crate::ui::{Nobody, Ui};

/// A target, and where its states are.
pub(crate) struct Home<'m> {
    pub(crate) machine: &'m Machine,
    /// The platform's directory.
    pub(crate) root: PathBuf,
    pub(crate) target: Target,
    pub(crate) platform_name: String,
    pub(crate) paths: TargetPaths,
    pub(crate) secrets: SecretBook,
    pub(crate) storage: Storage,
}

impl<'m> Home<'m> {
    /// Reads the definitions and fetches the secrets that open the stores. Nothing is asked of a store yet.
    ///
    /// # Errors
    /// The target file has faults, a secret can't be had.
    pub(crate) fn open(machine: &'m Machine, site: &Site) -> Result<Self, CallError> {
        let (
            root,
            TargetDefinitions {
                target, platform, ..
            },
        ) = definitions(machine, site, None)?;
        let platform = platform.ok();
        let platform_name = match &platform {
            Some(platform) => platform.name.clone(),
            None => platform_name_of(&root)?,
        };
        let paths = TargetPaths::new(&machine.state_home, &platform_name, &target.name);
        let nobody: Arc<dyn Ui> = Arc::new(Nobody);
        let used = secret_book::used_by_store(&target);
        let masker = Masker::new();
        let secrets = SecretBook::fetch(&used, &target, machine, &root, &masker, &nobody)
            .map_err(|error| unusable(&error).hint(error.hint()))?;
        let opener = Opener {
            machine,
            target: &target,
            root: &root,
            secrets: &secrets,
        };
        let storage = Storage::open(&opener, &paths, &platform_name, platform.as_ref())?;
        Ok(Self {
            machine,
            root,
            target,
            platform_name,
            paths,
            secrets,
            storage,
        })
    }

    /// Opens another store by the target's secrets.
    pub(crate) fn opener(&self) -> Opener<'_> {
        Opener {
            machine: self.machine,
            target: &self.target,
            root: &self.root,
            secrets: &self.secrets,
        }
    }

    /// The store that counts, which must be the one that this machine knows.
    ///
    /// # Errors
    /// It can't be read, or is another one.
    pub(crate) fn known_store(&self) -> Result<Arc<dyn Store>, Failure> {
        self.storage.locate()?;
        let store = self.storage.current();
        // A store that is not the known one says "empty" of a target that stands.
        the_known_store(
            &store,
            &self.paths,
            &self.platform_name,
            &self.target.name,
            None,
        )?;
        Ok(store)
    }
}

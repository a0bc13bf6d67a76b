//! Definitions by bundle: today's from the platform directory, older ones from the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use phase_engine::{ExitCode, Failure, StepId};
use platform::{Bundle, BundleFile, NamedRoot, PhaseDef, Platform, StepDef};
use record::Applied;
use secrets::TargetKey;
use store::{Store, layout, settle};
use tofu::ModuleFile;

use crate::error::stopped;

/// The definitions of one bundle.
#[derive(Debug)]
pub(crate) struct Source {
    /// The files.
    pub(crate) bundle: Bundle,
    /// What they say.
    pub(crate) platform: Platform,
    /// The commit that they come from, and whether they differ from it.
    pub(crate) commit: Option<String>,
    /// Whether the files differ from the commit.
    pub(crate) dirty: bool,
}

impl Source {
    /// Finds a step and its phase.
    pub(crate) fn step(&self, id: &StepId) -> Result<(&PhaseDef, &StepDef), Failure> {
        let missing = || {
            Failure::new(
                ExitCode::Stopped,
                format!(
                    "bundle `{}` does not define step `{id}`",
                    short(self.bundle.digest())
                ),
            )
        };
        self.platform.step_in_phase(id).ok_or_else(missing)
    }
}

impl Source {
    /// Finds a step that stands, under the name that these definitions have for it.
    pub(crate) fn applied_step(
        &self,
        step: &StepId,
        applied: &Applied,
    ) -> Result<(&PhaseDef, &StepDef), Failure> {
        self.step(applied.called(step))
    }
}

/// The first characters of a digest, enough to tell bundles apart.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// What `init` added to a bundle: it stands beside the bundle, so that a teardown long after needs neither a
/// registry nor the place that a module came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extras {
    /// The dependency lock file.
    pub(crate) lock_file: Option<Vec<u8>>,
    /// Modules that were downloaded.
    pub(crate) modules: Vec<ModuleFile>,
}

/// Where downloaded modules lie in a bundle of extras.
const MODULES: &str = "modules/";

impl Extras {
    /// Packs them; nothing where there are none.
    fn to_bundle(&self) -> Result<Option<Bundle>, Failure> {
        let lock_file = self.lock_file.iter().map(|bytes| BundleFile {
            path: tofu::LOCK_FILE_NAME.to_owned(),
            mode: 0o644,
            bytes: bytes.clone(),
        });
        let modules = self.modules.iter().map(|file| BundleFile {
            path: format!("{MODULES}{}", file.path),
            mode: file.mode,
            bytes: file.bytes.clone(),
        });
        let files: Vec<BundleFile> = lock_file.chain(modules).collect();
        if files.is_empty() {
            return Ok(None);
        }
        Bundle::from_files(files)
            .map(Some)
            .map_err(|error| stopped(&error))
    }

    fn of_bundle(bundle: &Bundle) -> Self {
        let modules = bundle.files().iter().filter_map(|file| {
            Some(ModuleFile {
                path: file.path.strip_prefix(MODULES)?.to_owned(),
                mode: file.mode,
                bytes: file.bytes.clone(),
            })
        });
        Self {
            lock_file: bundle
                .file(tofu::LOCK_FILE_NAME)
                .map(|file| file.bytes.clone()),
            modules: modules.collect(),
        }
    }
}

/// Bundles of one call.
pub(crate) struct Library {
    store: Arc<dyn Store>,
    /// A workspace besides those that a bundle's own definitions have.
    named: Option<NamedRoot>,
    key: Mutex<Option<Arc<TargetKey>>>,
    /// The one before, while a change of keys stands unfinished.
    former: Mutex<Option<Arc<TargetKey>>>,
    known: Mutex<BTreeMap<String, Arc<Source>>>,
    extras: Mutex<BTreeMap<String, Arc<Extras>>>,
    queued: Mutex<Vec<Bundle>>,
}

impl Library {
    pub(crate) fn new(store: Arc<dyn Store>, named: Option<NamedRoot>) -> Self {
        Self {
            store,
            named,
            key: Mutex::new(None),
            former: Mutex::new(None),
            known: Mutex::new(BTreeMap::new()),
            extras: Mutex::default(),
            queued: Mutex::default(),
        }
    }

    /// Takes the key that opens stored bundles.
    pub(crate) fn unlock(&self, key: Arc<TargetKey>) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// Takes the key that opens what the other one does not.
    pub(crate) fn unlock_former(&self, key: Arc<TargetKey>) {
        *self.former.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// Takes definitions that were read elsewhere.
    pub(crate) fn add(&self, source: Arc<Source>) {
        let digest = source.bundle.digest().to_owned();
        self.known().insert(digest, source);
    }

    /// Returns the definitions of a bundle, from the store where they are not known yet.
    pub(crate) fn get(&self, digest: &str) -> Result<Arc<Source>, Failure> {
        if let Some(source) = self.known().get(digest) {
            return Ok(Arc::clone(source));
        }
        let source = Arc::new(self.read(digest)?);
        self.add(Arc::clone(&source));
        Ok(source)
    }

    /// Keeps a bundle in the store, sealed with the target's key.
    pub(crate) fn keep(&self, bundle: &Bundle) -> Result<(), Failure> {
        let archive = bundle.to_archive().map_err(|error| stopped(&error))?;
        self.keep_bytes(bundle.digest(), &archive)
    }

    fn keep_bytes(&self, digest: &str, archive: &[u8]) -> Result<(), Failure> {
        let key = layout::bundle(digest).map_err(|error| stopped(&error))?;
        let lost = |error: &(dyn std::error::Error + 'static)| {
            Failure::of(ExitCode::Failed, error)
                .hint("nothing was applied from these definitions; run the same command again")
        };
        if self
            .store
            .get(&key)
            .map_err(|error| lost(&error))?
            .is_some()
        {
            return Ok(());
        }
        let target_key = self.key()?;
        let sealed = target_key
            .seal(archive, key.as_str())
            .map_err(|error| stopped(&error))?;
        match settle::put_if_absent(self.store.as_ref(), &key, &sealed) {
            Ok(_) => Ok(()),
            // Somebody kept the same files meanwhile.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(lost(&error)),
        }
    }

    /// Packs what `init` added to a bundle, to be kept before the ledger's next write; returns its digest, where it
    /// added anything.
    ///
    /// Not at once: before a first build's `keys.json` is written, nothing may be sealed with its key.
    pub(crate) fn queue_extras(&self, extras: Extras) -> Result<Option<String>, Failure> {
        let Some(bundle) = extras.to_bundle()? else {
            return Ok(None);
        };
        let digest = bundle.digest().to_owned();
        self.known_extras().insert(digest.clone(), Arc::new(extras));
        self.queued
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(bundle);
        Ok(Some(digest))
    }

    /// Keeps what was queued.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        let queued =
            std::mem::take(&mut *self.queued.lock().unwrap_or_else(PoisonError::into_inner));
        queued.iter().try_for_each(|bundle| self.keep(bundle))
    }

    /// Returns what `init` had added to a bundle.
    pub(crate) fn extras(&self, digest: &str) -> Result<Arc<Extras>, Failure> {
        if let Some(extras) = self.known_extras().get(digest) {
            return Ok(Arc::clone(extras));
        }
        let extras = Arc::new(Extras::of_bundle(&self.unpack(digest)?));
        self.known_extras()
            .insert(digest.to_owned(), Arc::clone(&extras));
        Ok(extras)
    }

    fn known_extras(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Extras>>> {
        self.extras.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, digest: &str) -> Result<Source, Failure> {
        let bundle = self.unpack(digest)?;
        let platform =
            platform::load_platform_with(&bundle, self.named.as_ref()).map_err(|faults| {
                Failure::new(
                    ExitCode::Stopped,
                    format!("bundle `{}` can't be understood", short(digest)),
                )
                .because(faults.render_plain())
            })?;
        Ok(Source {
            bundle,
            platform,
            commit: None,
            dirty: false,
        })
    }

    fn unpack(&self, digest: &str) -> Result<Bundle, Failure> {
        let failed = |error: &(dyn std::error::Error + 'static)| {
            let mut failure = stopped(error);
            failure.causes.insert(0, std::mem::take(&mut failure.what));
            failure.what = format!("cannot read bundle `{}`", short(digest));
            failure
        };
        let key = layout::bundle(digest).map_err(|error| failed(&error))?;
        let Some(found) = self.store.get(&key).map_err(|error| failed(&error))? else {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "the store does not hold bundle `{}`, from which something was applied",
                    short(digest)
                ),
            ));
        };
        let former = self
            .former
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let archive = match (self.key()?.open(&found.bytes, key.as_str()), former) {
            (Err(error), Some(former)) => former
                .open(&found.bytes, key.as_str())
                .map_err(|_| failed(&error))?,
            (opened, _) => opened.map_err(|error| failed(&error))?,
        };
        let bundle = Bundle::from_archive(&archive).map_err(|error| failed(&error))?;
        if bundle.digest() != digest {
            return Err(Failure::new(
                ExitCode::Stopped,
                format!(
                    "bundle `{}` is damaged: its files give another digest",
                    short(digest)
                ),
            ));
        }
        Ok(bundle)
    }

    fn key(&self) -> Result<Arc<TargetKey>, Failure> {
        self.key
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .ok_or_else(|| Failure::new(ExitCode::Unusable, "the target's key is not known yet"))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Source>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_init_added_comes_back_as_it_was_packed() {
        let file = |path: &str, mode: u32| ModuleFile {
            path: path.to_owned(),
            mode,
            bytes: path.as_bytes().to_vec(),
        };
        let extras = Extras {
            lock_file: Some(b"lock".to_vec()),
            modules: vec![file("far/main.tf", 0o644), file("far/run.sh", 0o755)],
        };
        let bundle = extras.to_bundle().unwrap().unwrap();
        assert_eq!(Extras::of_bundle(&bundle), extras);
        let only = Extras {
            lock_file: None,
            ..extras
        };
        let bundle = only.to_bundle().unwrap().unwrap();
        assert_eq!(Extras::of_bundle(&bundle), only);
        assert_eq!(Extras::default().to_bundle().unwrap(), None);
    }
}

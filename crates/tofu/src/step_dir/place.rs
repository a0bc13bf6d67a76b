//! Putting a bundle's files into a tree: only what the former bundle put there is replaced, so
//! that files made under `path.module` and an `errored.tfstate` stay.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use process::Identity;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{OVERRIDE, OVERRIDE_FILE, Slot, StepDir, relative};
use crate::disk::{self, remove_if_there};
use crate::lock_file::LOCK_FILE_NAME;

/// Why a bundle could not be put into a tree.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A path leads out of the tree.
    #[error("the path `{path}` leads out of the bundle")]
    Outside {
        /// The path in the bundle.
        path: String,
    },
    /// A file can't be written or removed.
    #[error("cannot place `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What a bundle put into a tree.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// The bundle's digest; empty while the tree is being changed.
    digest: String,
    /// The boot in which the files were written: they are not synced one by one, so after a crash
    /// of the machine each is compared again.
    boot_id: String,
    /// SHA-256 of every file by its path in the bundle.
    files: BTreeMap<String, String>,
}

impl StepDir {
    /// Makes the tree hold the bundle named `digest`. Files that the former bundle put there and this
    /// one does not have are removed; every other file is left alone. A tree that holds this bundle
    /// already costs one read.
    ///
    /// # Errors
    /// When a path leads out of the tree, or a file can't be written.
    pub fn place<'f, F>(
        &self,
        slot: Slot,
        digest: &str,
        modules: &[&str],
        files: F,
    ) -> Result<(), PlaceError>
    where
        F: IntoIterator<Item = (&'f str, u32, &'f [u8])>,
    {
        let tree = self.tree(slot);
        let manifest_path = self.path().join(format!("{}.manifest.json", slot.name()));
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| PlaceError::Io { path, source }
        };
        let boot_id = Identity::of_self()
            .map(|identity| identity.boot_id)
            .unwrap_or_default();
        let former: Manifest = match fs::read(&manifest_path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(_) => Manifest::default(),
        };
        let is_whole = || {
            former
                .files
                .keys()
                .all(|path| relative(path).is_ok_and(|path| tree.join(path).is_file()))
        };
        if former.digest == digest && former.boot_id == boot_id && !boot_id.is_empty() && is_whole()
        {
            return self.write_overrides(slot, modules);
        }
        disk::private_dir(&tree).map_err(at(&tree))?;

        let files: Vec<(&str, u32, &[u8])> = files.into_iter().collect();
        let mut manifest = Manifest {
            digest: String::new(),
            boot_id,
            files: former.files.clone(),
        };
        for (path, _, bytes) in &files {
            relative(path)?;
            manifest
                .files
                .insert((*path).to_owned(), hex(&Sha256::digest(bytes)));
        }
        // Both bundles' files are ours until the change is done, so that a cut leaves no stray file.
        write_manifest(&manifest_path, &manifest).map_err(at(&manifest_path))?;

        let trusted = former.boot_id == manifest.boot_id && !former.digest.is_empty();
        for (path, mode, bytes) in &files {
            let to = tree.join(relative(path)?);
            let same =
                trusted && former.files.get(*path) == manifest.files.get(*path) && to.is_file();
            if !same || path.ends_with(LOCK_FILE_NAME) {
                write_file(&tree, &to, *mode, bytes).map_err(at(&to))?;
            }
        }
        let mut now = BTreeMap::new();
        for (path, _, _) in &files {
            if let Some(entry) = manifest.files.remove_entry(*path) {
                now.insert(entry.0, entry.1);
            }
        }
        for path in manifest.files.keys() {
            let gone = tree.join(relative(path)?);
            remove_if_there(&gone).map_err(at(&gone))?;
            remove_empty_parents(&tree, &gone);
        }
        self.write_overrides(slot, modules)?;
        let done = Manifest {
            digest: digest.to_owned(),
            boot_id: manifest.boot_id,
            files: now,
        };
        write_manifest(&manifest_path, &done).map_err(at(&manifest_path))
    }

    /// Makes sure that each of the root modules has our backend override.
    fn write_overrides(&self, slot: Slot, modules: &[&str]) -> Result<(), PlaceError> {
        for module in modules {
            let directory = self.root_module(slot, module)?;
            let path = directory.join(OVERRIDE_FILE);
            if fs::read(&path).is_ok_and(|bytes| bytes == OVERRIDE) {
                continue;
            }
            write_file(&self.tree(slot), &path, 0o600, OVERRIDE)
                .map_err(|source| PlaceError::Io { path, source })?;
        }
        Ok(())
    }

    /// Puts the working lock file into a root module's directory, or removes it.
    ///
    /// # Errors
    /// When it can't be written.
    pub(crate) fn write_lock_file(
        &self,
        slot: Slot,
        module: &str,
        bytes: Option<&[u8]>,
    ) -> Result<(), PlaceError> {
        let path = self.root_module(slot, module)?.join(LOCK_FILE_NAME);
        let result = match bytes {
            None => remove_if_there(&path),
            Some(bytes) if fs::read(&path).is_ok_and(|there| there == bytes) => Ok(()),
            Some(bytes) => write_file(&self.tree(slot), &path, 0o600, bytes),
        };
        result.map_err(|source| PlaceError::Io { path, source })
    }
}

fn write_manifest(path: &Path, manifest: &Manifest) -> io::Result<()> {
    let bytes = serde_json::to_vec(manifest)?;
    disk::write(path, &bytes, 0o600)
}

/// Writes one file by a rename, so that a link at its path is replaced and never written through.
fn write_file(tree: &Path, to: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = to.parent() {
        make_directories(tree, parent)?;
    }
    if to.symlink_metadata().is_ok_and(|there| there.is_dir()) {
        fs::remove_dir_all(to)?;
    }
    let name = to
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let temporary = to.with_file_name(format!(".{name}.rebuild-new"));
    remove_if_there(&temporary)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(bytes)?;
    // The owner's bits only: nobody else has business in a tree.
    file.set_permissions(fs::Permissions::from_mode((mode & 0o700) | 0o600))?;
    drop(file);
    fs::rename(&temporary, to)
}

/// Makes the directories down to `to`; a file or link in the way is removed.
fn make_directories(tree: &Path, to: &Path) -> io::Result<()> {
    let Ok(below) = to.strip_prefix(tree) else {
        return Ok(());
    };
    let mut directory = tree.to_owned();
    for part in below.components() {
        directory.push(part);
        match directory.symlink_metadata() {
            Ok(there) if there.is_dir() => continue,
            Ok(_) => fs::remove_file(&directory)?,
            Err(_) => {}
        }
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
    }
    Ok(())
}

fn remove_empty_parents(tree: &Path, gone: &Path) {
    let mut directory = gone.parent();
    while let Some(path) = directory
        && path != tree
        && path.starts_with(tree)
        && fs::remove_dir(path).is_ok()
    {
        directory = path.parent();
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

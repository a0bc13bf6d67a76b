//! Data directories (`TF_DATA_DIR`): one for every digest of what `init` reads, used again without
//! `init` once one went well there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use process::Identity;
use sha2::{Digest as _, Sha256};

use super::StepDir;
use super::place::hex;
use crate::disk;
use crate::lock_file::LockFile;

/// Written into a data directory after a good `init` only.
const WARM: &str = "rebuild-warm";

/// How many data directories of a step are kept.
const KEPT: usize = 6;

/// What `init` reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InitInputs {
    files: String,
    state_providers: BTreeSet<String>,
}

impl InitInputs {
    /// From the files of the root module and of every local module that it reaches (path in the
    /// bundle and content; the lock file may be among them and is left out), and the source addresses
    /// of the providers that the state has.
    #[must_use]
    pub fn new<'f>(
        files: impl IntoIterator<Item = (&'f str, &'f [u8])>,
        state_providers: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut files: Vec<(&str, &[u8])> = files
            .into_iter()
            .filter(|(path, _)| {
                Path::new(path).file_name() != Some(crate::lock_file::LOCK_FILE_NAME.as_ref())
            })
            .collect();
        files.sort_unstable();
        let mut digest = Sha256::new();
        for (path, bytes) in files {
            digest.update((path.len() as u64).to_be_bytes());
            digest.update(path);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        Self {
            files: hex(&digest.finalize()),
            state_providers: state_providers.into_iter().collect(),
        }
    }

    /// The data directory's name for these inputs, a root module and a working lock file. A
    /// provider of the state that the lock file names is no input of its own: so an apply that
    /// brings one in leaves the directory warm.
    pub(crate) fn digest(&self, module: &str, lock_file: Option<&[u8]>) -> String {
        let parsed = lock_file.and_then(|bytes| LockFile::parse(bytes).ok());
        let mut digest = Sha256::new();
        digest.update(b"rebuild data directory 1\n");
        digest.update(module);
        digest.update(b"\n");
        digest.update(&self.files);
        match (&parsed, lock_file) {
            (Some(lock), _) => {
                for (address, entry) in &lock.entries {
                    digest.update(format!("\n{address} {}", entry.version));
                }
            }
            (None, Some(bytes)) => digest.update(bytes),
            (None, None) => digest.update(b"\nno lock file"),
        }
        for provider in &self.state_providers {
            if !parsed
                .as_ref()
                .is_some_and(|lock| lock.entries.contains_key(provider))
            {
                digest.update(format!("\nstate {provider}"));
            }
        }
        hex(&digest.finalize())[..32].to_owned()
    }
}

impl StepDir {
    /// The data directory of that name, found through an alias.
    pub(crate) fn data_dir(&self, digest: &str) -> PathBuf {
        let data = self.path().join("data");
        match fs::read_link(data.join(digest)) {
            Ok(target) => data.join(target),
            Err(_) => data.join(digest),
        }
    }

    /// A data directory of its own for an upgrade: what another lock file's directory holds must
    /// not change under it.
    pub(crate) fn fresh_data_dir(&self, digest: &str) -> io::Result<PathBuf> {
        let data = self.path().join("data");
        disk::private_dir(&data)?;
        let mut n = 1_u32;
        loop {
            let name = format!("{digest}-{n}");
            match fs::DirBuilder::new().mode(0o700).create(data.join(&name)) {
                Ok(()) => return Ok(data.join(name)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => n += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether an `init` went well in that directory, at this path and with this `tofu`.
    pub(crate) fn is_warm(data_dir: &Path, tool: &str) -> bool {
        fs::read_to_string(data_dir.join(WARM)).is_ok_and(|text| text == warm_text(data_dir, tool))
    }

    pub(crate) fn mark_warm(data_dir: &Path, tool: &str) -> io::Result<()> {
        disk::write(
            &data_dir.join(WARM),
            warm_text(data_dir, tool).as_bytes(),
            0o600,
        )
    }

    /// Notes that a warm directory was used, so that it is among the last to be removed.
    pub(crate) fn touch_warm(data_dir: &Path) {
        if let Ok(file) = fs::OpenOptions::new()
            .append(true)
            .open(data_dir.join(WARM))
        {
            let _ = file.set_modified(std::time::SystemTime::now());
        }
    }

    /// Where a data directory was when its last good `init` ended.
    pub(crate) fn warm_path(data_dir: &Path) -> Option<PathBuf> {
        let text = fs::read_to_string(data_dir.join(WARM)).ok()?;
        text.lines().next().map(PathBuf::from)
    }

    pub(crate) fn mark_cold(data_dir: &Path) -> io::Result<()> {
        disk::remove_if_there(&data_dir.join(WARM))
    }

    /// Holds a data directory for one `init` at a time, made if it is not there.
    pub(crate) fn lock_data_dir(data_dir: &Path) -> io::Result<fs::File> {
        disk::private_dir(data_dir)?;
        let file = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(data_dir.with_extension("lock"))?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// Lets the directory of `from` be found under the name `to` as well.
    pub(crate) fn alias_data_dir(&self, from: &str, to: &str) -> io::Result<()> {
        if from == to {
            return Ok(());
        }
        let link = self.path().join("data").join(to);
        if link.symlink_metadata().is_ok_and(|there| there.is_dir()) {
            return Ok(());
        }
        // By a rename: whoever looks finds the former alias or this one.
        let new = link.with_extension("new");
        disk::remove_if_there(&new)?;
        std::os::unix::fs::symlink(from, &new)?;
        fs::rename(&new, &link)
    }

    /// Removes all but the most recently used data directories.
    pub(crate) fn prune_data_dirs(&self, keep: &Path) {
        let Ok(entries) = fs::read_dir(self.path().join("data")) else {
            return;
        };
        let mut found = Vec::new();
        let mut links = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            match path.symlink_metadata() {
                Ok(there) if there.is_symlink() => links.push(path),
                Ok(there) if there.is_dir() && path != keep => {
                    let used = fs::metadata(path.join(WARM))
                        .or(Ok(there))
                        .and_then(|there: fs::Metadata| there.modified());
                    found.push((used.ok(), path));
                }
                _ => {}
            }
        }
        found.sort();
        let surplus = found.len().saturating_sub(KEPT - 1);
        for (_, path) in found.drain(..surplus) {
            // Cold first: a removal that is cut must not look like a good init.
            if Self::mark_cold(&path).is_ok() {
                let _ = fs::remove_dir_all(&path);
                let _ = fs::remove_file(path.with_extension("lock"));
            }
        }
        for link in links.into_iter().filter(|link| link.metadata().is_err()) {
            let _ = fs::remove_file(link);
        }
    }
}

/// Downloaded modules are named by absolute paths: a directory that was moved is not warm any more. Nor is one of another
/// boot: OpenTofu flushes nothing that it writes there, so after a power cut nobody knows what is left.
fn warm_text(data_dir: &Path, tool: &str) -> String {
    let real = fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let boot = Identity::of_self().map(|me| me.boot_id);
    format!("{}\n{tool}\n{}\n", real.display(), boot.unwrap_or_default())
}

/// The backend's type that an `init` left in a data directory.
pub(crate) fn backend_type(data_dir: &Path) -> Option<String> {
    let bytes = fs::read(data_dir.join("terraform.tfstate")).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    Some(value.get("backend")?.get("type")?.as_str()?.to_owned())
}

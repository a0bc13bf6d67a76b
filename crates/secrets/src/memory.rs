//! Directories in memory, for files that hold secrets: never on a disk.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use process::files::{FileError, write_passing};
use process::{Identity, IdentityError, Liveness};
use rand::TryRngCore;
use rand::rngs::OsRng;

/// How the names of all of them begin.
const PREFIX: &str = "rebuild-";
/// The file in each that names its owner.
const OWNER: &str = ".owner.json";

/// A directory (0700) in memory. It is removed with all its files when dropped, unless kept.
#[derive(Debug)]
pub struct MemoryDir {
    path: PathBuf,
    is_kept: AtomicBool,
}

/// Why there is no directory in memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// None of the places is backed by memory, and secrets must not lie on a disk.
    #[error(
        "no memory-backed directory for secret files: {} is not a tmpfs or ramfs",
        listed(tried)
    )]
    NoPlace {
        /// What was tried.
        tried: Vec<PathBuf>,
    },
    /// This place is not backed by memory.
    #[error("`{}` is not on a tmpfs or ramfs: secret files must not lie on a disk", path.display())]
    NotMemory {
        /// The place.
        path: PathBuf,
    },
    /// This directory is not one of ours.
    #[error("`{}` is not a secret directory of this user's own", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
    },
    /// A name that would lead out of the directory.
    #[error("`{name}` is no file name")]
    BadName {
        /// The name.
        name: String,
    },
    /// The system refused.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file was not written.
    #[error(transparent)]
    Write(#[from] FileError),
    /// The owner could not be told, written or read.
    #[error("cannot tell who owns `{}`", path.display())]
    Owner {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: IdentityError,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let quoted: Vec<String> = paths.iter().map(|p| format!("`{}`", p.display())).collect();
    quoted.join(" or ")
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MemoryError {
    let path = path.to_owned();
    move |source| MemoryError::Io {
        doing,
        path,
        source,
    }
}

impl MemoryDir {
    /// Makes a directory in memory; `purpose` is part of its name.
    ///
    /// # Errors
    /// When there is no memory-backed place: it never falls back to a disk.
    pub fn create(purpose: &str) -> Result<Self, MemoryError> {
        let tried = places();
        match tried.iter().find(|place| is_memory(place)) {
            Some(place) => Self::create_in(place, purpose),
            None => Err(MemoryError::NoPlace { tried }),
        }
    }

    /// Makes a directory in a place that the caller names.
    ///
    /// # Errors
    /// When that place is not backed by memory.
    pub fn create_in(place: &Path, purpose: &str) -> Result<Self, MemoryError> {
        if !is_memory(place) {
            return Err(MemoryError::NotMemory {
                path: place.to_owned(),
            });
        }
        if !is_file_name(purpose) {
            return Err(MemoryError::BadName {
                name: purpose.to_owned(),
            });
        }
        let me = Identity::of_self().map_err(|source| MemoryError::Owner {
            path: place.to_owned(),
            source,
        })?;
        loop {
            let mut random = [0; 8];
            OsRng
                .try_fill_bytes(&mut random)
                .map_err(|error| failed("name a directory in", place)(io::Error::other(error)))?;
            let random = u64::from_le_bytes(random);
            let path = place.join(format!("{PREFIX}{purpose}-{}-{random:016x}", me.pid));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(failed("make", &path))?,
            }
            let made = Self {
                path,
                is_kept: AtomicBool::new(false),
            };
            match me.write_marker(&made.path.join(OWNER)) {
                Ok(()) => return Ok(made),
                // Swept in the instant in which it had no owner yet: once more.
                Err(_) if !made.path.exists() => {}
                Err(source) => {
                    return Err(MemoryError::Owner {
                        path: made.path.clone(),
                        source,
                    });
                }
            }
        }
    }

    /// Takes over a directory that a dead call kept; it is ours from now on.
    ///
    /// # Errors
    /// When it is not there, not in memory, or not one of ours.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, MemoryError> {
        let path = path.into();
        let found = std::fs::symlink_metadata(&path).map_err(failed("look at", &path))?;
        if !is_our_dir(&path, &found) {
            return Err(MemoryError::NotOurs { path });
        }
        if !is_memory(&path) {
            return Err(MemoryError::NotMemory { path });
        }
        Identity::of_self()
            .and_then(|me| me.write_marker(&path.join(OWNER)))
            .map_err(|source| MemoryError::Owner {
                path: path.clone(),
                source,
            })?;
        Ok(Self {
            path,
            is_kept: AtomicBool::new(false),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file (0600) into it, as a whole, and tells where it is.
    ///
    /// # Errors
    /// When `name` is no plain file name, or when the write fails.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, MemoryError> {
        if !is_file_name(name) || name == OWNER {
            return Err(MemoryError::BadName {
                name: name.to_owned(),
            });
        }
        let path = self.path.join(name);
        write_passing(&path, bytes, 0o600)?;
        Ok(path)
    }

    /// Leaves it in place when dropped: a program that outlives us still needs it.
    pub fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Removes it now, and tells when that fails, as a drop can't.
    ///
    /// # Errors
    /// When something of it is left.
    pub fn remove(self) -> Result<(), MemoryError> {
        self.keep();
        remove(&self.path)
    }

    /// Tells who made the directory that a file lies in; `None` where it lies in none of ours.
    #[must_use]
    pub fn owner_of(file: &Path) -> Option<Identity> {
        let dir = file.parent()?;
        let found = std::fs::symlink_metadata(dir).ok()?;
        if !is_our_dir(dir, &found) {
            return None;
        }
        Identity::read_marker(&dir.join(OWNER)).ok().flatten()
    }

    /// Whether a file in such a directory is the one that names its owner.
    #[must_use]
    pub fn names_owner(file: &Path) -> bool {
        file.file_name().is_some_and(|name| name == OWNER)
    }

    /// Removes what dead calls left behind, in every place, but for what `keep` wants kept.
    ///
    /// A directory goes only when its owner is proven dead. `keep` is asked with the directory and
    /// its owner; say so for one that a living child of a dead call uses. Gives what was removed.
    ///
    /// # Errors
    /// When a leftover cannot be read or removed; the others are removed all the same.
    pub fn sweep(keep: &dyn Fn(&Path, &Identity) -> bool) -> Result<Vec<PathBuf>, MemoryError> {
        let mut removed = Vec::new();
        let mut first_error = None;
        for place in places().into_iter().filter(|place| is_memory(place)) {
            match sweep_in(&place, keep) {
                Ok(paths) => removed.extend(paths),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(removed), Err)
    }
}

impl Drop for MemoryDir {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Relaxed) {
            // What cannot be removed now is swept by a later call.
            let _ = remove(&self.path);
        }
    }
}

pub(crate) fn sweep_in(
    place: &Path,
    keep: &dyn Fn(&Path, &Identity) -> bool,
) -> Result<Vec<PathBuf>, MemoryError> {
    let mut removed = Vec::new();
    let mut first_error = None;
    for entry in std::fs::read_dir(place).map_err(failed("list", place))? {
        let path = entry.map_err(failed("list", place))?.path();
        match sweep_one(&path, keep) {
            Ok(true) => removed.push(path),
            Ok(false) => {}
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    first_error.map_or(Ok(removed), Err)
}

fn sweep_one(path: &Path, keep: &dyn Fn(&Path, &Identity) -> bool) -> Result<bool, MemoryError> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(false);
    };
    if !is_our_dir(path, &found) {
        return Ok(false);
    }
    let owner = Identity::read_marker(&path.join(OWNER)).map_err(|source| MemoryError::Owner {
        path: path.to_owned(),
        source,
    })?;
    match owner {
        // Its maker was cut before it was anybody's: there is nothing in it, or it is being made.
        None => Ok(std::fs::remove_dir(path).is_ok()),
        Some(owner) if owner.liveness() == Liveness::Dead && !keep(path, &owner) => {
            remove(path).map(|()| true)
        }
        Some(_) => Ok(false),
    }
}

fn remove(path: &Path) -> Result<(), MemoryError> {
    // The owner's name goes last: what is cut in the middle is still a dead owner's.
    for entry in std::fs::read_dir(path).map_err(failed("list", path))? {
        let entry = entry.map_err(failed("list", path))?;
        if entry.file_name() == OWNER {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let inner = entry.path();
        let gone = if is_dir {
            std::fs::remove_dir_all(&inner)
        } else {
            std::fs::remove_file(&inner)
        };
        gone.map_err(failed("remove", &inner))?;
    }
    std::fs::remove_dir_all(path).map_err(failed("remove", path))
}

/// `/run/user/UID` is what XDG_RUNTIME_DIR names on every system that has it.
fn places() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    vec!["/dev/shm".into(), format!("/run/user/{user}").into()]
}

fn is_our_dir(path: &Path, found: &std::fs::Metadata) -> bool {
    let is_named_so = path
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with(PREFIX));
    is_named_so && found.is_dir() && found.uid() == rustix::process::geteuid().as_raw()
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// Asks the file system itself, since a path proves nothing.
#[cfg(target_os = "linux")]
pub(crate) fn is_memory(path: &Path) -> bool {
    // `man 2 statfs`.
    const TMPFS_MAGIC: i128 = 0x0102_1994;
    const RAMFS_MAGIC: i128 = 0x8584_58f6;
    rustix::fs::statfs(path).is_ok_and(|fs| {
        matches!(
            i128::from(fs.f_type) & 0xffff_ffff,
            TMPFS_MAGIC | RAMFS_MAGIC
        )
    })
}

/// There is no such file system here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_memory(_: &Path) -> bool {
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
#[path = "memory_tests.rs"]
mod tests;

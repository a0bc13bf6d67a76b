//! The bundle: the definitions that a call runs, packed and named by their digest.
//!
//! It holds the files that git would commit, links resolved, none from outside of the platform,
//! without `targets/`. `.git` and `.terraform` directories are never part of it.

mod archive;
mod digest;
mod git;
mod pack;

use std::io;
use std::path::PathBuf;

pub use git::{Git, GitError, GitState, GitView, NoGit};

use crate::files::{Entry, Files, ReadError, join, list_paths};

/// The most bytes that the files of a bundle may have together.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The most files that a bundle may hold.
pub const MAX_FILES: usize = 50_000;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// Git failed where it was expected to answer.
    #[error("cannot list the files that git would commit in `{}`", directory.display())]
    Git {
        /// The platform directory.
        directory: PathBuf,
        /// What went wrong.
        #[source]
        source: GitError,
    },
    /// A file can't be read.
    #[error("cannot read `{path}` for the bundle")]
    Io {
        /// Path within the platform.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A link leads out of the platform.
    #[error("link `{path}` leads out of the platform directory, to `{}`", to.display())]
    Outside {
        /// Path of the link within the platform.
        path: String,
        /// Where it leads.
        to: PathBuf,
    },
    /// A link leads nowhere.
    #[error("link `{path}` leads nowhere")]
    Dangling {
        /// Path of the link within the platform.
        path: String,
    },
    /// Links lead into each other without an end.
    #[error("link `{path}` leads back into itself")]
    LinkLoop {
        /// Path of the link within the platform.
        path: String,
    },
    /// A name that is not UTF-8.
    #[error("the name of `{path}` is not UTF-8")]
    Name {
        /// The path as far as it can be shown.
        path: String,
    },
    /// More than a bundle may hold.
    #[error("the definitions are too large: {found}, and the most is {most}")]
    TooLarge {
        /// How much was found.
        found: String,
        /// How much there may be.
        most: String,
    },
    /// An archive that was not made here, or was changed since.
    #[error("the bundle is damaged: {what}")]
    Damaged {
        /// What is wrong with it.
        what: String,
    },
    /// The archive can't be written or unpacked.
    #[error("cannot {what} the bundle")]
    Archive {
        /// What was tried.
        what: &'static str,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
}

/// One file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleFile {
    /// Path within the platform, with `/` between its parts.
    pub path: String,
    /// `0o644` or `0o755`.
    pub mode: u32,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Definitions, packed and named by their digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    digest: String,
    files: Vec<BundleFile>,
}

impl Bundle {
    /// Makes a bundle of files, in any order.
    ///
    /// # Errors
    /// A path is not safe, is there twice or is a directory of another; or there is too much.
    pub fn from_files(mut files: Vec<BundleFile>) -> Result<Self, BundleError> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        archive::check(&files)?;
        for file in &mut files {
            file.mode = if file.mode & 0o111 == 0 { 0o644 } else { 0o755 };
        }
        let digest = archive::hex_digest(&archive::tar(&files)?);
        Ok(Self { digest, files })
    }

    /// Returns the SHA-256 of the deterministic tar, in lower-case hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the files, sorted by path.
    pub fn files(&self) -> &[BundleFile] {
        &self.files
    }

    /// Returns the file at a path.
    pub fn file(&self, path: &str) -> Option<&BundleFile> {
        self.files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()
            .and_then(|index| self.files.get(index))
    }
}

impl Files for Bundle {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, ReadError> {
        let path = join("", path).ok_or_else(|| ReadError::Outside {
            path: path.to_owned(),
        })?;
        Ok(self.file(&path).map(|file| file.bytes.clone()))
    }

    fn entries(&self, directory: &str) -> Result<Option<Vec<Entry>>, ReadError> {
        let directory = join("", directory).ok_or_else(|| ReadError::Outside {
            path: directory.to_owned(),
        })?;
        Ok(list_paths(
            self.files.iter().map(|file| file.path.as_str()),
            &directory,
        ))
    }
}

#[cfg(test)]
mod tests;

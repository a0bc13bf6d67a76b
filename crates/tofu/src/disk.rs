//! Small file operations with the system's plain error.

use std::fs;
use std::io;
use std::path::Path;

use process::files::{self, FileError};

/// Writes a file of a working directory as a whole. What a power cut takes of it is made anew: a tree and a warm data
/// directory count in the boot that made them only.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    files::write_passing(path, bytes, mode).map_err(plain)
}

/// Makes a directory for this user alone, and those above it.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    files::create_passing_dir(path).map_err(plain)
}

pub(crate) fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Keeps the kind, so that `NotFound` stays one.
fn plain(error: FileError) -> io::Error {
    let kind = match &error {
        FileError::Io { source, .. } => source.kind(),
        FileError::NotOurs { .. } => io::ErrorKind::PermissionDenied,
    };
    io::Error::new(kind, error)
}

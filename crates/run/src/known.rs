//! The store's id as this machine last saw it: a store that is suddenly empty is then a stop, not a first build.

use std::path::{Path, PathBuf};

use process::files::{FileError, write_atomically};
use serde::{Deserialize, Serialize};

/// Why the known id can't be read or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KnownError {
    /// The file can't be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file holds something else.
    #[error("`{}` is not what this program wrote", path.display())]
    Garbled {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The file can't be written.
    #[error("cannot remember the store's id in `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: FileError,
    },
}

#[derive(Serialize, Deserialize)]
struct Known {
    schema: u32,
    id: String,
}

/// Reads the id that this machine knows; `None` where it has never seen the target's store.
///
/// # Errors
/// The file is there and can't be read: what is known is then not known to be absent.
pub(crate) fn read(path: &Path) -> Result<Option<String>, KnownError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(KnownError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    let known: Known = serde_json::from_slice(&bytes).map_err(|source| KnownError::Garbled {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(known.id))
}

/// Remembers the id on this machine.
///
/// # Errors
/// The file can't be written.
pub(crate) fn remember(path: &Path, id: &str) -> Result<(), KnownError> {
    if matches!(read(path), Ok(Some(known)) if known == id) {
        return Ok(());
    }
    let body = serde_json::to_vec_pretty(&Known {
        schema: 1,
        id: id.to_owned(),
    })
    .map_err(|source| KnownError::Garbled {
        path: path.to_owned(),
        source,
    })?;
    write_atomically(path, &body, 0o600).map_err(|source| KnownError::Write {
        path: path.to_owned(),
        source,
    })
}

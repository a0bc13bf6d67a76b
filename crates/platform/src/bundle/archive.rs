//! A bundle as bytes: deterministic tar, zstd. What comes back is checked before it is believed.

use std::collections::BTreeSet;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::{Bundle, BundleError, BundleFile, MAX_BYTES, MAX_FILES};

/// Room for the headers of the tar beside the files.
const MAX_TAR: u64 = MAX_BYTES + 64 * 1024 * 1024;
const LEVEL: i32 = 3;

impl Bundle {
    /// Returns the bundle as one archive; the same files yield the same bytes.
    ///
    /// # Errors
    /// The files can't be packed.
    pub fn to_archive(&self) -> Result<Vec<u8>, BundleError> {
        zstd::stream::encode_all(tar(&self.files)?.as_slice(), LEVEL).map_err(|source| {
            BundleError::Archive {
                what: "compress",
                source,
            }
        })
    }

    /// Reads an archive, whoever wrote it.
    ///
    /// # Errors
    /// It holds anything but plain files at safe paths, is too large, or is not what
    /// [`Bundle::to_archive`] would have written.
    pub fn from_archive(bytes: &[u8]) -> Result<Self, BundleError> {
        let unpack = |source| BundleError::Archive {
            what: "unpack",
            source,
        };
        let mut plain = Vec::new();
        zstd::stream::read::Decoder::new(bytes)
            .map_err(unpack)?
            .take(MAX_TAR + 1)
            .read_to_end(&mut plain)
            .map_err(unpack)?;
        if plain.len() as u64 > MAX_TAR {
            return Err(too_large(
                format!("more than {MAX_TAR} bytes unpacked"),
                format!("{MAX_TAR} bytes"),
            ));
        }
        let mut files = Vec::new();
        for entry in tar::Archive::new(plain.as_slice())
            .entries()
            .map_err(unpack)?
        {
            let mut entry = entry.map_err(unpack)?;
            let path = String::from_utf8(entry.path_bytes().into_owned()).map_err(|error| {
                BundleError::Name {
                    path: error.to_string(),
                }
            })?;
            if entry.header().entry_type() != tar::EntryType::Regular {
                return Err(BundleError::Damaged {
                    what: format!("`{path}` is no plain file"),
                });
            }
            if files.len() >= MAX_FILES {
                return Err(too_large(
                    format!("more than {MAX_FILES} files"),
                    format!("{MAX_FILES} files"),
                ));
            }
            let mode = entry.header().mode().map_err(unpack)?;
            let mut content = Vec::new();
            entry.read_to_end(&mut content).map_err(unpack)?;
            files.push(BundleFile {
                path,
                mode,
                bytes: content,
            });
        }
        let bundle = Self::from_files(files)?;
        if bundle.digest != hex_digest(&plain) {
            return Err(BundleError::Damaged {
                what: "it is not in the form that bundles are written in".to_owned(),
            });
        }
        Ok(bundle)
    }
}

fn too_large(found: String, most: String) -> BundleError {
    BundleError::TooLarge { found, most }
}

/// Returns the SHA-256 of bytes in lower-case hexadecimal.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Packs files, sorted by path, with nothing in it but paths, modes and content.
pub(super) fn tar(files: &[BundleFile]) -> Result<Vec<u8>, BundleError> {
    let write = || -> io::Result<Vec<u8>> {
        let mut builder = tar::Builder::new(Vec::new());
        for file in files {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Regular);
            header.set_mode(file.mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            header.set_size(file.bytes.len() as u64);
            builder.append_data(&mut header, &file.path, file.bytes.as_slice())?;
        }
        builder.into_inner()
    };
    write().map_err(|source| BundleError::Archive {
        what: "pack",
        source,
    })
}

/// Checks what must hold for files that are written to a disk some day; `files` are sorted.
pub(super) fn check(files: &[BundleFile]) -> Result<(), BundleError> {
    let damaged = |what: String| Err(BundleError::Damaged { what });
    if files.len() > MAX_FILES {
        return Err(too_large(
            format!("{} files", files.len()),
            format!("{MAX_FILES} files"),
        ));
    }
    let total: u64 = files.iter().map(|file| file.bytes.len() as u64).sum();
    if total > MAX_BYTES {
        let largest = files
            .iter()
            .max_by_key(|file| file.bytes.len())
            .map_or("", |file| file.path.as_str());
        return Err(too_large(
            format!("{total} bytes (the largest file is `{largest}`)"),
            format!("{MAX_BYTES} bytes"),
        ));
    }
    let mut paths = BTreeSet::new();
    for file in files {
        let path = file.path.as_str();
        let is_safe = path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != ".." && part != ".git");
        if !is_safe || path.contains('\0') || path.len() > 4096 {
            return damaged(format!(
                "`{}` is no path within a platform",
                path.escape_debug()
            ));
        }
        if !paths.insert(path) {
            return damaged(format!("`{path}` is there twice"));
        }
    }
    for path in &paths {
        let mut above = *path;
        while let Some((directory, _)) = above.rsplit_once('/') {
            if paths.contains(directory) {
                return damaged(format!("`{directory}` is a file and a directory"));
            }
            above = directory;
        }
    }
    Ok(())
}

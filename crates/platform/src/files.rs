//! Where definitions are read from: a directory, a stored bundle, or memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file that makes a directory a platform.
pub const PLATFORM_FILE: &str = "rebuild.toml";

/// Why there is no platform to work on.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// Neither the directory nor one above it is a platform.
    #[error("no rebuild.toml here or above (looked from `{}`)", start.display())]
    NotFound {
        /// Where the search began.
        start: PathBuf,
    },
    /// The directory can't be read.
    #[error("cannot look for rebuild.toml in `{}`", directory.display())]
    Unreadable {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Finds the platform directory: `start` or the nearest one above it that holds `rebuild.toml`.
///
/// # Errors
/// None of them holds one, or `start` can't be read.
pub fn find_root(start: &Path) -> Result<PathBuf, RootError> {
    let absolute = start
        .canonicalize()
        .map_err(|source| RootError::Unreadable {
            directory: start.to_owned(),
            source,
        })?;
    absolute
        .ancestors()
        .find(|directory| directory.join(PLATFORM_FILE).is_file())
        .map(Path::to_owned)
        .ok_or_else(|| RootError::NotFound {
            start: start.to_owned(),
        })
}

/// Why a file of the platform can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A link or `..` leads out of the platform.
    #[error("`{path}` leads out of the platform directory")]
    Outside {
        /// Path within the platform.
        path: String,
    },
    /// The system refused.
    #[error("cannot read `{path}`")]
    Io {
        /// Path within the platform.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// One name in a directory of the platform.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name, without its directory.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_dir: bool,
}

/// The files of a platform. Paths are relative, with `/` between their parts; `` is the platform itself.
pub trait Files {
    /// Reads a file; `None` where there is none.
    ///
    /// # Errors
    /// It leads out of the platform or can't be read.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, ReadError>;

    /// Lists a directory by name; `None` where there is none.
    ///
    /// # Errors
    /// It leads out of the platform or can't be read.
    fn entries(&self, directory: &str) -> Result<Option<Vec<Entry>>, ReadError>;
}

/// Joins a path to a directory of the platform, resolving `.` and `..`; `None` when it leads out.
pub fn join(directory: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A platform directory on disk.
#[derive(Debug, Clone)]
pub struct DirFiles {
    root: PathBuf,
}

impl DirFiles {
    /// Takes the files of the platform at `root`.
    ///
    /// # Errors
    /// The directory isn't there or can't be read.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self {
            root: root.canonicalize()?,
        })
    }

    /// Returns the platform's directory, without links in it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn locate(&self, path: &str) -> Result<Option<PathBuf>, ReadError> {
        let outside = || ReadError::Outside {
            path: path.to_owned(),
        };
        let clean = join("", path).ok_or_else(outside)?;
        let full = if clean.is_empty() {
            self.root.clone()
        } else {
            self.root.join(clean)
        };
        match full.canonicalize() {
            Ok(real) if real.starts_with(&self.root) => Ok(Some(real)),
            Ok(_) => Err(outside()),
            Err(error) if absent(&error) => Ok(None),
            Err(source) => Err(ReadError::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput
    )
}

impl Files for DirFiles {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, ReadError> {
        match self.locate(path)? {
            Some(full) if full.is_file() => {
                std::fs::read(full)
                    .map(Some)
                    .map_err(|source| ReadError::Io {
                        path: path.to_owned(),
                        source,
                    })
            }
            _ => Ok(None),
        }
    }

    fn entries(&self, directory: &str) -> Result<Option<Vec<Entry>>, ReadError> {
        let Some(full) = self.locate(directory)?.filter(|full| full.is_dir()) else {
            return Ok(None);
        };
        let io_error = |source| ReadError::Io {
            path: directory.to_owned(),
            source,
        };
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(full).map_err(io_error)? {
            let entry = entry.map_err(io_error)?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(Entry {
                    name,
                    is_dir: entry.path().is_dir(),
                });
            }
        }
        entries.sort();
        Ok(Some(entries))
    }
}

/// Files held in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryFiles {
    files: BTreeMap<String, Vec<u8>>,
}

impl MemoryFiles {
    /// Adds or replaces a file.
    #[must_use]
    pub fn with(mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.insert(path.to_owned(), bytes.into());
        self
    }
}

impl Files for MemoryFiles {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, ReadError> {
        let path = join("", path).ok_or_else(|| ReadError::Outside {
            path: path.to_owned(),
        })?;
        Ok(self.files.get(&path).cloned())
    }

    fn entries(&self, directory: &str) -> Result<Option<Vec<Entry>>, ReadError> {
        let directory = join("", directory).ok_or_else(|| ReadError::Outside {
            path: directory.to_owned(),
        })?;
        Ok(list_paths(
            self.files.keys().map(String::as_str),
            &directory,
        ))
    }
}

/// Lists a directory out of the full paths of all files.
pub(crate) fn list_paths<'a>(
    paths: impl Iterator<Item = &'a str>,
    directory: &str,
) -> Option<Vec<Entry>> {
    let prefix = if directory.is_empty() {
        String::new()
    } else {
        format!("{directory}/")
    };
    let entries: BTreeSet<Entry> = paths
        .filter_map(|path| path.strip_prefix(&prefix))
        .map(|rest| match rest.split_once('/') {
            Some((name, _)) => Entry {
                name: name.to_owned(),
                is_dir: true,
            },
            None => Entry {
                name: rest.to_owned(),
                is_dir: false,
            },
        })
        .collect();
    (!entries.is_empty() || directory.is_empty()).then(|| entries.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_is_no_path() {
        assert_eq!(
            join("phases/0", "../../modules/net").as_deref(),
            Some("modules/net")
        );
        assert_eq!(join("phases", "./a//b/.").as_deref(), Some("phases/a/b"));
        assert_eq!(join("phases", "../../x"), None);
        assert_eq!(join("", "/etc/passwd"), None);
    }

    #[test]
    fn outside_a_platform_nothing_is_found() {
        // N6
        let empty = tempfile::tempdir().unwrap();
        let error = find_root(empty.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("no rebuild.toml here or above"),
            "{error}"
        );
    }

    #[test]
    fn the_platform_is_found_from_below() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("phases/0")).unwrap();
        std::fs::File::create(dir.path().join(PLATFORM_FILE)).unwrap();
        let found = find_root(&dir.path().join("phases/0")).unwrap();
        assert_eq!(found, dir.path().canonicalize().unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_platform_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::File::create(outer.path().join("secret")).unwrap();
        std::fs::create_dir(outer.path().join("in")).unwrap();
        std::os::unix::fs::symlink("../secret", outer.path().join("in/link")).unwrap();
        let files = DirFiles::open(&outer.path().join("in")).unwrap();
        assert!(matches!(files.read("link"), Err(ReadError::Outside { .. })));
        assert!(matches!(files.read("nothing"), Ok(None)));
    }

    #[test]
    fn memory_files_list_like_directories() {
        let files = MemoryFiles::default().with("a/b/c", "").with("a/d", "");
        let names: Vec<_> = files.entries("a").unwrap().unwrap();
        assert_eq!(
            names,
            [
                Entry {
                    name: "b".into(),
                    is_dir: true
                },
                Entry {
                    name: "d".into(),
                    is_dir: false
                }
            ]
        );
        assert!(files.entries("x").unwrap().is_none());
    }
}

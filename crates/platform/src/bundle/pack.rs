//! From a directory to a bundle.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{Bundle, BundleError, BundleFile, GitView};
use crate::files::PLATFORM_FILE;

/// How many links may lead into each other.
const MAX_DEPTH: usize = 16;

impl Bundle {
    /// Packs the platform at `directory`: the files that git would commit; outside of a work tree
    /// (or of one that ignores the platform) every file that no `.gitignore` names.
    ///
    /// # Errors
    /// A link leads out of the platform or nowhere, a file can't be read, or there is too much.
    pub fn pack(directory: &Path, git: &dyn GitView) -> Result<Self, BundleError> {
        let root = directory.canonicalize().map_err(|source| BundleError::Io {
            path: String::new(),
            source,
        })?;
        let mut packer = Packer {
            listed: list(&root, git)?,
            root,
            git,
            files: BTreeMap::new(),
            total: 0,
        };
        for path in packer.listed.clone() {
            packer.add(&path, &path, 0)?;
        }
        Self::from_files(packer.files.into_values().collect())
    }
}

/// Lists the files of the platform, relative to it.
fn list(root: &Path, git: &dyn GitView) -> Result<Vec<String>, BundleError> {
    let listed = git.files(root).map_err(|source| BundleError::Git {
        directory: root.to_owned(),
        source,
    })?;
    let mut listed = match listed {
        Some(listed) if listed.iter().any(|path| path == PLATFORM_FILE) => listed,
        _ => walk(root)?,
    };
    listed.sort();
    listed.dedup();
    Ok(listed)
}

/// Lists every file below that no `.gitignore` there names.
fn walk(root: &Path) -> Result<Vec<String>, BundleError> {
    let mut paths = Vec::new();
    let walker = ignore::WalkBuilder::new(root)
        .hidden(false)
        .parents(false)
        .ignore(false)
        .git_global(false)
        .git_exclude(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| entry.file_name() != ".git" && entry.file_name() != ".terraform")
        .build();
    for entry in walker {
        let entry = entry.map_err(|error| BundleError::Io {
            path: String::new(),
            source: io::Error::other(error),
        })?;
        if entry.file_type().is_some_and(|kind| !kind.is_dir()) {
            let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
            let name = relative.to_str().ok_or_else(|| BundleError::Name {
                path: relative.to_string_lossy().into_owned(),
            })?;
            paths.push(name.to_owned());
        }
    }
    Ok(paths)
}

struct Packer<'a> {
    root: PathBuf,
    git: &'a dyn GitView,
    listed: Vec<String>,
    files: BTreeMap<String, BundleFile>,
    total: u64,
}

impl Packer<'_> {
    /// Adds what stands at `from` under the path `to`.
    fn add(&mut self, from: &str, to: &str, depth: usize) -> Result<(), BundleError> {
        if left_out(to) || self.files.contains_key(to) {
            return Ok(());
        }
        let full = self.root.join(from);
        let io_error = |source| BundleError::Io {
            path: to.to_owned(),
            source,
        };
        let metadata = match std::fs::symlink_metadata(&full) {
            Ok(metadata) => metadata,
            // Deleted and not yet committed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(io_error(source)),
        };
        if metadata.is_symlink() {
            return self.add_link(&full, to, depth);
        }
        if metadata.is_dir() {
            // A repository of its own: a submodule, or one that was never added.
            return self.add_directory(&full, to, depth);
        }
        if !metadata.is_file() {
            return Err(BundleError::Damaged {
                what: format!("`{to}` is neither a file nor a directory"),
            });
        }
        self.total += metadata.len();
        if self.total > super::MAX_BYTES {
            return Err(BundleError::TooLarge {
                found: format!(
                    "more than that with `{to}`, which has {} bytes",
                    metadata.len()
                ),
                most: format!("{} bytes", super::MAX_BYTES),
            });
        }
        let bytes = std::fs::read(&full).map_err(io_error)?;
        self.files.insert(
            to.to_owned(),
            BundleFile {
                path: to.to_owned(),
                mode: mode(&metadata),
                bytes,
            },
        );
        Ok(())
    }

    fn add_link(&mut self, full: &Path, to: &str, depth: usize) -> Result<(), BundleError> {
        if depth > MAX_DEPTH {
            return Err(BundleError::LinkLoop {
                path: to.to_owned(),
            });
        }
        let real = match full.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BundleError::Dangling {
                    path: to.to_owned(),
                });
            }
            Err(source) => {
                return Err(BundleError::Io {
                    path: to.to_owned(),
                    source,
                });
            }
        };
        let Ok(relative) = real.strip_prefix(&self.root).map(Path::to_owned) else {
            return Err(BundleError::Outside {
                path: to.to_owned(),
                to: real,
            });
        };
        if !real.is_dir() {
            let from = self.name(&relative)?;
            return self.add(&from, to, depth + 1);
        }
        // A directory that holds the link itself would go on for ever.
        if full.starts_with(&real) {
            return Err(BundleError::LinkLoop {
                path: to.to_owned(),
            });
        }
        let from = self.name(&relative)?;
        let prefix = format!("{from}/");
        let inside: Vec<String> = self
            .listed
            .iter()
            .filter(|path| path.starts_with(&prefix))
            .cloned()
            .collect();
        if inside.is_empty() {
            return self.add_directory(&real, to, depth + 1);
        }
        for path in inside {
            let rest = path.strip_prefix(&prefix).unwrap_or(&path).to_owned();
            self.add(&path, &format!("{to}/{rest}"), depth + 1)?;
        }
        Ok(())
    }

    /// Adds the files of a directory that is no part of the listing.
    fn add_directory(&mut self, full: &Path, to: &str, depth: usize) -> Result<(), BundleError> {
        if depth > MAX_DEPTH {
            return Err(BundleError::LinkLoop {
                path: to.to_owned(),
            });
        }
        let to = to.trim_end_matches('/');
        let is_repository = full.join(".git").exists();
        let listed = if is_repository {
            self.git.files(full).map_err(|source| BundleError::Git {
                directory: full.to_owned(),
                source,
            })?
        } else {
            None
        };
        let inside = match listed {
            Some(listed) => listed,
            None => walk(full)?,
        };
        let from = self.name(full.strip_prefix(&self.root).unwrap_or(full))?;
        for path in inside {
            self.add(
                &format!("{from}/{path}"),
                &format!("{to}/{path}"),
                depth + 1,
            )?;
        }
        Ok(())
    }

    fn name(&self, relative: &Path) -> Result<String, BundleError> {
        relative
            .to_str()
            .map(|name| name.trim_end_matches('/').to_owned())
            .ok_or_else(|| BundleError::Name {
                path: relative.to_string_lossy().into_owned(),
            })
    }
}

/// States that lie about hold secrets, and a tree with one in it looks to OpenTofu like a move to be made.
fn is_state(name: &str) -> bool {
    let endings = [
        ".tfstate",
        ".tfstate.backup",
        ".tfstate.lock.info",
        ".tfstate.d",
    ];
    endings.iter().any(|ending| name.ends_with(ending))
}

/// Says what is no definition.
fn left_out(path: &str) -> bool {
    path == "targets"
        || path.starts_with("targets/")
        || path
            .split('/')
            .any(|part| part == ".git" || part == ".terraform" || is_state(part))
}

#[cfg(unix)]
fn mode(metadata: &std::fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    if metadata.permissions().mode() & 0o111 == 0 {
        0o644
    } else {
        0o755
    }
}

#[cfg(not(unix))]
fn mode(_: &std::fs::Metadata) -> u32 {
    0o644
}

#[cfg(test)]
mod tests {
    use super::left_out;

    #[test]
    fn states_and_targets_are_no_definitions() {
        for (path, out) in [
            ("a/terraform.tfstate", true),
            ("a/terraform.tfstate.backup", true),
            ("a/terraform.tfstate.d/live/terraform.tfstate", true),
            ("a/.edge.tfstate.lock.info", true),
            ("a/.terraform/modules/x/main.tf", true),
            ("targets/live.toml", true),
            ("a/tfstate.tf", false),
            ("a/main.tf", false),
        ] {
            assert_eq!(left_out(path), out, "{path}");
        }
    }
}

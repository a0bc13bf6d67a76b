//! Modules that `init` downloaded: packed beside a bundle, and put back where another machine, or a
//! teardown long after, must not need the place that they came from.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Session, io_cause};
use crate::disk;
use crate::error::RunError;
use crate::step_dir::relative;

/// OpenTofu's list of modules, in a data directory.
const LIST: &str = "modules/modules.json";

/// The same among packed modules.
const LIST_NAME: &str = "modules.json";

/// Stands for the data directory's path in a packed list: OpenTofu writes absolute paths.
const HERE: &str = "@data";

/// Links may go round in circles.
const MAX_DEPTH: usize = 32;

/// One file of the downloaded modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFile {
    /// Path below `modules/` of a data directory.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Content.
    pub bytes: Vec<u8>,
}

impl Session {
    /// The modules that `init` downloaded, as files to pack; none where every module is local.
    ///
    /// # Errors
    /// When `init` fails or a file can't be read.
    pub fn downloaded_modules(&self) -> Result<Vec<ModuleFile>, RunError> {
        let data_dir = self.warm_data_dir()?;
        pack(&data_dir)
            .map_err(|error| self.error("init", io_cause("read the downloaded modules", error)))
    }

    /// Puts packed modules into a data directory that has none yet, before its first `init`.
    #[must_use]
    pub fn with_downloaded_modules(mut self, files: Vec<ModuleFile>) -> Self {
        self.modules = files;
        self
    }
}

/// Packs what was downloaded into a data directory.
pub(super) fn pack(data_dir: &Path) -> io::Result<Vec<ModuleFile>> {
    let Some(list) = disk::read_if_there(&data_dir.join(LIST))? else {
        return Ok(Vec::new());
    };
    let mut list: Value = serde_json::from_slice(&list)?;
    // OpenTofu was given the path as it is; a link in it may have been resolved since.
    let real = fs::canonicalize(data_dir)?;
    let mut n_moved = replace_prefix(&mut list, &data_dir.to_string_lossy(), HERE);
    if real != data_dir {
        n_moved += replace_prefix(&mut list, &real.to_string_lossy(), HERE);
    }
    if n_moved == 0 {
        return Ok(Vec::new());
    }
    let root = data_dir.join("modules");
    let mut files = vec![ModuleFile {
        path: LIST_NAME.into(),
        mode: 0o600,
        bytes: serde_json::to_vec(&list)?,
    }];
    let mut open = vec![(root.clone(), 0)];
    while let Some((directory, depth)) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let Some(below) = path.strip_prefix(&root).ok().and_then(Path::to_str) else {
                continue;
            };
            if below == LIST_NAME || path.file_name() == Some(".git".as_ref()) {
                continue;
            }
            // Links are followed: a module from a local directory is one. A broken one is let be.
            let Ok(there) = fs::metadata(&path) else {
                continue;
            };
            if there.is_dir() && depth < MAX_DEPTH {
                open.push((path, depth + 1));
            } else if there.is_file() {
                let mode = there.permissions().mode() & 0o777;
                files.push(ModuleFile {
                    path: below.to_owned(),
                    mode,
                    bytes: fs::read(&path)?,
                });
            }
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

/// A digest of downloaded modules; `None` where there are none. In the list of them the order may change, and says
/// nothing.
pub(super) fn digest(files: &[ModuleFile]) -> Option<String> {
    let mut digest = Sha256::new();
    let mut n_files = 0_usize;
    for file in files.iter().filter(|file| file.path != LIST_NAME) {
        digest.update((file.path.len() as u64).to_be_bytes());
        digest.update(&file.path);
        digest.update((file.bytes.len() as u64).to_be_bytes());
        digest.update(&file.bytes);
        n_files += 1;
    }
    (n_files > 0).then(|| crate::step_dir::hex(&digest.finalize()))
}

/// One module that `init` downloaded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DownloadedModule {
    /// Its path of calls: `far`, `far.inner`.
    pub name: String,
    /// Its version, where its source has versions.
    pub version: Option<String>,
    /// A digest of its files.
    pub content: String,
}

impl DownloadedModule {
    /// What packed modules are, by name.
    #[must_use]
    pub fn of(files: &[ModuleFile]) -> Vec<Self> {
        let list = files.iter().find(|file| file.path == LIST_NAME);
        let list: Value = list
            .and_then(|file| serde_json::from_slice(&file.bytes).ok())
            .unwrap_or_default();
        let here = format!("{HERE}/modules/");
        let entries = list.get("Modules").and_then(Value::as_array);
        let mut found: Vec<Self> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let text = |name: &str| entry.get(name).and_then(Value::as_str);
                let below = text("Dir")?.strip_prefix(&here)?;
                let own = files
                    .iter()
                    .filter(|file| {
                        file.path
                            .strip_prefix(below)
                            .is_some_and(|rest| rest.starts_with('/'))
                    })
                    .cloned()
                    .collect::<Vec<_>>();
                Some(Self {
                    name: text("Key")?.to_owned(),
                    version: text("Version")
                        .filter(|version| !version.is_empty())
                        .map(str::to_owned),
                    content: digest(&own).unwrap_or_default(),
                })
            })
            .collect();
        found.sort();
        found
    }
}

/// Puts packed modules into a data directory without a list of modules.
pub(super) fn unpack(data_dir: &Path, files: &[ModuleFile]) -> io::Result<()> {
    if files.is_empty() || data_dir.join(LIST).exists() {
        return Ok(());
    }
    let root = data_dir.join("modules");
    // The list comes last: a cut in between leaves modules that nothing names.
    let (lists, others): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.path == LIST_NAME);
    for file in others {
        let path = root.join(relative(&file.path).map_err(io::Error::other)?);
        if let Some(parent) = path.parent() {
            disk::private_dir(parent)?;
        }
        disk::write(&path, &file.bytes, (file.mode & 0o700) | 0o600)?;
    }
    for file in lists {
        let mut list: Value = serde_json::from_slice(&file.bytes)?;
        replace_prefix(&mut list, HERE, &data_dir.to_string_lossy());
        disk::private_dir(&root)?;
        disk::write(&data_dir.join(LIST), &serde_json::to_vec(&list)?, 0o600)?;
    }
    Ok(())
}

/// Mends the absolute paths of a data directory that was moved from `former`.
pub(super) fn mend(data_dir: &Path, former: &Path) -> io::Result<()> {
    let path = data_dir.join(LIST);
    let Some(list) = disk::read_if_there(&path)? else {
        return Ok(());
    };
    // What a power cut left of it says nothing; `init` writes it anew.
    let Ok(mut list) = serde_json::from_slice(&list) else {
        return disk::remove_if_there(&path);
    };
    if replace_prefix(
        &mut list,
        &former.to_string_lossy(),
        &data_dir.to_string_lossy(),
    ) > 0
    {
        disk::write(&path, &serde_json::to_vec(&list)?, 0o600)?;
    }
    Ok(())
}

/// Replaces the head of every module's directory that is `from` or below it.
fn replace_prefix(list: &mut Value, from: &str, to: &str) -> usize {
    let Some(Value::Array(modules)) = list.get_mut("Modules") else {
        return 0;
    };
    let mut n_replaced = 0;
    for module in modules {
        if let Some(Value::String(dir)) = module.get_mut("Dir")
            && let Some(rest) = dir.strip_prefix(from)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            *dir = format!("{to}{rest}");
            n_replaced += 1;
        }
    }
    n_replaced
}

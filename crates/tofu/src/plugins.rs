//! The plugin cache: real copies of provider packages in the layout of a `filesystem_mirror`.
//!
//! A package comes in whole, by one rename, and is never changed: so any number of `init`s may read
//! it while others add to it. What OpenTofu installed from it are links.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use process::files::{FileError, create_private_dir, sync_dir, write_atomically};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::lock_file::LockFile;

/// One provider package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Source address, `registry.opentofu.org/hashicorp/local`.
    pub address: String,
    /// Version.
    pub version: String,
    /// `linux_amd64`
    pub platform: String,
}

impl Package {
    fn path(&self) -> PathBuf {
        Path::new(&self.address)
            .join(&self.version)
            .join(&self.platform)
    }
}

/// What was proven of a package when it came in.
#[derive(Debug, Serialize, Deserialize)]
struct Approval {
    /// Its own checksum in OpenTofu's `h1` scheme.
    h1: String,
    /// The checksums of the lock entry that OpenTofu held it against when it was installed.
    hashes: BTreeSet<String>,
}

/// The plugin cache of a target.
#[derive(Debug, Clone)]
pub struct PluginCache {
    packages: PathBuf,
    approvals: PathBuf,
    incoming: PathBuf,
}

impl PluginCache {
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let cache = Self {
            packages: root.join("plugins"),
            approvals: root.join("plugin-approvals"),
            incoming: root.join("plugins-incoming"),
        };
        for directory in [&cache.packages, &cache.approvals, &cache.incoming] {
            durable(create_private_dir(directory))?;
        }
        Ok(cache)
    }

    /// The mirror's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.packages
    }

    /// Whether every entry of a lock file is here for this platform: then no registry is needed.
    pub(crate) fn has_all(&self, lock: &LockFile) -> bool {
        lock.entries.iter().all(|(address, entry)| {
            let package = Package {
                address: address.clone(),
                version: entry.version.clone(),
                platform: platform(),
            };
            self.packages.join(package.path()).is_dir()
        })
    }

    /// Adds the checksum of this platform's package to lock entries that lack it, where the package
    /// came in under one of the entry's own checksums. Without it, a lock file that was committed
    /// from another platform would refuse the very copy that OpenTofu checked against it.
    pub(crate) fn complete(&self, lock: &mut LockFile) {
        for (address, entry) in &mut lock.entries {
            let package = Package {
                address: address.clone(),
                version: entry.version.clone(),
                platform: platform(),
            };
            if let Some(approval) = self.approval(&package)
                && !entry.hashes.contains(&approval.h1)
                && !entry.hashes.is_disjoint(&approval.hashes)
            {
                entry.hashes.insert(approval.h1);
            }
        }
    }

    fn approval_path(&self, package: &Package) -> PathBuf {
        self.approvals.join(format!(
            "{}.json",
            package.path().to_string_lossy().replace('/', "+")
        ))
    }

    fn approval(&self, package: &Package) -> Option<Approval> {
        serde_json::from_slice(&fs::read(self.approval_path(package)).ok()?).ok()
    }

    /// Keeps every package of a data directory that is not here yet, and leaves links to the kept
    /// copies there. Gives the packages that were installed.
    pub(crate) fn keep(
        &self,
        data_dir: &Path,
        lock: Option<&LockFile>,
    ) -> io::Result<Vec<Package>> {
        let installed = packages(&data_dir.join("providers"))?;
        // One `init` of several at a time: the others find the copy that the first one made, and what it measured.
        let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        for package in &installed {
            let from = data_dir.join("providers").join(package.path());
            let to = self.packages.join(package.path());
            if !to.is_dir() {
                self.take_in(&from, &to)?;
            }
            if fs::canonicalize(&from)? != fs::canonicalize(&to)?
                && measured.h1(&from)? == measured.h1(&to)?
            {
                relink(&from, &to)?;
            }
            if let Some(entry) = lock.and_then(|lock| lock.entries.get(&package.address))
                && entry.version == package.version
                && fs::canonicalize(&from)? == fs::canonicalize(&to)?
            {
                self.approve(package, &to, &entry.hashes, &mut measured)?;
            }
        }
        Ok(installed)
    }

    fn take_in(&self, from: &Path, to: &Path) -> io::Result<()> {
        static N: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "{}-{}",
            std::process::id(),
            N.fetch_add(1, Ordering::Relaxed)
        );
        let incoming = self.incoming.join(name);
        if incoming.exists() {
            fs::remove_dir_all(&incoming)?;
        }
        copy_tree(from, &incoming)?;
        if let Some(parent) = to.parent() {
            durable(create_private_dir(parent))?;
        }
        match fs::rename(&incoming, to) {
            Ok(()) => Ok(()),
            // Somebody else was first; a package of one version is one package.
            Err(_) if to.is_dir() => fs::remove_dir_all(&incoming),
            Err(error) => Err(error),
        }
    }

    fn approve(
        &self,
        package: &Package,
        kept: &Path,
        hashes: &BTreeSet<String>,
        measured: &mut Measured,
    ) -> io::Result<()> {
        let mut approval = match self.approval(package) {
            Some(approval) if hashes.is_subset(&approval.hashes) => return Ok(()),
            Some(approval) => approval,
            None => Approval {
                h1: measured.h1(kept)?,
                hashes: BTreeSet::new(),
            },
        };
        approval.hashes.extend(hashes.iter().cloned());
        let bytes = serde_json::to_vec(&approval)?;
        durable(write_atomically(
            &self.approval_path(package),
            &bytes,
            0o600,
        ))
    }
}

/// Puts a link to `to` in the place of the package, or of the link to another mirror, at `from`.
fn relink(from: &Path, to: &Path) -> io::Result<()> {
    if from.symlink_metadata()?.is_symlink() {
        fs::remove_file(from)?;
        return std::os::unix::fs::symlink(to, from);
    }
    let aside = from.with_extension("rebuild-old");
    fs::rename(from, &aside)?;
    std::os::unix::fs::symlink(to, from)?;
    fs::remove_dir_all(&aside)
}

/// This machine's platform in OpenTofu's words.
pub(crate) fn platform() -> String {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        os => os,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        arch => arch,
    };
    format!("{os}_{arch}")
}

/// Every package below a `providers` directory: host, namespace, type, version, platform.
pub(crate) fn packages(providers: &Path) -> io::Result<Vec<Package>> {
    let mut found = Vec::new();
    let mut level = vec![(providers.to_owned(), Vec::<String>::new())];
    while let Some((directory, names)) = level.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && names.is_empty() => {
                return Ok(found);
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.ends_with(".rebuild-old") || !entry.path().is_dir() {
                continue;
            }
            let mut names = names.clone();
            names.push(name);
            match names.as_slice() {
                [host, namespace, kind, version, platform] => found.push(Package {
                    address: format!("{host}/{namespace}/{kind}"),
                    version: version.clone(),
                    platform: platform.clone(),
                }),
                _ => level.push((entry.path(), names)),
            }
        }
    }
    found.sort();
    Ok(found)
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    durable(create_private_dir(to))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        let there = fs::metadata(entry.path())?;
        if there.is_dir() {
            copy_tree(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
            fs::File::open(&to)?.sync_all()?;
        }
    }
    durable(sync_dir(to))
}

/// Kept packages are not of one boot: what is approved must be there after a power cut.
fn durable(done: Result<(), FileError>) -> io::Result<()> {
    done.map_err(io::Error::other)
}

/// What this process has measured: seven root modules with one plugin would read it fourteen times.
static MEASURED: Mutex<Measured> = Mutex::new(Measured {
    h1_of: BTreeMap::new(),
});

/// The checksums of packages, by what tells whether a package is still the same.
#[derive(Debug)]
struct Measured {
    h1_of: BTreeMap<Vec<Seen>, String>,
}

/// One file of a package: its name, device, inode, size, and when it and its inode were changed.
type Seen = (String, u64, u64, u64, (i64, i64), (i64, i64));

impl Measured {
    fn h1(&mut self, package: &Path) -> io::Result<String> {
        let mut seen = Vec::new();
        let files = files_of(package)?;
        for (name, path) in &files {
            let there = fs::metadata(path)?;
            seen.push((
                name.clone(),
                there.dev(),
                there.ino(),
                there.size(),
                (there.mtime(), there.mtime_nsec()),
                (there.ctime(), there.ctime_nsec()),
            ));
        }
        if let Some(known) = self.h1_of.get(&seen) {
            return Ok(known.clone());
        }
        let h1 = h1_of(&files)?;
        self.h1_of.insert(seen, h1.clone());
        Ok(h1)
    }
}

/// Every file of a package with its name in it, sorted.
fn files_of(package: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut names = Vec::new();
    let mut open = vec![package.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if fs::metadata(&path)?.is_dir() {
                open.push(path);
            } else if let Ok(below) = path.strip_prefix(package) {
                names.push((below.to_string_lossy().into_owned(), path.clone()));
            }
        }
    }
    names.sort();
    Ok(names)
}

/// OpenTofu's `h1` checksum of a package directory: the digest of a list of its files' digests.
fn h1_of(files: &[(String, PathBuf)]) -> io::Result<String> {
    let mut list = Sha256::new();
    for (name, path) in files {
        let mut one = Sha256::new();
        io::copy(&mut fs::File::open(path)?, &mut HashWriter(&mut one))?;
        list.update(format!(
            "{}  {name}\n",
            crate::step_dir::hex(&one.finalize())
        ));
    }
    Ok(format!(
        "h1:{}",
        base64::engine::general_purpose::STANDARD.encode(list.finalize())
    ))
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! The store in a directory.
//!
//! A key is a path below the root. A value is written to a temporary file beside its place,
//! flushed, renamed, and the directory flushed; so a reader and a kill see the old value or the new
//! one whole. The compare in compare-and-swap is made safe by a lock (`flock`) on one file of the
//! root, held for one operation and let go by the kernel when its holder dies. Directories are
//! 0700, files 0600. Reading makes nothing.

use crate::{
    Body, BodyWriter, Key, ReadError, Store, Tag, Versioned, VersionedBody, WriteError,
    key::is_segment, layout,
};
use rustix::fs::FlockOperation;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The file whose `flock` guards one operation. It is never deleted: two processes could then hold
/// locks on two files of one name.
const LOCK_FILE: &str = ".lock";
/// How the names of values begin and end that are not yet in their place
/// (`process::files::write_atomically`). No key begins with a dot.
const UNFINISHED: (&[u8], &[u8]) = (b".", b".tmp");
/// How long one operation waits for others. Each takes milliseconds; a minute means that one hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A [`Store`] in a directory of this machine.
#[derive(Debug)]
pub struct LocalStore {
    root: PathBuf,
    /// What kills left behind is swept once, before the first write.
    swept: AtomicBool,
}

impl LocalStore {
    /// The store in `root`, which is made on the first write, with the parents that it lacks.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            swept: AtomicBool::new(false),
        }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn path(&self, key: &Key) -> PathBuf {
        // A key holds no empty, `.` or `..` part, so this stays below the root.
        self.root.join(key.as_str())
    }

    /// Runs `change` while no other operation of any process runs.
    fn exclusively<T>(&self, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        create_private_dirs(&self.root)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.root.join(LOCK_FILE))?;
        hold(&lock, FlockOperation::NonBlockingLockExclusive)?;
        if !self.swept.load(Ordering::Acquire) {
            sweep(&self.root)?;
            self.swept.store(true, Ordering::Release);
        }
        change()
        // Closing the file lets the lock go.
    }

    /// Runs `look` while no write runs; a directory that was never written to needs no lock.
    fn shared<T>(&self, look: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let lock = match File::open(self.root.join(LOCK_FILE)) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(lock) = &lock {
            hold(lock, FlockOperation::NonBlockingLockShared)?;
        }
        look()
    }

    fn write(
        &self,
        key: &Key,
        head: &[u8],
        tail: Option<&Body>,
        expected: Option<&Tag>,
    ) -> Result<Tag, WriteError> {
        let path = self.path(key);
        let done = self.exclusively(|| {
            if tag_at(key, &path)?.as_ref() != expected {
                return Ok(None);
            }
            if tail.is_none() && layout::is_passing(key) {
                process::files::create_passing_dir(parent(&path)?).map_err(io::Error::other)?;
                process::files::write_passing(&path, head, 0o600).map_err(io::Error::other)?;
                return Ok(Some(Tag::of(head)));
            }
            write_durably(&path, head, tail).map(Some)
        });
        self.written(key, done)
    }

    fn unreachable(&self, key: &Key, error: io::Error) -> ReadError {
        ReadError::Unreachable {
            store: self.describe(),
            key: key.clone(),
            source: Box::new(error),
        }
    }

    fn written<T>(&self, key: &Key, done: io::Result<Option<T>>) -> Result<T, WriteError> {
        match done {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(WriteError::Conflict {
                store: self.describe(),
                key: key.clone(),
            }),
            Err(error) => Err(WriteError::Unreachable {
                store: self.describe(),
                key: key.clone(),
                source: Box::new(error),
            }),
        }
    }
}

impl Store for LocalStore {
    fn describe(&self) -> String {
        format!("the directory `{}`", self.root.display())
    }

    fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        // A rename puts a whole value in its place, so a read needs no lock.
        match read(key, &self.path(key)) {
            Ok(bytes) => Ok(bytes.map(|bytes| Versioned {
                tag: Tag::of(&bytes),
                bytes,
            })),
            Err(error) => Err(self.unreachable(key, error)),
        }
    }

    fn get_body(&self, key: &Key) -> Result<Option<VersionedBody>, ReadError> {
        // The open file stays what it is when another takes its place.
        let found = body_at(&self.path(key)).and_then(|body| {
            body.map(|body| {
                let tag = Tag::new(body.sha256_after(b"")?);
                Ok(VersionedBody { body, tag })
            })
            .transpose()
        });
        found.map_err(|error| self.unreachable(key, error))
    }

    fn get_start(&self, key: &Key, n_bytes: usize) -> Result<Option<Vec<u8>>, ReadError> {
        let found = body_at(&self.path(key))
            .and_then(|body| body.map(|body| body.chunk(0, n_bytes)).transpose());
        found.map_err(|error| self.unreachable(key, error))
    }

    fn body_writer(&self) -> io::Result<BodyWriter> {
        create_private_dirs(&self.root)?;
        Ok(BodyWriter::spilling_into(&self.root))
    }

    fn put_if_absent(&self, key: &Key, body: &[u8]) -> Result<Tag, WriteError> {
        self.write(key, body, None, None)
    }

    fn put_if_match(&self, key: &Key, body: &[u8], tag: &Tag) -> Result<Tag, WriteError> {
        self.write(key, body, None, Some(tag))
    }

    fn put_body_if_absent(&self, key: &Key, head: &[u8], tail: &Body) -> Result<Tag, WriteError> {
        self.write(key, head, Some(tail), None)
    }

    fn put_body_if_match(
        &self,
        key: &Key,
        head: &[u8],
        tail: &Body,
        tag: &Tag,
    ) -> Result<Tag, WriteError> {
        self.write(key, head, Some(tail), Some(tag))
    }

    fn delete_if_match(&self, key: &Key, tag: &Tag) -> Result<(), WriteError> {
        let path = self.path(key);
        // A delete where nothing ever was makes no directory either.
        if !self.root.exists() {
            return self.written(key, Ok(None));
        }
        let done = self.exclusively(|| {
            if tag_at(key, &path)?.as_ref() != Some(tag) {
                return Ok(None);
            }
            fs::remove_file(&path)?;
            // What comes and goes with each command finds its directory again.
            if !layout::is_passing(key) {
                let left = remove_empty_parents(&path, &self.root)?;
                File::open(left)?.sync_all()?;
            }
            Ok(Some(()))
        });
        self.written(key, done)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Key>, ReadError> {
        let listed = self.shared(|| {
            let mut keys = Vec::new();
            // Only the directory that the prefix names is walked.
            let below = prefix.rsplit_once('/').map_or("", |(dir, _)| dir);
            if below.is_empty() || Key::new(below).is_ok() {
                walk(&self.root.join(below), below, &mut keys)?;
            }
            keys.retain(|key| key.as_str().starts_with(prefix));
            keys.sort();
            Ok(keys)
        });
        listed.map_err(|error| ReadError::List {
            store: self.describe(),
            prefix: prefix.to_owned(),
            source: Box::new(error),
        })
    }
}

/// Takes a lock on an open file, with an end to the wait.
fn hold(file: &File, operation: FlockOperation) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let taken = process::wait::until(
        deadline,
        Duration::from_millis(1),
        || match rustix::fs::flock(file, operation) {
            Ok(()) => Some(Ok(())),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => None,
            Err(errno) => Some(Err(io::Error::from(errno))),
        },
    );
    taken.unwrap_or_else(|| {
        Err(io::Error::new(
            ErrorKind::TimedOut,
            "another process has held the store for a minute",
        ))
    })
}

fn read(key: &Key, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let found = there(fs::read(path))?;
    // A power cut may leave the length of what was not flushed.
    Ok(found.filter(|bytes| !layout::is_passing(key) || bytes.iter().any(|byte| *byte != 0)))
}

/// A value that is not read into memory; `None` where there is none.
fn body_at(path: &Path) -> io::Result<Option<Body>> {
    let Some(file) = there(File::open(path))? else {
        return Ok(None);
    };
    // A directory can be opened, but not read.
    if file.metadata()?.is_dir() {
        return Ok(None);
    }
    Body::of_file(file).map(Some)
}

fn tag_at(key: &Key, path: &Path) -> io::Result<Option<Tag>> {
    if layout::is_passing(key) {
        return Ok(read(key, path)?.map(|bytes| Tag::of(&bytes)));
    }
    match body_at(path)? {
        Some(body) => body.sha256_after(b"").map(|digest| Some(Tag::new(digest))),
        None => Ok(None),
    }
}

fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// Writes `head` with `tail` behind; gives the tag of both.
fn write_durably(path: &Path, head: &[u8], tail: Option<&Body>) -> io::Result<Tag> {
    create_private_dirs(parent(path)?)?;
    let mut hasher = Sha256::new_with_prefix(head);
    let fill = |file: &mut File| {
        file.write_all(head)?;
        tail.map_or(Ok(()), |tail| {
            tail.each_chunk(|chunk| {
                hasher.update(chunk);
                file.write_all(chunk)
            })
        })
    };
    process::files::write_atomically_with(path, 0o600, fill).map_err(io::Error::other)?;
    Ok(Tag::new(crate::hex(&hasher.finalize())))
}

fn parent(path: &Path) -> io::Result<&Path> {
    path.parent()
        .ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "a path without a parent"))
}

/// Makes the directories that are missing; those that are there stay as they are.
fn create_private_dirs(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    process::files::create_private_dir(dir).map_err(io::Error::other)
}

/// Removes the directories that are empty now; gives the one that stays.
fn remove_empty_parents<'p>(path: &'p Path, root: &Path) -> io::Result<&'p Path> {
    let mut dir = parent(path)?;
    while dir != root && dir.starts_with(root) {
        match fs::remove_dir(dir) {
            Ok(()) => dir = parent(dir)?,
            Err(_) => break,
        }
    }
    Ok(dir)
}

/// Removes what writes that were cut have left behind.
fn sweep(dir: &Path) -> io::Result<()> {
    for entry in entries(dir)? {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            sweep(&path)?;
            continue;
        }
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn walk(dir: &Path, below: &str, keys: &mut Vec<Key>) -> io::Result<()> {
    for entry in entries(dir)? {
        let name = entry.file_name();
        // What is no part of a key (the lock, an unfinished value, a stranger's file) is no value.
        let Some(name) = name.to_str().filter(|name| is_segment(name)) else {
            continue;
        };
        let text = if below.is_empty() {
            name.to_owned()
        } else {
            format!("{below}/{name}")
        };
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &text, keys)?;
        } else if let Ok(key) = Key::new(text) {
            keys.push(key);
        }
    }
    Ok(())
}

fn entries(dir: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.collect(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;

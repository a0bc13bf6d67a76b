//! The file on a disk: one writer at a time, and never half a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use process::files::{FileError, create_private_dir, write_atomically};
use rustix::fs::{FlockOperation, flock};

use crate::lines::KnownHosts;

/// The most that a writer waits for others. Each holds the lock for one read and one write.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `known_hosts` file of a target's own. Never the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHostsFile {
    path: PathBuf,
}

/// Why the file could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KnownHostsError {
    /// The system refused a part of it.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The directory or the file could not be made.
    #[error("the known hosts could not be written")]
    Write(#[source] FileError),
    /// Another process holds the lock and does not end.
    #[error("`{}` is locked by another process for over {} s", path.display(), PATIENCE.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
}

impl KnownHostsFile {
    /// The file at `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; one that is not there is empty.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(&self) -> Result<KnownHosts, KnownHostsError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => Ok(KnownHosts::parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KnownHosts::default()),
            Err(source) => Err(self.failed("read", &self.path, source)),
        }
    }

    /// Changes the file: under the lock it is read, changed by `edit` and written as a whole (0600), or not
    /// at all where nothing changed.
    ///
    /// # Errors
    /// When another process keeps the lock, when the system refuses, or when `edit` does. The file is as it
    /// was then.
    pub fn edit<T, E: From<KnownHostsError>>(
        &self,
        edit: impl FnOnce(&mut KnownHosts) -> Result<T, E>,
    ) -> Result<T, E> {
        // Held until it is dropped at the end: the system gives it up with the process, whatever happens.
        let _lock = self.lock()?;
        let before = self.read()?;
        let mut after = before.clone();
        let value = edit(&mut after)?;
        if after != before {
            write_atomically(&self.path, &after.to_bytes(), 0o600)
                .map_err(KnownHostsError::Write)?;
        }
        Ok(value)
    }

    /// The lock is a file of its own beside it: the file itself is replaced by each write.
    fn lock(&self) -> Result<File, KnownHostsError> {
        if let Some(directory) = self.path.parent() {
            create_private_dir(directory).map_err(KnownHostsError::Write)?;
        }
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| self.failed("open", &path, source))?;
        let taken = process::wait::until(
            Instant::now() + PATIENCE,
            Duration::from_millis(5),
            || match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Some(Ok(())),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => None,
                Err(error) => Some(Err(error)),
            },
        );
        match taken {
            Some(Ok(())) => Ok(file),
            Some(Err(error)) => Err(self.failed("lock", &path, error.into())),
            None => Err(KnownHostsError::Locked { path }),
        }
    }

    fn failed(&self, doing: &'static str, path: &Path, source: io::Error) -> KnownHostsError {
        KnownHostsError::Io {
            doing,
            path: path.to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostPort, PublicKey};

    fn key() -> PublicKey {
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti"
            .parse()
            .unwrap()
    }

    /// Case H5: fifty hosts onboarded at once, and fifty lines afterwards.
    #[test]
    fn fifty_writers_at_once_lose_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = KnownHostsFile::at(dir.path().join("own/known_hosts"));
        std::thread::scope(|scope| {
            for number in 0..50 {
                let file = &file;
                scope.spawn(move || {
                    file.edit(|known| {
                        known.pin(&HostPort::new(&format!("web{number}"), 22), &[key()]);
                        Ok::<_, KnownHostsError>(())
                    })
                    .unwrap();
                });
            }
        });
        let known = file.read().unwrap();
        for number in 0..50 {
            let host = HostPort::new(&format!("web{number}"), 22);
            assert_eq!(known.find(&host).keys, [key()], "{host}");
        }
        assert_eq!(
            String::from_utf8(known.to_bytes()).unwrap().lines().count(),
            50
        );
    }

    #[test]
    fn an_edit_that_fails_or_changes_nothing_leaves_the_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = KnownHostsFile::at(dir.path().join("known_hosts"));
        let nothing: Result<(), KnownHostsError> = file.edit(|_| Ok(()));
        nothing.unwrap();
        assert!(!file.path().exists(), "nothing to say, nothing written");
        let refused: Result<(), KnownHostsError> = file.edit(|known| {
            known.pin(&HostPort::new("web1", 22), &[key()]);
            Err(KnownHostsError::Locked {
                path: "elsewhere".into(),
            })
        });
        assert!(refused.is_err());
        assert!(!file.path().exists());
    }
}

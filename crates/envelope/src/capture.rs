//! Files that a play writes in memory, each of which becomes a sealed secret and is wiped.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use secrets::{MemoryDir, MemoryError, Secret};
use zeroize::Zeroizing;

use crate::keys::{KeyName, KeyNameError};

/// The longest file that is a secret, in bytes.
const LONGEST: u64 = 1024 * 1024;
/// The directory that a play writes to, within the one that names its owner.
const FILES: &str = "files";

/// A directory (0700) in memory that a play writes secrets to.
///
/// What is in it is overwritten and removed when it is dropped. Of a process that was killed it is swept by a
/// later one, as every directory in memory is.
#[derive(Debug)]
pub struct Capture {
    dir: MemoryDir,
}

/// One file that was captured: the name of the secret and its value.
#[derive(Debug)]
pub struct Captured {
    /// The name.
    pub key: KeyName,
    value: Zeroizing<Vec<u8>>,
}

/// What was captured can't be taken.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// There is no directory in memory.
    #[error("there is no place in memory to capture secrets in")]
    NoMemory(#[source] MemoryError),
    /// A file's name can't name a secret.
    #[error("a captured file can't be made a secret")]
    Name(#[source] KeyNameError),
    /// Something else than a file was put there.
    #[error("`{name}` among the captured files is {what}, and each secret is a file of its own")]
    NoFile {
        /// Its name.
        name: String,
        /// What it is.
        what: &'static str,
    },
    /// A file is empty.
    #[error("the captured file `{0}` is empty")]
    Empty(KeyName),
    /// A file is longer than a secret is.
    #[error("the captured file `{0}` is longer than {LONGEST} bytes")]
    TooLong(KeyName),
    /// The system refused.
    #[error("cannot {doing} the captured file `{name}`")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file's name.
        name: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl Captured {
    /// Gives the value to whoever really needs it.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.value
    }

    /// The value as a text; `None` for one that is no text.
    #[must_use]
    pub fn to_secret(&self) -> Option<Secret> {
        std::str::from_utf8(&self.value).ok().map(Secret::new)
    }
}

impl Capture {
    /// Makes one. It is never made on a disk.
    ///
    /// # Errors
    /// When there is no memory-backed place.
    pub fn create() -> Result<Self, CaptureError> {
        let dir = MemoryDir::create("capture").map_err(CaptureError::NoMemory)?;
        let capture = Self { dir };
        process::files::create_private_dir(&capture.path())
            .map_err(|error| CaptureError::NoMemory(error.into()))?;
        Ok(capture)
    }

    /// Where the play writes: a file for each secret, of its name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(FILES)
    }

    /// Reads what was captured, sorted by name. One newline at a value's end is not part of it.
    ///
    /// # Errors
    /// When something there can't be made a secret; everything stays as it is then.
    pub fn read(&self) -> Result<Vec<Captured>, CaptureError> {
        let mut all = Vec::new();
        for (name, path) in self.entries()? {
            let key: KeyName = name.parse().map_err(CaptureError::Name)?;
            let value = read(&key, &path)?;
            all.push(Captured { key, value });
        }
        all.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(all)
    }

    /// Overwrites and removes one file, once its value is sealed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wipe(&self, key: &KeyName) -> Result<(), CaptureError> {
        wipe(&self.path().join(key.as_str())).map_err(|source| CaptureError::Io {
            doing: "wipe",
            name: key.to_string(),
            source,
        })
    }

    fn entries(&self) -> Result<Vec<(String, PathBuf)>, CaptureError> {
        let listed = std::fs::read_dir(self.path()).and_then(|entries| {
            let named = entries.map(|entry| {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                Ok((name, entry.path()))
            });
            named.collect::<io::Result<Vec<_>>>()
        });
        listed.map_err(|source| CaptureError::Io {
            doing: "list",
            name: ".".to_owned(),
            source,
        })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // The directory goes with all that is left in it, whatever that is.
        for (_, path) in self.entries().unwrap_or_default() {
            let _ = wipe(&path);
        }
    }
}

fn read(key: &KeyName, path: &Path) -> Result<Zeroizing<Vec<u8>>, CaptureError> {
    let no_file = |what| CaptureError::NoFile {
        name: key.to_string(),
        what,
    };
    let failed = |source| CaptureError::Io {
        doing: "read",
        name: key.to_string(),
        source,
    };
    let found = std::fs::symlink_metadata(path).map_err(failed)?;
    if found.is_symlink() {
        return Err(no_file("a link"));
    }
    if found.is_dir() {
        return Err(no_file("a directory"));
    }
    if !found.is_file() {
        return Err(no_file("no regular file"));
    }
    let file = opened(path, OpenOptions::new().read(true)).map_err(failed)?;
    // Room for all of it: a buffer that moves leaves a copy behind.
    let room = usize::try_from(found.len().min(LONGEST) + 2).unwrap_or_default();
    let mut value = Zeroizing::new(Vec::with_capacity(room));
    file.take(LONGEST + 1)
        .read_to_end(&mut value)
        .map_err(failed)?;
    if value.len() as u64 > LONGEST {
        return Err(CaptureError::TooLong(key.clone()));
    }
    if value.last() == Some(&b'\n') {
        value.pop();
        if value.last() == Some(&b'\r') {
            value.pop();
        }
    }
    if value.is_empty() {
        return Err(CaptureError::Empty(key.clone()));
    }
    Ok(value)
}

/// Opens a file that is no link: what it is was looked at by its name.
fn opened(path: &Path, options: &mut OpenOptions) -> io::Result<std::fs::File> {
    let no_link = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(no_link.bits()).map_err(io::Error::other)?;
    options.custom_flags(flags).open(path)
}

/// Overwrites a file with zeros and removes it. Of anything else only the name goes.
fn wipe(path: &Path) -> io::Result<()> {
    const ZEROS: [u8; 8192] = [0; 8192];
    let found = std::fs::symlink_metadata(path)?;
    if found.is_dir() {
        for entry in std::fs::read_dir(path)? {
            wipe(&entry?.path())?;
        }
        return std::fs::remove_dir(path);
    }
    if found.is_file() {
        let mut file = opened(path, OpenOptions::new().write(true))?;
        let mut left = found.len();
        file.rewind()?;
        while left > 0 {
            let n = left.min(ZEROS.len() as u64);
            file.write_all(&ZEROS[..usize::try_from(n).unwrap_or(ZEROS.len())])?;
            left -= n;
        }
    }
    std::fs::remove_file(path)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "files as a play would write them"
)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn put(capture: &Capture, name: &str, value: &[u8]) {
        std::fs::write(capture.path().join(name), value).unwrap();
    }

    #[test]
    fn each_file_is_a_secret_of_its_name() {
        let capture = Capture::create().unwrap();
        let mode = std::fs::metadata(capture.path()).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        assert!(capture.path().starts_with("/dev/shm") || capture.path().starts_with("/run"));
        put(&capture, "token", b"hunter2-hunter2\n");
        put(&capture, "a.key", b"\xff\n\n");
        let read = capture.read().unwrap();
        let named: Vec<_> = read
            .iter()
            .map(|one| (one.key.as_str(), one.expose()))
            .collect();
        assert_eq!(
            named,
            [
                ("a.key", b"\xff\n".as_slice()),
                ("token", b"hunter2-hunter2")
            ]
        );
        assert_eq!(read[0].to_secret(), None);
        assert!(!format!("{capture:?}").contains("hunter2"));
        capture.wipe(&read[1].key).unwrap();
        assert_eq!(capture.read().unwrap().len(), 1);
        let path = capture.path();
        drop(capture);
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }

    /// A second name of the same file shows what became of its bytes.
    #[test]
    fn what_is_wiped_is_overwritten_first() {
        let capture = Capture::create().unwrap();
        put(&capture, "token", &b"hunter2".repeat(3000));
        let beside = capture.path().parent().unwrap().join("beside");
        std::fs::hard_link(capture.path().join("token"), &beside).unwrap();
        capture.wipe(&"token".parse().unwrap()).unwrap();
        assert!(
            std::fs::read(&beside)
                .unwrap()
                .iter()
                .all(|byte| *byte == 0)
        );
        put(&capture, "left", &b"hunter2".repeat(3000));
        let dir = MemoryDir::create("test").unwrap();
        let elsewhere = dir.path().join("elsewhere");
        std::fs::hard_link(capture.path().join("left"), &elsewhere).unwrap();
        drop(capture);
        assert!(
            std::fs::read(elsewhere)
                .unwrap()
                .iter()
                .all(|byte| *byte == 0)
        );
    }

    #[test]
    fn what_is_no_file_with_a_value_is_refused() {
        let outside = MemoryDir::create("test").unwrap();
        let other = outside.write("other", b"another's").unwrap();
        for (told, make) in [
            (
                "is a link",
                &(|path: &Path| symlink(&other, path).unwrap()) as &dyn Fn(&Path),
            ),
            ("is a directory", &|path| {
                std::fs::create_dir(path).unwrap();
                std::fs::write(path.join("inner"), b"x").unwrap();
            }),
            ("is empty", &|path| std::fs::write(path, b"\n").unwrap()),
            ("is longer", &|path| {
                std::fs::write(path, vec![b'x'; 1024 * 1024 + 1]).unwrap();
            }),
        ] {
            let capture = Capture::create().unwrap();
            make(&capture.path().join("token"));
            let error = capture.read().unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
            let path = capture.path();
            drop(capture);
            assert!(!path.exists(), "{told}");
        }
        assert_eq!(
            std::fs::read(&other).unwrap(),
            b"another's",
            "a link is never followed"
        );
        let capture = Capture::create().unwrap();
        put(&capture, ".hidden", b"x");
        assert!(matches!(capture.read(), Err(CaptureError::Name(_))));
    }
}

//! Files that are whole or not there: atomic writes, private directories.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a file or directory could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was tried: `write`, `sync`, …
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Something else lies where a private directory should be.
    #[error("`{}` is not a directory of this user's own", path.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
    },
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError::Io {
        doing,
        path,
        source,
    }
}

/// Writes a file as a whole: whatever happens, `path` holds the old bytes or the new ones.
///
/// The bytes and the name are durable when this returns (fsync of file and directory). `mode` is
/// set exactly, whatever the umask.
///
/// # Errors
/// When any part fails; the old file is untouched then.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    write_atomically_with(path, mode, |file| file.write_all(bytes))
}

/// Writes a file as a whole for whoever looks at it while this machine runs; nothing is flushed.
///
/// After a power cut the file may be the old one, the new one, empty or not there: for what lies in memory anyway, for
/// what is made anew when it is missing, and for what says nothing once the machine has started again.
///
/// # Errors
/// When any part fails; the old file is untouched then.
pub fn write_passing(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    replace(path, mode, false, |file| file.write_all(bytes))
}

/// Reads a file that [`write_passing`] wrote; what a power cut left of it counts as no file.
///
/// # Errors
/// When it is there and can't be read.
pub fn read_passing(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        // A file system may keep the length of what it lost.
        Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => Ok(None),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// [`write_atomically`] of what `fill` writes, for values that are not held in memory.
///
/// # Errors
/// When `fill` or any other part fails; the old file is untouched then.
pub fn write_atomically_with(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), FileError> {
    replace(path, mode, true, fill)?;
    sync_dir(directory_of(path))
}

fn replace(
    path: &Path,
    mode: u32,
    is_flushed: bool,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), FileError> {
    fault::point("file.write.before", || name_of(path))
        .ok()
        .map_err(failed("write", path))?;
    let (mut file, temporary) = temporary_beside(path, directory_of(path))?;
    let written = (|| {
        fill(&mut file).map_err(failed("write", &temporary))?;
        file.set_permissions(Permissions::from_mode(mode))
            .map_err(failed("set the mode of", &temporary))?;
        if is_flushed {
            file.sync_all().map_err(failed("sync", &temporary))?;
        }
        let _ = fault::point("file.rename", || name_of(path));
        std::fs::rename(&temporary, path).map_err(failed("replace", path))
    })();
    if let Err(error) = written {
        // The first error is the one to tell; a leftover is harmless.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(())
}

/// Makes the names in a directory durable.
///
/// # Errors
/// When the system refuses.
pub fn sync_dir(directory: &Path) -> Result<(), FileError> {
    File::open(directory)
        .and_then(|opened| opened.sync_all())
        .map_err(failed("sync", directory))
}

/// Makes a new file that only this user may read and write (0600), for appending.
///
/// # Errors
/// When it exists already, a link included, or when the system refuses.
pub fn create_private_file(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed("make", path))
}

/// Makes a directory, and those above it that are missing, for this user alone (0700).
///
/// One that exists is kept: it must be this user's own and no link, and loses what others may do.
///
/// # Errors
/// When the system refuses, or when something that is not ours lies there.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    private_dir(path, true)
}

/// [`create_private_dir`] without flushing the names of what is made, as [`write_passing`] does for files.
///
/// # Errors
/// As there.
pub fn create_passing_dir(path: &Path) -> Result<(), FileError> {
    private_dir(path, false)
}

fn private_dir(path: &Path, is_flushed: bool) -> Result<(), FileError> {
    let flush = |directory: &Path| match is_flushed {
        true => sync_dir(directory),
        false => Ok(()),
    };
    let make = || DirBuilder::new().mode(0o700).create(path);
    let mut made = make();
    if let Err(error) = &made
        && error.kind() == io::ErrorKind::NotFound
        && path.parent().is_some()
    {
        create_private_parents(directory_of(path), &flush)?;
        // Once more and no oftener: `/proc` says "not found" of what it can't make.
        made = make();
    }
    match made {
        Ok(()) => return flush(directory_of(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed("make", path)(error)),
    }
    let found = std::fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(FileError::NotOurs {
            path: path.to_owned(),
        });
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(failed("set the mode of", path))?;
    }
    Ok(())
}

/// Makes those directories that are missing; those that exist are somebody's and stay as they are.
fn create_private_parents(
    path: &Path,
    flush: &dyn Fn(&Path) -> Result<(), FileError>,
) -> Result<(), FileError> {
    if path.is_dir() {
        return Ok(());
    }
    if path
        .parent()
        .is_some_and(|parent| !parent.as_os_str().is_empty())
    {
        create_private_parents(directory_of(path), flush)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => flush(directory_of(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(failed("make", path)(error)),
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => Path::new("/"),
    }
}

fn name_of(path: &Path) -> String {
    fault::steady(&path.file_name().unwrap_or_default().to_string_lossy())
}

fn temporary_beside(path: &Path, directory: &Path) -> Result<(File, PathBuf), FileError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default();
    loop {
        let mut temporary = std::ffi::OsString::from(".");
        temporary.push(name);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        temporary.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = directory.join(temporary);
        match create_private_file(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            // A leftover of a dead process that had our number.
            Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn an_atomic_write_replaces_the_whole_file_with_the_given_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write_atomically(&path, b"first, and longer", 0o600).unwrap();
        write_atomically(&path, b"second", 0o640).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert_eq!(mode_of(&path), 0o640);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no leftover"
        );
    }

    #[test]
    fn an_atomic_write_that_fails_leaves_the_old_file_and_no_leftover() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        std::fs::create_dir(&path).unwrap();
        let error = write_atomically(&path, b"x", 0o600).unwrap_err();
        assert!(
            matches!(
                error,
                FileError::Io {
                    doing: "replace",
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(path.is_dir());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_power_cut_left_of_a_passing_file_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert_eq!(read_passing(&path).unwrap(), None);
        for (there, read) in [
            (&b""[..], None),
            (b"\0\0\0", None),
            (b"\0x", Some(&b"\0x"[..])),
        ] {
            write_passing(&path, there, 0o600).unwrap();
            assert_eq!(read_passing(&path).unwrap().as_deref(), read, "{there:?}");
        }
        assert!(read_passing(dir.path()).is_err());
    }

    #[test]
    fn a_private_directory_is_made_with_its_parents_and_loses_what_others_may_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        create_private_dir(&path).unwrap();
        assert_eq!(
            (mode_of(&path), mode_of(&dir.path().join("a"))),
            (0o700, 0o700)
        );
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        create_private_dir(&path).unwrap();
        assert_eq!(mode_of(&path), 0o700);
    }

    #[test]
    fn a_link_is_no_private_directory() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(matches!(
            create_private_dir(&link),
            Err(FileError::NotOurs { .. })
        ));
    }

    #[test]
    fn a_directory_that_can_not_be_made_is_an_error_and_not_an_endless_try() {
        // `/proc` answers "not found" to every attempt to make something in it.
        let error = create_private_dir(Path::new("/proc/rebuild/store")).unwrap_err();
        assert!(error.to_string().contains("/proc/rebuild"), "{error}");
        assert!(create_private_dir(Path::new("/proc/rebuild")).is_err());
    }
}

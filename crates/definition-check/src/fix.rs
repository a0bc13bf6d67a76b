//! The one write into a platform directory: a file in its canonical form.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use process::files::{FileError, write_atomically};

use crate::format::Change;

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fixed {
    /// The file has its canonical form now.
    Written,
    /// Somebody changed the file since it was read; it is left alone.
    Overtaken,
}

/// Writes the canonical form of a file, whole or not at all. A link stays a link.
pub(crate) fn fix(platform_dir: &Path, change: &Change) -> Result<Fixed, FileError> {
    let named = platform_dir.join(&change.file);
    let failed = |doing, path: &Path| {
        let path: PathBuf = path.to_owned();
        move |source: io::Error| FileError::Io {
            doing,
            path,
            source,
        }
    };
    let path = named.canonicalize().map_err(failed("find", &named))?;
    let there = fs::read(&path).map_err(failed("read", &path))?;
    // One file can be named twice, through links.
    if there == change.now {
        return Ok(Fixed::Written);
    }
    if there != change.was {
        return Ok(Fixed::Overtaken);
    }
    let metadata = fs::metadata(&path).map_err(failed("look at", &path))?;
    write_atomically(&path, &change.now, metadata.permissions().mode() & 0o7777)?;
    Ok(Fixed::Written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> Change {
        Change {
            file: "link.tf".to_owned(),
            was: b"was".to_vec(),
            now: b"now".to_vec(),
        }
    }

    #[test]
    fn the_mode_and_a_link_stay_and_a_second_time_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real.tf");
        write_atomically(&real, b"was", 0o640).unwrap();
        std::os::unix::fs::symlink("real.tf", dir.path().join("link.tf")).unwrap();
        for _ in 0..2 {
            assert_eq!(fix(dir.path(), &change()).unwrap(), Fixed::Written);
        }
        assert_eq!(fs::read(&real).unwrap(), b"now");
        assert_eq!(
            fs::metadata(&real).unwrap().permissions().mode() & 0o7777,
            0o640
        );
        assert!(dir.path().join("link.tf").is_symlink());
    }

    #[test]
    fn a_file_that_somebody_changed_meanwhile_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("link.tf");
        write_atomically(&file, b"new words", 0o644).unwrap();
        assert_eq!(fix(dir.path(), &change()).unwrap(), Fixed::Overtaken);
        assert_eq!(fs::read(&file).unwrap(), b"new words");
    }
}

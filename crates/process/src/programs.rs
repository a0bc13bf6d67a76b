//! Which file a program's name means.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::spawn::SpawnError;

/// Finds the file of a program: a bare name on `path_variable`, anything else from `cwd` on.
///
/// An entry of the `PATH` that is empty or relative is left out: what runs must not depend on the
/// directory that somebody stands in.
///
/// # Errors
/// [`SpawnError::Missing`] and [`SpawnError::NotExecutable`].
pub fn find_program(
    program: &Path,
    path_variable: Option<&OsStr>,
    cwd: &Path,
) -> Result<PathBuf, SpawnError> {
    let is_bare = program.components().count() == 1
        && !program.as_os_str().as_encoded_bytes().contains(&b'/');
    if !is_bare {
        let file = cwd.join(program);
        return match std::fs::metadata(&file) {
            Ok(found) if found.is_file() && access(&file, Access::EXEC_OK).is_ok() => Ok(file),
            Ok(_) => Err(SpawnError::NotExecutable { program: file }),
            Err(_) => Err(SpawnError::Missing {
                program: file,
                on_path: false,
            }),
        };
    }
    let mut not_executable = None;
    for directory in std::env::split_paths(path_variable.unwrap_or_default()) {
        if !directory.is_absolute() {
            continue;
        }
        let file = directory.join(program);
        if !file.is_file() {
            continue;
        }
        if access(&file, Access::EXEC_OK).is_ok() {
            return Ok(file);
        }
        not_executable.get_or_insert(file);
    }
    Err(match not_executable {
        Some(program) => SpawnError::NotExecutable { program },
        None => SpawnError::Missing {
            program: program.to_owned(),
            on_path: true,
        },
    })
}

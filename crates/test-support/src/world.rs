//! A home, a working directory and a `bin` of a test's own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Command, FakeProgram};

/// The small world that a program under test lives in; removed when dropped.
#[derive(Debug)]
pub struct World {
    root: TempDir,
}

impl World {
    /// Makes an empty world.
    ///
    /// # Panics
    /// When the temporary directory can't be made.
    #[must_use]
    pub fn new() -> Self {
        let root = tempfile::Builder::new()
            .prefix("rebuild-test-")
            .tempdir()
            .expect("a temporary directory");
        for part in ["home", "work", "bin", "state", "tmp"] {
            std::fs::create_dir(root.path().join(part)).expect("a part of the world");
        }
        Self { root }
    }

    /// The directory that holds the whole world.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// HOME of every program.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// Where every program is started.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The first directory on PATH, for fake programs.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    /// `XDG_STATE_HOME` of every program.
    #[must_use]
    pub fn state_home(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// Writes a file below the working directory, with the directories above it.
    ///
    /// # Panics
    /// When it can't be written.
    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.work().join(path);
        write_file(&path, text);
        path
    }

    /// A program to be run in this world, with nothing in its environment but what the world gives it.
    pub fn command(&self, program: impl Into<PathBuf>) -> Command {
        Command::new(program.into(), self.work(), self.env())
    }

    /// Puts a fake program into `bin`.
    #[must_use]
    pub fn fake_program(&self, name: &str) -> FakeProgram {
        FakeProgram::new(&self.bin(), name)
    }

    /// The whole environment of a program in this world.
    #[must_use]
    pub fn env(&self) -> BTreeMap<OsString, OsString> {
        let mut path = self.bin().into_os_string();
        path.push(":/usr/local/bin:/usr/bin:/bin");
        let mut env = BTreeMap::<OsString, OsString>::new();
        env.insert("PATH".into(), path);
        env.insert("HOME".into(), self.home().into());
        env.insert("USER".into(), "operator".into());
        env.insert("LANG".into(), "C.UTF-8".into());
        env.insert("TERM".into(), "xterm".into());
        env.insert("TMPDIR".into(), self.root.path().join("tmp").into());
        env.insert("XDG_STATE_HOME".into(), self.state_home().into());
        env
    }

    /// Every file of the world below `dir` whose bytes contain `needle`; for tests that look for leaked secrets.
    ///
    /// # Panics
    /// When a directory can't be read.
    #[must_use]
    pub fn files_with(&self, dir: &Path, needle: &[u8]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut waiting = vec![dir.to_owned()];
        while let Some(dir) = waiting.pop() {
            let entries = match std::fs::read_dir(&dir) {
                // What lives on may take away what was there a moment ago.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                entries => entries.expect("a readable directory"),
            };
            for entry in entries {
                let path = entry.expect("a directory entry").path();
                let kind = match std::fs::symlink_metadata(&path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    found => found.expect("metadata").file_type(),
                };
                if kind.is_dir() {
                    waiting.push(path);
                } else if kind.is_file()
                    && std::fs::read(&path).is_ok_and(|bytes| contains(&bytes, needle))
                {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && bytes.windows(needle.len()).any(|window| window == needle)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test's own file: half of it harms nobody"
)]
pub(crate) fn write_file(path: &Path, text: &str) {
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above).expect("a directory of the world");
    }
    std::fs::write(path, text).expect("a file of the world");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needle_is_found_where_it_lies_and_nowhere_else() {
        let world = World::new();
        let leak = world.write("a/b", "x hunter2 y");
        world.write("a/c", "nothing");
        assert_eq!(world.files_with(&world.work(), b"hunter2"), [leak]);
        assert!(world.files_with(&world.work(), b"absent").is_empty());
    }
}

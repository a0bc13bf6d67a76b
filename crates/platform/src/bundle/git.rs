//! What git knows of a directory: the files that it would commit, the commit, whether all is committed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::{CollectError, How, Invocation, Spawner, collect, find_program};

/// How long git may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Why git gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It can't be run to its end.
    #[error("cannot run git")]
    Run(#[source] CollectError),
    /// It names a file in a way that can't be kept.
    #[error("git lists a name that is not UTF-8: `{shown}`")]
    Name {
        /// The name as far as it can be shown.
        shown: String,
    },
}

/// Where a directory stands in its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitState {
    /// The commit that is checked out.
    pub commit: String,
    /// Whether there is anything in the directory that is not committed.
    pub dirty: bool,
}

/// What git knows of a directory.
pub trait GitView {
    /// Lists the files that git would commit, relative to `directory`; `None` outside of a work tree.
    ///
    /// # Errors
    /// Git is there and can't be run.
    fn files(&self, directory: &Path) -> Result<Option<Vec<String>>, GitError>;

    /// Returns the commit and whether all is committed; `None` outside of a work tree and before
    /// the first commit.
    ///
    /// # Errors
    /// Git is there and can't be run.
    fn state(&self, directory: &Path) -> Result<Option<GitState>, GitError>;
}

/// A machine without git.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGit;

impl GitView for NoGit {
    fn files(&self, _: &Path) -> Result<Option<Vec<String>>, GitError> {
        Ok(None)
    }

    fn state(&self, _: &Path) -> Result<Option<GitState>, GitError> {
        Ok(None)
    }
}

/// The git on the caller's PATH; without one, the same as [`NoGit`].
pub struct Git<'a> {
    spawner: &'a dyn Spawner,
    program: Option<PathBuf>,
    env: BTreeMap<OsString, OsString>,
}

impl<'a> Git<'a> {
    /// Finds git on the PATH of the caller's environment.
    ///
    /// It runs in that environment, but for what points it to another repository.
    pub fn find(spawner: &'a dyn Spawner, caller_env: &BTreeMap<OsString, OsString>) -> Self {
        let path = caller_env.get(OsStr::new("PATH")).map(OsString::as_os_str);
        let program = find_program(Path::new("git"), path, Path::new("/")).ok();
        let steering = |name: &OsString| {
            name.to_str()
                .is_some_and(|name| name.starts_with("GIT_") && !name.starts_with("GIT_CONFIG"))
        };
        let mut env: BTreeMap<OsString, OsString> = caller_env
            .iter()
            .filter(|(name, _)| !steering(name))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        env.insert("LC_ALL".into(), "C".into());
        // Without it `status` writes to the index.
        env.insert("GIT_OPTIONAL_LOCKS".into(), "0".into());
        Self {
            spawner,
            program,
            env,
        }
    }

    /// Runs git; `None` when it is not there or does not end with 0.
    fn ask(&self, directory: &Path, args: &[&str]) -> Result<Option<Vec<u8>>, GitError> {
        let Some(program) = &self.program else {
            return Ok(None);
        };
        let mut call = Invocation::new(program, directory).args(args.iter().copied());
        call.env = self.env.clone();
        let output = collect(self.spawner, &call, &How::reader(), LIMIT, &mut || false)
            .map_err(GitError::Run)?;
        Ok(output.exit.is_success().then_some(output.stdout))
    }
}

impl GitView for Git<'_> {
    fn files(&self, directory: &Path) -> Result<Option<Vec<String>>, GitError> {
        let Some(listed) = self.ask(
            directory,
            &[
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ],
        )?
        else {
            return Ok(None);
        };
        listed
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| {
                String::from_utf8(name.to_vec()).map_err(|_| GitError::Name {
                    shown: String::from_utf8_lossy(name).into_owned(),
                })
            })
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn state(&self, directory: &Path) -> Result<Option<GitState>, GitError> {
        let Some(commit) = self.ask(directory, &["rev-parse", "--verify", "HEAD"])? else {
            return Ok(None);
        };
        let changes = self.ask(
            directory,
            &[
                "status",
                "--porcelain",
                "-z",
                "--untracked-files=normal",
                "--",
                ".",
            ],
        )?;
        Ok(Some(GitState {
            commit: String::from_utf8_lossy(&commit).trim().to_owned(),
            dirty: changes.is_none_or(|changes| !changes.is_empty()),
        }))
    }
}

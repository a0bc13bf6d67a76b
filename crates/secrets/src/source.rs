//! Where a secret comes from.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::{CollectError, Exit, How, Invocation, Spawner, collect};
use zeroize::Zeroize;

use crate::secret::Secret;

/// The longest secret that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// How long a command that fetches a secret may take: somebody may have to touch a key.
const LIMIT: Duration = Duration::from_secs(120);

/// Where a secret comes from: exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A variable of the caller's environment.
    Env(String),
    /// A file; `~/` is the caller's home, a relative path counts from the platform's directory.
    File(PathBuf),
    /// What a command prints; program and arguments.
    Command(Vec<String>),
    /// An entry of the target's envelope.
    Envelope(String),
}

/// Why a secret was not fetched. Names the source, never the value.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The variable is not set.
    #[error("the environment variable `{name}` is not set")]
    Unset {
        /// The variable.
        name: String,
    },
    /// The source gave an empty value.
    #[error("{what} is empty")]
    Empty {
        /// The source in words.
        what: Source,
    },
    /// The value is no text.
    #[error("{what} is not UTF-8 text")]
    NotText {
        /// The source in words.
        what: Source,
    },
    /// The value is longer than a secret is.
    #[error("{what} is longer than {LONGEST} bytes")]
    TooLong {
        /// The source in words.
        what: Source,
    },
    /// The file could not be read.
    #[error("cannot read the file `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// `~/` was named and there is no home directory.
    #[error("the file `{}` is in a home directory, and there is none", path.display())]
    NoHome {
        /// The file as it was named.
        path: PathBuf,
    },
    /// The command names no program.
    #[error("the command names no program")]
    NoProgram,
    /// The command did not run to its end.
    #[error("cannot run the command `{program}`")]
    Command {
        /// Its program.
        program: String,
        /// Why.
        #[source]
        source: CollectError,
    },
    /// The command failed. What it said on stderr is told; what it printed on stdout is not.
    #[error("the command `{program}` failed with {exit}{}{stderr}", if stderr.is_empty() { "" } else { ": " })]
    CommandFailed {
        /// Its program.
        program: String,
        /// How it ended.
        exit: Exit,
        /// The end of its stderr, on one line.
        stderr: String,
    },
    /// Whoever asked has no envelope to open.
    #[error("there is no envelope here that could hold `{name}`")]
    NoEnvelope {
        /// The entry.
        name: String,
    },
    /// The entry of an envelope was not opened.
    #[error("cannot open the envelope's entry `{name}`")]
    Envelope {
        /// The entry.
        name: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Source {
    /// Fetches the secret, once; one trailing newline of a file or command is not part of it.
    ///
    /// A command runs in the caller's environment and in `cwd`, with an empty stdin. What an envelope holds is
    /// opened by whoever has the target's identity, not here.
    ///
    /// # Errors
    /// When there is no value, or an empty one.
    pub fn fetch(
        &self,
        caller_env: &BTreeMap<OsString, OsString>,
        home: &Path,
        cwd: &Path,
        spawner: &dyn Spawner,
    ) -> Result<Secret, FetchError> {
        match self {
            Self::Env(name) => match caller_env.get(OsStr::new(name)) {
                None => Err(FetchError::Unset { name: name.clone() }),
                Some(value) => self.checked(value.as_encoded_bytes().to_vec()),
            },
            Self::File(path) => self.checked(without_newline(self.read(path, home, cwd)?)),
            Self::Command(argv) => self.run(argv, caller_env, cwd, spawner),
            Self::Envelope(name) => Err(FetchError::NoEnvelope { name: name.clone() }),
        }
    }

    fn read(&self, path: &Path, home: &Path, cwd: &Path) -> Result<Vec<u8>, FetchError> {
        let path = match path.strip_prefix("~") {
            Err(_) => cwd.join(path),
            Ok(_) if home.as_os_str().is_empty() => {
                return Err(FetchError::NoHome {
                    path: path.to_owned(),
                });
            }
            Ok(rest) => home.join(rest),
        };
        let mut bytes = Vec::new();
        std::fs::File::open(&path)
            .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
            .map_err(|source| FetchError::File { path, source })?;
        Ok(bytes)
    }

    fn run(
        &self,
        argv: &[String],
        caller_env: &BTreeMap<OsString, OsString>,
        cwd: &Path,
        spawner: &dyn Spawner,
    ) -> Result<Secret, FetchError> {
        let (program, args) = argv.split_first().ok_or(FetchError::NoProgram)?;
        let call = Invocation::new(program, cwd)
            .args(args)
            .envs(caller_env.clone());
        let mut answer =
            collect(spawner, &call, &How::reader(), LIMIT, &mut || false).map_err(|source| {
                FetchError::Command {
                    program: program.clone(),
                    source,
                }
            })?;
        if answer.exit.is_success() {
            return self.checked(answer.stdout);
        }
        answer.stdout.zeroize();
        let (program, exit) = (program.clone(), answer.exit);
        Err(FetchError::CommandFailed {
            program,
            exit,
            stderr: end_of(&answer.stderr),
        })
    }

    fn checked(&self, bytes: Vec<u8>) -> Result<Secret, FetchError> {
        let what = || self.clone();
        if bytes.len() as u64 > LONGEST {
            return Err(FetchError::TooLong { what: what() });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            error.into_bytes().zeroize();
            FetchError::NotText { what: what() }
        })?;
        if text.is_empty() {
            return Err(FetchError::Empty { what: what() });
        }
        Ok(Secret::new(text))
    }
}

/// Reads as ``the environment variable `NAME` ``, ``the file `PATH` ``, ….
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the environment variable `{name}`"),
            Self::File(path) => write!(f, "the file `{}`", path.display()),
            Self::Command(argv) => {
                let program = argv.first().map_or("", String::as_str);
                write!(f, "the output of the command `{program}`")
            }
            Self::Envelope(name) => write!(f, "the envelope's entry `{name}`"),
        }
    }
}

fn without_newline(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    bytes
}

/// The last words, on one line.
fn end_of(stderr: &[u8]) -> String {
    const MOST: usize = 400;
    let text = String::from_utf8_lossy(stderr);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().rev().nth(MOST) {
        None => line,
        Some((at, _)) => format!("…{}", &line[at..]),
    }
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;

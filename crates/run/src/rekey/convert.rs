//! One stored state from one key to another, by OpenTofu's own hand: pulled with the one, pushed with the other.
//!
//! Both happen in a memory-backed directory on a state file of its own, so nothing that is in the clear comes to a disk,
//! and OpenTofu always writes: where nothing differs it would leave a state as it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use process::{How, Invocation, collect};
use secrets::MemoryDir;
use tofu::encryption::{self, Fallback, KeySource};
use tofu::{Program, StateFacts, StateFactsError, with_serial};

use crate::api::Machine;
use crate::environment::Environment;

/// For one call of OpenTofu on one state, which asks nobody anything.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why a state did not come over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConvertError {
    /// It is no state.
    #[error(transparent)]
    State(#[from] StateFactsError),
    /// A file could not be written to memory.
    #[error("cannot keep a state in memory")]
    Memory(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// OpenTofu could not be run.
    #[error("cannot run OpenTofu")]
    Run(#[from] process::CollectError),
    /// OpenTofu refused.
    #[error("OpenTofu can't {act} it: {said}")]
    Refused { act: &'static str, said: String },
}

fn in_memory(error: impl std::error::Error + Send + Sync + 'static) -> ConvertError {
    ConvertError::Memory(Box::new(error))
}

/// What turns states.
pub(crate) struct Converter<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) program: &'a Program,
    pub(crate) env: Environment,
    pub(crate) memory: &'a MemoryDir,
    pub(crate) n_dirs: AtomicU64,
}

impl Converter<'_> {
    /// The state in the clear; `key` is none for one that lies open.
    pub(crate) fn open(
        &self,
        stored: &[u8],
        key: Option<&KeySource>,
    ) -> Result<Vec<u8>, ConvertError> {
        let Some(key) = key else {
            let facts = StateFacts::read(stored)?;
            return match facts.is_encrypted {
                false => Ok(stored.to_vec()),
                true => Err(ConvertError::Refused {
                    act: "read",
                    said: "it is encrypted, and without a passphrase it can't be".to_owned(),
                }),
            };
        };
        if !StateFacts::read(stored)?.is_encrypted {
            return Err(ConvertError::Refused {
                act: "decrypt",
                said: "it lies open".to_owned(),
            });
        }
        let dir = self.dir(Some(stored))?;
        let plain = self.run(&dir, "decrypt", key, &["state", "pull"])?;
        let _ = std::fs::remove_dir_all(&dir);
        StateFacts::read(&plain)?;
        Ok(plain)
    }

    /// The state with the serial `serial`, closed by `key`; in the clear without one.
    pub(crate) fn close(
        &self,
        plain: &[u8],
        serial: u64,
        key: Option<&KeySource>,
    ) -> Result<Vec<u8>, ConvertError> {
        let Some(key) = key else {
            return Ok(with_serial(plain, serial)?);
        };
        let dir = self.dir(None)?;
        // A push counts one on (measured).
        let before = with_serial(plain, serial.saturating_sub(1))?;
        self.write(&dir.join("pushed.json"), &before)?;
        self.run(&dir, "encrypt", key, &["state", "push", "pushed.json"])?;
        let closed = std::fs::read(dir.join("terraform.tfstate")).map_err(in_memory)?;
        let _ = std::fs::remove_dir_all(&dir);
        Ok(closed)
    }

    fn dir(&self, state: Option<&[u8]>) -> Result<std::path::PathBuf, ConvertError> {
        let n = self.n_dirs.fetch_add(1, Ordering::Relaxed);
        let dir = self.memory.path().join(format!("rekey-{n}"));
        std::fs::create_dir(&dir).map_err(in_memory)?;
        if let Some(state) = state {
            self.write(&dir.join("terraform.tfstate"), state)?;
        }
        Ok(dir)
    }

    fn write(&self, path: &std::path::Path, bytes: &[u8]) -> Result<(), ConvertError> {
        process::files::write_atomically(path, bytes, 0o600).map_err(in_memory)
    }

    fn run(
        &self,
        dir: &std::path::Path,
        act: &'static str,
        key: &KeySource,
        arguments: &[&str],
    ) -> Result<Vec<u8>, ConvertError> {
        let settings = encryption::environment(key, &Fallback::None);
        let first = self.program.command.iter().skip(1);
        let mut call = Invocation::new(&self.program.path, dir)
            .args(first.cloned())
            .args(arguments.iter().copied());
        for (name, value) in &self.env {
            call = call.env(name.to_string_lossy().into_owned(), value);
        }
        let call = call
            .env("TF_ENCRYPTION", settings.expose())
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_INPUT", "0")
            .env("CHECKPOINT_DISABLE", "1");
        let spawner = self.machine.spawner.as_ref();
        let done = collect(spawner, &call, &How::reader(), PATIENCE, &mut || false)?;
        if done.exit.is_success() {
            return Ok(done.stdout);
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said
            .lines()
            .map(|line| line.trim_matches(|c: char| c.is_whitespace() || "│╷╵".contains(c)))
            .find(|line| line.contains("Error"))
            .unwrap_or("it does not say why");
        Err(ConvertError::Refused {
            act,
            said: said.to_owned(),
        })
    }
}

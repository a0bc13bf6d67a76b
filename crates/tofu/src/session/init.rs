//! `init`: only where nothing warm fits, tried again for network faults alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use process::wait;

use super::{Session, io_cause, modules};
use crate::arguments::Command;
use crate::control::Wanted;
use crate::disk;
use crate::error::{Cause, InitFailure, RunError};
use crate::lock_file::{LOCK_FILE_NAME, LockFile};
use crate::outcome::Outcome;
use crate::plugins::{self, Package};
use crate::step_dir::{StepDir, backend_type};

/// The lock file as an `init` left it, kept beside what it installed.
const KEPT_LOCK: &str = "rebuild.lock.hcl";

/// Pauses before another try after a network fault.
pub(super) const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(10),
];

/// Which dependency lock file applies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LockPolicy {
    /// There is neither a committed nor a recorded one: `init` chooses, and its result is to be
    /// recorded.
    #[default]
    Fresh,
    /// One that was recorded, not committed: what it names stays, what is new comes in.
    Recorded(Vec<u8>),
    /// One that must fit as it is (`-lockfile=readonly`): committed, or of a stored bundle.
    Exactly(Vec<u8>),
}

/// What an `init` did.
#[derive(Debug, Clone)]
pub struct InitReport {
    /// Whether a warm data directory was used again: no process ran.
    pub was_warm: bool,
    /// The data directory.
    pub data_dir: PathBuf,
    /// The lock file as it is now; `None` where no provider needs one.
    pub lock_file: Option<Vec<u8>>,
    /// The provider packages in the data directory.
    pub providers: Vec<Package>,
    /// What OpenTofu said.
    pub outcome: Outcome,
}

impl Session {
    /// Makes the data directory fit: a warm one is used again, else `init` runs. `upgrade` takes new
    /// versions of providers and modules, and no lock file is taken as it is then.
    ///
    /// # Errors
    /// With [`Cause::Init`] when OpenTofu refuses.
    pub fn init(&self, upgrade: bool) -> Result<InitReport, RunError> {
        let settings = &self.settings;
        let fail =
            |error: std::io::Error| self.error("init", io_cause("use the data directory", error));
        let lock = self.working_lock_file();
        let module = self.module_key(&self.modules);
        let digest = settings.init_inputs.digest(&module, lock.as_deref());
        let tool = self.tool();
        let data_dir = if upgrade {
            settings.step.fresh_data_dir(&digest).map_err(fail)?
        } else {
            settings.step.data_dir(&digest)
        };
        let is_warm =
            || !upgrade && StepDir::is_warm(&data_dir, &tool) && holds(&data_dir, lock.as_deref());
        if is_warm() {
            return self.warm(data_dir);
        }
        let _held = StepDir::lock_data_dir(&data_dir).map_err(fail)?;
        if is_warm() {
            return self.warm(data_dir);
        }
        if let Some(former) = StepDir::warm_path(&data_dir)
            && fs::canonicalize(&data_dir).map_err(fail)? != former
        {
            modules::mend(&data_dir, &former).map_err(fail)?;
        }
        StepDir::mark_cold(&data_dir).map_err(fail)?;
        modules::unpack(&data_dir, &self.modules).map_err(fail)?;
        self.place_lock_file(lock.as_deref())?;

        let parsed = lock
            .as_deref()
            .and_then(|bytes| LockFile::parse(bytes).ok());
        let offline = !upgrade
            && parsed
                .as_ref()
                .is_some_and(|lock| settings.workshop.plugins().has_all(lock));
        let command = Command::Init {
            upgrade,
            read_only_lock_file: !upgrade && matches!(settings.lock_file, LockPolicy::Exactly(_)),
            backend: settings.backend.is_some(),
        };
        let outcome = self.try_init(&command, &data_dir, offline, lock.as_deref())?;

        if settings.backend.is_some() {
            let found = backend_type(&data_dir);
            if found.as_deref() != Some("http") {
                let cause = Cause::Init(InitFailure::Backend { found });
                return Err(RunError {
                    outcome: Box::new(outcome),
                    ..self.error("init", cause)
                });
            }
        }
        let lock_file = self.lock_file_now().map_err(fail)?;
        let parsed = lock_file
            .as_deref()
            .and_then(|bytes| LockFile::parse(bytes).ok());
        let providers = settings
            .workshop
            .plugins()
            .keep(&data_dir, parsed.as_ref())
            .map_err(fail)?;
        let kept = data_dir.join(KEPT_LOCK);
        match &lock_file {
            Some(bytes) => disk::write(&kept, bytes, 0o600)
                .map_err(|error| self.error("init", io_cause("keep the lock file", error)))?,
            None => disk::remove_if_there(&kept).map_err(fail)?,
        }
        StepDir::mark_warm(&data_dir, &tool).map_err(fail)?;
        // The next call comes with the lock file that this one made, and the modules that it downloaded.
        let modules = modules::pack(&data_dir).map_err(fail)?;
        let next = settings
            .init_inputs
            .digest(&self.module_key(&modules), lock_file.as_deref());
        if let Some(name) = data_dir.file_name().and_then(|name| name.to_str()) {
            settings.step.alias_data_dir(name, &next).map_err(fail)?;
        }
        settings.step.prune_data_dirs(&data_dir);
        *self.data_dir.lock().unwrap_or_else(PoisonError::into_inner) = Some(data_dir.clone());
        Ok(InitReport {
            was_warm: false,
            data_dir,
            lock_file,
            providers,
            outcome,
        })
    }

    /// After OpenTofu said that the data directory does not fit: `init` there, whatever its marker
    /// says.
    pub(super) fn reinit(&self, data_dir: &Path) -> Result<PathBuf, RunError> {
        StepDir::mark_cold(data_dir)
            .map_err(|error| self.error("init", io_cause("use the data directory", error)))?;
        *self.data_dir.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(self.init(false)?.data_dir)
    }

    /// What names a data directory beside the files and the lock file: other downloaded modules are another one.
    fn module_key(&self, modules: &[super::ModuleFile]) -> String {
        let settings = &self.settings;
        let key = format!("{}\n{}", settings.root_module, settings.backend.is_some());
        match modules::digest(modules) {
            Some(digest) => format!("{key}\n{digest}"),
            None => key,
        }
    }

    fn tool(&self) -> String {
        format!(
            "{} {}",
            self.settings.program.version, self.settings.program.digest
        )
    }

    fn warm(&self, data_dir: PathBuf) -> Result<InitReport, RunError> {
        let fail =
            |error: std::io::Error| self.error("init", io_cause("use the data directory", error));
        let lock_file = disk::read_if_there(&data_dir.join(KEPT_LOCK)).map_err(fail)?;
        self.place_lock_file(lock_file.as_deref())?;
        StepDir::touch_warm(&data_dir);
        let providers = plugins::packages(&data_dir.join("providers")).map_err(fail)?;
        *self.data_dir.lock().unwrap_or_else(PoisonError::into_inner) = Some(data_dir.clone());
        Ok(InitReport {
            was_warm: true,
            data_dir,
            lock_file,
            providers,
            outcome: Outcome::default(),
        })
    }

    /// The lock file that `init` is to work with, completed by what the plugin cache has proven.
    fn working_lock_file(&self) -> Option<Vec<u8>> {
        let bytes = match &self.settings.lock_file {
            LockPolicy::Fresh => return None,
            LockPolicy::Recorded(bytes) | LockPolicy::Exactly(bytes) => bytes,
        };
        // One that can't be read is OpenTofu's to refuse, with file and line.
        let Ok(mut lock) = LockFile::parse(bytes) else {
            return Some(bytes.clone());
        };
        let before = lock.clone();
        self.settings.workshop.plugins().complete(&mut lock);
        if lock == before {
            Some(bytes.clone())
        } else {
            Some(lock.to_string().into_bytes())
        }
    }

    fn place_lock_file(&self, bytes: Option<&[u8]>) -> Result<(), RunError> {
        let settings = &self.settings;
        settings
            .step
            .write_lock_file(settings.slot, &settings.root_module, bytes)
            .map_err(|error| self.error("init", error))
    }

    fn lock_file_now(&self) -> std::io::Result<Option<Vec<u8>>> {
        disk::read_if_there(&self.directory.join(LOCK_FILE_NAME))
    }

    /// Runs `init` until it goes well or fails for another reason than the network.
    fn try_init(
        &self,
        command: &Command,
        data_dir: &Path,
        offline: bool,
        lock: Option<&[u8]>,
    ) -> Result<Outcome, RunError> {
        let mut offline = offline;
        let mut pauses = self.init_pauses.iter();
        loop {
            let mut error = match self.run_once(command, data_dir, offline, None) {
                Ok(ran) => return Ok(ran.outcome),
                Err(error) => error,
            };
            if !matches!(*error.cause, Cause::Ended(_)) {
                return Err(error);
            }
            if offline {
                // The cache alone did not do after all: a module or a new provider.
                offline = false;
                self.place_lock_file(lock)?;
                continue;
            }
            let failure = self.classify(&error.outcome, data_dir, lock);
            if failure == InitFailure::Network
                && let Some(pause) = pauses.next()
                && self.pause(*pause)
            {
                self.place_lock_file(lock)?;
                continue;
            }
            *error.cause = Cause::Init(failure);
            return Err(error);
        }
    }

    /// Waits; `false` when the caller wants an end.
    fn pause(&self, pause: Duration) -> bool {
        let control = self.control();
        wait::until(Instant::now() + pause, Duration::from_millis(100), || {
            (control.wanted() != Wanted::Run).then_some(())
        })
        .is_none()
    }

    fn classify(&self, outcome: &Outcome, data_dir: &Path, lock: Option<&[u8]>) -> InitFailure {
        let said = |needle: &str| outcome.errors().any(|error| error.mentions(needle));
        if said("Provider dependency changes detected") {
            let locked = lock
                .and_then(|bytes| LockFile::parse(bytes).ok())
                .unwrap_or_default();
            let installed = plugins::packages(&data_dir.join("providers")).unwrap_or_default();
            let surplus = locked
                .entries
                .keys()
                .filter(|address| !installed.iter().any(|package| package.address == **address))
                .cloned()
                .collect();
            let missing = installed
                .into_iter()
                .map(|package| package.address)
                .filter(|address| !locked.entries.contains_key(address))
                .collect();
            return InitFailure::LockFile { surplus, missing };
        }
        let found = backend_type(data_dir);
        let is_other = found.as_deref().is_some_and(|found| found != "http");
        if self.settings.backend.is_some()
            && (is_other || said("ackend configuration changed") || said("ackend type changed"))
        {
            return InitFailure::Backend { found };
        }
        if said("Failed to get state")
            || said("Error refreshing state")
            || said("error loading state")
        {
            // The state, not a registry; its client has tried again already.
            return InitFailure::Other;
        }
        let text: Vec<String> = outcome
            .errors()
            .map(|error| format!("{} {}", error.summary, error.detail).to_lowercase())
            .chain(outcome.tail.iter().map(|line| line.to_lowercase()))
            .collect();
        if text.iter().any(|text| is_network_fault(text)) {
            InitFailure::Network
        } else {
            InitFailure::Other
        }
    }
}

/// Whether what a data directory holds is what a lock file names. An `init` without a lock file may
/// have been run again there, and have chosen newer versions.
fn holds(data_dir: &Path, lock: Option<&[u8]>) -> bool {
    let Some(wanted) = lock.and_then(|bytes| LockFile::parse(bytes).ok()) else {
        return true;
    };
    let kept = disk::read_if_there(&data_dir.join(KEPT_LOCK))
        .ok()
        .flatten();
    let Some(kept) = kept.and_then(|bytes| LockFile::parse(&bytes).ok()) else {
        return wanted.entries.is_empty();
    };
    kept.entries.iter().all(|(address, entry)| {
        wanted
            .entries
            .get(address)
            .is_none_or(|wanted| wanted.version == entry.version)
    })
}

/// Whether an error of `init` (in lower case) is one that another try may not meet.
fn is_network_fault(text: &str) -> bool {
    const FAULTS: [&str; 26] = [
        "timeout",
        "timed out",
        "deadline exceeded",
        "connection refused",
        "connection reset",
        "connection closed",
        "no such host",
        "could not resolve host",
        "failed to connect",
        "temporary failure",
        "temporarily unavailable",
        "network is unreachable",
        "no route to host",
        "tls handshake",
        "unexpected eof",
        "broken pipe",
        "too many requests",
        "text file busy",
        "403 forbidden",
        "429",
        "500 internal server error",
        "502 bad gateway",
        "503 service unavailable",
        "504 gateway",
        "rate limit",
        "failed to request discovery document",
    ];
    FAULTS.iter().any(|fault| text.contains(fault))
}

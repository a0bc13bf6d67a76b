//! A tofu step's session: its tree, its data directory, its state, its values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use phase_engine::{ExitCode, Failure, StepId};
use platform::{Bundle, StepDef, TofuStep};
use secrets::Secret;
use serde_json::Value;
use state_backend::{GrantOptions, Server};
use tofu::{
    Backend, InitInputs, LOCK_FILE_NAME, LockFile, LockPolicy, RunError, Session, SessionSettings,
    Slot, StepDir, StepKey,
};

use crate::bench::Bench;
use crate::library::{Extras, Source};

/// What a session is made for.
pub(crate) struct Wanted<'a> {
    /// The step.
    pub(crate) step: &'a StepId,
    /// The definitions that it works from.
    pub(crate) source: &'a Source,
    /// What they say of the step.
    pub(crate) def: &'a StepDef,
    /// Its root module.
    pub(crate) tofu: &'a TofuStep,
    /// Which tree.
    pub(crate) slot: Slot,
    /// The values of its variables.
    pub(crate) variables: BTreeMap<String, Value>,
    /// What `init` had added before the last apply.
    pub(crate) extras: Option<Arc<Extras>>,
    /// Providers that the state needs.
    pub(crate) state_providers: BTreeSet<String>,
    /// Whether it reaches the state, and what of it must be there.
    pub(crate) state: Option<GrantOptions>,
    /// Whose state that is, where it is not the step's own.
    pub(crate) state_of: Option<&'a StepId>,
}

impl Bench<'_> {
    /// The directory of a step.
    pub(crate) fn step_dir(&self, step: &StepId) -> Result<StepDir, Failure> {
        let key: StepKey = step.key().parse().map_err(|error| {
            Failure::of(
                ExitCode::Unusable,
                &error as &(dyn std::error::Error + 'static),
            )
        })?;
        Ok(self.workshop.step(&key))
    }

    /// Puts a bundle's files into a tree, one thread at a time: a step that is looked at, and one that needs its
    /// outputs, may want the same tree at once.
    pub(crate) fn place(
        &self,
        dir: &StepDir,
        slot: Slot,
        source: &Source,
        root_modules: &[&str],
    ) -> Result<(), Failure> {
        let _alone = self.placing.lock().unwrap_or_else(PoisonError::into_inner);
        let bundle = &source.bundle;
        let files = bundle
            .files()
            .iter()
            .map(|file| (file.path.as_str(), file.mode, file.bytes.as_slice()));
        dir.place(slot, bundle.digest(), root_modules, files)
            .map_err(|error| Failure::of(ExitCode::Failed, &error))
    }

    /// Puts the bundle into the step's tree and opens a session there.
    pub(crate) fn session(&self, wanted: Wanted<'_>) -> Result<Session, Failure> {
        self.session_on(&self.server, wanted)
    }

    /// The same with the states of another backend.
    pub(crate) fn session_on(
        &self,
        server: &Server,
        wanted: Wanted<'_>,
    ) -> Result<Session, Failure> {
        let dir = self.step_dir(wanted.step)?;
        self.place(
            &dir,
            wanted.slot,
            wanted.source,
            &[wanted.tofu.root.as_str()],
        )?;
        let bundle = &wanted.source.bundle;
        let scope = self.scope(&self.target.values);
        let env = self.env_of(&format!("step `{}`", wanted.step), &wanted.def.env, &scope)?;
        let backend = wanted.state.map(|options| {
            let access = server.grant(&wanted.state_of.unwrap_or(wanted.step).key(), options);
            Backend {
                address: access.address,
                lock_address: access.lock_address,
                unlock_address: access.unlock_address,
                username: access.username,
                password: Secret::new(access.password),
            }
        });
        let settings = SessionSettings {
            workshop: self.workshop.clone(),
            step: dir,
            slot: wanted.slot,
            root_module: wanted.tofu.root.clone(),
            program: self.program.clone(),
            env,
            backend,
            encryption: self.encryption.clone(),
            variables: wanted.variables,
            init_inputs: init_inputs(bundle, wanted.tofu, wanted.state_providers.clone()),
            lock_file: lock_policy(
                bundle,
                wanted.tofu,
                wanted
                    .extras
                    .as_ref()
                    .and_then(|extras| extras.lock_file.clone()),
                &wanted.state_providers,
            ),
            parallelism: wanted
                .def
                .parallelism
                .map(|n| u16::try_from(n).unwrap_or(u16::MAX)),
            masker: self.masker.clone(),
            spawner: Arc::clone(&self.machine.spawner),
            control: self.control(wanted.def.timeout),
            observer: self.new_hearer(&wanted.step.key()),
            patience: self.machine.patience,
        };
        let session =
            Session::open(settings).map_err(|error| tofu_failure(&error, ExitCode::Failed))?;
        Ok(match wanted.extras {
            Some(extras) if !extras.modules.is_empty() => {
                session.with_downloaded_modules(extras.modules.clone())
            }
            _ => session,
        })
    }
}

/// What `init` of a root module reads.
fn init_inputs(bundle: &Bundle, tofu: &TofuStep, state_providers: BTreeSet<String>) -> InitInputs {
    let below = |path: &str, directory: &str| {
        directory.is_empty()
            || path
                .strip_prefix(directory)
                .is_some_and(|rest| rest.starts_with('/'))
    };
    let directories: Vec<&str> = std::iter::once(tofu.root.as_str())
        .chain(tofu.module.modules.iter().map(String::as_str))
        .collect();
    InitInputs::new(
        bundle
            .files()
            .iter()
            .filter(|file| {
                directories
                    .iter()
                    .any(|directory| below(&file.path, directory))
            })
            .map(|file| (file.path.as_str(), file.bytes.as_slice())),
        state_providers,
    )
}

/// Where a committed lock file of a root module lies in a bundle.
pub(crate) fn lock_file_of(tofu: &TofuStep) -> String {
    if tofu.root.is_empty() {
        LOCK_FILE_NAME.to_owned()
    } else {
        format!("{}/{LOCK_FILE_NAME}", tofu.root)
    }
}

/// The lock file that applies: a committed one with what the state still needs, else the recorded one.
fn lock_policy(
    bundle: &Bundle,
    tofu: &TofuStep,
    recorded: Option<Vec<u8>>,
    state_providers: &BTreeSet<String>,
) -> LockPolicy {
    let path = lock_file_of(tofu);
    match (bundle.file(&path), recorded) {
        (Some(committed), recorded) => {
            let last = recorded
                .as_deref()
                .and_then(|bytes| LockFile::parse(bytes).ok());
            match (LockFile::parse(&committed.bytes), last) {
                (Ok(today), Some(last)) => {
                    let merged = LockFile::merge(&today, Some(&last), state_providers);
                    if merged == today {
                        LockPolicy::Exactly(committed.bytes.clone())
                    } else {
                        LockPolicy::Exactly(merged.to_string().into_bytes())
                    }
                }
                _ => LockPolicy::Exactly(committed.bytes.clone()),
            }
        }
        (None, Some(recorded)) => LockPolicy::Recorded(recorded),
        (None, None) => LockPolicy::Fresh,
    }
}

/// A failed command as the ledger keeps it: the tool's first diagnostic is the first cause.
pub(crate) fn tofu_failure(error: &RunError, exit: ExitCode) -> Failure {
    let exit = if error.is_interrupted() {
        ExitCode::Interrupted
    } else {
        exit
    };
    let step = error.step.as_str().replace('/', ".");
    let mut failure = Failure::new(
        exit,
        format!("`tofu {}` of step `{step}` failed", error.command),
    );
    if error.is_timeout() {
        failure =
            failure.because("it did not end within the step's `timeout`, and was interrupted");
    }
    for diagnostic in error.diagnostics() {
        let mut text = diagnostic.summary.clone();
        if let Some(address) = diagnostic
            .address
            .as_deref()
            .filter(|address| !address.is_empty())
        {
            text = format!("`{address}`: {text}");
        }
        if !diagnostic.detail.trim().is_empty() {
            text = format!("{text}: {}", diagnostic.detail.trim());
        }
        failure = failure.because(text);
    }
    if failure.causes.is_empty() {
        failure = failure.because(error.cause.to_string());
        let mut source = std::error::Error::source(error.cause.as_ref());
        while let Some(error) = source {
            failure = failure.because(error.to_string());
            source = error.source();
        }
        let tail = error.tail();
        if !tail.trim().is_empty() {
            failure = failure.because(tail);
        }
    }
    match &error.transcript {
        Some(path) => failure.log(path),
        None => failure,
    }
}

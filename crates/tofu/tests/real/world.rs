//! What the tests of this program share: a working directory, a state backend, sessions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use process::{RealSpawner, wait};
use secrets::{Masker, Secret};
use serde_json::Value;
use tofu::{
    Backend, Control, EventLine, InitInputs, LockPolicy, Observer, Program, Session,
    SessionSettings, Slot, StepDir, Uncontrolled, Workshop,
};

use crate::backend::FakeBackend;

/// Long enough for anything on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

pub(crate) fn me() -> OsString {
    std::env::current_exe().unwrap().into()
}

pub(crate) fn launching() -> Arc<RealSpawner> {
    Arc::new(RealSpawner::new(vec![me(), process::launch::NAME.into()]))
}

#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
pub(crate) fn program() -> Program {
    static FOUND: OnceLock<Program> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let path = std::env::var("REBUILD_TEST_TOFU")
                .expect("REBUILD_TEST_TOFU is not set: run `cargo xtask tools`, which says what to set it to");
            Program::find(Some(&[path]), None, None, None, launching().as_ref()).unwrap()
        })
        .clone()
}

/// The CLI configuration of a mirror that has the local provider.
#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
pub(crate) fn mirror() -> std::path::PathBuf {
    std::env::var_os("REBUILD_TEST_MIRROR")
        .expect(
            "REBUILD_TEST_MIRROR is not set: run `cargo xtask tools`, which says what to set it to",
        )
        .into()
}

#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
pub(crate) fn path_env() -> OsString {
    std::env::var_os("PATH").unwrap()
}

/// Remembers every event.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) lines: Mutex<Vec<EventLine>>,
    pub(crate) silences: Mutex<Vec<(Option<String>, Duration)>>,
}

impl Observer for Heard {
    fn event(&self, _: &str, line: &EventLine) {
        self.lines.lock().unwrap().push(line.clone());
    }

    fn quiet(&self, _: &str, address: Option<&str>, silence: Duration) {
        self.silences
            .lock()
            .unwrap()
            .push((address.map(str::to_owned), silence));
    }
}

impl Heard {
    pub(crate) fn has(&self, needle: &str) -> bool {
        self.lines
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.message.contains(needle))
    }
}

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) workshop: Workshop,
    pub(crate) backend: FakeBackend,
    pub(crate) masker: Masker,
    pub(crate) heard: Arc<Heard>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_cli_config(None)
    }

    pub(crate) fn with_cli_config(cli_config: Option<&Path>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let workshop = Workshop::open(&dir.path().join("work"), cli_config).unwrap();
        Self {
            dir,
            workshop,
            backend: FakeBackend::start(),
            masker: Masker::new(),
            heard: Arc::default(),
        }
    }

    pub(crate) fn step(&self) -> StepDir {
        self.workshop.step(&"1a/edge".parse().unwrap())
    }

    /// Settings over a root module `root` with one file.
    pub(crate) fn settings(&self, main_tf: &str) -> SessionSettings {
        self.settings_of(&[("root/main.tf", main_tf)])
    }

    pub(crate) fn settings_of(&self, files: &[(&str, &str)]) -> SessionSettings {
        let step = self.step();
        let bytes = || files.iter().map(|(path, text)| (*path, text.as_bytes()));
        let digest = format!("{files:?}");
        step.place(
            Slot::Tree,
            &digest,
            &["root"],
            bytes().map(|(path, bytes)| (path, 0o600, bytes)),
        )
        .unwrap();
        SessionSettings {
            workshop: self.workshop.clone(),
            step,
            slot: Slot::Tree,
            root_module: "root".into(),
            program: program(),
            env: BTreeMap::from([("PATH".into(), path_env())]),
            backend: Some(self.backend.access()),
            encryption: None,
            variables: BTreeMap::new(),
            init_inputs: InitInputs::new(bytes(), []),
            lock_file: LockPolicy::Fresh,
            parallelism: None,
            masker: self.masker.clone(),
            spawner: launching(),
            control: Arc::new(Uncontrolled),
            observer: self.heard.clone(),
            patience: Duration::ZERO,
        }
    }

    pub(crate) fn session(&self, main_tf: &str) -> Session {
        Session::open(self.settings(main_tf)).unwrap()
    }

    pub(crate) fn session_with(&self, main_tf: &str, variables: &[(&str, Value)]) -> Session {
        let mut settings = self.settings(main_tf);
        settings.variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        Session::open(settings).unwrap()
    }

    pub(crate) fn controlled(&self, main_tf: &str, control: Arc<dyn Control>) -> Session {
        let mut settings = self.settings(main_tf);
        settings.control = control;
        Session::open(settings).unwrap()
    }

    pub(crate) fn encrypted(&self, main_tf: &str, backend: Backend, encryption: Secret) -> Session {
        let mut settings = self.settings(main_tf);
        settings.backend = Some(backend);
        settings.encryption = Some(encryption);
        Session::open(settings).unwrap()
    }

    /// The files below the working directory that hold a text.
    pub(crate) fn files_with(&self, needle: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![self.dir.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                } else if let Ok(bytes) = std::fs::read(entry.path())
                    && bytes
                        .windows(needle.len())
                        .any(|window| window == needle.as_bytes())
                {
                    found.push(entry.path().display().to_string());
                }
            }
        }
        found
    }
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let held = wait::until(Instant::now() + LONG, Duration::from_millis(10), || {
        condition().then_some(())
    });
    assert!(held.is_some(), "never: {what}");
}

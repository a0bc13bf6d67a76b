//! A state where it was kept before: read and written by OpenTofu through the backend that its root module declares.
//!
//! The root module is one with nothing in it but what opens the state, so that neither a provider nor a module is
//! needed. Its data directory holds the backend's settings, credentials among them: it belongs into memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use process::{How, Invocation, Spawner, Stream};
use secrets::Masker;
use serde_json::Value;

use crate::control::{Control, Wanted};
use crate::drive::{Driven, drive};
use crate::error::{Cause, RunError};
use crate::events::EventLine;
use crate::outcome::Outcome;
use crate::program::Program;
use crate::session::{io_cause, mask};
use crate::state::StateFacts;
use crate::step_dir::{StepDir, backend_type};

/// What of a backend's settings says where a state is and is no secret.
const PLACES: [&str; 12] = [
    "bucket",
    "container_name",
    "endpoint",
    "hostname",
    "key",
    "organization",
    "path",
    "prefix",
    "resource_group_name",
    "schema_name",
    "storage_account_name",
    "workspace_dir",
];

/// What an old backend is opened with.
#[derive(Clone)]
pub struct OldBackendSettings {
    /// The step whose state it is.
    pub step: StepDir,
    /// The root module that opens the state.
    pub directory: PathBuf,
    /// A directory in memory, for what `init` leaves and for output.
    pub memory: PathBuf,
    /// The `tofu` to run.
    pub program: Program,
    /// The environment: credentials of the backend, and where programs are.
    pub env: BTreeMap<OsString, OsString>,
    /// The CLI configuration.
    pub cli_config: PathBuf,
    /// Values of variables that the backend's settings may refer to.
    pub var_file: Option<PathBuf>,
    /// What `init -backend-config` is given.
    pub backend_config: Vec<String>,
    /// The workspace; OpenTofu's `default` where none is named.
    pub workspace: Option<String>,
    /// Known secrets.
    pub masker: Masker,
    /// Starts processes.
    pub spawner: Arc<dyn Spawner>,
    /// Says what is wanted while a command runs.
    pub control: Arc<dyn Control>,
}

/// The state of a step where it was kept before.
pub struct OldBackend {
    settings: OldBackendSettings,
    place: String,
}

impl OldBackend {
    /// Opens it.
    ///
    /// # Errors
    /// When OpenTofu can't: it says why.
    pub fn open(settings: OldBackendSettings) -> Result<Self, RunError> {
        let mut opened = Self {
            settings,
            place: String::new(),
        };
        let mut args: Vec<OsString> = ["init", "-json", "-no-color", "-input=false"]
            .map(OsString::from)
            .to_vec();
        for config in &opened.settings.backend_config {
            args.push(format!("-backend-config={config}").into());
        }
        opened.run("init", args, None, false)?;
        opened.place = place(&opened.data_dir(), opened.settings.workspace.as_deref());
        Ok(opened)
    }

    /// Where the state is, in words that hold no secret: `s3 (bucket states, key edge)`.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Which kind of backend it is.
    #[must_use]
    pub fn kind(&self) -> String {
        backend_type(&self.data_dir()).unwrap_or_else(|| "local".to_owned())
    }

    /// The state, decrypted; `None` where there is none.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn pull(&self) -> Result<Option<Vec<u8>>, RunError> {
        let args = vec!["state".into(), "pull".into()];
        let plain = self.run("state pull", args, None, false)?;
        if plain.trim_ascii().is_empty() {
            return Ok(None);
        }
        let facts = StateFacts::read(&plain).map_err(|error| {
            let crate::state::StateFactsError::Unreadable(error) = error;
            self.error("state pull", Cause::Answer(error))
        })?;
        // For a state that is not there OpenTofu prints one that never was.
        let was_never = facts.lineage.is_empty() && facts.serial == 0 && facts.addresses.is_empty();
        Ok((!was_never).then_some(plain))
    }

    /// Writes a plain state under the backend's own lock. OpenTofu refuses another lineage and an older serial.
    ///
    /// # Errors
    /// When it is refused or can't be written.
    pub fn push(&self, plain: &[u8]) -> Result<(), RunError> {
        let args = ["state", "push", "-lock-timeout=0s"]
            .map(OsString::from)
            .to_vec();
        self.run("state push", args, Some(plain), true).map(drop)
    }

    fn data_dir(&self) -> PathBuf {
        self.settings.memory.join("data")
    }

    fn error(&self, command: &'static str, cause: impl Into<Cause>) -> RunError {
        RunError::new(self.settings.step.key(), command, cause)
    }

    fn run(
        &self,
        name: &'static str,
        mut args: Vec<OsString>,
        stdin: Option<&[u8]>,
        changes: bool,
    ) -> Result<Vec<u8>, RunError> {
        let settings = &self.settings;
        if settings.control.wanted() != Wanted::Run {
            return Err(self.error(name, Cause::Interrupted));
        }
        if let Some(var_file) = &settings.var_file {
            let mut word = OsString::from("-var-file=");
            word.push(var_file);
            args.push(word);
        }
        if stdin.is_some() {
            args.push("-".into());
        }
        let mut words = settings.program.command.iter().cloned();
        let program = words
            .next()
            .unwrap_or_else(|| settings.program.path.clone().into());
        let mut call = Invocation::new(PathBuf::from(program), &settings.directory)
            .args(words)
            .args(args);
        call.env = environment(settings, &self.data_dir());
        call.stdin = stdin.map(<[u8]>::to_vec);
        let how = if changes {
            // It goes on without us, and the next call waits for it.
            let output = settings.memory.join("output-state-push");
            settings
                .step
                .note_output(name, &output)
                .map_err(|error| self.error(name, io_cause("note where the output goes", error)))?;
            How::changer(output, settings.step.marker())
        } else {
            How::reader()
        };
        let (mut outcome, mut stdout) = (Outcome::default(), Vec::new());
        let mut on_line = |bytes: &[u8], stream: Stream| {
            if name == "state pull" && stream == Stream::Stdout {
                stdout.extend_from_slice(bytes);
                stdout.push(b'\n');
                return;
            }
            let mut line = EventLine::parse(bytes);
            mask(&mut line, &settings.masker);
            outcome.take(&line);
        };
        let driven = drive(
            settings.spawner.as_ref(),
            &call,
            &how,
            settings.control.as_ref(),
            Duration::ZERO,
            &mut on_line,
            &mut |_| {},
        );
        let Driven { exit, sent } = driven.map_err(|cause| self.error(name, cause))?;
        outcome.end(exit);
        if let process::Output::Followed { path } = &how.output {
            let _ = std::fs::remove_file(path);
            let _ = settings.step.clear_marker();
        }
        if outcome.is_success() {
            return Ok(stdout);
        }
        let cause = if sent == Wanted::Run {
            Cause::Ended(exit)
        } else {
            Cause::Interrupted
        };
        Err(RunError {
            outcome: Box::new(outcome),
            ..self.error(name, cause)
        })
    }
}

/// The environment of its commands: what was handed in, but for what would change them.
fn environment(settings: &OldBackendSettings, data_dir: &Path) -> BTreeMap<OsString, OsString> {
    const STEERING: [&str; 8] = [
        "TF_CLI_ARGS",
        "TF_CLI_CONFIG_FILE",
        "TF_DATA_DIR",
        "TF_INPUT",
        "TF_LOG",
        "TF_PLUGIN_CACHE_DIR",
        "TF_REATTACH_PROVIDERS",
        "TF_WORKSPACE",
    ];
    let is_steering = |name: &OsString| {
        name.to_str()
            .is_some_and(|name| STEERING.iter().any(|steering| name.starts_with(steering)))
    };
    let mut env: BTreeMap<OsString, OsString> = settings
        .env
        .iter()
        .filter(|(name, _)| !is_steering(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut set = |name: &str, value: OsString| env.insert(name.into(), value);
    set("TF_IN_AUTOMATION", "1".into());
    set("TF_INPUT", "0".into());
    set("CHECKPOINT_DISABLE", "1".into());
    set(
        "TF_CLI_CONFIG_FILE",
        settings.cli_config.clone().into_os_string(),
    );
    set("TF_DATA_DIR", data_dir.into());
    if let Some(workspace) = &settings.workspace {
        set("TF_WORKSPACE", workspace.into());
    }
    env
}

/// Says where a backend keeps a state, as `init` left its settings.
fn place(data_dir: &Path, workspace: Option<&str>) -> String {
    let settings = std::fs::read(data_dir.join("terraform.tfstate"))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let backend = settings.as_ref().and_then(|value| value.get("backend"));
    let kind = backend
        .and_then(|backend| backend.get("type")?.as_str())
        .unwrap_or("local");
    let mut parts: Vec<String> = backend
        .and_then(|backend| backend.get("config")?.as_object())
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| {
            let value = value.as_str()?;
            if name == "address" {
                return Some(format!("address {}", without_credentials(value)));
            }
            PLACES
                .contains(&name.as_str())
                .then(|| format!("{} {value}", name.replace('_', " ")))
        })
        .collect();
    parts.extend(workspace.map(|workspace| format!("workspace {workspace}")));
    if parts.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} ({})", parts.join(", "))
    }
}

/// An address without the user, password and query in it.
fn without_credentials(address: &str) -> String {
    let address = address.split(['?', '#']).next().unwrap_or_default();
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("{scheme}://{host}{path}")
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(backend: &str, workspace: Option<&str>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("{{\"version\": 3, \"backend\": {backend}}}");
        crate::disk::write(
            &dir.path().join("terraform.tfstate"),
            text.as_bytes(),
            0o600,
        )
        .unwrap();
        place(dir.path(), workspace)
    }

    #[test]
    fn a_place_is_told_without_what_opens_it() {
        for (backend, workspace, expected) in [
            (
                r#"{"type": "s3", "config": {"bucket": "b", "key": "k", "secret_key": "hush", "region": null}}"#,
                Some("live"),
                "s3 (bucket b, key k, workspace live)",
            ),
            (
                r#"{"type": "pg", "config": {"conn_str": "postgres://u:hush@h/d", "schema_name": "lab"}}"#,
                None,
                "pg (schema name lab)",
            ),
            (
                r#"{"type": "http", "config": {"address": "https://u:hush@h:1/p@th?token=hush", "password": "hush"}}"#,
                None,
                "http (address https://h:1/p@th)",
            ),
            ("null", None, "local"),
        ] {
            assert_eq!(told(backend, workspace), expected);
        }
        assert_eq!(place(Path::new("/nowhere"), None), "local");
    }
}

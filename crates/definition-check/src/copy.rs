//! The throw-away copy: a directory that OpenTofu works in and that goes at the end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tofu::{Control, Wanted, Workshop};

use crate::error::CheckError;

/// How long a test may take to clean up after an interrupt.
const GRACE: Duration = Duration::from_secs(60);

/// Longer paths leave no room for a plugin's socket (`sun_path`, 104 bytes on macOS).
const SOCKET_ROOM: usize = 70;

/// Where OpenTofu works.
pub(crate) struct Copy {
    directory: TempDir,
    /// Short, where the copy's own path is long.
    sockets: Option<TempDir>,
    pub(crate) workshop: Workshop,
}

impl Copy {
    pub(crate) fn make(temp_dir: &Path, cli_config: Option<&Path>) -> Result<Self, CheckError> {
        let failed = |source: io::Error| CheckError::Copy {
            path: temp_dir.to_owned(),
            source,
        };
        let make = |within: &Path| {
            tempfile::Builder::new()
                .prefix("rebuild-check-")
                .tempdir_in(within)
        };
        // Links in the path would show in `path.cwd` and in messages.
        let directory = temp_dir
            .canonicalize()
            .and_then(|temp_dir| make(&temp_dir))
            .map_err(failed)?;
        let workshop = Workshop::open(directory.path(), cli_config)?;
        let sockets = if workshop.tmp().as_os_str().len() > SOCKET_ROOM {
            Some(make(Path::new("/tmp")).map_err(failed)?)
        } else {
            None
        };
        Ok(Self {
            directory,
            sockets,
            workshop,
        })
    }

    /// An empty directory in it.
    pub(crate) fn room(&self, name: &str) -> io::Result<PathBuf> {
        let room = self.directory.path().join("rooms").join(name);
        std::fs::create_dir_all(&room)?;
        Ok(room)
    }

    /// The environment of a command that a [`tofu::Session`] does not run.
    pub(crate) fn environment(
        &self,
        base: &BTreeMap<OsString, OsString>,
        data_dir: &Path,
    ) -> BTreeMap<OsString, OsString> {
        let mut env: BTreeMap<OsString, OsString> = base
            .iter()
            .filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"TF_"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut set = |name: &str, value: OsString| env.insert(name.into(), value);
        set("HOME", self.workshop.home().into());
        set("TMPDIR", self.workshop.tmp().into());
        set("TF_IN_AUTOMATION", "1".into());
        set("TF_INPUT", "0".into());
        set("CHECKPOINT_DISABLE", "1".into());
        set("TF_CLI_CONFIG_FILE", self.workshop.cli_config().into());
        set("TF_DATA_DIR", data_dir.into());
        set("GOGC", "400".into());
        set(tofu::PLUGIN_TLS_OFF, "1".into());
        if let Some(sockets) = &self.sockets {
            set("PLUGIN_UNIX_SOCKET_DIR", sockets.path().into());
        }
        env
    }
}

/// Whether everything that runs is to end.
#[derive(Default)]
pub(crate) struct Stopping {
    since: OnceLock<Instant>,
}

impl Stopping {
    pub(crate) fn stop(&self) {
        let _ = self.since.set(Instant::now());
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.since.get().is_some()
    }
}

impl Control for Stopping {
    fn wanted(&self) -> Wanted {
        match self.since.get() {
            None => Wanted::Run,
            Some(since) if since.elapsed() < GRACE => Wanted::Interrupt,
            Some(_) => Wanted::Kill,
        }
    }
}

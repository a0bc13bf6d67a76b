//! The machine and its user, read once; the only place that reads the environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use process::Spawner;
use run::api::Machine;

/// How long a target's lock is good for without a renewal.
const LEASE: Duration = Duration::from_secs(60);
/// How long a tool may say nothing before the operator hears of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the process was started with.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// The whole environment.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// This program.
    pub(crate) exe: PathBuf,
}

/// Why the machine can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MachineError {
    #[error("cannot tell the working directory")]
    NoWorkingDirectory(#[source] std::io::Error),
    #[error("cannot tell where this program is")]
    NoProgram(#[source] std::io::Error),
    #[error("the variable `HOME` is not set, so there is no place to keep targets")]
    NoHome,
    #[error("`{name}` is not an absolute path: `{value}`")]
    Relative { name: &'static str, value: String },
    #[error("the variable `{name}` can't be read: `{value}`")]
    Unreadable { name: &'static str, value: String },
}

impl Surroundings {
    /// Reads the process's own.
    pub(crate) fn of_this_process() -> Result<Self, MachineError> {
        Ok(Self {
            env: std::env::vars_os().collect(),
            cwd: std::env::current_dir().map_err(MachineError::NoWorkingDirectory)?,
            exe: std::env::current_exe().map_err(MachineError::NoProgram)?,
        })
    }

    /// One variable; an empty one counts as not set.
    pub(crate) fn var(&self, name: &str) -> Option<&OsStr> {
        self.env
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.var(name).and_then(OsStr::to_str)
    }

    /// Whether a machine rather than a person is at the other end.
    pub(crate) fn is_ci(&self) -> bool {
        self.text("CI")
            .is_some_and(|value| !matches!(value, "0" | "false"))
    }

    /// Whether text may hold more than ASCII.
    pub(crate) fn is_utf8(&self) -> bool {
        ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| self.text(name))
            .is_some_and(|value| {
                let value = value.to_ascii_lowercase();
                value.contains("utf-8") || value.contains("utf8")
            })
    }

    /// The address of the CI job that calls, where one does.
    fn ci_job(&self) -> Option<String> {
        let direct = [
            "CI_JOB_URL",
            "BUILDKITE_BUILD_URL",
            "CIRCLE_BUILD_URL",
            "BUILD_URL",
        ];
        if let Some(url) = direct.iter().find_map(|name| self.text(name)) {
            return Some(url.to_owned());
        }
        let server = self.text("GITHUB_SERVER_URL")?;
        let (repository, run) = (self.text("GITHUB_REPOSITORY")?, self.text("GITHUB_RUN_ID")?);
        Some(format!("{server}/{repository}/actions/runs/{run}"))
    }

    /// Puts together what every command is given.
    pub(crate) fn machine(
        &self,
        spawner: Arc<dyn Spawner>,
        now: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    ) -> Result<Machine, MachineError> {
        let home = self.absolute("HOME")?.ok_or(MachineError::NoHome)?;
        let state_home = match self.absolute("XDG_STATE_HOME")? {
            Some(dir) => dir.join("rebuild"),
            None => home.join(".local/state/rebuild"),
        };
        let user = ["USER", "LOGNAME"]
            .iter()
            .find_map(|name| self.text(name))
            .map_or_else(
                || format!("uid {}", rustix::process::getuid().as_raw()),
                str::to_owned,
            );
        Ok(Machine {
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            home,
            state_home,
            user,
            host: fault::place()
                .and_then(|place| place.machine.clone())
                .unwrap_or_else(|| {
                    let system = rustix::system::uname();
                    system.nodename().to_string_lossy().into_owned()
                }),
            ci_job: self.ci_job(),
            exe: self.exe.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            spawner,
            now,
            // Tests shorten both, so that they need not wait for minutes.
            lease: self.milliseconds("__REBUILD_LEASE_MS")?.unwrap_or(LEASE),
            patience: self
                .milliseconds("__REBUILD_PATIENCE_MS")?
                .unwrap_or(PATIENCE),
            rounds: self.rounds()?,
        })
    }

    fn absolute(&self, name: &'static str) -> Result<Option<PathBuf>, MachineError> {
        let Some(value) = self.var(name) else {
            return Ok(None);
        };
        let path = PathBuf::from(value);
        if path.is_absolute() {
            Ok(Some(path))
        } else {
            Err(MachineError::Relative {
                name,
                value: value.to_string_lossy().into_owned(),
            })
        }
    }

    /// Fewer rounds of stretching, which tests ask for; a build for users never makes fewer.
    fn rounds(&self) -> Result<Option<u32>, MachineError> {
        let name = "__REBUILD_PBKDF2_ROUNDS";
        let Some(value) = self.text(name).filter(|_| cfg!(debug_assertions)) else {
            return Ok(None);
        };
        value
            .parse()
            .map(Some)
            .map_err(|_| MachineError::Unreadable {
                name,
                value: value.to_owned(),
            })
    }

    fn milliseconds(&self, name: &'static str) -> Result<Option<Duration>, MachineError> {
        let Some(value) = self.var(name) else {
            return Ok(None);
        };
        let value = value.to_string_lossy();
        value
            .parse()
            .map(|n| Some(Duration::from_millis(n)))
            .map_err(|_| MachineError::Unreadable {
                name,
                value: value.into_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Surroundings {
        Surroundings {
            env: vars
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: "/w".into(),
            exe: "/bin/rebuild".into(),
        }
    }

    fn machine(vars: &[(&str, &str)]) -> Result<Machine, MachineError> {
        let spawner = Arc::new(process::fake::NoSpawn);
        with(vars).machine(spawner, Arc::new(|| jiff::Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn targets_are_kept_below_the_state_home() {
        let default = machine(&[("HOME", "/h"), ("XDG_STATE_HOME", "")]).unwrap();
        assert_eq!(default.state_home, PathBuf::from("/h/.local/state/rebuild"));
        let named = machine(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]).unwrap();
        assert_eq!(named.state_home, PathBuf::from("/s/rebuild"));
    }

    #[test]
    fn tests_may_shorten_what_takes_minutes() {
        let default = machine(&[("HOME", "/h")]).unwrap();
        assert_eq!((default.lease, default.patience), (LEASE, PATIENCE));
        assert_eq!(default.rounds, None);
        let short = machine(&[
            ("HOME", "/h"),
            ("__REBUILD_LEASE_MS", "5"),
            ("__REBUILD_PATIENCE_MS", "7"),
            ("__REBUILD_PBKDF2_ROUNDS", "200000"),
        ])
        .unwrap();
        assert_eq!(short.lease, Duration::from_millis(5));
        assert_eq!(short.patience, Duration::from_millis(7));
        assert_eq!(short.rounds, cfg!(debug_assertions).then_some(200_000));
        assert!(matches!(
            machine(&[("HOME", "/h"), ("__REBUILD_PATIENCE_MS", "soon")]),
            Err(MachineError::Unreadable { .. })
        ));
    }

    #[test]
    fn a_home_that_is_missing_or_relative_is_refused() {
        assert!(matches!(machine(&[]), Err(MachineError::NoHome)));
        let relative = machine(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")]);
        assert!(matches!(
            relative,
            Err(MachineError::Relative {
                name: "XDG_STATE_HOME",
                ..
            })
        ));
    }

    #[test]
    fn a_ci_job_is_known_by_its_address() {
        let github = with(&[
            ("GITHUB_SERVER_URL", "https://github.example"),
            ("GITHUB_REPOSITORY", "a/b"),
            ("GITHUB_RUN_ID", "7"),
        ]);
        assert_eq!(
            github.ci_job().as_deref(),
            Some("https://github.example/a/b/actions/runs/7")
        );
        assert_eq!(with(&[("CI_JOB_URL", "u")]).ci_job().as_deref(), Some("u"));
        assert_eq!(with(&[("GITHUB_SERVER_URL", "s")]).ci_job(), None);
        assert!(with(&[("CI", "true")]).is_ci());
        assert!(!with(&[("CI", "false")]).is_ci());
        assert!(!with(&[]).is_ci());
    }

    #[test]
    fn the_first_locale_variable_that_is_set_decides() {
        assert!(with(&[("LANG", "en_GB.UTF-8")]).is_utf8());
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]).is_utf8());
        assert!(with(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]).is_utf8());
        assert!(!with(&[]).is_utf8());
    }
}

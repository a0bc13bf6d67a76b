//! The state of a step where it was kept before it was taken over, opened as its owner opens it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use phase_engine::{ExitCode, Failure, StepId};
use platform::{StepDef, TofuStep, backend_alone, is_configuration_file};
use process::files::create_private_dir;
use secrets::MemoryDir;
use tofu::{OldBackend, OldBackendSettings};

use crate::bench::Bench;
use crate::environment::Environment;
use crate::error::stopped;
use crate::library::Source;
use crate::resolve::Inputs;
use crate::tofu_work::tofu_failure;

/// An opened old state, and the memory that its credentials lie in.
pub(crate) struct OldState {
    pub(crate) backend: OldBackend,
    _memory: MemoryDir,
}

/// What an old state is opened with.
pub(crate) struct OldStateWanted<'a> {
    pub(crate) step: &'a StepId,
    /// Today's definitions.
    pub(crate) source: &'a Source,
    pub(crate) def: &'a StepDef,
    pub(crate) tofu: &'a TofuStep,
    /// The step's inputs: the backend's settings may refer to them.
    pub(crate) inputs: Option<&'a Inputs>,
    /// The platform's directory: settings may name files in it.
    pub(crate) platform: &'a Path,
    pub(crate) workspace: Option<String>,
    pub(crate) backend_config: &'a [String],
}

impl Bench<'_> {
    /// Opens the state that a root module keeps by itself.
    ///
    /// It is opened as by hand, with the caller's environment and home: that is where its credentials are. What would
    /// change a command is left out, and what the target's `[env]` says wins.
    pub(crate) fn old_state(&self, wanted: &OldStateWanted<'_>) -> Result<OldState, Failure> {
        let memory = MemoryDir::create("old-state").map_err(|error| stopped(&error))?;
        let root = wanted.tofu.root.as_str();
        let mut files = Vec::new();
        for path in &wanted.tofu.module.files {
            let text = wanted
                .source
                .bundle
                .file(path)
                .and_then(|file| std::str::from_utf8(&file.bytes).ok())
                .and_then(|text| backend_alone(path, text));
            // One that can't be parsed is a fault of the definitions, told before.
            if let (Some(text), Some(name)) = (text, Path::new(path).file_name()) {
                files.push((name.to_owned(), text));
            }
        }
        let own = wanted.tofu.module.own_state.as_ref();
        let block = own.filter(|own| own.what.starts_with("backend") || own.what == "cloud");
        let directory = mirror(
            wanted.platform,
            &memory.path().join("tree"),
            root,
            &files,
            block.is_none(),
        )
        .map_err(|error| {
            stopped(&error).because("the old state's backend could not be laid out in memory")
        })?;
        let var_file = match wanted.inputs {
            Some(inputs) if !inputs.is_empty() => {
                let values: BTreeMap<&String, &serde_json::Value> = inputs
                    .iter()
                    .map(|(name, input)| (name, &input.value))
                    .collect();
                let bytes = serde_json::to_vec(&values).map_err(|error| stopped(&error))?;
                Some(
                    memory
                        .write("variables.tfvars.json", &bytes)
                        .map_err(|error| stopped(&error))?,
                )
            }
            _ => None,
        };
        let scope = self.scope(&self.target.values);
        let of_target = self.env_of(
            &format!("the old state of step `{}`", wanted.step),
            &wanted.def.env,
            &scope,
        )?;
        let settings = OldBackendSettings {
            step: self.step_dir(wanted.step)?,
            directory,
            memory: memory.path().to_owned(),
            program: self.program.clone(),
            env: as_by_hand(&self.machine.env, &of_target),
            cli_config: self.workshop.cli_config(),
            var_file,
            backend_config: {
                let real = wanted.platform.join(root);
                let local = block.filter(|own| own.what == "backend \"local\"");
                let places = local.map(|own| local_places(&own.settings, &real));
                let given = wanted.backend_config.iter();
                places
                    .into_iter()
                    .flatten()
                    .chain(given.map(|config| absolute(config, &self.machine.cwd, &real)))
                    .collect()
            },
            workspace: wanted.workspace.clone(),
            masker: self.masker.clone(),
            spawner: Arc::clone(&self.machine.spawner),
            control: self.control(None),
        };
        let backend = OldBackend::open(settings).map_err(|error| {
            tofu_failure(&error, ExitCode::Stopped).hint(
                "it is opened with your environment, as `tofu init` there is; `--backend-config` gives what the block \
                 leaves out, `--workspace` names a workspace. Nothing was changed",
            )
        })?;
        Ok(OldState {
            backend,
            _memory: memory,
        })
    }
}

impl Bench<'_> {
    /// A state as it is stored: encrypted by OpenTofu where the target is, in memory.
    pub(crate) fn as_stored(&self, step: &StepId, plain: &[u8]) -> Result<Vec<u8>, Failure> {
        let Some(encryption) = &self.encryption else {
            return Ok(plain.to_vec());
        };
        let memory = MemoryDir::create("new-state").map_err(|error| stopped(&error))?;
        let directory = memory.path().join("tree");
        create_private_dir(&directory).map_err(|error| stopped(&error))?;
        let mut env = self.env.clone();
        env.insert("TF_ENCRYPTION".into(), encryption.expose().into());
        let settings = OldBackendSettings {
            step: self.step_dir(step)?,
            directory: directory.clone(),
            memory: memory.path().to_owned(),
            program: self.program.clone(),
            env,
            cli_config: self.workshop.cli_config(),
            var_file: None,
            backend_config: Vec::new(),
            workspace: None,
            masker: self.masker.clone(),
            spawner: Arc::clone(&self.machine.spawner),
            control: self.control(None),
        };
        let failed = |error: &tofu::RunError| tofu_failure(error, ExitCode::Failed);
        let backend = OldBackend::open(settings).map_err(|error| failed(&error))?;
        backend.push(plain).map_err(|error| failed(&error))?;
        let written = directory.join("terraform.tfstate");
        std::fs::read(written).map_err(|error| stopped(&error))
    }
}

/// The caller's environment, and over it what the target says but for its private home.
fn as_by_hand(caller: &Environment, target: &Environment) -> Environment {
    let private = |name: &OsString| name == OsStr::new("HOME") || name == OsStr::new("TMPDIR");
    let mut env = caller.clone();
    env.extend(
        target
            .iter()
            .filter(|(name, _)| !private(name))
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    env
}

/// Where a `local` backend keeps its states, by whole paths: they are not where it is opened.
fn local_places(settings: &BTreeMap<String, Option<String>>, real: &Path) -> Vec<String> {
    [
        ("path", "terraform.tfstate"),
        ("workspace_dir", "terraform.tfstate.d"),
    ]
    .into_iter()
    .filter_map(|(name, default)| {
        let said = match settings.get(name) {
            None => default,
            // One that is computed stays as it is.
            Some(value) => value.as_deref()?,
        };
        Some(format!("{name}={}", real.join(said).display()))
    })
    .collect()
}

/// A file of settings, and a setting that is a place, by its whole path: OpenTofu is not started where the caller is.
fn absolute(config: &str, cwd: &Path, real: &Path) -> String {
    match config.split_once('=') {
        Some((name @ ("path" | "workspace_dir"), value)) if !value.contains("://") => {
            format!("{name}={}", real.join(value).display())
        }
        Some(_) => config.to_owned(),
        None => cwd.join(config).display().to_string(),
    }
}

/// Lays a root module out in memory at its place in the platform: `files` in the place of its configuration, and links
/// to everything else, so that files are found that a backend's settings name. A state that lies beside a module with a
/// backend is none of it: OpenTofu would offer to move it there.
fn mirror(
    platform: &Path,
    to: &Path,
    root: &str,
    files: &[(OsString, String)],
    is_local: bool,
) -> std::io::Result<PathBuf> {
    let failed = std::io::Error::other;
    create_private_dir(to).map_err(failed)?;
    let (mut real, mut here) = (platform.to_owned(), to.to_owned());
    for part in root.split('/').filter(|part| !part.is_empty()) {
        link_all(&real, &here, |name| name == OsStr::new(part))?;
        real.push(part);
        here.push(part);
        create_private_dir(&here).map_err(failed)?;
    }
    link_all(&real, &here, |name| {
        let name = name.to_string_lossy();
        is_configuration_file(&name)
            || name == ".terraform"
            || name == tofu::LOCK_FILE_NAME
            || (!is_local && name.starts_with("terraform.tfstate"))
    })?;
    for (name, text) in files {
        process::files::write_atomically(&here.join(name), text.as_bytes(), 0o600)
            .map_err(failed)?;
    }
    Ok(here)
}

fn link_all(from: &Path, to: &Path, but: impl Fn(&OsStr) -> bool) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        if !but(&entry.file_name()) {
            symlink(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of a test's own directory")]
    fn a_mirror_holds_what_was_given_and_leads_to_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        std::fs::create_dir_all(real.join("phases/edge/.terraform")).unwrap();
        for (path, text) in [
            ("ca.pem", "ca"),
            ("phases/edge/main.tf", "whole"),
            ("phases/edge/terraform.tfstate", "state"),
        ] {
            std::fs::write(real.join(path), text).unwrap();
        }
        let files = [(OsString::from("main.tf"), "alone".to_owned())];
        let here = mirror(&real, &dir.path().join("m"), "phases/edge", &files, true).unwrap();
        let read = |path: &str| std::fs::read_to_string(here.join(path)).unwrap();
        assert_eq!(read("main.tf"), "alone");
        assert_eq!(read("terraform.tfstate"), "state");
        assert_eq!(read("../../ca.pem"), "ca");
        assert!(!here.join(".terraform").exists());
        assert_eq!(
            std::fs::read_to_string(real.join("phases/edge/main.tf")).unwrap(),
            "whole"
        );
    }

    #[test]
    fn the_targets_environment_wins_but_for_its_home() {
        let env = |pairs: &[(&str, &str)]| -> Environment {
            pairs
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect()
        };
        let merged = as_by_hand(
            &env(&[
                ("HOME", "/h"),
                ("AWS_PROFILE", "mine"),
                ("PG_CONN_STR", "x"),
            ]),
            &env(&[("HOME", "/private"), ("AWS_PROFILE", "live")]),
        );
        assert_eq!(
            merged,
            env(&[
                ("HOME", "/h"),
                ("AWS_PROFILE", "live"),
                ("PG_CONN_STR", "x")
            ])
        );
    }

    #[test]
    fn places_are_named_whole() {
        let (cwd, real) = (Path::new("/here"), Path::new("/lab/edge"));
        for (config, expected) in [
            ("key=a/b", "key=a/b"),
            ("path=a/b", "path=/lab/edge/a/b"),
            ("live.tfbackend", "/here/live.tfbackend"),
            ("/x/live.tfbackend", "/x/live.tfbackend"),
        ] {
            assert_eq!(absolute(config, cwd, real), expected);
        }
        let settings =
            |path: Option<&str>| BTreeMap::from([("path".to_owned(), path.map(str::to_owned))]);
        let dir = "workspace_dir=/lab/edge/terraform.tfstate.d";
        assert_eq!(
            local_places(&BTreeMap::new(), real),
            ["path=/lab/edge/terraform.tfstate", dir]
        );
        assert_eq!(
            local_places(&settings(Some("../kept")), real),
            ["path=/lab/edge/../kept", dir]
        );
        assert_eq!(local_places(&settings(None), real), [dir]);
    }
}

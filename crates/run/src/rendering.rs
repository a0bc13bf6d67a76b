//! `render`: what nodes steps are rendered into, shown, written, or compared with what is on disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use phase_engine::{ExitCode, Failure, TargetName};
use platform::{DirFiles, Platform, StepKind};
use process::files::write_atomically;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Machine, RenderOptions, Site};
use crate::error::{CallError, failed, unusable};
use crate::open::platform_dir;

/// What `render` shows, wrote or found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenderReport {
    /// The version of this format.
    pub schema: u32,
    /// Whether the files on disk are those that are rendered; true where none were compared.
    pub good: bool,
    /// What is rendered.
    pub steps: Vec<RenderedStep>,
    /// The directory that was written or compared.
    pub out: Option<String>,
    /// What was changed there, or would be.
    pub changes: Vec<RenderChange>,
}

/// What one nodes step is rendered into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenderedStep {
    /// The step.
    pub step: String,
    /// The specs that it is rendered from.
    pub specs: String,
    /// The files, in order of their names.
    pub files: Vec<RenderedFile>,
}

/// One file of a rendered root module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenderedFile {
    /// Its name within the root module.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// One file on disk that is not as it is rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenderChange {
    /// Its path within the directory.
    pub path: String,
    /// What is done to it, or would be.
    pub action: RenderAction,
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RenderAction {
    /// It is new or differs.
    Write,
    /// Its provider is no longer used.
    Remove,
}

/// Renders every nodes step of a platform; writes or compares what is on disk, where a directory is named.
///
/// # Errors
/// Faults of the definitions, or a directory that can't be read or written.
pub fn render(
    machine: &Machine,
    platform: Option<PathBuf>,
    options: &RenderOptions,
) -> Result<RenderReport, CallError> {
    let site = Site {
        platform,
        target: options.target.clone().unwrap_or_default(),
    };
    let root = platform_dir(machine, &site)?;
    let files = DirFiles::open(&root).map_err(|error| unusable(&error))?;
    let platform = match &options.target {
        None => platform::load_today(&files)?,
        Some(target) => {
            let target = TargetName::new(target).map_err(|error| unusable(&error))?;
            platform::load_target(&files, None, &target)?.platform?
        }
    };
    let steps = steps(&platform);
    let Some(out) = &options.out else {
        return Ok(RenderReport {
            schema: 1,
            good: true,
            steps,
            out: None,
            changes: Vec::new(),
        });
    };
    let out = machine.cwd.join(out);
    let mut changes = Vec::new();
    for step in &steps {
        let place = step.step.replacen('.', "/", 1);
        changes.extend(changes_of(&out, &place, step).map_err(CallError::from)?);
    }
    if !options.check {
        for change in &changes {
            apply(&out, change, &steps)?;
        }
    }
    Ok(RenderReport {
        schema: 1,
        good: !options.check || changes.is_empty(),
        steps,
        out: Some(out.display().to_string()),
        changes,
    })
}

fn steps(platform: &Platform) -> Vec<RenderedStep> {
    let of_nodes = platform.steps().filter_map(|def| match &def.kind {
        StepKind::Tofu(tofu) => Some((def, tofu, tofu.nodes.as_ref()?)),
        _ => None,
    });
    of_nodes
        .map(|(def, tofu, nodes)| {
            let prefix = format!("{}/", tofu.root);
            let files = platform.rendered.iter().filter_map(|(path, bytes)| {
                Some(RenderedFile {
                    name: path.strip_prefix(&prefix)?.to_owned(),
                    text: String::from_utf8_lossy(bytes).into_owned(),
                })
            });
            RenderedStep {
                step: def.id.to_string(),
                specs: nodes.path.clone(),
                files: files.collect(),
            }
        })
        .collect()
}

/// Compares what a step is rendered into with what the directory holds; names that are never rendered are nobody's
/// business here.
fn changes_of(out: &Path, place: &str, step: &RenderedStep) -> Result<Vec<RenderChange>, Failure> {
    let mut changes = Vec::new();
    let wanted: BTreeMap<&str, &str> = step
        .files
        .iter()
        .map(|file| (file.name.as_str(), file.text.as_str()))
        .collect();
    for (name, text) in &wanted {
        let path = format!("{place}/{name}");
        if read(&out.join(&path))?.as_deref() != Some(text.as_bytes()) {
            let action = RenderAction::Write;
            changes.push(RenderChange { path, action });
        }
    }
    for name in provider::render::names() {
        let path = format!("{place}/{name}");
        if !wanted.contains_key(name.as_str()) && read(&out.join(&path))?.is_some() {
            let action = RenderAction::Remove;
            changes.push(RenderChange { path, action });
        }
    }
    Ok(changes)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(Failure::new(
            ExitCode::Failed,
            format!("cannot read `{}`", path.display()),
        )
        .because(error.to_string())),
    }
}

fn apply(out: &Path, change: &RenderChange, steps: &[RenderedStep]) -> Result<(), Failure> {
    let path = out.join(&change.path);
    match change.action {
        RenderAction::Remove => std::fs::remove_file(&path).map_err(|error| failed(&error)),
        RenderAction::Write => {
            let text = steps.iter().find_map(|step| {
                let place = step.step.replacen('.', "/", 1);
                let name = change.path.strip_prefix(&place)?.strip_prefix('/')?;
                let file = step.files.iter().find(|file| file.name == name)?;
                Some(file.text.as_bytes())
            });
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
            }
            write_atomically(&path, text.unwrap_or_default(), 0o644).map_err(|error| failed(&error))
        }
    }
}

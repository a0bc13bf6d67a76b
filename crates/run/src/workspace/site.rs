//! Which workspace is meant: a name of `[workspace]`, or the directory of a root module.

use std::path::{Component, Path, PathBuf};

use phase_engine::{ExitCode, Failure, StepId, TargetName};
use platform::{DirFiles, NamedRoot, Platform, Survey, WORKSPACE_PHASE, WorkspaceDef};

use crate::api::{Machine, Site};
use crate::error::unusable;
use crate::open::{self, platform_dir};

/// A workspace of one target.
#[derive(Clone, Debug)]
pub struct WorkspaceSite {
    /// The platform and the target.
    pub site: Site,
    /// Its name.
    pub name: String,
    pub(crate) step: StepId,
    pub(crate) named: Option<NamedRoot>,
}

impl WorkspaceSite {
    pub(crate) fn workspace(&self) -> open::Workspace {
        open::Workspace {
            step: self.step.clone(),
            named: self.named.clone(),
        }
    }

    /// What names it on a command line, with its target where that is needed.
    #[must_use]
    pub fn as_typed(&self) -> String {
        match &self.named {
            None => self.name.clone(),
            Some(named) => format!("{} --target {}", named.root, named.target),
        }
    }
}

/// Finds the workspace that `text` means: a name of `[workspace]`, which says its target, or with a target also the
/// directory of a root module within the platform.
///
/// # Errors
/// There is none, or the target is another one.
pub fn find(
    machine: &Machine,
    platform: Option<&Path>,
    text: &str,
    target: Option<&str>,
) -> Result<WorkspaceSite, Failure> {
    let site = |target: &str| Site {
        platform: platform.map(Path::to_owned),
        target: target.to_owned(),
    };
    let root = platform_dir(machine, &site(target.unwrap_or_default()))?;
    let files = DirFiles::open(&root).map_err(|error| unusable(&error))?;
    let survey = platform::survey(&files);
    let known = survey.platform.as_ref();
    if let Some(workspace) = known.and_then(|platform| platform.workspace(text)) {
        return of_definition(workspace, site(workspace.target.as_str()), target);
    }
    let Some(target) = target else {
        return Err(unknown(&survey, text));
    };
    let target = TargetName::new(target).map_err(|error| unusable(&error))?;
    if let Some(path) = directory(machine, &root, text)? {
        let of_root = |one: &&WorkspaceDef| one.root() == path && one.target == target;
        let defined = known.and_then(|platform| platform.workspaces.iter().find(of_root));
        if let Some(workspace) = defined {
            return of_definition(workspace, site(target.as_str()), None);
        }
        let step = step_of(&path.replace('/', "-")).map_err(|failure| {
            failure.hint(format!(
                "name it in rebuild.toml: `[workspace.NAME]` with `root = \"{path}\"` and `target = \"{target}\"`"
            ))
        })?;
        return Ok(WorkspaceSite {
            site: site(target.as_str()),
            name: step.step.to_string(),
            step,
            named: Some(NamedRoot { root: path, target }),
        });
    }
    // One that is defined no more may stand all the same.
    let step = step_of(text).map_err(|_| unknown(&survey, text))?;
    Ok(WorkspaceSite {
        site: site(target.as_str()),
        name: text.to_owned(),
        step,
        named: None,
    })
}

fn of_definition(
    workspace: &WorkspaceDef,
    site: Site,
    target: Option<&str>,
) -> Result<WorkspaceSite, Failure> {
    if let Some(target) = target.filter(|target| *target != workspace.target.as_str()) {
        return Err(Failure::new(
            ExitCode::Unusable,
            format!(
                "workspace `{}` is of target `{}`, not of `{target}`",
                workspace.name(),
                workspace.target
            ),
        )
        .hint("take `--target` out: `[workspace]` says the target; nothing was touched"));
    }
    Ok(WorkspaceSite {
        site,
        name: workspace.name().to_string(),
        step: workspace.step().id.clone(),
        named: None,
    })
}

/// The step of a workspace.
fn step_of(name: &str) -> Result<StepId, Failure> {
    format!("{WORKSPACE_PHASE}.{name}")
        .parse::<StepId>()
        .map_err(|_| {
            Failure::new(
                ExitCode::Unusable,
                format!("`{name}` can't name a workspace"),
            )
        })
}

fn unknown(survey: &Survey, text: &str) -> Failure {
    let names: Vec<String> = survey
        .platform
        .iter()
        .flat_map(|platform: &Platform| &platform.workspaces)
        .map(|workspace| format!("`{}`", workspace.name()))
        .collect();
    let hint = if names.is_empty() {
        "rebuild.toml has no `[workspace.NAME]` that can be read".to_owned()
    } else {
        format!("workspaces here: {}", names.join(", "))
    };
    Failure::new(
        ExitCode::Unusable,
        format!("there is no workspace `{text}`"),
    )
    .hint(format!(
        "{hint}; the directory of a root module needs `--target TARGET`. Nothing was touched"
    ))
}

/// The path within the platform of a directory that was typed, seen from here or from the platform.
fn directory(machine: &Machine, root: &Path, text: &str) -> Result<Option<String>, Failure> {
    let candidates = [machine.cwd.join(text), root.join(text)];
    let Some(found) = candidates.into_iter().find(|path| path.is_dir()) else {
        return Ok(None);
    };
    let real = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
    let (found, root) = (real(found), real(root.to_owned()));
    let within = found.strip_prefix(&root).map_err(|_| {
        Failure::new(
            ExitCode::Unusable,
            format!("`{text}` is not within the platform `{}`", root.display()),
        )
        .hint("a platform is one directory: move the root module into it")
    })?;
    let parts: Vec<&str> = within
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    Ok(Some(parts.join("/")))
}

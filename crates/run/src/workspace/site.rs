//! Which workspace is meant: a name of `[workspace]`, or the directory of a root module.

use std::path::{Component, Path, PathBuf};

use phase_engine::{ExitCode, Failure, StepId, TargetName};
use platform::{DirFiles, NamedRoot, Platform, Survey, WORKSPACE_PHASE, WorkspaceDef};

use crate::api::{Machine, Site};
use crate::error::unusable;
use crate::open::{self, platform_dir};

use super::ROOT_FILE;
use super::recorded::output_of;
use crate::paths::TargetPaths;

/// A workspace of one target.
#[derive(Clone, Debug)]
pub struct WorkspaceSite {
    /// The platform and the target.
    pub site: Site,
    /// The platform's directory.
    pub root: PathBuf,
    /// The platform's name.
    pub platform_name: String,
    /// Its name.
    pub name: String,
    /// The output that names its hosts.
    pub hosts: String,
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

    /// What finds it again from anywhere: its name, or its root module's directory.
    #[must_use]
    pub fn absolute(&self) -> String {
        match &self.named {
            None => self.name.clone(),
            Some(named) => self.root.join(&named.root).display().to_string(),
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
    let here = Site {
        platform: platform.map(Path::to_owned),
        target: target.unwrap_or_default().to_owned(),
    };
    let root = platform_dir(machine, &here)?;
    let files = DirFiles::open(&root).map_err(|error| unusable(&error))?;
    let survey = platform::survey(&files);
    let known = survey.platform.as_ref();
    let platform_name = open::platform_name_of(&root)?;
    let found = |target: &TargetName, step: StepId, named: Option<NamedRoot>| WorkspaceSite {
        site: Site {
            platform: Some(root.clone()),
            target: target.to_string(),
        },
        root: root.clone(),
        platform_name: platform_name.clone(),
        name: step.step.to_string(),
        hosts: output_of(known, step.step.as_str()),
        step,
        named,
    };
    if let Some(workspace) = known.and_then(|platform| platform.workspace(text)) {
        is_of_target(workspace, target)?;
        return Ok(found(&workspace.target, workspace.step().id.clone(), None));
    }
    let Some(target) = target else {
        return Err(unknown(&survey, text));
    };
    let target = TargetName::new(target).map_err(|error| unusable(&error))?;
    if let Some(path) = directory(machine, &root, text)? {
        let of_root = |one: &&WorkspaceDef| one.root() == path && one.target == target;
        let defined = known.and_then(|platform| platform.workspaces.iter().find(of_root));
        if let Some(workspace) = defined {
            return Ok(found(&target, workspace.step().id.clone(), None));
        }
        let step = step_of(&path.replace('/', "-")).map_err(|failure| {
            failure.hint(format!(
                "name it in rebuild.toml: `[workspace.NAME]` with `root = \"{path}\"` and `target = \"{target}\"`"
            ))
        })?;
        let named = NamedRoot {
            root: path,
            target: target.clone(),
        };
        return Ok(found(&target, step, Some(named)));
    }
    // One that is defined no more may stand all the same; so may one that was named by its directory.
    let step = step_of(text).map_err(|_| unknown(&survey, text))?;
    let kept = TargetPaths::new(&machine.state_home, &platform_name, &target).workspace(text);
    let named = std::fs::read_to_string(kept.join(ROOT_FILE)).ok();
    let named = named.map(|root| NamedRoot {
        root,
        target: target.clone(),
    });
    Ok(found(&target, step, named))
}

/// Makes sure that a target that was named besides is the workspace's own.
fn is_of_target(workspace: &WorkspaceDef, target: Option<&str>) -> Result<(), Failure> {
    let own = &workspace.target;
    match target.filter(|target| *target != own.as_str()) {
        None => Ok(()),
        Some(target) => Err(Failure::new(
            ExitCode::Unusable,
            format!(
                "workspace `{}` is of target `{own}`, not of `{target}`",
                workspace.name()
            ),
        )
        .hint("take `--target` out: `[workspace]` says the target; nothing was touched")),
    }
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

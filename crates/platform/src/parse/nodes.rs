//! `nodes` steps: from specs to a root module, with the faults of both.

use std::collections::BTreeMap;
use std::sync::Arc;

use phase_engine::StepId;

use super::step::vars;
use super::{Context, Outputs};
use crate::files::{Files, join};
use crate::model::{StepKind, TofuStep};
use crate::module::{Modules, RootModule};
use crate::near::near;
use crate::nodes::{NodesDef, NodesFault, WithRendered, generated_root, rendered};
use crate::reader::{Field, Section};

/// The client of this provider is not safe in parallel.
const ONE_AT_A_TIME: &str = "bitwarden";

/// Reads a step of `nodes = "PATH"`.
pub(super) fn nodes(
    section: &Section<'_>,
    field: &Field<'_>,
    id: &StepId,
    position: usize,
    context: &mut Context<'_>,
) -> (Option<StepKind>, Outputs) {
    let vars = vars(section, id, position, context);
    let Some(text) = field.string() else {
        return (None, Outputs::Unknown);
    };
    let Some(path) = join("", &text) else {
        field.fault(
            "outside of the platform",
            format!("`{text}` is not within the platform"),
            Some("a platform is one directory: move the specs into it".to_owned()),
        );
        return (None, Outputs::Unknown);
    };
    let root = generated_root(id);
    let Some(files) = module_files(field, &path, &root, context) else {
        return (None, Outputs::Unknown);
    };
    context.parsed.platform.rendered.extend(files);
    match module(field, &root, context) {
        Some(module) => (
            Some(StepKind::Tofu(TofuStep {
                root,
                inputs: vars.clone(),
                vars,
                module: Arc::clone(&module),
                nodes: Some(NodesDef { path }),
            })),
            Outputs::Of(module),
        ),
        None => (None, Outputs::Unknown),
    }
}

/// How many things OpenTofu may do at once, where the providers of a nodes step leave no choice.
pub(super) fn parallelism(kind: &StepKind) -> Option<u32> {
    match kind {
        StepKind::Tofu(tofu) if tofu.nodes.is_some() => tofu
            .module
            .providers
            .contains_key(ONE_AT_A_TIME)
            .then_some(1),
        _ => None,
    }
}

/// The files of the step's root module, by path within the bundle.
fn module_files(
    field: &Field<'_>,
    path: &str,
    root: &str,
    context: &Context<'_>,
) -> Option<BTreeMap<String, Vec<u8>>> {
    if context.as_stored
        && let Some(stored) = stored(context.files, root)
    {
        return Some(stored);
    }
    let files = match rendered(context.files, path) {
        Ok(files) => files,
        Err(NodesFault::Missing) => {
            missing(field, path, context.files);
            return None;
        }
        Err(NodesFault::Unreadable(error)) => {
            field.fault("can't be read", error.to_string(), None);
            return None;
        }
        Err(NodesFault::Faults(faults)) => {
            faults
                .into_iter()
                .for_each(|fault| field.doc().report.push(fault));
            return None;
        }
    };
    let placed = files
        .into_iter()
        .map(|(name, bytes)| (format!("{root}/{name}"), bytes));
    Some(placed.collect())
}

/// What a bundle holds of a root module that was rendered before it was packed.
fn stored(files: &dyn Files, root: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in files.entries(&directory).ok()?.unwrap_or_default() {
            let path = format!("{directory}/{}", entry.name);
            if entry.is_dir {
                open.push(path);
            } else if let Some(bytes) = files.read(&path).ok()? {
                found.insert(path, bytes);
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

fn missing(field: &Field<'_>, path: &str, files: &dyn Files) {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let entries = files.entries(parent).ok().flatten().unwrap_or_default();
    let help = near(name, entries.iter().map(|entry| entry.name.as_str())).map(|right| {
        let right = join(parent, right).unwrap_or_else(|| right.to_owned());
        format!("did you mean `{right}`?")
    });
    field.fault(
        "no such file or directory",
        format!("the platform has no specs at `{path}`"),
        help,
    );
}

/// Reads what was rendered as any other root module.
fn module(field: &Field<'_>, root: &str, context: &Context<'_>) -> Option<Arc<RootModule>> {
    let files = WithRendered {
        files: context.files,
        rendered: &context.parsed.platform.rendered,
    };
    let modules = Modules::new(&files, field.doc().report);
    match modules.root(root) {
        Ok(module) => module,
        Err(error) => {
            field.fault("can't be read", error.to_string(), None);
            None
        }
    }
}

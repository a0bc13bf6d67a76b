//! `[workspace.NAME]`: root modules that no step owns, applied by handoffs.

use std::collections::BTreeMap;

use phase_engine::{PhaseId, StepId, StepName, TargetName};

use super::{Context, Sees, Use, UsePlace, env, step};
use crate::fault::TextFile;
use crate::model::{
    EnvValue, NamedRoot, PhaseDef, StepDef, StepKind, TofuStep, WORKSPACE_PHASE, WorkspaceDef,
};
use crate::near::near;
use crate::reader::{Doc, Field, Report, Section};

/// Groups that Ansible's inventory has by itself, besides the one of every host.
const RESERVED: [&str; 3] = ["tf", "all", "ungrouped"];
/// The output that names the hosts, where nothing else is said.
const HOSTS: &str = "hosts";

/// Reads every `[workspace.NAME]`.
pub(super) fn workspaces(section: &Section<'_>, context: &mut Context<'_>) {
    for field in section.fields() {
        match workspace(&field, context) {
            Some(workspace) => context.parsed.platform.workspaces.push(workspace),
            None => context.parsed.workspaces_unknown = true,
        }
    }
}

/// Adds the workspace of a root module that was named by its directory, unless one of the file is just that.
pub(super) fn named(report: &Report, named: &NamedRoot, context: &mut Context<'_>) {
    let known = &context.parsed.platform.workspaces;
    let is_named = |workspace: &WorkspaceDef| {
        workspace.root() == named.root && workspace.target == named.target
    };
    if known.iter().any(is_named) {
        return;
    }
    let NamedRoot { root, target } = named;
    let name = name_of_root(root);
    let text = format!("[workspace.{name:?}]\nroot = {root:?}\ntarget = \"{target}\"\n");
    let file = TextFile::new("the directory that was named", text);
    let doc = Doc::new(file, report);
    let Some(document) = doc.parse() else { return };
    let root = doc.root(&document);
    if let Some(section) = root.section("workspace", "[workspace]") {
        workspaces(&section, context);
    }
}

/// The name of a workspace that is a directory: its path, which no other has.
fn name_of_root(root: &str) -> String {
    root.replace('/', "-")
}

fn workspace(field: &Field<'_>, context: &mut Context<'_>) -> Option<WorkspaceDef> {
    let id = id(field, context);
    let section = field.section(&format!("workspace `{}`", field.name))?;
    let position = context.parsed.declared.len();
    let root_field = section.required("root");
    let module = root_field
        .as_ref()
        .and_then(|field| step::root_module(field, context));
    let target = section
        .required("target")
        .and_then(|field| target(&field, context));
    // A workspace without a legal name is read all the same, for the faults further down.
    let as_read = id.clone().unwrap_or(StepId::new(
        PhaseId::new(WORKSPACE_PHASE).ok()?,
        StepName::new("unnamed").ok()?,
    ));
    let n_uses = context.parsed.uses.len();
    let vars = step::vars(&section, &as_read, position, context);
    let env = section
        .section("env", "`env`")
        .map(|section| env::variables(&section))
        .unwrap_or_default();
    context.parsed.uses.push(Use {
        exprs: env.values().filter_map(EnvValue::expr).cloned().collect(),
        sees: Sees::Before(position),
        place: UsePlace::TofuEnv,
    });
    let uses = context.parsed.uses.split_off(n_uses);
    if let Some(target) = &target {
        let of_target = uses.into_iter().map(|each| (target.clone(), each));
        context.parsed.workspace_uses.extend(of_target);
    }
    let hosts_field = section.field("hosts");
    let hosts = hosts_field.as_ref().and_then(Field::string);
    let captured = section.field("captured");
    let captured = captured.map(|field| field.items().unwrap_or_default());
    let parallelism = section
        .field("parallelism")
        .and_then(|field| field.integer(1..=1024))
        .and_then(|number| u32::try_from(number).ok());
    let timeout = section.duration("timeout");
    let section_digest = step::digest(&section);
    section.finish();

    let (root, module) = module?;
    if let Some(field) = &root_field {
        is_free(field, &root, &module, context);
    }
    let hosts = hosts.unwrap_or_else(|| HOSTS.to_owned());
    // One that only takes captured secrets need not have hosts.
    let needs_hosts = hosts_field.is_some() || captured.is_none();
    if needs_hosts && !module.incomplete && !module.outputs.contains_key(&hosts) {
        let at = hosts_field.as_ref().or(root_field.as_ref());
        let names = module.outputs.keys().map(String::as_str);
        let help = near(&hosts, names).map_or_else(
            || {
                "declare it: a map from each host's name to its address, host key and so on"
                    .to_owned()
            },
            |right| format!("did you mean `{right}`?"),
        );
        if let Some(field) = at {
            let message =
                format!("root module `{root}` has no output `{hosts}`, which names its hosts");
            field.fault("no such output", message, Some(help));
        }
    }
    let mut names = Vec::new();
    for field in captured.unwrap_or_default() {
        let Some(name) = field.string() else { continue };
        captures(&field, &name, &module, &vars);
        names.push(name);
    }
    let id = id?;
    let step = StepDef {
        id: id.clone(),
        kind: StepKind::Tofu(TofuStep {
            root,
            inputs: vars.clone(),
            vars,
            module,
            nodes: None,
        }),
        after: Vec::new(),
        contained_in: None,
        ignore_drift: Vec::new(),
        timeout,
        env,
        moved_from: None,
        parallelism,
        destroy_refresh: true,
        section_digest,
        span: field.key_span.clone(),
    };
    Some(WorkspaceDef {
        target: target?,
        hosts,
        captured: names,
        phase: PhaseDef {
            id: id.phase,
            title: format!("workspace {}", id.step),
            provides_state: false,
            canary: false,
            parallel: false,
            max_destroy: None,
            steps: vec![step],
            checks: Vec::new(),
            residue: Vec::new(),
            span: field.key_span.clone(),
        },
    })
}

/// Reads a workspace's name, which is a group in Ansible's inventory and a part of a key of the store.
fn id(field: &Field<'_>, context: &Context<'_>) -> Option<StepId> {
    let fault = |label: &str, message: String, help: Option<String>| {
        field
            .doc()
            .fault(field.key_span.clone(), label, message, help);
    };
    let name = match StepName::new(field.name.as_str()) {
        Ok(name) => name,
        Err(error) => {
            let why = error
                .to_string()
                .replace("the step name", "the name of a workspace,");
            let help =
                "name it by `[workspace.NAME]` in rebuild.toml, of letters, digits, `-` and `_`";
            fault("no legal name", why, Some(help.to_owned()));
            return None;
        }
    };
    if RESERVED.contains(&name.as_str()) {
        let message =
            format!("`{name}` can't name a workspace: it is a group of Ansible's inventory");
        fault("reserved", message, None);
        return None;
    }
    let mut known = context.parsed.platform.workspaces.iter();
    if known.any(|workspace| *workspace.name() == name) {
        let message =
            format!("there is a workspace `{name}` already, with another root module or target");
        let help = "name the directory by a `[workspace.NAME]` of its own in rebuild.toml";
        fault("a second time", message, Some(help.to_owned()));
        return None;
    }
    Some(StepId::new(PhaseId::new(WORKSPACE_PHASE).ok()?, name))
}

fn target(field: &Field<'_>, context: &Context<'_>) -> Option<TargetName> {
    let text = field.string()?;
    let target = match TargetName::new(text.as_str()) {
        Ok(target) => target,
        Err(error) => {
            field.fault("no legal name", error.to_string(), None);
            return None;
        }
    };
    // A bundle leaves targets out; where there are none, nobody knows.
    let names = crate::load::target_names(context.files);
    if !names.is_empty() && !names.contains(&text) {
        let help = near(&text, names.iter().map(String::as_str)).map_or_else(
            || format!("write `targets/{text}.toml`"),
            |right| format!("did you mean `{right}`?"),
        );
        let message = format!("there is no target `{text}`: no file `targets/{text}.toml`");
        field.fault("no such target", message, Some(help));
    }
    Some(target)
}

/// Reports a root module that a step owns, or that keeps its state elsewhere.
fn is_free(
    field: &Field<'_>,
    root: &str,
    module: &crate::module::RootModule,
    context: &Context<'_>,
) {
    let owner = context.parsed.platform.steps().find(
        |step| matches!(&step.kind, StepKind::Tofu(tofu) if tofu.nodes.is_none() && tofu.root == root),
    );
    if let Some(owner) = owner {
        let message = format!("root module `{root}` is what step `{}` applies", owner.id);
        let help = "a workspace's root module is applied by handoffs alone: give it a directory of its own";
        field.fault("owned by a step", message, Some(help.to_owned()));
    }
    if let Some(own) = &module.own_state {
        let help = "the state of a workspace is kept in its target's store; one that is in use already is taken over by a `tofu` step of a phase";
        field.doc().report.push(own.fault.clone().help(help));
    }
}

/// Reports what can't be captured for a root module.
fn captures(
    field: &Field<'_>,
    name: &str,
    module: &crate::module::RootModule,
    vars: &BTreeMap<String, crate::expr::Expr>,
) {
    if module.incomplete {
        return;
    }
    match module.variables.get(name) {
        None => {
            let names = module.variables.keys().map(String::as_str);
            let message = format!("root module `{}` has no variable `{name}`", module.path);
            let help = near(name, names).map(|right| format!("did you mean `{right}`?"));
            field.fault("no such variable", message, help);
        }
        Some(variable) if !variable.sensitive => {
            let message = format!(
                "variable `{name}` of root module `{}` is not sensitive",
                module.path
            );
            let help = "what is captured is a secret: declare the variable with `sensitive = true`";
            field.fault("not sensitive", message, Some(help.to_owned()));
        }
        Some(_) if vars.contains_key(name) => {
            let message =
                format!("variable `{name}` has a value in `vars`, and would be captured as well");
            field.fault(
                "given twice",
                message,
                Some("take one of the two out".to_owned()),
            );
        }
        Some(_) => {}
    }
}

//! `ssh` and `ansible` steps.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet::{Fleet, Workspace, WorkspaceName};
use phase_engine::{StepId, StepName};

use super::{Context, Outputs, Sees, Use, UsePlace};
use crate::files::{Files, join};
use crate::model::{AnsibleStep, HostsOutput, SshStep, StepKind};
use crate::near::{hint, near};
use crate::playbook;
use crate::reader::{Field, Section};

/// How long all hosts together may take to come, where nothing is said.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Reads a step of `ssh = { … }`.
pub(super) fn ssh(field: &Field<'_>, id: &StepId, context: &mut Context<'_>) -> Option<StepKind> {
    let section = field.section("`ssh`")?;
    let hosts = hosts(&section, id, context);
    let timeout = match section.field("timeout") {
        None => Some(TIMEOUT),
        Some(field) => field.duration().and_then(|timeout| {
            if timeout.is_zero() {
                let message = "`timeout` must be longer than nothing";
                field.fault("no time at all", message, None);
            }
            (!timeout.is_zero()).then_some(timeout)
        }),
    };
    section.finish();
    Some(StepKind::Ssh(SshStep {
        hosts: hosts?,
        timeout: timeout?,
    }))
}

/// Reads a step of `ansible = { … }`.
pub(super) fn ansible(
    field: &Field<'_>,
    id: &StepId,
    position: usize,
    context: &mut Context<'_>,
) -> Option<StepKind> {
    let section = field.section("`ansible`")?;
    let hosts = hosts(&section, id, context);
    let group = hosts.as_ref().and_then(HostsOutput::group);
    let playbook_field = section.required("playbook");
    let playbook = playbook_field.and_then(|field| playbook_of(&field, group.as_ref(), context));
    let teardown_field = section.field("teardown");
    let has_teardown = teardown_field.is_some();
    let teardown = teardown_field.and_then(|field| playbook_of(&field, group.as_ref(), context));
    let limit = section.field("limit").and_then(|field| {
        let text = field.string()?;
        if let (Some(fleet), false) = (fleet_of(group.as_ref()), text.contains("{{"))
            && let Err(error) = fleet.limit(&text)
        {
            field.fault(
                "means nothing",
                error.to_string(),
                Some(LIMIT_HELP.to_owned()),
            );
        }
        Some(text)
    });
    let vars: BTreeMap<_, _> = section
        .section("vars", "`vars`")
        .map(|vars| {
            let read = vars.fields().into_iter().filter_map(|field| {
                if !is_variable(&field.name) {
                    field.doc().fault(
                        field.key_span.clone(),
                        "no variable",
                        format!("`{}` can't name a variable of Ansible", field.name),
                        Some("letters, digits and `_`, no digit first".to_owned()),
                    );
                }
                Some((field.name.clone(), field.expr()?))
            });
            read.collect()
        })
        .unwrap_or_default();
    let verify = section.boolean("verify").unwrap_or(true);
    let diff = section.boolean("diff").unwrap_or(false);
    section.finish();
    context.parsed.uses.push(Use {
        exprs: vars.values().cloned().collect(),
        sees: Sees::Before(position),
        // They lie in memory-backed files: a secret may be among them.
        place: UsePlace::Private,
    });
    if has_teardown && teardown.is_none() {
        return None;
    }
    Some(StepKind::Ansible(AnsibleStep {
        hosts: hosts?,
        playbook: playbook?,
        teardown,
        limit,
        vars,
        verify,
        diff,
    }))
}

const LIMIT_HELP: &str = "with the hosts of one step there is the group `tf`, the step's own name, and the groups of the output";

fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// Reads which output has the hosts: `OUTPUT` of the nearest step before it that has it, `STEP.OUTPUT` of the same
/// phase, or `PHASE.STEP.OUTPUT`.
fn hosts(section: &Section<'_>, id: &StepId, context: &mut Context<'_>) -> Option<HostsOutput> {
    let field = section.required("hosts")?;
    let text = field.string()?;
    let parts: Vec<&str> = text.split('.').collect();
    let declared = &context.parsed.declared;
    let step = match parts.as_slice() {
        [output] => {
            let found = declared.iter().rev().find(|step| match &step.outputs {
                Outputs::Of(module) => module.outputs.contains_key(*output),
                Outputs::Unknown => true,
                Outputs::None => false,
            });
            match found {
                Some(step) => step.id.clone(),
                None => {
                    let modules = declared.iter().filter_map(|step| match &step.outputs {
                        Outputs::Of(module) => Some(module),
                        _ => None,
                    });
                    let modules: Vec<_> = modules.collect();
                    let names = modules.iter().flat_map(|module| module.outputs.keys());
                    let help = hint(output, "outputs", names.map(String::as_str))
                        .or_else(|| Some("a `nodes` step has an output `hosts`, and a `tofu` step has what its root module declares; it must come before this step".to_owned()));
                    field.fault(
                        "no such output",
                        format!("no step before `{id}` has an output `{output}`"),
                        help,
                    );
                    return None;
                }
            }
        }
        [step, _] => StepId::new(id.phase.clone(), StepName::new(*step).ok()?),
        [phase, step, _] => format!("{phase}.{step}").parse().ok()?,
        _ => {
            field.fault(
                "no output",
                format!("`{text}` names no output"),
                Some("write `OUTPUT`, `STEP.OUTPUT` or `PHASE.STEP.OUTPUT`".to_owned()),
            );
            return None;
        }
    };
    let output = (*parts.last()?).to_owned();
    let Some(found) = declared.iter().find(|one| one.id == step) else {
        if !context.parsed.has_unnamed {
            let ids: Vec<String> = declared.iter().map(|one| one.id.to_string()).collect();
            let right = near(&step.to_string(), ids.iter().map(String::as_str));
            field.fault(
                "no such step",
                format!("there is no step `{step}` before `{id}`"),
                right.map(|right| format!("did you mean `{right}.{output}`?")),
            );
        }
        return None;
    };
    match &found.outputs {
        Outputs::Of(module) if !module.outputs.contains_key(&output) => {
            let names = module.outputs.keys().map(String::as_str);
            field.fault(
                "no such output",
                format!("step `{step}` has no output `{output}`"),
                hint(&output, "outputs", names),
            );
            return None;
        }
        Outputs::None => {
            field.fault(
                "no outputs",
                format!("step `{step}` has no outputs"),
                Some("only `tofu` and `nodes` steps have outputs".to_owned()),
            );
            return None;
        }
        Outputs::Of(_) | Outputs::Unknown => {}
    }
    let hosts = HostsOutput { step, output };
    if hosts.group().is_none() {
        let name = &hosts.step.step;
        field.fault(
            "no group",
            format!("the hosts of step `{}` can't be a group of that name: `{name}` means something else in Ansible's inventory", hosts.step),
            Some("give the step another name".to_owned()),
        );
        return None;
    }
    Some(hosts)
}

/// Reads the path of a playbook, which must be there, and looks at the hosts that its plays name.
fn playbook_of(
    field: &Field<'_>,
    group: Option<&WorkspaceName>,
    context: &Context<'_>,
) -> Option<String> {
    let text = field.string()?;
    let Some(path) = join("", &text) else {
        field.fault(
            "outside of the platform",
            format!("`{text}` leads out of the platform directory"),
            Some("a platform is one directory: move the playbook into it".to_owned()),
        );
        return None;
    };
    match context.files.read(&path) {
        Ok(Some(bytes)) => {
            playbook::look(field.doc(), &path, bytes, fleet_of(group).as_ref());
            Some(path)
        }
        Ok(None) => {
            let help = near_file(context.files, &path);
            field.fault(
                "no such file",
                format!("the platform has no file `{path}`"),
                help.map(|right| format!("did you mean `{right}`?")),
            );
            None
        }
        Err(error) => {
            field.fault("can't be read", error.to_string(), None);
            None
        }
    }
}

/// A fleet of which only the name is known: enough to tell what `tf:NAME` means.
fn fleet_of(group: Option<&WorkspaceName>) -> Option<Fleet> {
    let workspace = Workspace {
        name: group?.clone(),
        hosts: Vec::new(),
    };
    Fleet::new(vec![workspace]).ok()
}

fn near_file(files: &dyn Files, path: &str) -> Option<String> {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let entries = files.entries(parent).ok().flatten()?;
    let names = entries.iter().filter(|entry| !entry.is_dir);
    let right = near(name, names.map(|entry| entry.name.as_str()))?;
    Some(match parent {
        "" => right.to_owned(),
        parent => format!("{parent}/{right}"),
    })
}

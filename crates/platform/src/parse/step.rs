//! Steps of a phase.

use std::collections::BTreeMap;
use std::sync::Arc;

use phase_engine::{PhaseId, StepId, StepName};
use sha2::{Digest, Sha256};

use super::{
    Context, DeclaredStep, Mention, Outputs, Sees, Use, UsePlace, env, handoff, nodes, probe, talos,
};
use crate::expr::Expr;
use crate::files::join;
use crate::model::{EnvValue, ExecStep, IgnoreDrift, StepDef, StepKind, TofuStep};
use crate::module::RootModule;
use crate::near::near;
use crate::reader::{Field, Section};

const KINDS: [&str; 6] = ["tofu", "exec", "nodes", "ssh", "ansible", "talos"];
const OTHER_KEYS: [&str; 11] = [
    "name",
    "env",
    "stdin",
    "after",
    "contained_in",
    "moved_from",
    "ignore_drift",
    "timeout",
    "parallelism",
    "destroy_refresh",
    "vars",
];

/// Reads the steps of a phase.
pub(crate) fn steps(phase: &Section<'_>, id: &PhaseId, context: &mut Context<'_>) -> Vec<StepDef> {
    let Some(field) = phase.field("step") else {
        if !phase.has_slip_of(&["step"], &["title"]) {
            phase.doc.fault(
                phase.span.clone(),
                "does nothing",
                format!("{} has no steps", phase.what),
                Some("add a [[phase.step]], or take the phase out".to_owned()),
            );
        }
        return Vec::new();
    };
    let items = field.items().unwrap_or_default();
    if items.is_empty() {
        field.fault(
            "nothing in it",
            format!("{} has no steps", phase.what),
            None,
        );
    }
    items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| {
            let mut section = item.section(&format!("step {} of {}", index + 1, phase.what))?;
            step(&mut section, id, index, context)
        })
        .collect()
}

fn step(
    section: &mut Section<'_>,
    phase: &PhaseId,
    index: usize,
    context: &mut Context<'_>,
) -> Option<StepDef> {
    let position = context.parsed.declared.len();
    let name_field = section.required("name");
    let name = name_field.as_ref().and_then(|field| {
        let text = field.string()?;
        StepName::new(text)
            .map_err(|error| field.fault("no legal name", error.to_string(), None))
            .ok()
    });
    let span = name_field
        .as_ref()
        .map_or_else(|| section.span.clone(), Field::value_span);
    let named = name.is_some();
    context.parsed.has_unnamed |= !named;
    // A step without a legal name is read all the same, for the faults further down.
    let name = name.or_else(|| StepName::new(format!("step-{}", index + 1)).ok())?;
    let id = StepId::new(phase.clone(), name);
    if named {
        section.what = format!("step `{id}`");
        if context.parsed.declared.iter().any(|step| step.id == id) {
            section.doc.fault(
                span.clone(),
                "a second time",
                format!("step `{id}` is there twice"),
                None,
            );
        }
    }

    let env = section
        .section("env", "`env`")
        .map(|section| env::variables(&section))
        .unwrap_or_default();
    let stdin = section.field("stdin");
    let (kind, outputs) = kind(section, &id, position, stdin, context);
    context.parsed.declared.push(DeclaredStep {
        id: id.clone(),
        outputs,
    });
    let is_tofu = section.field("tofu").is_some() || section.field("nodes").is_some();
    context.parsed.uses.push(Use {
        exprs: env.values().filter_map(EnvValue::expr).cloned().collect(),
        sees: Sees::Before(position),
        place: if is_tofu {
            UsePlace::TofuEnv
        } else {
            UsePlace::Private
        },
    });

    let after = section
        .field("after")
        .and_then(|field| field.items())
        .unwrap_or_default()
        .iter()
        .filter_map(|item| mention(item, "after", &id, position, context))
        .collect();
    let contained_in = section
        .field("contained_in")
        .and_then(|field| mention(&field, "contained_in", &id, position, context));
    let moved_from = section
        .field("moved_from")
        .and_then(|field| mention(&field, "moved_from", &id, position, context));
    let ignore_drift = section
        .field("ignore_drift")
        .map(|field| ignore_drift(&field))
        .unwrap_or_default();
    let timeout = section.field("timeout").and_then(|field| {
        let timeout = field.duration()?;
        if timeout.is_zero() {
            field.fault(
                "no time at all",
                "`timeout` must be longer than nothing",
                None,
            );
        }
        (!timeout.is_zero()).then_some(timeout)
    });
    let parallelism = section
        .field("parallelism")
        .and_then(|field| field.integer(1..=1024));
    let destroy_refresh = section.boolean("destroy_refresh").unwrap_or(true);
    for key in [
        "vars",
        "parallelism",
        "destroy_refresh",
        "ignore_drift",
        "moved_from",
    ] {
        let other = kind
            .as_ref()
            .filter(|kind| !matches!(kind, StepKind::Tofu(_)))
            .map(|kind| step_of(kind.word()));
        if let (Some(field), Some(other)) = (section.field(key), other) {
            section.doc.fault(
                field.key_span,
                "only a tofu step has it",
                format!("`{key}` means nothing for {other}"),
                None,
            );
        }
    }
    let parallelism = parallelism
        .and_then(|number| u32::try_from(number).ok())
        .or_else(|| kind.as_ref().and_then(nodes::parallelism));
    let section_digest = digest(section);
    section.finish();
    Some(StepDef {
        id,
        kind: kind?,
        after,
        contained_in,
        ignore_drift,
        timeout,
        env,
        moved_from,
        parallelism,
        destroy_refresh,
        section_digest,
        span,
    })
}

/// A step of this kind, with its article.
fn step_of(kind: &str) -> String {
    let article = match kind {
        "exec" | "ssh" | "ansible" => "an",
        _ => "a",
    };
    format!("{article} `{kind}` step")
}

pub(super) fn digest(section: &Section<'_>) -> String {
    let bytes = section.canonical().to_string();
    Sha256::digest(bytes.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn kind(
    section: &Section<'_>,
    id: &StepId,
    position: usize,
    stdin: Option<Field<'_>>,
    context: &mut Context<'_>,
) -> (Option<StepKind>, Outputs) {
    let fields: Vec<(&'static str, Field<'_>)> = KINDS
        .iter()
        .filter_map(|kind| Some((*kind, section.field(kind)?)))
        .collect();
    let [(kind, field)] = fields.as_slice() else {
        match fields.get(1) {
            Some((second, field)) => section.doc.fault(
                field.key_span.clone(),
                "a second kind",
                format!("{} is two things at once: `{}` and `{second}`", section.what, fields[0].0),
                Some("make two steps of it".to_owned()),
            ),
            None if section.has_slip_of(&KINDS, &OTHER_KEYS) => {}
            None => section.doc.fault(
                section.span.clone(),
                "does nothing",
                format!("{} does nothing", section.what),
                Some("give it `tofu = \"DIRECTORY\"` or `exec = { apply = …, verify = …, teardown = … }`".to_owned()),
            ),
        }
        return (None, Outputs::Unknown);
    };
    if let (Some(stdin), true) = (&stdin, *kind != "exec") {
        section.doc.fault(
            stdin.key_span.clone(),
            "nothing reads it",
            format!("{} has no `stdin`", step_of(kind)),
            None,
        );
    }
    match *kind {
        "tofu" => tofu(section, field, id, position, context),
        "exec" => (exec(field, position, stdin, context), Outputs::None),
        "nodes" => nodes::nodes(section, field, id, position, context),
        "talos" => (talos::talos(field, id, position, context), Outputs::None),
        "ssh" => (handoff::ssh(field, id, context), Outputs::None),
        _ => (
            handoff::ansible(field, id, position, context),
            Outputs::None,
        ),
    }
}

fn tofu(
    section: &Section<'_>,
    field: &Field<'_>,
    id: &StepId,
    position: usize,
    context: &mut Context<'_>,
) -> (Option<StepKind>, Outputs) {
    let vars = vars(section, id, position, context);
    let Some((root, module)) = root_module(field, context) else {
        return (None, Outputs::Unknown);
    };
    let outputs = if module.incomplete {
        Outputs::Unknown
    } else {
        Outputs::Of(Arc::clone(&module))
    };
    (
        Some(StepKind::Tofu(TofuStep {
            root,
            inputs: vars.clone(),
            vars,
            module,
            nodes: None,
        })),
        outputs,
    )
}

/// Reads the root module at the path that a field names.
pub(super) fn root_module(
    field: &Field<'_>,
    context: &Context<'_>,
) -> Option<(String, Arc<RootModule>)> {
    let text = field.string()?;
    let Some(root) = join("", &text) else {
        field.fault(
            "outside of the platform",
            format!("root module `{text}` is not within the platform"),
            Some("a platform is one directory: move the root module into it".to_owned()),
        );
        return None;
    };
    let module = match context.modules.root(&root) {
        Ok(module) => module,
        Err(error) => {
            field.fault("can't be read", error.to_string(), None);
            return None;
        }
    };
    let Some(module) = module else {
        if context.modules.has_directory(&root) {
            field.fault(
                "no configuration here",
                format!("root module `{root}` has no `.tf`, `.tofu` or JSON files"),
                None,
            );
        } else {
            let (parent, name) = root.rsplit_once('/').unwrap_or(("", &root));
            let entries = context
                .files
                .entries(parent)
                .ok()
                .flatten()
                .unwrap_or_default();
            let others = entries
                .iter()
                .filter(|entry| entry.is_dir)
                .map(|entry| entry.name.as_str());
            let help = near(name, others).map(|right| match parent {
                "" => format!("did you mean `{right}`?"),
                parent => format!("did you mean `{parent}/{right}`?"),
            });
            field.fault(
                "no such directory",
                format!("the platform has no directory `{root}`"),
                help,
            );
        }
        return None;
    };
    Some((root, module))
}

pub(super) fn vars(
    section: &Section<'_>,
    id: &StepId,
    position: usize,
    context: &mut Context<'_>,
) -> BTreeMap<String, Expr> {
    let Some(vars) = section.section("vars", "`vars`") else {
        if section.has_slip_of(&["vars"], &OTHER_KEYS) || section.field("vars").is_some() {
            context.parsed.vars_unknown.push(id.clone());
        }
        return BTreeMap::new();
    };
    let vars: BTreeMap<String, Expr> = vars
        .fields()
        .into_iter()
        .filter_map(|field| {
            context
                .parsed
                .var_spans
                .insert((id.clone(), field.name.clone()), field.key_span.clone());
            Some((field.name.clone(), field.expr()?))
        })
        .collect();
    context.parsed.uses.push(Use {
        exprs: vars.values().cloned().collect(),
        sees: Sees::Before(position),
        place: UsePlace::TofuVars,
    });
    vars
}

fn exec(
    field: &Field<'_>,
    position: usize,
    stdin: Option<Field<'_>>,
    context: &mut Context<'_>,
) -> Option<StepKind> {
    let section = field.section("`exec`")?;
    let argv = |key: &'static str| {
        section
            .required(key)
            .and_then(|field| probe::program(&field, context))
    };
    let apply = argv("apply");
    let verify = argv("verify");
    let teardown = section.required("teardown").and_then(|field| {
        let nothing = field.items().is_some_and(|items| items.is_empty());
        if nothing {
            Some(Vec::new())
        } else {
            probe::program(&field, context)
        }
    });
    let inner = section.field("stdin");
    if let (Some(_), Some(inner)) = (&stdin, &inner) {
        section.doc.fault(
            inner.key_span.clone(),
            "a second time",
            "`stdin` is there twice",
            None,
        );
    }
    let stdin = stdin.or(inner).and_then(|field| field.text_expr());
    section.finish();
    let exprs = [&apply, &verify, &teardown]
        .into_iter()
        .flatten()
        .flatten()
        .cloned()
        .collect();
    context.parsed.uses.push(Use {
        exprs,
        sees: Sees::Before(position),
        place: UsePlace::Argv,
    });
    context.parsed.uses.push(Use {
        exprs: stdin.iter().cloned().collect(),
        sees: Sees::Before(position),
        place: UsePlace::Private,
    });
    Some(StepKind::Exec(ExecStep {
        apply: apply?,
        verify: verify?,
        teardown: teardown?,
        stdin,
    }))
}

/// Reads the id of another step: `PHASE.STEP`, or the name of one in the same phase.
pub(super) fn mention(
    field: &Field<'_>,
    key: &'static str,
    of: &StepId,
    position: usize,
    context: &mut Context<'_>,
) -> Option<StepId> {
    let text = field.string()?;
    let to = if text.contains('.') {
        text.parse()
    } else {
        StepName::new(text.as_str()).map(|step| StepId::new(of.phase.clone(), step))
    };
    match to {
        Ok(to) => {
            context.parsed.mentions.push(Mention {
                key,
                of: of.clone(),
                position,
                to: to.clone(),
                span: field.value_span(),
            });
            Some(to)
        }
        Err(error) => {
            field.fault(
                "no step",
                error.to_string(),
                Some("a step is named by `PHASE.STEP`".to_owned()),
            );
            None
        }
    }
}

fn ignore_drift(field: &Field<'_>) -> Vec<IgnoreDrift> {
    field
        .items()
        .unwrap_or_default()
        .iter()
        .filter_map(|item| {
            let section = item.section("an entry of `ignore_drift`")?;
            let address = section.required("address").and_then(|field| field.string());
            let attribute = section.string("attribute");
            let reason = section.required("reason").and_then(|field| field.string());
            let until = section.required("until").and_then(|field| field.date());
            section.finish();
            Some(IgnoreDrift {
                address: address?,
                attribute,
                reason: reason?,
                until: until?,
            })
        })
        .collect()
}

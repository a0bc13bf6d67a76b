//! Checks and residue probes of a phase.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Context, Sees, Use, UsePlace, env, name_of};
use crate::expr::Expr;
use crate::model::{CheckDef, CheckKind, EnvValue, ResidueDef};
use crate::reader::{Field, Section};

/// How long a check is tried where it doesn't say.
const CHECK_WITHIN: Duration = Duration::from_secs(30);
/// How long a check waits between two tries where it doesn't say.
const CHECK_EVERY: Duration = Duration::from_secs(2);

const KINDS: [&str; 4] = ["http", "tcp", "dns", "exec"];
const RECORDS: [&str; 8] = ["A", "AAAA", "CNAME", "TXT", "MX", "NS", "SRV", "PTR"];

/// Reads the checks of a phase, whose steps are all declared by now.
pub(crate) fn checks(phase: &Section<'_>, context: &mut Context<'_>) -> Vec<CheckDef> {
    let mut names = BTreeSet::new();
    let items = phase
        .field("check")
        .and_then(|field| field.items())
        .unwrap_or_default();
    let sees = Sees::UpToHere(context.parsed.declared.len());
    items
        .iter()
        .filter_map(|item| {
            let mut section = item.section("a check")?;
            let (name, span) = name(&mut section, "check", &mut names);
            let kind = check_kind(&section, context, &sees);
            let within = section.duration("within");
            let every = section.field("every").and_then(|field| {
                let every = field.duration()?;
                if every.is_zero() {
                    field.fault(
                        "no time at all",
                        "`every` must be longer than nothing",
                        None,
                    );
                }
                (!every.is_zero()).then_some(every)
            });
            section.finish();
            Some(CheckDef {
                name: name?,
                kind: kind?,
                within: within.unwrap_or(CHECK_WITHIN),
                every: every.unwrap_or(CHECK_EVERY),
                span,
            })
        })
        .collect()
}

fn name(
    section: &mut Section<'_>,
    what: &str,
    names: &mut BTreeSet<String>,
) -> (Option<String>, std::ops::Range<usize>) {
    let field = section.required("name");
    let span = field
        .as_ref()
        .map_or_else(|| section.span.clone(), Field::value_span);
    let name = field.and_then(|field| name_of(&field, &format!("the name of a {what}")));
    if let Some(name) = &name {
        section.what = format!("{what} `{name}`");
        if !names.insert(name.clone()) {
            section.doc.fault(
                span.clone(),
                "a second time",
                format!("{what} `{name}` is there twice"),
                None,
            );
        }
    }
    (name, span)
}

fn check_kind(section: &Section<'_>, context: &mut Context<'_>, sees: &Sees) -> Option<CheckKind> {
    let fields: Vec<(&'static str, Field<'_>)> = KINDS
        .iter()
        .filter_map(|kind| Some((*kind, section.field(kind)?)))
        .collect();
    let env_field = section.field("env");
    let [(kind, field)] = fields.as_slice() else {
        match fields.get(1) {
            Some((second, field)) => section.doc.fault(
                field.key_span.clone(),
                "a second kind",
                format!(
                    "{} is two things at once: `{}` and `{second}`",
                    section.what, fields[0].0
                ),
                Some("make two checks of it".to_owned()),
            ),
            None => section.doc.fault(
                section.span.clone(),
                "asks nothing",
                format!("{} asks nothing", section.what),
                Some("give it one of `http`, `tcp`, `dns`, `exec`".to_owned()),
            ),
        }
        return None;
    };
    let kind = match *kind {
        "http" => http(field),
        "tcp" => tcp(field),
        "dns" => dns(field),
        _ => {
            let argv = program(field, context);
            let env = env_of(env_field.as_ref());
            argv.map(|argv| CheckKind::Exec { argv, env })
        }
    };
    if let (
        Some(env),
        Some(CheckKind::Http { .. } | CheckKind::Tcp { .. } | CheckKind::Dns { .. }),
    ) = (&env_field, &kind)
    {
        section.doc.fault(
            env.key_span.clone(),
            "nothing reads it",
            "only an `exec` check has an environment",
            None,
        );
    }
    let kind = kind?;
    let place = match &kind {
        CheckKind::Exec { .. } => UsePlace::Argv,
        _ => UsePlace::Address,
    };
    record(context, &kind, place, sees);
    Some(kind)
}

fn record(context: &mut Context<'_>, kind: &CheckKind, place: UsePlace, sees: &Sees) {
    let (env, exprs): (Vec<Expr>, Vec<Expr>) = match kind {
        CheckKind::Exec { argv, env } => (env_exprs(env), argv.clone()),
        kind => (Vec::new(), kind.exprs().into_iter().cloned().collect()),
    };
    context.parsed.uses.push(Use {
        exprs,
        sees: sees.clone(),
        place,
    });
    context.parsed.uses.push(Use {
        exprs: env,
        sees: sees.clone(),
        place: UsePlace::Private,
    });
}

fn env_exprs(env: &std::collections::BTreeMap<String, EnvValue>) -> Vec<Expr> {
    env.values().filter_map(EnvValue::expr).cloned().collect()
}

fn env_of(field: Option<&Field<'_>>) -> std::collections::BTreeMap<String, EnvValue> {
    field
        .and_then(|field| field.section("`env`"))
        .map(|section| env::variables(&section))
        .unwrap_or_default()
}

fn http(field: &Field<'_>) -> Option<CheckKind> {
    let section = field.section("`http`")?;
    let url = section.required("url").and_then(|field| {
        let url = field.text_expr()?;
        if let Expr::Text(parts) = &url
            && let Some(crate::expr::Part::Text(start)) = parts.first()
            && !(start.starts_with("http://") || start.starts_with("https://"))
        {
            field.fault(
                "no http or https",
                "`url` must begin with `http://` or `https://`",
                None,
            );
            return None;
        }
        Some(url)
    });
    let status = section
        .field("status")
        .and_then(|field| field.integer(100..=599));
    let body_contains = section
        .field("body_contains")
        .and_then(|field| field.text_expr());
    section.finish();
    let status = status
        .and_then(|status| u16::try_from(status).ok())
        .unwrap_or(200);
    Some(CheckKind::Http {
        url: url?,
        status,
        body_contains,
    })
}

fn tcp(field: &Field<'_>) -> Option<CheckKind> {
    let section = field.section("`tcp`")?;
    let address = section
        .required("address")
        .and_then(|field| field.text_expr());
    section.finish();
    Some(CheckKind::Tcp { address: address? })
}

fn dns(field: &Field<'_>) -> Option<CheckKind> {
    let section = field.section("`dns`")?;
    let name = section.required("name").and_then(|field| field.text_expr());
    let record = match section.field("type") {
        None => Some("A".to_owned()),
        Some(field) => field.string().and_then(|text| {
            let upper = text.to_ascii_uppercase();
            if !RECORDS.contains(&upper.as_str()) {
                field.fault(
                    "no such type",
                    format!("`{text}` is no type of record that can be asked for"),
                    Some(format!("types are {}", RECORDS.join(", "))),
                );
                return None;
            }
            Some(upper)
        }),
    };
    let expect = section
        .field("expect")
        .map_or_else(|| Some(Vec::new()), |field| field.argv());
    let server = section.field("server").and_then(|field| field.text_expr());
    section.finish();
    Some(CheckKind::Dns {
        name: name?,
        record: record?,
        expect: expect?,
        server,
    })
}

/// Reads the residue probes of a phase.
pub(crate) fn residues(phase: &Section<'_>, context: &mut Context<'_>) -> Vec<ResidueDef> {
    let mut names = BTreeSet::new();
    let items = phase
        .field("residue")
        .and_then(|field| field.items())
        .unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            let mut section = item.section("a residue probe")?;
            let (name, span) = name(&mut section, "residue probe", &mut names);
            let argv = section
                .required("exec")
                .and_then(|field| program(&field, context));
            let env = env_of(section.field("env").as_ref());
            let within = section.duration("within").unwrap_or_default();
            section.finish();
            let sees = Sees::NoStep("a residue probe runs when the steps are gone");
            context.parsed.uses.push(Use {
                exprs: argv.clone().unwrap_or_default(),
                sees: sees.clone(),
                place: UsePlace::Argv,
            });
            context.parsed.uses.push(Use {
                exprs: env_exprs(&env),
                sees,
                place: UsePlace::Private,
            });
            Some(ResidueDef {
                name: name?,
                argv: argv?,
                env,
                within,
                span,
            })
        })
        .collect()
}

/// Reads a program and its arguments; a program of the platform must be there.
pub(crate) fn program(field: &Field<'_>, context: &Context<'_>) -> Option<Vec<Expr>> {
    let argv = field.argv()?;
    let Some(first) = argv.first() else {
        field.fault("empty", format!("`{}` names no program", field.name), None);
        return None;
    };
    if let Expr::Text(parts) = first
        && let [crate::expr::Part::Text(program)] = parts.as_slice()
        && let Some(relative) = program
            .strip_prefix("./")
            .or_else(|| program.starts_with("../").then_some(program.as_str()))
    {
        let span = field
            .items()
            .and_then(|items| items.first().map(Field::value_span));
        let fault = |label: &str, message: String, help: Option<String>| {
            field.doc().fault(
                span.clone().unwrap_or_else(|| field.value_span()),
                label,
                message,
                help,
            );
        };
        match crate::files::join("", relative).map(|path| context.files.read(&path)) {
            Some(Ok(Some(_))) => {}
            Some(Ok(None)) => {
                let (directory, name) = relative.rsplit_once('/').unwrap_or(("", relative));
                let entries = context
                    .files
                    .entries(directory)
                    .ok()
                    .flatten()
                    .unwrap_or_default();
                let others = entries
                    .iter()
                    .filter(|entry| !entry.is_dir)
                    .map(|entry| entry.name.as_str());
                let help =
                    crate::near::near(name, others).map(|right| format!("did you mean `{right}`?"));
                fault(
                    "no such file",
                    format!("the platform has no file `{relative}`"),
                    help,
                );
            }
            _ => fault(
                "outside of the platform",
                format!("`{program}` leads out of the platform directory"),
                None,
            ),
        }
    }
    Some(argv)
}

//! `rebuild.toml`: from its text to phases and steps, with every fault on the way.

mod env;
mod handoff;
mod nodes;
mod probe;
mod step;
pub(crate) mod store;
mod talos;
pub(crate) mod target;
mod workspace;

use std::collections::BTreeMap;
use std::ops::Range;

use phase_engine::{PhaseId, StepId, TargetName};
use semver::VersionReq;

use crate::expr::Expr;
use crate::fault::TextFile;
use crate::files::{Files, join};
use crate::model::{NamedRoot, PhaseDef, Platform, ToolDef, WORKSPACE_PHASE};
use crate::module::{Modules, RootModule};
use crate::reader::{Doc, Field, Section};

/// `rebuild.toml` as it stands, before references are looked at.
pub(crate) struct Parsed {
    pub(crate) file: TextFile,
    pub(crate) platform: Platform,
    /// Every step that is declared, in order, broken ones included.
    pub(crate) declared: Vec<DeclaredStep>,
    /// Every phase that is declared, broken ones included.
    pub(crate) phase_ids: Vec<PhaseId>,
    /// Whether a phase or step has no name that others could use.
    pub(crate) has_unnamed: bool,
    /// Steps whose `vars` can't be told for a slip in its name.
    pub(crate) vars_unknown: Vec<StepId>,
    /// Every value in which references may stand.
    pub(crate) uses: Vec<Use>,
    /// Whether a workspace can't be told for faults of its own: it may read anything.
    pub(crate) workspaces_unknown: bool,
    /// The same of workspaces, each with its target: no other target's values are meant.
    pub(crate) workspace_uses: Vec<(TargetName, Use)>,
    /// Every other mention of a step.
    pub(crate) mentions: Vec<Mention>,
    /// Where the name of each variable stands that a step gives a value.
    pub(crate) var_spans: BTreeMap<(StepId, String), Range<usize>>,
}

/// A step as far as others refer to it.
pub(crate) struct DeclaredStep {
    pub(crate) id: StepId,
    pub(crate) outputs: Outputs,
}

/// What a step hands on.
#[derive(Clone)]
pub(crate) enum Outputs {
    /// The outputs of its root module.
    Of(std::sync::Arc<RootModule>),
    /// It has none.
    None,
    /// Faults keep us from knowing.
    Unknown,
}

/// A value with references, and what may stand there.
pub(crate) struct Use {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) sees: Sees,
    pub(crate) place: UsePlace,
}

/// Which steps a value may refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Those before the step at this position.
    Before(usize),
    /// Those up to the end of a phase, which ends before this position.
    UpToHere(usize),
    /// None at all; the text says where that is.
    NoStep(&'static str),
}

/// Where a value goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsePlace {
    /// An argument of a program.
    Argv,
    /// What a check asks, and asks for.
    Address,
    /// A variable of a root module.
    TofuVars,
    /// The environment of a tofu step.
    TofuEnv,
    /// The environment or the input of a program.
    Private,
}

/// A mention of a step by `after`, `contained_in` or `moved_from`.
pub(crate) struct Mention {
    pub(crate) key: &'static str,
    pub(crate) of: StepId,
    pub(crate) position: usize,
    pub(crate) to: StepId,
    pub(crate) span: Range<usize>,
}

/// What parsing a phase needs to know and fills.
pub(crate) struct Context<'a> {
    pub(crate) files: &'a dyn Files,
    /// Whether root modules that were rendered before are taken as they are.
    pub(crate) as_stored: bool,
    pub(crate) modules: &'a Modules<'a>,
    pub(crate) parsed: Parsed,
}

/// Reads `rebuild.toml`; `None` when it is no TOML.
///
/// `as_stored`: `files` are a bundle's, and hold what nodes steps were rendered into. `named` is a workspace besides
/// those of the file.
pub(crate) fn platform(
    doc: &Doc<'_>,
    files: &dyn Files,
    modules: &Modules<'_>,
    as_stored: bool,
    named: Option<&NamedRoot>,
) -> Option<Parsed> {
    let document = doc.parse()?;
    let root = doc.root(&document);
    let mut context = Context {
        files,
        as_stored,
        modules,
        parsed: Parsed {
            file: doc.file.clone(),
            platform: Platform {
                name: String::new(),
                time_budget: None,
                tools: BTreeMap::new(),
                phases: Vec::new(),
                workspaces: Vec::new(),
                rendered: BTreeMap::new(),
            },
            declared: Vec::new(),
            phase_ids: Vec::new(),
            has_unnamed: false,
            vars_unknown: Vec::new(),
            uses: Vec::new(),
            workspaces_unknown: false,
            workspace_uses: Vec::new(),
            mentions: Vec::new(),
            var_spans: BTreeMap::new(),
        },
    };
    if let Some(section) = root
        .required("platform")
        .and_then(|field| field.section("[platform]"))
    {
        if let Some(name) = section
            .required("name")
            .and_then(|field| name_of(&field, "the platform's name"))
        {
            context.parsed.platform.name = name;
        }
        context.parsed.platform.time_budget = section.duration("time_budget");
        section.finish();
    }
    if let Some(section) = root.section("tools", "[tools]") {
        context.parsed.platform.tools = tools(&section, files);
        section.finish();
    }
    match root.field("phase") {
        Some(field) => phases(&field, &mut context),
        None => doc.report.push(
            doc.file
                .fault_of_whole("`rebuild.toml` has no phases: it would build nothing")
                .help("add a [[phase]] with an id and at least one [[phase.step]]"),
        ),
    }
    if let Some(section) = root.section("workspace", "[workspace]") {
        workspace::workspaces(&section, &mut context);
    }
    if let Some(named) = named {
        workspace::named(doc.report, named, &mut context);
    }
    root.finish();
    Some(context.parsed)
}

fn tools(section: &Section<'_>, files: &dyn Files) -> BTreeMap<String, ToolDef> {
    let mut tools = BTreeMap::new();
    for name in ["tofu", "ansible", "tflint", "talosctl"] {
        let Some(table) = section
            .field(name)
            .and_then(|field| field.section(&format!("[tools] {name}")))
        else {
            continue;
        };
        let version = table.field("version").and_then(|field| version(&field));
        let sha256 = table.field("sha256").and_then(|field| {
            let text = field.string()?.to_ascii_lowercase();
            let legal = text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit());
            if !legal {
                field.fault("no SHA-256", "`sha256` must be 64 hexadecimal digits", None);
            }
            legal.then_some(text)
        });
        let command = table.field("command").and_then(|field| {
            let command = field.strings()?;
            if command.is_empty() {
                field.fault("empty", "`command` names no program", None);
            }
            (!command.is_empty()).then_some(command)
        });
        let cli_config = (name == "tofu")
            .then(|| table.field("cli_config"))
            .flatten()
            .and_then(|field| cli_config(&field, files));
        table.finish();
        tools.insert(
            name.to_owned(),
            ToolDef {
                version,
                sha256,
                command,
                cli_config,
            },
        );
    }
    tools
}

fn cli_config(field: &Field<'_>, files: &dyn Files) -> Option<String> {
    let text = field.string()?;
    let path = join("", &text);
    match path.as_ref().map(|path| files.read(path)) {
        Some(Ok(Some(_))) => return path,
        Some(Ok(None)) => {
            let message = format!("the platform has no file `{text}`");
            field.fault("no such file", message, None);
        }
        _ => field.fault(
            "outside of the platform",
            format!("`{text}` leads out of the platform directory"),
            None,
        ),
    }
    None
}

fn version(field: &Field<'_>) -> Option<VersionReq> {
    let text = field.string()?;
    match VersionReq::parse(&text) {
        Ok(version) => Some(version),
        Err(_) => {
            let help = match text.split_once("~>") {
                Some((_, rest)) => format!("write `~{}`", rest.trim()),
                None => "write for example \"~1.12\", \">=2.17\" or \">=1.10, <1.13\"".to_owned(),
            };
            field.fault(
                "no version constraint",
                format!("`{text}` is no version constraint"),
                Some(help),
            );
            None
        }
    }
}

fn phases(field: &Field<'_>, context: &mut Context<'_>) {
    let doc = field.doc();
    let items = field.items().unwrap_or_default();
    if items.is_empty() {
        field.fault(
            "nothing in it",
            "`rebuild.toml` has no phases: it would build nothing",
            None,
        );
    }
    let count = items.len();
    let mut canaries = 0;
    for (index, item) in items.iter().enumerate() {
        let Some(mut section) = item.section(&format!("phase {}", index + 1)) else {
            continue;
        };
        let id_field = section.required("id");
        let id = id_field.as_ref().and_then(|field| {
            let text = field.string()?;
            if text == WORKSPACE_PHASE {
                let message = format!("`{WORKSPACE_PHASE}` is what the steps of workspaces are in");
                field.fault(
                    "reserved",
                    message,
                    Some("give the phase another id".to_owned()),
                );
            }
            PhaseId::new(text)
                .map_err(|error| field.fault("no legal id", error.to_string(), None))
                .ok()
        });
        let span = id_field
            .as_ref()
            .map_or_else(|| section.span.clone(), Field::value_span);
        if let Some(id) = &id {
            section.what = format!("phase `{id}`");
            if context.parsed.phase_ids.contains(id) {
                doc.fault(
                    span.clone(),
                    "a second time",
                    format!("phase `{id}` is there twice"),
                    None,
                );
            }
            context.parsed.phase_ids.push(id.clone());
        }
        context.parsed.has_unnamed |= id.is_none();
        let title = section.string("title");
        let flag = |key: &'static str| {
            section
                .field(key)
                .filter(|field| field.boolean() == Some(true))
        };
        let provides_state = flag("provides_state");
        if let (Some(field), true) = (&provides_state, index > 0) {
            field.fault(
                "not the first phase",
                "only the first phase can make the store that states are kept in",
                Some("move the phase to the front, or take `provides_state` out".to_owned()),
            );
        }
        let canary = flag("canary");
        if let Some(field) = &canary {
            canaries += 1;
            if canaries > 1 {
                field.fault("a second canary", "a platform has one canary at most", None);
            } else if index + 1 != count {
                field.fault(
                    "not the last phase",
                    "the canary must be the last phase: it proves all the others",
                    Some("move the phase to the end".to_owned()),
                );
            }
        }
        let parallel = flag("parallel").is_some();
        let max_destroy = section
            .field("max_destroy")
            .and_then(|field| field.integer(0..=i64::from(u32::MAX)))
            .and_then(|number| u32::try_from(number).ok());
        // A phase without a legal id is read all the same, for the faults further down.
        let id = id.or_else(|| PhaseId::new(format!("phase-{}", index + 1)).ok());
        let Some(id) = id else { continue };
        let steps = step::steps(&section, &id, context);
        let checks = probe::checks(&section, context);
        let residue = probe::residues(&section, context);
        section.finish();
        context.parsed.platform.phases.push(PhaseDef {
            title: title.unwrap_or_else(|| id.to_string()),
            id,
            provides_state: provides_state.is_some(),
            canary: canary.is_some(),
            parallel,
            max_destroy,
            steps,
            checks,
            residue,
            span,
        });
    }
}

/// Reads a name that is free but for control characters.
fn name_of(field: &Field<'_>, what: &str) -> Option<String> {
    let text = field.string()?;
    if text.chars().any(char::is_control) || text.trim() != text {
        field.fault(
            "no legal name",
            format!("{what} may hold no line breaks and neither begin nor end with a space"),
            None,
        );
        return None;
    }
    Some(text)
}

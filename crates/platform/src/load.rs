//! From files to definitions, with all faults at once.

use phase_engine::TargetName;

use crate::check;
use crate::expr::{Expr, Reference};
use crate::fault::{Fault, Faults, TextFile};
use crate::files::{Files, PLATFORM_FILE};
use crate::model::{Definitions, NamedRoot, Platform, StepKind, Target};
use crate::module::Modules;
use crate::near::near;
use crate::parse::target::ParsedTarget;
use crate::parse::{self, Parsed};
use crate::reader::{Doc, Report};
use crate::store_def::StoreDef;

/// The text of a target file that is not among the platform's files.
///
/// A bundle leaves `targets/` out, so whoever reads definitions from one brings the file along.
#[derive(Debug, Clone)]
pub struct TargetFile {
    /// Its path, for messages.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// What a teardown goes by: the target for sure, the platform if it has no faults.
#[derive(Debug)]
pub struct TargetDefinitions {
    /// What the target file says.
    pub target: Target,
    /// What `rebuild.toml` says, or what is wrong with it.
    pub platform: Result<Platform, Faults>,
    /// What is legal and yet likely to hurt.
    pub warnings: Vec<Fault>,
}

/// What `rebuild.toml` and the root modules say, as far as it can be understood, and all that is
/// wrong with them.
#[derive(Debug)]
pub struct Survey {
    /// The platform; not whole where there are faults, and missing where there is nothing to read.
    pub platform: Option<Platform>,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// What is legal and yet likely to hurt.
    pub warnings: Vec<Fault>,
}

/// Reads `rebuild.toml`, the root modules and one target file.
///
/// `target_file` stands in for `targets/NAME.toml` where `files` don't hold it.
///
/// # Errors
/// Every fault of all of them, in order.
pub fn load(
    files: &dyn Files,
    target_file: Option<&TargetFile>,
    target: &TargetName,
) -> Result<Definitions, Faults> {
    let report = Report::default();
    let (parsed, parsed_target) = read(files, target_file, target, &report);
    let (warnings, faults) = split(report.take());
    match (parsed, parsed_target) {
        (Some(parsed), Some(target))
            if faults.is_empty() && own_states(&parsed.platform).is_empty() =>
        {
            Ok(Definitions {
                platform: parsed.platform,
                target: target.target,
                warnings,
            })
        }
        (parsed, _) => {
            let own = parsed
                .iter()
                .flat_map(|parsed| own_states(&parsed.platform));
            let own: Vec<Fault> = own.map(|(_, fault)| fault).collect();
            Err(Faults::sorted(faults.into_iter().chain(own).collect()))
        }
    }
}

/// The root modules of a platform that keep a state by themselves, by path, each with the fault that this is until the
/// state was taken over.
pub fn own_states(platform: &Platform) -> Vec<(String, Fault)> {
    let mut found: Vec<(String, Fault)> = Vec::new();
    for step in platform.steps() {
        if let StepKind::Tofu(tofu) = &step.kind
            && let Some(own) = &tofu.module.own_state
            && !found.iter().any(|(root, _)| *root == tofu.root)
        {
            found.push((tofu.root.clone(), own.fault.clone()));
        }
    }
    found
}

/// Reads one target file, and `rebuild.toml` as far as it goes.
///
/// # Errors
/// Every fault of the target file. Those of `rebuild.toml`, and of the two together, are in the answer; but for root
/// modules that keep a state by themselves, which [`own_states`] tells: only the target's record knows which of them
/// were taken over.
pub fn load_target(
    files: &dyn Files,
    target_file: Option<&TargetFile>,
    target: &TargetName,
) -> Result<TargetDefinitions, Faults> {
    load_target_with(files, target_file, target, None)
}

/// The same with a workspace besides those that `rebuild.toml` has.
///
/// # Errors
/// As [`load_target`].
pub fn load_target_with(
    files: &dyn Files,
    target_file: Option<&TargetFile>,
    target: &TargetName,
    named: Option<&NamedRoot>,
) -> Result<TargetDefinitions, Faults> {
    let alone = Report::default();
    let parsed_target = read_target(files, target_file, target, &alone);
    let (mut warnings, faults) = split(alone.take());
    let target = match parsed_target {
        Some(target) if faults.is_empty() => target,
        _ => return Err(Faults::sorted(faults)),
    };
    let report = Report::default();
    let parsed = read_platform(files, Some(&target), false, named, &report);
    let (more, faults) = split(report.take());
    warnings.extend(more);
    let platform = match parsed {
        Some(parsed) if faults.is_empty() => Ok(parsed.platform),
        _ => Err(Faults::sorted(faults)),
    };
    Ok(TargetDefinitions {
        target: target.target,
        platform,
        warnings,
    })
}

/// Reads `rebuild.toml` and the root modules alone, as a bundle holds them that something was applied from.
///
/// What only shows together with a target is not looked at: the target has changed since.
///
/// # Errors
/// Every fault of them, in order.
pub fn load_platform(files: &dyn Files) -> Result<Platform, Faults> {
    load_platform_with(files, None)
}

/// The same with a workspace besides those that `rebuild.toml` has.
///
/// # Errors
/// As [`load_platform`].
pub fn load_platform_with(
    files: &dyn Files,
    named: Option<&NamedRoot>,
) -> Result<Platform, Faults> {
    let report = Report::default();
    let parsed = read_platform(files, None, true, named, &report);
    let (_, faults) = split(report.take());
    match parsed {
        Some(parsed) if faults.is_empty() => Ok(parsed.platform),
        _ => Err(Faults::sorted(faults)),
    }
}

/// Reads `rebuild.toml` and the root modules alone, as a platform directory holds them today.
///
/// # Errors
/// Every fault of them, in order.
pub fn load_today(files: &dyn Files) -> Result<Platform, Faults> {
    let survey = survey(files);
    match survey.platform {
        Some(platform) if survey.faults.is_empty() => Ok(platform),
        _ => Err(Faults::sorted(survey.faults)),
    }
}

/// Reads the platform's name out of the text of a `rebuild.toml` that has faults elsewhere.
pub fn platform_name(text: &str) -> Option<String> {
    let name = match text.parse::<toml_edit::DocumentMut>() {
        Ok(document) => document.get("platform")?.get("name")?.as_str()?.to_owned(),
        Err(_) => name_in_platform_table(text)?,
    };
    phase_engine::TargetName::new(name)
        .ok()
        .map(|name| name.to_string())
}

/// The same of a text that is no TOML as a whole: from the lines of its `[platform]` table.
fn name_in_platform_table(text: &str) -> Option<String> {
    let mut is_in_table = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            is_in_table = line
                .strip_prefix("[platform]")
                .is_some_and(|rest| rest.trim().is_empty() || rest.trim().starts_with('#'));
        } else if is_in_table
            && let Ok(line) = line.parse::<toml_edit::DocumentMut>()
            && let Some(name) = line.get("name")
        {
            return name.as_str().map(str::to_owned);
        }
    }
    None
}

/// Reads `rebuild.toml` and the root modules, with no target, and goes as far as it can.
pub fn survey(files: &dyn Files) -> Survey {
    let report = Report::default();
    let parsed = read_platform(files, None, false, None, &report);
    let (mut warnings, faults) = split(report.take());
    let own = parsed
        .iter()
        .flat_map(|parsed| own_states(&parsed.platform));
    warnings.extend(own.map(|(_, fault)| fault.warning()));
    Survey {
        platform: parsed.map(|parsed| parsed.platform),
        faults: Faults::sorted(faults).into_vec(),
        warnings,
    }
}

/// Returns the names of the targets that a platform has files for.
pub fn target_names(files: &dyn Files) -> Vec<String> {
    let entries = files.entries("targets").ok().flatten().unwrap_or_default();
    entries
        .iter()
        .filter(|entry| !entry.is_dir)
        .filter_map(|entry| entry.name.strip_suffix(".toml"))
        .map(str::to_owned)
        .collect()
}

/// Reads a store as `[store]` of a target would name it, out of a text that stands elsewhere: `name` is what
/// messages call it. Its credentials may refer to the target's secrets.
///
/// # Errors
/// Every fault of it, in order.
pub fn store_of_text(name: &str, text: &str, target: &Target) -> Result<StoreDef, Faults> {
    let report = Report::default();
    let doc = Doc::new(TextFile::new(name, text), &report);
    let def = doc
        .parse()
        .map(|document| parse::store::store(&doc.root(&document)));
    for located in def
        .iter()
        .flat_map(StoreDef::exprs)
        .flat_map(Expr::references)
    {
        let span = located.span.clone().unwrap_or(0..0);
        let reference = &located.reference;
        let known = match reference {
            Reference::Secret { name } => target.secrets.contains_key(name),
            Reference::Target { name, .. } => target.values.contains_key(name),
            Reference::Output { .. } => false,
        };
        if !known {
            let message = format!(
                "target `{}` has nothing that `{reference}` could mean",
                target.name
            );
            let help = "only `${secret.NAME}` and `${target.NAME}` may stand here".to_owned();
            doc.fault(span, "leads nowhere", message, Some(help));
        }
    }
    let (_, faults) = split(report.take());
    match def {
        Some(def) if faults.is_empty() => Ok(def),
        _ => Err(Faults::sorted(faults)),
    }
}

fn read(
    files: &dyn Files,
    target_file: Option<&TargetFile>,
    target: &TargetName,
    report: &Report,
) -> (Option<Parsed>, Option<ParsedTarget>) {
    let target = read_target(files, target_file, target, report);
    (
        read_platform(files, target.as_ref(), false, None, report),
        target,
    )
}

fn read_platform(
    files: &dyn Files,
    target: Option<&ParsedTarget>,
    as_stored: bool,
    named: Option<&NamedRoot>,
    report: &Report,
) -> Option<Parsed> {
    let text = match files.read(PLATFORM_FILE) {
        Ok(Some(bytes)) => text(PLATFORM_FILE, bytes, report)?,
        Ok(None) => {
            report.push(Fault::of_file(PLATFORM_FILE, "no rebuild.toml here"));
            return None;
        }
        Err(error) => {
            report.push(Fault::of_file(PLATFORM_FILE, error.to_string()));
            return None;
        }
    };
    let doc = Doc::new(TextFile::new(PLATFORM_FILE, text), report);
    let modules = Modules::new(files, report);
    let mut parsed = parse::platform(&doc, files, &modules, as_stored, named)?;
    check::check(&mut parsed, target, report);
    Some(parsed)
}

fn read_target(
    files: &dyn Files,
    target_file: Option<&TargetFile>,
    target: &TargetName,
    report: &Report,
) -> Option<ParsedTarget> {
    let path = format!("targets/{target}.toml");
    let (path, text) = match target_file {
        Some(given) => (given.path.clone(), given.text.clone()),
        None => match files.read(&path) {
            Ok(Some(bytes)) => (path.clone(), text(&path, bytes, report)?),
            Ok(None) => {
                report.push(no_target(files, &path, target));
                return None;
            }
            Err(error) => {
                report.push(Fault::of_file(&path, error.to_string()));
                return None;
            }
        },
    };
    parse::target::target(&Doc::new(TextFile::new(path, text), report), target)
}

fn no_target(files: &dyn Files, path: &str, target: &TargetName) -> Fault {
    let names = target_names(files);
    let help = match near(target.as_str(), names.iter().map(String::as_str)) {
        Some(right) => format!("did you mean `{right}`?"),
        None if names.is_empty() => format!("the platform has no targets: write `{path}`"),
        None => format!(
            "targets here: {}",
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Fault::of_file(
        path,
        format!("there is no target `{target}`: no file `{path}`"),
    )
    .help(help)
}

fn text(path: &str, bytes: Vec<u8>, report: &Report) -> Option<String> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            report.push(Fault::of_file(
                path,
                format!("`{path}` is not UTF-8 text (byte {at})"),
            ));
            None
        }
    }
}

fn split(faults: Vec<Fault>) -> (Vec<Fault>, Vec<Fault>) {
    let (warnings, faults): (Vec<Fault>, Vec<Fault>) =
        faults.into_iter().partition(|fault| fault.is_warning);
    (Faults::sorted(warnings).into_vec(), faults)
}

#[cfg(test)]
mod tests;

//! `nodes` steps: specs from files become a root module in the bundle.
//!
//! What is rendered lies below [`GENERATED`] in the bundle, one directory a step, so that a step is torn down
//! from what it was applied from, whatever a later version would render. On disk there is nothing of it.

use std::collections::{BTreeMap, BTreeSet};

use provider::render::render;
use provider::schema::Schemas;
use provider::spec::{Format, SpecFault, Specs};

use crate::bundle::{Bundle, BundleError, BundleFile};
use crate::fault::{Fault, TextFile};
use crate::files::{Entry, Files, ReadError, join, list_paths};
use phase_engine::StepId;

/// Where rendered root modules lie in a bundle.
pub const GENERATED: &str = ".rebuild/nodes";
/// The dependency lock file, which may be committed beside the specs.
const LOCK_FILE: &str = ".terraform.lock.hcl";
/// Variables of a rendered root module that every step has a value for.
pub const GIVEN_VARIABLES: [&str; 3] = ["platform", "run", "target"];

/// Where a nodes step has its root module from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesDef {
    /// The file or directory of specs, within the platform.
    pub path: String,
}

/// Returns the directory of a step's rendered root module, within the bundle.
pub fn generated_root(step: &StepId) -> String {
    format!("{GENERATED}/{}", step.key())
}

/// Why the specs of a step can't be rendered.
#[derive(Debug)]
pub(crate) enum NodesFault {
    /// There is no such file or directory.
    Missing,
    /// It can't be read.
    Unreadable(ReadError),
    /// The specs have faults.
    Faults(Vec<Fault>),
}

/// Reads the specs at `path` and renders them: names and contents of the root module's files.
pub(crate) fn rendered(
    files: &dyn Files,
    path: &str,
) -> Result<BTreeMap<String, Vec<u8>>, NodesFault> {
    let texts = spec_files(files, path)?;
    let of_whole = |fault: &SpecFault| {
        let text = texts.iter().find(|(name, _)| *name == fault.file);
        spec_fault(fault, text.map_or("", |(_, text)| text))
    };
    let faults_of =
        |faults: &[SpecFault]| NodesFault::Faults(faults.iter().map(of_whole).collect());
    let named = texts
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()));
    let specs = Specs::read(named).map_err(|faults| faults_of(&faults))?;
    let rendered = render(&specs, &BTreeSet::new()).map_err(|faults| faults_of(&faults))?;
    let mut faults = Vec::new();
    for (name, bytes) in &rendered.files {
        let Ok(document) = serde_json::from_slice(bytes) else {
            continue;
        };
        let found = Schemas::shipped().check(&document);
        faults.extend(
            found
                .iter()
                .filter(|fault| !fault.is_warning())
                .map(|fault| {
                    Fault::of_file(
                        path,
                        format!("what is rendered from it does not fit: {name}: {fault}"),
                    )
                }),
        );
    }
    if !faults.is_empty() {
        return Err(NodesFault::Faults(faults));
    }
    let test = rendered.mocked_test("");
    let mut module = rendered.files;
    module.extend(test.map(|(name, text)| (name, text.into_bytes())));
    let beside = match files.entries(path) {
        Ok(Some(_)) => path.to_owned(),
        _ => path
            .rsplit_once('/')
            .map_or_else(String::new, |(directory, _)| directory.to_owned()),
    };
    let lock = join(&beside, LOCK_FILE).unwrap_or_default();
    if let Some(bytes) = files.read(&lock).map_err(NodesFault::Unreadable)? {
        module.insert(LOCK_FILE.to_owned(), bytes);
    }
    Ok(module)
}

/// The files of specs at a path: the file itself, or those of the directory.
fn spec_files(files: &dyn Files, path: &str) -> Result<Vec<(String, String)>, NodesFault> {
    let mut texts = Vec::new();
    let mut faults = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => texts.push((name, text)),
        Err(_) => faults.push(Fault::of_file(&name, format!("`{name}` is not UTF-8 text"))),
    };
    match files.entries(path).map_err(NodesFault::Unreadable)? {
        Some(entries) => {
            let wanted = |entry: &&Entry| {
                !entry.is_dir && !entry.name.starts_with('.') && Format::of(&entry.name).is_some()
            };
            for entry in entries.iter().filter(wanted) {
                let name = join(path, &entry.name).unwrap_or_else(|| entry.name.clone());
                if let Some(bytes) = files.read(&name).map_err(NodesFault::Unreadable)? {
                    add(name, bytes);
                }
            }
        }
        None => match files.read(path).map_err(NodesFault::Unreadable)? {
            Some(bytes) => add(path.to_owned(), bytes),
            None => return Err(NodesFault::Missing),
        },
    }
    if faults.is_empty() {
        Ok(texts)
    } else {
        Err(NodesFault::Faults(faults))
    }
}

/// A fault of a spec, with its line underlined.
fn spec_fault(fault: &SpecFault, text: &str) -> Fault {
    let message = if fault.path.is_empty() {
        fault.message.clone()
    } else {
        format!("{}: {}", fault.path, fault.message)
    };
    let span = fault.line.and_then(|line| line_span(text, line));
    let made = match span {
        Some(span) => TextFile::new(&fault.file, text).fault(span, "here", message),
        None => Fault::of_file(&fault.file, message),
    };
    made.maybe_help(fault.help.clone())
}

/// The bytes of a line, from 1, without what it is indented by.
fn line_span(text: &str, line: usize) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    for (index, found) in text.split_inclusive('\n').enumerate() {
        if index + 1 == line {
            let trimmed = found.trim();
            let indent = found.len() - found.trim_start().len();
            return Some(start + indent..start + indent + trimmed.len());
        }
        start += found.len();
    }
    None
}

/// The files of a platform with rendered root modules among them.
pub(crate) struct WithRendered<'a> {
    /// The platform's own.
    pub(crate) files: &'a dyn Files,
    /// What was rendered, by path.
    pub(crate) rendered: &'a BTreeMap<String, Vec<u8>>,
}

impl Files for WithRendered<'_> {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, ReadError> {
        match self.rendered.get(path) {
            Some(bytes) => Ok(Some(bytes.clone())),
            None => self.files.read(path),
        }
    }

    fn entries(&self, directory: &str) -> Result<Option<Vec<Entry>>, ReadError> {
        if is_generated(directory) {
            let paths = self.rendered.keys().map(String::as_str);
            return Ok(list_paths(paths, directory));
        }
        self.files.entries(directory)
    }
}

/// Whether a path lies where rendered root modules do.
pub(crate) fn is_generated(path: &str) -> bool {
    path.strip_prefix(GENERATED)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Bundle {
    /// Returns the bundle with these rendered files in place of any others of their kind.
    ///
    /// # Errors
    /// There is too much.
    pub fn with_rendered(self, rendered: &BTreeMap<String, Vec<u8>>) -> Result<Self, BundleError> {
        let stale = self.files().iter().any(|file| is_generated(&file.path));
        if rendered.is_empty() && !stale {
            return Ok(self);
        }
        let mut files: Vec<BundleFile> = self
            .files()
            .iter()
            .filter(|file| !is_generated(&file.path))
            .cloned()
            .collect();
        files.extend(rendered.iter().map(|(path, bytes)| BundleFile {
            path: path.clone(),
            mode: 0o644,
            bytes: bytes.clone(),
        }));
        Self::from_files(files)
    }
}

#[cfg(test)]
mod tests;

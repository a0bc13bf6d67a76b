//! Reads a root module and the local modules that it reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::own_state::{LOCAL_STATE, OwnState, inside};
use super::{
    Below, Declared, ModuleCall, Output, Place, RootModule, SyntaxError, Variable, hcl, json,
};
use crate::fault::{Fault, TextFile};
use crate::files::{Entry, Files, ReadError, join};
use crate::reader::Report;

/// The root modules of a platform, each read once.
pub(crate) struct Modules<'a> {
    files: &'a dyn Files,
    report: &'a Report,
    read: std::cell::RefCell<BTreeMap<String, Option<Arc<RootModule>>>>,
}

/// The configuration files of one directory, merged.
#[derive(Default)]
struct Directory {
    module: RootModule,
    calls: BTreeMap<String, (ModuleCall, Place)>,
    backend: Option<(super::DeclaredBackend, TextFile)>,
}

impl<'a> Modules<'a> {
    pub(crate) fn new(files: &'a dyn Files, report: &'a Report) -> Self {
        Self {
            files,
            report,
            read: Default::default(),
        }
    }

    /// Reads the root module at `path`; `None` when there is no such directory or nothing in it.
    pub(crate) fn root(&self, path: &str) -> Result<Option<Arc<RootModule>>, ReadError> {
        if let Some(known) = self.read.borrow().get(path) {
            return Ok(known.clone());
        }
        let module = self.read_root(path)?.map(Arc::new);
        self.read
            .borrow_mut()
            .insert(path.to_owned(), module.clone());
        Ok(module)
    }

    /// Returns whether there is a directory of this path.
    pub(crate) fn has_directory(&self, path: &str) -> bool {
        matches!(self.files.entries(path), Ok(Some(_)))
    }

    fn read_root(&self, path: &str) -> Result<Option<RootModule>, ReadError> {
        let Some(directory) = self.directory(path)? else {
            return Ok(None);
        };
        let mut module = directory.module;
        module.own_state = match &directory.backend {
            Some((backend, _)) if backend.harmless => None,
            Some((backend, file)) => Some(OwnState::declared(path, backend, file)),
            // What a module without a backend keeps lies beside it, where it was ever applied.
            None => self
                .files
                .read(&inside(path, LOCAL_STATE))?
                .map(|_| OwnState::beside(path)),
        };
        module.calls = directory
            .calls
            .values()
            .map(|(call, _)| call.clone())
            .collect();
        let mut waiting: Vec<(ModuleCall, Place)> = directory.calls.into_values().collect();
        let mut seen = BTreeSet::from([path.to_owned()]);
        while let Some((call, place)) = waiting.pop() {
            let Some(source) = &call.source else { continue };
            let fault = |label: &str, message: String| {
                self.report
                    .push(place.file.fault(place.span.clone(), label, message));
                true
            };
            let is_local =
                source.starts_with("./") || source.starts_with("../") || source.starts_with('/');
            if !is_local {
                continue;
            }
            let Some(target) = &call.directory else {
                module.incomplete |= fault(
                    "outside of the platform",
                    format!(
                        "module `{}` is not within the platform: `{source}`",
                        call.name
                    ),
                );
                continue;
            };
            if !seen.insert(target.clone()) {
                continue;
            }
            match self.directory(target) {
                Ok(Some(inner)) => {
                    module.modules.insert(target.clone());
                    let calls = inner.calls.values();
                    let below = Below {
                        locals: inner.module.locals,
                        calls: calls
                            .filter_map(|(call, _)| {
                                Some((call.name.clone(), call.directory.clone()?))
                            })
                            .collect(),
                    };
                    module.below.insert(target.clone(), below);
                    for (name, requirement) in inner.module.providers {
                        module.providers.entry(name).or_insert(requirement);
                    }
                    waiting.extend(inner.calls.into_values());
                }
                Ok(None) => {
                    module.incomplete |= fault(
                        "no configuration here",
                        format!(
                            "module `{}` has no configuration files: there is none in `{target}`",
                            call.name
                        ),
                    );
                }
                Err(error) => module.incomplete |= fault("can't be read", error.to_string()),
            }
        }
        Ok(Some(module))
    }

    /// Reads and merges the configuration files of one directory.
    fn directory(&self, path: &str) -> Result<Option<Directory>, ReadError> {
        let Some(entries) = self.files.entries(path)? else {
            return Ok(None);
        };
        let mut result = Directory::default();
        result.module.path = path.to_owned();
        for name in configuration_files(&entries) {
            let full = join(path, &name).unwrap_or_else(|| name.clone());
            result.module.files.push(full.clone());
            let Some(file) = self.text(&full, &mut result.module)? else {
                continue;
            };
            let declared = if name.ends_with(".json") {
                json::read(&file.text)
            } else {
                hcl::read(&file.text)
            };
            match declared {
                Ok(declared) => merge(&mut result, declared, &file, path, self.report),
                Err(error) => self.syntax(&file, error, &mut result.module),
            }
        }
        if result.module.files.is_empty() {
            return Ok(None);
        }
        self.variable_files(path, &entries, &mut result.module)?;
        Ok(Some(result))
    }

    fn variable_files(
        &self,
        path: &str,
        entries: &[Entry],
        module: &mut RootModule,
    ) -> Result<(), ReadError> {
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let name = entry.name.as_str();
            let counts = matches!(name, "terraform.tfvars" | "terraform.tfvars.json")
                || name.ends_with(".auto.tfvars")
                || name.ends_with(".auto.tfvars.json");
            if !counts {
                continue;
            }
            let full = join(path, name).unwrap_or_else(|| name.to_owned());
            let Some(file) = self.text(&full, module)? else {
                continue;
            };
            match if name.ends_with(".json") {
                json::names(&file.text)
            } else {
                hcl::names(&file.text)
            } {
                Ok(names) => module.set_by_tfvars.extend(names),
                Err(error) => self.syntax(&file, error, module),
            }
        }
        Ok(())
    }

    fn text(&self, path: &str, module: &mut RootModule) -> Result<Option<TextFile>, ReadError> {
        let Some(bytes) = self.files.read(path)? else {
            return Ok(None);
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(TextFile::new(path, text))),
            Err(_) => {
                self.report
                    .push(Fault::of_file(path, format!("`{path}` is not UTF-8 text")));
                module.incomplete = true;
                Ok(None)
            }
        }
    }

    fn syntax(&self, file: &TextFile, error: SyntaxError, module: &mut RootModule) {
        let message = format!("`{}` can't be parsed: {}", file.path, error.message);
        self.report.push(file.fault(error.span, "here", message));
        module.incomplete = true;
    }
}

fn merge(into: &mut Directory, declared: Declared, file: &TextFile, path: &str, report: &Report) {
    let place = |span| Place {
        file: file.clone(),
        span,
    };
    for found in declared.variables {
        let old = into.module.variables.remove(&found.name);
        let old = old.as_ref();
        let variable = Variable {
            has_default: found.has_default || old.is_some_and(|old| old.has_default),
            sensitive: found
                .sensitive
                .unwrap_or(old.is_some_and(|old| old.sensitive)),
            type_text: found
                .type_text
                .or_else(|| old.and_then(|old| old.type_text.clone())),
            place: old.map_or_else(|| place(found.span), |old| old.place.clone()),
        };
        into.module.variables.insert(found.name, variable);
    }
    for found in declared.outputs {
        let old = into
            .module
            .outputs
            .get(&found.name)
            .is_some_and(|old| old.sensitive);
        into.module.outputs.insert(
            found.name,
            Output {
                sensitive: found.sensitive.unwrap_or(old),
            },
        );
    }
    for found in declared.calls {
        let source = found.source.or_else(|| {
            into.calls
                .get(&found.name)
                .and_then(|(call, _)| call.source.clone())
        });
        let directory = source
            .as_ref()
            .filter(|source| source.starts_with('.'))
            .and_then(|source| join(path, source));
        into.calls.insert(
            found.name.clone(),
            (
                ModuleCall {
                    name: found.name,
                    source,
                    directory,
                },
                place(found.span),
            ),
        );
    }
    if let Some(backend) = declared.backends.into_iter().last() {
        into.backend = Some((backend, file.clone()));
    }
    into.module.providers.extend(declared.providers);
    into.module.locals.extend(declared.locals);
    for (address, span) in declared.made_files {
        let message = format!("`{address}` makes a file in the tree of its module");
        report.push(
            file.fault(span, "another machine sees it as deleted", message)
                .help("make it in a directory that a variable names, outside of the platform")
                .warning(),
        );
    }
    for (word, span) in declared.unsteady {
        let message = format!(
            "`{word}` differs between machines and looks like a change when the tree moves"
        );
        report.push(
            file.fault(span, "another machine sees another path", message)
                .help("use `path.module` or `path.root`, and relative paths")
                .warning(),
        );
    }
}

/// Returns the names of the files that OpenTofu reads in a directory, overrides last.
fn configuration_files(entries: &[Entry]) -> Vec<String> {
    let names: BTreeSet<&str> = entries
        .iter()
        .filter(|entry| !entry.is_dir)
        .map(|entry| entry.name.as_str())
        .filter(|name| {
            !(name.starts_with('.')
                || name.ends_with('~')
                || name.starts_with('#') && name.ends_with('#'))
        })
        .collect();
    let (mut primary, mut overrides) = (Vec::new(), Vec::new());
    for name in &names {
        let Some((base, twin)) = stem(name) else {
            continue;
        };
        if twin.is_some_and(|twin| names.contains(twin.as_str())) {
            continue;
        }
        if base == "override" || base.ends_with("_override") {
            overrides.push((*name).to_owned());
        } else {
            primary.push((*name).to_owned());
        }
    }
    primary.append(&mut overrides);
    primary
}

/// Tells whether OpenTofu reads a file of this name as configuration; leftovers of editors and
/// hidden files it does not.
pub fn is_configuration_file(name: &str) -> bool {
    let entry = Entry {
        name: name.to_owned(),
        is_dir: false,
    };
    !configuration_files(&[entry]).is_empty()
}

/// Splits a file's name: its base, and the `.tofu` file that would stand in for it.
fn stem(name: &str) -> Option<(&str, Option<String>)> {
    for (suffix, twin) in [
        (".tofu.json", None),
        (".tf.json", Some(".tofu.json")),
        (".tofu", None),
        (".tf", Some(".tofu")),
    ] {
        if let Some(base) = name.strip_suffix(suffix) {
            return (!base.is_empty()).then(|| (base, twin.map(|twin| format!("{base}{twin}"))));
        }
    }
    None
}

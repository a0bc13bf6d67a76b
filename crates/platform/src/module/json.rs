//! What a file in OpenTofu's JSON syntax declares.

use std::ops::Range;

use serde_json::{Map, Value};

use super::{
    Declared, DeclaredBackend, DeclaredCall, DeclaredOutput, DeclaredVariable, FILE_MAKERS,
    ProviderRequirement, SyntaxError, is_in_tree, references,
};

/// Reads a `.tf.json` or `.tofu.json` file.
pub(crate) fn read(text: &str) -> Result<Declared, SyntaxError> {
    let value = parse(text)?;
    let mut declared = Declared::default();
    for root in objects(&value) {
        for (name, body) in labelled(root, "variable") {
            declared.variables.push(DeclaredVariable {
                span: place(text, &["variable", &name]),
                has_default: body.contains_key("default"),
                sensitive: flag(body),
                type_text: body.get("type").and_then(Value::as_str).map(str::to_owned),
                name,
            });
        }
        for (name, body) in labelled(root, "output") {
            declared.outputs.push(DeclaredOutput {
                sensitive: flag(body),
                name,
            });
        }
        for (name, body) in labelled(root, "module") {
            let source = body
                .get("source")
                .and_then(Value::as_str)
                .filter(|source| !source.contains("${"));
            declared.calls.push(DeclaredCall {
                span: place(text, &["module", &name]),
                source: source.map(str::to_owned),
                name,
            });
        }
        for (kind, name, filename) in FILE_MAKERS.iter().flat_map(|kind| filenames(root, kind)) {
            // Quoted, as it stands in the native syntax.
            if is_in_tree(&format!("\"{filename}\"")) {
                let span = place(text, &["resource", kind, &name, "filename"]);
                declared.made_files.push((format!("{kind}.{name}"), span));
            }
        }
        for locals in root.get("locals").into_iter().flat_map(objects) {
            let locals = locals.iter().filter(|(name, _)| *name != "//");
            declared
                .locals
                .extend(locals.map(|(name, value)| (name.clone(), references::of_json(value))));
        }
        for terraform in root.get("terraform").into_iter().flat_map(objects) {
            read_terraform(terraform, text, &mut declared);
        }
    }
    for word in ["path.cwd", "abspath("] {
        for (at, _) in text.match_indices(word) {
            let shown = if word == "path.cwd" {
                word
            } else {
                "abspath()"
            };
            declared.unsteady.push((shown, at..at + word.len()));
        }
    }
    Ok(declared)
}

/// Returns the names that a `.tfvars.json` file sets.
pub(crate) fn names(text: &str) -> Result<Vec<String>, SyntaxError> {
    Ok(objects(&parse(text)?)
        .flat_map(|object| object.keys().cloned())
        .collect())
}

fn parse(text: &str) -> Result<Value, SyntaxError> {
    serde_json::from_str(text).map_err(|error| {
        let line: usize = text
            .split_inclusive('\n')
            .take(error.line().saturating_sub(1))
            .map(str::len)
            .sum();
        let at = (line + error.column().saturating_sub(1)).min(text.len());
        let message = error.to_string();
        let message = message
            .split(" at line ")
            .next()
            .unwrap_or(&message)
            .to_owned();
        SyntaxError {
            span: at..at + 1,
            message,
        }
    })
}

/// Returns a value's objects: itself, or those of a list.
fn objects(value: &Value) -> impl Iterator<Item = &Map<String, Value>> {
    let list = match value {
        Value::Array(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    };
    list.iter().filter_map(Value::as_object)
}

/// Returns the blocks of a type that takes one label.
fn labelled<'a>(root: &'a Map<String, Value>, kind: &str) -> Vec<(String, &'a Map<String, Value>)> {
    root.get(kind)
        .into_iter()
        .flat_map(objects)
        .flatten()
        .filter(|(name, _)| *name != "//")
        .flat_map(|(name, bodies)| objects(bodies).map(move |body| (name.clone(), body)))
        .collect()
}

/// Returns the `filename` of each resource of a type, with the resource's name.
fn filenames<'a>(root: &'a Map<String, Value>, kind: &'a str) -> Vec<(&'a str, String, &'a str)> {
    let resources = labelled(root, "resource").into_iter();
    resources
        .filter(|(found, _)| found == kind)
        .flat_map(|(_, named)| named.iter())
        .flat_map(|(name, bodies)| objects(bodies).map(move |body| (name, body)))
        .filter_map(|(name, body)| Some((kind, name.clone(), body.get("filename")?.as_str()?)))
        .collect()
}

fn flag(body: &Map<String, Value>) -> Option<bool> {
    body.get("sensitive")
        .map(|value| value.as_bool().unwrap_or(true))
}

fn read_terraform(terraform: &Map<String, Value>, text: &str, declared: &mut Declared) {
    for (kind, body) in labelled(terraform, "backend") {
        declared.backends.push(DeclaredBackend {
            harmless: kind == "http" && body.is_empty(),
            span: place(text, &["backend", &kind]),
            settings: body
                .iter()
                .map(|(name, value)| {
                    // A template's value is not known here.
                    let plain = value.as_str().filter(|text| !text.contains("${"));
                    (name.clone(), plain.map(str::to_owned))
                })
                .collect(),
            what: format!("backend \"{kind}\""),
        });
    }
    if terraform.contains_key("cloud") {
        declared.backends.push(DeclaredBackend {
            what: "cloud".to_owned(),
            harmless: false,
            settings: Default::default(),
            span: place(text, &["cloud"]),
        });
    }
    for object in terraform
        .get("required_providers")
        .into_iter()
        .flat_map(objects)
    {
        for (name, value) in object {
            let part = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            declared.providers.push((
                name.clone(),
                ProviderRequirement {
                    source: part("source"),
                    version: part("version").or_else(|| value.as_str().map(str::to_owned)),
                },
            ));
        }
    }
}

/// Finds where a chain of keys stands: each one's first place after the one before.
fn place(text: &str, keys: &[&str]) -> Range<usize> {
    let mut from = 0;
    let mut span = 0..0;
    for key in keys {
        let quoted = Value::String((*key).to_owned()).to_string();
        if let Some(at) = text.get(from..).and_then(|rest| rest.find(&quoted)) {
            span = from + at..from + at + quoted.len();
            from = span.end;
        }
    }
    span
}

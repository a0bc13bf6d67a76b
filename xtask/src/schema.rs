//! Reduces what `tofu providers schema -json` prints to the schemas that ship with `provider`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use crate::sh::{note, write};

/// What to reduce.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What `tofu providers schema -json` printed
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The version of the provider that printed it
    #[arg(long, value_name = "VERSION")]
    version: String,
    /// A reduced schema: its provider, and the resources and data sources to keep
    #[arg(long, value_name = "FILE")]
    like: PathBuf,
    /// Resources and data sources to keep besides, such as `oci_core_vcn` or `data.oci_core_image`
    #[arg(long, value_name = "NAME")]
    add: Vec<String>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    into: PathBuf,
}

/// Reduces and writes.
pub(crate) fn run(options: &Options) -> Result<()> {
    let read = |file: &PathBuf| -> Result<Value> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("`{}` is no JSON", file.display()))
    };
    let (dump, like) = (read(&options.from)?, read(&options.like)?);
    let (reduced, gone) = reduce(&dump, &like, &options.version, &options.add)?;
    for name in gone {
        note(&format!(
            "{} {}: `{name}` is gone",
            reduced["provider"], options.version
        ));
    }
    write(&options.into, &text_of(&reduced))
}

/// Returns the reduced schema, and what is no longer there to keep.
fn reduce(
    dump: &Value,
    like: &Value,
    version: &str,
    add: &[String],
) -> Result<(Value, Vec<String>)> {
    let provider = like["provider"]
        .as_str()
        .context("the reduced schema names no provider")?;
    let all = dump["provider_schemas"]
        .as_object()
        .context("it is not what `tofu providers schema -json` prints")?;
    let Some((_, of)) = all
        .iter()
        .find(|(address, _)| address.ends_with(&format!("/{provider}")))
    else {
        bail!("the provider `{provider}` is not in it");
    };
    let mut gone = Vec::new();
    let mut kept = |key: &str, from: &str, prefix: &str| -> Value {
        let mut names: Vec<&str> = like[key]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
            .collect();
        names.extend(
            add.iter()
                .filter_map(|name| match (name.strip_prefix("data."), prefix) {
                    (Some(name), "data.") => Some(name),
                    (None, "") => Some(name.as_str()),
                    _ => None,
                }),
        );
        names.sort_unstable();
        names.dedup();
        let mut kept = Map::new();
        for name in names {
            match of[from].get(name) {
                Some(found) => {
                    kept.insert(name.to_owned(), block(&found["block"]));
                }
                None => gone.push(format!("{prefix}{name}")),
            }
        }
        Value::Object(kept)
    };
    let resources = kept("resources", "resource_schemas", "");
    let data = kept("data_sources", "data_source_schemas", "data.");
    let reduced = json!({
        "provider": provider,
        "version": version,
        "source": "`tofu providers schema -json` of the provider plugin",
        "provider_config": block(&of["provider"]["block"]),
        "resources": resources,
        "data_sources": data,
    });
    Ok((reduced, gone))
}

fn block(json: &Value) -> Value {
    let mut reduced = Map::new();
    reduced.insert("attributes".to_owned(), attributes(&json["attributes"]));
    let mut blocks = Map::new();
    for (name, json) in sorted(&json["block_types"]) {
        let mut nested = Map::new();
        nested.insert("mode".to_owned(), json["nesting_mode"].clone());
        for key in ["min_items", "max_items"] {
            if let Some(items) = json.get(key).filter(|items| **items != json!(0)) {
                nested.insert(key.to_owned(), items.clone());
            }
        }
        if let Value::Object(inner) = block(&json["block"]) {
            nested.extend(inner);
        }
        blocks.insert(name.clone(), Value::Object(nested));
    }
    if !blocks.is_empty() {
        reduced.insert("blocks".to_owned(), Value::Object(blocks));
    }
    Value::Object(reduced)
}

fn attributes(json: &Value) -> Value {
    const FLAGS: [&str; 6] = [
        "computed",
        "deprecated",
        "optional",
        "required",
        "sensitive",
        "write_only",
    ];
    let mut all = Map::new();
    for (name, json) in sorted(json) {
        let mut attribute = Map::new();
        for flag in FLAGS.iter().filter(|flag| json[**flag] == json!(true)) {
            attribute.insert((*flag).to_owned(), json!(true));
        }
        match json.get("nested_type") {
            Some(nested) => {
                let nested = json!({
                    "mode": nested["nesting_mode"],
                    "attributes": attributes(&nested["attributes"]),
                });
                attribute.insert("nested".to_owned(), nested);
            }
            None => {
                attribute.insert("type".to_owned(), json["type"].clone());
            }
        }
        all.insert(name.clone(), Value::Object(attribute));
    }
    Value::Object(all)
}

fn sorted(json: &Value) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = json.as_object().into_iter().flatten().collect();
    members.sort_by_key(|(name, _)| *name);
    members
}

/// Writes one attribute a line, so that a newer provider is a difference that can be read.
fn text_of(reduced: &Value) -> String {
    let mut text = String::new();
    lines(reduced, 0, &mut text);
    text.push('\n');
    text
}

fn lines(json: &Value, depth: usize, text: &mut String) {
    match json.as_object() {
        Some(members)
            if !members.is_empty()
                && (!members.contains_key("type") || members.contains_key("attributes")) =>
        {
            text.push_str("{\n");
            for (index, (name, json)) in members.iter().enumerate() {
                text.push_str(&" ".repeat(depth + 1));
                text.push_str(&json!(name).to_string());
                text.push_str(": ");
                lines(json, depth + 1, text);
                text.push_str(if index + 1 < members.len() {
                    ",\n"
                } else {
                    "\n"
                });
            }
            text.push_str(&" ".repeat(depth));
            text.push('}');
        }
        _ => flat(json, text),
    }
}

fn flat(json: &Value, text: &mut String) {
    match json {
        Value::Object(members) => {
            text.push('{');
            for (index, (name, json)) in members.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                text.push_str(&json!(name).to_string());
                text.push_str(": ");
                flat(json, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, json) in items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                flat(json, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tofu_prints_is_reduced_to_what_is_kept() {
        let dump = json!({ "provider_schemas": { "registry.opentofu.org/a/thing": {
            "provider": { "version": 0, "block": { "attributes": { "url": { "type": "string", "optional": true, "description": "long" } } } },
            "resource_schemas": {
                "thing_a": { "version": 1, "block": {
                    "attributes": {
                        "z": { "type": ["list", "string"], "required": true },
                        "id": { "type": "string", "computed": true, "deprecated": true },
                        "in": { "optional": true, "nested_type": { "nesting_mode": "single", "attributes": { "k": { "type": "string", "required": true, "sensitive": true } } } },
                    },
                    "block_types": { "rule": { "nesting_mode": "list", "max_items": 1, "block": { "attributes": {} } } },
                } },
                "thing_b": { "version": 0, "block": { "attributes": {} } },
                "thing_c": { "version": 0, "block": { "attributes": {} } },
            },
            "data_source_schemas": {},
        } } });
        let like = json!({ "provider": "a/thing", "resources": { "thing_a": {} }, "data_sources": { "thing_old": {} } });
        let add = ["thing_b".to_owned()];
        let (reduced, gone) = reduce(&dump, &like, "2.0.0", &add).expect("it is in it");
        assert_eq!(gone, ["data.thing_old"]);
        assert_eq!(
            reduced["resources"],
            json!({
                "thing_a": {
                    "attributes": {
                        "id": { "computed": true, "deprecated": true, "type": "string" },
                        "in": { "optional": true, "nested": { "mode": "single", "attributes": { "k": { "required": true, "sensitive": true, "type": "string" } } } },
                        "z": { "required": true, "type": ["list", "string"] },
                    },
                    "blocks": { "rule": { "mode": "list", "max_items": 1, "attributes": {} } },
                },
                "thing_b": { "attributes": {} },
            })
        );
        let text = text_of(&reduced);
        assert!(
            text.contains("\n    \"z\": {\"required\": true, \"type\": [\"list\", \"string\"]}\n"),
            "{text}"
        );
        assert_eq!(
            serde_json::from_str::<Value>(&text).expect("it is JSON"),
            reduced
        );
        let other = json!({ "provider": "b/thing" });
        assert!(reduce(&dump, &other, "1", &[]).is_err());
    }
}

//! Arguments that are lists of objects: OpenTofu wants every member of each, if only as null.

use serde_json::Value as Json;

use super::load::Schemas;
use super::types::{Block, Kind, Type};

impl Schemas {
    /// Fills in as null what objects inside arguments leave out, where the schema knows them.
    pub fn complete(&self, document: &mut Json) {
        for (top, is_data) in [("resource", false), ("data", true)] {
            let Some(kinds) = document.get_mut(top).and_then(Json::as_object_mut) else {
                continue;
            };
            for (kind, names) in kinds {
                let prefix = kind.split('_').next().unwrap_or(kind);
                let Some(schema) = self.pinned(prefix) else {
                    continue;
                };
                let blocks = if is_data {
                    &schema.data_sources
                } else {
                    &schema.resources
                };
                let Some(block) = blocks.get(kind) else {
                    continue;
                };
                for body in names
                    .as_object_mut()
                    .into_iter()
                    .flat_map(|names| names.values_mut())
                {
                    in_each(body, block);
                }
            }
        }
    }
}

fn in_each(json: &mut Json, block: &Block) {
    match json {
        Json::Array(items) => items.iter_mut().for_each(|item| in_each(item, block)),
        Json::Object(body) => {
            for (key, json) in body {
                if let Some(attribute) = block.attributes.get(key) {
                    if let Kind::Type(kind) = &attribute.kind {
                        fill(json, kind);
                    }
                } else if let Some(nested) = block.blocks.get(key) {
                    in_each(json, &nested.block);
                }
            }
        }
        _ => {}
    }
}

fn fill(json: &mut Json, kind: &Type) {
    match (kind, json) {
        (Type::List(inner), Json::Array(items)) => {
            items.iter_mut().for_each(|item| fill(item, inner));
        }
        (Type::Map(inner), Json::Object(items)) => {
            items.values_mut().for_each(|item| fill(item, inner));
        }
        (Type::Object(inner), Json::Object(members)) => {
            for (name, kind) in inner {
                fill(members.entry(name.clone()).or_insert(Json::Null), kind);
            }
            members.sort_keys();
        }
        _ => {}
    }
}

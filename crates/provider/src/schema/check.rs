//! A document checked against the schemas of its providers.

use serde_json::{Map, Value as Json};

use super::fault::{Problem, SchemaFault};
use super::load::Schemas;
use super::types::{Block, NestedBlock, Schema};
use super::value;
use crate::near::near;

/// What OpenTofu itself reads in a resource or data source.
const META: [&str; 9] = [
    "//",
    "connection",
    "count",
    "depends_on",
    "dynamic",
    "for_each",
    "lifecycle",
    "provider",
    "provisioner",
];
/// What OpenTofu itself reads in a provider's configuration.
const PROVIDER_META: [&str; 4] = ["//", "alias", "for_each", "version"];

impl Schemas {
    /// Checks a document, and returns every fault in the order of their paths.
    #[must_use]
    pub fn check(&self, document: &Json) -> Vec<SchemaFault> {
        let mut check = Check {
            schemas: self,
            faults: Vec::new(),
        };
        check.document(document);
        check.faults.sort_by(|a, b| a.path.cmp(&b.path));
        check.faults
    }
}

struct Check<'a> {
    schemas: &'a Schemas,
    faults: Vec<SchemaFault>,
}

impl<'a> Check<'a> {
    fn document(&mut self, document: &Json) {
        for (name, json) in members(&document["provider"]) {
            let path = format!("provider.{name}");
            let Some(schema) = self.schema(&path, name) else {
                continue;
            };
            for (at, body) in each(&path, json) {
                self.body(
                    &at,
                    body,
                    &schema.provider_config,
                    Place::of(schema, &[]),
                    &PROVIDER_META,
                );
            }
        }
        self.kinds("resource", &document["resource"]);
        self.kinds("data", &document["data"]);
        for (name, json) in members(&document["check"]) {
            for (at, check) in each(&format!("check.{name}"), json) {
                self.kinds(&format!("{at}.data"), &check["data"]);
            }
        }
    }

    fn kinds(&mut self, path: &str, json: &Json) {
        let is_data = path.ends_with("data");
        for (kind, names) in members(json) {
            let prefix = kind.split('_').next().unwrap_or(kind);
            // Built into OpenTofu.
            if prefix == "terraform" {
                continue;
            }
            let path = format!("{path}.{kind}");
            let Some(schema) = self.schema(&path, prefix) else {
                continue;
            };
            let of = |schema: &'a Schema| {
                if is_data {
                    &schema.data_sources
                } else {
                    &schema.resources
                }
            };
            let Some(block) = of(schema).get(kind) else {
                let elsewhere = self
                    .schemas
                    .others(prefix)
                    .find(|other| of(other).contains_key(kind));
                let problem = match elsewhere {
                    Some(other) => not_in_version(schema, other),
                    None => Problem::UnknownKind {
                        provider: format!("{} {}", schema.provider, schema.version),
                    },
                };
                let nearest = near(kind, of(schema).keys().map(String::as_str));
                self.fault(&path, problem, nearest);
                continue;
            };
            for (name, json) in members(names) {
                let others: Vec<(&Schema, &Block)> = self
                    .schemas
                    .others(prefix)
                    .filter_map(|other| Some((other, of(other).get(kind)?)))
                    .collect();
                for (at, body) in each(&format!("{path}.{name}"), json) {
                    self.body(&at, body, block, Place::of(schema, &others), &META);
                    self.ignored(&at, body, block);
                }
            }
        }
    }

    /// Finds the provider's schema, or says that there is none.
    fn schema(&mut self, path: &str, name: &str) -> Option<&'a Schema> {
        let schema = self.schemas.pinned(name);
        if schema.is_none() {
            let problem = Problem::UnknownProvider {
                provider: name.to_owned(),
            };
            let nearest = near(name, self.schemas.names());
            self.fault(path, problem, nearest);
        }
        schema
    }

    fn body(&mut self, path: &str, json: &Json, block: &Block, place: Place<'_>, meta: &[&str]) {
        let Json::Object(body) = json else {
            self.fault(path, Problem::BlockExpected, None);
            return;
        };
        for (key, json) in body.iter().filter(|(key, _)| !meta.contains(&key.as_str())) {
            let at = format!("{path}.{key}");
            if let Some(attribute) = block.attributes.get(key) {
                value::attribute(&at, json, attribute, &mut self.faults);
            } else if let Some(nested) = block.blocks.get(key) {
                self.nested(&at, json, nested, place.within());
            } else {
                self.unknown(&at, key, block, place);
            }
        }
        let dynamic = body.get("dynamic").filter(|_| meta.contains(&"dynamic"));
        self.dynamic(path, dynamic, block, place);
        let is_set = |name: &str| body.get(name).is_some_and(|json| !json.is_null());
        let missing = block
            .attributes
            .iter()
            .filter(|(name, attribute)| attribute.required && !is_set(name));
        for (name, _) in missing {
            let name = name.clone();
            self.fault(path, Problem::MissingRequired { name }, None);
        }
        let is_dynamic = |name: &str| dynamic.is_some_and(|dynamic| dynamic.get(name).is_some());
        for (name, nested) in &block.blocks {
            if nested.min_items > 0 && !is_set(name) && !is_dynamic(name) {
                let problem = Problem::TooFewBlocks {
                    name: name.clone(),
                    least: nested.min_items,
                };
                self.fault(path, problem, None);
            }
        }
    }

    /// Blocks that are made at apply time: how many is not known, what stands in them is.
    fn dynamic(&mut self, path: &str, json: Option<&Json>, block: &Block, place: Place<'_>) {
        for (name, json) in json.into_iter().flat_map(members) {
            let at = format!("{path}.dynamic.{name}");
            match block.blocks.get(name) {
                None => self.unknown(&at, name, block, place),
                Some(nested) => {
                    for (at, one) in each(&at, json) {
                        for (at, content) in each(&format!("{at}.content"), &one["content"]) {
                            self.body(&at, content, &nested.block, place.within(), &["//"]);
                        }
                    }
                }
            }
        }
    }

    fn nested(&mut self, path: &str, json: &Json, nested: &NestedBlock, place: Place<'_>) {
        match json {
            // As if it were not there.
            Json::Null => return,
            Json::Object(_) | Json::Array(_) => {}
            _ => return self.fault(path, Problem::BlockExpected, None),
        }
        let all = each(path, json);
        let n = all.len() as u64;
        let most = match nested.mode {
            super::Mode::Single => Some(1),
            _ => nested.max_items,
        };
        if let Some(most) = most.filter(|most| n > *most) {
            self.fault(path, Problem::TooManyBlocks { n, most }, None);
        }
        if n < nested.min_items {
            let problem = Problem::TooFewBlocks {
                name: path.rsplit('.').next().unwrap_or(path).to_owned(),
                least: nested.min_items,
            };
            self.fault(path, problem, None);
        }
        for (at, body) in all {
            self.body(&at, body, &nested.block, place, &["//", "dynamic"]);
        }
    }

    fn unknown(&mut self, path: &str, key: &str, block: &Block, place: Place<'_>) {
        let elsewhere = place.tops.iter().find(|(_, other)| {
            other.attributes.contains_key(key) || other.blocks.contains_key(key)
        });
        let problem = match elsewhere {
            Some((other, _)) => not_in_version(place.schema, other),
            None => Problem::UnknownArgument,
        };
        let names = block.attributes.keys().chain(block.blocks.keys());
        let nearest = near(key, names.map(String::as_str));
        self.fault(path, problem, nearest);
    }

    /// What is not looked at must be there to look at.
    fn ignored(&mut self, path: &str, body: &Json, block: &Block) {
        for (at, lifecycle) in each(&format!("{path}.lifecycle"), &body["lifecycle"]) {
            let Some(ignored) = lifecycle["ignore_changes"].as_array() else {
                continue;
            };
            for (index, ignored) in ignored.iter().enumerate() {
                let text = ignored.as_str().unwrap_or_default();
                let first = text.split(['.', '[']).next().unwrap_or(text);
                if !block.attributes.contains_key(first) && !block.blocks.contains_key(first) {
                    let names = block.attributes.keys().chain(block.blocks.keys());
                    let nearest = near(first, names.map(String::as_str));
                    let at = format!("{at}.ignore_changes[{index}]");
                    self.fault(&at, Problem::UnknownArgument, nearest);
                }
            }
        }
    }

    fn fault(&mut self, path: &str, problem: Problem, nearest: Option<&str>) {
        self.faults.push(SchemaFault {
            nearest: nearest.map(str::to_owned),
            ..SchemaFault::new(path, problem)
        });
    }
}

/// Where in a schema a body is, so that other versions can be asked about the same place.
#[derive(Clone, Copy)]
struct Place<'p> {
    schema: &'p Schema,
    /// The same block of the other versions.
    tops: &'p [(&'p Schema, &'p Block)],
}

impl<'p> Place<'p> {
    fn of(schema: &'p Schema, tops: &'p [(&'p Schema, &'p Block)]) -> Self {
        Self { schema, tops }
    }

    /// Other versions are asked about the block at the top only: a nested block that moved is a new place.
    fn within(self) -> Self {
        Self { tops: &[], ..self }
    }
}

fn not_in_version(pinned: &Schema, other: &Schema) -> Problem {
    Problem::NotInVersion {
        pinned: pinned.version.clone(),
        known_in: other.version.clone(),
    }
}

/// Returns the members of an object, or of each of a list.
fn members(json: &Json) -> Vec<(&String, &Json)> {
    let objects: Vec<&Map<String, Json>> = match json {
        Json::Object(object) => vec![object],
        Json::Array(items) => items.iter().filter_map(Json::as_object).collect(),
        _ => Vec::new(),
    };
    objects
        .into_iter()
        .flatten()
        .filter(|(key, _)| key.as_str() != "//")
        .collect()
}

/// Returns a block, or each of a list of them, with its path.
fn each<'j>(path: &str, json: &'j Json) -> Vec<(String, &'j Json)> {
    match json {
        Json::Null => Vec::new(),
        Json::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (format!("{path}[{index}]"), item))
            .collect(),
        one => vec![(path.to_owned(), one)],
    }
}

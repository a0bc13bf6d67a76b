//! Reduced schemas, read from their files.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value as Json};

use super::types::{Attribute, Block, Kind, Mode, NestedBlock, Schema, Type};

/// The schemas that ship with the program.
const SHIPPED: [(&str, &str); 8] = [
    (
        "bitwarden",
        include_str!("../../schemas/bitwarden-0.18.0.json"),
    ),
    ("gitlab", include_str!("../../schemas/gitlab-18.6.1.json")),
    ("gitlab", include_str!("../../schemas/gitlab-19.1.0.json")),
    ("oci", include_str!("../../schemas/oci-8.28.0.json")),
    ("oci", include_str!("../../schemas/oci-7.19.0.json")),
    (
        "openstack",
        include_str!("../../schemas/openstack-3.4.0.json"),
    ),
    ("talos", include_str!("../../schemas/talos-0.11.0.json")),
    (
        "talos",
        include_str!("../../schemas/talos-0.12.0-alpha.5.json"),
    ),
];

/// Why a reduced schema can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadSchemaError {
    /// It is no JSON.
    #[error("a provider's schema is no JSON")]
    Json(#[source] serde_json::Error),
    /// It is not of the reduced form.
    #[error("`{path}` in a provider's schema: {message}")]
    Form {
        /// Where.
        path: String,
        /// What is wrong.
        message: &'static str,
    },
}

/// Schemas by the local name of their provider; the first one of a name is the pinned version.
#[derive(Debug, Clone, Default)]
pub struct Schemas {
    by_name: BTreeMap<String, Vec<Schema>>,
}

impl Schemas {
    /// Returns the schemas that ship with the program, with each provider's own pin.
    ///
    /// # Panics
    /// Never: what ships is read by a test.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED_SCHEMAS: OnceLock<Schemas> = OnceLock::new();
        SHIPPED_SCHEMAS.get_or_init(|| {
            let mut schemas = Self::default();
            for (name, text) in SHIPPED {
                let schema = Schema::parse(text).expect("a test reads what ships");
                schemas.add(name, schema);
            }
            schemas
        })
    }

    /// Adds a schema after those of its name.
    pub fn add(&mut self, name: &str, schema: Schema) {
        self.by_name
            .entry(name.to_owned())
            .or_default()
            .push(schema);
    }

    /// Returns the same schemas with another version of a provider pinned, where there is that version.
    #[must_use]
    pub fn with_pin(&self, name: &str, version: &str) -> Self {
        let mut schemas = self.clone();
        if let Some(all) = schemas.by_name.get_mut(name)
            && let Some(at) = all.iter().position(|schema| schema.version == version)
        {
            all[..=at].rotate_right(1);
        }
        schemas
    }

    /// Returns the pinned version's schema.
    #[must_use]
    pub fn pinned(&self, name: &str) -> Option<&Schema> {
        self.by_name.get(name)?.first()
    }

    /// Returns the schemas of a provider's other versions.
    pub(crate) fn others(&self, name: &str) -> impl Iterator<Item = &Schema> {
        self.by_name.get(name).into_iter().flatten().skip(1)
    }

    /// Returns the local names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

impl Schema {
    /// Reads a reduced schema.
    ///
    /// # Errors
    /// When it is no JSON, or not of the reduced form.
    pub fn parse(text: &str) -> Result<Self, ReadSchemaError> {
        let json: Json = serde_json::from_str(text).map_err(ReadSchemaError::Json)?;
        let text = |key: &str| {
            let text = json[key].as_str().map(str::to_owned);
            text.ok_or_else(|| form(key, "a text belongs here"))
        };
        Ok(Self {
            provider: text("provider")?,
            version: text("version")?,
            source: text("source")?,
            provider_config: block("provider_config", &json["provider_config"])?,
            resources: blocks("resources", &json["resources"])?,
            data_sources: blocks("data_sources", &json["data_sources"])?,
        })
    }
}

fn form(path: &str, message: &'static str) -> ReadSchemaError {
    ReadSchemaError::Form {
        path: path.to_owned(),
        message,
    }
}

fn object<'a>(path: &str, json: &'a Json) -> Result<&'a Map<String, Json>, ReadSchemaError> {
    json.as_object()
        .ok_or_else(|| form(path, "an object belongs here"))
}

fn blocks(path: &str, json: &Json) -> Result<BTreeMap<String, Block>, ReadSchemaError> {
    let read = |(name, json): (&String, &Json)| {
        Ok((name.clone(), block(&format!("{path}.{name}"), json)?))
    };
    object(path, json)?.iter().map(read).collect()
}

fn block(path: &str, json: &Json) -> Result<Block, ReadSchemaError> {
    let mut nested = BTreeMap::new();
    if let Some(json) = json.get("blocks") {
        for (name, json) in object(path, json)? {
            let at = format!("{path}.{name}");
            nested.insert(
                name.clone(),
                NestedBlock {
                    mode: mode(&at, json)?,
                    min_items: json["min_items"].as_u64().unwrap_or(0),
                    max_items: json["max_items"].as_u64(),
                    block: block(&at, json)?,
                },
            );
        }
    }
    Ok(Block {
        attributes: attributes(path, &json["attributes"])?,
        blocks: nested,
    })
}

fn attributes(path: &str, json: &Json) -> Result<BTreeMap<String, Attribute>, ReadSchemaError> {
    let mut all = BTreeMap::new();
    for (name, json) in object(path, json)? {
        let at = format!("{path}.{name}");
        let kind = match json.get("nested") {
            Some(nested) => {
                Kind::Nested(mode(&at, nested)?, attributes(&at, &nested["attributes"])?)
            }
            None => Kind::Type(
                json.get("type")
                    .map_or(Ok(Type::Any), |json| kind(&at, json))?,
            ),
        };
        let is = |key: &str| json[key].as_bool().unwrap_or(false);
        all.insert(
            name.clone(),
            Attribute {
                kind,
                required: is("required"),
                optional: is("optional"),
                computed: is("computed"),
                sensitive: is("sensitive"),
                deprecated: is("deprecated"),
            },
        );
    }
    Ok(all)
}

fn mode(path: &str, json: &Json) -> Result<Mode, ReadSchemaError> {
    Ok(match json["mode"].as_str() {
        Some("single" | "group") => Mode::Single,
        Some("list") => Mode::List,
        Some("set") => Mode::Set,
        Some("map") => Mode::Map,
        _ => return Err(form(path, "it has no mode")),
    })
}

fn kind(path: &str, json: &Json) -> Result<Type, ReadSchemaError> {
    if let Some(word) = json.as_str() {
        return Ok(match word {
            "string" => Type::String,
            "number" => Type::Number,
            "bool" => Type::Bool,
            // An object of which nothing more is said.
            "dynamic" | "object" => Type::Any,
            _ => return Err(form(path, "its type is not known")),
        });
    }
    let inner = |json: &Json| kind(path, json).map(Box::new);
    Ok(match (json[0].as_str(), &json[1]) {
        (Some("list" | "set"), of) => Type::List(inner(of)?),
        (Some("map"), of) => Type::Map(inner(of)?),
        (Some("object"), Json::Object(members)) => Type::Object(
            members
                .iter()
                .map(|(name, json)| Ok((name.clone(), kind(path, json)?)))
                .collect::<Result<_, ReadSchemaError>>()?,
        ),
        _ => return Err(form(path, "its type is not known")),
    })
}

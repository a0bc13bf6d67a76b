//! The three formats.

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};
use serde_json::{Number, Value as Json};
use toml_edit::{Document, Item, Value as Toml};

use super::fault::SpecFault;
use super::located::{Data, Located};

/// A format that specs are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML: one spec, or several as `[[specs]]`.
    Toml,
    /// YAML: any number of documents.
    Yaml,
    /// JSON: one spec, or a list of them.
    Json,
}

impl Format {
    /// Returns the format of a file by how its name ends.
    #[must_use]
    pub fn of(file: &str) -> Option<Self> {
        match file.rsplit_once('.')?.1 {
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Reads the specs of a text.
    pub(crate) fn read(self, file: &str, text: &str) -> Result<Vec<Located>, SpecFault> {
        match self {
            Self::Toml => toml(file, text),
            Self::Yaml => yaml(file, text),
            Self::Json => json(file, text),
        }
    }
}

fn fault(file: &str, line: Option<usize>, message: String) -> SpecFault {
    SpecFault {
        file: file.to_owned(),
        line,
        path: String::new(),
        message,
        help: None,
    }
}

fn toml(file: &str, text: &str) -> Result<Vec<Located>, SpecFault> {
    let document = Document::parse(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        fault(file, line, format!("it is no TOML: {}", error.message()))
    })?;
    let top = Located {
        line: Some(1),
        data: Data::Table(
            document
                .as_table()
                .iter()
                .map(|(key, item)| (key.to_owned(), of_item(text, item)))
                .collect(),
        ),
    };
    match (&top.data, top.get("specs")) {
        (Data::Table(members), Some(specs)) if members.len() == 1 => match &specs.data {
            Data::List(specs) => Ok(specs.clone()),
            _ => Err(fault(
                file,
                specs.line,
                "`specs` is a list of specs".to_owned(),
            )),
        },
        (Data::Table(members), None) if members.is_empty() => Ok(Vec::new()),
        _ => Ok(vec![top]),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

fn of_item(text: &str, item: &Item) -> Located {
    let line = item.span().map(|span| line_of(text, span.start));
    let data = match item {
        Item::None => Data::Null,
        Item::Value(value) => return of_toml(text, value),
        Item::Table(table) => Data::Table(
            table
                .iter()
                .map(|(key, item)| (key.to_owned(), of_item(text, item)))
                .collect(),
        ),
        Item::ArrayOfTables(tables) => Data::List(
            tables
                .iter()
                .map(|table| Located {
                    line: table.span().map(|span| line_of(text, span.start)),
                    data: Data::Table(
                        table
                            .iter()
                            .map(|(key, item)| (key.to_owned(), of_item(text, item)))
                            .collect(),
                    ),
                })
                .collect(),
        ),
    };
    Located { line, data }
}

fn of_toml(text: &str, value: &Toml) -> Located {
    let data = match value {
        Toml::String(value) => Data::Text(value.value().clone()),
        Toml::Integer(value) => Data::Number((*value.value()).into()),
        Toml::Float(value) => Number::from_f64(*value.value()).map_or(Data::Null, Data::Number),
        Toml::Boolean(value) => Data::Bool(*value.value()),
        Toml::Datetime(value) => Data::Text(value.value().to_string()),
        Toml::Array(items) => Data::List(items.iter().map(|item| of_toml(text, item)).collect()),
        Toml::InlineTable(table) => Data::Table(
            table
                .iter()
                .map(|(key, value)| (key.to_owned(), of_toml(text, value)))
                .collect(),
        ),
    };
    Located {
        line: value.span().map(|span| line_of(text, span.start)),
        data,
    }
}

fn yaml(file: &str, text: &str) -> Result<Vec<Located>, SpecFault> {
    let documents = MarkedYaml::load_from_str(text).map_err(|error| {
        let line = error.marker().line();
        fault(file, Some(line), format!("it is no YAML: {}", error.info()))
    })?;
    let mut all = Vec::new();
    for document in &documents {
        let located = of_yaml(file, document)?;
        // `---` with nothing after it.
        if located.data != Data::Null {
            all.push(located);
        }
    }
    Ok(all)
}

fn of_yaml(file: &str, node: &MarkedYaml<'_>) -> Result<Located, SpecFault> {
    let line = Some(node.span.start.line());
    let data = match &node.data {
        YamlData::Value(Scalar::Null) => Data::Null,
        YamlData::Value(Scalar::Boolean(value)) => Data::Bool(*value),
        YamlData::Value(Scalar::Integer(value)) => Data::Number((*value).into()),
        YamlData::Value(Scalar::FloatingPoint(value)) => Number::from_f64(value.into_inner())
            .map(Data::Number)
            .ok_or_else(|| fault(file, line, "a number must be finite".to_owned()))?,
        YamlData::Value(Scalar::String(text)) => Data::Text(text.to_string()),
        YamlData::Sequence(items) => Data::List(
            items
                .iter()
                .map(|item| of_yaml(file, item))
                .collect::<Result<_, _>>()?,
        ),
        YamlData::Mapping(members) => {
            let mut table = Vec::new();
            for (key, value) in members {
                let key = match of_yaml(file, key)?.data {
                    Data::Text(key) => key,
                    Data::Number(key) => key.to_string(),
                    Data::Bool(key) => key.to_string(),
                    _ => {
                        let message = "a key must be a text".to_owned();
                        return Err(fault(file, Some(key.span.start.line()), message));
                    }
                };
                let value = of_yaml(file, value)?;
                table.push((key, value));
            }
            Data::Table(table)
        }
        YamlData::Tagged(_, inner) => of_yaml(file, inner)?.data,
        _ => return Err(fault(file, line, "this is not understood here".to_owned())),
    };
    Ok(Located { line, data })
}

/// Reads JSON. Its lines come from the YAML reader, which most JSON is good for; without it there are none.
fn json(file: &str, text: &str) -> Result<Vec<Located>, SpecFault> {
    let value: Json = serde_json::from_str(text)
        .map_err(|error| fault(file, Some(error.line()), format!("it is no JSON: {error}")))?;
    let lines = yaml(file, text).ok();
    let lines = lines.as_ref().and_then(|documents| documents.first());
    let top = of_json(&value, lines);
    Ok(match top.data {
        Data::List(specs) => specs,
        _ => vec![top],
    })
}

fn of_json(json: &Json, lines: Option<&Located>) -> Located {
    let item = |index: usize| match lines.map(|lines| &lines.data) {
        Some(Data::List(items)) => items.get(index),
        _ => None,
    };
    let data = match json {
        Json::Null => Data::Null,
        Json::Bool(value) => Data::Bool(*value),
        Json::Number(value) => Data::Number(value.clone()),
        Json::String(text) => Data::Text(text.clone()),
        Json::Array(items) => Data::List(
            items
                .iter()
                .enumerate()
                .map(|(index, json)| of_json(json, item(index)))
                .collect(),
        ),
        Json::Object(members) => Data::Table(
            members
                .iter()
                .map(|(key, json)| {
                    let lines = lines.and_then(|lines| lines.get(key));
                    (key.clone(), of_json(json, lines))
                })
                .collect(),
        ),
    };
    Located {
        line: lines.and_then(|lines| lines.line),
        data,
    }
}

/// Returns whether a text is one YAML or JSON document that is a table: a patch that Talos takes.
pub(crate) fn is_patch(text: &str) -> bool {
    yaml("", text).is_ok_and(|documents| {
        !documents.is_empty()
            && documents
                .iter()
                .all(|document| matches!(document.data, Data::Table(_) | Data::List(_)))
    })
}

//! Values checked against the type of their argument, as far as they are known before OpenTofu runs.

use serde_json::Value as Json;
use tf_json::Value;

use super::fault::{Problem, SchemaFault};
use super::types::{Attribute, Kind, Mode, Type};
use crate::near::near;

/// Checks the value of an argument.
pub(super) fn attribute(
    path: &str,
    json: &Json,
    attribute: &Attribute,
    faults: &mut Vec<SchemaFault>,
) {
    if json.is_null() {
        return;
    }
    if !attribute.is_settable() {
        return faults.push(SchemaFault::new(path, Problem::ReadOnly));
    }
    if attribute.deprecated {
        faults.push(SchemaFault::new(path, Problem::Deprecated));
    }
    let Ok(value) = Value::parse(json) else {
        return faults.push(wrong(path, "a value", "a text with a broken expression"));
    };
    let is_blocks =
        matches!(&value, Value::List(items) if matches!(items.first(), Some(Value::Object(_))));
    if attribute.kind.is_primitive() && is_blocks {
        return faults.push(SchemaFault::new(path, Problem::ArgumentExpected));
    }
    if attribute.sensitive && is_written_out(&value) {
        faults.push(SchemaFault::new(path, Problem::SecretWrittenOut));
    }
    of_kind(path, &value, &attribute.kind, faults);
}

fn is_written_out(value: &Value) -> bool {
    match value {
        Value::Template(template) => template.as_literal().is_some_and(|text| !text.is_empty()),
        Value::Number(_) => true,
        _ => false,
    }
}

fn of_kind(path: &str, value: &Value, kind: &Kind, faults: &mut Vec<SchemaFault>) {
    let (mode, attributes) = match kind {
        Kind::Type(kind) => return of_type(path, value, kind, faults),
        Kind::Nested(mode, attributes) => (mode, attributes),
    };
    if is_unknown(value) {
        return;
    }
    match (mode, value) {
        (Mode::Single, Value::Object(_)) => members(path, value, attributes, faults),
        (Mode::List | Mode::Set, Value::List(items)) => {
            for (index, item) in items.iter().enumerate() {
                members(&format!("{path}[{index}]"), item, attributes, faults);
            }
        }
        (Mode::Map, Value::Object(items)) => {
            for (key, item) in items {
                members(
                    &format!("{path}.{}", key.source()),
                    item,
                    attributes,
                    faults,
                );
            }
        }
        (Mode::Single | Mode::Map, _) => faults.push(wrong(path, "an object", name_of(value))),
        _ => faults.push(wrong(path, "a list of objects", name_of(value))),
    }
}

fn members(
    path: &str,
    value: &Value,
    attributes: &std::collections::BTreeMap<String, Attribute>,
    faults: &mut Vec<SchemaFault>,
) {
    let Value::Object(members) = value else {
        if !is_unknown(value) {
            faults.push(wrong(path, "an object", name_of(value)));
        }
        return;
    };
    for (key, value) in members {
        let Some(key) = key.as_literal() else {
            continue;
        };
        let at = format!("{path}.{key}");
        match attributes.get(key) {
            Some(member) => attribute(&at, &value.to_json(), member, faults),
            None => faults.push(SchemaFault {
                nearest: near(key, attributes.keys().map(String::as_str)).map(str::to_owned),
                ..SchemaFault::new(&at, Problem::UnknownArgument)
            }),
        }
    }
    for (name, _) in attributes.iter().filter(|(_, member)| member.required) {
        let given = members.get(&tf_json::Template::literal(name.as_str()));
        if given.is_none_or(|value| *value == Value::Null) {
            let name = name.clone();
            faults.push(SchemaFault::new(path, Problem::MissingRequired { name }));
        }
    }
}

fn of_type(path: &str, value: &Value, kind: &Type, faults: &mut Vec<SchemaFault>) {
    if *value == Value::Null || is_unknown(value) {
        return;
    }
    let literal = match value {
        Value::Template(template) => template.as_literal(),
        _ => None,
    };
    // As OpenTofu does, a number or a truth may stand for its text, and the other way round.
    let fits = match (kind, value) {
        (Type::Any, _) | (Type::String, Value::Template(_) | Value::Number(_) | Value::Bool(_)) => {
            true
        }
        (Type::Number, Value::Number(_)) | (Type::Bool, Value::Bool(_)) => true,
        (Type::Number, Value::Template(_)) => {
            literal.is_some_and(|text| text.parse::<f64>().is_ok())
        }
        (Type::Bool, Value::Template(_)) => matches!(literal, Some("true" | "false")),
        (Type::List(inner), Value::List(items)) => {
            for (index, item) in items.iter().enumerate() {
                of_type(&format!("{path}[{index}]"), item, inner, faults);
            }
            true
        }
        (Type::Map(inner), Value::Object(items)) => {
            for (key, item) in items {
                of_type(&format!("{path}.{}", key.source()), item, inner, faults);
            }
            true
        }
        (Type::Object(inner), Value::Object(items)) => {
            for (key, item) in items {
                let Some(key) = key.as_literal() else {
                    continue;
                };
                let at = format!("{path}.{key}");
                match inner.get(key) {
                    Some(kind) => of_type(&at, item, kind, faults),
                    None => faults.push(SchemaFault {
                        nearest: near(key, inner.keys().map(String::as_str)).map(str::to_owned),
                        ..SchemaFault::new(&at, Problem::UnknownArgument)
                    }),
                }
            }
            for name in inner.keys() {
                if !items.contains_key(&tf_json::Template::literal(name.as_str())) {
                    let name = name.clone();
                    faults.push(SchemaFault::new(path, Problem::MissingRequired { name }));
                }
            }
            true
        }
        _ => false,
    };
    if !fits {
        faults.push(wrong(path, &words(kind), name_of(value)));
    }
}

/// Whether a value is known only when OpenTofu runs.
fn is_unknown(value: &Value) -> bool {
    match value {
        Value::Template(template) => {
            matches!(template.parts(), [tf_json::Part::Expression(_)])
        }
        _ => false,
    }
}

fn words(kind: &Type) -> String {
    match kind {
        Type::String => "a text".to_owned(),
        Type::Number => "a number".to_owned(),
        Type::Bool => "`true` or `false`".to_owned(),
        Type::Any => "a value".to_owned(),
        Type::List(_) => "a list".to_owned(),
        Type::Map(_) | Type::Object(_) => "an object".to_owned(),
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::Template(_) => "a text",
        Value::List(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn wrong(path: &str, expected: &str, found: &'static str) -> SchemaFault {
    let expected = expected.to_owned();
    SchemaFault::new(path, Problem::WrongType { expected, found })
}

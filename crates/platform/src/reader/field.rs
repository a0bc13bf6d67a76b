//! One key of a table and its value.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde_json::Value as Json;
use toml_edit::{ArrayOfTables, Item, TableLike, Value};

use super::{Doc, Section, parse_duration};
use crate::expr::Expr;

/// A key with its value.
#[derive(Clone)]
pub(crate) struct Field<'d> {
    pub(super) doc: &'d Doc<'d>,
    /// The key as messages name it.
    pub(crate) name: String,
    pub(crate) key_span: Range<usize>,
    pub(super) node: Node<'d>,
}

#[derive(Clone, Copy)]
pub(super) enum Node<'d> {
    Value(&'d Value),
    Table(&'d toml_edit::Table),
    Tables(&'d ArrayOfTables),
}

impl<'d> Node<'d> {
    pub(super) fn of(item: &'d Item) -> Option<Self> {
        match item {
            Item::None => None,
            Item::Value(value) => Some(Self::Value(value)),
            Item::Table(table) => Some(Self::Table(table)),
            Item::ArrayOfTables(tables) => Some(Self::Tables(tables)),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Value(Value::String(_)) => "a string",
            Self::Value(Value::Integer(_)) => "an integer",
            Self::Value(Value::Float(_)) => "a float",
            Self::Value(Value::Boolean(_)) => "a boolean",
            Self::Value(Value::Datetime(date)) if date.value().time.is_some() => {
                "a date with a time"
            }
            Self::Value(Value::Datetime(_)) => "a date",
            Self::Value(Value::Array(_)) => "a list",
            Self::Value(Value::InlineTable(_)) | Self::Table(_) => "a table",
            Self::Tables(_) => "a list of tables",
        }
    }

    pub(super) fn span(self) -> Option<Range<usize>> {
        match self {
            Self::Value(value) => value.span(),
            Self::Table(table) => table.span(),
            Self::Tables(tables) => tables.span(),
        }
    }

    fn table(self) -> Option<&'d dyn TableLike> {
        match self {
            Self::Value(Value::InlineTable(table)) => Some(table),
            Self::Table(table) => Some(table),
            _ => None,
        }
    }
}

impl<'d> Field<'d> {
    pub(crate) fn doc(&self) -> &'d Doc<'d> {
        self.doc
    }

    pub(crate) fn value_span(&self) -> Range<usize> {
        match self.node {
            Node::Value(value) => value.span().unwrap_or_else(|| self.key_span.clone()),
            Node::Table(_) | Node::Tables(_) => self.key_span.clone(),
        }
    }

    /// Reports a fault of the value.
    pub(crate) fn fault(&self, label: &str, message: impl Into<String>, help: Option<String>) {
        self.doc.fault(self.value_span(), label, message, help);
    }

    fn wrong_type(&self, wanted: &str) {
        self.fault(
            &format!("this is {}", self.node.kind()),
            format!("`{}` must be {wanted}", self.name),
            None,
        );
    }

    pub(crate) fn is_table(&self) -> bool {
        self.node.table().is_some()
    }

    pub(crate) fn is_string(&self) -> bool {
        matches!(self.node, Node::Value(Value::String(_)))
    }

    pub(crate) fn string(&self) -> Option<String> {
        match self.node {
            Node::Value(Value::String(text)) if text.value().is_empty() => {
                self.fault("empty", format!("`{}` is empty", self.name), None);
                None
            }
            Node::Value(Value::String(text)) => Some(text.value().clone()),
            _ => {
                self.wrong_type("a string");
                None
            }
        }
    }

    pub(crate) fn boolean(&self) -> Option<bool> {
        match self.node {
            Node::Value(Value::Boolean(value)) => Some(*value.value()),
            _ => {
                self.wrong_type("`true` or `false`");
                None
            }
        }
    }

    pub(crate) fn integer(&self, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        match self.node {
            Node::Value(Value::Integer(value)) if range.contains(value.value()) => {
                Some(*value.value())
            }
            Node::Value(Value::Integer(_)) => {
                let (least, most) = (range.start(), range.end());
                self.fault(
                    "out of range",
                    format!("`{}` must be from {least} to {most}", self.name),
                    None,
                );
                None
            }
            _ => {
                self.wrong_type("an integer");
                None
            }
        }
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        if !self.is_string() {
            self.wrong_type("a duration like \"90s\", \"10m\" or \"1h30m\"");
            return None;
        }
        let text = self.string()?;
        let parsed = parse_duration(&text);
        if parsed.is_none() {
            self.fault(
                "no duration",
                format!("`{}` must be a duration, not `{text}`", self.name),
                Some(
                    "write for example \"500ms\", \"90s\", \"10m\", \"1h30m\" or \"7d\"".to_owned(),
                ),
            );
        }
        parsed
    }

    pub(crate) fn date(&self) -> Option<jiff::civil::Date> {
        let text = match self.node {
            Node::Value(Value::Datetime(date)) if date.value().time.is_none() => {
                date.value().to_string()
            }
            Node::Value(Value::String(text)) => text.value().clone(),
            _ => {
                self.wrong_type("a date like 2027-03-31");
                return None;
            }
        };
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.fault(
                "no date",
                format!(
                    "`{}` must be a date like 2027-03-31, not `{text}`",
                    self.name
                ),
                None,
            );
        }
        parsed
    }

    pub(crate) fn section(&self, what: &str) -> Option<Section<'d>> {
        let Some(table) = self.node.table() else {
            self.wrong_type("a table");
            return None;
        };
        Some(Section {
            doc: self.doc,
            table,
            what: what.to_owned(),
            span: self.value_span(),
            known: RefCell::default(),
            missing: RefCell::default(),
        })
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self) -> Option<Vec<Field<'d>>> {
        let item = |node: Node<'d>| Field {
            doc: self.doc,
            name: self.name.clone(),
            key_span: node.span().unwrap_or_else(|| self.key_span.clone()),
            node,
        };
        match self.node {
            Node::Value(Value::Array(items)) => {
                Some(items.iter().map(|value| item(Node::Value(value))).collect())
            }
            Node::Tables(tables) => Some(
                tables
                    .iter()
                    .map(|table| {
                        // The header alone, not the whole table.
                        let mut field = item(Node::Table(table));
                        let text = self.doc.file.text.get(field.key_span.clone()).unwrap_or("");
                        field.key_span.end =
                            field.key_span.start + text.find('\n').unwrap_or(text.len());
                        field
                    })
                    .collect(),
            ),
            _ => {
                self.wrong_type("a list");
                None
            }
        }
    }

    /// Returns a list of strings in which no reference may stand.
    pub(crate) fn strings(&self) -> Option<Vec<String>> {
        self.items()?.iter().map(Field::string).collect()
    }

    /// Returns the value with references in it.
    pub(crate) fn expr(&self) -> Option<Expr> {
        self.node_expr(self.node)
    }

    /// Returns a text with references in it; no other type will do.
    pub(crate) fn text_expr(&self) -> Option<Expr> {
        if self.is_string() {
            return self.expr();
        }
        self.wrong_type("a string");
        None
    }

    /// Returns a list of texts with references in them.
    pub(crate) fn argv(&self) -> Option<Vec<Expr>> {
        self.items()?.iter().map(Field::text_expr).collect()
    }

    fn node_expr(&self, node: Node<'d>) -> Option<Expr> {
        Some(match node {
            Node::Value(Value::String(text)) => self.doc.template(
                text.value(),
                &text.span().unwrap_or_else(|| self.value_span()),
            )?,
            Node::Value(Value::Array(items)) => Expr::Array(all(items
                .iter()
                .map(|item| self.node_expr(Node::Value(item))))?),
            Node::Tables(tables) => Expr::Array(all(tables
                .iter()
                .map(|table| self.node_expr(Node::Table(table))))?),
            node => match (node.table(), node) {
                (Some(table), _) => Expr::Table(
                    all(table.iter().filter_map(|(key, item)| {
                        let node = Node::of(item)?;
                        Some(self.node_expr(node).map(|expr| (key.to_owned(), expr)))
                    }))?
                    .into_iter()
                    .collect::<BTreeMap<_, _>>(),
                ),
                (None, Node::Value(value)) => Expr::Literal(scalar(value).or_else(|| {
                    self.fault(
                        "no such value in JSON",
                        format!("`{}` must be a finite number", self.name),
                        None,
                    );
                    None
                })?),
                (None, _) => return None,
            },
        })
    }
}

/// Collects what is there, or nothing when one is missing; every item is looked at.
fn all<T>(items: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let items: Vec<Option<T>> = items.collect();
    items.into_iter().collect()
}

fn scalar(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Boolean(value) => Json::Bool(*value.value()),
        Value::Integer(value) => Json::from(*value.value()),
        Value::Float(value) => Json::Number(serde_json::Number::from_f64(*value.value())?),
        Value::Datetime(value) => Json::String(value.value().to_string()),
        Value::String(value) => Json::String(value.value().clone()),
        Value::Array(_) | Value::InlineTable(_) => return None,
    })
}

pub(super) fn canonical_table(table: &dyn TableLike) -> Json {
    let sorted: BTreeMap<&str, Json> = table
        .iter()
        .filter_map(|(key, item)| Some((key, canonical(Node::of(item)?))))
        .collect();
    Json::Object(
        sorted
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    )
}

fn canonical(node: Node<'_>) -> Json {
    match node {
        Node::Value(Value::Array(items)) => Json::Array(
            items
                .iter()
                .map(|item| canonical(Node::Value(item)))
                .collect(),
        ),
        Node::Tables(tables) => {
            Json::Array(tables.iter().map(|table| canonical_table(table)).collect())
        }
        node => match (node.table(), node) {
            (Some(table), _) => canonical_table(table),
            (None, Node::Value(value)) => scalar(value).unwrap_or(Json::Null),
            (None, _) => Json::Null,
        },
    }
}

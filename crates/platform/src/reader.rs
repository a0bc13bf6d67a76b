//! A TOML table read key by key: every fault with its span, none of them fatal.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde_json::Value as Json;
use toml_edit::{ArrayOfTables, Document, Item, TableLike, Value};

use crate::expr::{Expr, ExprError, Part};
use crate::fault::{Fault, TextFile};
use crate::near::hint;

/// Where faults are gathered while everything else goes on.
#[derive(Debug, Default)]
pub(crate) struct Report {
    faults: RefCell<Vec<Fault>>,
}

impl Report {
    pub(crate) fn push(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    pub(crate) fn take(&self) -> Vec<Fault> {
        self.faults.take()
    }
}

/// One TOML file that is being read.
#[derive(Debug)]
pub(crate) struct Doc<'r> {
    pub(crate) file: TextFile,
    pub(crate) report: &'r Report,
}

impl<'r> Doc<'r> {
    pub(crate) fn new(file: TextFile, report: &'r Report) -> Self {
        Self { file, report }
    }

    pub(crate) fn fault(
        &self,
        span: Range<usize>,
        label: &str,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.report
            .push(self.file.fault(span, label, message).maybe_help(help));
    }

    /// Parses the file; what the parser finds is reported.
    pub(crate) fn parse(&self) -> Option<Document<String>> {
        match Document::parse(self.file.text.to_string()) {
            Ok(document) => Some(document),
            Err(error) => {
                let message = format!(
                    "`{}` is not valid TOML: {}",
                    self.file.path,
                    error.message().trim().replace('\n', "; ")
                );
                match error.span() {
                    Some(span) => self.fault(span, "here", message, None),
                    None => self.report.push(self.file.fault_of_whole(message)),
                }
                None
            }
        }
    }

    pub(crate) fn root<'d>(&'d self, document: &'d Document<String>) -> Section<'d> {
        Section {
            doc: self,
            table: document.as_table(),
            what: format!("`{}`", self.file.path),
            span: 0..0,
            known: RefCell::default(),
        }
    }

    /// Finds where in the file a text stands that the value at `span` holds, the `nth` of its kind.
    fn locate(&self, span: &Range<usize>, needle: &str, nth: usize) -> Range<usize> {
        let raw = self.file.text.get(span.clone()).unwrap_or("");
        match raw.match_indices(needle).nth(nth) {
            Some((at, found)) => span.start + at..span.start + at + found.len(),
            None => span.clone(),
        }
    }

    /// Parses a text and moves the spans of its references to where they stand in the file.
    fn template(&self, text: &str, span: &Range<usize>) -> Option<Expr> {
        let place = |inner: &Range<usize>| {
            let needle = text.get(inner.clone()).unwrap_or("");
            let nth = text
                .get(..inner.start)
                .unwrap_or("")
                .matches(needle)
                .count();
            self.locate(span, needle, nth)
        };
        match Expr::parse(text) {
            Ok(Expr::Text(mut parts)) => {
                for part in &mut parts {
                    if let Part::Reference(located) = part {
                        located.span =
                            Some(located.span.as_ref().map_or_else(|| span.clone(), place));
                    }
                }
                Some(Expr::Text(parts))
            }
            Ok(other) => Some(other),
            Err(ExprError {
                message,
                help,
                span,
            }) => {
                self.fault(place(&span), "no legal reference", message, help);
                None
            }
        }
    }
}

/// A table with a known set of keys.
pub(crate) struct Section<'d> {
    pub(crate) doc: &'d Doc<'d>,
    table: &'d dyn TableLike,
    /// What it is, for messages: "[store]", "step `edge`".
    pub(crate) what: String,
    /// Where it stands.
    pub(crate) span: Range<usize>,
    known: RefCell<Vec<&'static str>>,
}

/// A key with its value.
#[derive(Clone)]
pub(crate) struct Field<'d> {
    doc: &'d Doc<'d>,
    /// The key as messages name it.
    pub(crate) name: String,
    pub(crate) key_span: Range<usize>,
    node: Node<'d>,
}

#[derive(Clone, Copy)]
enum Node<'d> {
    Value(&'d Value),
    Table(&'d toml_edit::Table),
    Tables(&'d ArrayOfTables),
}

impl<'d> Node<'d> {
    fn of(item: &'d Item) -> Option<Self> {
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
            Self::Value(Value::Datetime(_)) => "a date",
            Self::Value(Value::Array(_)) => "a list",
            Self::Value(Value::InlineTable(_)) | Self::Table(_) => "a table",
            Self::Tables(_) => "a list of tables",
        }
    }

    fn span(self) -> Option<Range<usize>> {
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

impl<'d> Section<'d> {
    /// Returns a key's field and counts the key as known.
    pub(crate) fn field(&self, key: &'static str) -> Option<Field<'d>> {
        self.known.borrow_mut().push(key);
        self.any(key)
    }

    fn any(&self, key: &str) -> Option<Field<'d>> {
        let (k, item) = self.table.get_key_value(key)?;
        let node = Node::of(item)?;
        let key_span = k
            .span()
            .or_else(|| node.span())
            .unwrap_or_else(|| self.span.clone());
        Some(Field {
            doc: self.doc,
            name: key.to_owned(),
            key_span,
            node,
        })
    }

    /// Returns every field, for tables whose keys are names.
    pub(crate) fn fields(&self) -> Vec<Field<'d>> {
        self.table
            .iter()
            .filter_map(|(key, _)| self.any(key))
            .collect()
    }

    /// Returns a key's field; its absence is a fault.
    pub(crate) fn required(&self, key: &'static str) -> Option<Field<'d>> {
        let field = self.field(key);
        if field.is_none() {
            self.doc.fault(
                self.span.clone(),
                "needs it",
                format!("{} has no `{key}`", self.what),
                self.misspelt(key)
                    .or_else(|| Some(format!("add `{key} = …`"))),
            );
        }
        field
    }

    fn misspelt(&self, key: &str) -> Option<String> {
        let known = self.known.borrow();
        let others = self
            .table
            .iter()
            .map(|(other, _)| other)
            .filter(|other| !known.contains(other));
        crate::near::near(key, others)
            .map(|wrong| format!("`{wrong}` is probably meant to be `{key}`"))
    }

    /// Reports every key that nobody asked for.
    pub(crate) fn finish(&self) {
        let known = self.known.borrow();
        for field in self.fields() {
            if !known.contains(&field.name.as_str()) {
                let key = &field.name;
                self.doc.fault(
                    field.key_span,
                    "unknown key",
                    format!("`{key}` is no key of {}", self.what),
                    hint(key, "keys", known.iter().copied()),
                );
            }
        }
    }

    pub(crate) fn string(&self, key: &'static str) -> Option<String> {
        self.field(key)?.string()
    }

    pub(crate) fn boolean(&self, key: &'static str) -> Option<bool> {
        self.field(key)?.boolean()
    }

    pub(crate) fn duration(&self, key: &'static str) -> Option<Duration> {
        self.field(key)?.duration()
    }

    pub(crate) fn section(&self, key: &'static str, what: &str) -> Option<Section<'d>> {
        self.field(key)?.section(what)
    }

    /// Returns what it says as JSON, with keys in order.
    pub(crate) fn canonical(&self) -> Json {
        canonical_table(self.table)
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
        self.is_string().then(|| self.expr()).unwrap_or_else(|| {
            self.wrong_type("a string");
            None
        })
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

fn canonical_table(table: &dyn TableLike) -> Json {
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

/// Parses `1h30m`, `90s`, `500ms`, `7d`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let millis: u64 = match rest.get(..letters)? {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        rest = rest.get(letters..)?;
        total = total.checked_add(Duration::from_millis(number.checked_mul(millis)?))?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_others_refused() {
        assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("7d"), Some(Duration::from_secs(604_800)));
        for wrong in [
            "",
            "5",
            "m",
            "5 m",
            "5w",
            "-5s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    fn read<T>(text: &str, act: impl FnOnce(&Section<'_>) -> T) -> (T, Vec<Fault>) {
        let report = Report::default();
        let doc = Doc::new(TextFile::new("rebuild.toml", text), &report);
        let document = doc.parse().unwrap();
        let section = doc.root(&document);
        let got = act(&section);
        section.finish();
        (got, report.take())
    }

    fn underlined(fault: &Fault) -> String {
        fault.source_text()[fault.span.clone().unwrap()].to_owned()
    }

    #[test]
    fn an_unknown_key_is_underlined_with_the_near_name() {
        let (_, faults) = read("nmae = \"x\"\n", |section| section.string("name"));
        assert_eq!(underlined(&faults[0]), "nmae");
        assert_eq!(faults[0].help.as_deref(), Some("did you mean `name`?"));
    }

    #[test]
    fn a_wrong_type_is_underlined() {
        let (_, faults) = read("name = 5\n", |section| section.string("name"));
        assert_eq!(underlined(&faults[0]), "5");
    }

    #[test]
    fn the_second_of_two_equal_references_is_found() {
        let (expr, faults) = read("x = \"${target.a} é ${target.a}\"\n", |section| {
            section.field("x").and_then(|field| field.expr())
        });
        assert!(faults.is_empty());
        let spans: Vec<_> = expr
            .unwrap()
            .references()
            .iter()
            .map(|located| located.span.clone().unwrap())
            .collect();
        assert_eq!(spans, [5..16, 20..31]);
    }

    #[test]
    fn a_reference_behind_an_escape_is_found() {
        let (_, faults) = read("x = \"\\t\\\"${foo.a}\"\n", |section| {
            section.field("x").and_then(|field| field.expr())
        });
        assert_eq!(underlined(&faults[0]), "${foo.a}");
    }

    #[test]
    fn comments_and_order_of_keys_do_not_change_what_a_section_says() {
        let (a, _) = read("x = 1 # one\ny = [1, {b = 2, a = 1}]\n", |section| {
            (section.field("x"), section.field("y"));
            section.canonical().to_string()
        });
        let (b, _) = read("y = [1, {a = 1, b = 2}]\nx = 1\n", |section| {
            (section.field("x"), section.field("y"));
            section.canonical().to_string()
        });
        assert_eq!(a, b);
    }

    #[test]
    fn an_infinite_number_is_no_value() {
        let (expr, faults) = read("x = inf\n", |section| {
            section.field("x").and_then(|field| field.expr())
        });
        assert!(expr.is_none());
        assert_eq!(underlined(&faults[0]), "inf");
    }
}

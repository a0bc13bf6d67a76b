//! A TOML table read key by key: every fault with its span, none of them fatal.

mod field;

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use serde_json::Value as Json;
use toml_edit::{Document, TableLike};

pub(crate) use field::Field;
use field::{Node, canonical_table};

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
            missing: RefCell::default(),
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
    missing: RefCell<Vec<&'static str>>,
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

    /// Returns a key's field; `finish` reports its absence.
    pub(crate) fn required(&self, key: &'static str) -> Option<Field<'d>> {
        let field = self.field(key);
        if field.is_none() {
            self.missing.borrow_mut().push(key);
        }
        field
    }

    /// Returns whether a key that is none of `known` looks like one of `wanted`.
    pub(crate) fn has_slip_of(&self, wanted: &[&str], known: &[&str]) -> bool {
        self.table
            .iter()
            .filter(|(key, _)| !wanted.contains(key) && !known.contains(key))
            .any(|(key, _)| crate::near::near(key, wanted.iter().copied()).is_some())
    }

    /// Reports every key that nobody asked for, and every required one that is not there.
    pub(crate) fn finish(&self) {
        let known = self.known.borrow();
        let unknown: Vec<Field<'_>> = self
            .fields()
            .into_iter()
            .filter(|field| !known.contains(&field.name.as_str()))
            .collect();
        for key in self.missing.borrow().iter() {
            // One slip is one fault: the unknown key's own fault names the right one.
            let slipped = unknown
                .iter()
                .any(|field| crate::near::near(&field.name, known.iter().copied()) == Some(key));
            if !slipped {
                self.doc.fault(
                    self.span.clone(),
                    "needs it",
                    format!("{} has no `{key}`", self.what),
                    Some(format!("add `{key} = …`")),
                );
            }
        }
        for field in unknown {
            let key = &field.name;
            self.doc.fault(
                field.key_span,
                "unknown key",
                format!("`{key}` is no key of {}", self.what),
                hint(key, "keys", known.iter().copied()),
            );
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
mod tests;

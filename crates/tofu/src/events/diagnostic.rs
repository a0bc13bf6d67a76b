//! Errors and warnings of OpenTofu, as its JSON has them, and one short text for people.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Error or warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The command did not do what was asked.
    Error,
    /// It did, and there is something to know.
    Warning,
    /// A word that this version does not know; treated as an error.
    #[default]
    #[serde(other)]
    Unknown,
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
pub struct Diagnostic {
    /// Error or warning.
    #[serde(default)]
    pub severity: Severity,
    /// One line.
    #[serde(default)]
    pub summary: String,
    /// The rest, often empty, of any length.
    #[serde(default)]
    pub detail: String,
    /// The resource instance that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The place in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<SourceRange>,
    /// The lines at that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<Snippet>,
    /// The two sides of a comparison that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// A place in a file of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
pub struct SourceRange {
    /// Path relative to the root module's directory.
    #[serde(default)]
    pub filename: String,
    /// First character.
    #[serde(default)]
    pub start: Position,
    /// One past the last character.
    #[serde(default)]
    pub end: Position,
}

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
pub struct Position {
    /// Line, from 1.
    #[serde(default)]
    pub line: u64,
    /// Column in characters, from 1.
    #[serde(default)]
    pub column: u64,
    /// Offset in bytes, from 0.
    #[serde(default)]
    pub byte: u64,
}

/// The source text at a diagnostic's place.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
pub struct Snippet {
    /// The block that it is in: `check "name"`, `resource "a" "b"`.
    #[serde(default)]
    pub context: Option<String>,
    /// The lines.
    #[serde(default)]
    pub code: String,
    /// Number of the first of those lines.
    #[serde(default)]
    pub start_line: u64,
    /// Values that the expression used; sensitive ones are not told by OpenTofu.
    #[serde(default)]
    pub values: Vec<StatedValue>,
}

/// What an expression in a snippet was: `var.x` `is "b"`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
pub struct StatedValue {
    /// The reference.
    #[serde(default)]
    pub traversal: String,
    /// What it was.
    #[serde(default)]
    pub statement: String,
}

/// Two sides of a comparison. They carry values even where those are sensitive, so a side flagged
/// sensitive is never kept: see [`Difference::without_sensitive`].
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
pub struct Difference {
    /// The left side.
    #[serde(default)]
    pub before: Value,
    /// The right side.
    #[serde(default)]
    pub after: Value,
    /// `true`, or a structure with `true` leaves, where `before` is sensitive.
    #[serde(default)]
    pub before_sensitive: Value,
    /// The same of `after`.
    #[serde(default)]
    pub after_sensitive: Value,
}

impl Difference {
    /// The same without any side of which a part is sensitive.
    #[must_use]
    pub fn without_sensitive(mut self) -> Self {
        if has_true(&self.before_sensitive) {
            self.before = Value::Null;
        }
        if has_true(&self.after_sensitive) {
            self.after = Value::Null;
        }
        self
    }
}

/// Whether any leaf of OpenTofu's sensitivity structure is `true`. Anything that is not the known
/// shape counts as sensitive.
pub(crate) fn has_true(marks: &Value) -> bool {
    match marks {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) | Value::Number(_) | Value::String(_) => true,
        Value::Array(items) => items.iter().any(has_true),
        Value::Object(members) => members.values().any(has_true),
    }
}

impl Diagnostic {
    /// Whether it is an error, or of a severity that this version does not know.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity != Severity::Warning
    }

    /// The name of the `check` block that this warning is about, if it is about one.
    #[must_use]
    pub fn failed_check(&self) -> Option<&str> {
        let context = self.snippet.as_ref()?.context.as_deref()?;
        context.strip_prefix("check \"")?.strip_suffix('"')
    }

    /// Summary and detail contain `needle`.
    #[must_use]
    pub fn mentions(&self, needle: &str) -> bool {
        self.summary.contains(needle) || self.detail.contains(needle)
    }
}

/// The longest detail shown in one text, in characters.
const MAX_DETAIL: usize = 2_000;

impl fmt::Display for Diagnostic {
    /// Summary, place and detail; never empty, and never endless.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.summary.trim();
        f.write_str(if summary.is_empty() {
            "OpenTofu gave no summary"
        } else {
            summary
        })?;
        if let Some(address) = self
            .address
            .as_deref()
            .filter(|address| !address.is_empty())
        {
            write!(f, " ({address})")?;
        }
        if let Some(range) = &self.range {
            write!(f, " at {}:{}", range.filename, range.start.line)?;
        }
        let detail = self.detail.trim();
        if !detail.is_empty() {
            f.write_str(": ")?;
            match detail.char_indices().nth(MAX_DETAIL) {
                None => f.write_str(detail)?,
                Some((end, _)) => write!(
                    f,
                    "{} … ({} characters in all)",
                    &detail[..end],
                    detail.chars().count()
                )?,
            }
        }
        Ok(())
    }
}

//! Values with references in them: `${target.X}`, `${secret.X}`, `${step.PHASE.STEP.OUTPUT}`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use phase_engine::{PhaseId, StepId, StepName};
use serde_json::Value;

/// What a reference points at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// `${target.NAME}`, and into it by `path`.
    Target {
        /// Key of `[values]`.
        name: String,
        /// Keys and indices into the value.
        path: Vec<String>,
    },
    /// `${secret.NAME}`.
    Secret {
        /// Key of `[secrets]`.
        name: String,
    },
    /// `${step.PHASE.STEP.OUTPUT}`, and into it by `path`.
    Output {
        /// The step that makes it.
        step: StepId,
        /// Name of the output.
        output: String,
        /// Keys and indices into the output.
        path: Vec<String>,
    },
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tail = |f: &mut fmt::Formatter<'_>, path: &[String]| {
            path.iter().try_for_each(|part| write!(f, ".{part}"))?;
            f.write_str("}")
        };
        match self {
            Self::Target { name, path } => {
                write!(f, "${{target.{name}")?;
                tail(f, path)
            }
            Self::Secret { name } => write!(f, "${{secret.{name}}}"),
            Self::Output { step, output, path } => {
                write!(f, "${{step.{step}.{output}")?;
                tail(f, path)
            }
        }
    }
}

/// A reference and the bytes of its file where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// What it points at.
    pub reference: Reference,
    /// Where it stands; `None` when it was not written but follows from a name.
    pub span: Option<Range<usize>>,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Plain text.
    Text(String),
    /// A value to be put in.
    Reference(Located),
}

/// A value in which references may stand.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number or boolean.
    Literal(Value),
    /// A text; one that is a lone reference keeps that value's type.
    Text(Vec<Part>),
    /// A list.
    Array(Vec<Expr>),
    /// A table.
    Table(BTreeMap<String, Expr>),
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
    /// Bytes of the text at fault.
    pub span: Range<usize>,
}

/// Why a value can't be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The scope has no such value.
    #[error("`{reference}` has no value")]
    Unknown {
        /// The reference as written.
        reference: String,
    },
    /// The value is there, but not what is asked of it.
    #[error("`{reference}` leads nowhere: there is no `{part}`")]
    NoSuchPart {
        /// The reference as written.
        reference: String,
        /// The key or index that is missing.
        part: String,
    },
    /// A list, table or null within a longer text.
    #[error("`{reference}` is a {kind}, which can't be put into a text")]
    NotText {
        /// The reference as written.
        reference: String,
        /// The kind of value.
        kind: &'static str,
    },
}

/// Where the values of references come from.
pub trait Scope {
    /// Returns a value of the target.
    fn target(&self, name: &str) -> Option<Value>;
    /// Returns a secret of the target.
    fn secret(&self, name: &str) -> Option<String>;
    /// Returns an output of a step and whether it is sensitive.
    fn output(&self, step: &StepId, output: &str) -> Option<(Value, bool)>;
}

/// A value without references.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The value.
    pub value: Value,
    /// Whether a secret or a sensitive output went into it.
    pub sensitive: bool,
}

impl Resolved {
    /// Returns the value as the text that an argument or a variable of the environment holds.
    ///
    /// Numbers and booleans are written out, lists and tables as JSON; null is empty.
    pub fn into_text(self) -> String {
        match self.value {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }
}

impl Expr {
    /// Parses a text.
    ///
    /// # Errors
    /// A `${` is not closed or holds no legal reference.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        parse_parts(text).map(Self::Text)
    }

    /// Makes a text without references.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(vec![Part::Text(text.into())])
    }

    /// Makes a reference to a value of the target.
    pub fn target(name: impl Into<String>) -> Self {
        let reference = Reference::Target {
            name: name.into(),
            path: Vec::new(),
        };
        Self::Text(vec![Part::Reference(Located {
            reference,
            span: None,
        })])
    }

    /// Returns every reference in it, in order.
    pub fn references(&self) -> Vec<&Located> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Located>) {
        match self {
            Self::Literal(_) => {}
            Self::Text(parts) => found.extend(parts.iter().filter_map(|part| match part {
                Part::Reference(located) => Some(located),
                Part::Text(_) => None,
            })),
            Self::Array(items) => items.iter().for_each(|item| item.collect(found)),
            Self::Table(items) => items.values().for_each(|item| item.collect(found)),
        }
    }

    /// Puts the values of a scope in.
    ///
    /// # Errors
    /// A reference has no value there, or one that does not fit.
    pub fn resolve(&self, scope: &dyn Scope) -> Result<Resolved, ResolveError> {
        let mut sensitive = false;
        let value = self.value(scope, &mut sensitive)?;
        Ok(Resolved { value, sensitive })
    }

    fn value(&self, scope: &dyn Scope, sensitive: &mut bool) -> Result<Value, ResolveError> {
        Ok(match self {
            Self::Literal(value) => value.clone(),
            Self::Text(parts) => match parts.as_slice() {
                [Part::Reference(located)] => fetch(&located.reference, scope, sensitive)?,
                parts => Value::String(join_parts(parts, scope, sensitive)?),
            },
            Self::Array(items) => Value::Array(
                items
                    .iter()
                    .map(|item| item.value(scope, sensitive))
                    .collect::<Result<_, _>>()?,
            ),
            Self::Table(items) => Value::Object(
                items
                    .iter()
                    .map(|(key, item)| Ok((key.clone(), item.value(scope, sensitive)?)))
                    .collect::<Result<_, ResolveError>>()?,
            ),
        })
    }
}

/// Writes a text so that parsing it yields the same text: `${` becomes `$${`.
pub fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

fn join_parts(
    parts: &[Part],
    scope: &dyn Scope,
    sensitive: &mut bool,
) -> Result<String, ResolveError> {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Reference(located) => {
                let value = fetch(&located.reference, scope, sensitive)?;
                let kind = match &value {
                    Value::String(text) => {
                        out.push_str(text);
                        continue;
                    }
                    Value::Bool(_) | Value::Number(_) => {
                        out.push_str(&value.to_string());
                        continue;
                    }
                    Value::Array(_) => "list",
                    Value::Object(_) => "table",
                    Value::Null => "null",
                };
                return Err(ResolveError::NotText {
                    reference: located.reference.to_string(),
                    kind,
                });
            }
        }
    }
    Ok(out)
}

fn fetch(
    reference: &Reference,
    scope: &dyn Scope,
    sensitive: &mut bool,
) -> Result<Value, ResolveError> {
    let unknown = || ResolveError::Unknown {
        reference: reference.to_string(),
    };
    let (value, path): (Value, &[String]) = match reference {
        Reference::Target { name, path } => (scope.target(name).ok_or_else(unknown)?, path),
        Reference::Secret { name } => {
            *sensitive = true;
            (Value::String(scope.secret(name).ok_or_else(unknown)?), &[])
        }
        Reference::Output { step, output, path } => {
            let (value, is_sensitive) = scope.output(step, output).ok_or_else(unknown)?;
            *sensitive |= is_sensitive;
            (value, path)
        }
    };
    dig(value, path).map_err(|part| ResolveError::NoSuchPart {
        reference: reference.to_string(),
        part,
    })
}

/// Goes into a value by keys and indices; the error is the part that is not there.
pub(crate) fn dig(mut value: Value, path: &[String]) -> Result<Value, String> {
    for part in path {
        let inner = match &mut value {
            Value::Object(table) => table.get_mut(part).map(Value::take),
            Value::Array(list) => part
                .parse()
                .ok()
                .and_then(|i: usize| list.get_mut(i))
                .map(Value::take),
            _ => None,
        };
        value = inner.ok_or_else(|| part.clone())?;
    }
    Ok(value)
}

fn parse_parts(text: &str) -> Result<Vec<Part>, ExprError> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("$${") {
            plain.push_str("${");
            at += 3;
        } else if rest.starts_with("${") {
            let Some(length) = rest.find('}') else {
                return Err(ExprError {
                    message: "this `${` is never closed".to_owned(),
                    help: Some("close it with `}`, or write `$${` for a literal `${`".to_owned()),
                    span: at..text.len(),
                });
            };
            let span = at..at + length + 1;
            let reference =
                parse_reference(&rest[2..length]).map_err(|(message, help)| ExprError {
                    message,
                    help,
                    span: span.clone(),
                })?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            at = span.end;
            parts.push(Part::Reference(Located {
                reference,
                span: Some(span),
            }));
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            let until = rest[next..]
                .find('$')
                .map_or(rest.len(), |found| found + next);
            plain.push_str(&rest[..until]);
            at += until;
        }
    }
    if !plain.is_empty() || parts.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

const FORMS: &str = "references are `${target.NAME}`, `${secret.NAME}` and `${step.PHASE.STEP.OUTPUT}`; \
                     `$${` is a literal `${`";

fn parse_reference(inner: &str) -> Result<Reference, (String, Option<String>)> {
    let wrong = |message: String| (message, Some(FORMS.to_owned()));
    let inner = inner.trim();
    let segments: Vec<&str> = inner.split('.').collect();
    let legal = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    if let Some(bad) = segments.iter().find(|part| !legal(part)) {
        return Err(wrong(if bad.is_empty() {
            format!("`${{{inner}}}` has an empty part")
        } else {
            format!("`{bad}` is no name")
        }));
    }
    let owned = |parts: &[&str]| {
        parts
            .iter()
            .map(|part| (*part).to_owned())
            .collect::<Vec<_>>()
    };
    match segments.as_slice() {
        ["target", name, path @ ..] => Ok(Reference::Target {
            name: (*name).to_owned(),
            path: owned(path),
        }),
        ["secret", name] => Ok(Reference::Secret {
            name: (*name).to_owned(),
        }),
        ["secret", _, ..] => Err(wrong("a secret has no parts".to_owned())),
        ["step", phase, step, output, path @ ..] => {
            let id = |error: phase_engine::IdError| wrong(error.to_string());
            let phase = PhaseId::new(*phase).map_err(id)?;
            let step = StepName::new(*step).map_err(id)?;
            Ok(Reference::Output {
                step: StepId { phase, step },
                output: (*output).to_owned(),
                path: owned(path),
            })
        }
        ["step", ..] => Err(wrong(format!(
            "`${{{inner}}}` must name a phase, a step and an output"
        ))),
        [root @ ("target" | "secret")] => Err(wrong(format!("`${{{root}}}` names no {root}"))),
        [root, ..] => Err((
            format!("`{root}` is nothing that can be referred to"),
            crate::near::near(root, ["target", "secret", "step"])
                .map(|right| format!("did you mean `{right}`?"))
                .or_else(|| Some(FORMS.to_owned())),
        )),
        [] => Err(wrong("an empty reference".to_owned())),
    }
}

#[cfg(test)]
mod tests;

//! Expressions in OpenTofu's own syntax.

use std::fmt;

use crate::{BuildError, Identifier, Part, Reference, Template};

/// A whole expression. It can't end the template that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression(String);

impl Expression {
    /// Takes a text of OpenTofu's own syntax.
    ///
    /// # Errors
    /// When it is empty, or its quotes and brackets are not balanced.
    pub fn raw(text: impl Into<String>) -> Result<Self, BuildError> {
        let text = text.into();
        let reason = if text.trim().is_empty() {
            "it is empty"
        } else if text.starts_with('~') || text.ends_with('~') {
            "it strips the text around it"
        } else if end(&text).is_some() || end(&format!("{text}}}")) != Some(text.len()) {
            "its quotes or brackets are not balanced"
        } else {
            return Ok(Self(text));
        };
        Err(BuildError::NoExpression { text, reason })
    }

    /// Returns `var.NAME`.
    #[must_use]
    pub fn variable(name: impl Into<Identifier>) -> Self {
        Reference::variable(name).into()
    }

    /// Returns `local.NAME`.
    #[must_use]
    pub fn local(name: impl Into<Identifier>) -> Self {
        Reference::local(name).into()
    }

    /// Returns a string in quotes that is this text, whatever it holds.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self(quote(text))
    }

    /// Returns a string in quotes with expressions in it.
    #[must_use]
    pub fn quoted(template: &Template) -> Self {
        let mut source = String::from("\"");
        let parts = template.parts();
        for (index, part) in parts.iter().enumerate() {
            match part {
                Part::Text(text) => {
                    let head = if index + 1 < parts.len() {
                        text.trim_end_matches('$')
                    } else {
                        text
                    };
                    let inner = quote(head);
                    source += &inner[1..inner.len() - 1];
                    let dollars = &text[head.len()..];
                    if !dollars.is_empty() {
                        source += &format!("${{\"{dollars}\"}}");
                    }
                }
                Part::Expression(expression) => source += &format!("${{{expression}}}"),
            }
        }
        source.push('"');
        Self(source)
    }

    /// Returns the call of a function.
    #[must_use]
    pub fn call(function: &'static str, arguments: impl IntoIterator<Item = Self>) -> Self {
        let arguments: Vec<String> = arguments.into_iter().map(|argument| argument.0).collect();
        Self(format!("{function}({})", arguments.join(", ")))
    }

    /// Returns a list.
    #[must_use]
    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        let items: Vec<String> = items.into_iter().map(|item| item.0).collect();
        Self(format!("[{}]", items.join(", ")))
    }

    /// Returns an object whose keys are these texts.
    #[must_use]
    pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        let members: Vec<String> = members
            .into_iter()
            .map(|(key, value)| format!("{} = {value}", quote(key)))
            .collect();
        Self(format!("{{ {} }}", members.join(", ")))
    }

    /// Returns `self[index]`.
    #[must_use]
    pub fn index(&self, index: &Self) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Returns `self.NAME`.
    #[must_use]
    pub fn attribute(&self, name: impl Into<Identifier>) -> Self {
        Self(format!("{}.{}", self.0, name.into()))
    }

    /// Returns the source text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Reference> for Expression {
    fn from(reference: Reference) -> Self {
        Self(reference.to_string())
    }
}

impl From<&Reference> for Expression {
    fn from(reference: &Reference) -> Self {
        Self(reference.to_string())
    }
}

impl From<u64> for Expression {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

/// Writes a text as a string of OpenTofu's native syntax.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in crate::template::escape(text).chars() {
        match character {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            // Line separators end a line for some readers; control characters for all.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                quoted += &format!("\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns where the `}` stands that ends the expression that `text` begins with.
pub(crate) fn end(text: &str) -> Option<usize> {
    // What is open, innermost last: a bracket's end, or `"` for a string.
    let mut open: Vec<u8> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if open.last() == Some(&b'"') {
            match byte {
                b'\\' => at += 1,
                b'"' => {
                    open.pop();
                }
                b'$' | b'%' => {
                    let run = bytes[at..].iter().take_while(|b| **b == byte).count();
                    if bytes.get(at + run) == Some(&b'{') {
                        if run == 1 {
                            open.push(b'}');
                        }
                        at += run;
                    } else {
                        at += run - 1;
                    }
                }
                b'\n' => return None,
                _ => {}
            }
        } else {
            match byte {
                b'"' => open.push(b'"'),
                b'{' => open.push(b'}'),
                b'(' => open.push(b')'),
                b'[' => open.push(b']'),
                // A comment could hide the end.
                b'#' => return None,
                b'/' if matches!(bytes.get(at + 1), Some(b'/' | b'*')) => return None,
                b'<' if bytes.get(at + 1) == Some(&b'<') => return None,
                b'}' | b')' | b']' => match open.pop() {
                    None if byte == b'}' => return Some(at),
                    Some(expected) if expected == byte => {}
                    _ => return None,
                },
                _ => {}
            }
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_could_end_its_template_is_refused() {
        for text in [
            "", " ", "a}", "a} ${b", "(a", "a)", "\"a", "{ a = 1 ", "a # b", "a // b", "~ a",
            "<<X", "\"${\"", "[1}",
        ] {
            assert!(Expression::raw(text).is_err(), "{text:?}");
        }
        for text in [
            "a.b[0]",
            "{ for k, v in a : k => \"${v}-}\" }",
            "\"$${\"",
            "\"\\\"}\"",
            "a / b",
            "a == {} ? 1 : 2",
        ] {
            assert!(Expression::raw(text).is_ok(), "{text:?}");
        }
    }

    #[test]
    fn a_string_in_quotes_holds_its_text() {
        let text = Expression::string("a\"b\\c\n${d}\u{1}");
        assert_eq!(text.as_str(), r#""a\"b\\c\n$${d}\u0001""#);
        assert!(Expression::raw(text.as_str()).is_ok());
    }
}

//! Strings as OpenTofu reads them: text with expressions in it.

use crate::{BuildError, Expression};

/// The byte order mark: OpenTofu drops one that a template begins with (measured).
const MARK: char = '\u{feff}';
/// The same, as its native syntax escapes it.
const ESCAPED_MARK: &str = "\\ufeff";

/// A string with expressions in it. A template of one expression alone keeps that expression's type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Template {
    parts: Vec<Part>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Text that comes out as it went in.
    Text(String),
    /// What OpenTofu evaluates.
    Expression(Expression),
}

impl Template {
    /// Returns an empty string.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a template that is this text, whatever it holds.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Self {
        Self::new().text(text)
    }

    /// Adds text.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(&text),
            _ => self.parts.push(Part::Text(text)),
        }
        self
    }

    /// Adds an expression.
    #[must_use]
    pub fn expression(mut self, expression: impl Into<Expression>) -> Self {
        self.parts.push(Part::Expression(expression.into()));
        self
    }

    /// Returns the pieces; no two texts stand side by side.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the text, where there is no expression in it.
    #[must_use]
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the source text, as it stands in a JSON string.
    #[must_use]
    pub fn source(&self) -> String {
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                Part::Text(text) => split(text, index == 0, &mut pieces),
                Part::Expression(expression) => pieces.push(Piece::Expression(expression.as_str())),
            }
        }
        let mut source = String::new();
        for (index, piece) in pieces.iter().enumerate() {
            let mut expression = |text: &str| {
                source += "${";
                source += text;
                source.push('}');
            };
            match piece {
                Piece::Expression(text) => expression(text),
                Piece::StandIn(text) => expression(&format!("\"{text}\"")),
                Piece::Text(text) => {
                    // `$` right before `${` would make an escape of the two.
                    let head = match pieces.get(index + 1) {
                        Some(_) => text.trim_end_matches('$'),
                        None => text,
                    };
                    source += &escape(head);
                    let dollars = &text[head.len()..];
                    if !dollars.is_empty() {
                        source += "${\"";
                        source += dollars;
                        source += "\"}";
                    }
                }
            }
        }
        source
    }

    /// Reads a source text.
    ///
    /// # Errors
    /// When an expression in it does not end, or it holds a directive (`%{`), which nothing here writes.
    pub fn parse(source: &str) -> Result<Self, BuildError> {
        let fault = |reason| BuildError::NoExpression {
            text: source.to_owned(),
            reason,
        };
        let mut template = Self::new();
        let mut rest = source;
        loop {
            let Some(brace) = opening(rest) else {
                return Ok(template.text(rest));
            };
            let sign = char::from(rest.as_bytes()[brace - 1]);
            let text = &rest[..brace];
            let head = text.trim_end_matches(sign);
            if text.len() - head.len() > 1 {
                // `$${` is `${`, and so on: one sign less.
                template = template.text(&text[..text.len() - 1]).text("{");
                rest = &rest[brace + 1..];
                continue;
            }
            if sign == '%' {
                return Err(fault("it holds a directive"));
            }
            let inner = &rest[brace + 1..];
            let end = crate::expression::end(inner).ok_or_else(|| fault("it does not end"))?;
            let (inside, after) = (&inner[..end], &inner[end + 1..]);
            template = template.text(head);
            template = match stand_in(inside) {
                Some(text) => template.text(text),
                None => template.expression(Expression::raw(inside)?),
            };
            rest = after;
        }
    }
}

/// Reads an expression that only stands in for text that can't be written as it is.
fn stand_in(expression: &str) -> Option<String> {
    if expression == "\"\\r\"" {
        return Some("\r".to_owned());
    }
    let quoted = expression.strip_prefix('"')?.strip_suffix('"')?;
    let text = quoted.replace(ESCAPED_MARK, MARK.encode_utf8(&mut [0; 4]));
    let is_one = !text.is_empty()
        && (['$', '%', MARK]
            .iter()
            .any(|one| text.chars().all(|c| c == *one)));
    is_one.then_some(text)
}

/// Returns where the first `{` stands that follows a `$` or `%`.
fn opening(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (1..bytes.len()).find(|at| bytes[*at] == b'{' && matches!(bytes[at - 1], b'$' | b'%'))
}

/// Escapes what OpenTofu would take for an expression or a directive. A lone `$` or `%` stays.
pub(crate) fn escape(text: &str) -> String {
    text.replace("${", "$${").replace("%{", "%%{")
}

/// A piece of a source text.
enum Piece<'a> {
    Text(&'a str),
    Expression(&'a str),
    /// Text that OpenTofu would not read as it is, escaped for its native syntax.
    StandIn(String),
}

/// Splits off what OpenTofu does not read as it is in a JSON string (measured with 1.12): it drops a byte order
/// mark at the start, and after a `\r` without `\n` it sees no expression, and no escape as it should.
fn split<'a>(text: &'a str, is_first: bool, pieces: &mut Vec<Piece<'a>>) {
    let rest = if is_first {
        text.trim_start_matches(MARK)
    } else {
        text
    };
    let n_marks = (text.len() - rest.len()) / MARK.len_utf8();
    if n_marks > 0 {
        pieces.push(Piece::StandIn(ESCAPED_MARK.repeat(n_marks)));
    }
    let mut start = 0;
    for (at, _) in rest.match_indices('\r') {
        if rest[at + 1..].starts_with('\n') {
            continue;
        }
        if start < at {
            pieces.push(Piece::Text(&rest[start..at]));
        }
        pieces.push(Piece::StandIn("\\r".to_owned()));
        start = at + 1;
    }
    if start < rest.len() {
        pieces.push(Piece::Text(&rest[start..]));
    }
}

impl From<Expression> for Template {
    fn from(expression: Expression) -> Self {
        Self::new().expression(expression)
    }
}

impl From<&str> for Template {
    fn from(text: &str) -> Self {
        Self::literal(text)
    }
}

impl From<String> for Template {
    fn from(text: String) -> Self {
        Self::literal(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_escaped_only_where_it_must_be() {
        for (text, source) in [
            ("${HOME}", "$${HOME}"),
            ("%{text}", "%%{text}"),
            ("50%", "50%"),
            ("a $ b", "a $ b"),
            ("$${x}", "$$${x}"),
            (r"D:\f", r"D:\f"),
            ("k${1+1}", "k$${1+1}"),
        ] {
            assert_eq!(Template::literal(text).source(), source);
            assert_eq!(Template::parse(source), Ok(Template::literal(text)));
        }
    }

    #[test]
    fn a_dollar_before_an_expression_stays_a_dollar() {
        let template = Template::literal("cost: $$").expression(Expression::variable("v"));
        assert_eq!(template.source(), r#"cost: ${"$$"}${var.v}"#);
        assert_eq!(Template::parse(&template.source()), Ok(template));
    }

    #[test]
    fn a_lone_carriage_return_is_written_so_that_what_follows_is_read() {
        for (text, source) in [
            ("\r\n$${", "\r\n$$${"),
            ("\r${", "${\"\\r\"}$${"),
            ("a$\r", "a${\"$\"}${\"\\r\"}"),
            ("\r\r\n", "${\"\\r\"}\r\n"),
        ] {
            assert_eq!(Template::literal(text).source(), source);
            assert_eq!(Template::parse(source), Ok(Template::literal(text)));
        }
    }

    #[test]
    fn a_byte_order_mark_at_the_start_is_written_so_that_it_stays() {
        let template = Template::literal("\u{feff}a\u{feff}");
        assert_eq!(template.source(), "${\"\\ufeff\"}a\u{feff}");
        assert_eq!(Template::parse(&template.source()), Ok(template));
    }

    #[test]
    fn braces_and_quotes_in_an_expression_do_not_end_it() {
        let source = r#"a ${merge({ "}" = "${x}" }, { b = 1 })} z"#;
        let template = Template::parse(source).expect("it ends");
        assert_eq!(template.parts().len(), 3);
        assert_eq!(template.source(), source);
        assert!(Template::parse("${a").is_err());
        assert!(Template::parse("%{ if a }").is_err());
    }
}

//! The canonical form of configuration in JSON: OpenTofu's `fmt` has none.
//!
//! Two spaces for each level, one member a line, order kept, a newline at the end. Strings and
//! numbers stay letter by letter, and so do names that are there twice (OpenTofu reads those as
//! several blocks): the text is arranged anew, never rebuilt from its values.

use serde::de::IgnoredAny;

/// Why a text has no canonical form.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    /// It is not UTF-8.
    #[error("it is not UTF-8 text")]
    Encoding,
    /// It is no JSON.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
}

/// Arranges a JSON document in its canonical form.
pub(crate) fn canonical(bytes: &[u8]) -> Result<String, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::Encoding)?;
    serde_json::from_str::<IgnoredAny>(text)?;
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut tokens = Tokens { rest: text }.peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                if tokens.next_if(|next| matches!(*next, "}" | "]")).is_some() {
                    out.push_str(if token == "{" { "}" } else { "]" });
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push_str(token);
            }
            "," => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ":" => out.push_str(": "),
            scalar => out.push_str(scalar),
        }
    }
    out.push('\n');
    Ok(out)
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// The tokens of a text that is JSON.
struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let first = *self.rest.as_bytes().first()?;
        let end = match first {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => string_end(self.rest),
            _ => self
                .rest
                .find([' ', '\t', '\r', '\n', ',', '}', ']', ':'])
                .unwrap_or(self.rest.len()),
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

/// One past the closing quote of the string that the text begins with.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn form(text: &str) -> String {
        canonical(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_badly_spaced_document_is_arranged_and_its_order_kept() {
        let text = "{\"output\":{\"b\" : {\"value\":\"${var.x}\"},\r\n\"a\":{\"value\":[ 1,2 ]}},\"x\":[],\"y\":{ }}";
        assert_eq!(
            form(text),
            "{\n  \"output\": {\n    \"b\": {\n      \"value\": \"${var.x}\"\n    },\n    \"a\": {\n      \"value\": [\n        1,\n        2\n      ]\n    }\n  },\n  \"x\": [],\n  \"y\": {}\n}\n"
        );
    }

    #[test]
    fn nothing_of_a_scalar_or_of_a_repeated_name_is_lost() {
        let text = r#"{"a": 1.0, "a": 123456789012345678901234567890, "a": 1E400, "s": "\u00e4 \"}{[]:,\\"}"#;
        let arranged = form(text);
        for kept in [
            "\"a\": 1.0,",
            "\"a\": 123456789012345678901234567890,",
            "\"a\": 1E400,",
            r#""s": "\u00e4 \"}{[]:,\\""#,
        ] {
            assert!(arranged.contains(kept), "{arranged}");
        }
        assert_eq!(arranged.matches("\"a\"").count(), 3);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "{\"a\":1,}", "# no\n{}", "{} {}", "\u{feff}{}"] {
            assert!(canonical(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(matches!(canonical(b"\"\xff\""), Err(JsonError::Encoding)));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_form_is_that_of_a_pretty_printer_and_arranging_it_again_changes_nothing(value in any_json()) {
            let arranged = form(&value.to_string());
            prop_assert_eq!(&arranged, &format!("{}\n", serde_json::to_string_pretty(&value).unwrap()));
            prop_assert_eq!(form(&arranged), arranged);
        }

        #[test]
        fn any_bytes_are_arranged_or_refused(bytes in any::<Vec<u8>>(), marks in "[{}\\[\\],:\" \\\\0-9a-e\n]{0,60}") {
            let _ = canonical(&bytes);
            if let Ok(arranged) = canonical(marks.as_bytes()) {
                let before: Value = serde_json::from_str(&marks).unwrap_or_default();
                prop_assert_eq!(before, serde_json::from_str::<Value>(&arranged).unwrap_or_default());
            }
        }
    }
}

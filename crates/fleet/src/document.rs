//! The inventory as one YAML document: what a play is given.
//!
//! Measured with ansible-core 2.17 and 2.19: a JSON document is read as well, but 2.19 leaves its
//! `__ansible_unsafe` as they are; and YAML's `!unsafe "007"` becomes the number 7 there. So a text is
//! `!unsafe` only where a template may lie in it, and such a text is never a number.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use crate::workspace::Fleet;

impl Fleet {
    /// The inventory as a document for `ansible-playbook -i FILE.yml`; the file's name must end so.
    ///
    /// Every value arrives as the output has it: texts stay texts, and no template in one is run.
    #[must_use]
    pub fn inventory(&self) -> String {
        let mut text = String::from("all:\n  hosts:\n");
        for host in self.hosts() {
            let variables = Value::Object(self.variables(host));
            let _ = writeln!(
                text,
                "    {}: {}",
                quoted(host.name.as_str()),
                flow(&variables)
            );
        }
        text.push_str("  children:\n");
        for (group, hosts) in self.groups() {
            let members = hosts
                .into_iter()
                .map(|host| (host.to_owned(), Value::Object(Map::new())));
            let members = Value::Object(members.collect());
            let _ = writeln!(
                text,
                "    {}: {{\"hosts\": {}}}",
                quoted(group),
                flow(&members)
            );
        }
        text
    }
}

/// Variables as a document for `ansible-playbook --extra-vars @FILE.yml`: each value arrives as it is, and no
/// template in one is run.
#[must_use]
pub fn variables_document(variables: &Map<String, Value>) -> String {
    let mut text = String::from("---\n");
    for (name, value) in variables {
        let _ = writeln!(text, "{}: {}", quoted(name), flow(value));
    }
    if variables.is_empty() {
        text.push_str("{}\n");
    }
    text
}

fn flow(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number_of_yaml(number),
        Value::String(text) if may_hold_a_template(text) => format!("!unsafe {}", quoted(text)),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(flow).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(map) => {
            let pairs = map
                .iter()
                .map(|(key, value)| format!("{}: {}", quoted(key), flow(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Whether Ansible could see a template: the marks begin with `{`, and `#jinja2:` sets others.
fn may_hold_a_template(text: &str) -> bool {
    text.contains(['{', '#'])
}

/// YAML 1.1 takes `1e30` for a text: a float has a point and its exponent a sign there.
fn number_of_yaml(number: &Number) -> String {
    let text = number.to_string();
    let Some((digits, exponent)) = text.split_once(['e', 'E']) else {
        return text;
    };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) {
        ""
    } else {
        "+"
    };
    format!("{digits}{point}e{sign}{exponent}")
}

/// A text between double quotes, on one line, with everything escaped that YAML 1.1 does not print.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            ' '..='~' => quoted.push(char),
            '\u{a0}'..='\u{2027}'
            | '\u{202a}'..='\u{d7ff}'
            | '\u{e000}'..='\u{fefe}'
            | '\u{ff00}'..='\u{fffd}' => {
                quoted.push(char);
            }
            _ => {
                let code = u32::from(char);
                let _ = match code {
                    0..=0xff => write!(quoted, "\\x{code:02x}"),
                    0x100..=0xffff => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;

//! References to what a configuration defines.

use std::fmt;

use crate::{BuildError, Identifier};

/// A reference, such as `openstack_networking_port_v2.workers[0].id`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    root: Identifier,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Step {
    Attribute(Identifier),
    Index(u64),
    Key(String),
    Current,
    Splat,
}

impl Reference {
    /// Returns a reference to what has this one name, such as an argument in `ignore_changes`.
    #[must_use]
    pub fn name(name: impl Into<Identifier>) -> Self {
        Self {
            root: name.into(),
            steps: Vec::new(),
        }
    }

    /// Returns `KIND.NAME`.
    #[must_use]
    pub fn resource(kind: impl Into<Identifier>, name: impl Into<Identifier>) -> Self {
        Self::name(kind).attribute(name)
    }

    /// Returns `data.KIND.NAME`.
    #[must_use]
    pub fn data(kind: impl Into<Identifier>, name: impl Into<Identifier>) -> Self {
        Self::name("data").attribute(kind).attribute(name)
    }

    /// Returns `var.NAME`.
    #[must_use]
    pub fn variable(name: impl Into<Identifier>) -> Self {
        Self::name("var").attribute(name)
    }

    /// Returns `local.NAME`.
    #[must_use]
    pub fn local(name: impl Into<Identifier>) -> Self {
        Self::name("local").attribute(name)
    }

    /// Returns `module.NAME`.
    #[must_use]
    pub fn module(name: impl Into<Identifier>) -> Self {
        Self::name("module").attribute(name)
    }

    /// Adds `.NAME`.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<Identifier>) -> Self {
        self.steps.push(Step::Attribute(name.into()));
        self
    }

    /// Adds `[INDEX]`.
    #[must_use]
    pub fn index(mut self, index: u64) -> Self {
        self.steps.push(Step::Index(index));
        self
    }

    /// Adds `["KEY"]`.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.steps.push(Step::Key(key.into()));
        self
    }

    /// Adds `[count.index]`: the same number of another group of as many.
    #[must_use]
    pub fn same_index(mut self) -> Self {
        self.steps.push(Step::Current);
        self
    }

    /// Adds `[*]`.
    #[must_use]
    pub fn splat(mut self) -> Self {
        self.steps.push(Step::Splat);
        self
    }

    /// Reads a bare reference.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Self, BuildError> {
        let fault = |reason| BuildError::NoExpression {
            text: text.to_owned(),
            reason,
        };
        let root_end = text.find(['.', '[']).unwrap_or(text.len());
        let mut reference = Self::name(Identifier::new(&text[..root_end])?);
        let mut rest = &text[root_end..];
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                reference = reference.attribute(Identifier::new(&after[..end])?);
                rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix("[*]") {
                reference = reference.splat();
                rest = after;
            } else if let Some(after) = rest.strip_prefix("[count.index]") {
                reference = reference.same_index();
                rest = after;
            } else if let Some(after) = rest.strip_prefix("[\"") {
                let end = closing_quote(after).ok_or_else(|| fault("a key does not end"))?;
                let key = unquote(&after[..end]).ok_or_else(|| fault("a key is not literal"))?;
                reference = reference.key(key);
                rest = after[end + 1..]
                    .strip_prefix(']')
                    .ok_or_else(|| fault("a bracket does not end"))?;
            } else if let Some(after) = rest.strip_prefix('[') {
                let end = after
                    .find(']')
                    .ok_or_else(|| fault("a bracket does not end"))?;
                let index = after[..end]
                    .parse()
                    .map_err(|_| fault("it has an odd index"))?;
                reference = reference.index(index);
                rest = &after[end + 1..];
            } else {
                return Err(fault("it is no reference"));
            }
        }
        Ok(reference)
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Reads what `quote` wrote.
fn unquote(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        plain.push(match characters.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let digits: String = characters.by_ref().take(4).collect();
                char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
            }
            other => other,
        });
    }
    crate::Template::parse(&plain)
        .ok()?
        .as_literal()
        .map(str::to_owned)
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.root)?;
        for step in &self.steps {
            match step {
                Step::Attribute(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{}]", crate::expression::quote(key))?,
                Step::Current => f.write_str("[count.index]")?,
                Step::Splat => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_read_as_it_was_written() {
        let reference = Reference::data("a_b", "c-d")
            .index(3)
            .attribute("e")
            .key("k \"${x}\\\n")
            .splat()
            .same_index();
        assert_eq!(Reference::parse(&reference.to_string()), Ok(reference));
        for text in [
            "", "a.", "a[", "a[x]", "a b", "1a", "a[\"x", "a[\"x\"", "a]",
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }
}

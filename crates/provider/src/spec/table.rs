//! A table that is taken apart member by member: what is wrong is noted, what is left over too.

use std::collections::BTreeMap;

use super::fault::SpecFault;
use super::located::{Data, Located};
use crate::near::near;

/// What is wrong with the specs of one file.
pub(crate) struct Faults {
    file: String,
    pub(crate) all: Vec<SpecFault>,
}

impl Faults {
    pub(crate) fn of(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            all: Vec::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        line: Option<usize>,
        path: &str,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.all.push(SpecFault {
            file: self.file.clone(),
            line,
            path: path.to_owned(),
            message: message.into(),
            help,
        });
    }
}

/// A table and what was asked of it so far.
pub(crate) struct Table<'a> {
    pub(crate) path: String,
    pub(crate) line: Option<usize>,
    left: BTreeMap<&'a str, &'a Located>,
    asked: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// Takes a value that must be a table; notes it where it is none.
    pub(crate) fn of(path: &str, value: &'a Located, faults: &mut Faults) -> Self {
        let mut left = BTreeMap::new();
        match &value.data {
            Data::Table(members) => {
                for (key, value) in members {
                    if left.insert(key.as_str(), value).is_some() {
                        faults.add(value.line, path, format!("`{key}` is set twice"), None);
                    }
                }
            }
            // As if it were not there.
            Data::Null => {}
            _ => faults.add(
                value.line,
                path,
                format!("a table belongs here, and this is {}", value.kind()),
                None,
            ),
        }
        Self {
            path: path.to_owned(),
            line: value.line,
            left,
            asked: Vec::new(),
        }
    }

    pub(crate) fn at(&self, key: &str) -> String {
        if self.path.is_empty() || self.path.ends_with(": ") {
            format!("{}{key}", self.path)
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Takes a member; one that is null is not there.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'a Located> {
        self.asked.push(key);
        self.left
            .remove(key)
            .filter(|value| value.data != Data::Null)
    }

    fn wrong(&self, key: &str, value: &Located, belongs: &str, faults: &mut Faults) {
        let message = format!("{belongs} belongs here, and this is {}", value.kind());
        faults.add(value.line, &self.at(key), message, None);
    }

    pub(crate) fn text(&mut self, key: &'static str, faults: &mut Faults) -> Option<String> {
        let value = self.take(key)?;
        match &value.data {
            Data::Text(text) => Some(text.clone()),
            _ => {
                self.wrong(key, value, "a text", faults);
                None
            }
        }
    }

    /// Takes a text that must be there. What is returned in its stead is never used, as there is a fault.
    pub(crate) fn required_text(&mut self, key: &'static str, faults: &mut Faults) -> String {
        let n_before = faults.all.len();
        match self.text(key, faults) {
            Some(text) if !text.is_empty() => text,
            _ => {
                if faults.all.len() == n_before {
                    self.missing(key, faults);
                }
                String::new()
            }
        }
    }

    pub(crate) fn missing(&self, key: &str, faults: &mut Faults) {
        faults.add(self.line, &self.at(key), "it must be set", None);
    }

    pub(crate) fn flag(&mut self, key: &'static str, faults: &mut Faults) -> Option<bool> {
        let value = self.take(key)?;
        match value.data {
            Data::Bool(flag) => Some(flag),
            _ => {
                self.wrong(key, value, "`true` or `false`", faults);
                None
            }
        }
    }

    /// Takes a whole number within bounds.
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        bounds: std::ops::RangeInclusive<u64>,
        faults: &mut Faults,
    ) -> Option<u64> {
        let value = self.take(key)?;
        let number = match &value.data {
            Data::Number(number) => number.as_u64(),
            _ => None,
        };
        if number.is_none_or(|number| !bounds.contains(&number)) {
            let message = format!(
                "a whole number from {} to {} belongs here",
                bounds.start(),
                bounds.end()
            );
            faults.add(value.line, &self.at(key), message, None);
            return None;
        }
        number
    }

    /// Takes one of these words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        faults: &mut Faults,
    ) -> Option<T> {
        let line = self.left.get(key).and_then(|value| value.line);
        let text = self.text(key, faults)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let help = match near(&text, known.iter().copied()) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("one of `{}` belongs here", known.join("`, `")),
            };
            faults.add(
                line,
                &self.at(key),
                format!("`{text}` is not known"),
                Some(help),
            );
        }
        found.map(|(_, word)| *word)
    }

    pub(crate) fn texts(&mut self, key: &'static str, faults: &mut Faults) -> Vec<String> {
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        let texts = match &value.data {
            Data::List(items) => items
                .iter()
                .map(|item| match &item.data {
                    Data::Text(text) => Some(text.clone()),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        texts.unwrap_or_else(|| {
            self.wrong(key, value, "a list of texts", faults);
            Vec::new()
        })
    }

    /// Takes a table of texts; numbers and truths are taken as they are written.
    pub(crate) fn map(
        &mut self,
        key: &'static str,
        faults: &mut Faults,
    ) -> BTreeMap<String, String> {
        let Some(value) = self.take(key) else {
            return BTreeMap::new();
        };
        let Data::Table(members) = &value.data else {
            self.wrong(key, value, "a table of texts", faults);
            return BTreeMap::new();
        };
        let mut map = BTreeMap::new();
        for (name, value) in members {
            match &value.data {
                Data::Text(text) => map.insert(name.clone(), text.clone()),
                Data::Number(_) | Data::Bool(_) => {
                    map.insert(name.clone(), value.to_json().to_string())
                }
                _ => {
                    let at = format!("{key}.{name}");
                    self.wrong(&at, value, "a text", faults);
                    None
                }
            };
        }
        map
    }

    /// Takes a list of anything.
    pub(crate) fn list(&mut self, key: &'static str, faults: &mut Faults) -> &'a [Located] {
        match self.take(key) {
            None => &[],
            Some(value) => match &value.data {
                Data::List(items) => items,
                _ => {
                    self.wrong(key, value, "a list", faults);
                    &[]
                }
            },
        }
    }

    /// Notes what nobody asked for.
    pub(crate) fn done(self, faults: &mut Faults) {
        for (key, value) in &self.left {
            let nearest = near(key, self.asked.iter().copied());
            let help = nearest.map(|name| format!("did you mean `{name}`?"));
            faults.add(value.line, &self.at(key), "it is not known here", help);
        }
    }
}

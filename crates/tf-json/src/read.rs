//! Documents read back from JSON: the parts that all blocks share.

use serde_json::{Map, Value as Json};

use crate::{
    Body, BuildError, Condition, Entry, Expression, Identifier, IgnoreChanges, Lifecycle, Meta,
    ProviderReference, ReadError, Reference, Template, Value,
};

/// One object of the document that is taken apart member by member.
pub(crate) struct Reader {
    pub(crate) path: String,
    left: Map<String, Json>,
}

impl Reader {
    /// Takes an object, or the one object of a list, which is the same thing.
    pub(crate) fn of(path: impl Into<String>, json: &Json) -> Result<Self, ReadError> {
        let path = path.into();
        let object = match json {
            Json::Object(members) => members,
            Json::Array(items) if items.len() == 1 && items[0].is_object() => {
                return Self::of(path, &items[0]);
            }
            _ => return Err(ReadError::form(&path, "an object belongs here")),
        };
        let mut left = object.clone();
        // OpenTofu reads no `//`: it is for people.
        left.remove("//");
        Ok(Self { path, left })
    }

    pub(crate) fn at(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<Json> {
        self.left.remove(key)
    }

    pub(crate) fn members(self) -> (String, Map<String, Json>) {
        (self.path, self.left)
    }

    /// Fails where something is left that nobody asked for.
    pub(crate) fn done(self) -> Result<(), ReadError> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => Err(ReadError::form(&self.at(key), "this is not known here")),
        }
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<String>, ReadError> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(ReadError::form(&self.at(key), "a text belongs here")),
        }
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<Option<bool>, ReadError> {
        match self.take(key) {
            None => Ok(None),
            Some(Json::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(ReadError::form(
                &self.at(key),
                "`true` or `false` belongs here",
            )),
        }
    }

    pub(crate) fn value(&mut self, key: &str) -> Result<Option<Value>, ReadError> {
        let path = self.at(key);
        self.take(key).map(|json| value(&path, &json)).transpose()
    }

    pub(crate) fn reference(&mut self, key: &str) -> Result<Option<Reference>, ReadError> {
        let path = self.at(key);
        let text = self.text(key)?;
        text.map(|text| legal(&path, Reference::parse(&text)))
            .transpose()
    }

    pub(crate) fn references(&mut self, key: &str) -> Result<Vec<Reference>, ReadError> {
        let path = self.at(key);
        let Some(json) = self.take(key) else {
            return Ok(Vec::new());
        };
        let items = json
            .as_array()
            .ok_or_else(|| ReadError::form(&path, "a list of references belongs here"))?;
        let read = |item: &Json| {
            let text = item
                .as_str()
                .ok_or_else(|| ReadError::form(&path, "a reference belongs here"))?;
            legal(&path, Reference::parse(text))
        };
        items.iter().map(read).collect()
    }

    pub(crate) fn provider(&mut self, key: &str) -> Result<Option<ProviderReference>, ReadError> {
        let path = self.at(key);
        let text = self.text(key)?;
        text.map(|text| provider_reference(&path, &text))
            .transpose()
    }

    /// Takes one block or several.
    pub(crate) fn blocks(&mut self, key: &str) -> Vec<(String, Json)> {
        let path = self.at(key);
        match self.take(key) {
            None => Vec::new(),
            Some(Json::Array(items)) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| (format!("{path}[{index}]"), item))
                .collect(),
            Some(one) => vec![(path, one)],
        }
    }

    pub(crate) fn conditions(&mut self, key: &str) -> Result<Vec<Condition>, ReadError> {
        let read = |(path, json): (String, Json)| {
            let mut reader = Reader::of(path, &json)?;
            let condition = reader.expression("condition")?;
            let message = reader.value("error_message")?;
            let (Some(condition), Some(error_message)) = (condition, message) else {
                return Err(ReadError::form(
                    &reader.path,
                    "`condition` and `error_message` belong here",
                ));
            };
            reader.done()?;
            Ok(Condition {
                condition,
                error_message,
            })
        };
        self.blocks(key).into_iter().map(read).collect()
    }

    fn expression(&mut self, key: &str) -> Result<Option<Expression>, ReadError> {
        let path = self.at(key);
        match self.value(key)? {
            None => Ok(None),
            Some(Value::Template(template)) => match template.parts() {
                [crate::Part::Expression(expression)] => Ok(Some(expression.clone())),
                _ => Err(ReadError::form(&path, "one expression belongs here")),
            },
            Some(_) => Err(ReadError::form(&path, "an expression belongs here")),
        }
    }

    pub(crate) fn meta(&mut self) -> Result<Meta, ReadError> {
        Ok(Meta {
            count: self.value("count")?,
            for_each: self.value("for_each")?,
            depends_on: self.references("depends_on")?,
            provider: self.provider("provider")?,
            lifecycle: self.lifecycle()?,
        })
    }

    fn lifecycle(&mut self) -> Result<Lifecycle, ReadError> {
        let path = self.at("lifecycle");
        let Some(json) = self.take("lifecycle") else {
            return Ok(Lifecycle::default());
        };
        let mut reader = Reader::of(path, &json)?;
        let is_all = reader.left.get("ignore_changes") == Some(&Json::from("all"));
        let lifecycle = Lifecycle {
            create_before_destroy: reader.flag("create_before_destroy")?,
            prevent_destroy: reader.flag("prevent_destroy")?,
            ignore_changes: if is_all {
                reader.take("ignore_changes");
                IgnoreChanges::All
            } else {
                match reader.references("ignore_changes")? {
                    these if these.is_empty() => IgnoreChanges::Nothing,
                    these => IgnoreChanges::These(these),
                }
            },
            replace_triggered_by: reader.references("replace_triggered_by")?,
            preconditions: reader.conditions("precondition")?,
            postconditions: reader.conditions("postcondition")?,
        };
        reader.done()?;
        Ok(lifecycle)
    }
}

/// Reads arguments and nested blocks. Without a schema a list of objects may be either.
pub(crate) fn body(path: &str, members: Map<String, Json>) -> Result<Body, ReadError> {
    let mut body = Body::new();
    for (key, json) in members {
        let at = format!("{path}.{key}");
        let name = legal(&at, Identifier::new(key))?;
        body.insert(name, Entry::Attribute(value(&at, &json)?));
    }
    Ok(body)
}

pub(crate) fn value(path: &str, json: &Json) -> Result<Value, ReadError> {
    legal(path, Value::parse(json))
}

pub(crate) fn legal<T>(path: &str, result: Result<T, BuildError>) -> Result<T, ReadError> {
    result.map_err(|source| ReadError::Build {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn provider_reference(path: &str, text: &str) -> Result<ProviderReference, ReadError> {
    let (name, alias) = match text.split_once('.') {
        Some((name, alias)) => (name, Some(alias)),
        None => (text, None),
    };
    Ok(ProviderReference {
        name: legal(path, Identifier::new(name))?,
        alias: alias
            .map(|alias| legal(path, Identifier::new(alias)))
            .transpose()?,
    })
}

impl Template {
    /// Returns whether anything in it is evaluated.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.as_literal().is_some()
    }
}

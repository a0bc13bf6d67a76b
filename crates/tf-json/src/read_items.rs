//! Documents read back from JSON: each block at the top.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::read::{Reader, body, legal, provider_reference, value};
use crate::{
    Body, Check, Document, Encryption, EncryptionTarget, Expression, Identifier, Import, Module,
    Moved, Output, ReadError, Removed, RequiredProvider, Resource, Settings, Variable,
};

impl Document {
    /// Reads a document. What it says is written again in the same bytes, if they were written here.
    ///
    /// # Errors
    /// When it is no JSON, or not of the form that OpenTofu's JSON syntax has.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        let json: Json = serde_json::from_slice(bytes).map_err(ReadError::Json)?;
        Self::from_json(&json)
    }

    /// Reads a document that is JSON already.
    ///
    /// # Errors
    /// When it is not of the form that OpenTofu's JSON syntax has.
    pub fn from_json(json: &Json) -> Result<Self, ReadError> {
        let mut document = Self::new();
        let mut top = Reader::of("", json)?;
        if let Some(json) = top.take("terraform") {
            document.settings = settings(&json)?;
        }
        for (name, path, json) in named(&mut top, "provider")? {
            let items = match json {
                Json::Array(items) => items,
                one => vec![one],
            };
            for item in items {
                let mut reader = Reader::of(path.as_str(), &item)?;
                let alias = reader.text("alias")?;
                let alias = alias
                    .map(|alias| legal(&path, Identifier::new(alias)))
                    .transpose()?;
                let (at, members) = reader.members();
                let configuration = body(&at, members)?;
                legal(
                    &path,
                    document.add_provider(name.clone(), alias, configuration),
                )?;
            }
        }
        for (name, path, json) in named(&mut top, "variable")? {
            let added = document.add_variable(name, variable(&path, &json)?);
            legal(&path, added)?;
        }
        for (name, path, json) in named(&mut top, "locals")? {
            let added = document.add_local(name, value(&path, &json)?);
            legal(&path, added)?;
        }
        for (name, path, json) in named(&mut top, "output")? {
            let added = document.add_output(name, output(&path, &json)?);
            legal(&path, added)?;
        }
        for (name, path, json) in named(&mut top, "module")? {
            let added = document.add_module(name, module(&path, &json)?);
            legal(&path, added)?;
        }
        for (name, path, json) in named(&mut top, "check")? {
            let added = document.add_check(name, check(&path, &json)?);
            legal(&path, added)?;
        }
        for (kind, path, json) in named(&mut top, "resource")? {
            for (name, path, json) in named_in(&path, &json)? {
                let added = document.add_resource(kind.clone(), name, resource(&path, &json)?);
                legal(&path, added)?;
            }
        }
        for (kind, path, json) in named(&mut top, "data")? {
            for (name, path, json) in named_in(&path, &json)? {
                let added = document.add_data(kind.clone(), name, resource(&path, &json)?);
                legal(&path, added)?;
            }
        }
        for (path, json) in top.blocks("moved") {
            let mut reader = Reader::of(path, &json)?;
            let (Some(from), Some(to)) = (reader.reference("from")?, reader.reference("to")?)
            else {
                return Err(ReadError::form(&reader.path, "`from` and `to` belong here"));
            };
            reader.done()?;
            document.add_moved(Moved { from, to });
        }
        for (path, json) in top.blocks("import") {
            let mut reader = Reader::of(path, &json)?;
            let (Some(to), Some(id)) = (reader.reference("to")?, reader.value("id")?) else {
                return Err(ReadError::form(&reader.path, "`to` and `id` belong here"));
            };
            let import = Import {
                to,
                id,
                provider: reader.provider("provider")?,
                for_each: reader.value("for_each")?,
            };
            reader.done()?;
            document.add_import(import);
        }
        for (path, json) in top.blocks("removed") {
            let mut reader = Reader::of(path, &json)?;
            let Some(from) = reader.reference("from")? else {
                return Err(ReadError::form(&reader.path, "`from` belongs here"));
            };
            let mut destroy = None;
            if let Some(json) = reader.take("lifecycle") {
                let mut lifecycle = Reader::of(reader.at("lifecycle"), &json)?;
                destroy = lifecycle.flag("destroy")?;
                lifecycle.done()?;
            }
            reader.done()?;
            document.add_removed(Removed { from, destroy });
        }
        top.done()?;
        Ok(document)
    }
}

type Named = Vec<(Identifier, String, Json)>;

fn named(top: &mut Reader, key: &str) -> Result<Named, ReadError> {
    let path = top.at(key);
    match top.take(key) {
        None => Ok(Vec::new()),
        Some(json) => named_in(&path, &json),
    }
}

fn named_in(path: &str, json: &Json) -> Result<Named, ReadError> {
    let mut all = Vec::new();
    let (path, members) = Reader::of(path, json)?.members();
    for (key, json) in members {
        let at = format!("{path}.{key}");
        all.push((legal(&at, Identifier::new(key))?, at, json));
    }
    Ok(all)
}

fn variable(path: &str, json: &Json) -> Result<Variable, ReadError> {
    let mut reader = Reader::of(path, json)?;
    let kind = reader.text("type")?;
    let variable = Variable {
        kind: kind
            .map(|kind| legal(path, Expression::raw(kind)))
            .transpose()?,
        default: reader.take("default"),
        description: reader.text("description")?,
        sensitive: reader.flag("sensitive")?.unwrap_or(false),
        ephemeral: reader.flag("ephemeral")?.unwrap_or(false),
        nullable: reader.flag("nullable")?,
        validations: reader.conditions("validation")?,
    };
    reader.done()?;
    Ok(variable)
}

fn output(path: &str, json: &Json) -> Result<Output, ReadError> {
    let mut reader = Reader::of(path, json)?;
    let Some(value) = reader.value("value")? else {
        return Err(ReadError::form(path, "`value` belongs here"));
    };
    let output = Output {
        value,
        description: reader.text("description")?,
        sensitive: reader.flag("sensitive")?.unwrap_or(false),
        ephemeral: reader.flag("ephemeral")?.unwrap_or(false),
        depends_on: reader.references("depends_on")?,
        preconditions: reader.conditions("precondition")?,
    };
    reader.done()?;
    Ok(output)
}

fn resource(path: &str, json: &Json) -> Result<Resource, ReadError> {
    let mut reader = Reader::of(path, json)?;
    let meta = reader.meta()?;
    let (at, members) = reader.members();
    Ok(Resource {
        body: body(&at, members)?,
        meta,
    })
}

fn module(path: &str, json: &Json) -> Result<Module, ReadError> {
    let mut reader = Reader::of(path, json)?;
    let meta = reader.meta()?;
    let Some(source) = reader.value("source")? else {
        return Err(ReadError::form(path, "`source` belongs here"));
    };
    let version = reader.text("version")?;
    let mut providers = Vec::new();
    if let Some(json) = reader.take("providers") {
        let (at, members) = Reader::of(reader.at("providers"), &json)?.members();
        for (inside, outside) in members {
            let outside = outside
                .as_str()
                .ok_or_else(|| ReadError::form(&at, "a provider's name belongs here"))?;
            providers.push((
                provider_reference(&at, &inside)?,
                provider_reference(&at, outside)?,
            ));
        }
    }
    let (at, members) = reader.members();
    Ok(Module {
        source,
        version,
        arguments: body(&at, members)?,
        providers,
        meta,
    })
}

fn check(path: &str, json: &Json) -> Result<Check, ReadError> {
    let mut reader = Reader::of(path, json)?;
    let mut data = None;
    for (kind, path, json) in named(&mut reader, "data")? {
        for (name, path, json) in named_in(&path, &json)? {
            if data.is_some() {
                return Err(ReadError::form(&path, "a check has one data source"));
            }
            data = Some((kind.clone(), name, resource(&path, &json)?));
        }
    }
    let assertions = reader.conditions("assert")?;
    reader.done()?;
    Ok(Check { data, assertions })
}

fn settings(json: &Json) -> Result<Settings, ReadError> {
    let mut reader = Reader::of("terraform", json)?;
    let mut settings = Settings {
        required_version: reader.text("required_version")?,
        ..Settings::default()
    };
    for (name, path, json) in named(&mut reader, "required_providers")? {
        let mut provider = Reader::of(path, &json)?;
        let Some(source) = provider.text("source")? else {
            return Err(ReadError::form(&provider.path, "`source` belongs here"));
        };
        let version = provider.text("version")?;
        provider.done()?;
        let required = RequiredProvider { source, version };
        settings.required_providers.insert(name, required);
    }
    for (kind, path, json) in named(&mut reader, "backend")? {
        let (at, members) = Reader::of(path, &json)?.members();
        settings.backend = Some((kind, body(&at, members)?));
    }
    if let Some(json) = reader.take("encryption") {
        let mut inner = Reader::of(reader.at("encryption"), &json)?;
        settings.encryption = Some(Encryption {
            key_providers: pairs(&mut inner, "key_provider")?,
            methods: pairs(&mut inner, "method")?,
            state: encryption_target(&mut inner, "state")?,
            plan: encryption_target(&mut inner, "plan")?,
        });
        inner.done()?;
    }
    reader.done()?;
    Ok(settings)
}

fn pairs(
    reader: &mut Reader,
    key: &str,
) -> Result<BTreeMap<(Identifier, Identifier), Body>, ReadError> {
    let mut all = BTreeMap::new();
    for (kind, path, json) in named(reader, key)? {
        for (name, path, json) in named_in(&path, &json)? {
            let (at, members) = Reader::of(path, &json)?.members();
            all.insert((kind.clone(), name), body(&at, members)?);
        }
    }
    Ok(all)
}

fn encryption_target(
    reader: &mut Reader,
    key: &str,
) -> Result<Option<EncryptionTarget>, ReadError> {
    let Some(json) = reader.take(key) else {
        return Ok(None);
    };
    let mut target = Reader::of(reader.at(key), &json)?;
    let Some(method) = target.reference("method")? else {
        return Err(ReadError::form(&target.path, "`method` belongs here"));
    };
    let enforced = target.flag("enforced")?.unwrap_or(false);
    let mut fallback = None;
    if let Some(json) = target.take("fallback") {
        let mut inner = Reader::of(target.at("fallback"), &json)?;
        fallback = inner.reference("method")?;
        inner.done()?;
    }
    target.done()?;
    Ok(Some(EncryptionTarget {
        method,
        fallback,
        enforced,
    }))
}

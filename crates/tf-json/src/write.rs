//! Documents as JSON. Every map is written in the order of its keys, whatever order it was built in.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::{
    Body, Check, Condition, Document, Encryption, EncryptionTarget, Entry, Expression, Identifier,
    IgnoreChanges, Import, Lifecycle, Meta, Module, Output, ProviderReference, Reference, Resource,
    Settings, Value, Variable,
};

/// An object whose members are sorted when it is done.
#[derive(Default)]
struct Object(BTreeMap<String, Json>);

impl Object {
    fn put(&mut self, key: impl Into<String>, value: impl Into<Json>) {
        self.0.insert(key.into(), value.into());
    }

    fn put_some(&mut self, key: &str, value: Option<impl Into<Json>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    fn put_full(&mut self, key: &str, items: Vec<Json>) {
        if !items.is_empty() {
            self.put(key, items);
        }
    }

    fn put_nested(&mut self, outer: &str, inner: &str, value: Json) {
        let place = self
            .0
            .entry(outer.to_owned())
            .or_insert_with(|| Json::Object(Map::new()));
        if let Json::Object(members) = place {
            members.insert(inner.to_owned(), value);
        }
    }

    fn done(self) -> Json {
        Json::Object(self.0.into_iter().collect())
    }
}

impl Document {
    /// Returns the document as JSON.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let mut top = Object::default();
        let settings = settings(&self.settings);
        if settings
            .as_object()
            .is_some_and(|members| !members.is_empty())
        {
            top.put("terraform", settings);
        }
        let mut providers: BTreeMap<&Identifier, Vec<Json>> = BTreeMap::new();
        for ((name, alias), body) in &self.providers {
            let mut object = members(body);
            object.put_some("alias", alias.as_ref().map(Identifier::as_str));
            providers.entry(name).or_default().push(object.done());
        }
        put_map(&mut top, "provider", providers, Json::from);
        put_map(&mut top, "variable", &self.variables, variable);
        put_map(&mut top, "locals", &self.locals, Value::to_json);
        put_map(&mut top, "output", &self.outputs, output);
        put_map(&mut top, "module", &self.modules, module);
        put_map(&mut top, "check", &self.checks, check);
        put_pairs(&mut top, "resource", &self.resources, resource);
        put_pairs(&mut top, "data", &self.data, resource);
        let moved = self.moved.iter().map(|moved| {
            let mut object = Object::default();
            object.put("from", moved.from.to_string());
            object.put("to", moved.to.to_string());
            object.done()
        });
        top.put_full("moved", moved.collect());
        top.put_full("import", self.imports.iter().map(import).collect());
        let removed = self.removed.iter().map(|removed| {
            let mut object = Object::default();
            object.put("from", removed.from.to_string());
            if let Some(destroy) = removed.destroy {
                let mut lifecycle = Object::default();
                lifecycle.put("destroy", destroy);
                object.put("lifecycle", lifecycle.done());
            }
            object.done()
        });
        top.put_full("removed", removed.collect());
        top.done()
    }

    /// Returns the bytes of the file: the same document gives the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // `{:#}` of a JSON value can't fail and is what `to_string_pretty` writes.
        let mut text = format!("{:#}", self.to_json());
        text.push('\n');
        text.into_bytes()
    }
}

impl Value {
    /// Returns the value as JSON, with texts escaped as OpenTofu reads them.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Number(value) => Json::Number(value.clone()),
            Self::Template(template) => Json::String(template.source()),
            Self::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Object(members) => {
                let mut object = Object::default();
                for (key, value) in members {
                    object.put(key.source(), value.to_json());
                }
                object.done()
            }
        }
    }
}

fn put_map<'a, V: 'a, K: 'a + AsName>(
    top: &mut Object,
    key: &str,
    map: impl IntoIterator<Item = (K, V)>,
    write: impl Fn(V) -> Json,
) {
    for (name, value) in map {
        top.put_nested(key, name.as_name(), write(value));
    }
}

fn put_pairs<V>(
    top: &mut Object,
    key: &str,
    map: &BTreeMap<(Identifier, Identifier), V>,
    write: impl Fn(&V) -> Json,
) {
    let mut kinds: BTreeMap<&str, Map<String, Json>> = BTreeMap::new();
    for ((kind, name), value) in map {
        kinds
            .entry(kind.as_str())
            .or_default()
            .insert(name.as_str().to_owned(), write(value));
    }
    for (kind, names) in kinds {
        top.put_nested(key, kind, Json::Object(names));
    }
}

/// What a map of names is keyed by.
trait AsName {
    fn as_name(&self) -> &str;
}

impl AsName for &Identifier {
    fn as_name(&self) -> &str {
        self.as_str()
    }
}

fn members(body: &Body) -> Object {
    let mut object = Object::default();
    for (name, entry) in body.entries() {
        match entry {
            Entry::Attribute(value) => object.put(name.as_str(), value.to_json()),
            Entry::Blocks(blocks) => {
                object.put_full(name.as_str(), blocks.iter().map(body_json).collect());
            }
        }
    }
    object
}

fn body_json(body: &Body) -> Json {
    members(body).done()
}

fn bare(references: &[Reference]) -> Vec<Json> {
    references
        .iter()
        .map(|reference| Json::String(reference.to_string()))
        .collect()
}

fn evaluated(expression: &Expression) -> Json {
    Value::from(expression.clone()).to_json()
}

fn condition(condition: &Condition) -> Json {
    let mut object = Object::default();
    object.put("condition", evaluated(&condition.condition));
    object.put("error_message", condition.error_message.to_json());
    object.done()
}

fn conditions(all: &[Condition]) -> Vec<Json> {
    all.iter().map(condition).collect()
}

fn meta(meta: &Meta, object: &mut Object) {
    object.put_some("count", meta.count.as_ref().map(Value::to_json));
    object.put_some("for_each", meta.for_each.as_ref().map(Value::to_json));
    object.put_full("depends_on", bare(&meta.depends_on));
    object.put_some("provider", meta.provider.as_ref().map(ToString::to_string));
    if meta.lifecycle != Lifecycle::default() {
        object.put("lifecycle", lifecycle(&meta.lifecycle));
    }
}

fn lifecycle(lifecycle: &Lifecycle) -> Json {
    let mut object = Object::default();
    object.put_some("create_before_destroy", lifecycle.create_before_destroy);
    object.put_some("prevent_destroy", lifecycle.prevent_destroy);
    match &lifecycle.ignore_changes {
        IgnoreChanges::Nothing => {}
        // The word alone, not in a list.
        IgnoreChanges::All => object.put("ignore_changes", "all"),
        IgnoreChanges::These(these) => object.put_full("ignore_changes", bare(these)),
    }
    object.put_full(
        "replace_triggered_by",
        bare(&lifecycle.replace_triggered_by),
    );
    object.put_full("precondition", conditions(&lifecycle.preconditions));
    object.put_full("postcondition", conditions(&lifecycle.postconditions));
    object.done()
}

fn resource(resource: &Resource) -> Json {
    let mut object = members(&resource.body);
    meta(&resource.meta, &mut object);
    object.done()
}

fn module(module: &Module) -> Json {
    let mut object = members(&module.arguments);
    object.put("source", module.source.to_json());
    object.put_some("version", module.version.as_deref());
    let mut providers = Object::default();
    for (inside, outside) in &module.providers {
        providers.put(inside.to_string(), outside.to_string());
    }
    if !module.providers.is_empty() {
        object.put("providers", providers.done());
    }
    meta(&module.meta, &mut object);
    object.done()
}

fn variable(variable: &Variable) -> Json {
    let mut object = Object::default();
    object.put_some("type", variable.kind.as_ref().map(Expression::as_str));
    object.put_some("default", variable.default.as_ref().map(sorted));
    object.put_some("description", variable.description.as_deref());
    if variable.sensitive {
        object.put("sensitive", true);
    }
    if variable.ephemeral {
        object.put("ephemeral", true);
    }
    object.put_some("nullable", variable.nullable);
    object.put_full("validation", conditions(&variable.validations));
    object.done()
}

fn output(output: &Output) -> Json {
    let mut object = Object::default();
    object.put("value", output.value.to_json());
    object.put_some("description", output.description.as_deref());
    if output.sensitive {
        object.put("sensitive", true);
    }
    if output.ephemeral {
        object.put("ephemeral", true);
    }
    object.put_full("depends_on", bare(&output.depends_on));
    object.put_full("precondition", conditions(&output.preconditions));
    object.done()
}

fn check(check: &Check) -> Json {
    let mut object = Object::default();
    if let Some((kind, name, data)) = &check.data {
        let mut names = Object::default();
        names.put(name.as_str(), resource(data));
        let mut kinds = Object::default();
        kinds.put(kind.as_str(), names.done());
        object.put("data", kinds.done());
    }
    object.put_full("assert", conditions(&check.assertions));
    object.done()
}

fn import(import: &Import) -> Json {
    let mut object = Object::default();
    object.put("to", import.to.to_string());
    object.put("id", import.id.to_json());
    object.put_some(
        "provider",
        import.provider.as_ref().map(ToString::to_string),
    );
    object.put_some("for_each", import.for_each.as_ref().map(Value::to_json));
    object.done()
}

fn settings(settings: &Settings) -> Json {
    let mut object = Object::default();
    object.put_some("required_version", settings.required_version.as_deref());
    for (name, required) in &settings.required_providers {
        let mut provider = Object::default();
        provider.put("source", required.source.as_str());
        provider.put_some("version", required.version.as_deref());
        object.put_nested("required_providers", name.as_str(), provider.done());
    }
    if let Some((kind, body)) = &settings.backend {
        object.put_nested("backend", kind.as_str(), body_json(body));
    }
    object.put_some("encryption", settings.encryption.as_ref().map(encryption));
    object.done()
}

fn encryption(encryption: &Encryption) -> Json {
    let mut object = Object::default();
    put_pairs(
        &mut object,
        "key_provider",
        &encryption.key_providers,
        body_json,
    );
    put_pairs(&mut object, "method", &encryption.methods, body_json);
    object.put_some("state", encryption.state.as_ref().map(encryption_target));
    object.put_some("plan", encryption.plan.as_ref().map(encryption_target));
    object.done()
}

fn encryption_target(target: &EncryptionTarget) -> Json {
    let mut object = Object::default();
    object.put("method", target.method.to_string());
    if target.enforced {
        object.put("enforced", true);
    }
    if let Some(fallback) = &target.fallback {
        object.put_nested("fallback", "method", Json::String(fallback.to_string()));
    }
    object.done()
}

fn sorted(json: &Json) -> Json {
    match json {
        Json::Array(items) => items.iter().map(sorted).collect(),
        Json::Object(members) => {
            let mut object = Object::default();
            for (key, value) in members {
                object.put(key.as_str(), sorted(value));
            }
            object.done()
        }
        other => other.clone(),
    }
}

impl std::fmt::Display for ProviderReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.alias {
            Some(alias) => write!(f, "{}.{alias}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

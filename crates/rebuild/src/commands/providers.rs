//! `providers`: what specs are rendered for, and what the providers take.

use phase_engine::ExitCode;
use provider::ProviderName;
use provider::schema::{Attribute, Block, Kind, Mode, Schema, Schemas};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Context, Told, telling};
use crate::args::ProvidersCommand;
use crate::failure::Failure;
use crate::render;

/// The document of `providers`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProvidersDocument {
    /// The version of this format.
    pub(crate) schema: u32,
    /// The providers, in order of their names.
    pub(crate) providers: Vec<ProviderLine>,
}

/// One provider that specs are rendered for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProviderLine {
    /// Its local name.
    pub(crate) name: String,
    /// Its address.
    pub(crate) source: String,
    /// The range of versions that is rendered for.
    pub(crate) versions: String,
    /// The version whose schema everything rendered is checked against.
    pub(crate) checked_against: String,
    /// Kinds of specs.
    pub(crate) kinds: Vec<String>,
    /// What it must know, and from which variables: sets of them, each enough.
    pub(crate) credentials: Vec<CredentialLine>,
}

/// One thing that a provider must know.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CredentialLine {
    /// What.
    pub(crate) what: String,
    /// Sets of variables, each enough.
    pub(crate) any_of: Vec<Vec<String>>,
    /// Variables that the caller's environment lacks; empty where it has one of the sets.
    pub(crate) missing: Vec<String>,
}

/// The document of `providers schema`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SchemaDocument {
    /// The version of this format.
    pub(crate) schema: u32,
    /// The provider.
    pub(crate) provider: String,
    /// Its version.
    pub(crate) version: String,
    /// The resource or data source; none where all are listed.
    pub(crate) resource: Option<String>,
    /// The resources and data sources that are known, where all are listed.
    pub(crate) resources: Vec<String>,
    /// What it takes, in order of names; what stands in a block has the block's name before it.
    pub(crate) arguments: Vec<ArgumentLine>,
}

/// One argument or block.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ArgumentLine {
    /// Its name, such as `network.uuid`.
    pub(crate) name: String,
    /// Its type, or how many blocks there may be.
    pub(crate) kind: String,
    /// `required`, `optional` or `read-only`.
    pub(crate) need: String,
    /// Whether OpenTofu hides it.
    pub(crate) sensitive: bool,
    /// Whether it goes away.
    pub(crate) deprecated: bool,
}

/// `providers`, and what stands below it.
pub(super) fn run(context: &Context, command: Option<ProvidersCommand>) -> Told {
    match command {
        None => {
            let document = list(context);
            let text = render::providers(&document, context.out);
            Told::done(telling::document(&document), text)
        }
        Some(ProvidersCommand::Schema(asked)) => {
            match schema(&asked.provider, asked.resource.as_deref()) {
                Ok(document) => {
                    let text = if document.resource.is_some() {
                        render::schema(&document, context.out)
                    } else {
                        render::schemas(&document)
                    };
                    Told::done(telling::document(&document), text)
                }
                Err(failure) => Told::failed(*failure),
            }
        }
    }
}

fn list(context: &Context) -> ProvidersDocument {
    let is_set = |variable: &str| {
        let value = context.machine.env.get(std::ffi::OsStr::new(variable));
        value.is_some_and(|value| !value.is_empty())
    };
    let providers = ProviderName::ALL.into_iter().map(|name| {
        let missing = name.missing(is_set);
        let credentials = name.credentials().iter().map(|credential| {
            let lacks = missing
                .iter()
                .find(|missing| missing.credential == *credential);
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            CredentialLine {
                what: credential.what.to_owned(),
                any_of: credential.any_of.iter().map(|set| owned(set)).collect(),
                missing: lacks
                    .map(|lacks| owned(&lacks.variables))
                    .unwrap_or_default(),
            }
        });
        let pinned = Schemas::shipped().pinned(name.as_str());
        ProviderLine {
            name: name.to_string(),
            source: name.source().to_owned(),
            versions: name.range().to_owned(),
            checked_against: pinned
                .map(|schema| schema.version.clone())
                .unwrap_or_default(),
            kinds: name.kinds().iter().map(|kind| (*kind).to_owned()).collect(),
            credentials: credentials.collect(),
        }
    });
    ProvidersDocument {
        schema: 1,
        providers: providers.collect(),
    }
}

fn schema(provider: &str, resource: Option<&str>) -> Result<SchemaDocument, Box<Failure>> {
    let Some(pinned) = Schemas::shipped().pinned(provider) else {
        let names: Vec<&str> = Schemas::shipped().names().collect();
        let mut failure = Failure::new(
            ExitCode::Unusable,
            format!("there is no schema of a provider `{provider}`"),
        );
        failure.hint = Some(format!("there are `{}`", names.join("`, `")));
        return Err(Box::new(failure));
    };
    let mut document = SchemaDocument {
        schema: 1,
        provider: provider.to_owned(),
        version: pinned.version.clone(),
        resource: resource.map(str::to_owned),
        resources: Vec::new(),
        arguments: Vec::new(),
    };
    let Some(resource) = resource else {
        document.resources = names(pinned);
        return Ok(document);
    };
    let block = match resource.strip_prefix("data.") {
        Some(data) => pinned.data_sources.get(data),
        None => pinned.resources.get(resource),
    };
    let Some(block) = block else {
        let mut failure = Failure::new(
            ExitCode::Unusable,
            format!(
                "the schema of `{provider}` {} has no `{resource}`",
                pinned.version
            ),
        );
        failure.hint = Some(format!(
            "`rebuild providers schema {provider}` lists those that specs are rendered into"
        ));
        return Err(Box::new(failure));
    };
    add_block("", block, &mut document.arguments);
    Ok(document)
}

fn names(schema: &Schema) -> Vec<String> {
    let data = schema
        .data_sources
        .keys()
        .map(|name| format!("data.{name}"));
    schema.resources.keys().cloned().chain(data).collect()
}

fn add_block(prefix: &str, block: &Block, lines: &mut Vec<ArgumentLine>) {
    for (name, attribute) in &block.attributes {
        add_attribute(&format!("{prefix}{name}"), attribute, lines);
    }
    for (name, nested) in &block.blocks {
        let name = format!("{prefix}{name}");
        let most = nested
            .max_items
            .map_or_else(|| "any number".to_owned(), |n| n.to_string());
        lines.push(ArgumentLine {
            kind: format!("{} of blocks, {most}", word(nested.mode)),
            need: need(nested.min_items > 0, true),
            sensitive: false,
            deprecated: false,
            name: name.clone(),
        });
        add_block(&format!("{name}."), &nested.block, lines);
    }
}

fn add_attribute(name: &str, attribute: &Attribute, lines: &mut Vec<ArgumentLine>) {
    let kind = match &attribute.kind {
        Kind::Type(of) => of.to_string(),
        Kind::Nested(mode, _) => format!("{} of objects", word(*mode)),
    };
    lines.push(ArgumentLine {
        name: name.to_owned(),
        kind,
        need: need(attribute.required, attribute.optional),
        sensitive: attribute.sensitive,
        deprecated: attribute.deprecated,
    });
    if let Kind::Nested(_, members) = &attribute.kind {
        for (member, attribute) in members {
            add_attribute(&format!("{name}.{member}"), attribute, lines);
        }
    }
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Single => "one",
        Mode::List => "list",
        Mode::Set => "set",
        Mode::Map => "map",
    }
}

fn need(required: bool, optional: bool) -> String {
    match (required, optional) {
        (true, _) => "required",
        (false, true) => "optional",
        (false, false) => "read-only",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Look;

    #[test]
    fn every_resource_of_every_provider_can_be_shown() {
        for name in ProviderName::ALL {
            let all = schema(name.as_str(), None).unwrap();
            assert!(!all.resources.is_empty(), "{name}");
            for resource in &all.resources {
                let one = schema(name.as_str(), Some(resource)).unwrap();
                assert!(!one.arguments.is_empty(), "{resource}");
            }
        }
        assert!(schema("nobody", None).is_err());
        let unknown = schema("openstack", Some("openstack_none")).unwrap_err();
        assert!(
            unknown
                .hint
                .unwrap()
                .contains("rebuild providers schema openstack")
        );
    }

    #[test]
    fn a_resource_is_a_table() {
        let document = schema("openstack", Some("openstack_networking_subnet_v2")).unwrap();
        insta::assert_snapshot!(render::schema(&document, Look::PLAIN));
    }
}

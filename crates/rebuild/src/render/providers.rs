//! Providers and what they take, as tables.

use super::table::{Cell, table};
use crate::commands::providers::{ProvidersDocument, SchemaDocument};
use crate::stream::{Look, Tone};

/// A paragraph for each provider.
pub(crate) fn providers(document: &ProvidersDocument, look: Look) -> String {
    let mut text = String::new();
    for provider in &document.providers {
        text.push_str(&format!(
            "{} {} {}\n",
            look.paint(Tone::Strong, &provider.name),
            provider.source,
            provider.versions
        ));
        text.push_str(&format!("  checked against {}\n", provider.checked_against));
        text.push_str(&format!("  kinds: {}\n", provider.kinds.join(", ")));
        if provider.credentials.is_empty() {
            text.push_str("  credentials: none\n");
        }
        for credential in &provider.credentials {
            let sets: Vec<String> = credential
                .any_of
                .iter()
                .map(|set| set.join(" and "))
                .collect();
            let state = if credential.missing.is_empty() {
                look.paint(Tone::Good, "set")
            } else {
                look.paint(Tone::Warn, "not set")
            };
            text.push_str(&format!(
                "  {}, by {}: {state}\n",
                credential.what,
                sets.join(", or ")
            ));
        }
    }
    text
}

/// The resources and data sources of a provider, one a line.
pub(crate) fn schemas(document: &SchemaDocument) -> String {
    let mut text = format!("{} {}\n", document.provider, document.version);
    for resource in &document.resources {
        text.push_str(&format!("  {resource}\n"));
    }
    text
}

/// What one resource takes.
pub(crate) fn schema(document: &SchemaDocument, look: Look) -> String {
    let resource = document.resource.as_deref().unwrap_or_default();
    let mut text = format!("{resource} ({} {})\n", document.provider, document.version);
    let rows: Vec<Vec<Cell>> = document
        .arguments
        .iter()
        .map(|argument| {
            let tone = (argument.need == "required").then_some(Tone::Strong);
            let mut more = Vec::new();
            if argument.sensitive {
                more.push("sensitive");
            }
            if argument.deprecated {
                more.push("deprecated");
            }
            vec![
                Cell(argument.name.clone(), tone),
                argument.need.as_str().into(),
                argument.kind.as_str().into(),
                more.join(", ").into(),
            ]
        })
        .collect();
    text.push_str(&table(&rows, "  ", look));
    text
}

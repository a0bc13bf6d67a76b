//! Mocks of the providers of a rendered module, for `tofu test`: what OpenTofu makes up by itself, and in its place what
//! that would not do for.

use std::collections::{BTreeMap, BTreeSet};

use crate::ProviderName;
use crate::spec::{From, Specs, Wanted};

/// Returns a `mock_provider` block for each provider, as `tofu fmt` writes it.
pub(crate) fn mocks(
    specs: &Specs,
    providers: &BTreeSet<ProviderName>,
) -> BTreeMap<ProviderName, String> {
    let of = |provider: &ProviderName| {
        let blocks = match provider {
            ProviderName::Bitwarden => vault(specs),
            ProviderName::Gitlab => gitlab(),
            ProviderName::Oci => oracle(),
            ProviderName::Openstack | ProviderName::Talos => Vec::new(),
        };
        let text = if blocks.is_empty() {
            format!("mock_provider \"{provider}\" {{}}\n\n")
        } else {
            format!(
                "mock_provider \"{provider}\" {{\n{}}}\n\n",
                blocks.join("\n")
            )
        };
        (*provider, text)
    };
    providers.iter().map(of).collect()
}

/// A block of what a kind has by default in one argument.
fn block(what: &str, kind: &str, argument: &str, value: &str) -> String {
    format!("  {what} \"{kind}\" {{\n    defaults = {{\n      {argument} = {value}\n    }}\n  }}\n")
}

/// A list of objects, one in each line.
fn list(items: &[[(&str, &str); 5]]) -> String {
    let lines = items.iter().map(|members| {
        let members: Vec<String> = members
            .iter()
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        format!("        {{ {} }},\n", members.join(", "))
    });
    format!("[\n{}      ]", lines.collect::<String>())
}

/// A text as OpenTofu's own syntax has it.
fn quoted(text: &str) -> String {
    let text = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace("${", "$${")
        .replace("%{", "%%{");
    format!("\"{text}\"")
}

/// Machines are spread over domains, so there must be some.
fn oracle() -> Vec<String> {
    let names = [1, 2, 3].map(|n| quoted(&format!("domain-{n}")));
    let domains = names.each_ref().map(|name| {
        [
            ("compartment_id", name.as_str()),
            ("id", name),
            ("name", name),
            ("", ""),
            ("", ""),
        ]
    });
    let kind = "oci_identity_availability_domains";
    vec![block(
        "mock_data",
        kind,
        "availability_domains",
        &list(&domains),
    )]
}

/// The ids of groups are texts that stand for numbers.
fn gitlab() -> Vec<String> {
    ["mock_data", "mock_resource"]
        .map(|what| block(what, "gitlab_group", "id", "\"7\""))
        .to_vec()
}

/// Fields that people added to an item are looked up by their names.
fn vault(specs: &Specs) -> Vec<String> {
    let mut names: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for spec in specs.all() {
        let Wanted::Secret(secret) = &spec.wanted else {
            continue;
        };
        let kind = match secret.from {
            From::Login(_) => "bitwarden_item_login",
            From::Note(_) => "bitwarden_item_secure_note",
            From::SshKey(_) => "bitwarden_item_ssh_key",
            From::Secret(_) => continue,
        };
        let own = secret.from.own_fields();
        let added = secret.fields.iter();
        let added = added.filter(|field| !own.contains(&field.as_str()));
        names
            .entry(kind)
            .or_default()
            .extend(added.map(|name| quoted(name)));
    }
    names.retain(|_, names| !names.is_empty());
    let of_kind = |(kind, names): (&&str, &BTreeSet<String>)| {
        let fields: Vec<[(&str, &str); 5]> = names
            .iter()
            .map(|name| {
                let empty = "\"\"";
                [
                    ("boolean", "false"),
                    ("hidden", "\"hidden\""),
                    ("linked", empty),
                    ("name", name),
                    ("text", empty),
                ]
            })
            .collect();
        block("mock_data", kind, "field", &list(&fields))
    };
    names.iter().map(of_kind).collect()
}

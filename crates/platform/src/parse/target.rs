//! `targets/NAME.toml`: the values of one target.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use phase_engine::TargetName;
use serde_json::Value;

use super::{env, store};
use crate::expr::Expr;
use crate::fault::TextFile;
use crate::model::{
    DrillDef, EncryptionDef, EncryptionMode, EnvValue, EnvelopeDef, HostKeys, SshDef, Target,
};
use crate::reader::{Doc, Field, Section};
use crate::store_def::StoreDef;
use secrets::Source;

/// A target file as it stands, before references are looked at.
pub(crate) struct ParsedTarget {
    pub(crate) file: TextFile,
    pub(crate) target: Target,
    /// Where the name of each value stands.
    pub(crate) value_spans: BTreeMap<String, Range<usize>>,
    /// Whether there is an `[encryption]` that names a passphrase, with faults of its own or without.
    pub(crate) has_encryption: bool,
    /// Whether there is an `[ssh]`, with faults of its own or without.
    pub(crate) has_ssh: bool,
    /// Whether `[values]` could be read at all.
    pub(crate) has_values: bool,
    /// Whether `[secrets]` could be read at all.
    pub(crate) has_secrets: bool,
    /// Where the name of each secret stands.
    pub(crate) secret_spans: BTreeMap<String, Range<usize>>,
}

const SECTIONS: [&str; 9] = [
    "protected",
    "store",
    "encryption",
    "require",
    "archive",
    "ssh",
    "envelope",
    "secrets",
    "env",
];

/// Reads a target file; `None` when it is no TOML.
pub(crate) fn target(doc: &Doc<'_>, name: &TargetName) -> Option<ParsedTarget> {
    let document = doc.parse()?;
    let root = doc.root(&document);
    let protected_field = root.field("protected");
    let protected = protected_field
        .as_ref()
        .and_then(Field::boolean)
        .unwrap_or(false);
    let store = root
        .section("store", "[store]")
        .map(|section| store::store(&section))
        .unwrap_or(StoreDef::Local { dir: None });
    let encryption_field = root.field("encryption");
    let (encryption, former) = encryption_field
        .as_ref()
        .map(encryption)
        .unwrap_or_default();
    // A former passphrase alone is that of a target whose encryption is being dropped.
    let has_encryption = encryption_field.is_some() && (encryption.is_some() || former.is_none());
    if let (Some(field), true, false) = (&protected_field, protected, has_encryption) {
        field.fault(
            "needs [encryption]",
            format!("target `{name}` is protected and its states are not encrypted"),
            Some(
                "add `[encryption]` with `passphrase = { env = \"REBUILD_PASSPHRASE\" }`"
                    .to_owned(),
            ),
        );
    }
    let drill = root
        .section("require", "[require]")
        .and_then(|section| require(&section, name));
    let archive = root
        .section("archive", "[archive]")
        .map(|section| store::store(&section));
    let has_ssh = root.field("ssh").is_some() || root.has_slip_of(&["ssh"], &SECTIONS);
    let ssh = root
        .section("ssh", "[ssh]")
        .and_then(|section| ssh(&section));
    let envelope_field = root.field("envelope");
    let envelope = root
        .section("envelope", "[envelope]")
        .and_then(|section| envelope(&section));
    let (values, value_spans) = root
        .section("values", "[values]")
        .map(|section| values(&section))
        .unwrap_or_default();
    let (secrets, secret_spans) = root
        .section("secrets", "[secrets]")
        .map(|section| secrets(&section))
        .unwrap_or_default();
    let env = root
        .section("env", "[env]")
        .map(|section| env::variables(&section))
        .unwrap_or_default();
    let readable = |key: &'static str| match root.field(key) {
        Some(field) => field.is_table(),
        None => !root.has_slip_of(&[key], &SECTIONS),
    };
    let (has_values, has_secrets) = (readable("values"), readable("secrets"));
    // A section with faults of its own says enough.
    if envelope.is_some() || envelope_field.is_none() {
        let can_open = envelope.as_ref().is_some_and(|def| def.identity.is_some());
        for field in ["secrets", "ssh"]
            .iter()
            .filter_map(|name| root.field(name))
        {
            for field in inside(&field).iter().flat_map(Section::fields) {
                let is_sealed = inside(&field).is_some_and(|from| from.field("envelope").is_some());
                if is_sealed && !can_open {
                    cannot_open(&field, envelope.is_some());
                }
            }
        }
    }
    root.finish();
    Some(ParsedTarget {
        has_ssh,
        has_encryption,
        has_values,
        has_secrets,
        file: doc.file.clone(),
        target: Target {
            name: name.clone(),
            protected,
            store,
            encryption,
            former,
            values,
            secrets,
            env,
            drill,
            archive,
            ssh,
            envelope,
        },
        value_spans,
        secret_spans,
    })
}

/// How states are encrypted, and the former passphrase.
fn encryption(field: &Field<'_>) -> (Option<EncryptionDef>, Option<Source>) {
    let Some(section) = field.section("[encryption]") else {
        return (None, None);
    };
    let former = section.field("former");
    let passphrase = match (section.field("passphrase"), &former) {
        (None, Some(_)) if section.field("mode").is_none() => None,
        _ => section.required("passphrase"),
    };
    let passphrase = passphrase.and_then(|field| source(&field, false));
    let former = former.and_then(|field| source(&field, false));
    let mode = mode_of(&section);
    section.finish();
    let def = passphrase.map(|passphrase| EncryptionDef { passphrase, mode });
    (def, former)
}

fn mode_of(section: &Section<'_>) -> EncryptionMode {
    let Some(field) = section.field("mode") else {
        return EncryptionMode::default();
    };
    match field.string().as_deref() {
        None => EncryptionMode::default(),
        Some("external") => EncryptionMode::External,
        Some("pbkdf2") => EncryptionMode::Pbkdf2,
        Some(other) => {
            field.fault(
                "no such mode",
                format!("`{other}` is no mode"),
                Some("modes are `external` and `pbkdf2`".to_owned()),
            );
            EncryptionMode::default()
        }
    }
}

fn require(section: &Section<'_>, name: &TargetName) -> Option<DrillDef> {
    let drill = section
        .field("drill")
        .and_then(|field| field.section("`drill`"))
        .and_then(|drill| {
            let target = drill.required("target").and_then(|field| {
                let target = TargetName::new(field.string()?);
                match target {
                    Ok(target) if target == *name => {
                        field.fault(
                            "this very target",
                            format!("target `{name}` can't be its own drill"),
                            Some("name another target, on which a mistake may show".to_owned()),
                        );
                        None
                    }
                    Ok(target) => Some(target),
                    Err(error) => {
                        field.fault("no target", error.to_string(), None);
                        None
                    }
                }
            });
            let max_age = drill.required("max_age").and_then(|field| field.duration());
            drill.finish();
            Some(DrillDef {
                target: target?,
                max_age: max_age?,
            })
        });
    section.finish();
    drill
}

fn ssh(section: &Section<'_>) -> Option<SshDef> {
    let identity = section.field("identity").and_then(|field| {
        let inner = field.section("`identity`")?;
        match inner.field("agent") {
            Some(agent) => {
                if agent.boolean() == Some(false) {
                    agent.fault("no identity", "`agent` can only be `true`", None);
                }
                inner.finish();
                None
            }
            None => source(&field, true),
        }
    });
    let ca = section.field("host_ca").and_then(|field| {
        let text = field.string()?;
        if let Err(error) = text.parse::<known_hosts::PublicKey>() {
            let help = "write it as OpenSSH does: `ssh-ed25519 AAAA…`".to_owned();
            field.fault("no public key", format!("`host_ca`: {error}"), Some(help));
        }
        Some(text)
    });
    let host_keys = match section.field("host_keys") {
        None => HostKeys::Declared,
        Some(field) => match (field.string()?.as_str(), ca.clone()) {
            ("declared", _) => HostKeys::Declared,
            ("trust-first", _) => HostKeys::TrustFirst,
            ("ca", Some(ca)) => HostKeys::Ca(ca),
            ("ca", None) => {
                field.fault(
                    "needs `host_ca`",
                    "`host_keys = \"ca\"` names no authority",
                    Some("add `host_ca = \"ssh-ed25519 …\"`".to_owned()),
                );
                HostKeys::Declared
            }
            (other, _) => {
                field.fault(
                    "no such way",
                    format!("`{other}` is no way to know a host"),
                    Some("write `declared`, `ca` or `trust-first`".to_owned()),
                );
                HostKeys::Declared
            }
        },
    };
    section.finish();
    Some(SshDef {
        identity,
        host_keys,
    })
}

/// The keys of a table; none of what is no table.
fn inside<'d>(field: &Field<'d>) -> Option<Section<'d>> {
    field.is_table().then(|| field.section("")).flatten()
}

/// What comes from the envelope can't be had without the key that opens it.
fn cannot_open(field: &Field<'_>, has_envelope: bool) {
    let help = if has_envelope {
        "add `identity = { file = \"~/.config/rebuild/age.key\" }` to `[envelope]`"
    } else {
        "add `[envelope]` with `recipients = [\"age1…\"]` and `identity = { file = \"…\" }`"
    };
    field.fault(
        "can't be opened",
        format!(
            "`{}` comes from the envelope, and the target does not say what opens it",
            field.name
        ),
        Some(help.to_owned()),
    );
}

fn envelope(section: &Section<'_>) -> Option<EnvelopeDef> {
    let recipients = section.required("recipients").and_then(|field| {
        let recipients = field.strings()?;
        if recipients.is_empty() {
            field.fault("empty", "an envelope that nobody can open", Some("name public keys: `age1…`, or `ssh-ed25519 …` of an SSH key; `age-keygen` makes one".to_owned()));
        }
        for item in field.items().unwrap_or_default() {
            let Some(text) = item.string() else { continue };
            if envelope::Recipients::parse([text]).is_err() {
                item.fault(
                    "no recipient",
                    "a recipient is an `age1…` key, or the public half of an `ssh-ed25519` or `ssh-rsa` key",
                    Some("`age-keygen -y` prints the one of an `age` key; of an SSH key it is the `.pub` file".to_owned()),
                );
            }
        }
        Some(recipients)
    });
    let identity = section
        .field("identity")
        .and_then(|field| source(&field, false));
    section.finish();
    Some(EnvelopeDef {
        recipients: recipients?,
        identity,
    })
}

type Named<T> = (BTreeMap<String, T>, BTreeMap<String, Range<usize>>);

fn values(section: &Section<'_>) -> Named<Value> {
    let mut named = Named::default();
    for field in section.fields() {
        let legal = legal_key(&field, "value");
        named.1.insert(field.name.clone(), field.key_span.clone());
        let Some(expr) = field.expr() else { continue };
        for located in expr.references() {
            field.doc().fault(
                located.span.clone().unwrap_or_else(|| field.value_span()),
                "a reference",
                format!(
                    "value `{}` refers to something: values are what others refer to",
                    field.name
                ),
                Some("write `$${` for a literal `${`".to_owned()),
            );
        }
        if let (true, Ok(resolved)) = (legal, expr.resolve(&Nothing)) {
            named.0.insert(field.name, resolved.value);
        }
    }
    named
}

/// A scope with nothing in it.
struct Nothing;

impl crate::expr::Scope for Nothing {
    fn target(&self, _: &str) -> Option<Value> {
        None
    }
    fn secret(&self, _: &str) -> Option<String> {
        None
    }
    fn output(&self, _: &phase_engine::StepId, _: &str) -> Option<(Value, bool)> {
        None
    }
}

fn secrets(section: &Section<'_>) -> Named<Source> {
    let mut named = Named::default();
    for field in section.fields() {
        let legal = legal_key(&field, "secret");
        named.1.insert(field.name.clone(), field.key_span.clone());
        if let (true, Some(source)) = (legal, source(&field, true)) {
            named.0.insert(field.name, source);
        }
    }
    named
}

pub(crate) fn is_legal_key(name: &str) -> bool {
    name.chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        && !name.is_empty()
}

fn legal_key(field: &Field<'_>, what: &str) -> bool {
    let legal = is_legal_key(&field.name);
    if !legal {
        field.doc().fault(
            field.key_span.clone(),
            "no legal name",
            format!("a {what} named `{}` can't be referred to", field.name),
            Some("names hold letters, digits, `_` and `-`".to_owned()),
        );
    }
    legal
}

/// Reads where a secret comes from: exactly one of env, file, command and envelope.
fn source(field: &Field<'_>, envelope: bool) -> Option<Source> {
    let kinds: &[&'static str] = if envelope {
        &["env", "file", "command", "envelope"]
    } else {
        &["env", "file", "command"]
    };
    let listed = kinds
        .iter()
        .map(|kind| format!("`{kind}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if !field.is_table() {
        field.fault(
            "no source",
            format!("`{}` must say where it comes from", field.name),
            Some(format!(
                "write for example `{} = {{ env = \"NAME\" }}`; sources are {listed}",
                field.name
            )),
        );
        return None;
    }
    let section = field.section(&format!("`{}`", field.name))?;
    let given: Vec<Field<'_>> = kinds
        .iter()
        .filter_map(|kind| section.field(kind))
        .collect();
    section.finish();
    match given.as_slice() {
        [only] => one_source(only),
        [] => {
            field.fault(
                "no source",
                format!("`{}` has no source", field.name),
                Some(format!("sources are {listed}")),
            );
            None
        }
        [first, second, ..] => {
            field.doc().fault(
                second.key_span.clone(),
                "a second source",
                format!(
                    "`{}` has two sources: `{}` and `{}`",
                    field.name, first.name, second.name
                ),
                Some("keep one of them".to_owned()),
            );
            None
        }
    }
}

fn one_source(field: &Field<'_>) -> Option<Source> {
    match field.name.as_str() {
        "env" => {
            let name = field.string()?;
            if !env::is_variable(&name) {
                field.fault(
                    "no name of a variable",
                    format!("`{name}` can't be the name of a variable"),
                    None,
                );
                return None;
            }
            Some(Source::Env(name))
        }
        "file" => field.string().map(|path| Source::File(PathBuf::from(path))),
        "command" => {
            let argv = field.strings()?;
            if argv.is_empty() {
                field.fault("empty", "`command` names no program", None);
                return None;
            }
            Some(Source::Command(argv))
        }
        _ => {
            let name = field.string()?;
            if let Err(error) = name.parse::<envelope::KeyName>() {
                field.fault("no name of a secret", error.to_string(), None);
                return None;
            }
            Some(Source::Envelope(name))
        }
    }
}

/// Returns the values of the target's environment that hold references.
pub(crate) fn env_exprs(target: &Target) -> Vec<Expr> {
    target
        .env
        .values()
        .filter_map(EnvValue::expr)
        .cloned()
        .collect()
}

//! `[store]`: a directory, or a bucket or container with the way to it and who we are there.

use crate::expr::{Expr, Reference};
use crate::reader::{Field, Section};
use crate::store_def::{
    AzureCredentialsDef, CloudDef, CloudPlace, GcsCredentialsDef, S3KeysDef, StoreDef,
};

const KINDS: [&str; 4] = ["local", "s3", "gcs", "azure"];

/// Reads a table that names a store; without one that can be read, a directory of this machine.
pub(crate) fn store(section: &Section<'_>) -> StoreDef {
    let given: Vec<Field<'_>> = KINDS
        .iter()
        .filter_map(|kind| section.field(kind))
        .collect();
    section.finish();
    if let [first, second, ..] = given.as_slice() {
        second.doc().fault(
            second.key_span.clone(),
            "a second store",
            format!(
                "{} names two stores: `{}` and `{}`",
                section.what, first.name, second.name
            ),
            Some(
                "keep one of them; `rebuild store move` takes a target from one to the other"
                    .to_owned(),
            ),
        );
    }
    let read = given.first().and_then(|field| {
        let inner = field.section(&format!("`{}`", field.name))?;
        let def = match field.name.as_str() {
            "local" => Some(local(&inner)),
            "s3" => s3(&inner),
            "gcs" => gcs(&inner),
            _ => azure(&inner),
        };
        inner.finish();
        def
    });
    read.unwrap_or(StoreDef::Local { dir: None })
}

fn local(section: &Section<'_>) -> StoreDef {
    let dir = section.field("dir").and_then(|field| {
        let dir = field.string()?;
        let fixed = dir.starts_with('/') || dir.starts_with("~/");
        if !fixed {
            field.fault(
                "depends on where it is read",
                format!("`dir` must be an absolute path or begin with `~/`, not `{dir}`"),
                None,
            );
        }
        fixed.then_some(dir)
    });
    StoreDef::Local { dir }
}

/// The way to a store, which every cloud has.
struct Way {
    prefix: String,
    endpoint: Option<String>,
    ca_file: Option<String>,
    proxy: Option<String>,
    plain_http: bool,
    timeout: Option<std::time::Duration>,
}

impl Way {
    fn to(self, place: CloudPlace) -> StoreDef {
        let Self {
            prefix,
            endpoint,
            ca_file,
            proxy,
            plain_http,
            timeout,
        } = self;
        StoreDef::Cloud(Box::new(CloudDef {
            place,
            prefix,
            endpoint,
            ca_file,
            proxy,
            plain_http,
            timeout,
        }))
    }
}

fn way(section: &Section<'_>) -> Way {
    let plain_http = section.boolean("plain_http").unwrap_or(false);
    let endpoint = section
        .field("endpoint")
        .and_then(|field| endpoint(&field, plain_http));
    let proxy = section.field("proxy").and_then(|field| {
        let text = field.string()?;
        let legal = text.starts_with("http://") || text.starts_with("https://");
        if !legal {
            field.fault(
                "no address",
                format!("a proxy is `http://HOST:PORT`, not `{text}`"),
                None,
            );
        }
        legal.then_some(text)
    });
    Way {
        prefix: section
            .field("prefix")
            .and_then(|field| prefix(&field))
            .unwrap_or_default(),
        endpoint,
        ca_file: section.string("ca_file"),
        proxy,
        plain_http,
        timeout: section.duration("timeout"),
    }
}

/// Keys of a store are parts joined by slashes, and so is what stands in front of them.
fn prefix(field: &Field<'_>) -> Option<String> {
    let text = field.string()?;
    let whole = text.strip_suffix('/').unwrap_or(&text);
    let legal_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte))
    };
    if whole.split('/').all(legal_part) && whole.len() <= 200 {
        return Some(whole.to_owned());
    }
    field.fault(
        "no prefix",
        format!("`{text}` can't stand in front of keys"),
        Some(
            "parts of letters, digits, `.`, `_`, `@` and `-`, joined by `/`; none of them empty or begun with a dot"
                .to_owned(),
        ),
    );
    None
}

fn endpoint(field: &Field<'_>, plain_http: bool) -> Option<String> {
    let text = field.string()?;
    let rest = match text.split_once("://") {
        Some(("https", rest)) => rest,
        Some(("http", rest)) => {
            if !plain_http && !is_this_machine(rest) {
                field.fault(
                    "in the clear",
                    format!("`{text}` would send states over the network in the clear"),
                    Some("write `https://`; `plain_http = true` beside it allows it".to_owned()),
                );
                return None;
            }
            rest
        }
        _ => {
            field.fault(
                "no address",
                format!("an endpoint begins with `https://`, not `{text}`"),
                None,
            );
            return None;
        }
    };
    if rest.is_empty() || rest.contains(['?', '#', '@', ' ']) {
        field.fault(
            "no address",
            format!("an endpoint is `https://HOST:PORT`, not `{text}`"),
            rest.contains('@')
                .then(|| "credentials have keys of their own".to_owned()),
        );
        return None;
    }
    Some(text)
}

fn is_this_machine(rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// The name of a bucket, account or container; it becomes part of an address.
fn name(section: &Section<'_>, key: &'static str) -> Option<String> {
    let field = section.required(key)?;
    let text = field.string()?;
    let legal = text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if legal {
        return Some(text);
    }
    let help = text.contains("${").then(|| {
        "no reference may stand here: where the store is must be known before anything else"
            .to_owned()
    });
    field.fault(
        "no such name",
        format!("`{text}` can't be the name of a {key}"),
        help.or_else(|| {
            Some("only letters, digits, `.`, `_` and `-`, a letter or digit first".to_owned())
        }),
    );
    None
}

/// A value that must come from `[secrets]`.
fn from_secret(field: &Field<'_>) -> Option<Expr> {
    let expr = field.text_expr()?;
    let is_secret = expr
        .references()
        .iter()
        .any(|located| matches!(located.reference, Reference::Secret { .. }));
    if is_secret {
        return Some(expr);
    }
    field.fault(
        "in the open",
        format!("`{}` must come from `[secrets]`", field.name),
        Some(format!("write `{} = \"${{secret.NAME}}\"`", field.name)),
    );
    None
}

fn secret(section: &Section<'_>, key: &'static str) -> Option<Expr> {
    from_secret(&section.field(key)?)
}

fn s3(section: &Section<'_>) -> Option<StoreDef> {
    let way = way(section);
    let bucket = name(section, "bucket");
    // One with a fault of its own is there.
    let has_endpoint = section.field("endpoint").is_some();
    // Servers that only speak like S3 take this one unless they are told otherwise.
    let region = match section.field("region") {
        None if has_endpoint => Some("us-east-1".to_owned()),
        _ => name(section, "region"),
    };
    let path_style = section.boolean("path_style").unwrap_or(has_endpoint);
    let id = section.field("access_key_id");
    let key = section.field("secret_access_key");
    let token = section.field("session_token");
    let credentials = match (&id, &key) {
        (Some(id), Some(key)) => Some(S3KeysDef {
            access_key_id: id.text_expr()?,
            secret_access_key: from_secret(key)?,
            session_token: match &token {
                Some(token) => Some(from_secret(token)?),
                None => None,
            },
        }),
        (None, None) if token.is_none() => None,
        _ => {
            for (half, other) in [
                (&id, "secret_access_key"),
                (&key, "access_key_id"),
                (&token, "secret_access_key"),
            ] {
                if let Some(half) = half {
                    return half_of(half, other);
                }
            }
            None
        }
    };
    Some(way.to(CloudPlace::S3 {
        bucket: bucket?,
        region: region?,
        path_style,
        credentials,
    }))
}

/// Reports credentials of which a part is missing.
fn half_of(half: &Field<'_>, other: &str) -> Option<StoreDef> {
    half.doc().fault(
        half.key_span.clone(),
        "half of a pair",
        format!("`{}` stands without `{other}`", half.name),
        Some("give both, or none: then the cloud's own chain is asked".to_owned()),
    );
    None
}

/// Reports credentials of two kinds.
fn two_kinds(first: &Field<'_>, second: &Field<'_>) {
    second.doc().fault(
        second.key_span.clone(),
        "a second way",
        format!("`{}` and `{}` both say who we are", first.name, second.name),
        Some("keep one of them".to_owned()),
    );
}

fn gcs(section: &Section<'_>) -> Option<StoreDef> {
    let way = way(section);
    let bucket = name(section, "bucket");
    let ways = ["service_account_key", "access_token", "anonymous"];
    let given: Vec<Field<'_>> = ways.iter().filter_map(|key| section.field(key)).collect();
    if let [first, second, ..] = given.as_slice() {
        two_kinds(first, second);
    }
    let credentials = match given.first() {
        None => GcsCredentialsDef::Chain,
        Some(field) => match field.name.as_str() {
            "service_account_key" => GcsCredentialsDef::ServiceAccountKey(from_secret(field)?),
            "access_token" => GcsCredentialsDef::AccessToken(from_secret(field)?),
            _ if field.boolean()? => GcsCredentialsDef::Anonymous,
            _ => GcsCredentialsDef::Chain,
        },
    };
    Some(way.to(CloudPlace::Gcs {
        bucket: bucket?,
        credentials,
    }))
}

fn azure(section: &Section<'_>) -> Option<StoreDef> {
    let way = way(section);
    let account = name(section, "account");
    let container = name(section, "container");
    let ways = ["access_key", "sas_token", "client_secret"];
    let given: Vec<Field<'_>> = ways.iter().filter_map(|key| section.field(key)).collect();
    if let [first, second, ..] = given.as_slice() {
        two_kinds(first, second);
    }
    let principal = ["tenant_id", "client_id"].map(|key| section.field(key));
    let credentials = match given.first() {
        Some(field) if field.name == "client_secret" => {
            let [Some(tenant_id), Some(client_id)] = &principal else {
                return half_of(field, "tenant_id` and `client_id");
            };
            AzureCredentialsDef::ClientSecret {
                tenant_id: tenant_id.text_expr()?,
                client_id: client_id.text_expr()?,
                client_secret: from_secret(field)?,
            }
        }
        other => {
            if let Some(half) = principal.iter().flatten().next() {
                return half_of(half, "client_secret");
            }
            match other.map(|field| field.name.as_str()) {
                Some("access_key") => {
                    AzureCredentialsDef::AccessKey(secret(section, "access_key")?)
                }
                Some(_) => AzureCredentialsDef::SasToken(secret(section, "sas_token")?),
                None => AzureCredentialsDef::Chain,
            }
        }
    };
    Some(way.to(CloudPlace::Azure {
        account: account?,
        container: container?,
        credentials,
    }))
}

#[cfg(test)]
mod tests;

//! State and plan encryption: the `TF_ENCRYPTION` text, and the key provider's side of OpenTofu's
//! protocol for external key providers.
//!
//! The name `rebuild` of the key provider is part of every stored state: it never changes.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read, Write};

use std::collections::BTreeMap;

use secrets::Secret;
use serde::Deserialize;
use zeroize::Zeroizing;

/// The name of our key provider and method, in every stored state.
pub const NAME: &str = "rebuild";

/// The name that the former key provider has while a state is re-encrypted.
const FORMER: &str = "rebuild_former";

/// The name of the key provider that hands passphrases to OpenTofu's own stretching while a passphrase is changed.
const PASSPHRASE: &str = "rebuild_passphrase";

/// Where OpenTofu gets a key from.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// The `external` key provider: this program with these arguments answers by [`answer`].
    External {
        /// Program and arguments; absolute, since a step's working directory is not ours.
        program: Vec<String>,
    },
    /// OpenTofu's own stretching of the passphrase.
    Pbkdf2 {
        /// At least 16 characters.
        passphrase: Secret,
        /// `None`: OpenTofu's default (600,000). 200,000 is the least allowed.
        iterations: Option<u32>,
    },
    /// OpenTofu's own stretching of what this program answers by [`answer_of`] in [`Ask::Passphrase`]. What it writes
    /// opens by [`KeySource::Pbkdf2`] with the passphrase of today, and what it reads may be under the former one.
    Chained {
        /// As for [`KeySource::External`].
        program: Vec<String>,
        /// As for [`KeySource::Pbkdf2`].
        iterations: Option<u32>,
    },
}

/// What may be read besides what the key opens. Only for moving a state from one key to another.
#[derive(Debug, Clone, Default)]
pub enum Fallback {
    /// Nothing: a plain state is refused.
    #[default]
    None,
    /// A plain state: encryption is being added.
    Plain,
    /// A key of the other kind. OpenTofu takes no two of one kind ("Duplicate metadata key", 1.12.6), since both claim the
    /// same place in the stored state: there [`answer_of`] tells the former key from today's.
    Key(KeySource),
}

/// The value of `TF_ENCRYPTION` that encrypts state and plan, and refuses anything else.
///
/// It holds the passphrase in the `pbkdf2` case, hence a [`Secret`].
#[must_use]
pub fn environment(key: &KeySource, fallback: &Fallback) -> Secret {
    let mut text = Zeroizing::new(String::new());
    key_provider(&mut text, NAME, None, key);
    method(&mut text, NAME, kind(key));
    let mut fallback_method = None;
    match fallback {
        Fallback::None => {}
        Fallback::Plain => {
            text.push_str("method \"unencrypted\" \"former\" {}\n");
            fallback_method = Some("method.unencrypted.former".to_owned());
        }
        Fallback::Key(former) => {
            key_provider(
                &mut text,
                FORMER,
                Some(&format!("key_provider.{}.{NAME}", kind(former))),
                former,
            );
            method(&mut text, FORMER, kind(former));
            fallback_method = Some(format!("method.aes_gcm.{FORMER}"));
        }
    }
    // OpenTofu refuses `enforced` beside an unencrypted method.
    let enforced = !matches!(fallback, Fallback::Plain);
    for target in ["state", "plan"] {
        let _ = writeln!(*text, "{target} {{\n  method = method.aes_gcm.{NAME}");
        if enforced {
            text.push_str("  enforced = true\n");
        }
        if let Some(fallback) = &fallback_method {
            let _ = writeln!(*text, "  fallback {{\n    method = {fallback}\n  }}");
        }
        text.push_str("}\n");
    }
    Secret::new(text.as_str().to_owned())
}

/// The value of `TF_ENCRYPTION` that reads what `key` encrypted and writes plain states.
#[must_use]
pub fn dropping_environment(key: &KeySource) -> Secret {
    let mut text = Zeroizing::new(String::from("method \"unencrypted\" \"plain\" {}\n"));
    key_provider(&mut text, NAME, None, key);
    method(&mut text, NAME, kind(key));
    for target in ["state", "plan"] {
        let _ = writeln!(
            *text,
            "{target} {{\n  method = method.unencrypted.plain\n  fallback {{\n    method = method.aes_gcm.{NAME}\n  }}\n}}"
        );
    }
    Secret::new(text.as_str().to_owned())
}

fn kind(key: &KeySource) -> &'static str {
    match key {
        KeySource::External { .. } => "external",
        KeySource::Pbkdf2 { .. } | KeySource::Chained { .. } => "pbkdf2",
    }
}

fn key_provider(text: &mut String, name: &str, alias: Option<&str>, key: &KeySource) {
    if let KeySource::Chained { program, .. } = key {
        let _ = writeln!(text, "key_provider \"external\" \"{PASSPHRASE}\" {{");
        command(text, program);
        text.push_str("}\n");
    }
    let _ = writeln!(text, "key_provider \"{}\" \"{name}\" {{", kind(key));
    match key {
        KeySource::External { program } => command(text, program),
        KeySource::Chained { .. } => {
            let _ = writeln!(text, "  chain = key_provider.external.{PASSPHRASE}");
        }
        KeySource::Pbkdf2 { passphrase, .. } => {
            let _ = writeln!(text, "  passphrase = {}", quoted(passphrase.expose()));
        }
    }
    if let KeySource::Pbkdf2 { iterations, .. } | KeySource::Chained { iterations, .. } = key
        && let Some(iterations) = iterations
    {
        let _ = writeln!(text, "  iterations = {iterations}");
    }
    if let Some(alias) = alias {
        let _ = writeln!(text, "  encrypted_metadata_alias = {}", quoted(alias));
    }
    text.push_str("}\n");
}

fn command(text: &mut String, program: &[String]) {
    let words: Vec<String> = program.iter().map(|word| quoted(word)).collect();
    let _ = writeln!(text, "  command = [{}]", words.join(", "));
}

fn method(text: &mut String, name: &str, kind: &str) {
    let _ = writeln!(
        text,
        "method \"aes_gcm\" \"{name}\" {{\n  keys = key_provider.{kind}.{name}\n}}"
    );
}

/// A string literal of OpenTofu's language that stands for exactly `value`.
pub(crate) fn quoted(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    text.push('"');
    let mut rest = value.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '$' | '%' if rest.peek() == Some(&'{') => {
                text.push(c);
                text.push(c);
            }
            c if c.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// Why the key provider could not answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Standard input or output broke.
    #[error("cannot speak to OpenTofu")]
    Io(#[from] io::Error),
    /// OpenTofu sent something else than metadata.
    #[error("cannot read OpenTofu's request for a key")]
    Request(#[source] serde_json::Error),
    /// The key is not 32 bytes long.
    #[error("the key file holds {0} bytes, and a key has 32")]
    KeyLength(usize),
}

/// What our key provider leaves in a stored state, and is sent where that state is read.
#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    external_data: ExternalData,
}

#[derive(Default, Deserialize)]
struct ExternalData {
    /// The public name of the key; not in what was written before keys had one.
    #[serde(default)]
    key: Option<String>,
}

/// What OpenTofu is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// A key of 32 bytes.
    Key,
    /// A passphrase that it stretches itself. It then does not know what it stored before: it is sent for each reading what
    /// a former key left there, which is nothing where OpenTofu stretched that passphrase without us.
    Passphrase,
}

/// The keys of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    /// Closes what is written, and opens what it closed.
    pub today: &'a [u8],
    /// The public name of that key; it is left in what is written.
    pub name: Option<&'a str>,
    /// Opens whatever does not bear that name, while everything goes from one key to the other.
    pub former: Option<&'a [u8]>,
}

/// Answers one request of OpenTofu (protocol version 1): the key to encrypt, and the key to decrypt
/// where OpenTofu sends the metadata of something stored.
///
/// # Errors
/// When the key has another length, or the other side does not speak the protocol.
pub fn answer(from: impl Read, to: impl Write, key: &[u8]) -> Result<(), AnswerError> {
    let keys = Keys {
        today: key,
        name: None,
        former: None,
    };
    answer_of(from, to, Ask::Key, keys)
}

/// The same with a name that is left in what is written, so that the former key and today's can be told apart while
/// everything goes from the one to the other. OpenTofu writes only what differs: push a state with its next serial
/// ([`crate::with_next_serial`]).
///
/// # Errors
/// As [`answer`].
pub fn answer_of(
    mut from: impl Read,
    mut to: impl Write,
    ask: Ask,
    keys: Keys<'_>,
) -> Result<(), AnswerError> {
    let wrong = [Some(keys.today), keys.former]
        .into_iter()
        .flatten()
        .find(|key| key.len() != 32);
    if let (Ask::Key, Some(wrong)) = (ask, wrong) {
        return Err(AnswerError::KeyLength(wrong.len()));
    }
    to.write_all(b"{\"magic\":\"OpenTofu-External-Key-Provider\",\"version\":1}\n")?;
    to.flush()?;
    let mut request = Vec::new();
    io::BufReader::new(&mut from)
        .by_ref()
        .take(1 << 20)
        .read_until(0, &mut request)?;
    let request: Option<Request> =
        serde_json::from_slice(request.trim_ascii()).map_err(AnswerError::Request)?;
    let written_by = request
        .as_ref()
        .and_then(|request| request.external_data.key.as_deref());
    let opening = match keys.former {
        Some(former) if keys.name.is_none() || written_by != keys.name => former,
        _ => keys.today,
    };
    let encoded = Zeroizing::new(base64_standard(keys.today));
    let mut text = Zeroizing::new(format!(
        "{{\"keys\":{{\"encryption_key\":\"{}\"",
        encoded.as_str()
    ));
    if request.is_some() || ask == Ask::Passphrase {
        text.push_str(",\"decryption_key\":\"");
        text.push_str(&Zeroizing::new(base64_standard(opening)));
        text.push('"');
    }
    // Without `meta` a state could never be read again: OpenTofu stores null and then asks for no
    // decryption key.
    let named = keys
        .name
        .map(|name| format!(",\"key\":{}", serde_json::Value::from(name)))
        .unwrap_or_default();
    let _ = writeln!(
        *text,
        "}},\"meta\":{{\"external_data\":{{\"version\":1{named}}}}}}}"
    );
    to.write_all(text.as_bytes())?;
    to.flush()?;
    Ok(())
}

/// How a stored state was closed, as far as it can be told without a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// It lies open.
    Open,
    /// By a key from our program, with its name where it has one.
    External(Option<String>),
    /// By a passphrase that OpenTofu stretched; with the name of its key where our program handed it over.
    Pbkdf2(Option<String>),
    /// By something else.
    Otherwise,
}

/// Tells how a stored state was closed.
///
/// # Errors
/// It is no state.
pub fn closed_how(stored: &[u8]) -> Result<Closed, serde_json::Error> {
    #[derive(Deserialize)]
    struct Stored {
        encrypted_data: Option<serde::de::IgnoredAny>,
        #[serde(default)]
        meta: BTreeMap<String, String>,
    }
    let stored: Stored = serde_json::from_slice(stored)?;
    if stored.encrypted_data.is_none() {
        return Ok(Closed::Open);
    }
    let name = |provider: &str| {
        use base64::Engine as _;
        let meta = stored
            .meta
            .get(&format!("key_provider.external.{provider}"))?;
        let meta = base64::engine::general_purpose::STANDARD
            .decode(meta)
            .ok()?;
        let meta: Request = serde_json::from_slice(&meta).ok()?;
        meta.external_data.key
    };
    let has = |kind: &str| {
        stored
            .meta
            .contains_key(&format!("key_provider.{kind}.{NAME}"))
    };
    Ok(match (has("external"), has("pbkdf2")) {
        (true, _) => Closed::External(name(NAME)),
        (_, true) => Closed::Pbkdf2(name(PASSPHRASE)),
        _ => Closed::Otherwise,
    })
}

fn base64_standard(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn external() -> KeySource {
        KeySource::External {
            program: vec![
                "/opt/rebuild".into(),
                "__key".into(),
                "/dev/shm/k ${x} \"%{y}".into(),
            ],
        }
    }

    #[test]
    fn state_and_plan_are_enforced_and_the_name_never_changes() {
        let text = environment(&external(), &Fallback::None);
        assert_eq!(
            text.expose(),
            r#"key_provider "external" "rebuild" {
  command = ["/opt/rebuild", "__key", "/dev/shm/k $${x} \"%%{y}"]
}
method "aes_gcm" "rebuild" {
  keys = key_provider.external.rebuild
}
state {
  method = method.aes_gcm.rebuild
  enforced = true
}
plan {
  method = method.aes_gcm.rebuild
  enforced = true
}
"#
        );
    }

    #[test]
    fn a_key_is_given_to_encrypt_and_to_decrypt_where_metadata_was_sent() {
        let ask = |request: &str| {
            let mut answer_text = Vec::new();
            let keys = Keys {
                today: &[1; 32],
                name: Some("new"),
                former: Some(&[2; 32]),
            };
            answer_of(request.as_bytes(), &mut answer_text, Ask::Key, keys).unwrap();
            let text = String::from_utf8(answer_text).unwrap();
            let (header, body) = text.split_once('\n').unwrap();
            assert_eq!(
                header,
                r#"{"magic":"OpenTofu-External-Key-Provider","version":1}"#
            );
            serde_json::from_str::<serde_json::Value>(body).unwrap()
        };
        let (new, former) = (base64_standard(&[1; 32]), base64_standard(&[2; 32]));
        let first = ask("null");
        assert_eq!(first["keys"], serde_json::json!({"encryption_key": new}));
        assert!(
            first["meta"]["external_data"].is_object(),
            "without it the state could never be read again"
        );
        for unnamed in [
            r#"{"external_data":{"version":1}}"#,
            r#"{"external_data":{"version":1,"key":"old"}}"#,
        ] {
            assert_eq!(
                ask(unnamed)["keys"],
                serde_json::json!({"encryption_key": new, "decryption_key": former})
            );
        }
        let todays = ask(&first["meta"].to_string());
        assert_eq!(
            todays["keys"],
            serde_json::json!({"encryption_key": new, "decryption_key": new})
        );
    }

    #[test]
    fn a_passphrase_is_given_for_both_whatever_opentofu_sends() {
        let ask = |request: &str| {
            let mut text = Vec::new();
            let keys = Keys {
                today: b"the passphrase of today",
                name: Some("new"),
                former: Some(b"the former passphrase"),
            };
            answer_of(request.as_bytes(), &mut text, Ask::Passphrase, keys).unwrap();
            let text = String::from_utf8(text).unwrap();
            let body = text.lines().last().unwrap();
            serde_json::from_str::<serde_json::Value>(body).unwrap()["keys"]["decryption_key"]
                .clone()
        };
        assert_eq!(ask("null"), base64_standard(b"the former passphrase"));
        let todays = r#"{"external_data":{"version":1,"key":"new"}}"#;
        assert_eq!(ask(todays), base64_standard(b"the passphrase of today"));
    }

    #[test]
    fn how_a_state_was_closed_is_told_without_a_key() {
        let stored = |provider: &str, named: &str, meta: &str| {
            let of_stretching = match provider {
                "pbkdf2" => format!(
                    "\"key_provider.pbkdf2.rebuild\":\"{}\",",
                    base64_standard(b"{}")
                ),
                _ => String::new(),
            };
            let text = format!(
                "{{\"serial\":1,\"meta\":{{{of_stretching}\"key_provider.external.{named}\":\"{}\"}},\"encrypted_data\":\"x\"}}",
                base64_standard(meta.as_bytes())
            );
            closed_how(text.as_bytes()).unwrap()
        };
        let named = r#"{"external_data":{"version":1,"key":"n"}}"#;
        let nameless = r#"{"external_data":{"version":1}}"#;
        assert_eq!(
            stored("external", NAME, named),
            Closed::External(Some("n".into()))
        );
        assert_eq!(stored("external", NAME, nameless), Closed::External(None));
        assert_eq!(
            stored("pbkdf2", PASSPHRASE, named),
            Closed::Pbkdf2(Some("n".into()))
        );
        assert_eq!(stored("pbkdf2", "other", named), Closed::Pbkdf2(None));
        assert_eq!(stored("external", "other", named), Closed::Otherwise);
        assert_eq!(closed_how(b"{\"serial\":3}").unwrap(), Closed::Open);
        closed_how(b"none").unwrap_err();
    }

    #[test]
    fn a_short_key_and_another_protocol_are_refused() {
        let error = answer(b"null".as_slice(), Vec::new(), &[0; 31]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the key file holds 31 bytes, and a key has 32"
        );
        assert!(matches!(
            answer(b"hello".as_slice(), Vec::new(), &[0; 32]),
            Err(AnswerError::Request(_))
        ));
    }

    #[test]
    fn a_literal_stands_for_itself() {
        for (value, literal) in [
            ("a\"b\\c\n\t", r#""a\"b\\c\n\t""#),
            ("${x} $ %{y} % $${z}", r#""$${x} $ %%{y} % $$${z}""#),
            ("\u{1}", r#""\u0001""#),
        ] {
            assert_eq!(quoted(value), literal);
        }
    }
}

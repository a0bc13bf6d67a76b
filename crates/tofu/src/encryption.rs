//! State and plan encryption: the `TF_ENCRYPTION` text, and the key provider's side of OpenTofu's
//! protocol for external key providers.
//!
//! The name `rebuild` of the key provider is part of every stored state: it never changes.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read, Write};

use secrets::Secret;
use serde::Deserialize;
use zeroize::Zeroizing;

/// The name of our key provider and method, in every stored state.
pub const NAME: &str = "rebuild";

/// The name that the former key provider has while a state is re-encrypted.
const FORMER: &str = "rebuild_former";

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
}

/// What may be read besides what the key opens. Only for moving a state from one key to another.
#[derive(Debug, Clone, Default)]
pub enum Fallback {
    /// Nothing: a plain state is refused.
    #[default]
    None,
    /// A plain state: encryption is being added.
    Plain,
    /// A key of the other kind. OpenTofu can't hold two of one kind apart, since both claim the same
    /// place in the stored state: a key of the external kind is changed by [`answer_changing`].
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
        KeySource::Pbkdf2 { .. } => "pbkdf2",
    }
}

fn key_provider(text: &mut String, name: &str, alias: Option<&str>, key: &KeySource) {
    let _ = writeln!(text, "key_provider \"{}\" \"{name}\" {{", kind(key));
    match key {
        KeySource::External { program } => {
            let words: Vec<String> = program.iter().map(|word| quoted(word)).collect();
            let _ = writeln!(text, "  command = [{}]", words.join(", "));
        }
        KeySource::Pbkdf2 {
            passphrase,
            iterations,
        } => {
            let _ = writeln!(text, "  passphrase = {}", quoted(passphrase.expose()));
            if let Some(iterations) = iterations {
                let _ = writeln!(text, "  iterations = {iterations}");
            }
        }
    }
    if let Some(alias) = alias {
        let _ = writeln!(text, "  encrypted_metadata_alias = {}", quoted(alias));
    }
    text.push_str("}\n");
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

#[derive(Deserialize)]
struct Request {
    #[serde(default, rename = "external_data")]
    _external_data: serde_json::Value,
}

/// Answers one request of OpenTofu (protocol version 1): the key to encrypt, and the key to decrypt
/// where OpenTofu sends the metadata of something stored.
///
/// # Errors
/// When the key has another length, or the other side does not speak the protocol.
pub fn answer(from: impl Read, to: impl Write, key: &[u8]) -> Result<(), AnswerError> {
    answer_changing(from, to, key, key)
}

/// The same while a state goes from one key to another: what is stored is opened by `former`, what is
/// written is closed by `key`. OpenTofu writes only what differs: push the state with its next serial
/// ([`crate::with_next_serial`]).
///
/// # Errors
/// As [`answer`].
pub fn answer_changing(
    mut from: impl Read,
    mut to: impl Write,
    key: &[u8],
    former: &[u8],
) -> Result<(), AnswerError> {
    if let Some(wrong) = [key, former].iter().find(|key| key.len() != 32) {
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
    let encoded = Zeroizing::new(base64_standard(key));
    let mut text = Zeroizing::new(format!(
        "{{\"keys\":{{\"encryption_key\":\"{}\"",
        encoded.as_str()
    ));
    if request.is_some() {
        text.push_str(",\"decryption_key\":\"");
        text.push_str(&Zeroizing::new(base64_standard(former)));
        text.push('"');
    }
    // Without `meta` a state could never be read again: OpenTofu stores null and then asks for no
    // decryption key.
    text.push_str("},\"meta\":{\"external_data\":{\"version\":1}}}\n");
    to.write_all(text.as_bytes())?;
    to.flush()?;
    Ok(())
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
            answer_changing(request.as_bytes(), &mut answer_text, &[1; 32], &[2; 32]).unwrap();
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
        let later = ask(r#"{"external_data":{"version":1}}"#);
        assert_eq!(
            later["keys"],
            serde_json::json!({"encryption_key": new, "decryption_key": former})
        );
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

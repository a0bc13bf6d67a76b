//! Who may open what: recipients, identities, and the names of secrets.

use std::fmt;
use std::io::Cursor;
use std::str::FromStr;

use secrets::Secret;

/// The name of a sealed secret: letters, digits, `-`, `_` and `.`; it names a file too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyName(String);

/// A text is no name of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` can't name a secret of the envelope: letters, digits, `-`, `_` and `.`, 100 at most, a letter or digit first"
)]
pub struct KeyNameError(String);

impl KeyName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = KeyNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = text.len() <= 100
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char));
        if is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err(KeyNameError(text.escape_debug().to_string()))
        }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Those to whom secrets are sealed: each of them can open all.
pub struct Recipients {
    pub(crate) all: Vec<Box<dyn age::Recipient + Send + Sync>>,
    pub(crate) shown: Vec<String>,
}

impl fmt::Debug for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.shown).finish()
    }
}

/// Recipients that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecipientError {
    /// There is none: nobody could open what is sealed.
    #[error("an envelope needs a recipient")]
    None,
    /// One is neither kind.
    #[error(
        "`{0}` is no recipient: an `age1…` key, or the public half of an `ssh-ed25519` or `ssh-rsa` key"
    )]
    Unreadable(String),
}

impl Recipients {
    /// Reads recipients: `age1…`, `ssh-ed25519 …`, `ssh-rsa …`.
    ///
    /// # Errors
    /// When there is none, or one can't be read.
    pub fn parse<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, RecipientError> {
        let mut all: Vec<Box<dyn age::Recipient + Send + Sync>> = Vec::new();
        let mut shown = Vec::new();
        for text in texts {
            let text = text.as_ref().trim();
            if let Ok(recipient) = text.parse::<age::x25519::Recipient>() {
                all.push(Box::new(recipient));
            } else if let Ok(recipient) = text.parse::<age::ssh::Recipient>() {
                all.push(Box::new(recipient));
            } else {
                let beginning: String = text.chars().take(40).collect();
                return Err(RecipientError::Unreadable(
                    beginning.escape_debug().to_string(),
                ));
            }
            shown.push(without_comment(text));
        }
        if all.is_empty() {
            return Err(RecipientError::None);
        }
        Ok(Self { all, shown })
    }

    /// Each as it was given, but for the comment of an SSH key.
    #[must_use]
    pub fn shown(&self) -> &[String] {
        &self.shown
    }
}

/// The third word of an SSH key is its owner's remark.
fn without_comment(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}

/// The private keys that open envelopes.
pub struct Identities {
    pub(crate) all: Vec<Box<dyn age::Identity + Send + Sync>>,
}

/// Shows how many there are.
impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} identities", self.all.len())
    }
}

/// A text that holds no private key. It is never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Neither kind.
    #[error("it holds no private key: a line `AGE-SECRET-KEY-1…`, or an OpenSSH private key")]
    Unreadable,
    /// A key that a passphrase protects.
    #[error(
        "it is protected by a passphrase, which nobody is asked for; use a key without one, or an `age` key"
    )]
    Protected,
    /// An SSH key of another kind.
    #[error("it is an SSH key of a kind that opens no envelope; `ssh-ed25519` and `ssh-rsa` do")]
    Unsupported,
}

impl Identities {
    /// Reads the text of an identity file: `age` keys, one a line, or one OpenSSH private key.
    ///
    /// # Errors
    /// When it holds none that can be used.
    pub fn parse(text: &Secret) -> Result<Self, IdentityError> {
        let text = text.expose();
        if text.trim_start().starts_with("-----BEGIN") {
            let identity = age::ssh::Identity::from_buffer(Cursor::new(text.trim_start()), None)
                .map_err(|_| IdentityError::Unreadable)?;
            return match identity {
                age::ssh::Identity::Unencrypted(_) => Ok(Self {
                    all: vec![Box::new(identity)],
                }),
                age::ssh::Identity::Encrypted(_) => Err(IdentityError::Protected),
                age::ssh::Identity::Unsupported(_) => Err(IdentityError::Unsupported),
            };
        }
        let mut all: Vec<Box<dyn age::Identity + Send + Sync>> = Vec::new();
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let identity: age::x25519::Identity =
                line.parse().map_err(|_| IdentityError::Unreadable)?;
            all.push(Box::new(identity));
        }
        if all.is_empty() {
            return Err(IdentityError::Unreadable);
        }
        Ok(Self { all })
    }
}

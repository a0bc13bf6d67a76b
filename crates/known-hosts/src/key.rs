//! A public key: of a host, or of an authority that signs host keys.

use std::fmt;
use std::str::FromStr;

use ssh_key::HashAlg;

/// A public key in OpenSSH's form, without its comment. Two are equal when their key material is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey {
    /// `ssh-ed25519 AAAA…`.
    text: String,
    fingerprint: String,
}

/// Why a text is no public key.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{text}` is no public key like `ssh-ed25519 AAAA…`")]
pub struct KeyError {
    /// The text, its beginning only where it is long.
    text: String,
    #[source]
    source: ssh_key::Error,
}

impl PublicKey {
    /// The key's type, such as `ssh-ed25519`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    /// The digest that people compare: `SHA256:…`, as `ssh-keygen -l` prints it.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    /// Reads `TYPE BASE64`; a comment after it is dropped.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // One blank between the parts, whatever the text had; options before the type are no part of a key.
        let parts: Vec<&str> = text.split_ascii_whitespace().take(2).collect();
        let joined = parts.join(" ");
        let key = ssh_key::PublicKey::from_openssh(&joined).map_err(|source| KeyError {
            text: shortened(text.trim()),
            source,
        })?;
        Ok(Self {
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
            text: joined,
        })
    }
}

fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        return text.escape_debug().to_string();
    }
    let beginning: String = text.chars().take(MOST).collect();
    format!("{}…", beginning.escape_debug())
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    #[test]
    fn a_key_is_read_without_its_comment() {
        let key: PublicKey = format!("  {KEY}\tops@example.org two\n").parse().unwrap();
        assert_eq!(key.to_string(), KEY);
        assert_eq!(key.kind(), "ssh-ed25519");
        assert_eq!(key, KEY.parse().unwrap());
        assert!(
            key.fingerprint().starts_with("SHA256:") && key.fingerprint().len() == 50,
            "{key:?}"
        );
    }

    #[test]
    fn what_is_no_key_is_told_with_its_beginning() {
        let short = &KEY[..KEY.len() - 4];
        let other = KEY.replacen("ssh-ed25519", "ssh-rsa", 1);
        for wrong in ["", "ssh-ed25519", "hello world", short, &other] {
            let error = wrong.parse::<PublicKey>().unwrap_err();
            assert!(error.to_string().contains("is no public key"), "{error}");
        }
        let long = "x".repeat(1000);
        assert!(
            long.parse::<PublicKey>().unwrap_err().to_string().len() < 200,
            "a long text is cut"
        );
    }
}

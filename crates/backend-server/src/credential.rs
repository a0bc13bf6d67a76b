//! Credentials: who may read and write below which paths.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, header};
use secrets::Secret;
use std::collections::BTreeMap;
use store::sha256_hex;

/// A shorter secret is refused, in bytes: nothing slows down who guesses.
pub const MIN_SECRET: usize = 16;

/// The name with which a client that knows basic credentials alone sends a bearer's token.
pub const TOKEN_USER: &str = "token";

/// What a credential opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// Paths below which states may be read; `""` is everything.
    pub read: Vec<String>,
    /// Paths below which states may be read, written and locked.
    pub write: Vec<String>,
    /// Whether `/metrics` may be read.
    pub metrics: bool,
}

impl Rights {
    /// Everything.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            read: Vec::new(),
            write: vec![String::new()],
            metrics: true,
        }
    }

    /// Whether the state at `path` may be read.
    pub fn may_read(&self, path: &str) -> bool {
        self.may_write(path) || is_below_any(path, &self.read)
    }

    /// Whether the state at `path` may be written and locked.
    pub fn may_write(&self, path: &str) -> bool {
        is_below_any(path, &self.write)
    }
}

/// `a/b` is below `a/b`, `a` and `""`, and not below `a/bc` or `b`.
fn is_below_any(path: &str, prefixes: &[String]) -> bool {
    prefixes.iter().any(|prefix| {
        let prefix = prefix.trim_matches('/');
        prefix.is_empty()
            || path
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// One credential. Its secret is kept as a digest only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    name: String,
    digest: String,
    rights: Rights,
}

/// Why a credential can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// Its name can't be sent.
    #[error(
        "`{name}` can't be the name of a credential: it is empty, or has a `:` or a control character in it"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// Its secret is short.
    #[error("the secret of credential `{name}` is shorter than {MIN_SECRET} bytes")]
    Short {
        /// The name.
        name: String,
    },
    /// Its digest is none.
    #[error("`sha256` of credential `{name}` is not 64 hexadecimal digits")]
    Digest {
        /// The name.
        name: String,
    },
    /// Two have one name.
    #[error("there are two credentials named `{name}`")]
    Twice {
        /// The name.
        name: String,
    },
    /// Two have one secret, so that a bearer could be either.
    #[error("the credentials `{one}` and `{other}` have the same secret")]
    SameSecret {
        /// A name.
        one: String,
        /// Another.
        other: String,
    },
}

impl Credential {
    /// One with a secret: the password of basic credentials, the token of a bearer.
    ///
    /// # Errors
    /// Where the name can't be sent or the secret is short.
    pub fn of_secret(name: &str, secret: &Secret, rights: Rights) -> Result<Self, CredentialError> {
        if secret.expose().len() < MIN_SECRET {
            return Err(CredentialError::Short {
                name: name.to_owned(),
            });
        }
        Self::new(name, sha256_hex(secret.expose().as_bytes()), rights)
    }

    /// One of whose secret only the SHA-256 is known.
    ///
    /// # Errors
    /// Where the name can't be sent or the digest is none.
    pub fn of_digest(name: &str, digest: &str, rights: Rights) -> Result<Self, CredentialError> {
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_digest {
            return Err(CredentialError::Digest {
                name: name.to_owned(),
            });
        }
        Self::new(name, digest.to_ascii_lowercase(), rights)
    }

    fn new(name: &str, digest: String, rights: Rights) -> Result<Self, CredentialError> {
        let is_sendable = !name.is_empty() && !name.contains(|c: char| c == ':' || c.is_control());
        if !is_sendable {
            return Err(CredentialError::Name {
                name: name.to_owned(),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            digest,
            rights,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it opens.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }
}

/// The credentials of a server.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    by_name: BTreeMap<String, Credential>,
    name_by_digest: BTreeMap<String, String>,
}

impl Keyring {
    /// A keyring of these.
    ///
    /// # Errors
    /// Where two have the same name or the same secret.
    pub fn of(credentials: impl IntoIterator<Item = Credential>) -> Result<Self, CredentialError> {
        let mut keyring = Self::default();
        for credential in credentials {
            let name = credential.name.clone();
            let taken = keyring
                .name_by_digest
                .insert(credential.digest.clone(), name.clone());
            if keyring.by_name.insert(name.clone(), credential).is_some() {
                return Err(CredentialError::Twice { name });
            }
            if let Some(one) = taken {
                return Err(CredentialError::SameSecret { one, other: name });
            }
        }
        Ok(keyring)
    }

    /// The credential that a request shows: basic, with its name and secret, or a bearer's secret.
    pub fn shown(&self, headers: &HeaderMap) -> Option<&Credential> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let value = values.next()?.to_str().ok()?;
        // Two could be understood differently by whoever stands between.
        if values.next().is_some() {
            return None;
        }
        let (scheme, text) = value.split_once(' ')?;
        let text = text.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.borne(text);
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = Secret::new(String::from_utf8(STANDARD.decode(text).ok()?).ok()?);
        let (name, secret) = decoded.expose().split_once(':')?;
        if name == TOKEN_USER {
            return self.borne(secret);
        }
        let credential = self.by_name.get(name)?;
        let offered = Secret::new(sha256_hex(secret.as_bytes()));
        (offered == Secret::new(credential.digest.as_str())).then_some(credential)
    }

    /// Found by its digest: how long that takes tells nothing of the secret.
    fn borne(&self, secret: &str) -> Option<&Credential> {
        let name = self.name_by_digest.get(&sha256_hex(secret.as_bytes()))?;
        self.by_name.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: &str = "correct horse battery";

    fn rights(read: &[&str], write: &[&str]) -> Rights {
        let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        Rights {
            read: owned(read),
            write: owned(write),
            metrics: false,
        }
    }

    fn with(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        headers
    }

    fn keyring() -> Keyring {
        let ci = Credential::of_secret("ci", &Secret::new(SECRET), rights(&[], &["a"])).unwrap();
        let digest = sha256_hex(b"another long secret").to_uppercase();
        let look = Credential::of_digest("look", &digest, rights(&[""], &[])).unwrap();
        Keyring::of([ci, look]).unwrap()
    }

    #[test]
    fn a_credential_is_shown_as_basic_or_as_bearer() {
        let keyring = keyring();
        let name = |value: &str| {
            keyring
                .shown(&with(value))
                .map(|found| found.name().to_owned())
        };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(name(&basic(&format!("ci:{SECRET}"))).as_deref(), Some("ci"));
        assert_eq!(name(&format!("bearer {SECRET}")).as_deref(), Some("ci"));
        assert_eq!(
            name(&basic(&format!("token:{SECRET}"))).as_deref(),
            Some("ci")
        );
        assert_eq!(name("Bearer another long secret").as_deref(), Some("look"));
        for wrong in [
            basic(&format!("look:{SECRET}")),
            basic(&format!("ci:{SECRET}x")),
            basic("ci:"),
            basic(SECRET),
            "Basic ???".to_owned(),
            "Bearer ".to_owned(),
            SECRET.to_owned(),
            format!("Digest {SECRET}"),
            // The digest itself opens nothing.
            format!("Bearer {}", sha256_hex(SECRET.as_bytes())),
        ] {
            assert_eq!(name(&wrong), None, "{wrong}");
        }
        assert!(keyring.shown(&HeaderMap::new()).is_none());
        let mut two = with(&format!("Bearer {SECRET}"));
        two.append(header::AUTHORIZATION, "Bearer x".parse().unwrap());
        assert!(keyring.shown(&two).is_none());
    }

    #[test]
    fn rights_go_by_whole_parts_of_a_path() {
        let rights = rights(&["look/", "/"], &["teams/a"]);
        assert!(rights.may_write("teams/a") && rights.may_write("teams/a/b"));
        for path in ["teams", "teams/ab", "x/teams/a", ""] {
            assert!(!rights.may_write(path), "{path}");
            assert!(rights.may_read(path), "{path}");
        }
        let none = Rights::default();
        assert!(!none.may_read("a") && !none.may_write(""));
    }

    #[test]
    fn what_can_not_be_told_apart_or_guessed_is_refused() {
        let credential = |name: &str, secret: &str| {
            Credential::of_secret(name, &Secret::new(secret), Rights::default())
        };
        assert!(matches!(
            credential("a", "short"),
            Err(CredentialError::Short { .. })
        ));
        for name in ["", "a:b", "a\nb"] {
            assert!(
                matches!(credential(name, SECRET), Err(CredentialError::Name { .. })),
                "{name:?}"
            );
        }
        assert!(matches!(
            Credential::of_digest("a", "zz", Rights::default()),
            Err(CredentialError::Digest { .. })
        ));
        let other = credential("a", "correct horse staple").unwrap();
        let a = credential("a", SECRET).unwrap();
        let b = credential("b", SECRET).unwrap();
        assert!(matches!(
            Keyring::of([a.clone(), other]),
            Err(CredentialError::Twice { .. })
        ));
        assert!(matches!(
            Keyring::of([a, b]),
            Err(CredentialError::SameSecret { .. })
        ));
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic_or_opens_anything(value in "[ -~]{0,80}") {
            if let Ok(value) = http::HeaderValue::from_str(&value) {
                let mut headers = HeaderMap::new();
                headers.insert(header::AUTHORIZATION, value);
                prop_assert!(keyring().shown(&headers).is_none());
            }
        }
    }
}

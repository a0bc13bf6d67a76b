//! One sealed secret: a line that says whose it is, then the value, both encrypted.

use std::fmt;
use std::io::{Read as _, Write as _};

use secrets::Secret;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::keys::{Identities, KeyName, Recipients};
use crate::note::{Note, Noted};

/// The format of the line. A newer one is refused, not misread.
const SCHEMA: u32 = 1;

/// Whose a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The target.
    pub target: String,
    /// The run or job that captured it.
    pub run: String,
    /// Its name.
    pub key: KeyName,
}

/// Whose a secret must be to be opened.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The target.
    pub target: &'a str,
    /// The run, where only one will do.
    pub run: Option<&'a str>,
    /// Its name.
    pub key: &'a KeyName,
}

/// A secret that was opened. It shows itself to nobody by accident and is wiped when dropped.
pub struct Opened {
    /// The run or job that captured it.
    pub run: String,
    payload: Zeroizing<Vec<u8>>,
    value_at: usize,
}

impl Opened {
    /// Gives the value to whoever really needs it.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.payload[self.value_at..]
    }

    /// The value as a text; `None` for one that is no text.
    #[must_use]
    pub fn to_secret(&self) -> Option<Secret> {
        std::str::from_utf8(self.expose()).ok().map(Secret::new)
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("run", &self.run)
            .field("value", &secrets::MASK)
            .finish()
    }
}

/// A secret could not be sealed.
#[derive(Debug, thiserror::Error)]
#[error("`{key}` could not be sealed: {why}")]
pub struct SealError {
    /// The secret's name.
    key: KeyName,
    why: String,
}

/// A sealed secret was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It was sealed to others.
    #[error("`{key}` was sealed to other keys than the target's `[envelope] identity`")]
    NoMatchingKey {
        /// The secret's name.
        key: KeyName,
    },
    /// It is cut, or was changed.
    #[error("`{key}` is damaged: {why}")]
    Damaged {
        /// The secret's name.
        key: KeyName,
        /// What is wrong.
        why: String,
    },
    /// It was made by a newer version.
    #[error("`{key}` has the format {schema}, and this version reads {SCHEMA}")]
    Newer {
        /// The secret's name.
        key: KeyName,
        /// Its format.
        schema: u32,
    },
    /// It is another's: somebody put it there.
    #[error(
        "what lies in the place of `{key}` was sealed as the {what} `{is}`, and not `{expected}`"
    )]
    Another {
        /// The name that it was opened by.
        key: KeyName,
        /// `target`, `run` or `key`.
        what: &'static str,
        /// What is sealed in it.
        is: String,
        /// What was expected.
        expected: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: u32,
    target: String,
    run: String,
    key: String,
}

/// Seals a value to every recipient, at the time `now`.
///
/// # Errors
/// When a recipient's key can't be used.
pub fn seal(
    label: &Label,
    value: &[u8],
    recipients: &Recipients,
    now: &str,
) -> Result<Vec<u8>, SealError> {
    let failed = |why: String| SealError {
        key: label.key.clone(),
        why,
    };
    let head = Head {
        schema: SCHEMA,
        target: label.target.clone(),
        run: label.run.clone(),
        key: label.key.to_string(),
    };
    let mut head = serde_json::to_vec(&head).map_err(|error| failed(error.to_string()))?;
    head.push(b'\n');
    let noted = Noted::new(&Note {
        sealed_at: now.to_owned(),
        recipients: recipients.shown.clone(),
    })
    .map_err(|error| failed(error.to_string()))?;
    let all = recipients
        .all
        .iter()
        .map(|one| -> &dyn age::Recipient { one.as_ref() })
        .chain(std::iter::once::<&dyn age::Recipient>(&noted));
    let encryptor =
        age::Encryptor::with_recipients(all).map_err(|error| failed(error.to_string()))?;
    let mut sealed = Vec::new();
    let written = (|| {
        let mut writer = encryptor.wrap_output(&mut sealed)?;
        writer.write_all(&head)?;
        writer.write_all(value)?;
        writer.finish().map(drop)
    })();
    written.map_err(|error: std::io::Error| failed(error.to_string()))?;
    Ok(sealed)
}

/// Opens a sealed value and compares whose it is.
///
/// # Errors
/// When no key fits, when it is damaged, and when it is another's.
pub fn open(
    sealed: &[u8],
    expected: Expected<'_>,
    identities: &Identities,
) -> Result<Opened, OpenError> {
    let key = || expected.key.clone();
    let refused = |error: age::DecryptError| match error {
        age::DecryptError::NoMatchingKeys => OpenError::NoMatchingKey { key: key() },
        other => OpenError::Damaged {
            key: key(),
            why: other.to_string(),
        },
    };
    let damaged = |why: &str| OpenError::Damaged {
        key: key(),
        why: why.to_owned(),
    };
    let decryptor = age::Decryptor::new_buffered(sealed).map_err(refused)?;
    let all = identities
        .all
        .iter()
        .map(|one| -> &dyn age::Identity { one.as_ref() });
    let mut reader = decryptor.decrypt(all).map_err(refused)?;
    // What is sealed is longer than what is in it, so the buffer never moves and leaves no copy behind.
    let mut payload = Zeroizing::new(Vec::with_capacity(sealed.len()));
    reader
        .read_to_end(&mut payload)
        .map_err(|error| damaged(&error.to_string()))?;
    let end = payload
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or_else(|| damaged("it does not say whose it is"))?;
    let head: Head = serde_json::from_slice(&payload[..end])
        .map_err(|_| damaged("it does not say whose it is"))?;
    if head.schema != SCHEMA {
        return Err(OpenError::Newer {
            key: key(),
            schema: head.schema,
        });
    }
    let compared = [
        ("target", &head.target, Some(expected.target)),
        ("key", &head.key, Some(expected.key.as_str())),
        ("run", &head.run, expected.run),
    ];
    for (what, is, wanted) in compared {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != is.as_str()) {
            return Err(OpenError::Another {
                key: key(),
                what,
                is: is.clone(),
                expected: wanted.to_owned(),
            });
        }
    }
    Ok(Opened {
        run: head.run,
        payload,
        value_at: end + 1,
    })
}

#[cfg(test)]
#[path = "seal_tests.rs"]
mod tests;

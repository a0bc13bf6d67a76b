//! The key itself: sealing, keyed digests, and the key for OpenTofu's own encryption.

use std::fmt;
use std::fmt::Write;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use rand::TryRngCore;
use rand::rngs::OsRng;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::file::{Key, KeyError, Stretching, derive};
use crate::secret::equal_in_constant_time;

/// How sealed bytes begin: a name, the version, and a byte that no text has.
const MAGIC: &[u8; 8] = b"rbseal1\0";
const N_KEY_ID: usize = 8;
const N_NONCE: usize = 24;
const N_HEADER: usize = MAGIC.len() + N_KEY_ID + N_NONCE;

/// The key of a target.
///
/// A target without a passphrase has one too: it seals nothing, and its digests are stretched one
/// by one instead of keyed.
pub struct TargetKey(Keys);

enum Keys {
    Passphrase {
        id: [u8; N_KEY_ID],
        state: Key,
        bundle: Key,
        digest: Key,
    },
    None {
        salt: Vec<u8>,
        stretching: Stretching,
    },
}

/// Why bytes were not sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The system gave no random bytes.
    #[error("the system gives no random bytes: {what}")]
    Random {
        /// The system's words.
        what: String,
    },
    /// More than the cipher takes with one nonce.
    #[error("{n_bytes} bytes are more than can be sealed at once")]
    TooLong {
        /// How many.
        n_bytes: usize,
    },
}

/// Why sealed bytes were not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// They were sealed with another key.
    #[error("sealed with another key")]
    OtherKey,
    /// They are not what was sealed, or were sealed as something else.
    #[error("damaged, or not what it is taken for")]
    Damaged,
    /// They are not sealed, and a target with a passphrase takes no open ones.
    #[error("not sealed, though the target has a passphrase")]
    NotSealed,
    /// They are sealed, and the target has no passphrase.
    #[error("sealed, though the target has no passphrase")]
    Sealed,
}

impl TargetKey {
    pub(super) fn from_master(master: &Key) -> Self {
        let mut id = [0; N_KEY_ID];
        id.copy_from_slice(&derive(master, "id")[..N_KEY_ID]);
        Self(Keys::Passphrase {
            id,
            state: derive(master, "state"),
            bundle: derive(master, "bundle"),
            digest: derive(master, "digest"),
        })
    }

    pub(super) fn without_passphrase(salt: Vec<u8>, stretching: Stretching) -> Self {
        Self(Keys::None { salt, stretching })
    }

    /// Tells whether what the target stores is encrypted.
    #[must_use]
    pub fn is_encrypting(&self) -> bool {
        matches!(self.0, Keys::Passphrase { .. })
    }

    /// The key for OpenTofu's own encryption; none without a passphrase.
    #[must_use]
    pub fn state_key(&self) -> Option<Zeroizing<[u8; 32]>> {
        match &self.0 {
            Keys::Passphrase { state, .. } => Some(state.clone()),
            Keys::None { .. } => None,
        }
    }

    /// A public name of the key, in hex; none without a passphrase.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        match &self.0 {
            Keys::Passphrase { id, .. } => Some(hex(id)),
            Keys::None { .. } => None,
        }
    }

    /// Seals bytes as `context` (what they are: `bundle/…`), so that they open as nothing else.
    ///
    /// The result is a magic, the key's id, a random nonce and XChaCha20-Poly1305's bytes. Without a
    /// passphrase it is the bytes as they are.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn seal(&self, bytes: &[u8], context: &str) -> Result<Vec<u8>, SealError> {
        let Keys::Passphrase { id, bundle, .. } = &self.0 else {
            return Ok(bytes.to_vec());
        };
        let mut nonce = [0; N_NONCE];
        OsRng
            .try_fill_bytes(&mut nonce)
            .map_err(|error| SealError::Random {
                what: error.to_string(),
            })?;
        let mut sealed = Vec::with_capacity(N_HEADER + bytes.len() + 16);
        sealed.extend_from_slice(MAGIC);
        sealed.extend_from_slice(id);
        sealed.extend_from_slice(&nonce);
        let payload = Payload {
            msg: bytes,
            aad: context.as_bytes(),
        };
        let inner = cipher(bundle)
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| SealError::TooLong {
                n_bytes: bytes.len(),
            })?;
        sealed.extend_from_slice(&inner);
        Ok(sealed)
    }

    /// Opens what [`Self::seal`] gave for the same `context`.
    ///
    /// # Errors
    /// When they were sealed with another key, are damaged, or are not sealed as they should be.
    pub fn open(&self, sealed: &[u8], context: &str) -> Result<Vec<u8>, OpenError> {
        let is_sealed = sealed.starts_with(MAGIC);
        let (id, bundle) = match &self.0 {
            Keys::None { .. } if is_sealed => return Err(OpenError::Sealed),
            Keys::None { .. } => return Ok(sealed.to_vec()),
            Keys::Passphrase { .. } if !is_sealed => return Err(OpenError::NotSealed),
            Keys::Passphrase { id, bundle, .. } => (id, bundle),
        };
        let (header, inner) = sealed
            .split_at_checked(N_HEADER)
            .ok_or(OpenError::Damaged)?;
        let (sealed_by, nonce) = header[MAGIC.len()..].split_at(N_KEY_ID);
        if !equal_in_constant_time(sealed_by, id) {
            return Err(OpenError::OtherKey);
        }
        let nonce = <[u8; N_NONCE]>::try_from(nonce).map_err(|_| OpenError::Damaged)?;
        let payload = Payload {
            msg: inner,
            aad: context.as_bytes(),
        };
        cipher(bundle)
            .decrypt(&XNonce::from(nonce), payload)
            .map_err(|_| OpenError::Damaged)
    }

    /// A digest that tells whether a value is the same, and nothing else to those without the key.
    ///
    /// With a passphrase `hmac-sha256:…`, without one `argon2id:…` over the target's salt, since a
    /// plain digest of a short value can be guessed.
    ///
    /// # Errors
    /// When there is no memory to stretch in.
    pub fn digest(&self, value: &str) -> Result<String, KeyError> {
        match &self.0 {
            Keys::Passphrase { digest, .. } => {
                let mut mac = Hmac::<Sha256>::new_from_slice(digest.as_slice())
                    .expect("HMAC takes keys of any length");
                mac.update(value.as_bytes());
                Ok(format!("hmac-sha256:{}", hex(&mac.finalize().into_bytes())))
            }
            Keys::None { salt, stretching } => {
                let stretched = stretching.stretch(value.as_bytes(), salt)?;
                Ok(format!("argon2id:{}", hex(stretched.as_slice())))
            }
        }
    }
}

/// Shows whether it encrypts, and its public id.
impl fmt::Debug for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetKey")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

fn cipher(key: &Key) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new_from_slice(key.as_slice()).expect("the key has the cipher's length")
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a text cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

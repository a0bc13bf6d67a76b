//! `keys.json`: how the passphrase of a target becomes its key, and how a wrong one is told.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hkdf::Hkdf;
use rand::TryRngCore;
use rand::rngs::OsRng;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::seal::TargetKey;
use crate::secret::{Secret, equal_in_constant_time};

/// The version of the format that this program writes, and the newest that it reads.
const SCHEMA: u32 = 1;

/// The fewest characters of a passphrase.
const FEWEST: usize = 16;

/// A key of 256 bits, wiped when dropped.
pub(super) type Key = Zeroizing<[u8; 32]>;

/// The published file `keys.json` of a target. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFile {
    /// The version of this format.
    pub schema: u32,
    /// Whether the target has a passphrase.
    pub mode: KeyMode,
    /// Random bytes of this target, in base64.
    pub salt: String,
    /// How expensive a guess is made.
    pub stretching: Stretching,
    /// Proves a passphrase right: HKDF-SHA256 of the stretched one with the label `verifier`, in
    /// base64. Only with a passphrase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<String>,
    /// How OpenTofu gets the key of its states, in the target file's word. Only with a passphrase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_mode: Option<String>,
    /// The file before this one, while what is stored goes from its key to this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<Box<KeyFile>>,
}

/// Whether a target has a passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyMode {
    /// Its states, plans and bundles are encrypted.
    Passphrase,
    /// They lie open.
    None,
}

/// The cost of one guess at a passphrase: Argon2id, version 0x13 (RFC 9106).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretching {
    /// Always `argon2id`.
    pub algorithm: StretchingAlgorithm,
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over that memory.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

/// The ways of stretching that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StretchingAlgorithm {
    /// Argon2id, version 0x13 (RFC 9106).
    #[serde(rename = "argon2id")]
    Argon2id,
}

impl Stretching {
    /// 46 MiB and one pass: the first of the equal choices of the OWASP Password Storage Cheat Sheet
    /// for Argon2id, and the one of fewest passes, about a twentieth of a second a call.
    pub const DEFAULT: Self = Self::argon2id(46 * 1024, 1, 1);

    /// The least that Argon2 takes, for tests: it protects nothing.
    pub const FOR_TESTS: Self = Self::argon2id(8, 1, 1);

    const fn argon2id(memory_kib: u32, passes: u32, lanes: u32) -> Self {
        Self {
            algorithm: StretchingAlgorithm::Argon2id,
            memory_kib,
            passes,
            lanes,
        }
    }

    /// A file from elsewhere must not make us take all memory or all time.
    fn params(self) -> Result<Params, KeyError> {
        let absurd = |what| KeyError::Damaged { what };
        if self.memory_kib > 4 * 1024 * 1024 || self.passes > 64 || self.lanes > 64 {
            return Err(absurd("its stretching parameters are beyond all measure"));
        }
        Params::new(self.memory_kib, self.passes, self.lanes, Some(32))
            .map_err(|_| absurd("its stretching parameters are none"))
    }

    pub(super) fn stretch(self, text: &[u8], salt: &[u8]) -> Result<Key, KeyError> {
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params()?);
        let mut key = Zeroizing::new([0; 32]);
        argon2
            .hash_password_into(text, salt, key.as_mut_slice())
            .map_err(|error| KeyError::Stretch {
                what: error.to_string(),
            })?;
        Ok(key)
    }
}

/// Why a target's key is not to be had. Each stops before anything is touched.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Not the passphrase that the target was made with.
    #[error("the passphrase is not the one that this target was encrypted with")]
    Wrong,
    /// The target was made without a passphrase.
    #[error("the target names a passphrase, and what it has stored was written without one")]
    Added,
    /// The target was made with a passphrase.
    #[error("the target names no passphrase, and what it has stored is encrypted with one")]
    Dropped,
    /// The passphrase is too easy to guess.
    #[error("the passphrase has {n_chars} characters, and needs {FEWEST} at least")]
    TooShort {
        /// Its length in characters.
        n_chars: usize,
    },
    /// Written by a newer version of this program.
    #[error("`keys.json` has schema {schema}, and this version reads {SCHEMA} at most")]
    Newer {
        /// The schema that it has.
        schema: u32,
    },
    /// Not what this program writes.
    #[error("`keys.json` is damaged: {what}")]
    Damaged {
        /// What is wrong with it.
        what: &'static str,
    },
    /// No JSON, or not of this shape.
    #[error("`keys.json` is damaged")]
    Unreadable(#[source] serde_json::Error),
    /// The system gave no random bytes.
    #[error("the system gives no random bytes: {what}")]
    Random {
        /// The system's words.
        what: String,
    },
    /// The passphrase could not be stretched.
    #[error("cannot stretch the passphrase: {what}")]
    Stretch {
        /// Why.
        what: String,
    },
}

impl KeyFile {
    /// Begins a target with a passphrase.
    ///
    /// # Errors
    /// When the passphrase has fewer than 16 characters, or the system refuses.
    pub fn create(
        passphrase: &Secret,
        stretching: Stretching,
    ) -> Result<(Self, TargetKey), KeyError> {
        check_length(passphrase)?;
        let salt = random_salt()?;
        let master = stretching.stretch(passphrase.expose().as_bytes(), &salt)?;
        let file = Self {
            schema: SCHEMA,
            mode: KeyMode::Passphrase,
            salt: STANDARD.encode(salt),
            stretching,
            verifier: Some(STANDARD.encode(*derive(&master, "verifier"))),
            state_mode: None,
            former: None,
        };
        Ok((file, TargetKey::from_master(&master)))
    }

    /// Begins a target without a passphrase; `stretching` makes its digests expensive to guess.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn without_passphrase(stretching: Stretching) -> Result<Self, KeyError> {
        Ok(Self {
            schema: SCHEMA,
            mode: KeyMode::None,
            salt: STANDARD.encode(random_salt()?),
            stretching,
            verifier: None,
            state_mode: None,
            former: None,
        })
    }

    /// Gives the key of a target for the passphrase that it names today.
    ///
    /// # Errors
    /// When the passphrase is wrong, was added or dropped, or the file is newer or damaged.
    pub fn open(&self, passphrase: Option<&Secret>) -> Result<TargetKey, KeyError> {
        self.check_schema()?;
        let damaged = |what| KeyError::Damaged { what };
        let salt = STANDARD
            .decode(&self.salt)
            .ok()
            .filter(|salt| salt.len() >= 16)
            .ok_or_else(|| damaged("its salt is none"))?;
        match (self.mode, passphrase) {
            (KeyMode::None, Some(_)) => Err(KeyError::Added),
            (KeyMode::Passphrase, None) => Err(KeyError::Dropped),
            (KeyMode::None, None) => {
                self.stretching.params()?;
                Ok(TargetKey::without_passphrase(salt, self.stretching))
            }
            (KeyMode::Passphrase, Some(passphrase)) => {
                check_length(passphrase)?;
                let verifier = self
                    .verifier
                    .as_ref()
                    .and_then(|verifier| STANDARD.decode(verifier).ok())
                    .ok_or_else(|| damaged("its verifier is none"))?;
                let master = self
                    .stretching
                    .stretch(passphrase.expose().as_bytes(), &salt)?;
                if !equal_in_constant_time(&verifier, derive(&master, "verifier").as_slice()) {
                    return Err(KeyError::Wrong);
                }
                Ok(TargetKey::from_master(&master))
            }
        }
    }

    /// Writes the file's bytes.
    ///
    /// # Errors
    /// Never in practice; the shape has nothing that JSON lacks.
    pub fn to_json(&self) -> Result<Vec<u8>, KeyError> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(KeyError::Unreadable)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// When a newer version wrote it (whatever its shape), or it is damaged.
    pub fn from_json(bytes: &[u8]) -> Result<Self, KeyError> {
        #[derive(Deserialize)]
        struct Schema {
            schema: u32,
        }
        let Schema { schema } = serde_json::from_slice(bytes).map_err(KeyError::Unreadable)?;
        if schema > SCHEMA {
            return Err(KeyError::Newer { schema });
        }
        let file: Self = serde_json::from_slice(bytes).map_err(KeyError::Unreadable)?;
        file.check_schema()?;
        Ok(file)
    }

    fn check_schema(&self) -> Result<(), KeyError> {
        match self.schema {
            SCHEMA => Ok(()),
            0 => Err(KeyError::Damaged {
                what: "its schema is 0",
            }),
            schema => Err(KeyError::Newer { schema }),
        }
    }
}

fn check_length(passphrase: &Secret) -> Result<(), KeyError> {
    let n_chars = passphrase.expose().chars().count();
    if n_chars < FEWEST {
        return Err(KeyError::TooShort { n_chars });
    }
    Ok(())
}

fn random_salt() -> Result<[u8; 32], KeyError> {
    let mut salt = [0; 32];
    OsRng
        .try_fill_bytes(&mut salt)
        .map_err(|error| KeyError::Random {
            what: error.to_string(),
        })?;
    Ok(salt)
}

/// One key for each purpose: HKDF-SHA256 without salt, the purpose as its info.
pub(super) fn derive(master: &Key, purpose: &str) -> Key {
    let mut key = Zeroizing::new([0; 32]);
    Hkdf::<Sha256>::new(None, master.as_slice())
        .expand(purpose.as_bytes(), key.as_mut_slice())
        .expect("32 bytes are a valid length for HKDF-SHA256");
    key
}

//! `secrets`: values sealed into the target's envelope, opened, sealed to others, and listed.

use std::path::Path;

use envelope::{KeyName, Listed};
use phase_engine::{ExitCode, Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::api::{Machine, Site};
use crate::error::CallError;
use crate::open::definitions;
use crate::sealed::{Sealed, SealedError};

/// Who a value is said to be sealed by, when no run or job captured it.
const BY_HAND: &str = "hand";

/// The longest value that is sealed, in bytes: no secret is longer.
pub const LONGEST: usize = 1024 * 1024;

/// `secrets seal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretSealed {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The secret's name.
    pub name: String,
    /// The file that holds it, within the platform.
    pub file: String,
    /// Those who can open it.
    pub recipients: Vec<String>,
    /// Whether it took the place of another value.
    pub replaced: bool,
}

/// `secrets open`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretOpened {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The secret's name.
    pub name: String,
    /// The job that captured it; `hand` where a person sealed it.
    pub sealed_by: String,
    /// The value, where it is a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value in base64, where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// `secrets rekey`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretsRekeyed {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The secrets that were sealed anew.
    pub names: Vec<String>,
    /// Those who can open them from now on.
    pub recipients: Vec<String>,
}

/// `secrets list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretsList {
    /// The version of this format.
    pub schema: u32,
    /// The target.
    pub target: String,
    /// The directory that holds them, within the platform.
    pub directory: String,
    /// Those to whom the target file says that they are sealed.
    pub recipients: Vec<String>,
    /// The secrets, by name.
    pub secrets: Vec<SecretListed>,
}

/// One secret of a list. Its value is not looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretListed {
    /// Its name.
    pub name: String,
    /// Since when it is sealed, where that is known.
    pub sealed_at: Option<String>,
    /// Those who can open it, where that is known.
    pub recipients: Option<Vec<String>>,
    /// Whether they are those of the target file.
    pub current: bool,
    /// Why nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The envelope of one target, for the commands of a person. Nothing of the store is touched.
pub struct Desk {
    target: String,
    sealed: Sealed,
}

impl Desk {
    /// Reads the target file, and sweeps what dead calls left in memory. What is wrong with `rebuild.toml` is no matter here.
    ///
    /// # Errors
    /// Faults of the target file, or a target that has no envelope.
    pub fn open(machine: &Machine, site: &Site) -> Result<Self, CallError> {
        // A captured secret that a killed call left in memory waits for no other call.
        crate::leftovers::sweep();
        let (root, definitions) = definitions(machine, site, None)?;
        let target = definitions.target;
        let desk = Self {
            target: target.name.to_string(),
            sealed: Sealed::new(&target, machine, &root),
        };
        desk.told(desk.sealed.recipients())?;
        Ok(desk)
    }

    /// Reads the name of a secret.
    ///
    /// # Errors
    /// When it can't name one.
    pub fn name(&self, text: &str) -> Result<KeyName, CallError> {
        self.told(text.parse().map_err(SealedError::Name))
    }

    /// Seals a value, in the place of the one that was there.
    ///
    /// # Errors
    /// When it is empty or too long, or can't be written.
    pub fn seal(&self, key: &KeyName, value: &[u8]) -> Result<SecretSealed, CallError> {
        let refused = |what: String| {
            Failure::new(ExitCode::Unusable, what).hint("nothing was sealed; what was there stays")
        };
        if value.is_empty() {
            return Err(refused(format!("the value for `{key}` is empty")).into());
        }
        if value.len() > LONGEST {
            return Err(refused(format!(
                "the value for `{key}` is longer than {LONGEST} bytes"
            ))
            .into());
        }
        let envelope = self.sealed.envelope();
        let replaced = envelope.file(key).exists();
        self.told(self.sealed.seal(BY_HAND, key, value))?;
        Ok(SecretSealed {
            schema: 1,
            target: self.target.clone(),
            name: key.to_string(),
            file: within(&envelope.file(key)),
            recipients: self.recipients()?,
            replaced,
        })
    }

    /// Opens a secret; gives its bytes, and who sealed it.
    ///
    /// # Errors
    /// When it is not there, or can't be opened.
    pub fn open_one(&self, key: &KeyName) -> Result<(Zeroizing<Vec<u8>>, String), CallError> {
        let opened = self.told(self.sealed.open(key.as_str(), None))?;
        let value = Zeroizing::new(opened.expose().to_vec());
        Ok((value, opened.run))
    }

    /// Seals every secret anew, to the recipients of the target file and no others.
    ///
    /// # Errors
    /// When one can't be opened: all such are named, and nothing is changed.
    pub fn rekey(&self) -> Result<SecretsRekeyed, CallError> {
        let names = self.told(self.sealed.rekey())?;
        Ok(SecretsRekeyed {
            schema: 1,
            target: self.target.clone(),
            names: names.iter().map(KeyName::to_string).collect(),
            recipients: self.recipients()?,
        })
    }

    /// Lists the secrets. No key is needed, and no value is looked at.
    ///
    /// # Errors
    /// When the envelope can't be read.
    pub fn list(&self) -> Result<SecretsList, CallError> {
        let envelope = self.sealed.envelope();
        let listed = self.told(envelope.notes().map_err(SealedError::from))?;
        let recipients = self.recipients()?;
        Ok(SecretsList {
            schema: 1,
            target: self.target.clone(),
            directory: within(envelope.dir()),
            secrets: listed
                .into_iter()
                .map(|listed| shown(listed, &recipients))
                .collect(),
            recipients,
        })
    }

    /// The target's name.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    fn recipients(&self) -> Result<Vec<String>, CallError> {
        let recipients = self.told(self.sealed.recipients())?;
        Ok(recipients.shown().to_vec())
    }

    fn told<T>(&self, done: Result<T, SealedError>) -> Result<T, CallError> {
        done.map_err(|error| {
            let hint = error.hint(&self.target);
            Failure::of(ExitCode::Unusable, &error).hint(hint).into()
        })
    }
}

fn shown(listed: Listed, today: &[String]) -> SecretListed {
    let (note, why) = match listed.note {
        Ok(note) => (Some(note), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let current = note.as_ref().is_some_and(|note| {
        let is_same = |left: &[String], right: &[String]| {
            left.iter().all(|recipient| right.contains(recipient))
        };
        is_same(&note.recipients, today) && is_same(today, &note.recipients)
    });
    let (sealed_at, recipients) = note.map(|note| (note.sealed_at, note.recipients)).unzip();
    SecretListed {
        name: listed.key.to_string(),
        sealed_at,
        recipients,
        current,
        note: why,
    }
}

/// A path of the envelope as the platform's directory shows it: its last parts, `targets/T.envelope/NAME.age`.
fn within(path: &Path) -> String {
    let mut parts: Vec<_> = path
        .components()
        .rev()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .scan(false, |is_over, part| {
            let was_over = std::mem::replace(is_over, part == "targets");
            (!was_over).then_some(part)
        })
        .collect();
    parts.reverse();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use envelope::Note;

    use super::*;

    #[test]
    fn a_path_is_shown_within_the_platform() {
        let shown = |path| within(Path::new(path));
        assert_eq!(
            shown("/lab/targets/live.envelope/a.age"),
            "targets/live.envelope/a.age"
        );
        assert_eq!(
            shown("/targets/lab/targets/live.envelope"),
            "targets/live.envelope"
        );
    }

    #[test]
    fn a_secret_that_is_sealed_to_others_than_today_is_told() {
        let listed = |recipients: &[&str]| {
            let note = Note {
                sealed_at: "2026-03-02T10:00:00Z".to_owned(),
                recipients: recipients.iter().map(|&text| text.to_owned()).collect(),
            };
            let key = "a".parse().unwrap();
            let today = ["age1b".to_owned(), "age1c".to_owned()];
            shown(
                Listed {
                    key,
                    note: Ok(note),
                },
                &today,
            )
            .current
        };
        assert!(listed(&["age1c", "age1b"]));
        for other in [&["age1b"][..], &["age1b", "age1c", "age1d"], &[]] {
            assert!(!listed(other), "{other:?}");
        }
    }
}

//! The target's envelope: where it lies, to whom it is sealed, and the key that opens it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use envelope::{
    Envelope, EnvelopeError, Identities, IdentityError, KeyName, KeyNameError, OpenError, Opened,
    RecipientError, Recipients,
};
use platform::{EnvelopeDef, Target};
use secrets::{FetchError, Secret};

use crate::api::Machine;

/// Where the envelope of a target lies within its platform: beside the target file, outside every bundle.
fn dir(root: &Path, target: &str) -> PathBuf {
    root.join("targets").join(format!("{target}.envelope"))
}

/// Something with a target's envelope did not work.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SealedError {
    /// There is none.
    #[error("target `{0}` has no `[envelope]`")]
    NoEnvelope(String),
    /// Nothing opens it here.
    #[error("`[envelope]` of target `{0}` names no `identity`, so nothing can be opened here")]
    NoIdentity(String),
    /// The key that opens it can't be had.
    #[error("cannot fetch the key that opens the envelope")]
    Identity(#[source] Arc<FetchError>),
    /// What was fetched is no key.
    #[error("the key that opens the envelope can't be used")]
    Key(#[source] IdentityError),
    /// Those it is sealed to can't be used.
    #[error("the envelope can't be sealed to its recipients")]
    Recipients(#[source] RecipientError),
    /// No name of a secret.
    #[error(transparent)]
    Name(#[from] KeyNameError),
    /// It was not opened, sealed or read.
    #[error(transparent)]
    Envelope(#[from] Arc<EnvelopeError>),
    /// A text is wanted.
    #[error("`{0}` is not UTF-8 text")]
    NotText(KeyName),
}

impl From<EnvelopeError> for SealedError {
    fn from(error: EnvelopeError) -> Self {
        Self::Envelope(Arc::new(error))
    }
}

impl SealedError {
    /// What to do about it.
    pub(crate) fn hint(&self, target: &str) -> String {
        let file = format!("targets/{target}.toml");
        match self {
            Self::NoEnvelope(_) => format!(
                "add `[envelope]` with `recipients = [\"age1…\"]` to {file}; `age-keygen` makes a key"
            ),
            Self::NoIdentity(_) => {
                format!("add `identity = {{ file = \"…\" }}` to `[envelope]` of {file}")
            }
            Self::Identity(_) | Self::Key(_) => {
                format!("`identity` in `[envelope]` of {file} says where the key comes from")
            }
            Self::Recipients(_) => format!("mend `recipients` in `[envelope]` of {file}"),
            Self::Name(_) => "give it another name".to_owned(),
            Self::NotText(_) => "seal a text in its place".to_owned(),
            Self::Envelope(error) => match error.as_ref() {
                EnvelopeError::Missing { key, .. } => format!(
                    "`rebuild secrets seal {key} --target {target}` puts it there; `rebuild secrets list --target {target}` shows what is"
                ),
                EnvelopeError::Open(OpenError::NoMatchingKey { .. }) => format!(
                    "name the key of one of its recipients in `[envelope]` of {file}; whoever has one can type `rebuild secrets rekey --target {target}`"
                ),
                EnvelopeError::NotOpened { .. } => format!(
                    "let the identity file hold the keys of the old recipients and of the new ones, one a line, and type `rebuild secrets rekey --target {target}` again"
                ),
                EnvelopeError::Open(OpenError::Damaged { .. } | OpenError::Another { .. }) => {
                    format!(
                        "take the file back from git, or `rebuild secrets seal` the value anew in targets/{target}.envelope"
                    )
                }
                EnvelopeError::Open(OpenError::Newer { .. }) => {
                    "use the version of `rebuild` that sealed it, or a later one".to_owned()
                }
                EnvelopeError::Busy { .. } => "try again once it has ended".to_owned(),
                EnvelopeError::Io { .. } | EnvelopeError::Write(_) | EnvelopeError::Seal(_) => {
                    format!("it lies in targets/{target}.envelope")
                }
            },
        }
    }
}

/// The envelope of a target.
pub(crate) struct Sealed {
    target: String,
    def: Option<EnvelopeDef>,
    envelope: Envelope,
    machine: Machine,
    root: PathBuf,
    /// Fetched when first needed: somebody may have to touch a key for it.
    identities: OnceLock<Result<Identities, SealedError>>,
}

impl Sealed {
    /// The envelope of `target` of the platform in `root`. Nothing is read yet.
    pub(crate) fn new(target: &Target, machine: &Machine, root: &Path) -> Self {
        let name = target.name.to_string();
        Self {
            def: target.envelope.clone(),
            envelope: Envelope::at(dir(root, &name), &name),
            target: name,
            machine: machine.clone(),
            root: root.to_owned(),
            identities: OnceLock::new(),
        }
    }

    /// The envelope itself.
    pub(crate) fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Those to whom the target file says that it is sealed.
    pub(crate) fn recipients(&self) -> Result<Recipients, SealedError> {
        Recipients::parse(&self.def()?.recipients).map_err(SealedError::Recipients)
    }

    /// The keys that open it.
    pub(crate) fn identities(&self) -> Result<&Identities, SealedError> {
        let fetched = self.identities.get_or_init(|| {
            let source = self.def()?.identity.as_ref();
            let source = source.ok_or_else(|| SealedError::NoIdentity(self.target.clone()))?;
            let machine = &self.machine;
            let text = source
                .fetch(
                    &machine.env,
                    &machine.home,
                    &self.root,
                    machine.spawner.as_ref(),
                )
                .map_err(|error| SealedError::Identity(Arc::new(error)))?;
            Identities::parse(&text).map_err(SealedError::Key)
        });
        fetched.as_ref().map_err(Clone::clone)
    }

    /// Opens an entry. With `run` only what that run or job sealed will do.
    pub(crate) fn open(&self, entry: &str, run: Option<&str>) -> Result<Opened, SealedError> {
        let key: KeyName = entry.parse()?;
        let identities = self.identities()?;
        Ok(self.envelope.open(&key, run, identities)?)
    }

    /// Opens an entry that is a text.
    pub(crate) fn secret(&self, entry: &str) -> Result<Secret, SealedError> {
        let opened = self.open(entry, None)?;
        let key = entry.parse()?;
        opened.to_secret().ok_or(SealedError::NotText(key))
    }

    /// Seals a value under a name, by `run`, to the recipients of the target file.
    pub(crate) fn seal(&self, run: &str, key: &KeyName, value: &[u8]) -> Result<(), SealedError> {
        let now = crate::open::moment((self.machine.now)());
        let recipients = self.recipients()?;
        Ok(self.envelope.seal(run, key, value, &recipients, &now)?)
    }

    /// Seals every entry anew to the recipients of the target file.
    pub(crate) fn rekey(&self) -> Result<Vec<KeyName>, SealedError> {
        let now = crate::open::moment((self.machine.now)());
        let recipients = self.recipients()?;
        let identities = self.identities()?;
        Ok(self.envelope.rekey(identities, &recipients, &now)?)
    }

    fn def(&self) -> Result<&EnvelopeDef, SealedError> {
        let def = self.def.as_ref();
        def.ok_or_else(|| SealedError::NoEnvelope(self.target.clone()))
    }
}

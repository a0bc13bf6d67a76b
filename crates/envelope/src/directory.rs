//! The envelope of a target: a directory with a file for each secret.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use process::files::{FileError, create_private_dir, sync_dir, write_atomically};

use crate::keys::{Identities, KeyName, Recipients};
use crate::note::{Note, NoteError};
use crate::seal::{Expected, Label, OpenError, Opened, SealError, open, seal};

/// The longest that one writer waits for another.
const PATIENCE: Duration = Duration::from_secs(30);

/// What each file's name ends in.
const EXTENSION: &str = "age";

/// The sealed secrets of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    dir: PathBuf,
    target: String,
}

/// Something with an envelope did not work.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// There is no such secret.
    #[error("the envelope of `{target}` holds no `{key}`")]
    Missing {
        /// The target.
        target: String,
        /// The name that was asked for.
        key: KeyName,
    },
    /// A file could not be read or removed.
    #[error("cannot {doing} `{}`", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file could not be written.
    #[error("the envelope could not be written")]
    Write(#[source] FileError),
    /// A value could not be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// A value was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Values that were to be sealed anew were not opened.
    #[error("{} could not be opened, so none was sealed anew: {}", count(failed.len()), listed(failed))]
    NotOpened {
        /// Each with why.
        failed: Vec<(KeyName, EnvelopeError)>,
    },
    /// Another process is at it.
    #[error("another process writes to the envelope `{}`", path.display())]
    Busy {
        /// Its directory.
        path: PathBuf,
    },
}

fn count(n: usize) -> String {
    match n {
        1 => "one secret".to_owned(),
        n => format!("{n} secrets"),
    }
}

fn listed(failed: &[(KeyName, EnvelopeError)]) -> String {
    let told: Vec<String> = failed
        .iter()
        .map(|(key, error)| match error {
            EnvelopeError::Open(_) | EnvelopeError::Missing { .. } => error.to_string(),
            other => format!("`{key}`: {other}"),
        })
        .collect();
    told.join("; ")
}

/// A secret as it lies there, unopened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub key: KeyName,
    /// Since when it is sealed and to whom, where it says so.
    pub note: Result<Note, NoteError>,
}

impl Envelope {
    /// The envelope of `target` in the directory `dir`, which need not exist.
    pub fn at(dir: impl Into<PathBuf>, target: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            target: target.into(),
        }
    }

    /// The names of all secrets, sorted. Nothing is opened for it.
    ///
    /// # Errors
    /// When the directory can't be read; one that is not there is empty.
    pub fn list(&self) -> Result<Vec<KeyName>, EnvelopeError> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed("read", &self.dir, source)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| failed("read", &self.dir, source))?;
            let path = entry.path();
            // Whatever else lies there is not ours; a write that was cut left a name with a dot in front.
            if path
                .extension()
                .is_some_and(|extension| extension == EXTENSION)
                && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
                && let Ok(name) = name.parse()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where a secret lies, or would.
    #[must_use]
    pub fn file(&self, key: &KeyName) -> PathBuf {
        self.path(key)
    }

    /// All secrets with since when they are sealed and to whom. Nothing is opened for it.
    ///
    /// # Errors
    /// When the directory or a file can't be read.
    pub fn notes(&self) -> Result<Vec<Listed>, EnvelopeError> {
        let note = |key: KeyName| {
            let path = self.path(&key);
            let sealed = std::fs::read(&path).map_err(|source| failed("read", &path, source))?;
            let note = Note::of(&sealed);
            Ok(Listed { key, note })
        };
        self.list()?.into_iter().map(note).collect()
    }

    /// Seals a value under a name at the time `now`, in the place of the one that was there.
    ///
    /// # Errors
    /// When it can't be sealed or written; what was there stays then.
    pub fn seal(
        &self,
        run: &str,
        key: &KeyName,
        value: &[u8],
        recipients: &Recipients,
        now: &str,
    ) -> Result<(), EnvelopeError> {
        let _alone = self.alone()?;
        self.seal_one(run, key, value, recipients, now)
    }

    /// Keeps other writers out for as long as it lives: a rekey must not undo what another seals meanwhile.
    fn alone(&self) -> Result<File, EnvelopeError> {
        create_private_dir(&self.dir).map_err(EnvelopeError::Write)?;
        let dir = File::open(&self.dir).map_err(|source| failed("open", &self.dir, source))?;
        let deadline = Instant::now() + PATIENCE;
        let locked = process::wait::until(deadline, Duration::from_millis(20), || {
            let tried =
                rustix::fs::flock(&dir, rustix::fs::FlockOperation::NonBlockingLockExclusive);
            match tried {
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => None,
                other => Some(other),
            }
        });
        match locked {
            Some(Ok(())) => Ok(dir),
            Some(Err(error)) => Err(failed("lock", &self.dir, error.into())),
            None => Err(EnvelopeError::Busy {
                path: self.dir.clone(),
            }),
        }
    }

    fn seal_one(
        &self,
        run: &str,
        key: &KeyName,
        value: &[u8],
        recipients: &Recipients,
        now: &str,
    ) -> Result<(), EnvelopeError> {
        let label = Label {
            target: self.target.clone(),
            run: run.to_owned(),
            key: key.clone(),
        };
        let sealed = seal(&label, value, recipients, now)?;
        write_atomically(&self.path(key), &sealed, 0o600).map_err(EnvelopeError::Write)
    }

    /// Opens a secret. With `run` only that run's will do: what an earlier one left is refused.
    ///
    /// # Errors
    /// When it is not there, can't be opened, or is another's.
    pub fn open(
        &self,
        key: &KeyName,
        run: Option<&str>,
        identities: &Identities,
    ) -> Result<Opened, EnvelopeError> {
        let path = self.path(key);
        let sealed = std::fs::read(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => EnvelopeError::Missing {
                target: self.target.clone(),
                key: key.clone(),
            },
            _ => failed("read", &path, source),
        })?;
        let expected = Expected {
            target: &self.target,
            run,
            key,
        };
        Ok(open(&sealed, expected, identities)?)
    }

    /// Seals every secret anew, to these recipients and no others. Returns their names.
    ///
    /// All are opened before the first is written, so that those that can't be stop it with nothing changed.
    /// Cut in the middle each is sealed to the old recipients or to the new ones, and it is safe to run again
    /// with an identity of either.
    ///
    /// # Errors
    /// When some can't be opened, all of which are named, and when one can't be sealed or written.
    pub fn rekey(
        &self,
        identities: &Identities,
        recipients: &Recipients,
        now: &str,
    ) -> Result<Vec<KeyName>, EnvelopeError> {
        let _alone = self.alone()?;
        let names = self.list()?;
        let mut opened = Vec::with_capacity(names.len());
        let mut failed = Vec::new();
        for name in &names {
            match self.open(name, None, identities) {
                Ok(secret) => opened.push(secret),
                Err(error) => failed.push((name.clone(), error)),
            }
        }
        if !failed.is_empty() {
            return Err(EnvelopeError::NotOpened { failed });
        }
        for (name, secret) in names.iter().zip(&opened) {
            self.seal_one(&secret.run, name, secret.expose(), recipients, now)?;
        }
        Ok(names)
    }

    /// Removes a secret; one that is not there is removed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self, key: &KeyName) -> Result<(), EnvelopeError> {
        let path = self.path(key);
        match std::fs::remove_file(&path) {
            Ok(()) => sync_dir(&self.dir).map_err(EnvelopeError::Write),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(failed("remove", &path, source)),
        }
    }

    fn path(&self, key: &KeyName) -> PathBuf {
        self.dir.join(format!("{key}.{EXTENSION}"))
    }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> EnvelopeError {
    EnvelopeError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use age::secrecy::ExposeSecret as _;
    use secrets::Secret;

    use super::*;

    const NOW: &str = "2026-03-02T10:00:00Z";
    const LATER: &str = "2026-03-03T10:00:00Z";

    fn a_key() -> (Recipients, Identities) {
        let identity = age::x25519::Identity::generate();
        let recipients = Recipients::parse([identity.to_public().to_string()]).unwrap();
        let text = Secret::new(identity.to_string().expose_secret());
        (recipients, Identities::parse(&text).unwrap())
    }

    fn name(text: &str) -> KeyName {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_sealed_is_listed_opened_and_never_plain_on_disk() {
        let world = test_support::World::new();
        let (recipients, identities) = a_key();
        let envelope = Envelope::at(world.work().join("envelope"), "live");
        assert!(envelope.list().unwrap().is_empty());
        envelope
            .seal(
                "job-1",
                &name("fleet-key"),
                b"hunter2-hunter2",
                &recipients,
                NOW,
            )
            .unwrap();
        envelope
            .seal("job-1", &name("a.token"), b"\xff\0\n", &recipients, NOW)
            .unwrap();
        assert_eq!(
            envelope.list().unwrap(),
            [name("a.token"), name("fleet-key")]
        );
        let opened = envelope
            .open(&name("fleet-key"), Some("job-1"), &identities)
            .unwrap();
        assert_eq!(opened.to_secret(), Some(Secret::new("hunter2-hunter2")));
        assert!(!format!("{opened:?}").contains("hunter2"));
        let binary = envelope.open(&name("a.token"), None, &identities).unwrap();
        assert_eq!(
            (binary.expose(), binary.to_secret()),
            (b"\xff\0\n".as_slice(), None)
        );
        assert!(world.files_with(world.root(), b"hunter2").is_empty());
        envelope.remove(&name("a.token")).unwrap();
        envelope.remove(&name("a.token")).unwrap();
        assert!(matches!(
            envelope.open(&name("a.token"), None, &identities),
            Err(EnvelopeError::Missing { .. })
        ));
    }

    /// Case K11: files of two targets, two runs and two names swapped are refused, though the key opens them.
    #[test]
    fn what_was_put_in_anothers_place_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (recipients, identities) = a_key();
        let live = Envelope::at(dir.path().join("live"), "live");
        let drill = Envelope::at(dir.path().join("drill"), "drill");
        live.seal("job-1", &name("a"), b"live's", &recipients, NOW)
            .unwrap();
        drill
            .seal("job-2", &name("a"), b"drill's", &recipients, NOW)
            .unwrap();
        std::fs::copy(drill.path(&name("a")), live.path(&name("a"))).unwrap();
        std::fs::copy(drill.path(&name("a")), drill.path(&name("b"))).unwrap();
        let what = |answer: Result<Opened, EnvelopeError>| match answer {
            Err(EnvelopeError::Open(OpenError::Another { what, .. })) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(what(live.open(&name("a"), None, &identities)), "target");
        assert_eq!(what(drill.open(&name("b"), None, &identities)), "key");
        assert_eq!(
            what(drill.open(&name("a"), Some("job-1"), &identities)),
            "run"
        );
    }

    #[test]
    fn rekey_changes_who_can_open_and_nothing_where_one_can_not_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (old, old_identity) = a_key();
        let (new, new_identity) = a_key();
        let envelope = Envelope::at(dir.path(), "live");
        envelope.seal("job-1", &name("a"), b"1", &old, NOW).unwrap();
        envelope.seal("job-2", &name("b"), b"2", &old, NOW).unwrap();
        assert_eq!(envelope.rekey(&old_identity, &new, LATER).unwrap().len(), 2);
        let opened = envelope
            .open(&name("b"), Some("job-2"), &new_identity)
            .unwrap();
        assert_eq!(opened.expose(), b"2");
        assert!(matches!(
            envelope.open(&name("a"), None, &old_identity),
            Err(EnvelopeError::Open(OpenError::NoMatchingKey { .. }))
        ));
        envelope.seal("job-3", &name("c"), b"3", &old, NOW).unwrap();
        let note = |key: &str| {
            let listed = envelope.notes().unwrap();
            let found = listed.into_iter().find(|listed| listed.key == name(key));
            found.unwrap().note.unwrap()
        };
        assert_eq!(note("a").recipients, new.shown());
        assert_eq!(
            (note("a").sealed_at, note("c").sealed_at),
            (LATER.to_owned(), NOW.to_owned())
        );
        let refused = envelope.rekey(&new_identity, &old, LATER).unwrap_err();
        let EnvelopeError::NotOpened { failed } = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!(failed.len(), 1, "{refused}");
        assert_eq!(failed[0].0, name("c"));
        assert!(
            envelope.open(&name("a"), None, &new_identity).is_ok(),
            "nothing was sealed anew"
        );
    }

    /// A rekey that is killed between two writes leaves some sealed to the old and some to the new recipients.
    #[test]
    fn a_rekey_that_was_cut_is_ended_with_an_identity_of_either() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (
            age::x25519::Identity::generate(),
            age::x25519::Identity::generate(),
        );
        let of = |identity: &age::x25519::Identity| {
            Recipients::parse([identity.to_public().to_string()]).unwrap()
        };
        let both = [&old, &new].map(|identity| identity.to_string().expose_secret().to_owned());
        let both = Identities::parse(&Secret::new(both.join("\n"))).unwrap();
        let envelope = Envelope::at(dir.path(), "live");
        envelope
            .seal("job-1", &name("a"), b"1", &of(&new), NOW)
            .unwrap();
        envelope
            .seal("job-1", &name("b"), b"2", &of(&old), NOW)
            .unwrap();
        for key in ["a", "b"] {
            envelope.open(&name(key), None, &both).unwrap();
        }
        assert_eq!(envelope.rekey(&both, &of(&new), LATER).unwrap().len(), 2);
        let only_new = Secret::new(new.to_string().expose_secret());
        let only_new = Identities::parse(&only_new).unwrap();
        for key in ["a", "b"] {
            envelope.open(&name(key), None, &only_new).unwrap();
        }
    }

    #[test]
    fn a_writer_waits_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let (recipients, _) = a_key();
        let envelope = Envelope::at(dir.path().join("live"), "live");
        let held = envelope.alone().unwrap();
        let waiting = envelope.clone();
        let thread =
            std::thread::spawn(move || waiting.seal("job-1", &name("a"), b"1", &recipients, NOW));
        assert!(envelope.list().unwrap().is_empty(), "it did not wait");
        drop(held);
        thread.join().unwrap().unwrap();
    }
}

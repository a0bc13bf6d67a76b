//! What stands beside a sealed value in the clear: since when it is sealed, and to whom.
//!
//! It is a stanza of the file's header that no key belongs to. Programs that read `age` files pass over it; the
//! header as a whole is sealed against changes, so whoever opens the value has proven the note.

use std::collections::HashSet;

use age_core::format::{FileKey, Stanza};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};

/// What the stanza is called.
const TAG: &str = "rebuild-note";
/// The first line of every `age` file.
const FIRST: &str = "age-encryption.org/v1";

/// Since when a value is sealed, and to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When it was sealed, RFC 3339.
    pub sealed_at: String,
    /// Those who can open it.
    pub recipients: Vec<String>,
}

/// A file that is no sealed value, or one without a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It is none of `age`.
    #[error("it is no file of `age`")]
    NotAge,
    /// Another program sealed it.
    #[error("it does not say to whom it is sealed: another program made it")]
    None,
    /// The note can't be read.
    #[error("what it says of its recipients can't be read")]
    Unreadable,
}

impl Note {
    /// Reads the note of a sealed value, without opening it.
    ///
    /// # Errors
    /// When there is none, or it can't be read.
    pub fn of(sealed: &[u8]) -> Result<Self, NoteError> {
        let mut lines = sealed
            .split(|byte| *byte == b'\n')
            .map(|line| std::str::from_utf8(line).unwrap_or_default());
        if lines.next() != Some(FIRST) {
            return Err(NoteError::NotAge);
        }
        let header = lines.take_while(|line| !line.starts_with("---"));
        let mut body = None;
        for line in header {
            match (line.strip_prefix("-> "), &mut body) {
                (Some(_), Some(_)) => break,
                (Some(tag), None) if tag == TAG => body = Some(String::new()),
                (None, Some(body)) => body.push_str(line),
                _ => {}
            }
        }
        let body = body.ok_or(NoteError::None)?;
        let json = STANDARD_NO_PAD
            .decode(body)
            .map_err(|_| NoteError::Unreadable)?;
        serde_json::from_slice(&json).map_err(|_| NoteError::Unreadable)
    }
}

/// A note on its way into a header.
pub(crate) struct Noted(Vec<u8>);

impl Noted {
    pub(crate) fn new(note: &Note) -> serde_json::Result<Self> {
        serde_json::to_vec(note).map(Self)
    }
}

/// It is given the key of the file and makes no use of it.
impl age::Recipient for Noted {
    fn wrap_file_key(
        &self,
        _: &FileKey,
    ) -> Result<(Vec<Stanza>, HashSet<String>), age::EncryptError> {
        let stanza = Stanza {
            tag: TAG.to_owned(),
            args: Vec::new(),
            body: self.0.clone(),
        };
        Ok((vec![stanza], HashSet::new()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Label, Recipients, seal};

    fn sealed(n_recipients: usize) -> (Vec<u8>, Vec<String>) {
        let recipients: Vec<String> = (0..n_recipients)
            .map(|_| age::x25519::Identity::generate().to_public().to_string())
            .collect();
        let label = Label {
            target: "live".to_owned(),
            run: "job-1".to_owned(),
            key: "a".parse().unwrap(),
        };
        let to = Recipients::parse(&recipients).unwrap();
        let sealed = seal(&label, b"value", &to, "2026-03-02T10:00:00Z").unwrap();
        (sealed, recipients)
    }

    #[test]
    fn whom_a_value_is_sealed_to_is_read_without_a_key() {
        for n_recipients in [1, 2, 20] {
            let (sealed, recipients) = sealed(n_recipients);
            let note = Note::of(&sealed).unwrap();
            assert_eq!(note.recipients, recipients);
            assert_eq!(note.sealed_at, "2026-03-02T10:00:00Z");
        }
    }

    #[test]
    fn the_remark_in_an_ssh_key_is_not_told() {
        let lab = test_support::SshLab::new();
        let public = lab.make_key("fleet");
        let recipients = Recipients::parse([&public]).unwrap();
        let words: Vec<&str> = public.split_whitespace().take(2).collect();
        assert_eq!(recipients.shown(), [words.join(" ")]);
        let bare = Recipients::parse(recipients.shown());
        assert_eq!(bare.unwrap().shown(), recipients.shown());
    }

    #[test]
    fn a_file_of_another_program_says_so() {
        assert_eq!(Note::of(b""), Err(NoteError::NotAge));
        assert_eq!(Note::of(b"hunter2"), Err(NoteError::NotAge));
        let of_others = b"age-encryption.org/v1\n-> X25519 abc\ndef\n--- mac\nbytes";
        assert_eq!(Note::of(of_others), Err(NoteError::None));
        let broken = b"age-encryption.org/v1\n-> rebuild-note\n!\n--- mac\nbytes";
        assert_eq!(Note::of(broken), Err(NoteError::Unreadable));
    }

    proptest! {
        #[test]
        fn a_damaged_header_never_panics(at in any::<prop::sample::Index>(), bit in 0..8u8, is_cut in any::<bool>()) {
            let (mut sealed, _) = sealed(1);
            let at = at.index(sealed.len());
            if is_cut {
                sealed.truncate(at);
            } else {
                sealed[at] ^= 1 << bit;
            }
            let _ = Note::of(&sealed);
        }
    }
}

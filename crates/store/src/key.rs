//! Keys: what a store's values are found by.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest key, in bytes; every object store and file system takes this many.
const MAX_KEY: usize = 512;
/// The longest part between two slashes, in bytes.
const MAX_SEGMENT: usize = 200;

/// A key of a store: parts joined by `/`, each of `[A-Za-z0-9._@-]` and not begun with a dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Key(String);

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a key of a store: {why}")]
pub struct KeyError {
    /// The text that was offered.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Key {
    /// Checks a text.
    pub fn new(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        match fault(&text) {
            None => Ok(Self(text)),
            Some(why) => Err(KeyError { text, why }),
        }
    }

    /// A key that the caller has spelled out in the program.
    pub(crate) fn fixed(text: &'static str) -> Self {
        debug_assert!(fault(text).is_none());
        Self(text.to_owned())
    }

    /// The whole key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts between the slashes.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

/// Whether `segment` may stand between two slashes.
pub(crate) fn is_segment(segment: &str) -> bool {
    segment_fault(segment).is_none()
}

fn segment_fault(segment: &str) -> Option<&'static str> {
    if segment.is_empty() {
        return Some("a part of it is empty");
    }
    if segment.len() > MAX_SEGMENT {
        return Some("a part of it is longer than 200 bytes");
    }
    if segment.starts_with('.') {
        return Some("a part of it begins with a dot");
    }
    let legal =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'@' | b'-');
    if !segment.bytes().all(legal) {
        return Some("only letters, digits, `.`, `_`, `@`, `-` and `/` may be in it");
    }
    None
}

fn fault(text: &str) -> Option<&'static str> {
    if text.len() > MAX_KEY {
        return Some("it is longer than 512 bytes");
    }
    text.split('/').find_map(segment_fault)
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn legal_keys_are_taken() {
        for text in [
            "lock.json",
            "state/1a/edge",
            "state/1a/edge@17",
            "run/01J.json",
            "a",
        ] {
            assert_eq!(Key::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn keys_that_would_leave_the_store_are_refused() {
        for text in [
            "", "/", "/a", "a/", "a//b", "..", "a/../b", "a/./b", ".lock", "a/.new-1", "a\\b",
            "a b", "ä", "a\0",
        ] {
            assert!(Key::new(text).is_err(), "{text:?}");
        }
        assert!(Key::new("a".repeat(201)).is_err());
        assert!(Key::new(vec!["a".repeat(100); 6].join("/")).is_err());
    }

    proptest! {
        #[test]
        fn a_key_as_a_path_stays_below_its_root(text in "[a./@_-]{0,24}") {
            if let Ok(key) = Key::new(text) {
                let path = std::path::Path::new(key.as_str());
                prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                prop_assert_eq!(path.components().count(), key.segments().count());
            }
        }
    }
}

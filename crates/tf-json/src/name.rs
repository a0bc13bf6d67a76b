//! Names of blocks and arguments.

use std::borrow::{Borrow, Cow};
use std::fmt;

use crate::BuildError;

/// A name that OpenTofu takes: letters, digits, `_` and `-`, not beginning with a digit or `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier(Cow<'static, str>);

impl Identifier {
    /// Takes a name that comes from elsewhere.
    ///
    /// # Errors
    /// When OpenTofu would not take it.
    pub fn new(name: impl Into<String>) -> Result<Self, BuildError> {
        let name = name.into();
        if is_legal(&name) {
            Ok(Self(Cow::Owned(name)))
        } else {
            Err(BuildError::IllegalName { name })
        }
    }

    /// Takes a name that is written in the program.
    ///
    /// # Panics
    /// When OpenTofu would not take it, which is a slip in the program and no matter of its input.
    #[must_use]
    pub const fn of(name: &'static str) -> Self {
        assert!(is_legal(name), "a name in the program is not legal");
        Self(Cow::Borrowed(name))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const fn is_legal(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return false;
    }
    let mut index = 0;
    while index < bytes.len() {
        let byte = bytes[index];
        let letter = byte.is_ascii_alphabetic() || byte == b'_';
        let later = byte.is_ascii_digit() || byte == b'-';
        if !(letter || (later && index > 0)) {
            return false;
        }
        index += 1;
    }
    true
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Identifier {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&Self> for Identifier {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl From<&'static str> for Identifier {
    fn from(name: &'static str) -> Self {
        Self::of(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_to_what_opentofu_takes() {
        for (name, legal) in [
            ("a", true),
            ("_a-b_1", true),
            ("", false),
            ("1a", false),
            ("-a", false),
            ("a.b", false),
            ("é", false),
            ("//", false),
        ] {
            assert_eq!(Identifier::new(name).is_ok(), legal, "{name:?}");
        }
    }
}

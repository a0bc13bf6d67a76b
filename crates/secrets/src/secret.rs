//! A value that shows itself to nobody by accident.

use std::fmt;

use zeroize::Zeroizing;

/// A secret text. It prints as `[secret]` and is wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text as secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Gives the text to whoever really needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Compares in a time that depends on the lengths only.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        equal_in_constant_time(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(crate::MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(crate::MASK)
    }
}

/// Compares bytes without telling, by its time, where they differ.
pub(crate) fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let differing = left
        .iter()
        .zip(right)
        .fold(0, |seen, (l, r)| seen | (l ^ r));
    left.len() == right.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_such_whichever_way() {
        let secret = Secret::new("hunter2-hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {secret:#?}"),
            "[secret] [secret] [secret]"
        );
        assert_eq!(secret.expose(), "hunter2-hunter2");
    }

    #[test]
    fn secrets_are_equal_when_their_texts_are() {
        assert_eq!(Secret::new("abc"), Secret::new("abc"));
        assert_ne!(Secret::new("abc"), Secret::new("abd"));
        assert_ne!(Secret::new("abc"), Secret::new("abcd"));
        assert_ne!(Secret::new(""), Secret::new("a"));
    }
}

//! A newtype for every identifier.

use std::fmt;
use std::str::FromStr;

/// The longest phase id, step name, target name or run id, in characters.
pub const MAX_NAME_LENGTH: usize = 64;

/// Why a text is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("{what} is empty")]
    Empty {
        /// Which kind of identifier was read.
        what: &'static str,
    },
    /// The text is longer than [`MAX_NAME_LENGTH`].
    #[error("{what} `{text}` is longer than 64 characters")]
    TooLong {
        /// Which kind of identifier was read.
        what: &'static str,
        /// The text as it was given.
        text: String,
    },
    /// A character that the identifier may not hold.
    #[error("{what} `{text}` holds `{character}`: only letters, digits, `-` and `_` may be in it")]
    Character {
        /// Which kind of identifier was read.
        what: &'static str,
        /// The text as it was given.
        text: String,
        /// The first character that may not be there.
        character: char,
    },
    /// The first character is neither a letter nor a digit.
    #[error("{what} `{text}` does not start with a letter or a digit")]
    Start {
        /// Which kind of identifier was read.
        what: &'static str,
        /// The text as it was given.
        text: String,
    },
    /// A step's id is not `PHASE.STEP`.
    #[error("step `{text}` is not of the form PHASE.STEP")]
    NotAStep {
        /// The text as it was given.
        text: String,
    },
    /// A resource address with a control character in it.
    #[error("resource address {text:?} holds a control character")]
    Control {
        /// The text as it was given.
        text: String,
    },
}

/// Checks `[A-Za-z0-9][A-Za-z0-9_-]*`, at most [`MAX_NAME_LENGTH`] characters.
fn check_name(what: &'static str, text: &str) -> Result<(), IdError> {
    let Some(first) = text.chars().next() else {
        return Err(IdError::Empty { what });
    };
    let wrong = |c: &char| !(c.is_ascii_alphanumeric() || *c == '-' || *c == '_');
    if let Some(character) = text.chars().find(wrong) {
        return Err(IdError::Character {
            what,
            text: text.to_owned(),
            character,
        });
    }
    if !first.is_ascii_alphanumeric() {
        return Err(IdError::Start {
            what,
            text: text.to_owned(),
        });
    }
    if text.len() > MAX_NAME_LENGTH {
        return Err(IdError::TooLong {
            what,
            text: text.to_owned(),
        });
    }
    Ok(())
}

/// Checks that an address is not empty and fits on one line.
fn check_address(what: &'static str, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.chars().any(char::is_control) {
        return Err(IdError::Control {
            text: text.to_owned(),
        });
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Reads one, or says why the text is none.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                $check($what, &text)?;
                Ok(Self(text))
            }

            /// Gives the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// A phase's id, as `rebuild.toml` spells it: `1a`.
    PhaseId, "the phase id", check_name
}
name! {
    /// A step's name, unique within its phase: `edge`.
    StepName, "the step name", check_name
}
name! {
    /// A target's name, which is its file's name without `.toml`.
    TargetName, "the target name", check_name
}
name! {
    /// A run's id. Run ids are ULIDs, so that they sort by time.
    RunId, "the run id", check_name
}
name! {
    /// A resource's address within a root module, as OpenTofu spells it.
    ResourceAddress, "the resource address", check_address
}

/// A step of a phase: `1a.edge`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId {
    /// The phase that the step belongs to.
    pub phase: PhaseId,
    /// The step's name within its phase.
    pub step: StepName,
}

impl StepId {
    /// Joins a phase's id and a step's name.
    pub fn new(phase: PhaseId, step: StepName) -> Self {
        Self { phase, step }
    }

    /// Gives the step's part of a store key: `1a/edge`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.phase, self.step)
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.phase, self.step))
    }
}

impl FromStr for StepId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (phase, step) = text.split_once('.').ok_or_else(|| IdError::NotAStep {
            text: text.to_owned(),
        })?;
        Ok(Self {
            phase: PhaseId::new(phase)?,
            step: StepName::new(step)?,
        })
    }
}

/// The fencing number of the target's lock; it only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Fence(pub u64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_step_is_spelled_with_a_dot_and_keyed_with_a_slash() {
        let step: StepId = "1a.edge".parse().unwrap();
        assert_eq!(step.to_string(), "1a.edge");
        assert_eq!(step.key(), "1a/edge");
        assert_eq!(
            step,
            StepId::new("1a".parse().unwrap(), "edge".parse().unwrap())
        );
        assert_eq!(format!("[{step:>9}]"), "[  1a.edge]");
        assert_eq!(step.phase.as_ref(), "1a");
    }

    #[test]
    fn names_that_could_leave_their_place_in_a_key_are_refused() {
        for (text, why) in [
            ("", "the phase id is empty"),
            (
                "a/b",
                "the phase id `a/b` holds `/`: only letters, digits, `-` and `_` may be in it",
            ),
            (
                "..",
                "the phase id `..` holds `.`: only letters, digits, `-` and `_` may be in it",
            ),
            (
                "a@3",
                "the phase id `a@3` holds `@`: only letters, digits, `-` and `_` may be in it",
            ),
            (
                "é",
                "the phase id `é` holds `é`: only letters, digits, `-` and `_` may be in it",
            ),
            (
                "-a",
                "the phase id `-a` does not start with a letter or a digit",
            ),
            (
                "_a",
                "the phase id `_a` does not start with a letter or a digit",
            ),
        ] {
            assert_eq!(PhaseId::new(text).unwrap_err().to_string(), why);
        }
        assert!(PhaseId::new("a".repeat(MAX_NAME_LENGTH)).is_ok());
        let long = PhaseId::new("a".repeat(MAX_NAME_LENGTH + 1)).unwrap_err();
        assert!(matches!(long, IdError::TooLong { .. }));
    }

    #[test]
    fn a_step_needs_both_parts() {
        assert_eq!(
            "edge".parse::<StepId>().unwrap_err().to_string(),
            "step `edge` is not of the form PHASE.STEP"
        );
        assert!("1a.".parse::<StepId>().is_err());
        assert!(".edge".parse::<StepId>().is_err());
        assert!("1a.edge.x".parse::<StepId>().is_err());
    }

    #[test]
    fn an_address_is_any_single_line() {
        let text = r#"module.a["x y"].null_resource.b[0]"#;
        assert_eq!(ResourceAddress::new(text).unwrap().as_str(), text);
        assert!(ResourceAddress::new("").is_err());
        assert!(ResourceAddress::new("a\nb").is_err());
    }

    #[test]
    fn fences_compare_as_numbers() {
        assert!(Fence(10) > Fence(9));
        assert_eq!(Fence(10).to_string(), "10");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(phase in "[A-Za-z0-9][A-Za-z0-9_-]{0,20}", step in "[A-Za-z0-9][A-Za-z0-9_-]{0,20}") {
            let id = StepId::new(PhaseId::new(phase).unwrap(), StepName::new(step).unwrap());
            prop_assert_eq!(id.to_string().parse::<StepId>().unwrap(), id);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<StepId>();
            let _ = ResourceAddress::new(text);
        }
    }
}

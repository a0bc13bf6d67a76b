//! Talos' versions, such as `v1.11.2`.

use std::fmt;
use std::str::FromStr;

/// A version, with or without a `v` before it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(semver::Version);

/// Why a text is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no version of Talos: one looks like `v1.11.2`")]
pub struct VersionError {
    /// The text.
    pub text: String,
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        semver::Version::parse(bare)
            .map(Self)
            .map_err(|_| VersionError {
                text: text.to_owned(),
            })
    }
}

impl Version {
    /// Returns Talos' own installer of this version.
    #[must_use]
    pub fn installer(&self) -> String {
        format!("ghcr.io/siderolabs/installer:{self}")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("v{}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_same_with_and_without_its_letter() {
        let read = |text: &str| text.parse::<Version>();
        assert_eq!(read("v1.11.2"), read("1.11.2"));
        assert!(read("v1.11.2").unwrap() < read("v1.12.0-alpha.0").unwrap());
        assert!(read("v1.9.10").unwrap() < read("v1.11.2").unwrap());
        assert_eq!(
            read("v1.11.2").unwrap().installer(),
            "ghcr.io/siderolabs/installer:v1.11.2"
        );
        for wrong in ["", "1.11", "latest", "v1.11.2.3", "vv1.2.3"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

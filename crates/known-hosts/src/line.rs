//! One line of the file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use crate::host::{HostPort, list_matches};
use crate::key::PublicKey;

/// What stands before the hosts of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// Nothing: the key is the host's.
    None,
    /// `@cert-authority`: the key signs host keys.
    Authority,
    /// `@revoked`: the key must never be accepted.
    Revoked,
}

/// The hosts that a line is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// Names and patterns, comma-separated.
    Plain(String),
    /// One name, hidden.
    Hashed { salt: Vec<u8>, digest: Vec<u8> },
}

/// A line that says something about a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) marker: Marker,
    pub(crate) hosts: Hosts,
    pub(crate) key: PublicKey,
}

/// Reads a line, without its end; `None` for a comment, an empty line and all that can't be read.
pub(crate) fn read(line: &[u8]) -> Option<Entry> {
    let line = std::str::from_utf8(line).ok()?;
    let line = line.trim_start_matches([' ', '\t']);
    if line.starts_with('#') {
        return None;
    }
    let mut rest = line;
    let mut marker = Marker::None;
    if line.starts_with('@') {
        // The client ends a marker at the first blank, and at a tab only where the line has no blank at all
        // (measured): what it does not take for a marker is none here either.
        let (word, after) = line.split_once(' ').or_else(|| line.split_once('\t'))?;
        marker = match word {
            "@cert-authority" => Marker::Authority,
            "@revoked" => Marker::Revoked,
            _ => return None,
        };
        rest = after;
    }
    let (hosts, key) = word(rest)?;
    Some(Entry {
        marker,
        hosts: Hosts::read(hosts)?,
        key: key.parse().ok()?,
    })
}

/// The first word and what is after it.
fn word(text: &str) -> Option<(&str, &str)> {
    text.trim_start_matches([' ', '\t']).split_once([' ', '\t'])
}

impl Hosts {
    fn read(text: &str) -> Option<Self> {
        let Some(hidden) = text.strip_prefix('|') else {
            return Some(Self::Plain(text.to_owned()));
        };
        let (salt, digest) = hidden.strip_prefix("1|")?.split_once('|')?;
        Some(Self::Hashed {
            salt: STANDARD.decode(salt).ok()?,
            digest: STANDARD.decode(digest).ok()?,
        })
    }

    /// Tells whether the line is about `host`.
    pub(crate) fn matches(&self, host: &HostPort) -> bool {
        match self {
            Self::Plain(patterns) => list_matches(patterns, host.as_str()),
            Self::Hashed { salt, digest } => {
                // HMAC-SHA1 is the file format's; it hides a name and guards nothing.
                let Ok(mac) = Hmac::<Sha1>::new_from_slice(salt) else {
                    return false;
                };
                mac.chain_update(host.as_str()).verify_slice(digest).is_ok()
            }
        }
    }

    /// The list without `host` by its own name; `None` when nobody is left in it.
    ///
    /// A hashed line holds one name, so it has nobody left.
    pub(crate) fn without(&self, host: &HostPort) -> Option<String> {
        let Self::Plain(patterns) = self else {
            return None;
        };
        let left: Vec<&str> = patterns
            .split(',')
            .filter(|pattern| !pattern.eq_ignore_ascii_case(host.as_str()))
            .collect();
        // Exclusions alone match nobody.
        left.iter()
            .any(|pattern| !pattern.starts_with('!'))
            .then(|| left.join(","))
    }
}

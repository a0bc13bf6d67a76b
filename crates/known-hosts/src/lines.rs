//! The whole file in memory: looking up, pinning, replacing.

use crate::host::HostPort;
use crate::key::PublicKey;
use crate::line::{self, Entry, Hosts, Marker};

/// The lines of a `known_hosts` file. Those that nobody touched are written as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownHosts {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// With its end, where it has one.
    bytes: Vec<u8>,
    entry: Option<Entry>,
}

/// What the file says about one host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Keys that are the host's, in the file's order.
    pub keys: Vec<PublicKey>,
    /// Keys that may sign the host's key.
    pub authorities: Vec<PublicKey>,
    /// Keys that must never be accepted.
    pub revoked: Vec<PublicKey>,
    /// The numbers of all those lines, counted from 1.
    pub lines: Vec<usize>,
}

/// What the file says about a key that a host showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is pinned.
    Known,
    /// No key is pinned for the host.
    Unknown,
    /// Other keys are pinned, and this one is not among them, whatever its type.
    Changed {
        /// What is pinned.
        pinned: Vec<PublicKey>,
    },
    /// It is revoked, for this host or for all.
    Revoked,
}

/// A host's key stands in a line that matches it by a pattern, so it can't be replaced for this host alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} gives `{host}` another key by the pattern `{patterns}`, which may be meant for other hosts too"
)]
pub struct Shared {
    /// The host.
    pub host: HostPort,
    /// The line's number, counted from 1.
    pub line: usize,
    /// Its patterns.
    pub patterns: String,
}

impl KnownHosts {
    /// Reads a file. Nothing is refused: what can't be read is kept and matches nobody.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let lines = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| Line {
                bytes: line.to_vec(),
                entry: line::read(line.trim_ascii_end()),
            });
        Self {
            lines: lines.collect(),
        }
    }

    /// The file's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.lines
            .iter()
            .flat_map(|line| line.bytes.iter().copied())
            .collect()
    }

    /// Looks a host up.
    #[must_use]
    pub fn find(&self, host: &HostPort) -> Found {
        let mut found = Found::default();
        for (number, entry) in self.about(host) {
            let keys = match entry.marker {
                Marker::None => &mut found.keys,
                Marker::Authority => &mut found.authorities,
                Marker::Revoked => &mut found.revoked,
            };
            keys.push(entry.key.clone());
            found.lines.push(number);
        }
        found
    }

    /// Judges a key that a host showed. A key that an authority signed is the ssh client's to judge.
    #[must_use]
    pub fn verdict(&self, host: &HostPort, key: &PublicKey) -> Verdict {
        let found = self.find(host);
        if found.revoked.contains(key) {
            Verdict::Revoked
        } else if found.keys.contains(key) {
            Verdict::Known
        } else if found.keys.is_empty() {
            Verdict::Unknown
        } else {
            Verdict::Changed { pinned: found.keys }
        }
    }

    /// Adds those keys that the host does not have yet, each as a line at the end.
    pub fn pin(&mut self, host: &HostPort, keys: &[PublicKey]) {
        for key in keys {
            if !self.find(host).keys.contains(key) {
                self.add(Marker::None, host.as_str(), key);
            }
        }
    }

    /// Gives a host these keys and no others.
    ///
    /// Other names of a line keep their key; markers are left alone.
    ///
    /// # Errors
    /// When a line gives the host another key by a pattern; nothing is changed then.
    pub fn replace(&mut self, host: &HostPort, keys: &[PublicKey]) -> Result<(), Shared> {
        for (number, entry) in self.about(host) {
            if let Hosts::Plain(patterns) = &entry.hosts
                && entry.marker == Marker::None
                && !keys.contains(&entry.key)
                && entry
                    .hosts
                    .without(host)
                    .is_some_and(|left| crate::host::list_matches(&left, host.as_str()))
            {
                return Err(Shared {
                    host: host.clone(),
                    line: number,
                    patterns: patterns.clone(),
                });
            }
        }
        self.take_out(host, keys);
        self.pin(host, keys);
        Ok(())
    }

    /// Forgets the keys that a host has by its own name. Patterns and markers are left alone.
    pub fn forget(&mut self, host: &HostPort) {
        self.take_out(host, &[]);
    }

    /// Has this authority, and no other one, vouch for a host by its own name alone. Lines with patterns, or with other
    /// names as well, are left alone: they are somebody else's.
    pub fn trust_only(&mut self, host: &HostPort, key: Option<&PublicKey>) {
        let mut is_there = false;
        self.lines.retain(|line| {
            let Some(entry) = &line.entry else {
                return true;
            };
            let is_own =
                matches!(&entry.hosts, Hosts::Plain(patterns) if patterns == host.as_str());
            if entry.marker != Marker::Authority || !is_own {
                return true;
            }
            let stays = Some(&entry.key) == key && !is_there;
            is_there |= stays;
            stays
        });
        if let Some(key) = key.filter(|_| !is_there) {
            self.add(Marker::Authority, host.as_str(), key);
        }
    }

    fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.lines
            .iter()
            .enumerate()
            .filter_map(|(index, line)| Some((index + 1, line.entry.as_ref()?)))
    }

    fn about(&self, host: &HostPort) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries()
            .filter(|(_, entry)| entry.hosts.matches(host))
    }

    /// Takes the host out of every line that pins another key than `but`.
    fn take_out(&mut self, host: &HostPort, but: &[PublicKey]) {
        self.lines.retain_mut(|line| {
            let Some(entry) = &line.entry else {
                return true;
            };
            if entry.marker != Marker::None
                || but.contains(&entry.key)
                || !entry.hosts.matches(host)
            {
                return true;
            }
            let Some(left) = entry.hosts.without(host) else {
                return false;
            };
            if let Hosts::Plain(patterns) = &entry.hosts
                && *patterns != left
            {
                line.bytes = with_hosts(&line.bytes, patterns, &left);
                line.entry = line::read(line.bytes.trim_ascii_end());
            }
            true
        });
    }

    fn add(&mut self, marker: Marker, hosts: &str, key: &PublicKey) {
        if let Some(last) = self.lines.last_mut()
            && !last.bytes.ends_with(b"\n")
        {
            last.bytes.push(b'\n');
        }
        let marker = match marker {
            Marker::None => "",
            Marker::Authority => "@cert-authority ",
            Marker::Revoked => "@revoked ",
        };
        let bytes = format!("{marker}{hosts} {key}\n").into_bytes();
        self.lines.push(Line {
            entry: line::read(bytes.trim_ascii_end()),
            bytes,
        });
    }
}

/// The line with another list of hosts, and all else of it as it was.
fn with_hosts(line: &[u8], patterns: &str, left: &str) -> Vec<u8> {
    // A line without a marker begins with its hosts, after blanks at the most.
    let at = line.len() - line.trim_ascii_start().len();
    let mut bytes = line[..at].to_vec();
    bytes.extend_from_slice(left.as_bytes());
    bytes.extend_from_slice(&line[at + patterns.len()..]);
    bytes
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;

//! One host, and the words that name it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use known_hosts::PublicKey;
use serde_json::{Map, Value};

/// A host's name in the inventory: letters, digits, `.`, `_` and `-`, as Ansible's patterns leave it alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" || text == "ungrouped" || text == crate::EVERY_HOST {
            return Err(format!(
                "`{text}` is a group of its own in the inventory, so no host can have that name"
            ));
        }
        if is_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err("a host's name is letters, digits, `.`, `_` and `-`, and begins with a letter or digit: all else means something in Ansible's patterns".to_owned())
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "._-".contains(char))
}

/// Where a host may be reached: an IPv4 or IPv6 address (without brackets), or a DNS name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(String);

impl Address {
    /// The address as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address as a number, where it is one and has no zone.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.0.parse().ok()
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (plain, zone) = text.split_once('%').unwrap_or((text, "zone"));
        let is_zone = !zone.is_empty()
            && zone
                .chars()
                .all(|char| char.is_ascii_alphanumeric() || "._-".contains(char));
        let is_address = match plain.parse::<IpAddr>() {
            Ok(IpAddr::V6(_)) => is_zone,
            Ok(IpAddr::V4(_)) => plain == text,
            // What consists of digits and dots and is no address was meant as one.
            Err(_) => {
                plain == text
                    && text.len() <= 253
                    && !text
                        .chars()
                        .all(|char| char.is_ascii_digit() || char == '.')
                    && text.trim_end_matches('.').split('.').all(is_label)
            }
        };
        if is_address {
            return Ok(Self(text.to_owned()));
        }
        if text.starts_with('[') {
            return Err(format!(
                "`{text}` must be an address without brackets; a port is the key `port`"
            ));
        }
        if plain.contains('/') {
            return Err(format!(
                "`{text}` must be an address without a prefix length"
            ));
        }
        Err(format!(
            "`{}` is neither an IPv4 or IPv6 address nor a DNS name",
            text.escape_debug()
        ))
    }
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && label
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || "-_".contains(char))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The machine that the way to a host leads through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jump {
    /// Another host of the same output.
    Host(HostName),
    /// A machine that the output does not know.
    Elsewhere {
        /// The user there, where it is said.
        user: Option<String>,
        /// Its address.
        address: Address,
        /// Its port.
        port: u16,
    },
}

/// One host of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The key in the output.
    pub name: HostName,
    /// Where it may be reached, in the order in which it is tried.
    pub addresses: Vec<Address>,
    /// The port of its SSH server.
    pub port: u16,
    /// Who logs in there; the ssh client's default where it is not said.
    pub user: Option<String>,
    /// The host keys that it is declared to have. Empty: none is declared.
    pub host_keys: Vec<PublicKey>,
    /// What the provider calls the machine: another id is another machine.
    pub machine_id: Option<String>,
    /// The machine that the way to it leads through.
    pub jump: Option<Jump>,
    /// The host keys that a jump host which is no host of the output is declared to have.
    pub jump_host_keys: Vec<PublicKey>,
    /// The groups that it is in, besides its workspace's.
    pub groups: BTreeSet<String>,
    /// Every key but `groups`, as the output has it.
    pub variables: Map<String, Value>,
}

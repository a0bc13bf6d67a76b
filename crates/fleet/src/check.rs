//! Reading the output `hosts`: every fault with its key, all at once.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use known_hosts::PublicKey;
use serde_json::{Map, Value};

use crate::host::{Address, Host, HostName, Jump, is_name};
use crate::workspace::WorkspaceName;

/// One fault of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key, such as `hosts.web1.port`.
    pub key: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.key, self.what)
    }
}

/// The output `hosts` can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostsError {
    /// The workspace or step whose output it is.
    pub of: String,
    /// Every fault, in the output's order.
    pub faults: Vec<Fault>,
}

impl std::error::Error for HostsError {}

impl fmt::Display for HostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the output `hosts` of `{}` can't be used", self.of)?;
        for fault in &self.faults {
            write!(f, "\n  {fault}")?;
        }
        Ok(())
    }
}

/// Variables that Ansible sets itself: a value of the output would be lost without a word.
const OF_ANSIBLE: [&str; 14] = [
    "ansible_check_mode",
    "ansible_play_hosts",
    "group_names",
    "hostvars",
    "inventory_dir",
    "inventory_file",
    "inventory_hostname",
    "inventory_hostname_short",
    "omit",
    "play_hosts",
    "playbook_dir",
    "role_name",
    "role_path",
    "vars",
];

/// Reads all hosts of an output's value.
pub(crate) fn hosts(workspace: &WorkspaceName, value: &Value) -> Result<Vec<Host>, HostsError> {
    let mut faults = Faults { found: Vec::new() };
    let mut hosts = Vec::new();
    match value {
        Value::Object(map) if map.is_empty() => faults.add("hosts", "names no host"),
        Value::Object(map) => {
            for (name, value) in map {
                hosts.extend(host(workspace, name, value, &mut faults));
            }
        }
        other => faults.add(
            "hosts",
            format!(
                "must be a map from a host's name to what is known of it, and is {}",
                kind(other)
            ),
        ),
    }
    groups_are_no_hosts(&hosts, workspace, &mut faults);
    jumps_lead_somewhere(&mut hosts, &mut faults);
    if faults.found.is_empty() {
        Ok(hosts)
    } else {
        Err(HostsError {
            of: workspace.to_string(),
            faults: faults.found,
        })
    }
}

struct Faults {
    found: Vec<Fault>,
}

impl Faults {
    fn add(&mut self, key: impl Into<String>, what: impl Into<String>) {
        self.found.push(Fault {
            key: key.into(),
            what: what.into(),
        });
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn host(workspace: &WorkspaceName, name: &str, value: &Value, faults: &mut Faults) -> Option<Host> {
    let at = format!("hosts.{name}");
    let name = match name.parse::<HostName>() {
        Ok(name) if name.as_str() == workspace.as_str() => {
            faults.add(
                &at,
                "has the workspace's own name, which is a group in the inventory",
            );
            None
        }
        Ok(name) => Some(name),
        Err(what) => {
            faults.add(&at, what);
            None
        }
    };
    let Value::Object(map) = value else {
        faults.add(
            &at,
            format!(
                "must be a map such as `{{ address = \"192.0.2.1\" }}`, and is {}",
                kind(value)
            ),
        );
        return None;
    };
    let mut fields = Fields {
        at: &at,
        map,
        faults,
    };
    let addresses = fields.addresses();
    let port = fields.port();
    let user = fields.text(&["user", "ansible_user"], is_user, "a user's name");
    let host_keys = fields.host_keys("host_key");
    let machine_id = fields.machine_id();
    let jump = fields.jump();
    let jump_host_keys = fields.host_keys("jump_host_key");
    let groups = fields.groups(workspace);
    let variables = fields.variables();
    Some(Host {
        name: name?,
        addresses,
        port,
        user,
        host_keys,
        machine_id,
        jump,
        jump_host_keys,
        groups,
        variables,
    })
}

/// The keys of one host. `null` is a key that is not set, as OpenTofu has it for optional attributes.
struct Fields<'a> {
    at: &'a str,
    map: &'a Map<String, Value>,
    faults: &'a mut Faults,
}

impl<'a> Fields<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn fault(&mut self, key: &str, what: impl Into<String>) {
        self.faults.add(format!("{}.{key}", self.at), what);
    }

    /// The text of the first of `keys` that is set; two that differ are a fault.
    fn text(&mut self, keys: &[&str], is_right: fn(&str) -> bool, what: &str) -> Option<String> {
        let mut found: Option<(&str, String)> = None;
        for key in keys {
            let Some(value) = self.get(key) else { continue };
            match value.as_str().filter(|text| is_right(text)) {
                None => self.fault(key, format!("must be {what}, and is {}", shown(value))),
                Some(text) => match &found {
                    Some((first, before)) if before != text => {
                        let what = format!("says `{text}` where `{first}` says `{before}`");
                        self.fault(key, what);
                    }
                    _ => found = Some((key, text.to_owned())),
                },
            }
        }
        found.map(|(_, text)| text)
    }

    fn addresses(&mut self) -> Vec<Address> {
        let mut addresses: Vec<Address> = Vec::new();
        let mut is_any = false;
        for key in ["ansible_host", "address", "addresses"] {
            let Some(value) = self.get(key) else { continue };
            is_any = true;
            for text in self.texts(key, value) {
                match text.parse() {
                    Ok(address) if addresses.contains(&address) => {}
                    Ok(address) => addresses.push(address),
                    Err(what) => self.fault(key, what),
                }
            }
        }
        if !is_any {
            self.faults.add(self.at, "has none of `address`, `addresses` and `ansible_host`, so nothing says where it is");
        } else if self
            .get("addresses")
            .is_some_and(|value| value.as_array().is_some_and(Vec::is_empty))
            && addresses.is_empty()
        {
            self.fault("addresses", "names no address");
        }
        addresses
    }

    /// A text, or a list of texts.
    fn texts(&mut self, key: &str, value: &'a Value) -> Vec<&'a str> {
        let one = std::slice::from_ref(value);
        let items = value.as_array().map_or(one, Vec::as_slice);
        let mut texts = Vec::new();
        for item in items {
            match item.as_str() {
                Some(text) => texts.push(text),
                None => self.fault(
                    key,
                    format!("must be a text or a list of texts, and has {}", shown(item)),
                ),
            }
        }
        texts
    }

    fn port(&mut self) -> u16 {
        const SSH: u16 = 22;
        let mut found: Option<u16> = None;
        for key in ["port", "ansible_port"] {
            let Some(value) = self.get(key) else { continue };
            let number = match value {
                Value::Number(number) => number.as_u64(),
                Value::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                    text.parse().ok()
                }
                _ => None,
            };
            match number
                .and_then(|number| u16::try_from(number).ok())
                .filter(|port| *port > 0)
            {
                None => self.fault(
                    key,
                    format!("must be a port from 1 to 65535, and is {}", shown(value)),
                ),
                Some(port) => match found {
                    Some(before) if before != port => {
                        self.fault(key, format!("says {port} where `port` says {before}"));
                    }
                    _ => found = Some(port),
                },
            }
        }
        found.unwrap_or(SSH)
    }

    fn host_keys(&mut self, key: &str) -> Vec<PublicKey> {
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let mut keys = Vec::new();
        for text in self.texts(key, value) {
            // A provider may give all keys of a machine as one text of lines.
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                match PublicKey::from_str(line) {
                    Ok(read) => keys.push(read),
                    Err(error) => self.fault(key, error.to_string()),
                }
            }
        }
        if keys.is_empty()
            && self
                .faults
                .found
                .iter()
                .all(|fault| !fault.key.starts_with(self.at))
        {
            self.fault(key, "declares no key; leave it out where none is known");
        }
        keys
    }

    fn machine_id(&mut self) -> Option<String> {
        match self.get("machine_id")? {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            other => {
                self.fault(
                    "machine_id",
                    format!("must be the machine's id, and is {}", shown(other)),
                );
                None
            }
        }
    }

    fn jump(&mut self) -> Option<Jump> {
        let value = self.get("jump_host")?;
        let jump = value.as_str().and_then(jump);
        if jump.is_none() {
            self.fault(
                "jump_host",
                format!(
                    "must be a host's name or `user@address:port`, and is {}",
                    shown(value)
                ),
            );
        }
        jump
    }

    fn groups(&mut self, workspace: &WorkspaceName) -> BTreeSet<String> {
        let Some(value) = self.get("groups") else {
            return BTreeSet::new();
        };
        let mut groups = BTreeSet::new();
        for text in self.texts("groups", value) {
            if text == crate::EVERY_HOST || text == workspace.as_str() {
                self.fault(
                    "groups",
                    format!("`{text}` is made by itself and reserved: every host is in it"),
                );
            } else if text == "all" || text == "ungrouped" {
                self.fault("groups", format!("`{text}` is Ansible's own group"));
            } else if !is_name(text) && !text.starts_with('_')
                || !is_name(text.trim_start_matches('_'))
            {
                self.fault(
                    "groups",
                    format!(
                        "`{}` is no group's name: letters, digits, `.`, `_` and `-`",
                        text.escape_debug()
                    ),
                );
            } else {
                groups.insert(text.to_owned());
            }
        }
        groups
    }

    fn variables(&mut self) -> Map<String, Value> {
        let mut variables = Map::new();
        for (key, value) in self.map.iter().filter(|(key, _)| *key != "groups") {
            if OF_ANSIBLE.contains(&key.as_str()) {
                self.fault(
                    key,
                    "is a variable that Ansible sets itself; give it another name",
                );
            } else if key.is_empty() || key.len() > LONGEST_KEY || key.starts_with("__ansible") {
                self.fault(
                    &key.escape_debug().to_string(),
                    "can't be a variable's name",
                );
            }
            if let Some(bad) = key_of_ansible(value) {
                self.fault(
                    key,
                    format!(
                        "holds the key `{}`, which Ansible would not take for a key",
                        bad.escape_debug()
                    ),
                );
            }
            variables.insert(key.clone(), value.clone());
        }
        variables
    }
}

/// The longest key that YAML takes without a mark of its own is 1024 characters, escapes included.
const LONGEST_KEY: usize = 100;

/// A key within a value that Ansible's JSON reader, or its YAML reader, would take for something else.
fn key_of_ansible(value: &Value) -> Option<&str> {
    match value {
        Value::Array(items) => items.iter().find_map(key_of_ansible),
        Value::Object(map) => map.iter().find_map(|(key, value)| {
            if key.starts_with("__ansible") || key.len() > LONGEST_KEY {
                return Some(key.as_str());
            }
            key_of_ansible(value)
        }),
        _ => None,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() <= 60 => format!("`{}`", text.escape_debug()),
        Value::Number(number) => format!("`{number}`"),
        other => kind(other).to_owned(),
    }
}

/// A name that the ssh client takes as one word and never as an option.
fn is_user(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text
            .chars()
            .all(|char| char.is_alphanumeric() || "._-@\\+$".contains(char))
}

fn jump(text: &str) -> Option<Jump> {
    if let Ok(name) = text.parse::<HostName>() {
        return Some(Jump::Host(name));
    }
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(user.to_owned()).filter(|user| is_user(user)), rest),
        None => (None, text),
    };
    if text.contains('@') && user.is_none() {
        return None;
    }
    let (address, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, port)) => (address, Some(port.strip_prefix(':')?)),
        // An IPv6 address has more than one colon.
        None => match rest.split_once(':') {
            Some((address, port)) if !port.contains(':') => (address, Some(port)),
            _ => (rest, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => 22,
    };
    Some(Jump::Elsewhere {
        user,
        address: address.parse().ok()?,
        port,
    })
}

fn groups_are_no_hosts(hosts: &[Host], workspace: &WorkspaceName, faults: &mut Faults) {
    let names: BTreeSet<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    for host in hosts {
        for group in host
            .groups
            .iter()
            .filter(|group| names.contains(group.as_str()))
        {
            faults.add(
                format!("hosts.{}.groups", host.name),
                format!("`{group}` is a host of `{workspace}`; a group needs another name"),
            );
        }
    }
}

/// A jump host is another host of the output, or a machine elsewhere by its address.
fn jumps_lead_somewhere(hosts: &mut [Host], faults: &mut Faults) {
    let names: BTreeSet<HostName> = hosts.iter().map(|host| host.name.clone()).collect();
    for host in hosts.iter_mut() {
        let Some(Jump::Host(name)) = &host.jump else {
            continue;
        };
        if names.contains(name) {
            continue;
        }
        // A word without a dot is more likely a host's name with a typing error than somebody's DNS name.
        match name.as_str().parse::<Address>() {
            Ok(address) if name.as_str().contains('.') => {
                host.jump = Some(Jump::Elsewhere {
                    user: None,
                    address,
                    port: 22,
                });
            }
            _ => faults.add(
                format!("hosts.{}.jump_host", host.name),
                format!("`{name}` is no host of this output, and no address"),
            ),
        }
    }
    for host in hosts.iter() {
        let mut at = host;
        let mut n_jumps = 0;
        while let Some(Jump::Host(next)) = &at.jump {
            let Some(next) = hosts.iter().find(|host| host.name == *next) else {
                break;
            };
            at = next;
            n_jumps += 1;
            if n_jumps > hosts.len() {
                faults.add(
                    format!("hosts.{}.jump_host", host.name),
                    "leads round in a circle",
                );
                break;
            }
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;

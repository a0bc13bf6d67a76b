//! The ssh client's configuration: all that it goes by, for hosts and jump hosts alike.
//!
//! A file, since the client that it starts for a jump host gets `-F` passed on and no option.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fleet::{Address, Fleet, Host, Jump};

use crate::onboard::Check;

/// What opens the door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// A private key in this file.
    File(PathBuf),
    /// The agent that listens on this socket.
    Agent(PathBuf),
}

/// One way to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The name under which the configuration has it.
    pub(crate) alias: String,
    /// The host's own address.
    pub(crate) address: Address,
    /// Whether nothing lies between.
    pub(crate) is_direct: bool,
}

/// Everything that is the same for all.
#[derive(Debug, Clone)]
pub(crate) struct Common<'a> {
    pub(crate) known_hosts: &'a Path,
    pub(crate) login: &'a Login,
    pub(crate) connect_seconds: u64,
}

/// Returns the configuration for one host, with the ways to it in the order in which they are tried.
///
/// Hosts of the fleet that lie between have been reached, and stand there with the address that answered.
pub(crate) fn of_host(
    fleet: &Fleet,
    host: &Host,
    common: &Common<'_>,
    check: Check,
) -> (String, Vec<Route>) {
    let mut text = String::new();
    let mut hops = Vec::new();
    for (index, hop) in jumps(fleet, host).iter().enumerate() {
        let alias = format!("jump-{index}");
        block(
            &mut text,
            &alias,
            hop.address.as_str(),
            hop.port,
            hop.user.as_deref(),
        );
        // Each machine is given the next one's connection by the client that reached it.
        text.push_str("  ProxyJump none\n");
        hops.push(alias);
    }
    let jump = if hops.is_empty() {
        "none".to_owned()
    } else {
        hops.join(",")
    };
    let mut routes = Vec::new();
    for (index, address) in host.addresses.iter().enumerate() {
        let alias = format!("way-{index}");
        block(
            &mut text,
            &alias,
            address.as_str(),
            host.port,
            host.user.as_deref(),
        );
        let _ = writeln!(text, "  ProxyJump {jump}");
        routes.push(Route {
            alias,
            address: address.clone(),
            is_direct: hops.is_empty(),
        });
    }
    // Nothing is ever pinned on the way through a machine.
    text.push_str("Host jump-*\n  StrictHostKeyChecking yes\n");
    text.push_str(&everything_else(common, check));
    (text, routes)
}

fn block(text: &mut String, alias: &str, address: &str, port: u16, user: Option<&str>) {
    let _ = writeln!(
        text,
        "Host {alias}\n  HostName {}\n  Port {port}",
        escaped(address)
    );
    if let Some(user) = user {
        let _ = writeln!(text, "  User {user}");
    }
}

/// Batch mode, and nothing of the user's: no key, no known host, no agent, no connection that is shared.
fn everything_else(common: &Common<'_>, check: Check) -> String {
    let checking = match check {
        Check::Strict => "yes",
        Check::PinFirst => "accept-new",
    };
    let (file, agent, only) = match common.login {
        Login::File(path) => (quoted(path), "none".to_owned(), "yes"),
        Login::Agent(socket) => ("none".to_owned(), quoted(socket), "no"),
    };
    format!(
        "Host *
  BatchMode yes
  StrictHostKeyChecking {checking}
  UserKnownHostsFile {known_hosts}
  GlobalKnownHostsFile none
  CheckHostIP no
  UpdateHostKeys no
  VerifyHostKeyDNS no
  HashKnownHosts no
  PreferredAuthentications publickey
  IdentitiesOnly {only}
  IdentityFile {file}
  IdentityAgent {agent}
  ForwardAgent no
  ClearAllForwardings yes
  ControlMaster no
  ControlPath none
  PermitLocalCommand no
  RequestTTY no
  ConnectionAttempts 1
  ConnectTimeout {seconds}
  ServerAliveInterval {seconds}
  ServerAliveCountMax 2
  LogLevel ERROR
",
        known_hosts = quoted(common.known_hosts),
        seconds = common.connect_seconds,
    )
}

/// `%` begins a token in addresses and paths.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

fn quoted(path: &Path) -> String {
    format!(
        "\"{}\"",
        escaped(&path.to_string_lossy()).replace('"', "\\\"")
    )
}

struct Hop {
    address: Address,
    port: u16,
    user: Option<String>,
}

/// The machines that lead to a host, the nearest to us first.
fn jumps(fleet: &Fleet, host: &Host) -> Vec<Hop> {
    let mut hops = Vec::new();
    let mut jump = host.jump.as_ref();
    while let Some(through) = jump {
        match through {
            Jump::Elsewhere {
                user,
                address,
                port,
            } => {
                hops.push(Hop {
                    address: address.clone(),
                    port: *port,
                    user: user.clone(),
                });
                break;
            }
            Jump::Host(name) => {
                // The output was checked: a jump host is there, and no chain is a circle.
                let Some(host) = fleet.hosts().find(|host| host.name == *name) else {
                    break;
                };
                let Some(address) = fleet.reached_at(name).or_else(|| host.addresses.first())
                else {
                    break;
                };
                hops.push(Hop {
                    address: address.clone(),
                    port: host.port,
                    user: host.user.clone(),
                });
                jump = host.jump.as_ref();
            }
        }
    }
    hops.reverse();
    hops
}

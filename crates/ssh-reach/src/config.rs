//! The ssh client's configuration: all that it goes by, for hosts and jump hosts alike.
//!
//! A file, since the client that it starts for a jump host gets `-F` passed on and no option.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Returns a configuration by which another program's ssh client gets to one host: by any name or address that
/// it is given, through the same machines and with the same keys as here. Every key must be pinned already.
///
/// The file's path must hold no blank: the client passes it on for a jump host as it is.
#[must_use]
pub fn client_config(
    fleet: &Fleet,
    host: &Host,
    known_hosts: &Path,
    login: &Login,
    patience: Duration,
) -> String {
    let mut text = String::new();
    let hops = hops(&mut text, fleet, host);
    let common = Common {
        known_hosts,
        login,
        connect_seconds: patience.as_secs().max(1),
    };
    let jump = through(&hops);
    let _ = write!(text, "{}", everything_else(&common, Check::Strict));
    let _ = writeln!(text, "  ProxyJump {jump}");
    text
}

/// Writes a block for each machine between, and returns their names.
fn hops(text: &mut String, fleet: &Fleet, host: &Host) -> Vec<String> {
    let mut hops = Vec::new();
    for (index, hop) in jumps(fleet, host).iter().enumerate() {
        let alias = format!("jump-{index}");
        block(
            text,
            &alias,
            hop.address.as_str(),
            hop.port,
            hop.user.as_deref(),
        );
        // Each machine is given the next one's connection by the client that reached it.
        text.push_str("  ProxyJump none\n");
        hops.push(alias);
    }
    hops
}

fn through(hops: &[String]) -> String {
    match hops {
        [] => "none".to_owned(),
        hops => hops.join(","),
    }
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
    let hops = hops(&mut text, fleet, host);
    let jump = through(&hops);
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

#[cfg(test)]
mod tests {
    use fleet::Workspace;
    use process::{How, Invocation, RealSpawner, collect};
    use serde_json::json;
    use std::time::Duration;

    use super::*;

    /// What the client says that it goes by.
    fn by_client(config: &str, alias: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        process::files::write_atomically(&path, config.as_bytes(), 0o600).unwrap();
        let call = Invocation::new(test_support::ssh_client(), dir.path())
            .args(["-F", "config", "-G", alias]);
        let limit = Duration::from_secs(60);
        let ended = collect(
            &RealSpawner::direct(),
            &call,
            &How::reader(),
            limit,
            &mut || false,
        )
        .unwrap();
        assert!(
            ended.exit.is_success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
        String::from_utf8(ended.stdout).unwrap()
    }

    fn configured(login: &Login, check: Check) -> (String, Vec<Route>) {
        let hosts = json!({
            "web1": { "addresses": ["192.0.2.1", "fe80::1%eth0"], "port": 2222, "user": "admin", "jump_host": "b1" },
            "b1": { "address": "192.0.2.2", "jump_host": "ops@192.0.2.3:2200" },
        });
        let workspace = Workspace::parse("prod".parse().unwrap(), &hosts).unwrap();
        let fleet = Fleet::new(vec![workspace]).unwrap();
        let host = fleet.hosts().next().unwrap();
        let known_hosts = Path::new("/own/100% \"quoted\" place/known_hosts");
        let common = Common {
            known_hosts,
            login,
            connect_seconds: 5,
        };
        of_host(&fleet, host, &common, check)
    }

    /// Cases H2 and A8: neither for a host nor for a jump host does the client read a file of the user's or of
    /// the system's, and it never asks.
    #[test]
    fn the_client_goes_by_nothing_of_the_users() {
        for login in [
            Login::File("/own/key".into()),
            Login::Agent("/own/agent.sock".into()),
        ] {
            for check in [Check::Strict, Check::PinFirst] {
                let (config, _) = configured(&login, check);
                for alias in ["way-0", "way-1", "jump-0", "jump-1"] {
                    let says = by_client(&config, alias);
                    // Names of files that nothing switches on may stay; those that would be read may not.
                    let read = says.lines().filter(|line| {
                        [
                            "identityfile",
                            "userknownhostsfile",
                            "globalknownhostsfile",
                            "certificatefile",
                            "identityagent",
                            "include",
                            "controlpath",
                        ]
                        .contains(&line.split(' ').next().unwrap_or_default())
                    });
                    for line in read {
                        assert!(
                            !line.contains(".ssh/") && !line.contains("/etc/ssh"),
                            "{alias}: {line}"
                        );
                    }
                    assert!(says.contains("batchmode yes\n"), "{says}");
                    assert!(says.contains("userknownhostsfile /own/100%"), "{says}");
                    let is_strict = check == Check::Strict || alias.starts_with("jump");
                    let strict = if is_strict {
                        "stricthostkeychecking true\n"
                    } else {
                        "stricthostkeychecking accept-new\n"
                    };
                    assert!(says.contains(strict), "{alias}: {says}");
                }
            }
        }
    }

    #[test]
    fn another_programs_client_goes_the_same_way_by_whatever_name_it_is_given() {
        let hosts =
            json!({ "web1": { "address": "192.0.2.1", "jump_host": "ops@192.0.2.9:2200" } });
        let workspace = Workspace::parse("prod".parse().unwrap(), &hosts).unwrap();
        let fleet = Fleet::new(vec![workspace]).unwrap();
        let host = fleet.hosts().next().unwrap();
        let config = client_config(
            &fleet,
            host,
            Path::new("/own/known_hosts"),
            &Login::File("/own/key".into()),
            Duration::from_secs(10),
        );
        let says = by_client(&config, "192.0.2.1");
        for line in [
            "hostname 192.0.2.1\n",
            "proxyjump jump-0",
            "stricthostkeychecking true\n",
            "batchmode yes\n",
            "userknownhostsfile /own/known_hosts\n",
            "identityfile /own/key\n",
        ] {
            assert!(says.contains(line), "no {line:?} in {says}");
        }
        let jump = by_client(&config, "jump-0");
        for line in [
            "hostname 192.0.2.9\n",
            "port 2200\n",
            "user ops\n",
            "stricthostkeychecking true\n",
        ] {
            assert!(jump.contains(line), "no {line:?} in {jump}");
        }
        assert!(!jump.contains("proxyjump jump"), "{jump}");
    }

    #[test]
    fn each_address_is_a_way_of_its_own_through_the_same_machines() {
        let (config, routes) = configured(&Login::File("/own/key".into()), Check::Strict);
        assert_eq!(routes.len(), 2);
        assert!(routes.iter().all(|route| !route.is_direct));
        for (alias, lines) in [
            (
                "way-0",
                [
                    "hostname 192.0.2.1\n",
                    "port 2222\n",
                    "user admin\n",
                    "proxyjump jump-0,jump-1",
                ],
            ),
            (
                "way-1",
                [
                    "hostname fe80::1%",
                    "port 2222\n",
                    "user admin\n",
                    "proxyjump jump-0,jump-1",
                ],
            ),
            (
                "jump-0",
                ["hostname 192.0.2.3\n", "port 2200\n", "user ops\n", ""],
            ),
            ("jump-1", ["hostname 192.0.2.2\n", "port 22\n", "", ""]),
        ] {
            let says = by_client(&config, alias);
            for line in lines {
                assert!(says.contains(line), "{alias}: no {line:?} in {says}");
            }
        }
    }
}

//! Which key a host must show: declared, signed, or pinned at first sight.

use known_hosts::{HostPort, KnownHosts, PublicKey, Shared, Verdict};

use fleet::{Host, HostName, Jump};

/// Where a target takes the first host key of a machine from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKeys {
    /// The output `hosts` declares it.
    Declared,
    /// This authority signs it.
    Authority(PublicKey),
    /// It is pinned when it is seen first: an explicit choice.
    TrustFirst,
}

/// How the ssh client is to take the key that a host shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It must be in the file, or be signed by an authority in it.
    Strict,
    /// Nothing is known of the host: it is pinned.
    PinFirst,
}

/// Why a host is not even tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnboardError {
    /// The target wants declared keys, and none is.
    #[error(
        "`hosts.{host}.host_key` is not declared, and the target's `host_keys` is \"declared\""
    )]
    Undeclared {
        /// The host.
        host: HostName,
    },
    /// The way leads through a machine of which no key is known.
    #[error(
        "the way to `{host}` leads through `{place}`, of which no key is known; declare it as `hosts.{host}.jump_host_key`"
    )]
    UndeclaredJump {
        /// The host.
        host: HostName,
        /// The machine between.
        place: HostPort,
    },
    /// The declared key is not the pinned one, and this run did not replace the machine.
    #[error(
        "`{host}` is pinned as `{place}` with {}, and its output declares {}; this run did not replace its machine",
        shown(pinned),
        shown(declared)
    )]
    Changed {
        /// The host.
        host: HostName,
        /// Its place in the file.
        place: HostPort,
        /// The pinned keys.
        pinned: Vec<PublicKey>,
        /// The declared ones.
        declared: Vec<PublicKey>,
    },
    /// A declared key is revoked.
    #[error("the key that `hosts.{host}.host_key` declares is revoked: {key:?}")]
    Revoked {
        /// The host.
        host: HostName,
        /// The key.
        key: PublicKey,
    },
    /// A line by a pattern is in the way.
    #[error("the keys of `{host}` can't be pinned")]
    Shared {
        /// The host.
        host: HostName,
        /// Which line.
        #[source]
        source: Shared,
    },
}

fn shown(keys: &[PublicKey]) -> String {
    keys.iter()
        .map(|key| format!("{key:?}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Makes the file say what is known of a host before it is tried.
///
/// `is_replaced`: this very run made the machine, or made it anew. Only then is a pinned key given up.
///
/// # Errors
/// When the host must not be tried; the file is as it was then.
pub fn prepare(
    known: &mut KnownHosts,
    host: &Host,
    policy: &HostKeys,
    is_replaced: bool,
) -> Result<Check, OnboardError> {
    if *policy == HostKeys::Declared && host.host_keys.is_empty() {
        return Err(OnboardError::Undeclared {
            host: host.name.clone(),
        });
    }
    let mut after = known.clone();
    for place in places(host) {
        pin_declared(&mut after, host, &place, &host.host_keys, is_replaced)?;
        after.trust_only(&place, authority(policy));
    }
    know_jump(&mut after, host, policy)?;
    let is_known = places(host).any(|place| !after.find(&place).keys.is_empty());
    *known = after;
    Ok(match policy {
        HostKeys::TrustFirst if !is_known => Check::PinFirst,
        _ => Check::Strict,
    })
}

/// Who may vouch for hosts: one that the target named before may not any more.
fn authority(policy: &HostKeys) -> Option<&PublicKey> {
    match policy {
        HostKeys::Authority(key) => Some(key),
        HostKeys::Declared | HostKeys::TrustFirst => None,
    }
}

/// A jump host elsewhere is no machine of ours: its key is declared, signed, or pinned already, never seen first.
fn know_jump(known: &mut KnownHosts, host: &Host, policy: &HostKeys) -> Result<(), OnboardError> {
    let Some(Jump::Elsewhere { address, port, .. }) = &host.jump else {
        return Ok(());
    };
    let place = HostPort::new(address.as_str(), *port);
    pin_declared(known, host, &place, &host.jump_host_keys, false)?;
    known.trust_only(&place, authority(policy));
    if authority(policy).is_none() && known.find(&place).keys.is_empty() {
        return Err(OnboardError::UndeclaredJump {
            host: host.name.clone(),
            place,
        });
    }
    Ok(())
}

fn pin_declared(
    known: &mut KnownHosts,
    host: &Host,
    place: &HostPort,
    keys: &[PublicKey],
    is_replaced: bool,
) -> Result<(), OnboardError> {
    if is_replaced {
        known.forget(place);
    }
    for key in keys {
        match known.verdict(place, key) {
            Verdict::Known | Verdict::Unknown => {}
            Verdict::Revoked => {
                return Err(OnboardError::Revoked {
                    host: host.name.clone(),
                    key: key.clone(),
                });
            }
            // A second declared key of a host that has the first is no change.
            Verdict::Changed { pinned } if pinned.iter().all(|one| keys.contains(one)) => {}
            Verdict::Changed { pinned } if !is_replaced => {
                return Err(OnboardError::Changed {
                    host: host.name.clone(),
                    place: place.clone(),
                    pinned,
                    declared: keys.to_vec(),
                });
            }
            Verdict::Changed { .. } => {}
        }
    }
    if keys.is_empty() {
        return Ok(());
    }
    known
        .replace(place, keys)
        .map_err(|source| OnboardError::Shared {
            host: host.name.clone(),
            source,
        })
}

/// Pins what a host showed at first sight, under each of its addresses.
///
/// # Errors
/// When another key was pinned since.
pub fn pin_seen(
    known: &mut KnownHosts,
    host: &Host,
    keys: &[PublicKey],
) -> Result<(), OnboardError> {
    let mut after = known.clone();
    for place in places(host) {
        let pinned = after.find(&place).keys;
        if !pinned.is_empty() && !pinned.iter().any(|key| keys.contains(key)) {
            return Err(OnboardError::Changed {
                host: host.name.clone(),
                place,
                pinned,
                declared: keys.to_vec(),
            });
        }
        after.pin(&place, keys);
    }
    *known = after;
    Ok(())
}

fn places(host: &Host) -> impl Iterator<Item = HostPort> {
    host.addresses
        .iter()
        .map(|address| HostPort::new(address.as_str(), host.port))
}

#[cfg(test)]
mod tests {
    use fleet::Workspace;
    use serde_json::{Value, json};

    use super::*;

    const KEYS: [&str; 2] = [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPu6xmwrzS2RTiUad1NCeSK04+G1bU04pCcBi6mJd64m",
    ];

    fn host(key: Option<usize>) -> Host {
        let hosts: Value = json!({ "web1": {
            "addresses": ["192.0.2.1", "2001:db8::1"], "port": 2222, "host_key": key.map(|key| KEYS[key]),
        }});
        Workspace::parse("prod".parse().unwrap(), &hosts)
            .unwrap()
            .hosts
            .remove(0)
    }

    fn key(number: usize) -> PublicKey {
        KEYS[number].parse().unwrap()
    }

    fn text(known: &KnownHosts) -> String {
        String::from_utf8(known.to_bytes()).unwrap()
    }

    #[test]
    fn a_declared_key_is_pinned_for_every_address() {
        let mut known = KnownHosts::default();
        let check = prepare(&mut known, &host(Some(0)), &HostKeys::Declared, false);
        assert_eq!(check, Ok(Check::Strict));
        let expected = format!("[192.0.2.1]:2222 {0}\n[2001:db8::1]:2222 {0}\n", KEYS[0]);
        assert_eq!(text(&known), expected);
        prepare(&mut known, &host(Some(0)), &HostKeys::Declared, false).unwrap();
        assert_eq!(text(&known), expected, "once");
        let error = prepare(&mut known, &host(None), &HostKeys::Declared, false).unwrap_err();
        assert!(matches!(error, OnboardError::Undeclared { .. }));
    }

    /// Case H1: a pinned key is given up only where this run replaced the machine.
    #[test]
    fn a_changed_key_needs_a_replaced_machine() {
        for policy in [HostKeys::Declared, HostKeys::TrustFirst] {
            let mut known = KnownHosts::parse(b"other line\n");
            prepare(&mut known, &host(Some(0)), &policy, false).unwrap();
            let before = known.clone();
            let error = prepare(&mut known, &host(Some(1)), &policy, false).unwrap_err();
            assert!(matches!(error, OnboardError::Changed { .. }), "{error}");
            assert_eq!(known, before, "nothing changed");
            prepare(&mut known, &host(Some(1)), &policy, true).unwrap();
            assert!(!text(&known).contains(KEYS[0]) && text(&known).starts_with("other line\n"));
        }
    }

    #[test]
    fn trust_first_pins_once_and_never_again() {
        let mut known = KnownHosts::default();
        let host = host(None);
        let policy = HostKeys::TrustFirst;
        assert_eq!(
            prepare(&mut known, &host, &policy, false),
            Ok(Check::PinFirst)
        );
        pin_seen(&mut known, &host, &[key(0)]).unwrap();
        assert_eq!(
            prepare(&mut known, &host, &policy, false),
            Ok(Check::Strict)
        );
        assert!(pin_seen(&mut known, &host, &[key(1)]).is_err());
        assert_eq!(
            prepare(&mut known, &host, &policy, true),
            Ok(Check::PinFirst),
            "another machine"
        );
    }

    #[test]
    fn an_authority_is_written_down_for_the_hosts_addresses_alone() {
        let mut known = KnownHosts::default();
        let policy = HostKeys::Authority(key(0));
        assert_eq!(
            prepare(&mut known, &host(None), &policy, false),
            Ok(Check::Strict)
        );
        let expected = format!(
            "@cert-authority [192.0.2.1]:2222 {0}\n@cert-authority [2001:db8::1]:2222 {0}\n",
            KEYS[0]
        );
        assert_eq!(text(&known), expected);
        let other = HostKeys::Authority(key(1));
        prepare(&mut known, &host(None), &other, false).unwrap();
        assert_eq!(
            text(&known),
            expected.replace(KEYS[0], KEYS[1]),
            "the former one vouches no more"
        );
        let declared = HostKeys::Declared;
        prepare(&mut known, &host(Some(0)), &declared, false).unwrap();
        assert!(
            !text(&known).contains("@cert-authority"),
            "{}",
            text(&known)
        );
    }

    #[test]
    fn a_jump_host_elsewhere_needs_a_known_key() {
        let jumping = |key: Option<&str>| {
            let hosts = json!({ "web1": {
                "address": "192.0.2.1", "host_key": KEYS[0], "jump_host": "ops@192.0.2.9:2200", "jump_host_key": key,
            }});
            let workspace = Workspace::parse("prod".parse().unwrap(), &hosts).unwrap();
            workspace.hosts.into_iter().next().unwrap()
        };
        let mut known = KnownHosts::default();
        for policy in [HostKeys::Declared, HostKeys::TrustFirst] {
            let error = prepare(&mut known, &jumping(None), &policy, false).unwrap_err();
            assert!(
                error.to_string().contains("`hosts.web1.jump_host_key`"),
                "{error}"
            );
            assert_eq!(known, KnownHosts::default());
        }
        prepare(
            &mut known,
            &jumping(Some(KEYS[1])),
            &HostKeys::Declared,
            false,
        )
        .unwrap();
        assert!(text(&known).contains(&format!("[192.0.2.9]:2200 {}\n", KEYS[1])));
        prepare(&mut known, &jumping(None), &HostKeys::Declared, false).unwrap();
        let changed = prepare(
            &mut known,
            &jumping(Some(KEYS[0])),
            &HostKeys::Declared,
            true,
        );
        assert!(
            matches!(changed, Err(OnboardError::Changed { .. })),
            "a replaced host is no new jump host"
        );
    }

    #[test]
    fn a_revoked_key_is_refused() {
        let mut known = KnownHosts::parse(format!("@revoked * {}\n", KEYS[0]).as_bytes());
        let error = prepare(&mut known, &host(Some(0)), &HostKeys::Declared, true).unwrap_err();
        assert!(matches!(error, OnboardError::Revoked { .. }));
    }
}

//! One bounded scan for machines that wait for their configuration. Nothing else is sent than what opens a
//! connection.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The port on which Talos answers, with and without a configuration.
pub const PORT: u16 = 50_000;
/// How long a connection may take to be opened.
pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(800);
/// How many connections are tried at once.
pub const AT_ONCE: usize = 64;
/// More addresses are not scanned.
pub const MAX_ADDRESSES: u128 = 4_096;

/// Why nothing is scanned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// A text is no network.
    #[error("`{text}` is no network: one looks like `192.168.1.0/24`, or is one address")]
    NoNetwork {
        /// The text.
        text: String,
    },
    /// There are too many addresses.
    #[error("{n} addresses are too many: at most {MAX_ADDRESSES} are scanned at once")]
    TooMany {
        /// How many, all networks together.
        n: u128,
    },
}

/// Returns the addresses of networks, without those of the networks themselves and of their broadcasts.
///
/// # Errors
/// A text is no network, or there are too many addresses.
pub fn addresses<T: AsRef<str>>(networks: &[T]) -> Result<Vec<IpAddr>, ScanError> {
    let mut n = 0_u128;
    let mut ranges = Vec::new();
    for text in networks {
        let (first, count) = range(text.as_ref())?;
        n = n.saturating_add(count);
        ranges.push((first, count));
    }
    if n > MAX_ADDRESSES {
        return Err(ScanError::TooMany { n });
    }
    let mut all = BTreeSet::new();
    for (first, count) in ranges {
        all.extend((0..count).map(|offset| after(first, offset)));
    }
    Ok(all.into_iter().collect())
}

/// The first address of a network that a machine can have, and how many there are.
fn range(text: &str) -> Result<(IpAddr, u128), ScanError> {
    let no_network = || ScanError::NoNetwork {
        text: text.to_owned(),
    };
    let (address, bits) = match text.split_once('/') {
        None => (text, None),
        Some((address, bits)) => {
            let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
            let bits = bits.parse::<u32>().ok().filter(|_| digits);
            (address, Some(bits.ok_or_else(no_network)?))
        }
    };
    let address: IpAddr = address.parse().map_err(|_| no_network())?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    if bits > width {
        return Err(no_network());
    }
    let host_bits = width - bits;
    let size = 1_u128.checked_shl(host_bits).unwrap_or(u128::MAX);
    let number = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let first = number & !(size.wrapping_sub(1));
    let of = |number: u128| match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
    };
    // Of two or one every address is a machine's (RFC 3021); IPv6 has no broadcast, and its first address is a
    // router's (RFC 4291).
    Ok(match (address, host_bits) {
        (_, 0 | 1) => (of(first), size),
        (IpAddr::V4(_), _) => (of(first + 1), size - 2),
        (IpAddr::V6(_), _) => (of(first + 1), size - 1),
    })
}

fn after(first: IpAddr, offset: u128) -> IpAddr {
    match first {
        IpAddr::V4(first) => {
            let offset = u32::try_from(offset).unwrap_or(u32::MAX);
            IpAddr::V4(Ipv4Addr::from(u32::from(first).saturating_add(offset)))
        }
        IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from(u128::from(first).saturating_add(offset))),
    }
}

/// Tries every address once; returns those that accept a connection, in order.
///
/// `is_wanted` is asked before each: nothing more is tried once it says no.
pub fn scan(
    addresses: &[IpAddr],
    port: u16,
    connect: &(dyn Fn(SocketAddr) -> bool + Sync),
    is_wanted: &(dyn Fn() -> bool + Sync),
) -> Vec<IpAddr> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    let work = || {
        while let Some(address) = addresses.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !is_wanted() {
                return;
            }
            if connect(SocketAddr::new(*address, port)) {
                found
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(*address);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..AT_ONCE.min(addresses.len()) {
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable();
    found
}

/// Opens a connection, and closes it at once.
#[must_use]
pub fn connects(address: SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Condvar;

    use proptest::prelude::*;

    use super::*;

    fn texts(networks: &[&str]) -> Vec<String> {
        let all = addresses(networks).unwrap();
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn networks_and_broadcasts_are_left_out() {
        assert_eq!(texts(&["10.0.0.0/30"]), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(texts(&["10.0.0.7/30"]), ["10.0.0.5", "10.0.0.6"]);
        assert_eq!(texts(&["10.0.0.0/31"]), ["10.0.0.0", "10.0.0.1"]);
        assert_eq!(texts(&["10.0.0.9/32", "10.0.0.9"]), ["10.0.0.9"]);
        assert_eq!(texts(&["fd00::/126"]), ["fd00::1", "fd00::2", "fd00::3"]);
        assert_eq!(addresses(&["10.0.0.0/24"]).unwrap().len(), 254);
        assert_eq!(addresses(&[""; 0]).unwrap().len(), 0);
    }

    #[test]
    fn more_than_the_most_is_refused_before_anything_is_sent() {
        assert_eq!(addresses(&["10.0.0.0/20"]).unwrap().len(), 4_094);
        for too_many in [
            &["10.0.0.0/19"][..],
            &["0.0.0.0/0"],
            &["::/0"],
            &["10.0.0.0/20", "10.1.0.0/29"],
        ] {
            assert!(
                matches!(addresses(too_many), Err(ScanError::TooMany { .. })),
                "{too_many:?}"
            );
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0/24",
            "lan",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "fd00::/129",
        ] {
            assert!(
                matches!(addresses(&[wrong]), Err(ScanError::NoNetwork { .. })),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_listens_is_found_and_what_does_not_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // All of 127.0.0.0/8 is this machine; only one address of it is listened on.
        let all = addresses(&["127.0.0.0/28"]).unwrap();
        assert_eq!(
            scan(&all, port, &connects, &|| true),
            ["127.0.0.1".parse::<IpAddr>().unwrap()]
        );
    }

    #[test]
    fn no_more_are_tried_at_once_than_the_most() {
        let all = addresses(&["10.0.0.0/22"]).unwrap();
        let state = Mutex::new((0_usize, 0_usize, 0_usize));
        let full = Condvar::new();
        let connect = |_: SocketAddr| {
            let mut held = state.lock().unwrap();
            held.0 += 1;
            held.1 = held.1.max(held.0);
            held.2 += 1;
            full.notify_all();
            // The first ones wait for each other, so that the most is really reached.
            if held.2 <= AT_ONCE {
                let limit = Duration::from_secs(30);
                held = full
                    .wait_timeout_while(held, limit, |(_, most, _)| *most < AT_ONCE)
                    .unwrap()
                    .0;
            }
            held.0 -= 1;
            false
        };
        assert!(scan(&all, PORT, &connect, &|| true).is_empty());
        let (_, most, n) = *state.lock().unwrap();
        assert_eq!((most, n), (AT_ONCE, all.len()));
        assert!(scan(&all, PORT, &|_| true, &|| false).is_empty());
    }

    proptest! {
        #[test]
        fn every_network_holds_its_own_addresses_and_only_those(a: u32, bits in 20_u32..=32) {
            let network = format!("{}/{bits}", Ipv4Addr::from(a));
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            for address in addresses(&[network]).unwrap() {
                let IpAddr::V4(address) = address else { panic!("{address}") };
                prop_assert_eq!(u32::from(address) & mask, a & mask);
            }
        }
    }
}

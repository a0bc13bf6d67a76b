//! The tcp probe.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};

use crate::deadline::Deadline;
use crate::failure::Came;
use crate::probe::TcpProbe;

/// Asks once: any of the host's addresses that accepts is enough.
pub(crate) fn ask(probe: &TcpProbe, deadline: Deadline) -> Result<(), Came> {
    let timed_out = || Came::TimedOut {
        after: deadline.allowed(),
    };
    let addresses = resolve(&probe.address, deadline)?;
    let mut last = None;
    for address in addresses {
        let left = deadline.left().ok_or_else(timed_out)?;
        match TcpStream::connect_timeout(&address, left) {
            Ok(_) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        None => Came::Unresolved {
            host: probe.address.clone(),
            reason: "no address".to_owned(),
        },
        Some(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Came::Refused,
            io::ErrorKind::TimedOut => timed_out(),
            _ => Came::Broken {
                reason: error.to_string(),
            },
        },
    })
}

/// The host's addresses. The system's resolver knows no deadline, so it is asked on a thread that is
/// left behind when the deadline passes.
fn resolve(address: &str, deadline: Deadline) -> Result<Vec<SocketAddr>, Came> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let asked = address.to_owned();
    std::thread::spawn(move || {
        // Nobody listens any more once the deadline has passed.
        let _ = sender.send(asked.to_socket_addrs().map(Vec::from_iter));
    });
    match receiver.recv_timeout(deadline.left().unwrap_or_default()) {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => Err(Came::Unaskable {
            reason: format!("`{address}` is not `host:port`"),
        }),
        Ok(Err(error)) => Err(Came::Unresolved {
            host: address.to_owned(),
            reason: error.to_string(),
        }),
        Err(RecvTimeoutError::Timeout) => Err(Came::TimedOut {
            after: deadline.allowed(),
        }),
        Err(RecvTimeoutError::Disconnected) => Err(Came::Unresolved {
            host: address.to_owned(),
            reason: "the resolver's thread died".to_owned(),
        }),
    }
}

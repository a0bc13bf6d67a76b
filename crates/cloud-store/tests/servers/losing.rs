//! A proxy that loses the answer of the next request: the server has done it, the client can't know.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The proxy. It ends with the test's process.
pub(crate) struct Losing {
    pub(crate) address: SocketAddr,
    to_lose: Arc<AtomicUsize>,
    lost: Arc<AtomicUsize>,
}

impl Losing {
    /// Stands in front of `server`.
    pub(crate) fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (to_lose, lost) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let proxy = Self {
            address,
            to_lose: Arc::clone(&to_lose),
            lost: Arc::clone(&lost),
        };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(server).unwrap();
                let (to_lose, lost) = (Arc::clone(&to_lose), Arc::clone(&lost));
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || forward(from, to, || false));
                std::thread::spawn(move || {
                    let lose = || {
                        let take = |n: usize| n.checked_sub(1);
                        let taken = to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
                        if taken.is_ok() {
                            lost.fetch_add(1, Ordering::SeqCst);
                        }
                        taken.is_ok()
                    };
                    forward(server, client, lose);
                });
            }
        });
        proxy
    }

    /// Loses the next answer.
    pub(crate) fn lose_next(&self) {
        self.to_lose.store(1, Ordering::SeqCst);
    }

    /// How many answers were lost.
    pub(crate) fn n_lost(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }
}

/// Copies until the end; where `lose` says so, what came is dropped and both ends are closed.
fn forward(mut from: TcpStream, mut to: TcpStream, lose: impl Fn() -> bool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if lose() || to.write_all(&buffer[..n]).is_err() {
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

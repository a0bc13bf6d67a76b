//! A proxy before the gateway that counts writes and stops all traffic at one of them: where a process is to be killed.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The proxy.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    behind: SocketAddr,
    n_writes: AtomicUsize,
    /// The write that does not get through, nor anything after it.
    stop_at: AtomicUsize,
    stopped: Mutex<bool>,
    told: Condvar,
    is_over: AtomicBool,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Proxy {
    /// Starts one that lets everything through.
    pub(crate) fn before(behind: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            behind,
            n_writes: AtomicUsize::new(0),
            stop_at: AtomicUsize::new(usize::MAX),
            stopped: Mutex::new(false),
            told: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let inner = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if inner.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), shared) = (client, Arc::clone(&inner)) else {
                    return;
                };
                std::thread::spawn(move || shared.serve(client));
            }
        });
        Self { address, shared }
    }

    /// How many writes came so far.
    pub(crate) fn n_writes(&self) -> usize {
        self.shared.n_writes.load(Ordering::SeqCst)
    }

    /// Stops everything at the `nth` write from now; 1 is the next.
    pub(crate) fn stop_at(&self, nth: usize) {
        let at = self.n_writes() + nth;
        self.shared.stop_at.store(at, Ordering::SeqCst);
    }

    /// Waits until that write has come; false where it did not come in time.
    pub(crate) fn await_stop(&self) -> bool {
        let stopped = self.shared.stopped.lock().unwrap();
        let (stopped, _) = self
            .shared
            .told
            .wait_timeout_while(stopped, Duration::from_secs(90), |stopped| !*stopped)
            .unwrap();
        *stopped
    }

    /// Lets everything through again.
    pub(crate) fn go_on(&self) {
        self.shared.stop_at.store(usize::MAX, Ordering::SeqCst);
        *self.shared.stopped.lock().unwrap() = false;
    }
}

impl Shared {
    /// Passes one connection on, request by request; what follows on a connection is seen by its first bytes.
    fn serve(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(self.behind) else {
            return;
        };
        let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let back = std::thread::spawn(move || {
            let (mut server, mut client) = (server, client);
            let _ = std::io::copy(&mut server, &mut client);
            let _ = client.shutdown(Shutdown::Both);
        });
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = up.read(&mut buffer) {
            let bytes = &buffer[..n];
            let is_write = bytes.starts_with(b"PUT ") || bytes.starts_with(b"DELETE ");
            if is_write && !self.may_write() {
                break;
            }
            if down.write_all(bytes).is_err() {
                break;
            }
        }
        let _ = up.shutdown(Shutdown::Both);
        let _ = down.shutdown(Shutdown::Both);
        let _ = back.join();
    }

    fn may_write(&self) -> bool {
        let n = self.n_writes.fetch_add(1, Ordering::SeqCst) + 1;
        if n < self.stop_at.load(Ordering::SeqCst) {
            return true;
        }
        *self.stopped.lock().unwrap() = true;
        self.told.notify_all();
        // Held until the test has killed who wrote it: the answer never comes.
        let mut stopped = self.stopped.lock().unwrap();
        while *stopped && !self.is_over.load(Ordering::SeqCst) {
            let waited = self.told.wait_timeout(stopped, Duration::from_millis(100));
            stopped = waited.unwrap().0;
        }
        false
    }
}

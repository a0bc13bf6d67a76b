//! Connections: taken in within limits, with or without TLS, and ended in order.

use crate::access::AccessRecord;
use crate::credential::Keyring;
use crate::metrics::Metrics;
use crate::service::{Shared, serve};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use state_backend::StateBackend;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// How many headers a request may have.
const MAX_HEADERS: usize = 64;
/// The longest head of a request, and what is read of a connection at once, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// How long a new connection may take until TLS stands.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait where the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Takes each record of the access log.
pub type Log = Arc<dyn Fn(&AccessRecord) + Send + Sync>;

/// What one client may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The biggest state that is taken, in bytes.
    pub max_body: u64,
    /// How many connections are open at once; more wait.
    pub max_connections: usize,
    /// How long the head of a request may take, and how long a connection may lie idle.
    pub head: Duration,
    /// How long a request's body may stand still.
    pub idle: Duration,
    /// How long requests that are under way may take once the server is to end.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body: 1024 * 1024 * 1024,
            max_connections: 512,
            head: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            grace: Duration::from_secs(30),
        }
    }
}

/// How a server is started.
pub struct Options {
    /// Where it listens; port 0 takes any.
    pub listen: SocketAddr,
    /// TLS; without it everything is in the clear.
    pub tls: Option<Arc<ServerConfig>>,
    /// Who may come.
    pub keyring: Keyring,
    /// Whether nobody may write, whatever a credential says.
    pub read_only: bool,
    /// Whether `/metrics` needs no credential.
    pub open_metrics: bool,
    /// What one client may cost.
    pub limits: Limits,
    /// Takes each record of the access log.
    pub log: Log,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("is_tls", &self.tls.is_some())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The port could not be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The threads could not be started.
    #[error("cannot start the threads of the state backend")]
    Thread(#[source] io::Error),
}

/// A served state backend; it ends with [`stop`](Self::stop) or drop.
pub struct Server {
    shared: Arc<Shared>,
    tls: Arc<RwLock<Option<Arc<ServerConfig>>>>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server; it answers from now on.
    ///
    /// # Errors
    /// Where the port or the threads can't be had.
    pub fn start(backend: Arc<StateBackend>, options: Options) -> Result<Self, ServerError> {
        let listen = |source| ServerError::Listen {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("backend")
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServerError::Thread)?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(ServerError::Thread)?
        };
        let shared = Arc::new(Shared {
            backend,
            keyring: RwLock::new(Arc::new(options.keyring)),
            read_only: options.read_only,
            open_metrics: options.open_metrics,
            limits: options.limits,
            metrics: Metrics::new(),
            log: options.log,
            health: Mutex::new(None),
        });
        let tls = Arc::new(RwLock::new(options.tls));
        let (stop, stopped) = watch::channel(false);
        let accepting = accept(listener, Arc::clone(&shared), Arc::clone(&tls), stopped);
        let thread = std::thread::Builder::new()
            .name("backend".to_owned())
            .spawn(move || {
                runtime.block_on(accepting);
                // What still reads or writes the store after its grace is not waited for.
                runtime.shutdown_background();
            })
            .map_err(ServerError::Thread)?;
        Ok(Self {
            shared,
            tls,
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes other credentials and another certificate, for requests and connections from now on.
    pub fn replace(&self, keyring: Keyring, tls: Option<Arc<ServerConfig>>) {
        *self
            .shared
            .keyring
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(keyring);
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
    }

    /// Stops listening, lets requests that are under way end within their grace, and waits for that.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    shared: Arc<Shared>,
    tls: Arc<RwLock<Option<Arc<ServerConfig>>>>,
    mut stopped: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(shared.limits.max_connections));
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            Some(_) = connections.join_next() => continue,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let (Ok(permit), Ok((stream, peer))) = (permit, accepted) else {
            // Too many open files, most likely: others must end first.
            tokio::time::sleep(NO_ROOM).await;
            continue;
        };
        let tls = tls.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
        connections.spawn(async move {
            shared.metrics.connections.inc();
            connected(&shared, stream, peer, tls, stopped).await;
            shared.metrics.connections.dec();
            drop(permit);
        });
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(shared.limits.grace, ended).await;
}

async fn connected(
    shared: &Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    stopped: watch::Receiver<bool>,
) {
    // Without this every locked operation of OpenTofu waits 45 ms for a delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return speak(shared, stream, peer, stopped).await;
    };
    let handshake = tokio_rustls::TlsAcceptor::from(tls).accept(stream);
    match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(Ok(stream)) => speak(shared, stream, peer, stopped).await,
        Ok(Err(_)) | Err(_) => {
            shared.metrics.failed_handshakes.inc();
        }
    }
}

async fn speak(
    shared: &Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: SocketAddr,
    mut stopped: watch::Receiver<bool>,
) {
    let service = service_fn(|request| {
        let shared = Arc::clone(shared);
        async move { Ok::<_, Infallible>(serve(shared, peer, request).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(shared.limits.head)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service)
    );
    // An error is a client that went away, or spoke no HTTP: there is nobody to tell it.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

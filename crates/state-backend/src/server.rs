//! The HTTP server: a loopback port, a thread of its own, credentials.

use crate::answer::{Answer, Asked, Verb, answer};
use crate::grant::Grants;
use crate::{Access, GrantOptions, StateBackend};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// The biggest state that is taken, unless the options say otherwise.
const MAX_BODY: usize = 1024 * 1024 * 1024;
/// How long requests that are under way may take once the server is stopped.
const GRACE: Duration = Duration::from_secs(30);
/// How many refusals are kept until they are asked for.
const N_REFUSALS: usize = 100;

/// A request, as a hook sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSeen {
    /// `GET`, `POST`, `DELETE`, `LOCK` or `UNLOCK`.
    pub method: String,
    /// The step whose state is asked for.
    pub step_key: String,
    /// `?ID=`.
    pub id: Option<String>,
    /// The size of the body, in bytes.
    pub n_bytes: usize,
}

/// What a hook does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is not done; this status is answered.
    Instead(u16),
    /// It is done; this status is answered all the same, as if the true answer were lost.
    After(u16),
}

/// A request that was refused, and why: OpenTofu itself only shows the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `GET`, `POST`, `DELETE`, `LOCK` or `UNLOCK`.
    pub method: String,
    /// The step whose state was asked for.
    pub step_key: String,
    /// The status that was answered.
    pub status: u16,
    /// Why.
    pub why: String,
}

type Hook = Arc<dyn Fn(&RequestSeen) -> Fault + Send + Sync>;

/// How a server is started.
#[derive(Clone)]
pub struct ServerOptions {
    /// Where it listens; port 0 takes any.
    pub listen: SocketAddr,
    /// The biggest body that is taken, in bytes.
    pub max_body: usize,
    /// Asked about every request whose credential was found; for tests.
    pub on_request: Option<Hook>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            max_body: MAX_BODY,
            on_request: None,
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("listen", &self.listen)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The port could not be had.
    #[error("cannot listen on {address} for the state backend")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The thread or its runtime could not be started.
    #[error("cannot start the thread of the state backend")]
    Thread(#[source] io::Error),
}

struct Shared {
    backend: Arc<StateBackend>,
    grants: Grants,
    options: ServerOptions,
    refusals: Mutex<VecDeque<Refusal>>,
}

/// The state backend's HTTP server; it ends with [`stop`](Self::stop) or drop.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
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
    /// Where the port or the thread can't be had.
    pub fn start(backend: Arc<StateBackend>, options: ServerOptions) -> Result<Self, ServerError> {
        let listen = |source| ServerError::Listen {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServerError::Thread)?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(ServerError::Thread)?
        };
        let grants = Grants::default();
        let shared = Arc::new(Shared {
            backend,
            grants,
            options,
            refusals: Mutex::default(),
        });
        let app = axum::Router::new()
            .fallback(handle)
            .with_state(Arc::clone(&shared));
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("state backend".to_owned())
            .spawn(move || {
                runtime.block_on(serve(listener, app, stopped));
                runtime.shutdown_timeout(GRACE);
            })
            .map_err(ServerError::Thread)?;
        Ok(Self {
            shared,
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The states that it serves.
    pub fn backend(&self) -> &Arc<StateBackend> {
        &self.shared.backend
    }

    /// The biggest state that is taken, in bytes.
    pub fn max_body(&self) -> usize {
        self.shared.options.max_body
    }

    /// Makes a credential that opens one step's state.
    pub fn grant(&self, step_key: &str, options: GrantOptions) -> Access {
        let origin = format!("http://{}", self.address);
        self.shared.grants.add(&origin, step_key, options)
    }

    /// Ends a credential.
    pub fn revoke(&self, access: &Access) {
        self.shared.grants.remove(&access.username);
    }

    /// Takes what was refused of a step's state since it was last asked, oldest first.
    pub fn take_refusals(&self, step_key: &str) -> Vec<Refusal> {
        let mut refusals = self
            .shared
            .refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (taken, left): (VecDeque<_>, VecDeque<_>) = refusals
            .drain(..)
            .partition(|refusal| refusal.step_key == step_key);
        *refusals = left;
        taken.into()
    }

    /// Stops listening, lets requests that are under way end, and waits for that.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended by itself.
            let _ = stop.send(());
        }
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

async fn serve(
    listener: tokio::net::TcpListener,
    app: axum::Router,
    stopped: oneshot::Receiver<()>,
) {
    // Without this every locked operation of OpenTofu waits 45 ms for a delayed acknowledgement.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let (close, closed) = oneshot::channel::<()>();
    let serving = axum::serve(listener, app).with_graceful_shutdown(async {
        let _ = closed.await;
    });
    let serving = tokio::spawn(serving.into_future());
    // An error is a dropped sender, which means the same.
    let _ = stopped.await;
    let _ = close.send(());
    let _ = tokio::time::timeout(GRACE, serving).await;
}

async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // Never 404: OpenTofu would take it for "there is no state".
    let Some((username, password)) = credential(&parts.headers) else {
        return unauthorized();
    };
    let Some(grant) = shared.grants.find(&username, &password) else {
        return unauthorized();
    };
    if parts.uri.path().strip_prefix("/state/") != Some(grant.step_key.as_str()) {
        return respond(Answer::text(
            StatusCode::FORBIDDEN,
            "this credential opens another state",
        ));
    }
    let Some(verb) = Verb::of(&parts.method) else {
        return respond(Answer::text(
            StatusCode::METHOD_NOT_ALLOWED,
            "GET, POST, DELETE, LOCK or UNLOCK",
        ));
    };
    let Ok(body) = axum::body::to_bytes(body, shared.options.max_body).await else {
        return respond(Answer::text(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the body is cut, or has more than {} bytes",
                shared.options.max_body
            ),
        ));
    };
    let seen = RequestSeen {
        method: parts.method.to_string(),
        step_key: grant.step_key.clone(),
        id: lock_id(&parts.uri),
        n_bytes: body.len(),
    };
    let asked = Asked {
        verb,
        path: grant.step_key,
        read_only: grant.options.read_only,
        must_exist: grant.options.must_exist,
        id: seen.id.clone(),
        version: None,
        restores: None,
        content_md5: text_of(&parts.headers, "content-md5"),
        body: store::Body::from(Vec::from(body)),
    };
    let answered =
        tokio::task::spawn_blocking(move || respond(answer_seen(&shared, &seen, &asked))).await;
    answered.unwrap_or_else(|_| {
        respond(Answer::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the state backend failed",
        ))
    })
}

/// A header that is there and is text; one that is not is as wrong as a false one.
fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn answer_seen(shared: &Shared, seen: &RequestSeen, asked: &Asked) -> Answer {
    let fault = shared
        .options
        .on_request
        .as_ref()
        .map_or(Fault::None, |hook| hook(seen));
    let instead = |status: u16| {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Answer::text(status, "a fault of the test")
    };
    let about = || format!("{} {}", seen.method, seen.step_key);
    let fault = match ::fault::point("answer.before", about) {
        ::fault::Verdict::Go => fault,
        _ => Fault::Instead(500),
    };
    let mut answer = match fault {
        Fault::None => answer(&shared.backend, asked),
        Fault::Instead(status) => instead(status),
        Fault::After(status) => {
            answer(&shared.backend, asked);
            instead(status)
        }
    };
    if ::fault::point("answer.after", about).ok().is_err() {
        answer = instead(502);
    }
    if asked.verb == Verb::Post && answer.status.is_success() {
        shared.forget_refused_writes(&seen.step_key);
    }
    let is_no_state = asked.verb == Verb::Get && answer.status == StatusCode::NOT_FOUND;
    if !answer.status.is_success() && !is_no_state {
        shared.note(seen, &answer);
    }
    answer
}

impl Shared {
    /// A later state is written: what an earlier write lacked explains nothing any more.
    ///
    /// OpenTofu 1.12 writes the empty state of a first apply that is interrupted twice with one serial; encrypted,
    /// the second is other bytes and refused, and the next, with the serial after it, is taken.
    fn forget_refused_writes(&self, step_key: &str) {
        self.refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|refusal| refusal.step_key != step_key || refusal.method != "POST");
    }

    fn note(&self, seen: &RequestSeen, answer: &Answer) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() == N_REFUSALS {
            refusals.pop_front();
        }
        refusals.push_back(Refusal {
            method: seen.method.clone(),
            step_key: seen.step_key.clone(),
            status: answer.status.as_u16(),
            why: answer.body.to_vec().map_or_else(
                |error| error.to_string(),
                |text| String::from_utf8_lossy(&text).into_owned(),
            ),
        });
    }
}

fn credential(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (username, password) = decoded.split_once(':')?;
    Some((username.to_owned(), password.to_owned()))
}

/// `?ID=`, which OpenTofu sends as a UUID.
fn lock_id(uri: &Uri) -> Option<String> {
    let pairs = uri.query()?.split('&');
    pairs
        .filter_map(|pair| pair.split_once('='))
        .find(|(name, _)| *name == "ID")
        .map(|(_, id)| id.to_owned())
}

fn unauthorized() -> Response {
    let mut response = respond(Answer::text(
        StatusCode::UNAUTHORIZED,
        "a credential of this backend is needed",
    ));
    response.headers_mut().insert(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static("Basic realm=\"state\""),
    );
    response
}

fn respond(answer: Answer) -> Response {
    let Ok(bytes) = answer.body.to_vec() else {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        return response;
    };
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = answer.status;
    if let Some(md5) = answer
        .content_md5
        .and_then(|md5| HeaderValue::from_str(&md5).ok())
    {
        response.headers_mut().insert("content-md5", md5);
    }
    response
}

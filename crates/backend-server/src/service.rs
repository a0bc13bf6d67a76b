//! One request: who asks, may they, and what is answered.

use crate::access::{AccessRecord, near, short};
use crate::credential::{Credential, Keyring};
use crate::documents;
use crate::intake::{IntakeError, Sending, take_in};
use crate::metrics::{self, Metrics};
use crate::route::{Route, route};
use crate::server::{Limits, Log};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde::Serialize;
use state_backend::{Answer, Asked, BackendError, StateBackend, Verb, answer};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use store::{Body, layout};
use tokio::task::spawn_blocking;

/// The longest body of a request that is no state, in bytes.
const SMALL: u64 = 64 * 1024;
/// How long an answer to `/health` is given again before the store is asked anew.
const HEALTH: Duration = Duration::from_secs(2);

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) backend: Arc<StateBackend>,
    pub(crate) keyring: RwLock<Arc<Keyring>>,
    pub(crate) read_only: bool,
    pub(crate) open_metrics: bool,
    pub(crate) limits: Limits,
    pub(crate) metrics: Metrics,
    pub(crate) log: Log,
    pub(crate) health: Mutex<Option<(Instant, bool)>>,
}

/// What a record needs to know of a request.
struct Seen {
    who: Option<String>,
    lock: Option<String>,
    n_bytes_in: u64,
}

/// Answers, counts and logs.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Response<Sending> {
    let began = Instant::now();
    let method = request.method().as_str().to_owned();
    let path = short(request.uri().path());
    let mut seen = Seen {
        who: None,
        lock: None,
        n_bytes_in: 0,
    };
    let reply = reply(&shared, request, &mut seen).await;
    let (status, n_bytes_out) = (reply.answer.status.as_u16(), reply.answer.body.len());
    let took = began.elapsed();
    shared
        .metrics
        .count(&method, status, seen.n_bytes_in, n_bytes_out, took);
    let is_no_state = method == "GET" && status == 404;
    let why = (status >= 400 && !is_no_state)
        .then(|| reply.answer.body.chunk(0, 600).ok())
        .flatten()
        .map(|text| short(&String::from_utf8_lossy(&text)));
    let is_written = method == "POST" && status == 200;
    let warning = is_written
        .then(|| near(seen.n_bytes_in, shared.limits.max_body))
        .flatten();
    (shared.log)(&AccessRecord {
        at: jiff::Timestamp::now().to_string(),
        peer,
        who: seen.who,
        method: short(&method),
        path,
        lock: seen.lock.as_deref().map(short),
        status,
        n_bytes_in: seen.n_bytes_in,
        n_bytes_out,
        milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        why,
        warning,
    });
    reply.into_response()
}

/// An answer with what is said of it.
struct Reply {
    answer: Answer,
    content_type: &'static str,
    asks_for_credential: bool,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            content_type: "application/json",
            asks_for_credential: false,
        }
    }
}

impl Reply {
    fn text(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            content_type: "text/plain; charset=utf-8",
            ..Answer::text(status, text).into()
        }
    }

    fn into_response(self) -> Response<Sending> {
        let mut response = Response::new(Sending::of(self.answer.body));
        *response.status_mut() = self.answer.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(self.content_type),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let md5 = self.answer.content_md5;
        if let Some(md5) = md5.and_then(|md5| HeaderValue::from_str(&md5).ok()) {
            headers.insert("content-md5", md5);
        }
        if self.asks_for_credential {
            let basic = HeaderValue::from_static("Basic realm=\"state\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, basic);
            headers.append(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"state\""),
            );
        }
        response
    }
}

async fn reply(shared: &Arc<Shared>, request: Request<Incoming>, seen: &mut Seen) -> Reply {
    let route = route(request.uri());
    if matches!(route, Ok(Route::Health)) {
        return only_get(request.method()).unwrap_or(health(shared).await);
    }
    let keyring = shared
        .keyring
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let shown = keyring.shown(request.headers());
    seen.who = shown.map(|credential| credential.name().to_owned());
    if matches!(route, Ok(Route::Metrics))
        && (shared.open_metrics || shown.is_some_and(|shown| shown.rights().metrics))
    {
        return only_get(request.method()).unwrap_or(Reply {
            content_type: metrics::CONTENT_TYPE,
            ..Reply::text(StatusCode::OK, shared.metrics.text())
        });
    }
    // Before anything else is told: never 404, which OpenTofu would take for "there is no state".
    let Some(credential) = shown else {
        shared.metrics.unauthorized.inc();
        return Reply {
            asks_for_credential: true,
            ..Reply::text(
                StatusCode::UNAUTHORIZED,
                "a credential of this backend is needed",
            )
        };
    };
    match route {
        Ok(Route::Metrics) => Reply::text(
            StatusCode::FORBIDDEN,
            "this credential does not open `/metrics`",
        ),
        Ok(Route::Health) => health(shared).await,
        Ok(Route::States) => match only_get(request.method()) {
            Some(refusal) => refusal,
            None => {
                let credential = credential.clone();
                listed(shared, move |backend| {
                    documents::states(backend, |path| credential.rights().may_read(path))
                })
                .await
            }
        },
        Ok(Route::Versions { path }) => {
            let refusal = only_get(request.method()).or_else(|| unreadable(credential, &path));
            match refusal {
                Some(refusal) => refusal,
                None => listed(shared, move |backend| documents::versions(backend, &path)).await,
            }
        }
        Ok(Route::State {
            path,
            id,
            version,
            restores,
        }) => {
            seen.lock.clone_from(&id);
            let asked = Wanted {
                path,
                id,
                version,
                restores,
            };
            state(shared, credential, request, asked, seen).await
        }
        // OpenTofu takes a 404 for "there is no state", and this is the address of none.
        Err(error) => Reply::text(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

/// What the address of a state says.
struct Wanted {
    path: String,
    id: Option<String>,
    version: Option<String>,
    restores: Option<String>,
}

async fn state(
    shared: &Arc<Shared>,
    credential: &Credential,
    request: Request<Incoming>,
    wanted: Wanted,
    seen: &mut Seen,
) -> Reply {
    let Some(verb) = Verb::of(request.method()) else {
        return Reply::text(
            StatusCode::METHOD_NOT_ALLOWED,
            "GET, POST, DELETE, LOCK or UNLOCK",
        );
    };
    if let Some(refusal) = unreadable(credential, &wanted.path) {
        return refusal;
    }
    if verb != Verb::Get && shared.read_only {
        return Reply::text(
            StatusCode::FORBIDDEN,
            "these states belong to a target, which `rebuild` alone writes: they are served for reading",
        );
    }
    let (parts, body) = request.into_parts();
    let content_md5 = parts.headers.get("content-md5");
    let content_md5 = content_md5.map(|md5| String::from_utf8_lossy(md5.as_bytes()).into_owned());
    let may_write = credential.rights().may_write(&wanted.path);
    let most = match verb {
        Verb::Post if may_write => shared.limits.max_body,
        _ => SMALL,
    };
    let store = Arc::clone(shared.backend.store());
    let taken = take_in(body, move || store.body_writer(), most, shared.limits.idle).await;
    let body = match taken {
        Ok(body) => body,
        Err(error) => return refused_body(&error),
    };
    seen.n_bytes_in = body.len();
    let asked = Asked {
        verb,
        path: wanted.path,
        read_only: !may_write,
        must_exist: None,
        id: wanted.id,
        version: wanted.version,
        restores: wanted.restores,
        content_md5,
        body,
    };
    let backend = Arc::clone(&shared.backend);
    match spawn_blocking(move || answer(&backend, &asked)).await {
        Ok(answer) => answer.into(),
        Err(_) => Reply::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the state backend failed",
        ),
    }
}

fn refused_body(error: &IntakeError) -> Reply {
    let status = match error {
        IntakeError::Long { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        IntakeError::Cut => StatusCode::BAD_REQUEST,
        IntakeError::Slow(_) => StatusCode::REQUEST_TIMEOUT,
        IntakeError::Kept(source) => {
            return Reply::text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{error}: {source}"),
            );
        }
    };
    Reply::text(status, error.to_string())
}

fn only_get(method: &Method) -> Option<Reply> {
    (method != Method::GET).then(|| Reply::text(StatusCode::METHOD_NOT_ALLOWED, "GET alone"))
}

fn unreadable(credential: &Credential, path: &str) -> Option<Reply> {
    (!credential.rights().may_read(path))
        .then(|| Reply::text(StatusCode::FORBIDDEN, "this credential opens other paths"))
}

async fn listed<T: Serialize + Send + 'static>(
    shared: &Arc<Shared>,
    list: impl FnOnce(&StateBackend) -> Result<T, BackendError> + Send + 'static,
) -> Reply {
    let backend = Arc::clone(&shared.backend);
    let done = spawn_blocking(move || match list(&backend) {
        Ok(document) => match serde_json::to_vec(&document) {
            Ok(json) => Answer {
                status: StatusCode::OK,
                body: Body::from(json),
                content_md5: None,
            },
            Err(error) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
        Err(error) if matches!(error, BackendError::Key(_)) => {
            Answer::text(StatusCode::BAD_REQUEST, error.to_string())
        }
        Err(error) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    });
    match done.await {
        Ok(answer) => answer.into(),
        Err(_) => Reply::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the state backend failed",
        ),
    }
}

async fn health(shared: &Arc<Shared>) -> Reply {
    let known = *shared.health.lock().unwrap_or_else(PoisonError::into_inner);
    let is_well = match known {
        Some((at, is_well)) if at.elapsed() < HEALTH => is_well,
        _ => {
            let store = Arc::clone(shared.backend.store());
            let asked = spawn_blocking(move || store.get_start(&layout::target_json(), 1).is_ok());
            let is_well = asked.await.unwrap_or(false);
            *shared.health.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((Instant::now(), is_well));
            is_well
        }
    };
    // What is wrong with the store is not for everybody to know; the access log tells it with each request.
    if is_well {
        Answer::text(StatusCode::OK, "{\"status\":\"ok\"}\n").into()
    } else {
        Answer::text(
            StatusCode::SERVICE_UNAVAILABLE,
            "{\"status\":\"the store does not answer\"}\n",
        )
        .into()
    }
}

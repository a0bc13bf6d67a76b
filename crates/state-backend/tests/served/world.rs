//! A store, a server over it, and a plain client.

use process::Identity;
use state_backend::{
    Access, Fault, GrantOptions, RequestSeen, Server, ServerOptions, StateBackend,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::lock::Hold;
use store::{LocalStore, Store, Writer};
use tempfile::TempDir;
use ureq::http::{Method, Request};

pub(crate) const STEP: &str = "1a/edge";

type Script = Box<dyn FnMut(&RequestSeen) -> Fault + Send>;

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) server: Server,
    pub(crate) hold: Arc<Mutex<Hold>>,
    script: Arc<Mutex<Option<Script>>>,
    seen: Arc<Mutex<Vec<RequestSeen>>>,
}

pub(crate) fn writer() -> Writer {
    Writer {
        identity: Identity::of_self().unwrap(),
        user: "ann".into(),
        host: "lab".into(),
        run: None,
    }
}

pub(crate) fn backend(dir: &std::path::Path) -> StateBackend {
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(dir));
    StateBackend::new(store, 1, writer(), Arc::new(|| Hold::Held))
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_max_body(64 * 1024 * 1024)
    }

    pub(crate) fn with_max_body(max_body: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let hold = Arc::new(Mutex::new(Hold::Held));
        let script: Arc<Mutex<Option<Script>>> = Arc::default();
        let seen: Arc<Mutex<Vec<RequestSeen>>> = Arc::default();
        let store: Arc<dyn Store> = Arc::new(LocalStore::open(dir.path().join("store")));
        let guard = Arc::clone(&hold);
        let backend =
            StateBackend::new(store, 1, writer(), Arc::new(move || *guard.lock().unwrap()));
        let options = ServerOptions {
            max_body,
            on_request: Some(Arc::new({
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                move |request| {
                    seen.lock().unwrap().push(request.clone());
                    script
                        .lock()
                        .unwrap()
                        .as_mut()
                        .map_or(Fault::None, |script| script(request))
                }
            })),
            ..ServerOptions::default()
        };
        let server = Server::start(Arc::new(backend), options).unwrap();
        Self {
            dir,
            server,
            hold,
            script,
            seen,
        }
    }

    /// Answers requests by `script` from now on.
    pub(crate) fn script(&self, script: impl FnMut(&RequestSeen) -> Fault + Send + 'static) {
        *self.script.lock().unwrap() = Some(Box::new(script));
    }

    /// Gives the next request of a method a fault, once.
    pub(crate) fn once(&self, method: &'static str, fault: Fault) {
        let mut is_done = false;
        self.script(move |request| {
            if is_done || request.method != method {
                return Fault::None;
            }
            is_done = true;
            fault
        });
    }

    pub(crate) fn heal(&self) {
        *self.script.lock().unwrap() = None;
    }

    pub(crate) fn n_seen(&self, method: &str) -> usize {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|request| request.method == method)
            .count()
    }

    pub(crate) fn grant(&self) -> Access {
        self.server.grant(STEP, GrantOptions::default())
    }

    pub(crate) fn state_bytes(&self) -> Option<Vec<u8>> {
        self.server
            .backend()
            .read_state(STEP)
            .unwrap()
            .map(|file| file.bytes)
    }
}

/// Sends one request; gives status and body.
pub(crate) fn send(access: &Access, method: &str, query: &str, body: &[u8]) -> (u16, Vec<u8>) {
    send_with(access, method, query, body, &[])
}

pub(crate) fn send_with(
    access: &Access,
    method: &str,
    query: &str,
    body: &[u8],
    headers: &[(&str, &str)],
) -> (u16, Vec<u8>) {
    try_send(access, method, query, body, headers).unwrap()
}

pub(crate) fn try_send(
    access: &Access,
    method: &str,
    query: &str,
    body: &[u8],
    headers: &[(&str, &str)],
) -> Result<(u16, Vec<u8>), ureq::Error> {
    use base64::Engine as _;
    let credential = format!("{}:{}", access.username, access.password);
    let credential = base64::engine::general_purpose::STANDARD.encode(credential);
    let mut request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(format!("{}{query}", access.address))
        .header("authorization", format!("Basic {credential}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .allow_non_standard_methods(true)
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .into();
    let mut response = agent.run(request.body(body.to_vec()).unwrap())?;
    let limit = 256 * 1024 * 1024;
    let body = response
        .body_mut()
        .with_config()
        .limit(limit)
        .read_to_vec()
        .unwrap();
    Ok((response.status().as_u16(), body))
}

pub(crate) fn state(lineage: &str, serial: u64, value: &str) -> Vec<u8> {
    format!("{{\"version\":4,\"serial\":{serial},\"lineage\":\"{lineage}\",\"x\":\"{value}\"}}")
        .into_bytes()
}

pub(crate) fn lock_info(id: &str) -> Vec<u8> {
    format!(
        "{{\"ID\":\"{id}\",\"Operation\":\"OperationTypeApply\",\"Info\":\"\",\"Who\":\"{id}@lab\",\
         \"Version\":\"1.12.6\",\"Created\":\"2026-01-02T03:04:05.678Z\",\"Path\":\"\"}}"
    )
    .into_bytes()
}

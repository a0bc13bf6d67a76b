//! What is fuzzed, and what each must hold to whatever it is given.

use backend_server::{Config, Credential, Keyring, Limits, Options, Rights, Route, Server, route};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::handed;
use phase_engine::{RunId, TargetName};
use platform::MemoryFiles;
use record::RecordStore;
use state_backend::{Asked, LockInfo, Names, StateBackend, Verb, answer};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::lock::Hold;
use store::{Body, Key, MemoryStore, Store, Writer, layout, state_file};
use tofu::{EventLine, LockFile, PlanDocument, StateFacts};

/// Something that reads bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    pub(crate) call: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("address", address),
    target("headers", headers),
    target("connection", connection),
    target("lock", lock),
    target("key", key),
    target("stored-state", stored_state),
    target("backend-config", backend_config),
    target("record", record),
    target("platform-file", platform_file),
    target("target-file", target_file),
    target("event", event),
    target("state", state),
    target("plan", plan),
    target("lock-file", lock_file),
    target("known-hosts", handed::known_hosts),
    target("hosts", handed::hosts),
    target("ansible-events", handed::ansible_events),
    target("envelope", handed::envelope),
];

const fn target(name: &'static str, call: fn(&[u8])) -> Target {
    Target { name, call }
}

/// The address of a request line: no state lies outside the store's states.
fn address(bytes: &[u8]) {
    let Ok(uri) = Uri::try_from(bytes) else {
        return;
    };
    if let Ok(Route::State { path, .. } | Route::Versions { path }) = route(&uri)
        && Names::Paths.check(&path).is_ok()
    {
        assert!(
            path.split('/')
                .all(|part| !part.is_empty() && !part.starts_with('.'))
        );
        assert!(!path.contains(['@', '%', '\\', '\0']));
    }
}

const SECRET: &str = "what only a friend knows";

fn keyring() -> Keyring {
    let made = Credential::of_digest(
        "ci",
        &store::sha256_hex(SECRET.as_bytes()),
        Rights::everything(),
    );
    made.and_then(|credential| Keyring::of([credential]))
        .expect("the credential is spelled out here")
}

/// Headers: nothing but the secret opens.
fn headers(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let (name, value) = line.split_at(
            line.iter()
                .position(|byte| *byte == b':')
                .unwrap_or(line.len()),
        );
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value.strip_prefix(b":").unwrap_or(value).trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    assert!(keyring().shown(&headers).is_none());
}

fn backend() -> StateBackend {
    let identity = process::Identity::of_self().expect("this process has an identity");
    let writer = Writer {
        identity,
        user: "ann".to_owned(),
        host: "lab".to_owned(),
        run: None,
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    StateBackend::new(store, 1, writer, Arc::new(|| Hold::Held)).named(Names::Paths)
}

/// Any bytes over a connection: the server answers the next one.
fn connection(bytes: &[u8]) {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let options = Options {
            listen: ([127, 0, 0, 1], 0).into(),
            tls: None,
            keyring: keyring(),
            read_only: false,
            open_metrics: false,
            limits: Limits {
                idle: Duration::from_secs(1),
                head: Duration::from_secs(1),
                ..Limits::default()
            },
            log: Arc::new(|record| assert!(record.path.len() <= 600 && record.who.is_none())),
        };
        Server::start(Arc::new(backend()), options).expect("a port of this machine")
    });
    let exchange = |bytes: &[u8], is_all: bool| {
        let mut stream = TcpStream::connect(server.address()).expect("it listens");
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        // It may have hung up before it has read everything.
        let _ = stream.write_all(bytes);
        if !is_all {
            // What is not whole is not waited for.
            let _ = stream.shutdown(Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    };
    let answer = exchange(bytes, false);
    for status in [&b"HTTP/1.1 404"[..], b"HTTP/1.1 204", b"HTTP/1.1 500"] {
        assert!(
            !answer.starts_with(status),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    let health = exchange(
        b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        true,
    );
    assert!(
        health.starts_with(b"HTTP/1.1 200"),
        "the server answers no more"
    );
}

/// The body of a LOCK or UNLOCK: what is taken is shown to the next one as the holder, and goes by the same body.
fn lock(bytes: &[u8]) {
    let backend = backend();
    let ask = |verb, body: &[u8]| {
        let asked = Asked {
            verb,
            path: "app".to_owned(),
            read_only: false,
            must_exist: None,
            id: None,
            version: None,
            restores: None,
            content_md5: None,
            body: Body::from(body.to_vec()),
        };
        answer(&backend, &asked)
    };
    if ask(Verb::Lock, bytes).status != 200 {
        assert_ne!(ask(Verb::Unlock, bytes).status, 200);
        return;
    }
    let other = ask(Verb::Lock, br#"{"ID":"\u0001 of nobody"}"#);
    assert_eq!(other.status, 423);
    let shown = other.body.to_vec().expect("it is in memory");
    let (shown, taken) = (LockInfo::parse(&shown), LockInfo::parse(bytes));
    assert_eq!(
        shown.expect("what is shown can be read"),
        taken.expect("it was taken")
    );
    assert_eq!(ask(Verb::Lock, bytes).status, 200);
    assert_eq!(ask(Verb::Unlock, bytes).status, 200);
}

/// Keys and paths: none leads out of the store, none is another's version.
fn key(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(key) = Key::new(text.as_ref()) {
        let path = std::path::Path::new(key.as_str());
        assert!(
            path.components()
                .all(|part| matches!(part, std::path::Component::Normal(_)))
        );
        let _ = (
            layout::step_of_state(&key),
            layout::step_of_lock(&key),
            layout::run_of_record(&key),
        );
    }
    if let Ok(state) = layout::state(&text) {
        assert_eq!(layout::step_of_state(&state), Some(text.as_ref()));
    }
    let backend = backend();
    if Names::Paths.check(&text).is_ok() {
        let info = LockInfo::new(
            "fuzz",
            "",
            "ann@lab",
            "2026-01-02T03:04:05Z".parse().expect("a time"),
        );
        backend.lock(&text, &info).expect("nobody holds it");
        let state = br#"{"serial":1,"lineage":"l"}"#;
        backend
            .write_state(&text, state, Some(&info.id))
            .expect("the lock is held");
        assert_eq!(
            backend.list_states().expect("it is in memory"),
            [text.as_ref()]
        );
        assert_eq!(
            backend.list_locks().expect("it is in memory"),
            [text.as_ref()]
        );
        assert!(backend.versions(&text).expect("it is in memory").is_empty());
    }
}

/// A stored state of any version: read in parts or whole, it is the same.
fn stored_state(bytes: &[u8]) {
    let whole = state_file::decode(bytes);
    let parts = state_file::decode_body(&Body::from(bytes.to_vec()));
    match (whole, parts) {
        (Ok((header, rest)), Ok((other, body))) => {
            assert_eq!(header, other);
            assert_eq!(rest, body.to_vec().expect("it is in memory"));
        }
        (Err(_), Err(_)) => {}
        (whole, parts) => panic!("{whole:?}, and in parts {parts:?}"),
    }
    let _ = StateBackend::write_state(&backend(), "app", bytes, None);
}

/// The configuration of a served backend.
fn backend_config(bytes: &[u8]) {
    let _ = Config::parse(&String::from_utf8_lossy(bytes));
}

/// What is kept of a target by this version or another: damaged or newer is an error, never a panic.
fn record(bytes: &[u8]) {
    let store = Arc::new(MemoryStore::new());
    let run = "01J00000000000000000000000";
    let keys = [
        Ok(layout::target_json()),
        Ok(layout::head()),
        layout::record(run),
        Ok(layout::lock_json()),
    ];
    for key in keys.into_iter().flatten() {
        store.set(&key, bytes);
    }
    let records = RecordStore::new(Arc::<MemoryStore>::clone(&store) as Arc<dyn Store>);
    let _ = (
        records.target(),
        records.head(),
        records.current(),
        records.last_known_good(),
    );
    let _ = records.list();
    if let Ok(run) = RunId::new(run)
        && let Ok(Some(found)) = records.record(&run)
    {
        let _ = (found.value.history(), found.value.teardown());
    }
}

const PLATFORM: &str = "[platform]\nname = \"lab\"\n[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"edge\"\nexec = { apply = [\"a\"], verify = [\"b\"], teardown = [] }\n";

/// `rebuild.toml`: every fault is one of the definitions.
fn platform_file(bytes: &[u8]) {
    let files = MemoryFiles::default()
        .with("rebuild.toml", bytes)
        .with("targets/drill.toml", "");
    loaded(&files);
    let _ = platform::platform_name(&String::from_utf8_lossy(bytes));
}

/// `targets/drill.toml`.
fn target_file(bytes: &[u8]) {
    let files = MemoryFiles::default()
        .with("rebuild.toml", PLATFORM)
        .with("targets/drill.toml", bytes);
    loaded(&files);
}

fn loaded(files: &MemoryFiles) {
    let target = TargetName::new("drill").expect("a name");
    match platform::load(files, None, &target) {
        Ok(_) => {}
        Err(faults) => {
            for fault in faults.iter() {
                let _ = (fault.to_string(), fault.line_and_column());
            }
        }
    }
}

/// A line of OpenTofu's events.
fn event(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let line = EventLine::parse(line);
        let mut outcome = tofu::Outcome::default();
        outcome.take(&line);
        let _ = (line.address(), outcome.suspects(), outcome.needs_init());
    }
}

/// A state of OpenTofu.
fn state(bytes: &[u8]) {
    if StateFacts::read(bytes).is_ok() {
        let _ = (
            tofu::with_lineage(bytes, "l"),
            tofu::with_next_serial(bytes),
        );
    }
}

/// A plan as OpenTofu shows it.
fn plan(bytes: &[u8]) {
    let _ = PlanDocument::parse(bytes);
}

/// A dependency lock file.
fn lock_file(bytes: &[u8]) {
    let _ = LockFile::parse(bytes);
}

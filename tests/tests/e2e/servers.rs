//! Servers that keep states elsewhere: each on loopback, in a directory of its own, gone with its test.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use process::{Ending, How, Invocation, Output, RealSpawner, Running, Spawner};
use state_backend::{GrantOptions, ServerOptions, StateBackend};
use store::lock::Hold;
use store::{MemoryStore, Writer};

use crate::drill::tool;

/// How long a server may take to begin on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running server.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    running: Box<dyn Running>,
    _dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.running.kill_group();
        let _ = self.running.wait();
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address")
}

fn collect(call: &Invocation) -> std::io::Result<process::Collected> {
    process::collect(
        &RealSpawner::direct(),
        call,
        &How::reader(),
        PATIENCE,
        &mut || false,
    )
    .map_err(std::io::Error::other)
}

fn start(dir: tempfile::TempDir, address: SocketAddr, call: &Invocation) -> Server {
    let how = How {
        ending: Ending::WithUs,
        output: Output::Captured,
        marker: None,
    };
    let running = RealSpawner::direct()
        .start(call, &how)
        .expect("a server that starts");
    let server = Server {
        address,
        running,
        _dir: dir,
    };
    process::wait::until(Instant::now() + PATIENCE, Duration::from_millis(20), || {
        TcpStream::connect(address).ok()
    })
    .expect("the server takes connections");
    server
}

/// Name and secret of the S3 server's only user.
pub(crate) const S3_USER: (&str, &str) = ("tester", "a-secret-for-tests");

/// An S3 server with one bucket.
pub(crate) fn s3(bucket: &str) -> Server {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    std::fs::create_dir_all(data.join(bucket)).expect("a bucket");
    let address = free_address();
    let call = Invocation::new(tool("REBUILD_TEST_S3_GATEWAY"), dir.path())
        .args(["--quiet", "--port"])
        .arg(address.to_string())
        .arg("posix")
        .arg(data)
        .env("ROOT_ACCESS_KEY", S3_USER.0)
        .env("ROOT_SECRET_KEY", S3_USER.1);
    start(dir, address, &call)
}

/// A PostgreSQL server whose user `postgres` needs no password.
pub(crate) fn postgres() -> Server {
    let programs = postgres_programs();
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    // It refuses to run as root.
    let is_root = rustix::process::geteuid().is_root();
    let call = |name: &str| {
        let program = programs.join(name);
        let call = if is_root {
            Invocation::new("/usr/sbin/runuser", "/")
                .args(["-u", "postgres", "--"])
                .arg(program)
        } else {
            Invocation::new(program, "/")
        };
        call.env("PATH", "/usr/bin:/bin").env("LC_ALL", "C")
    };
    if is_root {
        let id = collect(&Invocation::new("/usr/bin/id", "/").args(["-u", "postgres"]))
            .expect("the user `postgres`, whom Debian's package makes");
        let id = String::from_utf8_lossy(&id.stdout).trim().parse().ok();
        std::os::unix::fs::chown(dir.path(), id, None).expect("a directory of that user's");
    }
    let init = call("initdb").arg("-D").arg(&data).args([
        "-A",
        "trust",
        "-U",
        "postgres",
        "--no-sync",
        "--locale=C",
    ]);
    let made = collect(&init).expect("initdb runs");
    assert!(
        data.join("PG_VERSION").exists() || is_root,
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let address = free_address();
    let server = call("postgres")
        .arg("-D")
        .arg(&data)
        .args(["-F", "-c", "listen_addresses=127.0.0.1"])
        .args(["-c", "unix_socket_directories="])
        .arg("-p")
        .arg(address.port().to_string());
    start(dir, address, &server)
}

/// Where PostgreSQL's programs are: on the PATH, or where Debian puts them.
fn postgres_programs() -> PathBuf {
    let on_path = ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"].map(PathBuf::from);
    let mut of_debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    of_debian.sort();
    let has = |dir: &&PathBuf| dir.join("initdb").exists() && dir.join("postgres").exists();
    of_debian
        .iter()
        .rev()
        .chain(&on_path)
        .find(has)
        .cloned()
        .unwrap_or_else(|| {
            panic!(
                "PostgreSQL is not installed (Debian: `apt install postgresql`, macOS: `brew install postgresql`)"
            )
        })
}

/// A server of states over HTTP, as OpenTofu's `http` backend wants one, and what opens one state of it.
pub(crate) struct HttpStates {
    _server: state_backend::Server,
    pub(crate) address: String,
    pub(crate) username: String,
    pub(crate) password: String,
}

impl HttpStates {
    /// Starts one that keeps states in memory.
    pub(crate) fn start() -> Self {
        let writer = Writer {
            identity: process::Identity::of_self().expect("an identity"),
            user: "operator".into(),
            host: "host".into(),
            run: None,
        };
        let backend = StateBackend::new(
            Arc::new(MemoryStore::new()),
            1,
            writer,
            Arc::new(|| Hold::Held),
        );
        let server = state_backend::Server::start(Arc::new(backend), ServerOptions::default())
            .expect("a server of states");
        let access = server.grant("old/edge", GrantOptions::default());
        Self {
            _server: server,
            address: access.address,
            username: access.username,
            password: access.password,
        }
    }
}

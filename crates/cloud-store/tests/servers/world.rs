//! Servers that are started by a test and end with it.

use cloud_store::{CloudStore, Config, Patience, Place, S3, S3Credentials};
use process::{Ending, How, Invocation, Output, RealSpawner, Running, Spawner};
use secrets::Secret;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::Key;

/// A server on loopback. Its files go with it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    running: Box<dyn Running>,
    pub(crate) dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.running.kill_group();
        let _ = self.running.wait();
    }
}

/// The program that a variable names.
#[expect(
    clippy::disallowed_methods,
    reason = "how tests are told where tools are"
)]
pub(crate) fn program(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask tools`"))
        .into()
}

/// An address on loopback that nobody listens at.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

/// Starts a server and waits until it takes connections.
pub(crate) fn start(dir: tempfile::TempDir, address: SocketAddr, call: Invocation) -> Server {
    let how = How {
        ending: Ending::WithUs,
        output: Output::Captured,
        marker: None,
    };
    let running = RealSpawner::direct().start(&call, &how).unwrap();
    let server = Server {
        address,
        running,
        dir,
    };
    let deadline = Instant::now() + Duration::from_secs(90);
    let answers = process::wait::until(deadline, Duration::from_millis(50), || {
        TcpStream::connect(address).ok()
    });
    answers.expect("the server takes connections");
    server
}

/// The S3 gateway over an empty directory, with the buckets that are named.
pub(crate) fn gateway(buckets: &[&str]) -> Server {
    gateway_with(buckets, &[])
}

/// The same with TLS, by a certificate for `localhost` and `127.0.0.1` of the authority [`ca_file`].
pub(crate) fn gateway_with_tls(buckets: &[&str]) -> Server {
    let file = |name: &str| fixture(name).display().to_string();
    let (cert, key) = (file("server.pem"), file("server-key.pem"));
    gateway_with(buckets, &["--cert", &cert, "--key", &key])
}

/// The authority that has signed the certificate of [`gateway_with_tls`].
pub(crate) fn ca_file() -> PathBuf {
    fixture("ca.pem")
}

fn fixture(name: &str) -> PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join("../checks/fixtures").join(name)
}

fn gateway_with(buckets: &[&str], more: &[&str]) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for bucket in buckets {
        std::fs::create_dir_all(data.join(bucket)).unwrap();
    }
    let address = free_address();
    let call = Invocation::new(program("REBUILD_TEST_S3_GATEWAY"), dir.path())
        .args(["--quiet", "--port"])
        .arg(address.to_string())
        .args(more.iter().copied())
        // ETags are kept in extended attributes. In a directory beside (`--sidecar`) they are read apart
        // from the value, so a read may get a value with the ETag of the next, and updates are lost.
        .arg("posix")
        .arg(data)
        .env("ROOT_ACCESS_KEY", "tester")
        .env("ROOT_SECRET_KEY", "a-secret-for-tests");
    start(dir, address, call)
}

/// The configuration of a bucket of the gateway, reached at `address`.
pub(crate) fn s3(address: SocketAddr, bucket: &str, prefix: &str) -> Config {
    let place = Place::S3(S3 {
        bucket: bucket.to_owned(),
        region: "us-east-1".to_owned(),
        endpoint: Some(format!("http://{address}")),
        path_style: true,
        credentials: S3Credentials::Keys {
            access_key_id: "tester".to_owned(),
            secret_access_key: Secret::new("a-secret-for-tests"),
            session_token: None,
        },
    });
    Config::new(place, prefix)
}

/// Little patience, for servers that go wrong.
pub(crate) fn hasty(mut config: Config) -> Config {
    config.patience = Patience {
        connect: Duration::from_secs(2),
        request: Duration::from_millis(700),
        n_retries: 2,
        total: Duration::from_secs(10),
    };
    config
}

pub(crate) fn open(config: &Config) -> CloudStore {
    CloudStore::open(config).unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

//! A served backend as its own process, a plain client of it, and root modules that are pointed at it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use test_support::{Command, World};

use crate::drill::tool;

/// The secret of the credential `ci`, which may do everything.
pub(crate) const SECRET: &str = "a secret of the tests alone";
/// The secret of the credential `reader`, which reads below `team`.
pub(crate) const READER: &str = "a secret that only reads things";

/// A root module that has something to write.
pub(crate) const MODULE: &str = r#"
terraform {
  backend "http" {}
}
variable "value" {
  default = "one"
}
resource "terraform_data" "it" {
  input = var.value
}
"#;

/// A world with the configuration of a served backend in it, and a store that outlives it.
pub(crate) struct Stage {
    pub(crate) world: World,
}

/// A served backend that runs.
pub(crate) struct Backend {
    child: Child,
    errors: Option<JoinHandle<String>>,
    /// What it said of itself.
    pub(crate) line: Value,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With more in the configuration, before its credentials.
    pub(crate) fn with(more: &str) -> Self {
        let stage = Self {
            world: World::new(),
        };
        let config = format!(
            "{more}\n[[credential]]\nname = \"ci\"\nsecret = {{ env = \"CI_SECRET\" }}\nwrite = [\"/\"]\nmetrics = true\n\
             [[credential]]\nname = \"reader\"\nsecret = {{ file = \"reader-secret\" }}\nread = [\"team\"]\n"
        );
        stage.world.write("backend.toml", &config);
        stage.world.write("reader-secret", READER);
        stage
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.world.root().join("served-store")
    }

    /// Starts the program with these arguments of `backend serve`.
    pub(crate) fn start_with(&self, args: &[&str]) -> Backend {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rebuild_dup"));
        command
            .args(["backend", "serve"])
            .args(args)
            .env_clear()
            .envs(self.world.env())
            .env("CI_SECRET", SECRET)
            .env("AWS_ACCESS_KEY_ID", "tester")
            .env("AWS_SECRET_ACCESS_KEY", crate::gateway::KEY)
            .current_dir(self.world.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Where coverage is measured, a program of ours says which of its lines ran.
        if let Some(profile) = std::env::var_os("LLVM_PROFILE_FILE") {
            command.env("LLVM_PROFILE_FILE", profile);
        }
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        stdout
            .read_line(&mut line)
            .expect("the program says where it is");
        let errors = std::thread::spawn({
            let stderr: ChildStderr = child.stderr.take().expect("it is piped");
            move || {
                let mut text = String::new();
                let _ = BufReader::new(stderr).read_to_string(&mut text);
                text
            }
        });
        let mut backend = Backend {
            child,
            errors: Some(errors),
            line: Value::Null,
        };
        match serde_json::from_str(&line) {
            Ok(value) => backend.line = value,
            Err(error) => panic!("no line of JSON ({error}): {line:?}, {}", backend.kill()),
        }
        backend
    }

    /// Starts it with the configuration, at a port of its own.
    pub(crate) fn start(&self) -> Backend {
        self.start_at("127.0.0.1:0")
    }

    pub(crate) fn start_at(&self, listen: &str) -> Backend {
        let store = self.store();
        let store = store.to_str().expect("a path of the tests");
        self.start_with(&[
            "--config",
            "backend.toml",
            "--store",
            store,
            "--listen",
            listen,
        ])
    }

    /// A `rebuild` command line at that backend, as `ci`.
    pub(crate) fn rebuild(&self, backend: &Backend, args: &[&str]) -> Command {
        self.world
            .command(env!("CARGO_BIN_EXE_rebuild_dup"))
            .args(args.iter().copied())
            .env("REBUILD_BACKEND", backend.address())
            .env("REBUILD_BACKEND_TOKEN", SECRET)
            .cwd(self.world.work())
    }

    /// A `tofu` command line in a root module whose state is at `path`.
    pub(crate) fn tofu(&self, backend: &Backend, dir: &Path, path: &str, args: &[&str]) -> Command {
        let address = format!("{}/state/{path}", backend.address());
        self.plain_tofu(dir, args)
            .env("TF_HTTP_ADDRESS", &address)
            .env("TF_HTTP_LOCK_ADDRESS", &address)
            .env("TF_HTTP_UNLOCK_ADDRESS", &address)
            .env("TF_HTTP_USERNAME", "ci")
            .env("TF_HTTP_PASSWORD", SECRET)
    }

    pub(crate) fn plain_tofu(&self, dir: &Path, args: &[&str]) -> Command {
        self.world
            .command(tool("REBUILD_TEST_TOFU"))
            .args(args.iter().copied())
            .env("TF_IN_AUTOMATION", "1")
            .env("CHECKPOINT_DISABLE", "1")
            .cwd(dir)
    }

    /// A root module, initialized against that backend.
    pub(crate) fn module(&self, backend: &Backend, name: &str) -> PathBuf {
        self.world.write(&format!("{name}/main.tf"), MODULE);
        let dir = self.world.work().join(name);
        self.tofu(backend, &dir, "unused", &["init", "-input=false"])
            .run()
            .expect_code(0);
        dir
    }
}

impl Backend {
    pub(crate) fn address(&self) -> &str {
        self.line["address"].as_str().expect("an address")
    }

    /// `host:port`.
    pub(crate) fn host(&self) -> &str {
        let (_, host) = self.address().split_once("://").expect("an address");
        host
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("it runs");
    }

    /// Kills it, as a machine that fails would; gives what it said on standard error.
    pub(crate) fn kill(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.errors
            .take()
            .map(|errors| errors.join().expect("its errors are read"))
            .unwrap_or_default()
    }

    /// Waits for its end; gives exit code and standard error.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let ended = process::wait::until(deadline, Duration::from_millis(5), || {
            self.child.try_wait().expect("it can be waited for")
        });
        let status = ended.expect("it ends in time");
        let errors = self.errors.take().expect("nobody has waited before");
        (status.code(), errors.join().expect("its errors are read"))
    }

    /// Sends one request as `ci`.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.ask_as(SECRET, method, path, body)
    }

    pub(crate) fn ask_as(
        &self,
        secret: &str,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> (u16, Vec<u8>) {
        let mut stream = self.begin_as(secret, method, path, body.len() as u64);
        // The server may have answered, and hung up, before it has read everything.
        let _ = stream.write_all(body);
        finish(stream).expect("an answer")
    }

    /// Sends the head of a request.
    pub(crate) fn begin(&self, method: &str, path: &str, n_bytes: u64) -> TcpStream {
        self.begin_as(SECRET, method, path, n_bytes)
    }

    fn begin_as(&self, secret: &str, method: &str, path: &str, n_bytes: u64) -> TcpStream {
        let mut stream = TcpStream::connect(self.host()).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .expect("a time-out can be set");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {secret}\r\nContent-Length: {n_bytes}\r\n\
             Connection: close\r\n\r\n",
            self.host()
        )
        .expect("it reads");
        stream
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, b"");
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    /// The most memory that it has ever had, in KiB.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|kib| kib.parse().ok())
            .expect("the system tells it")
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the answer to its end; `None` where the server went away.
pub(crate) fn finish(mut stream: TcpStream) -> Option<(u16, Vec<u8>)> {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    parse(&answer)
}

fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let body = &answer[end + 4..];
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .and_then(|length| length.trim().parse::<usize>().ok());
    // A part of an answer is none.
    (length.unwrap_or(0) == body.len()).then(|| (status, body.to_vec()))
}

pub(crate) fn state(lineage: &str, serial: u64, value: &str) -> Vec<u8> {
    format!(
        "{{\"version\":4,\"terraform_version\":\"1.12.0\",\"serial\":{serial},\"lineage\":\"{lineage}\",\
         \"outputs\":{{\"x\":{{\"value\":\"{value}\",\"type\":\"string\"}}}},\"resources\":[]}}"
    )
    .into_bytes()
}

pub(crate) fn lock_info(id: &str) -> Vec<u8> {
    format!(
        "{{\"ID\":\"{id}\",\"Operation\":\"OperationTypeApply\",\"Info\":\"\",\"Who\":\"ann@lab\",\
         \"Version\":\"1.12.6\",\"Created\":\"2026-01-02T03:04:05.678Z\",\"Path\":\"\"}}"
    )
    .into_bytes()
}

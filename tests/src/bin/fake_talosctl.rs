//! A `talosctl` for tests: it keeps a cluster's state in a directory, its first argument, and fails as it is told.
//!
//! A machine is a directory named by its address, with files: `version`; `boot`, a number; `takes`, how it takes an
//! upgrade (`well`, `hangs`, `never-boots`, `rolls-back`, `refuses`, `loses-the-line`, `dies`, `waits`); `silent`,
//! there while it does not answer. `waits` ends once the file `go` is there. Beside the machines: `sick`, what `health`
//! fails with; `etcd`, what a member of etcd complains about. Every call is a line of `calls`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "it stands in for a program, on files of a test's own world"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long anything waits at most, so that a forgotten one ends by itself.
const PATIENCE: Duration = Duration::from_secs(60);

struct Call {
    dir: PathBuf,
    words: Vec<String>,
    nodes: Vec<String>,
    options: Vec<(String, String)>,
    flags: Vec<String>,
}

impl Call {
    fn read() -> Self {
        let mut args = std::env::args().skip(1);
        let mut call = Self {
            dir: args.next().unwrap_or_default().into(),
            words: Vec::new(),
            nodes: Vec::new(),
            options: Vec::new(),
            flags: Vec::new(),
        };
        let mut args = args.peekable();
        while let Some(arg) = args.next() {
            let Some(name) = arg.strip_prefix("--") else {
                call.words.push(arg);
                continue;
            };
            if ["insecure", "client", "wait"].contains(&name) {
                call.flags.push(name.to_owned());
                continue;
            }
            let value = args.next().unwrap_or_default();
            if name == "nodes" {
                call.nodes = value.split(',').map(str::to_owned).collect();
            }
            call.options.push((name.to_owned(), value));
        }
        call
    }

    fn option(&self, name: &str) -> String {
        let found = self.options.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    fn node(&self) -> PathBuf {
        self.dir.join(self.nodes.first().map_or("", String::as_str))
    }
}

fn text(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

fn set(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file of the world");
}

fn wait_for(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn fails(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

fn main() -> ExitCode {
    let call = Call::read();
    let mut calls = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(call.dir.join("calls"))
        .expect("the list of calls");
    let line = format!("{} {}\n", call.words.join(" "), call.nodes.join(","));
    calls.write_all(line.as_bytes()).expect("the list of calls");
    if call.has("client") {
        println!("Client:\n\tTag:         v1.12.0");
        return ExitCode::SUCCESS;
    }
    if call.has("insecure") {
        return maintenance(&call);
    }
    if !text(Path::new(&call.option("talosconfig"))).is_some_and(|text| text.contains("context"))
        || call.option("endpoints").is_empty()
    {
        return fails("error constructing client: no credentials");
    }
    let words: Vec<&str> = call.words.iter().map(String::as_str).collect();
    let node = call.node();
    match words[..] {
        ["health"] => match text(&call.dir.join("sick")) {
            Some(why) => fails(&format!("healthcheck error: {why}")),
            None => ExitCode::SUCCESS,
        },
        ["etcd", "status"] => {
            println!("NODE         MEMBER             DB SIZE   LEADER   LEARNER   ERRORS");
            let errors = text(&call.dir.join("etcd")).unwrap_or_default();
            for node in &call.nodes {
                println!("{node:<12} aa00000000000001   25 MB     aa01     false     {errors}");
            }
            ExitCode::SUCCESS
        }
        _ if node.join("silent").exists() || !node.is_dir() => {
            fails("rpc error: code = Unavailable desc = connection refused")
        }
        ["version"] => {
            let version = text(&node.join("version")).unwrap_or_default();
            println!(
                "Client:\n\tTag:         v1.12.0\nServer:\n\tNODE:        {}\n\tTag:         {version}",
                call.nodes.join(",")
            );
            ExitCode::SUCCESS
        }
        ["read", "/proc/sys/kernel/random/boot_id"] => {
            println!("{}", text(&node.join("boot")).unwrap_or_default());
            ExitCode::SUCCESS
        }
        ["upgrade"] => upgrade(&call, &node),
        ["patch", "machineconfig"] => {
            let patch = text(Path::new(call.option("patch").trim_start_matches('@')));
            let patch = patch.unwrap_or_default();
            if patch.is_empty() {
                return fails("the patch is empty");
            }
            // A key that only the new version knows.
            let version = text(&node.join("version")).unwrap_or_default();
            if patch.contains("newKey") && version.as_str() < "v1.11.2" {
                return fails("unknown keys found during decoding: newKey");
            }
            ExitCode::SUCCESS
        }
        _ => fails(&format!("unknown command {words:?}")),
    }
}

fn upgrade(call: &Call, node: &Path) -> ExitCode {
    let image = call.option("image");
    let version = image.rsplit_once(':').map_or("", |(_, tag)| tag);
    let takes = text(&node.join("takes")).unwrap_or_else(|| "well".to_owned());
    let boot: u32 = text(&node.join("boot"))
        .and_then(|boot| boot.parse().ok())
        .unwrap_or_default();
    let comes_back = |version: &str| {
        set(&node.join("silent"), "");
        set(&node.join("version"), version);
        set(&node.join("boot"), &(boot + 1).to_string());
        std::fs::remove_file(node.join("silent")).expect("it is there");
    };
    match takes.as_str() {
        "well" => comes_back(version),
        "hangs" => {
            comes_back(version);
            wait_for(&call.dir.join("never"));
        }
        "waits" => {
            wait_for(&call.dir.join("go"));
            comes_back(version);
        }
        "loses-the-line" => {
            comes_back(version);
            return fails("error reading from server: EOF");
        }
        "never-boots" => {}
        "rolls-back" => {
            let old = text(&node.join("version")).unwrap_or_default();
            comes_back(&old);
        }
        "refuses" => return fails("error validating installer image: not found"),
        "dies" => set(&node.join("silent"), ""),
        other => return fails(&format!("nobody takes an upgrade like `{other}`")),
    }
    ExitCode::SUCCESS
}

fn maintenance(call: &Call) -> ExitCode {
    let node = call.node();
    if !node.join("maintenance").exists() {
        return fails("rpc error: code = Unavailable desc = tls: certificate required");
    }
    let words: Vec<&str> = call.words.iter().map(String::as_str).collect();
    match words[..] {
        ["get", "disks"] => {
            println!("{{\"metadata\":{{\"id\":\"sda\"}},\"spec\":{{\"dev_path\":\"/dev/sda\"}}}}")
        }
        ["get", "links"] => println!(
            "{{\"metadata\":{{\"id\":\"enp1s0\"}},\"spec\":{{\"type\":\"ether\",\"operationalState\":\"up\"}}}}"
        ),
        ["version"] => println!("Client:\n\tTag: v1.12.0\nServer:\n\tTag:         v1.11.2"),
        _ => return fails("not in maintenance mode"),
    }
    ExitCode::SUCCESS
}

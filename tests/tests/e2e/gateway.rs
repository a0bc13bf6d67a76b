//! A real server that speaks S3, over a directory of the drill's world, and platforms whose phase 0 makes a bucket on it.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use process::{Ending, How, Invocation, Output, RealSpawner, Running, Spawner};
use test_support::{Command, Outcome, World};

use crate::drill::{Drill, tool};
use crate::stage::executable;

/// The secret access key: a known secret that must be found nowhere.
pub(crate) const KEY: &str = "a-secret-access-key-for-tests";
/// The passphrase of the targets here.
pub(crate) const PASSPHRASE: &str = "a passphrase of more than sixteen";

/// The gateway, which ends with it.
pub(crate) struct Gateway {
    running: Box<dyn Running>,
    address: SocketAddr,
    data: PathBuf,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.running.kill_group();
        let _ = self.running.wait();
    }
}

impl Gateway {
    /// Starts one in a world, without any bucket.
    pub(crate) fn start(world: &World) -> Self {
        let dir = world.root().join("gateway");
        let data = dir.join("data");
        std::fs::create_dir_all(&data).unwrap();
        // Between the look for a free port and the gateway's own, somebody may take it.
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let call = Invocation::new(tool("REBUILD_TEST_S3_GATEWAY"), &dir)
                .args(["--quiet", "--port"])
                .arg(address.to_string())
                .arg("posix")
                .arg(&data)
                .env("ROOT_ACCESS_KEY", "tester")
                .env("ROOT_SECRET_KEY", KEY);
            let how = How {
                ending: Ending::WithUs,
                output: Output::Captured,
                marker: None,
            };
            let running = RealSpawner::direct().start(&call, &how).unwrap();
            let gateway = Self {
                running,
                address,
                data: data.clone(),
            };
            let deadline = Instant::now() + Duration::from_secs(60);
            let answers = process::wait::until(deadline, Duration::from_millis(20), || {
                TcpStream::connect(address).ok()
            });
            if answers.is_some() {
                return gateway;
            }
        }
        panic!("the gateway takes no connections");
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a bucket by hand.
    pub(crate) fn make(&self, bucket: &str) {
        std::fs::create_dir(self.bucket(bucket)).unwrap();
    }

    /// The directory of a bucket.
    pub(crate) fn bucket(&self, name: &str) -> PathBuf {
        self.data.join(name)
    }

    /// Every object of a bucket with its bytes; those that count as absent are left out.
    pub(crate) fn objects(&self, bucket: &str) -> BTreeMap<String, Vec<u8>> {
        let root = self.bucket(bucket);
        if !root.exists() {
            return BTreeMap::new();
        }
        crate::stage::snapshot(&root)
            .into_iter()
            .filter(|(_, bytes)| !bytes.starts_with(b"rebuild:tombstone:"))
            .map(|(path, bytes)| (relative(&root, &path), bytes))
            .collect()
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().display().to_string()
}

/// A drill that keeps its states on a gateway.
pub(crate) struct Clouded {
    /// The drill.
    pub(crate) drill: Drill,
    /// The gateway.
    pub(crate) gateway: Gateway,
}

/// Phase 0 of the platforms here: it makes the bucket `states`, and its residue probe looks for it.
pub(crate) const PHASE_0: &str = r#"
[[phase]]
id = "0"
title = "state backend"
provides_state = true
[[phase.step]]
name = "bucket"
tofu = "phases/0-state"
[[phase.residue]]
name = "the bucket is gone"
exec = ["python3", "bin/bucket.py", "exists", "${target.endpoint}", "${target.bucket}"]
"#;

const MODULE_0: &str = r#"variable "endpoint" {}
variable "bucket" {}
resource "terraform_data" "bucket" {
  input = "${path.module}/../../bin/bucket.py %s ${var.endpoint} ${var.bucket}"
  provisioner "local-exec" { command = "python3 ${format(self.input, "create")}" }
  provisioner "local-exec" {
    when    = destroy
    command = "python3 ${format(self.input, "delete")}"
  }
}
output "bucket" { value = var.bucket }
"#;

impl Clouded {
    /// A drill whose phase 0 makes its bucket, with more phases and root modules behind it.
    pub(crate) fn of(phases: &str, modules: &[(&str, &str)]) -> Self {
        let drill = Drill::of(&format!("{PHASE_0}{phases}"), modules);
        drill.write("phases/0-state/main.tf", MODULE_0);
        let script = drill.write("bin/bucket.py", include_str!("bucket.py"));
        executable(&script);
        let gateway = Gateway::start(&drill.world);
        let clouded = Self { drill, gateway };
        clouded.point_at(&clouded.gateway.address());
        clouded
    }

    /// Lets the target's store be reached at an address; phase 0 goes to the gateway all the same.
    pub(crate) fn point_at(&self, address: &SocketAddr) {
        self.target(&format!("http://{address}"), "");
    }

    /// Writes the target file with this endpoint of the store, and more of `[store]`.
    pub(crate) fn target(&self, endpoint: &str, more: &str) {
        self.drill.write(
            "targets/drill.toml",
            &format!(
                r#"[store]
s3 = {{ bucket = "states", endpoint = "{endpoint}", prefix = "drill/"{more} }}
[encryption]
passphrase = {{ env = "PASS" }}
[secrets]
s3_key = {{ env = "S3_KEY" }}
[env]
AWS_ACCESS_KEY_ID = "tester"
AWS_SECRET_ACCESS_KEY = "${{secret.s3_key}}"
[values]
endpoint = "{}"
bucket = "states"
"#,
                self.gateway.url()
            ),
        );
    }

    /// A `rebuild` command line on the target.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut all = args.to_vec();
        all.extend(["--target", "drill"]);
        self.drill
            .rebuild(&all)
            .env("PASS", PASSPHRASE)
            .env("S3_KEY", KEY)
            // The caller's own are not the target's.
            .env("AWS_ACCESS_KEY_ID", "nobody")
            .env("AWS_SECRET_ACCESS_KEY", "nothing")
            .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    }

    /// Runs `rebuild` on the target and demands its exit code.
    pub(crate) fn run(&self, code: i32, args: &[&str]) -> Outcome {
        let outcome = self.command(args).run();
        outcome.expect_code(code);
        outcome
    }

    /// The spool.
    pub(crate) fn spool(&self) -> PathBuf {
        let targets = self.drill.world.state_home().join("rebuild/targets");
        targets.join("lab/drill/spool")
    }

    /// The keys of the spool; its own files are left out.
    pub(crate) fn spooled(&self) -> Vec<String> {
        let root = self.spool();
        if !root.exists() {
            return Vec::new();
        }
        crate::stage::snapshot(&root)
            .keys()
            .map(|path| relative(&root, path))
            .filter(|path| !path.starts_with('.'))
            .collect()
    }
}

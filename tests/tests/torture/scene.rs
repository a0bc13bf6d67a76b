//! A platform in a world of its own, whose objects are in the fake cloud.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use fault::Orders;
use serde_json::Value;
use test_support::{Outcome, Started, World};

use crate::case::Shape;

/// Secrets that must be in no file: the passphrase, and a value that steps are given.
pub(crate) const PASSPHRASE: &str = "a passphrase that nobody may find";
pub(crate) const TOKEN: &str = "a-token-that-nobody-may-find";
/// How long a lock is good for here, in milliseconds.
const LEASE: &str = "400";
/// How long one call may take, a sleep in it included.
const DEADLINE: Duration = Duration::from_secs(300);

/// What the first scene found out of `tofu`, whose digest takes longer than anything else here.
static TOOLS: OnceLock<Vec<u8>> = OnceLock::new();

/// One object of the cloud, and who makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) name: String,
    /// `PHASE.STEP`
    pub(crate) step: String,
    /// Its address in the step's state; none for a program's.
    pub(crate) address: Option<String>,
}

/// The world of one case.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) objects: Vec<Object>,
    /// The place in the cloud: a directory, and its address.
    cloud: (PathBuf, String),
    /// What tells its machines apart from those of other scenes.
    tag: String,
    /// The machine that calls, and how often it was started.
    machine: usize,
    boot: usize,
    n_calls: usize,
    /// How often the store has moved.
    n_moves: usize,
    /// `[encryption]` of the target's file.
    encryption: &'static str,
}

/// One call, as it ended.
pub(crate) struct Called {
    pub(crate) outcome: Outcome,
    /// The points that it passed.
    pub(crate) passed: Vec<String>,
    pub(crate) pid: u32,
}

impl Scene {
    /// Writes a platform whose objects are in `place` of the cloud.
    pub(crate) fn new(shape: Shape, cloud: &crate::cloud::Cloud, place: &str) -> Self {
        let mut scene = Self {
            world: World::new(),
            objects: Vec::new(),
            cloud: (cloud.dir().join(place), format!("{}/{place}", cloud.url())),
            tag: format!("{}-{place}", std::process::id()),
            machine: 0,
            boot: 0,
            n_calls: 0,
            n_moves: 0,
            encryption: match shape {
                Shape::Programs | Shape::Plain => "",
                _ => "[encryption]\npassphrase = { env = \"PASS\" }\n",
            },
        };
        let mut text = "[platform]\nname = \"lab\"\n".to_owned();
        let mirror = std::fs::read_to_string(crate::tool("REBUILD_TEST_MIRROR"))
            .expect("the mirror's file is readable");
        scene.write("tofu.tfrc", &mirror);
        text.push_str("[tools]\ntofu = { cli_config = \"tofu.tfrc\" }\n");
        let phases: &[(&str, &[&str])] = match shape {
            Shape::Programs => &[("0", &["!a"]), ("1", &["!b"]), ("2", &["!c"])],
            Shape::Pair | Shape::Plain => &[("0", &["ground", "!note"]), ("1", &["top"])],
            Shape::Seven => &[
                ("0", &["ground"]),
                ("1a", &["edge", "!sign"]),
                ("1b", &["!tunnel"]),
                ("1c", &["metal"]),
                ("2", &["core"]),
                ("3", &["backup", "!copy"]),
                ("4", &["!canary"]),
            ],
        };
        let mut before: Option<String> = None;
        for (phase, steps) in phases {
            text.push_str(&format!(
                "[[phase]]\nid = \"{phase}\"\ntitle = \"phase {phase}\"\n"
            ));
            for step in *steps {
                match step.strip_prefix('!') {
                    Some(step) => text.push_str(&scene.program(phase, step)),
                    None => {
                        text.push_str(&scene.module(phase, step, before.as_deref()));
                        before = Some(format!("{phase}.{step}"));
                    }
                }
            }
            text.push_str(&format!(
                "[[phase.residue]]\nname = \"nothing of phase {phase} is left\"\nexec = [{:?}, \"left\", {:?}, \"p{phase}-\"]\n",
                crate::FAKE_CLOUD, scene.cloud.1
            ));
        }
        scene.write("rebuild.toml", &text);
        scene.write_target();
        scene
    }

    /// A step that is a program; it gets a secret, and says nothing of it.
    fn program(&mut self, phase: &str, step: &str) -> String {
        let name = format!("p{phase}-{step}");
        let act = |word: &str| {
            format!(
                "[{:?}, {word:?}, {:?}, {name:?}]",
                crate::FAKE_CLOUD,
                self.cloud.1
            )
        };
        let text = format!(
            "[[phase.step]]\nname = \"{step}\"\nexec = {{ apply = {}, verify = {}, teardown = {} }}\nenv = {{ TOKEN = \"${{secret.token}}\" }}\n",
            act("make"),
            act("has"),
            act("remove")
        );
        self.objects.push(Object {
            name,
            step: format!("{phase}.{step}"),
            address: None,
        });
        text
    }

    /// A step with a root module of two objects, the second of which needs the first.
    fn module(&mut self, phase: &str, step: &str, before: Option<&str>) -> String {
        let name = format!("p{phase}-{step}");
        let cloud = self.cloud.0.display().to_string();
        let input = match before {
            Some(_) => "variable \"before\" {}\n",
            None => "",
        };
        // A secret reaches no step of a target that does not encrypt.
        let (token, secret, given) = match self.is_plain() {
            true => ("", "\"none\"", ""),
            false => (
                "variable \"token\" { sensitive = true }\n",
                "var.token",
                "token = \"${secret.token}\"",
            ),
        };
        let content = match before {
            Some(_) => "var.before",
            None => "\"first\"",
        };
        self.write(
            &format!("{name}/main.tf"),
            &format!(
                "terraform {{\n  required_providers {{\n    test = {{ source = \"rebuild/test\" }}\n  }}\n}}\n\
                 provider \"test\" {{\n  cloud = {cloud:?}\n}}\n\
                 {token}{input}\
                 resource \"test_object\" \"one\" {{\n  name    = \"{name}-one\"\n  content = {content}\n  secret  = {secret}\n}}\n\
                 resource \"test_object\" \"two\" {{\n  name    = \"{name}-two\"\n  content = test_object.one.address\n}}\n\
                 output \"address\" {{ value = test_object.two.address }}\n"
            ),
        );
        for part in ["one", "two"] {
            self.objects.push(Object {
                name: format!("{name}-{part}"),
                step: format!("{phase}.{step}"),
                address: Some(format!("test_object.{part}")),
            });
        }
        let before = before.map_or(String::new(), |step| {
            format!("before = \"${{step.{step}.address}}\"")
        });
        let vars = [given, &before].map(str::to_owned);
        let vars: Vec<String> = vars.into_iter().filter(|var| !var.is_empty()).collect();
        format!(
            "[[phase.step]]\nname = \"{step}\"\ntofu = \"{name}\"\nvars = {{ {} }}\n",
            vars.join(", ")
        )
    }

    fn write(&self, path: &str, text: &str) {
        self.world.write(&format!("platform/{path}"), text);
    }

    fn write_target(&self) {
        self.write(
            "targets/drill.toml",
            &format!(
                "[store]\nlocal = {{ dir = {:?} }}\n{}[secrets]\ntoken = {{ env = \"TOKEN\" }}\n",
                self.store().display().to_string(),
                self.encryption
            ),
        );
    }

    /// The target's store, which every machine reaches.
    pub(crate) fn store(&self) -> PathBuf {
        self.store_after(self.n_moves)
    }

    fn store_after(&self, n_moves: usize) -> PathBuf {
        self.world.root().join(format!("store-{n_moves}"))
    }

    /// Where a move of the store goes.
    pub(crate) fn next_store(&self) -> String {
        self.store_after(self.n_moves + 1).display().to_string()
    }

    /// The store has moved, and the target's file says so.
    pub(crate) fn has_moved(&mut self) {
        self.n_moves += 1;
        self.write_target();
    }

    /// What the machine that calls keeps of its own.
    pub(crate) fn state_home(&self) -> PathBuf {
        self.world.root().join(format!("state-{}", self.machine))
    }

    /// Whether its states can be read as they are.
    pub(crate) fn is_plain(&self) -> bool {
        self.encryption.is_empty()
    }

    /// The directory of the cloud's objects.
    pub(crate) fn cloud_dir(&self) -> &Path {
        &self.cloud.0
    }

    /// Lets every later scene know what this one has found out of the tools.
    pub(crate) fn share_tools(&self) {
        if let Ok(found) = std::fs::read(self.state_home().join("rebuild/tools.json")) {
            let _ = TOOLS.set(found);
        }
    }

    fn know_tools(&self) {
        let file = self.state_home().join("rebuild/tools.json");
        if let (Some(found), false) = (TOOLS.get(), file.exists()) {
            let dir = self.state_home().join("rebuild");
            process::files::create_private_dir(&dir).expect("a machine's own directory");
            process::files::write_atomically(&file, found, 0o600).expect("what is known of tools");
        }
    }

    /// From now on another machine calls.
    pub(crate) fn go_elsewhere(&mut self) {
        self.machine += 1;
    }

    /// The machine is started anew: its memory is gone.
    pub(crate) fn reboot(&mut self, pids: &[u32]) {
        self.boot += 1;
        for dir in self.memory_dirs_of(pids) {
            std::fs::remove_dir_all(dir).expect("memory that is gone");
        }
    }

    /// Calls `rebuild`, and lets it be hurt.
    pub(crate) fn call(&mut self, words: &[&str], aim: Option<&fault::Aim>) -> Called {
        let (started, log) = self.start(words, aim);
        let pid = started.pid();
        let outcome = started.wait();
        let passed = std::fs::read_to_string(&log).unwrap_or_default();
        Called {
            outcome,
            passed: passed.lines().map(str::to_owned).collect(),
            pid,
        }
    }

    /// Starts `rebuild`; with the file that the points it passes are written to.
    pub(crate) fn start(&mut self, words: &[&str], aim: Option<&fault::Aim>) -> (Started, PathBuf) {
        self.n_calls += 1;
        self.know_tools();
        let log = self.world.root().join(format!("points-{}", self.n_calls));
        let orders = Orders {
            log: Some(log.clone()),
            aims: aim.into_iter().cloned().collect(),
            place: fault::Place {
                machine: Some(format!("{}{}", self.machines(), self.machine)),
                boot: Some(format!("boot-{}", self.boot)),
            },
            ..Orders::default()
        };
        let tofu = crate::tool("REBUILD_TEST_TOFU");
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            tofu.parent().expect("a program has a directory").display()
        );
        let started = self
            .world
            .command(crate::REBUILD)
            .args(words.iter().copied())
            .cwd(self.world.work().join("platform"))
            .env("PATH", path)
            .env("XDG_STATE_HOME", self.state_home())
            .env("PASS", PASSPHRASE)
            .env("TOKEN", TOKEN)
            .env("__REBUILD_LEASE_MS", LEASE)
            .env(fault::VARIABLE, orders.to_string())
            .deadline(DEADLINE)
            .start();
        (started, log)
    }

    /// A document that a command prints, which must end well.
    pub(crate) fn document(&mut self, words: &[&str]) -> Value {
        let mut all = words.to_vec();
        all.extend(["--output", "json"]);
        let called = self.call(&all, None);
        called.outcome.expect_code(0);
        serde_json::from_str(&called.outcome.stdout).expect("a document is JSON")
    }

    /// How the names of its machines begin.
    fn machines(&self) -> String {
        format!("machine-{}-", self.tag)
    }

    /// The memory-backed directories that processes of its machines have left; a number may be another's by now.
    pub(crate) fn memory_dirs_of(&self, pids: &[u32]) -> Vec<PathBuf> {
        let entries = std::fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .flatten();
        let dirs = entries.map(|entry| entry.path());
        dirs.filter(|dir| {
            let owner = std::fs::read(dir.join(".owner.json")).ok();
            let owner: Option<Value> = owner.and_then(|text| serde_json::from_slice(&text).ok());
            owner.is_some_and(|owner| {
                let is_ours = owner["machine_id"]
                    .as_str()
                    .is_some_and(|machine| machine.starts_with(&self.machines()));
                is_ours && pids.iter().any(|pid| owner["pid"] == *pid)
            })
        })
        .collect()
    }
}

//! A resource whose making and unmaking can be held by the test, so that a signal comes at an exact point.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde_json::Value;
use test_support::{Command, Outcome, Started, World};

use crate::drill::Drill;

/// How long anything that a test waits for may take on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition; its absence fails the test.
pub(crate) fn wait_for<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    process::wait::until(deadline, Duration::from_millis(10), condition)
        .unwrap_or_else(|| panic!("did not come about in time: {what}"))
}

/// Makes an empty file.
pub(crate) fn touch(path: &Path) {
    std::fs::File::create(path).expect("a file of the test");
}

/// Waits while the gate is held.
const WAIT: &str =
    "n=0; while [ -e hold ]; do n=$((n+1)); [ $n -lt 1800 ] || exit 9; sleep 0.05; done";

/// One `terraform_data` that leaves an object (a file) for as long as it stands, counts how often it was made, and
/// waits while the gate is held.
pub(crate) struct Gate {
    dir: PathBuf,
}

impl Gate {
    /// Makes a gate that is open.
    pub(crate) fn new(world: &World, name: &str) -> Self {
        let dir = world.root().join(name);
        std::fs::create_dir(&dir).expect("the gate's directory");
        Self { dir }
    }

    fn module_with(&self, before: &str, more: &str) -> String {
        let dir = self.dir.display();
        format!(
            r#"resource "terraform_data" "slow" {{
  input = "{dir}"
{more}
  provisioner "local-exec" {{
    command = "cd ${{self.input}}; {before}echo $$ > pid; echo made >> made; touch object; touch creating; {WAIT}"
  }}
  provisioner "local-exec" {{
    when    = destroy
    command = "cd ${{self.input}}; {before}echo $$ > pid; touch destroying; {WAIT}; echo gone >> gone; rm -f object"
  }}
}}
output "dir" {{ value = terraform_data.slow.output }}
"#
        )
    }

    /// The root module.
    pub(crate) fn module(&self) -> String {
        self.module_with("", "")
    }

    /// The root module, with more arguments of the resource.
    pub(crate) fn module_and(&self, more: &str) -> String {
        self.module_with("", more)
    }

    /// The root module, with a provisioner that no SIGINT ends.
    pub(crate) fn stubborn_module(&self) -> String {
        self.module_with("trap '' INT; ", "")
    }

    /// A shell script with `apply`, `verify` and `teardown` that does the same.
    pub(crate) fn script(&self) -> String {
        let dir = self.dir.display();
        format!(
            "cd {dir}\ncase $1 in\napply) echo $$ > pid; echo made >> made; touch object; touch creating; {WAIT} ;;\n\
             verify) test -e object ;;\nteardown) rm -f object; echo gone >> gone ;;\nesac\n"
        )
    }

    /// Takes the object away, as somebody else would.
    pub(crate) fn take_away(&self) {
        std::fs::remove_file(self.dir.join("object")).expect("an object");
    }

    /// From now on makings and unmakings wait.
    pub(crate) fn hold(&self) {
        for mark in ["creating", "destroying"] {
            let _ = std::fs::remove_file(self.dir.join(mark));
        }
        touch(&self.dir.join("hold"));
    }

    /// Lets them go on.
    pub(crate) fn open(&self) {
        let _ = std::fs::remove_file(self.dir.join("hold"));
    }

    /// Waits until the resource is being made.
    pub(crate) fn await_creating(&self) {
        self.await_mark("creating");
    }

    /// Waits until the resource is being unmade.
    pub(crate) fn await_destroying(&self) {
        self.await_mark("destroying");
    }

    fn await_mark(&self, mark: &str) {
        let path = self.dir.join(mark);
        wait_for(&format!("`{mark}` at the gate"), || {
            path.exists().then_some(())
        });
    }

    /// How often the object was made.
    pub(crate) fn n_made(&self) -> usize {
        self.n_lines("made")
    }

    /// How often it was taken away.
    pub(crate) fn n_gone(&self) -> usize {
        self.n_lines("gone")
    }

    fn n_lines(&self, file: &str) -> usize {
        std::fs::read_to_string(self.dir.join(file)).map_or(0, |text| text.lines().count())
    }

    /// Whether the object stands.
    pub(crate) fn stands(&self) -> bool {
        self.dir.join("object").exists()
    }

    /// The process that waits at the gate.
    pub(crate) fn pid(&self) -> Pid {
        let text = std::fs::read_to_string(self.dir.join("pid")).expect("somebody was at the gate");
        pid(text.trim().parse().expect("a pid"))
    }

    /// The process group of whoever waits at the gate: that of `tofu`.
    pub(crate) fn group(&self) -> Pid {
        rustix::process::getpgid(Some(self.pid())).expect("the group of a living process")
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// A number as a pid.
pub(crate) fn pid(number: i32) -> Pid {
    Pid::from_raw(number).expect("a pid is not 0")
}

/// Waits until no process of a group is left.
pub(crate) fn await_group_gone(group: Pid) {
    wait_for("the end of a process group", || {
        group_is_gone(group).then_some(())
    });
}

/// Whether no process of a group is left; a zombie, which only waits for somebody to hear of its end, is none.
pub(crate) fn group_is_gone(group: Pid) -> bool {
    living().iter().all(|&(_, of)| of != group.as_raw_pid())
}

/// Whether a process lives.
pub(crate) fn is_alive(process: Pid) -> bool {
    living().iter().any(|&(pid, _)| pid == process.as_raw_pid())
}

/// Pids and process groups of everything that lives.
fn living() -> Vec<(i32, i32)> {
    let listed = World::new()
        .command("/bin/ps")
        .args(["-A", "-o", "pid=,pgid=,stat="])
        .run();
    let numbers = listed.stdout.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (pid, group) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        (!words.next()?.starts_with('Z')).then_some((pid, group))
    });
    numbers.collect()
}

/// The memory-backed directories that a process has made.
pub(crate) fn memory_dirs_of(pid: u32) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/dev/shm")
        .expect("a memory-backed file system")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|dir| {
            let owner = std::fs::read(dir.join(".owner.json")).ok();
            let owner: Option<Value> = owner.and_then(|text| serde_json::from_slice(&text).ok());
            owner.is_some_and(|owner| owner["pid"] == pid)
        })
        .collect();
    found.sort();
    found
}

impl Drill {
    /// The pids that the target's steps have noted of children that were not seen to their end.
    pub(crate) fn noted_children(&self) -> Vec<Pid> {
        self.world
            .files_with(&self.work(), b"start_time")
            .iter()
            .filter(|path| path.file_name().is_some_and(|name| name == "child.json"))
            .map(|path| {
                let text = std::fs::read(path).expect("a readable marker");
                let marker: Value = serde_json::from_slice(&text).expect("a marker in JSON");
                let number = marker["pid"].as_i64().expect("a pid");
                pid(i32::try_from(number).expect("a pid that fits"))
            })
            .collect()
    }

    /// Every `errored.tfstate` in the target's working directory.
    pub(crate) fn errored_states(&self) -> Vec<PathBuf> {
        self.world
            .files_with(&self.work(), b"\"serial\"")
            .into_iter()
            .filter(|path| {
                path.file_name()
                    .is_some_and(|name| name == "errored.tfstate")
            })
            .collect()
    }

    /// State locks in the store, as `1a/edge`.
    pub(crate) fn state_locks(&self) -> Vec<PathBuf> {
        let root = self.store().join("lock");
        if root.exists() {
            self.world.files_with(&root, b"{")
        } else {
            Vec::new()
        }
    }

    /// Neither the target nor one of its states is locked.
    pub(crate) fn expect_no_locks(&self) {
        assert!(
            !self.store().join("lock.json").exists(),
            "the target is still locked"
        );
        let locks = self.state_locks();
        assert_eq!(locks, Vec::<PathBuf>::new(), "a state is still locked");
    }

    /// Nothing of a call is left: no lock of the target, none of a state, no child, no state that waits for a rescue.
    pub(crate) fn expect_nothing_left_of_the_call(&self) {
        self.expect_no_locks();
        assert!(self.noted_children().is_empty(), "a child is still noted");
        assert_eq!(
            self.errored_states(),
            Vec::<PathBuf>::new(),
            "a state waits for its rescue"
        );
    }

    /// The record of the target's current run.
    pub(crate) fn record(&self) -> Value {
        self.status()["run"].clone()
    }
}

/// The passphrase of encrypted targets.
pub(crate) const PASSPHRASE: &str = "correct horse battery staple";

/// A step of a record.
pub(crate) fn step<'r>(record: &'r Value, id: &str) -> &'r Value {
    let steps = record["steps"].as_array().expect("a record has steps");
    steps
        .iter()
        .find(|step| step["step"] == id)
        .unwrap_or_else(|| panic!("the record does not know step `{id}`: {record:#}"))
}

/// A platform of two phases, `0.slow` with a gate and `1.next`, which leaves a file.
pub(crate) struct Scene {
    /// The platform.
    pub(crate) drill: Drill,
    /// The gate in phase 0.
    pub(crate) gate: Gate,
    /// The file that phase 1 leaves.
    pub(crate) marker: PathBuf,
    encrypted: bool,
}

impl Scene {
    /// Makes one whose states are in clear.
    pub(crate) fn clear() -> Self {
        Self::made(false)
    }

    /// Makes one whose states are encrypted.
    pub(crate) fn encrypted() -> Self {
        Self::made(true)
    }

    fn made(encrypted: bool) -> Self {
        let drill = Drill::empty();
        let gate = Gate::new(&drill.world, "gate");
        let marker = drill.world.root().join("marker");
        drill.write(
            "rebuild.toml",
            "[platform]\nname = \"lab\"\n\
             [[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"slow\"\ntofu = \"slow\"\n\
             [[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"next\"\ntofu = \"next\"\n",
        );
        drill.write("slow/main.tf", &gate.module());
        drill.write("next/main.tf", &crate::drill::marker_module(&marker));
        if encrypted {
            drill.write(
                "targets/drill.toml",
                "[encryption]\npassphrase = { env = \"REBUILD_PASSPHRASE\" }\n",
            );
        }
        Self {
            drill,
            gate,
            marker,
            encrypted,
        }
    }

    /// A `rebuild` command line of target `drill`: `up` and `down` on their own.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut all = args.to_vec();
        all.splice(1..1, ["--target", "drill"]);
        if args.first() == Some(&"up") {
            all.push("--no-pause");
        }
        let command = self.drill.rebuild(&all);
        if self.encrypted {
            command.env("REBUILD_PASSPHRASE", PASSPHRASE)
        } else {
            command
        }
    }

    /// Runs a command and demands its exit code.
    pub(crate) fn run(&self, code: i32, args: &[&str]) -> Outcome {
        let outcome = self.command(args).run();
        outcome.expect_code(code);
        outcome
    }

    /// Starts a command and waits until it makes the resource at the gate, which is held.
    pub(crate) fn start_creating(&self, args: &[&str]) -> Started {
        self.gate.hold();
        let started = self.command(args).start();
        self.gate.await_creating();
        started
    }

    /// Starts a command and waits until it unmakes the resource at the gate, which is held.
    pub(crate) fn start_destroying(&self, args: &[&str]) -> Started {
        self.gate.hold();
        let started = self.command(args).start();
        self.gate.await_destroying();
        started
    }

    /// Everything stands, and the target is as it was applied.
    pub(crate) fn expect_built(&self) {
        assert!(self.gate.stands() && self.marker.exists());
        assert_eq!(self.drill.states(), ["0/slow", "1/next"]);
        let status = self.drill.status();
        assert_eq!(status["state"], "finished", "{status:#}");
        assert_eq!(status["run"]["status"], "finished");
        self.drill.expect_nothing_left_of_the_call();
        self.run(0, &["preflight"]);
    }

    /// `down` takes everything away.
    pub(crate) fn expect_down(&self) {
        self.gate.open();
        self.run(0, &["down"]);
        self.expect_gone();
    }

    /// Nothing is left.
    pub(crate) fn expect_gone(&self) {
        assert!(!self.gate.stands() && !self.marker.exists());
        assert!(self.drill.states().is_empty());
        assert_eq!(self.drill.status()["state"], "empty");
        self.drill.expect_nothing_left_of_the_call();
    }
}

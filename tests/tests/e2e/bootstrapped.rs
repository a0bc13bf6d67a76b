//! `bootstrap`: Ansible first; what it captures is sealed and reaches a workspace, and no disk.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use test_support::{Command, Ended, Outcome};

use crate::drill::tool;
use crate::gate::{touch, wait_for};
use crate::published::conforms;
use crate::sealed_secrets::SealedDrill;

/// A platform whose workspace `next` wants a captured `token`, and a playbook that captures one.
pub(crate) struct Seed {
    pub(crate) sealed: SealedDrill,
    /// In memory: the value that the playbook finds.
    source: tempfile::TempDir,
    /// What is captured.
    pub(crate) value: String,
}

const PASS: &str = "a passphrase of the tests";

impl Seed {
    /// Makes one; `tasks` follow those that note what is done and capture the token.
    pub(crate) fn new(tasks: &str) -> Self {
        let value = format!("s3cret-{}-of-the-seed", ulid_like());
        let source = tempfile::tempdir_in("/dev/shm").expect("memory-backed storage");
        std::fs::write(source.path().join("value"), format!("{value}\n")).expect("the value");
        let sealed = SealedDrill::new("", &[("nothing", "")], "");
        let seed = Self {
            sealed,
            source,
            value,
        };
        seed.target(&[&seed.sealed.recipient]);
        seed.ansible(&tool("REBUILD_TEST_ANSIBLE"));
        seed.root("");
        seed.playbook(&format!("{}{tasks}", seed.capturing()));
        seed
    }

    pub(crate) fn target(&self, recipients: &[&str]) {
        self.sealed.target(
            recipients,
            "[encryption]\npassphrase = { env = \"PASS\" }\n",
        );
    }

    /// Writes `rebuild.toml` with this Ansible.
    pub(crate) fn ansible(&self, program: &std::path::Path) {
        self.sealed.drill.write(
            "rebuild.toml",
            &format!(
                "[platform]\nname = \"lab\"\n[tools]\nansible = {{ command = [\"{}\"] }}\n[[phase]]\nid = \"1\"\n\
                 [[phase.step]]\nname = \"nothing\"\ntofu = \"nothing\"\n\
                 [workspace.next]\nroot = \"next\"\ntarget = \"drill\"\ncaptured = [\"token\"]\n",
                program.display()
            ),
        );
    }

    /// Writes the workspace's root module, whose apply fails while the file `fail` is there.
    fn root(&self, more: &str) {
        let place = self.place().display().to_string();
        self.sealed.drill.write(
            "next/main.tf",
            &format!(
                "variable \"token\" {{\n  sensitive = true\n}}\n\
                 resource \"terraform_data\" \"it\" {{\n  input = nonsensitive(strrev(var.token))\n  \
                 provisioner \"local-exec\" {{\n    command = \"test ! -e {place}/fail && echo applied >> {place}/book\"\n  }}\n}}\n\
                 output \"reversed\" {{ value = terraform_data.it.output }}\n{more}"
            ),
        );
    }

    /// Writes the playbook with these tasks.
    pub(crate) fn playbook(&self, tasks: &str) {
        self.sealed.drill.write(
            "playbooks/seed.yml",
            &format!("- hosts: localhost\n  gather_facts: false\n  tasks:\n{tasks}"),
        );
    }

    /// Tasks that note that they ran and where, and capture the token.
    pub(crate) fn capturing(&self) -> String {
        let place = self.place().display().to_string();
        format!(
            "    - name: notes\n      ansible.builtin.shell: \"echo played >> {place}/book; echo {{{{ rebuild_capture }}}} >> {place}/captures\"\n\
             \x20   - name: the token\n      ansible.builtin.copy:\n        content: \"{{{{ lookup('ansible.builtin.file', '{source}') }}}}\\n\"\n        \
             dest: \"{{{{ rebuild_capture }}}}/token\"\n        mode: \"0600\"\n",
            source = self.source.path().join("value").display()
        )
    }

    /// A task that holds while the file `hold` is there, having made `held`.
    pub(crate) fn holding(&self) -> String {
        let place = self.place().display().to_string();
        format!(
            "    - name: holds\n      ansible.builtin.shell: \"touch {place}/held; n=0; while [ -e {place}/hold ]; do n=$((n+1)); [ $n -lt 1800 ] || exit 9; sleep 0.05; done\"\n"
        )
    }

    /// A task of somebody who does not think of secrets.
    pub(crate) fn careless(&self) -> String {
        format!(
            "    - name: careless\n      ansible.builtin.debug:\n        msg: \"it is {{{{ lookup('ansible.builtin.file', '{}') }}}}, said twice\"\n",
            self.source.path().join("value").display()
        )
    }

    /// Where tests and tasks meet.
    pub(crate) fn place(&self) -> PathBuf {
        let place = self.sealed.drill.world.root().join("place");
        std::fs::create_dir_all(&place).expect("a directory");
        place
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.source.path().join("value")
    }

    pub(crate) fn bootstrap(&self) -> Command {
        self.rebuild(&["bootstrap", "run", "playbooks/seed.yml", "next"])
    }

    pub(crate) fn rebuild(&self, args: &[&str]) -> Command {
        self.sealed.drill.rebuild(args).env("PASS", PASS)
    }

    pub(crate) fn run(&self, code: i32, args: &[&str]) -> Outcome {
        let outcome = self.rebuild(args).run();
        outcome.expect_code(code);
        outcome
    }

    pub(crate) fn book(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.place().join("book")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Directories that plays were given to capture in, in order.
    pub(crate) fn captures(&self) -> Vec<PathBuf> {
        let text = std::fs::read_to_string(self.place().join("captures")).unwrap_or_default();
        text.lines().map(PathBuf::from).collect()
    }

    /// The newest job, and the status of each of its steps.
    pub(crate) fn job(&self) -> (Value, Vec<String>) {
        let list = self.sealed.drill.json(0, &["jobs", "list"]);
        let job = list["jobs"][0].clone();
        let steps = job["steps"].as_array().cloned().unwrap_or_default();
        let words = steps
            .iter()
            .map(|step| step["status"].as_str().unwrap_or_default().to_owned());
        (job.clone(), words.collect())
    }

    /// What was captured is what the workspace got, and lies on no disk in the clear.
    pub(crate) fn expect_handed_over(&self) {
        let status = self.sealed.drill.json(0, &["provision", "status", "next"]);
        let reversed: String = self.value.chars().rev().collect();
        assert_eq!(
            status["outputs"]["reversed"],
            reversed.as_str(),
            "{status:#}"
        );
        self.expect_nothing_on_disk();
        for capture in self.captures() {
            assert!(!capture.exists(), "{} is left", capture.display());
        }
    }

    /// No file of this world outside memory holds the value.
    pub(crate) fn expect_nothing_on_disk(&self) {
        let world = &self.sealed.drill.world;
        let found = world.files_with(world.root(), self.value.as_bytes());
        assert!(found.is_empty(), "{found:?}");
    }
}

/// Something that no other test looks for.
fn ulid_like() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{n}", std::process::id())
}

/// Cases K7, K8, A9: the whole way with the real Ansible, masked where a task prints the value; then the workspace is
/// applied and torn down by other commands, which take the value from the envelope.
#[test]
fn what_a_playbook_captures_is_sealed_and_given_to_the_workspace() {
    let seed = Seed::new("");
    seed.playbook(&format!("{}{}", seed.capturing(), seed.careless()));
    let said = seed.bootstrap().run();
    said.expect_code(0);
    for line in [
        "ansible: done",
        "seal: done: `token` is sealed",
        "apply: done",
    ] {
        assert!(said.stderr.contains(line), "no {line:?} in {}", said.stderr);
    }
    assert_eq!(seed.book(), ["played", "applied"]);
    seed.expect_handed_over();
    let (job, words) = seed.job();
    assert_eq!(words, ["succeeded"; 3]);
    assert_eq!(job["steps"][1]["outputs"], json!({ "sealed": ["token"] }));
    let id = job["id"].as_str().expect("an id");
    conforms(
        "jobs-show",
        &seed.sealed.drill.json(0, &["jobs", "show", id]),
    );
    let open = ["secrets", "open", "token", "--target", "drill", "--force"];
    let document = seed.sealed.drill.json(0, &open);
    assert_eq!(
        document["value"],
        seed.value.as_str(),
        "without the newline"
    );
    assert_eq!(document["sealed_by"], id);

    // The careless task is in the log, with the value masked; nothing that was said holds it.
    let logs = seed.sealed.drill.world.state_home();
    let masked = seed
        .sealed
        .drill
        .world
        .files_with(&logs, b"it is [secret], said twice");
    assert_eq!(masked.len(), 1, "{masked:?}");
    assert!(!said.stderr.contains(&seed.value) && !said.stdout.contains(&seed.value));

    seed.run(0, &["provision", "down", "next"]);
    let again = seed.run(0, &["provision", "down", "next"]);
    assert!(again.stdout.contains("nothing stands"), "{}", again.stdout);
}

/// A redrive goes on from the envelope: what failed after the seal does not run Ansible again.
#[test]
fn what_failed_after_the_seal_goes_on_from_the_envelope() {
    let seed = Seed::new("");
    touch(&seed.place().join("fail"));
    let failed = seed.bootstrap().run();
    failed.expect_code(1);
    let (job, words) = seed.job();
    assert_eq!(
        words,
        ["succeeded", "succeeded", "failed"],
        "{}",
        failed.stderr
    );
    let id = job["id"].as_str().expect("an id").to_owned();
    std::fs::remove_file(seed.place().join("fail")).expect("mended");
    // The source of the value is gone: the envelope alone has it.
    std::fs::remove_file(seed.source()).expect("the source");
    seed.run(0, &["jobs", "resume", &id]);
    assert_eq!(seed.book(), ["played", "applied"]);
    seed.expect_handed_over();

    // From the beginning only where a person says so.
    let refused = seed
        .rebuild(&["jobs", "redrive", &id, "--from", "ansible"])
        .run();
    refused.expect_code(1);
    assert_eq!(seed.book(), ["played", "applied", "played"]);

    // What it was applied with is not in the envelope any more.
    let targets = seed.sealed.drill.dir().join("targets");
    let (envelope, aside) = (targets.join("drill.envelope"), targets.join("aside"));
    std::fs::rename(&envelope, &aside).expect("an envelope");
    let refused = seed.run(2, &["provision", "down", "next"]);
    let lacks = "workspace `next` was applied with `token`, which the envelope of target `drill` does not hold";
    assert!(refused.stderr.contains(lacks), "{}", refused.stderr);
    std::fs::rename(&aside, &envelope).expect("it is back");

    // The key is gone for good, and with it the value: the ways on are told, and a person may do without.
    std::fs::remove_file(&seed.sealed.identity).expect("the key");
    let refused = seed.run(2, &["provision", "down", "next"]);
    for words in [
        "cannot fetch the key that opens the envelope",
        "`rebuild secrets seal token --target drill`",
        "`rebuild provision down next --without-captured REASON`",
    ] {
        assert!(
            refused.stderr.contains(words),
            "no {words:?} in {}",
            refused.stderr
        );
    }
    let without = ["provision", "down", "next", "--without-captured", "burnt"];
    let down = seed.run(0, &without);
    assert!(
        down.stderr
            .contains("`token` is done without: cannot fetch"),
        "{}",
        down.stderr
    );
    let kept = seed.sealed.drill.world.state_home();
    let kept = seed.sealed.drill.world.files_with(&kept, b"burnt");
    assert!(!kept.is_empty(), "the reason is on record");
    let again = seed.run(0, &["provision", "down", "next"]);
    assert!(again.stdout.contains("nothing stands"), "{}", again.stdout);
}

/// What another put into the place of what the job sealed is refused, though the key opens it.
#[test]
fn a_job_takes_from_the_envelope_what_it_sealed_itself() {
    let seed = Seed::new("");
    touch(&seed.place().join("fail"));
    seed.bootstrap().run().expect_code(1);
    std::fs::remove_file(seed.place().join("fail")).expect("mended");
    seed.sealed.seal("token", b"another value");
    let refused = seed.bootstrap().run();
    refused.expect_code(1);
    assert!(
        refused.stderr.contains("was sealed as the run `hand`"),
        "{}",
        refused.stderr
    );
    assert_eq!(seed.book(), ["played"]);
}

/// Case K10 and what else is wrong before anything is done.
#[test]
fn what_can_not_be_captured_is_told_before_anything_is_done() {
    let seed = Seed::new("");
    let refused = |words: &str| {
        let said = seed.bootstrap().run();
        said.expect_code(2);
        assert!(
            said.stderr.contains(words),
            "no {words:?} in {}",
            said.stderr
        );
        assert!(seed.book().is_empty());
    };
    seed.sealed.drill.write(
        "targets/drill.toml",
        "[encryption]\npassphrase = { env = \"PASS\" }\n",
    );
    refused("has no `[envelope]`");
    seed.target(&[&seed.sealed.recipient]);
    let key = std::fs::read(&seed.sealed.identity).expect("the key");
    std::fs::remove_file(&seed.sealed.identity).expect("no key");
    refused("cannot fetch the key that opens the envelope");
    std::fs::write(&seed.sealed.identity, key).expect("the key again");
    let platform = seed.sealed.drill.dir().join("rebuild.toml");
    let text = std::fs::read_to_string(&platform).expect("the platform");
    std::fs::write(
        &platform,
        text.replace(
            "captured = [\"token\"]\n",
            "vars = { token = \"x\" }\nhosts = \"reversed\"\n",
        ),
    )
    .expect("nothing is captured");
    refused("captures nothing");
    std::fs::write(&platform, text).expect("as it was");
    let inventory = [
        "bootstrap",
        "run",
        "playbooks/seed.yml",
        "next",
        "--inventory",
        "nowhere.yml",
    ];
    let said = seed.run(2, &inventory);
    assert!(
        said.stderr.contains("there is no inventory"),
        "{}",
        said.stderr
    );
}

/// A play that captures too little, or what is no secret, fails, and what it captured is wiped.
#[test]
fn a_play_that_captures_too_little_fails_and_is_run_again() {
    let seed = Seed::new("");
    let place = seed.place().display().to_string();
    for (task, told) in [
        (
            format!(
                "    - ansible.builtin.shell: echo {{{{ rebuild_capture }}}} >> {place}/captures\n"
            ),
            "captured no `token`",
        ),
        (
            format!(
                "    - ansible.builtin.shell: echo {{{{ rebuild_capture }}}} >> {place}/captures; mkdir {{{{ rebuild_capture }}}}/token\n"
            ),
            "is a directory, and each secret is a file of its own",
        ),
    ] {
        seed.playbook(&task);
        let said = seed.bootstrap().run();
        said.expect_code(1);
        assert!(said.stderr.contains(told), "no {told:?} in {}", said.stderr);
        assert_eq!(seed.job().1, ["failed", "pending", "pending"]);
    }
    for capture in seed.captures() {
        assert!(!capture.exists(), "{} is left", capture.display());
    }
    seed.playbook(&seed.capturing());
    seed.bootstrap().run().expect_code(0);
    seed.expect_handed_over();
}

/// An inventory of the user's, whose hosts are all expected to answer.
#[test]
fn a_play_can_be_run_on_an_inventory() {
    let seed = Seed::new("");
    let inventory = "all:\n  hosts:\n    one: {ansible_connection: local, ansible_python_interpreter: \"{{ ansible_playbook_python }}\"}\n    two: {ansible_connection: local, ansible_python_interpreter: \"{{ ansible_playbook_python }}\"}\n";
    seed.sealed.drill.write("hosts.yml", inventory);
    let tasks = seed.capturing();
    seed.sealed.drill.write(
        "playbooks/seed.yml",
        &format!("- hosts: one\n  gather_facts: false\n  tasks:\n{tasks}"),
    );
    let run = [
        "bootstrap",
        "run",
        "playbooks/seed.yml",
        "next",
        "--inventory",
        "hosts.yml",
    ];
    let said = seed.run(0, &run);
    assert!(said.stderr.contains("1 host, 1 changed"), "{}", said.stderr);
    seed.expect_handed_over();
    seed.sealed
        .drill
        .write("playbooks/seed.yml", "- hosts: three\n  tasks: []\n");
    let said = seed.run(1, &run);
    assert!(said.stderr.contains("no host matched"), "{}", said.stderr);
}

/// Killed while the play runs: it goes on, the next call waits for it, sweeps what it captured and plays again.
#[test]
fn a_call_that_is_killed_while_ansible_runs_leaves_nothing_and_goes_on() {
    let seed = Seed::new("");
    seed.playbook(&format!("{}{}", seed.capturing(), seed.holding()));
    touch(&seed.place().join("hold"));
    let started = seed.bootstrap().start();
    wait_for("the play to hold", || {
        seed.place().join("held").exists().then_some(())
    });
    started.signal(Signal::KILL);
    assert_eq!(started.wait().ended, Ended::Signal(9));
    seed.expect_nothing_on_disk();
    let left = seed.captures();
    assert!(
        left[0].join("token").exists(),
        "the play that goes on still uses it"
    );
    let mut next = seed.bootstrap().in_terminal();
    next.expect("waiting for the end of process");
    std::fs::remove_file(seed.place().join("hold")).expect("it goes on");
    next.wait().expect_code(0);
    assert_eq!(seed.book(), ["played", "played", "applied"]);
    seed.expect_handed_over();
}

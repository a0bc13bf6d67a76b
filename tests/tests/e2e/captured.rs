//! The proof that a captured secret comes to no disk, no argument list and no log, wherever `bootstrap` is killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use std::time::Duration;

use test_support::{Command, Ended};

use crate::bootstrapped::Seed;
use crate::drill::tool;
use crate::farm::Farm;
use crate::sealed_secrets::age_key;
use crate::secrecy::Watch;

/// System calls that write, start programs or move bytes between files.
const TRACED: &str = "trace=write,pwrite64,writev,pwritev,pwritev2,sendto,sendmsg,sendfile,copy_file_range,splice,execve";

/// Every process, with what each file descriptor leads to and whole texts.
pub(crate) const WHOLE: [&str; 7] = ["-f", "--seccomp-bpf", "-y", "-s", "1000000", "-e", TRACED];
/// Everything takes longer that is looked at.
pub(crate) const LONG: Duration = Duration::from_secs(400);

/// The same command under `strace`, which writes what it saw to `log`.
pub(crate) fn traced(command: &Command, log: &Path, more: &[&str]) -> Command {
    let strace = tool("REBUILD_TEST_STRACE").display().to_string();
    let log = log.display().to_string();
    let mut args = vec!["-o", log.as_str()];
    args.extend(more);
    let line = format!(
        "exec {strace} {} -- {}",
        args.join(" "),
        command.shell_line()
    );
    command.clone().into_shell(&line)
}

/// Where a file descriptor may lead that a secret is written to.
fn is_no_disk(place: &str) -> bool {
    let in_memory = ["/dev/shm/", "/run/", "/memfd:"];
    let to_a_process = ["pipe:[", "socket:[", "UNIX", "TCP", "anon_inode:"];
    in_memory
        .iter()
        .chain(&to_a_process)
        .any(|begin| place.starts_with(begin))
}

/// Lines of a trace that brought the value to a disk or into an argument list.
pub(crate) fn leaks(trace: &str, needles: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for line in trace.lines() {
        // `PID write(5</path>, "…", 7) = 7`
        let Some((call, rest)) = line.split_once('(') else {
            continue;
        };
        let call = call.rsplit(' ').next().unwrap_or_default();
        let holds = needles.iter().any(|needle| rest.contains(needle.as_str()));
        let places: Vec<&str> = rest
            .split('<')
            .skip(1)
            .filter_map(|part| part.split('>').next())
            .collect();
        let leaks = match call {
            "execve" => holds,
            // What is moved is not shown: from memory to a disk nothing may be.
            "sendfile" => {
                matches!(places[..], [to, from, ..] if !is_no_disk(to) && from.starts_with("/dev/shm/"))
            }
            "copy_file_range" | "splice" => {
                matches!(places[..], [from, to, ..] if from.starts_with("/dev/shm/") && !is_no_disk(to))
            }
            _ => holds && !places.first().is_some_and(|place| is_no_disk(place)),
        };
        if leaks {
            found.push(line.chars().take(400).collect());
        }
    }
    found
}

#[test]
fn a_trace_tells_disks_from_memory_and_processes() {
    let trace = r#"
1 write(3</dev/shm/rebuild-capture-1/files/token>, "s3cret\n", 7) = 7
1 write(4<pipe:[12]>, "s3cret", 6) = 6
1 sendto(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, "s3cret", 6, 0, NULL, 0) = 6
1 sendfile(5</dev/shm/a>, 6</dev/shm/b>, NULL, 100) = 7
2 write(5</home/x/log>, "all is well", 11) = 11
2 execve("/bin/sh", ["sh", "-c", "true"], 0x7ffd /* 9 vars */) = 0
"#;
    let of = |line: &str| leaks(line, &["s3cret".to_owned()]);
    assert!(of(trace).is_empty(), "{:?}", of(trace));
    for leak in [
        r#"7 write(3</home/x/file>, "a s3cret b", 10) = 10"#,
        r#"7 pwrite64(3</tmp/x.sqlite-wal>, "s3cret", 6, 0 <unfinished ...>"#,
        r#"7 execve("/bin/sh", ["sh", "-c", "echo s3cret"], 0x7ffd /* 9 vars */) = 0"#,
        r#"7 sendfile(5</tmp/copy>, 6</dev/shm/b>, NULL, 100) = 7"#,
        r#"7 copy_file_range(5</dev/shm/b>, NULL, 6</tmp/copy>, NULL, 100, 0) = 7"#,
    ] {
        assert_eq!(of(leak).len(), 1, "{leak}");
    }
}

/// Cases K6, K7, K8: with the real Ansible and the real OpenTofu every write, copy and program start of every process
/// is looked at, and the argument lists of the machine are watched all the while.
#[test]
fn a_captured_secret_is_written_to_no_disk_and_stands_in_no_argument() {
    let seed = Seed::new("");
    seed.playbook(&format!("{}{}", seed.capturing(), seed.careless()));
    let memory = tempfile::tempdir_in("/dev/shm").expect("memory-backed storage");
    let log = memory.path().join("trace");
    let watch = Watch::for_needles(BTreeSet::from([seed.value.clone()]));
    let said = traced(&seed.bootstrap(), &log, &WHOLE).deadline(LONG).run();
    said.expect_code(0);
    let seen = watch.seen();
    assert!(seen.is_empty(), "{seen:?}");
    let trace = String::from_utf8_lossy(&std::fs::read(&log).expect("a trace")).into_owned();
    let needles = [seed.value.clone()];
    assert!(
        trace.lines().any(
            |line| line.contains(&seed.value) && line.contains("/files/token")
                || line.contains(&seed.value) && line.contains("/dev/shm/")
        ),
        "the trace saw nothing of it"
    );
    let leaks = leaks(&trace, &needles);
    assert!(leaks.is_empty(), "{leaks:#?}");
    seed.expect_handed_over();
}

/// A farm whose secrets come from the envelope: the key that opens its hosts, and a token that OpenTofu is given, that
/// stands in the sensitive output of its hosts, and that a play writes where it belongs, and prints.
pub(crate) struct HandedOn {
    pub(crate) farm: Farm,
    /// The token, and a line of the key.
    pub(crate) needles: [String; 2],
    /// Where the play writes the token on this machine.
    memory: tempfile::TempDir,
}

impl HandedOn {
    pub(crate) fn new() -> Self {
        let farm = Farm::of(&["web1"]);
        let drill = &farm.drill;
        let (recipient, private) = age_key();
        let identity = drill.world.write("age.key", &private);
        drill.write(
            "targets/drill.toml",
            &format!(
                "[ssh]\nidentity = {{ envelope = \"fleet-key\" }}\nhost_keys = \"declared\"\n\
                 [envelope]\nrecipients = [\"{recipient}\"]\nidentity = {{ file = \"{}\" }}\n\
                 [encryption]\npassphrase = {{ env = \"PASS\" }}\n[secrets]\ntoken = {{ envelope = \"token\" }}\n",
                identity.display()
            ),
        );
        drill.write("nothing/main.tf", "");
        drill.write(
            "rebuild.toml",
            &format!(
                "[platform]\nname = \"lab\"\n[tools]\nansible = {{ command = [\"{}\"] }}\n[[phase]]\nid = \"1\"\n[[phase.step]]\n\
                 name = \"nothing\"\ntofu = \"nothing\"\n[workspace.prod]\nroot = \"machines\"\ntarget = \"drill\"\n\
                 vars = {{ token = \"${{secret.token}}\" }}\n",
                tool("REBUILD_TEST_ANSIBLE").display()
            ),
        );
        let module = drill.dir().join("machines/main.tf");
        let text = std::fs::read_to_string(&module).expect("the root module");
        let text = text
            .replace(
                "output \"hosts\" {\n",
                "variable \"token\" {\n  sensitive = true\n}\noutput \"hosts\" {\n  sensitive = true\n",
            )
            .replace(
                "merge(machine.host, {",
                "merge(machine.host, { join_token = var.token,",
            );
        std::fs::write(&module, text).expect("the root module");
        let memory = tempfile::tempdir_in("/dev/shm").expect("memory-backed storage");
        farm.playbook(&format!(
            "- hosts: tf:prod\n  gather_facts: false\n  tasks:\n\
             \x20   - name: joins\n      ansible.builtin.copy: {{content: \"{{{{ join_token }}}}\", dest: \"{place}/joined\"}}\n\
             \x20   - name: careless\n      ansible.builtin.debug: {{msg: \"it is {{{{ join_token }}}}, said twice\"}}\n\
             \x20   - name: here\n      ansible.builtin.copy: {{content: \"{{{{ join_token }}}}\", dest: \"{here}/token\"}}\n      delegate_to: localhost\n\
             \x20     vars: {{ansible_python_interpreter: \"{{{{ ansible_playbook_python }}}}\"}}\n",
            place = farm.place().display(),
            here = memory.path().display(),
        ));
        // Tests run beside each other, and each looks for its own.
        let name = drill.world.root().file_name().expect("a name");
        let token = format!("s3cret-{}-of-the-fleet", name.to_string_lossy());
        let key = std::fs::read_to_string(farm.lab.identity()).expect("the key");
        for (name, value) in [("token", &token), ("fleet-key", &key)] {
            drill
                .rebuild(&["secrets", "seal", name, "--target", "drill"])
                .stdin(value.as_bytes())
                .run()
                .expect_code(0);
        }
        // The lines between the first and the last are the key; each is as good as the whole.
        let line = key.lines().nth(2).expect("a line of the key").to_owned();
        let needles = [token, line];
        Self {
            farm,
            needles,
            memory,
        }
    }

    pub(crate) fn run(&self) -> Command {
        self.farm
            .drill
            .rebuild(&["provision", "run", "prod", "playbooks/node.yml"])
            .env("PASS", "a passphrase of the tests")
    }

    /// What `rebuild` keeps on this machine does not hold them. The play's own file on the host may.
    pub(crate) fn expect_nothing_on_disk(&self) {
        let world = &self.farm.drill.world;
        for needle in &self.needles {
            let found = world.files_with(&world.state_home(), needle.as_bytes());
            assert!(found.is_empty(), "{found:?}");
        }
    }

    /// Whether something below this directory holds one of them.
    pub(crate) fn holds_a_secret(&self, dir: &Path) -> bool {
        let world = &self.farm.drill.world;
        let mut needles = self.needles.iter();
        needles.any(|needle| !world.files_with(dir, needle.as_bytes()).is_empty())
    }

    /// The token is where it belongs, and masked in the log.
    pub(crate) fn expect_handed_on(&self) {
        let joined = std::fs::read_to_string(self.farm.place().join("joined"));
        assert_eq!(joined.expect("it arrived"), self.needles[0]);
        let here = std::fs::read_to_string(self.memory.path().join("token"));
        assert_eq!(here.expect("it arrived here"), self.needles[0]);
        self.expect_nothing_on_disk();
        let world = &self.farm.drill.world;
        let masked = world.files_with(&world.state_home(), b"it is [secret], said twice");
        assert!(!masked.is_empty(), "the log is somewhere");
    }
}

/// Cases K6, K7, K8, A9: the other direction. What comes from the envelope, the key that opens the hosts among it, reaches
/// OpenTofu, the ssh client and Ansible, and none of them brings it to a disk of this machine or into an argument.
#[test]
fn a_secret_that_is_handed_on_is_written_to_no_disk_and_stands_in_no_argument() {
    let handed = HandedOn::new();
    let drill = &handed.farm.drill;
    // With all that Ansible has to say.
    let target = drill.dir().join("targets/drill.toml");
    let target = std::fs::read_to_string(target).expect("the target");
    let talkative = format!("{target}[env]\nANSIBLE_VERBOSITY = \"3\"\n");
    drill.write("targets/drill.toml", &talkative);
    let watch = Watch::for_needles(BTreeSet::from(handed.needles.clone()));
    let log = handed.memory.path().join("trace");
    let said = traced(&handed.run(), &log, &WHOLE).deadline(LONG).run();
    said.expect_code(0);
    let seen = watch.seen();
    assert!(seen.is_empty(), "{seen:?}");
    let trace = String::from_utf8_lossy(&std::fs::read(&log).expect("a trace")).into_owned();
    assert!(
        trace.contains(&handed.needles[0]),
        "the trace saw nothing of it"
    );
    let leaks = leaks(&trace, &handed.needles);
    assert!(leaks.is_empty(), "{leaks:#?}");
    handed.expect_handed_on();
    let kept = drill.world.state_home();
    let talked = drill.world.files_with(&kept, b"ESTABLISH SSH CONNECTION");
    assert!(
        !talked.is_empty(),
        "Ansible said no more than it always does"
    );
}

/// An Ansible for the many kills: it does what the playbook would, and says so as the real one does.
fn quick_ansible(seed: &Seed) -> PathBuf {
    let place = seed.place().display().to_string();
    let source = seed.source().display().to_string();
    let fake = seed.sealed.drill.world.fake_program("quickansible").runs(
        &[],
        &format!(
            r#"case "$*" in *--version*) echo 'ansible-playbook [core 2.19.1]'; exit 0;; esac
for word in "$@"; do case "$word" in @*) vars="${{word#@}}";; esac; done
capture=$(grep -o '/[^"]*/rebuild-capture[^"]*' "$vars")
echo played >> {place}/book
echo "$capture" >> {place}/captures
cat {source} > "$capture/token"
echo '{{"rebuild": "play", "name": "p", "hosts": ["localhost"], "within": ["localhost"]}}'
echo '{{"rebuild": "result", "host": "localhost", "task": "t", "status": "changed", "ignored": false, "message": ""}}'
echo '{{"rebuild": "recap", "hosts": {{"localhost": {{"ok": 1, "changed": 1, "failed": 0, "unreachable": 0, "skipped": 0, "rescued": 0, "ignored": 0}}}}}}'"#
        ),
    );
    fake.path().to_owned()
}

/// How often a whole call makes a system call.
fn counted(call: &str) -> usize {
    let seed = Seed::new("");
    seed.ansible(&quick_ansible(&seed));
    let memory = tempfile::tempdir_in("/dev/shm").expect("memory-backed storage");
    let log = memory.path().join("trace");
    let trace = format!("trace={call}");
    traced(&seed.bootstrap(), &log, &["-e", &trace])
        .run()
        .expect_code(0);
    seed.expect_handed_over();
    let trace = std::fs::read_to_string(&log).expect("a trace");
    trace
        .lines()
        .filter(|line| line.starts_with(&format!("{call}(")))
        .count()
}

/// Kills the call as it begins its `n`th of a system call; says whether it came that far.
fn killed_at(seed: &Seed, call: &str, n: usize) -> bool {
    let memory = tempfile::tempdir_in("/dev/shm").expect("memory-backed storage");
    let log = memory.path().join("trace");
    let (trace, inject) = (
        format!("trace={call}"),
        format!("inject={call}:signal=KILL:when={n}"),
    );
    let ended = traced(&seed.bootstrap(), &log, &["-e", &trace, "-e", &inject]).run();
    if ended.ended == Ended::Signal(9) {
        return true;
    }
    ended.expect_code(0);
    false
}

/// Killed wherever it makes something last: nothing is on a disk in the clear, the next call sweeps what is left in
/// memory and goes on, and once all is sealed Ansible is not run again.
fn killed_wherever(call: &str) {
    const N_POINTS: usize = 7;
    let n_calls = counted(call);
    assert!(n_calls >= N_POINTS, "`{call}` is made {n_calls} times");
    let mut n_killed = 0;
    for point in 1..=N_POINTS {
        let n = point * n_calls / (N_POINTS + 1) + 1;
        let seed = Seed::new("");
        seed.ansible(&quick_ansible(&seed));
        let watch = Watch::for_needles(BTreeSet::from([seed.value.clone()]));
        // Threads that wait for each other make the number of calls differ a little.
        let is_killed = killed_at(&seed, call, n);
        n_killed += usize::from(is_killed);
        seed.expect_nothing_on_disk();
        let (_, before) = seed.job();
        let was_sealed = before.get(1).map(String::as_str) == Some("succeeded");
        let n_played = |book: &[String]| book.iter().filter(|line| *line == "played").count();
        let n_before = n_played(&seed.book());
        if is_killed {
            seed.bootstrap().run().expect_code(0);
        }
        let seen = watch.seen();
        assert!(seen.is_empty(), "{call} {n}: {seen:?}");
        seed.expect_handed_over();
        // A job that had come to its end before the kill is over, and the next call is another one.
        let is_over = before == ["succeeded"; 3];
        if was_sealed && !is_over {
            assert_eq!(n_played(&seed.book()), n_before, "{call} {n}");
        }
    }
    assert!(n_killed > N_POINTS / 2, "only {n_killed} calls were killed");
}

/// Case K7: SIGKILL before a file takes its name.
#[test]
fn killed_before_a_rename_nothing_is_left_in_the_clear() {
    killed_wherever("rename");
}

/// Case K7: SIGKILL before a file is removed.
#[test]
fn killed_before_a_removal_nothing_is_left_in_the_clear() {
    killed_wherever("unlink");
}

/// Case K7: SIGKILL before the ledger's bytes are known to last.
#[test]
fn killed_before_the_ledger_is_written_nothing_is_left_in_the_clear() {
    killed_wherever("fsync");
}

//! Hosts awaited and configured for real: OpenSSH's server on loopback addresses, the real Ansible.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handoff::{
    Fleet, Hands, HostKeys, Identity, Limits, On, Play, Played, SshSettings, Stop, Told, Verdict,
    fleet_of, forget,
};
use process::{How, RealSpawner};
use secrets::{Masker, MemoryDir, Secret};
use serde_json::{Map, Value, json};
use test_support::{SshLab, SshServer, login_name, ssh_client};

const SECRET: &str = "hunter2-hunter2";

struct Lab {
    keys: SshLab,
    tree: tempfile::TempDir,
    memory: MemoryDir,
    masker: Masker,
    told: Mutex<Vec<Told>>,
    stop: AtomicBool,
}

impl Lab {
    fn new() -> Self {
        let masker = Masker::new();
        masker.add("token", &Secret::new(SECRET));
        Self {
            keys: SshLab::new(),
            tree: tempfile::tempdir().expect("a tree"),
            memory: MemoryDir::create("test-handoff").expect("memory-backed storage"),
            masker,
            told: Mutex::default(),
            stop: AtomicBool::new(false),
        }
    }

    fn server(&self, name: &str, address: &str) -> SshServer {
        let mut server = self.keys.server(name, address);
        server.program("cloud-init", "echo status: done");
        server.start();
        server
    }

    fn ssh(&self) -> SshSettings {
        let key = std::fs::read_to_string(self.keys.identity()).expect("the key");
        SshSettings {
            limits: Limits {
                deadline: Duration::from_secs(120),
                settle: Duration::from_millis(200),
                pause: Duration::from_millis(50),
            },
            ..SshSettings::new(
                // In memory only, and with its last line not ended.
                Identity::Key(Secret::new(key.trim_end())),
                HostKeys::Declared,
                self.keys.dir().join("own/known_hosts"),
            )
        }
    }

    fn with<T>(&self, act: impl FnOnce(&Hands<'_>) -> T) -> T {
        let spawner = RealSpawner::direct();
        let ssh = ssh_client();
        act(&Hands {
            spawner: &spawner,
            memory: &self.memory,
            masker: &self.masker,
            ssh: &ssh,
            tell: &|told| self.told.lock().expect("told").push(told.clone()),
            stop: &|| {
                if self.stop.load(Ordering::Relaxed) {
                    Stop::Interrupt
                } else {
                    Stop::No
                }
            },
        })
    }

    /// Awaits the hosts and runs a playbook on them.
    fn play(&self, fleet: &Fleet, playbook: &str, vars: Value) -> Played {
        let path = self.tree.path().join("playbooks/node.yml");
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        process::files::write_atomically(&path, playbook.as_bytes(), 0o600).expect("a playbook");
        let Value::Object(vars) = vars else {
            panic!("an object")
        };
        let ssh = self.ssh();
        self.with(|hands| {
            let reached = hands
                .reach(&ssh, fleet, &BTreeSet::new())
                .unwrap_or_else(|error| panic!("{:?}", error.lines()));
            hands
                .play(&Play {
                    program: ansible_playbook(),
                    prefix: Vec::new(),
                    tree: self.tree.path().to_owned(),
                    playbook: "playbooks/node.yml".into(),
                    on: On::Hosts {
                        ssh: &ssh,
                        fleet,
                        reached: &reached,
                    },
                    limit: None,
                    vars,
                    check: false,
                    diff: false,
                    env: [("PATH", "/usr/bin:/bin"), ("LC_ALL", "C.UTF-8")]
                        .map(|(name, value)| (name.into(), value.into()))
                        .into(),
                    how: How::reader(),
                })
                .expect("a run")
        })
    }

    fn printed(&self) -> String {
        let told = self.told.lock().expect("told");
        told.iter().map(|one| format!("{one}\n")).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test finds its tools by it")]
fn ansible_playbook() -> PathBuf {
    std::env::var_os("REBUILD_TEST_ANSIBLE").map(PathBuf::from).expect(
        "REBUILD_TEST_ANSIBLE names no `ansible-playbook`: run the tests by `cargo xtask test`, which installs one",
    )
}

fn host_of(server: &SshServer) -> Map<String, Value> {
    let Value::Object(host) = json!({
        "address": server.address.to_string(), "port": server.port, "user": login_name(), "host_key": server.host_key(),
    }) else {
        panic!("an object")
    };
    host
}

/// Whether the text lies in a file below a directory.
fn is_below(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).expect("a directory").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            is_below(&path, text)
        } else {
            let bytes = std::fs::read(&path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).contains(text)
        }
    })
}

/// Case A4: what an output and a variable hold arrives as it is, over a jump host too. Cases A9 and K8: a failing
/// task that prints a secret is told masked, and nothing of it stays in a file.
#[test]
fn values_arrive_as_they_are_over_a_jump_host_and_a_secret_is_never_told() {
    let lab = Lab::new();
    let [door, inner] = ["door", "inner"].map(|name| lab.server(name, "127.0.0.1"));
    let odd = json!({ "hash": "a # b", "quotes": "'\"", "braces": "a{{ 1+1 }}b", "lines": "one\ntwo\n", "letters": "ä→💡",
                      "number": "007", "word": "yes", "real": 7, "list": ["{% raw %}", null, true] });
    let mut web = host_of(&inner);
    web.insert("jump_host".to_owned(), "door".into());
    web.insert("odd".to_owned(), odd.clone());
    web.insert("groups".to_owned(), json!(["web"]));
    let hosts = json!({ "door": host_of(&door), "web1": web });
    let fleet = fleet_of("prod", &hosts).expect("hosts");
    let shown = lab.tree.path().join("shown.json");
    let playbook = format!(
        "- hosts: tf:prod
  gather_facts: false
  tasks:
    - name: is there
      ansible.builtin.command: 'true'
      changed_when: false
- hosts: web
  gather_facts: false
  tasks:
    - name: writes
      ansible.builtin.copy: {{content: '{{{{ {{\"host\": odd, \"given\": given}} | to_json }}}}', dest: '{}'}}
",
        shown.display()
    );
    let played = lab.play(&fleet, &playbook, json!({ "given": odd }));
    let changed: BTreeSet<String> = ["web1".to_owned()].into();
    assert_eq!(
        played.verdict,
        Verdict::Done { changed },
        "{}",
        lab.printed()
    );
    let text = std::fs::read_to_string(&shown).expect("what arrived");
    let arrived: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(arrived, json!({ "host": odd, "given": odd }));

    let playbook = "- hosts: tf
  gather_facts: false
  tasks:
    - name: prints
      ansible.builtin.command: sh -c 'echo {{ token }} >&2; exit 3'
";
    let failed = lab.play(&fleet, playbook, json!({ "token": SECRET }));
    let error = failed.changed().expect_err("it failed");
    assert_eq!(error.what, "tasks failed on 2 hosts");
    assert!(
        !format!("{error:?}{}", lab.printed()).contains(SECRET),
        "{}",
        lab.printed()
    );
    assert!(!is_below(lab.keys.dir(), SECRET) && !is_below(lab.tree.path(), SECRET));
    assert!(
        !is_below(lab.memory.path(), SECRET),
        "what a play needed goes with it"
    );

    forget(&lab.ssh().known_hosts, &fleet).expect("forgotten");
    let left = std::fs::read_to_string(lab.ssh().known_hosts).expect("known hosts");
    assert_eq!(left, "");
}

/// The stop ends a play that would go on for minutes; what it did until then is told.
#[test]
fn a_play_ends_when_it_is_asked_to() {
    let lab = Lab::new();
    let server = lab.server("web1", "127.0.0.1");
    let fleet = fleet_of("prod", &json!({ "web1": host_of(&server) })).expect("hosts");
    let begun = lab.tree.path().join("begun");
    let playbook = format!(
        "- hosts: tf\n  gather_facts: false\n  tasks:\n    - ansible.builtin.command: sh -c 'touch {}; exec sleep 300'\n",
        begun.display()
    );
    let played = std::thread::scope(|scope| {
        scope.spawn(|| {
            let end = std::time::Instant::now() + Duration::from_secs(120);
            process::wait::until(end, Duration::from_millis(50), || {
                begun.exists().then_some(())
            });
            lab.stop.store(true, Ordering::Relaxed);
        });
        lab.play(&fleet, &playbook, json!({}))
    });
    assert!(begun.exists() && played.is_stopped, "{played:?}");
    assert!(
        matches!(played.verdict, Verdict::Broken { .. }),
        "{played:?}"
    );
}

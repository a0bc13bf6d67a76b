//! `talos` steps: a cluster behind a `talosctl` that keeps its state, and fails in each way that one can.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use test_support::Ended;

use crate::drill::Drill;
use crate::stage::executable;

/// A drill whose machines are made by a tofu step and upgraded by a talos step.
pub(crate) struct Cluster {
    /// The drill.
    pub(crate) drill: Drill,
    /// What `talosctl` keeps its state in.
    pub(crate) dir: PathBuf,
}

const MACHINES: [(&str, &str); 3] = [
    ("c1", "controlplane"),
    ("c2", "controlplane"),
    ("w1", "worker"),
];

impl Cluster {
    fn of(phases: &str) -> Self {
        let drill = Drill::empty();
        let dir = drill.world.root().join("cluster");
        let program = drill.world.write(
            "talosctl",
            &format!(
                "#!/bin/sh\nexec {} {} \"$@\"\n",
                env!("CARGO_BIN_EXE_fake_talosctl"),
                dir.display()
            ),
        );
        executable(&program);
        std::fs::create_dir_all(&dir).expect("a directory");
        drill.write(
            "rebuild.toml",
            &format!(
                "[platform]\nname = \"lab\"\n[tools]\ntalosctl = {{ command = [\"{}\"], version = \">=1.11\" }}\n[[phase]]\nid = \"1\"\n{phases}",
                program.display()
            ),
        );
        drill.write("patches/new.yaml", "newKey: true\n");
        let cluster = Self { drill, dir };
        for (name, _) in MACHINES {
            cluster.set(name, "version", "v1.11.1");
            cluster.set(name, "boot", "1");
        }
        cluster.module("");
        cluster
    }

    fn module(&self, config: &str) {
        let hosts: Vec<String> = MACHINES
            .iter()
            .map(|(name, role)| {
                format!("{name} = {{ ansible_host = \"{name}\", role = \"{role}\" }}")
            })
            .collect();
        let calls = self.dir.join("calls");
        self.drill.write(
            "machines/main.tf",
            &format!(
                "resource \"terraform_data\" \"config\" {{\n  input = \"{config}\"\n  triggers_replace = \"{config}\"\n  provisioner \"local-exec\" {{ command = \"echo configure >> {}\" }}\n}}\noutput \"hosts\" {{\n  value = {{ {} }}\n}}\noutput \"talosconfig\" {{\n  value     = \"context: lab\"\n  sensitive = true\n}}\n",
                calls.display(),
                hosts.join(", ")
            ),
        );
    }

    /// A step of machines, then their upgrade.
    fn upgraded() -> Self {
        Self::of(&format!("{MADE}{}", upgrade("20s", "5s")))
    }

    fn set(&self, machine: &str, file: &str, text: &str) {
        let path = self.dir.join(machine).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn get(&self, machine: &str, file: &str) -> String {
        std::fs::read_to_string(self.dir.join(machine).join(file)).unwrap()
    }

    fn versions(&self) -> Vec<String> {
        MACHINES
            .iter()
            .map(|(name, _)| self.get(name, "version"))
            .collect()
    }

    /// Calls that change something or look at the whole cluster, since the last look.
    fn calls(&self) -> Vec<String> {
        let path = self.dir.join("calls");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(&path);
        let is_told = |line: &&str| {
            ["upgrade", "patch", "health", "configure"]
                .iter()
                .any(|word| line.starts_with(word))
        };
        text.lines()
            .filter(is_told)
            .map(|line| line.trim().to_owned())
            .collect()
    }

    fn upgrades(&self) -> Vec<String> {
        let mut calls = self.calls();
        calls.retain(|call| call.starts_with("upgrade"));
        calls
    }
}

const MADE: &str = "[[phase.step]]\nname = \"machines\"\ntofu = \"machines\"\n";

fn upgrade(node: &str, health: &str) -> String {
    format!(
        "[[phase.step]]\nname = \"upgrade\"\ntalos = {{ hosts = \"machines\", version = \"v1.11.2\", patches = [\"patches/new.yaml\"], node_timeout = \"{node}\", health_timeout = \"{health}\", every = \"10ms\" }}\n"
    )
}

/// Case O6: the version first, and then what only the new one understands; control plane first, one at a time, health
/// before each.
#[test]
fn machines_are_upgraded_one_at_a_time_and_then_patched() {
    let cluster = Cluster::upgraded();
    let drill = &cluster.drill;
    let said = drill.up().stderr;
    assert!(said.contains("3 upgraded to v1.11.2"), "{said}");
    assert_eq!(cluster.versions(), ["v1.11.2"; 3]);
    assert_eq!(
        cluster.calls(),
        [
            "configure",
            "health c1",
            "upgrade c1",
            "health c1",
            "upgrade c2",
            "health c1",
            "upgrade w1",
            "health c1",
            "patch machineconfig c1",
            "patch machineconfig c2",
            "patch machineconfig w1",
            "health c1",
        ]
    );
    // Nothing is left to do, and nothing is done.
    let again = drill.up().stderr;
    assert!(again.contains("3 at v1.11.2 already"), "{again}");
    assert_eq!(cluster.upgrades(), [""; 0]);
    // A machine that runs another version is no longer what was applied.
    cluster.set("w1", "version", "v1.11.1");
    let report = drill.json(3, &["preflight", "--target", "drill"]);
    let text = report.to_string();
    assert!(
        text.contains("machine `w1` runs v1.11.1, and not v1.11.2"),
        "{text}"
    );
    // It can be brought back to it, alone.
    drill.run(0, &["repair", "1", "--target", "drill"]);
    assert_eq!(cluster.versions(), ["v1.11.2"; 3]);
    assert_eq!(cluster.upgrades(), ["upgrade w1"]);
    drill.run(0, &["down", "--target", "drill"]);
    assert_eq!(
        cluster.calls(),
        [""; 0],
        "a teardown asks no machine for anything"
    );
}

/// Cases O1 and O2, a rollback, a refusal, a lost line, a machine that dies: the machine decides, never the command.
#[test]
fn each_way_to_fail_is_told_and_no_next_machine_is_touched() {
    for (takes, expected) in [
        ("hangs", None),
        ("loses-the-line", None),
        ("never-boots", Some("installed, not booted")),
        (
            "rolls-back",
            Some("it came back with v1.11.1: the upgrade was rolled back"),
        ),
        (
            "refuses",
            Some("error validating installer image: not found"),
        ),
        ("dies", Some("it did not come back in time")),
    ] {
        // What is waited for to its end has little time; what must come to be has enough.
        let limit = if expected.is_some() { "600ms" } else { "50s" };
        let cluster = Cluster::of(&format!("{MADE}{}", upgrade(limit, "5s")));
        cluster.set("c2", "takes", takes);
        match expected {
            None => {
                cluster.drill.up();
                assert_eq!(cluster.versions(), ["v1.11.2"; 3], "{takes}");
            }
            Some(expected) => {
                let args = ["up", "--target", "drill", "--no-pause"];
                let said = cluster.drill.run(1, &args).stderr;
                assert!(
                    said.contains("upgrade of machine `c2` failed"),
                    "{takes}: {said}"
                );
                assert!(said.contains(expected), "{takes}: {said}");
                assert!(
                    said.contains("1 more machine is left as they were"),
                    "{said}"
                );
                assert!(said.contains("--resume"), "{said}");
                assert_eq!(cluster.upgrades(), ["upgrade c1", "upgrade c2"], "{takes}");
                assert_eq!(cluster.get("w1", "version"), "v1.11.1");
                // Mended, it goes on there, and does nothing twice.
                let _ = std::fs::remove_file(cluster.dir.join("c2/silent"));
                cluster.set("c2", "takes", "well");
                if takes == "never-boots" {
                    continue;
                }
                cluster
                    .drill
                    .run(0, &["up", "--target", "drill", "--resume", "--no-pause"]);
                assert_eq!(cluster.upgrades(), ["upgrade c2", "upgrade w1"], "{takes}");
            }
        }
    }
}

/// Case O4: one sick member of etcd, and nothing begins; a sick cluster the same.
#[test]
fn a_sick_cluster_is_not_upgraded() {
    for (file, text, expected) in [
        (
            "etcd",
            "etcdserver: no leader",
            "etcd: the member on c1 says: etcdserver: no leader",
        ),
        ("sick", "node not ready", "node not ready"),
    ] {
        let cluster = Cluster::of(&format!("{MADE}{}", upgrade("20s", "100ms")));
        std::fs::write(cluster.dir.join(file), text).unwrap();
        let said = cluster
            .drill
            .run(1, &["up", "--target", "drill", "--no-pause"])
            .stderr;
        assert!(
            said.contains("not healthy before machine `c1`") && said.contains(expected),
            "{said}"
        );
        assert_eq!(cluster.upgrades(), [""; 0]);
    }
}

#[test]
fn nothing_is_upgraded_while_a_machine_says_no_version() {
    let cluster = Cluster::upgraded();
    cluster.set("w1", "silent", "");
    let said = cluster
        .drill
        .run(1, &["up", "--target", "drill", "--no-pause"])
        .stderr;
    assert!(
        said.contains("machine `w1` does not report a version; nothing was upgraded")
            && said.contains("connection refused"),
        "{said}"
    );
    assert_eq!(cluster.upgrades(), [""; 0]);
}

/// Waits until a machine's upgrade has begun.
fn await_upgrade(cluster: &Cluster, machine: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let begun = process::wait::until(deadline, Duration::from_millis(5), || {
        let calls = std::fs::read_to_string(cluster.dir.join("calls")).unwrap_or_default();
        calls.contains(&format!("upgrade {machine}")).then_some(())
    });
    begun.expect("the upgrade begins");
}

/// Case O7: killed while a machine is upgraded, and resumed: the machine's upgrade goes on by itself, and none is
/// upgraded twice.
#[test]
fn a_killed_upgrade_goes_on_at_the_machine_it_was_at() {
    let cluster = Cluster::upgraded();
    cluster.set("c2", "takes", "waits");
    let args = ["up", "--target", "drill", "--no-pause"];
    let started = cluster.drill.rebuild(&args).start();
    await_upgrade(&cluster, "c2");
    started.signal(Signal::KILL);
    assert_eq!(started.wait().ended, Ended::Signal(9));
    std::fs::write(cluster.dir.join("go"), "").unwrap();
    cluster
        .drill
        .run(0, &["up", "--target", "drill", "--resume", "--no-pause"]);
    assert_eq!(
        cluster.upgrades(),
        ["upgrade c1", "upgrade c2", "upgrade w1"]
    );
    assert_eq!(cluster.versions(), ["v1.11.2"; 3]);
}

/// Case O7: the operator's second signal ends the wait, and the next call finds what the machine has become.
#[test]
fn an_interrupted_wait_is_gone_on_with() {
    let cluster = Cluster::upgraded();
    cluster.set("c1", "takes", "waits");
    let args = ["up", "--target", "drill", "--no-pause"];
    let mut started = cluster.drill.rebuild(&args).start();
    await_upgrade(&cluster, "c1");
    started.signal(Signal::INT);
    started.expect_stderr("once more interrupts it");
    started.signal(Signal::INT);
    let outcome = started.wait();
    outcome.expect_code(130);
    // Its command is gone, and the machine comes back by itself.
    cluster.set("c1", "version", "v1.11.2");
    cluster.set("c1", "boot", "2");
    cluster
        .drill
        .run(0, &["up", "--target", "drill", "--resume", "--no-pause"]);
    assert_eq!(
        cluster.upgrades(),
        ["upgrade c1", "upgrade c2", "upgrade w1"]
    );
}

/// Case O6: a step before its machines' step upgrades what stands of them before they are configured anew.
#[test]
fn what_stands_is_upgraded_before_it_is_configured_anew() {
    let cluster = Cluster::of(&format!("{}{MADE}", upgrade("20s", "5s")));
    for (name, _) in MACHINES {
        cluster.set(name, "version", "v1.11.2");
    }
    let said = cluster.drill.up().stderr;
    assert!(said.contains("no machines yet"), "{said}");
    assert_eq!(cluster.calls(), ["configure"]);
    let file = cluster.drill.dir().join("rebuild.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        text.replace("version = \"v1.11.2\"", "version = \"v1.11.3\""),
    )
    .unwrap();
    cluster.module("with a new key");
    cluster.drill.up();
    let calls = cluster.calls();
    let at = |wanted: &str| {
        calls
            .iter()
            .position(|call| call == wanted)
            .expect("it is there")
    };
    assert!(at("upgrade w1") < at("configure"), "{calls:?}");
    assert_eq!(cluster.versions(), ["v1.11.3"; 3]);
}

#[test]
fn a_talosctl_that_is_missing_or_too_old_is_found_before_anything() {
    let cluster = Cluster::upgraded();
    let file = cluster.drill.dir().join("rebuild.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(">=1.11\"", ">=1.13\"")).unwrap();
    let args = ["up", "--target", "drill", "--no-pause"];
    let said = cluster.drill.run(2, &args).stderr;
    assert!(
        said.contains("is version 1.12.0") && said.contains(">=1.13"),
        "{said}"
    );
    std::fs::write(&file, text.replace("talosctl\"]", "no-talosctl\"]")).unwrap();
    let said = cluster.drill.run(2, &args).stderr;
    assert!(
        said.contains("no-talosctl") && said.contains("install talosctl"),
        "{said}"
    );
    assert_eq!(cluster.calls(), [""; 0]);
}

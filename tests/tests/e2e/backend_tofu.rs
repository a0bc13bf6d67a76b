//! Real `tofu` processes against the served backend: many at once, locks that outlive the server, big states.

use std::io::Write as _;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use test_support::Outcome;

use crate::backend_stage::{Backend, SECRET, Stage, finish, lock_info, state};
use crate::gate::wait_for;

const N: usize = 20;

/// Applies at once, each with arguments of its own; every one must end well.
fn at_once(calls: Vec<test_support::Command>) -> Vec<Outcome> {
    std::thread::scope(|scope| {
        let running: Vec<_> = calls
            .iter()
            .map(|call| scope.spawn(move || call.run()))
            .collect();
        running
            .into_iter()
            .map(|call| call.join().expect("no thread panics"))
            .inspect(|outcome| {
                outcome.expect_code(0);
            })
            .collect()
    })
}

/// Case L14: one address for each state, below one another too, and no workspaces.
#[test]
fn twenty_at_once_on_twenty_states_each_keep_their_own() {
    let stage = Stage::new();
    let backend = stage.start();
    let dir = stage.module(&backend, "module");
    let path = |n: usize| match n {
        0 => "team".to_owned(),
        1 => "team/app".to_owned(),
        n => format!("team/app/{n}"),
    };
    let calls = (0..N).map(|n| {
        let value = format!("value=of {n}");
        let args = ["apply", "-auto-approve", "-input=false", "-var", &value];
        stage.tofu(&backend, &dir, &path(n), &args)
    });
    at_once(calls.collect());
    let listed = backend.json("/states");
    assert_eq!(listed["states"].as_array().expect("a list").len(), N);
    for n in 0..N {
        let state = backend.json(&format!("/state/{}", path(n)));
        let input = &state["resources"][0]["instances"][0]["attributes"]["input"]["value"];
        assert_eq!(input, &Value::from(format!("of {n}")));
    }
    assert!(
        listed["states"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|entry| entry["lock"].is_null())
    );
}

/// Cases L1, L9: of many on one state each has its turn, and no write of another is lost.
#[test]
fn twenty_at_once_on_one_state_take_turns() {
    let stage = Stage::new();
    let backend = stage.start();
    let dir = stage.module(&backend, "module");
    let calls = (0..N).map(|n| {
        let value = format!("value=of {n}");
        let args = [
            "apply",
            "-auto-approve",
            "-input=false",
            "-lock-timeout=600s",
            "-var",
            &value,
        ];
        stage
            .tofu(&backend, &dir, "team/one", &args)
            .deadline(Duration::from_secs(660))
    });
    at_once(calls.collect());
    let versions = backend.json("/versions/team/one");
    // Each made a state of its own after that of the one before: the first creates, the others update.
    let serial = versions["serial"].as_u64().expect("a state");
    assert!(serial >= N as u64, "{versions}");
    let lineage = &versions["lineage"];
    for version in versions["versions"].as_array().expect("a list") {
        assert_eq!(&version["lineage"], lineage);
        assert!(version["serial"].as_u64().expect("a serial") < serial);
    }
    assert_eq!(backend.json("/states")["states"][0]["lock"], Value::Null);
}

/// Cases L2, L3, L5, L13: whoever is refused is shown the holder; a lock goes by its id alone.
#[test]
fn a_lock_is_shown_with_its_holder_and_forced_open_by_its_id() {
    let stage = Stage::new();
    let backend = stage.start();
    let dir = stage.module(&backend, "module");
    let id = "3b9c1c5e-4c5d-4d1a-9a53-0c8f3a1b2c3d";
    assert_eq!(backend.ask("LOCK", "/state/app", &lock_info(id)).0, 200);
    let apply = ["apply", "-auto-approve", "-input=false", "-no-color"];
    let refused = stage.tofu(&backend, &dir, "app", &apply).run();
    refused.expect_code(1);
    assert!(
        refused.stderr.contains(id) && refused.stderr.contains("ann@lab"),
        "{}",
        refused.stderr
    );
    let locks = stage.rebuild(&backend, &["state", "locks"]).run();
    locks.expect_code(0);
    assert!(
        locks.stdout.contains(&format!(
            "locked by ann@lab (OperationTypeApply) since 2026-01-02T03:04:05.678Z, lock {id}"
        )),
        "{}",
        locks.stdout
    );
    let other = "00000000-4c5d-4d1a-9a53-0c8f3a1b2c3d";
    stage
        .tofu(&backend, &dir, "app", &["force-unlock", "-force", other])
        .run()
        .expect_code(1);
    stage
        .tofu(&backend, &dir, "app", &["force-unlock", "-force", id])
        .run()
        .expect_code(0);
    // A lost answer is asked for again, and a lock that never was is no success.
    assert_eq!(backend.ask("UNLOCK", "/state/app", &lock_info(id)).0, 200);
    assert_eq!(
        backend.ask("UNLOCK", "/state/app", &lock_info(other)).0,
        409
    );
    stage
        .tofu(&backend, &dir, "app", &apply)
        .run()
        .expect_code(0);
}

/// Case L16: the server dies while an apply runs and comes back; the apply ends well under the lock that it has.
#[test]
fn an_apply_goes_on_when_the_server_is_killed_and_started_again() {
    let stage = Stage::new();
    let mut backend = stage.start();
    let host = backend.host().to_owned();
    let dir = stage.module(&backend, "module");
    let lock = stage.store().join("lock/app");
    let (gate, begun) = (
        stage.world.work().join("go"),
        stage.world.work().join("begun"),
    );
    stage.world.write(
        "module/slow.tf",
        r#"
resource "terraform_data" "slow" {
  input = var.value
  triggers_replace = var.value
  provisioner "local-exec" {
    command = ": > ../begun; n=0; while [ ! -e ../go ]; do n=$((n+1)); [ $n -lt 1200 ] || exit 9; sleep 0.05; done"
  }
}
"#,
    );
    for round in 0..3 {
        let value = format!("value=of {round}");
        let args = ["apply", "-auto-approve", "-input=false", "-var", &value];
        let apply = stage.tofu(&backend, &dir, "app", &args).start();
        // Not at the lock alone: a state whose answer is cut ends a command that is still reading.
        wait_for("the apply's act", || begun.exists().then_some(()));
        backend.kill();
        assert!(lock.exists(), "no free lock");
        backend = stage.start_at(&host);
        let other = lock_info("another");
        assert_eq!(backend.ask("LOCK", "/state/app", &other).0, 423);
        crate::gate::touch(&gate);
        apply.wait().expect_code(0);
        for made in [&gate, &begun] {
            std::fs::remove_file(made).expect("it was made");
        }
        let state = backend.json("/state/app");
        let resources = state["resources"].as_array().expect("a list");
        assert_eq!(resources.len(), 2);
        for resource in resources {
            let input = &resource["instances"][0]["attributes"]["input"]["value"];
            assert_eq!(input, &Value::from(format!("of {round}")));
        }
        assert!(!lock.exists());
    }
}

/// A state of 100 MB, written, kept as a version, and read: the server's memory does not grow with it.
#[cfg(target_os = "linux")]
#[test]
fn a_big_state_needs_no_big_memory() {
    const MIB: usize = 1024 * 1024;
    let stage = Stage::new();
    let backend = stage.start();
    let write = |serial: u64, n_bytes: usize| {
        assert_eq!(backend.ask("LOCK", "/state/big", &lock_info("me")).0, 200);
        let (head, tail) = (
            format!("{{\"version\":4,\"serial\":{serial},\"lineage\":\"l\",\"x\":\""),
            "\"}",
        );
        let length = head.len() + n_bytes + tail.len();
        let mut stream = backend.begin("POST", "/state/big?ID=me", length as u64);
        stream.write_all(head.as_bytes()).expect("it reads");
        let part = vec![b'x'; MIB];
        for _ in 0..n_bytes / MIB {
            stream.write_all(&part).expect("it reads");
        }
        stream.write_all(tail.as_bytes()).expect("it reads");
        assert_eq!(finish(stream), Some((200, Vec::new())));
        assert_eq!(backend.ask("UNLOCK", "/state/big", &lock_info("me")).0, 200);
        length
    };
    write(1, 2 * MIB);
    write(2, 2 * MIB);
    let n_read = |address: &str| backend.ask("GET", address, b"").1.len();
    assert!(n_read("/state/big") > 2 * MIB);
    let before = backend.peak_kib();
    let length = write(3, 100 * MIB);
    assert_eq!(n_read("/state/big"), length);
    write(4, MIB);
    assert_eq!(n_read("/state/big?version=3"), length);
    let grown = backend.peak_kib().saturating_sub(before);
    assert!(grown < 20 * 1024, "the server's memory grew by {grown} KiB");
}

/// Case L7: a state that grows beyond the limit in an apply is refused, not lost: OpenTofu keeps it, and it is pushed as the page
/// on the backend says once the limit is raised.
#[test]
fn a_state_beyond_the_limit_is_refused_and_not_lost() {
    let stage = Stage::with("[limits]\nstate_mib = 1");
    let mut backend = stage.start();
    let dir = stage.module(&backend, "module");
    let apply = |backend: &Backend, value: &str| {
        stage
            .world
            .write("module/terraform.tfvars", &format!("value = \"{value}\"\n"));
        let args = ["apply", "-auto-approve", "-input=false"];
        stage.tofu(backend, &dir, "team/app", &args).run()
    };
    apply(&backend, "small").expect_code(0);
    let before = backend.ask("GET", "/state/team/app", b"");
    let big = "b".repeat(1024 * 1024);
    let refused = apply(&backend, &big);
    refused.expect_code(1);
    assert!(refused.stderr.contains("413"), "{}", refused.stderr);
    assert_eq!(backend.ask("GET", "/state/team/app", b""), before);
    assert!(dir.join("errored.tfstate").exists());
    let log = backend.kill();
    assert!(log.contains("`state_mib` of `[limits]`"), "{log}");
    let config =
        std::fs::read_to_string(stage.world.work().join("backend.toml")).expect("a configuration");
    stage.world.write(
        "backend.toml",
        &config.replace("state_mib = 1", "state_mib = 64"),
    );
    let backend = stage.start();
    let push = ["state", "push", "errored.tfstate"];
    stage
        .tofu(&backend, &dir, "team/app", &push)
        .run()
        .expect_code(0);
    let plan = ["plan", "-detailed-exitcode", "-input=false"];
    stage
        .tofu(&backend, &dir, "team/app", &plan)
        .run()
        .expect_code(0);
    assert!(backend.ask("GET", "/state/team/app", b"").1.len() > big.len());
}

/// What a kill may leave behind.
struct Left {
    acknowledged: u64,
    sent: u64,
}

fn whole(serial: u64) -> Vec<u8> {
    state("l", serial, &serial.to_string().repeat(30_000))
}

/// Kills the server at another instant of a locked write each round.
fn killed_rounds(stage: &Stage, n_rounds: u64) {
    let mut left = Left {
        acknowledged: 0,
        sent: 0,
    };
    for round in 0..n_rounds {
        let mut backend = stage.start();
        let serial = left.sent + 1;
        let (id, body) = (format!("id-{serial}"), whole(serial));
        assert_eq!(backend.ask("LOCK", "/state/app", &lock_info(&id)).0, 200);
        left.sent = serial;
        let mut stream = backend.begin("POST", &format!("/state/app?ID={id}"), body.len() as u64);
        let part = match round % 4 {
            0 => 0,
            1 => body.len() / 2,
            _ => body.len(),
        };
        stream.write_all(&body[..part]).expect("it reads");
        let answered = round % 4 == 3;
        if answered {
            assert_eq!(finish(stream), Some((200, Vec::new())));
            left.acknowledged = serial;
        } else {
            // Another instant each round, from at once to after the write.
            let since = std::time::Instant::now();
            while since.elapsed() < Duration::from_micros(97 * (round % 61)) {
                std::hint::spin_loop();
            }
        }
        backend.kill();
        holds(stage, &left, &id);
    }
}

/// A new server finds the lock taken, and a state and versions that are whole.
fn holds(stage: &Stage, left: &Left, id: &str) {
    let backend = stage.start();
    assert_eq!(
        backend.ask("LOCK", "/state/app", &lock_info("another")),
        (423, lock_info(id)),
        "no free lock"
    );
    let (status, found) = backend.ask("GET", "/state/app", b"");
    let mut serial = 0;
    if status == 404 {
        assert_eq!(left.acknowledged, 0, "no lost acknowledged write");
    } else {
        assert_eq!(status, 200);
        let state: Value = serde_json::from_slice(&found).expect("a whole state");
        serial = state["serial"].as_u64().expect("a serial");
        assert!(serial >= left.acknowledged && serial <= left.sent);
        assert_eq!(found, whole(serial), "no half version");
    }
    for version in backend.json("/versions/app")["versions"]
        .as_array()
        .expect("a list")
    {
        assert_eq!(version["fault"], Value::Null);
        let kept = version["serial"].as_u64().expect("a serial");
        // One that is read whole each time: the last.
        if kept + 1 == serial {
            let address = format!(
                "/state/app?version={}",
                version["version"].as_str().expect("a name")
            );
            assert_eq!(
                backend.ask("GET", &address, b"").1,
                whole(kept),
                "no half version"
            );
        }
    }
    assert_eq!(backend.ask("UNLOCK", "/state/app", &lock_info(id)).0, 200);
}

/// Case L16: 200 kills, each at another instant between lock and the end of a write.
#[test]
fn a_kill_between_lock_and_write_leaves_no_half_version_and_no_free_lock() {
    killed_rounds(&Stage::new(), 200);
}

/// Case S8: a served backend that fetches a secret by a program, and is asked many times, leaves no zombie.
#[cfg(target_os = "linux")]
#[test]
fn a_served_backend_leaves_no_zombie() {
    let stage = Stage::new();
    let config = format!(
        "[[credential]]\nname = \"ci\"\nsecret = {{ command = [\"sh\", \"-c\", \"true & echo '{SECRET}'\"] }}\nwrite = [\"/\"]\n"
    );
    stage.world.write("backend.toml", &config);
    let backend = stage.start();
    for _ in 0..5 {
        backend.signal(Signal::HUP);
        assert_eq!(backend.ask("GET", "/states", b"").0, 200);
    }
    wait_for("no child of the server", || {
        children(&backend).is_empty().then_some(())
    });
    backend.signal(Signal::TERM);
    let (code, errors) = backend.wait();
    assert_eq!(code, Some(0), "{errors}");
}

/// The processes whose parent is the server, zombies included.
#[cfg(target_os = "linux")]
fn children(backend: &Backend) -> Vec<String> {
    let parent = backend.pid().as_raw_nonzero().get().to_string();
    let processes = std::fs::read_dir("/proc").expect("the system's processes");
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| {
            let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            after_name.split_whitespace().nth(1) == Some(parent.as_str())
        })
        .collect()
}

//! `ssh` steps: hosts that come late, come wrong, come again, or never come.

use rustix::process::Signal;
use serde_json::{Map, Value, json};
use test_support::{Ended, login_name};

use crate::farm::{Farm, RESUME, UP, told};
use crate::gate::{step, wait_for};

/// Case H5: fifty hosts at once; a line for each in the target's own file, and what else is in it left byte for byte.
/// Case H2: the user's own file is neither read nor written.
#[test]
fn fifty_hosts_are_onboarded_at_once() {
    let farm = Farm::at(&[("all", "0.0.0.0")]);
    let server = &farm.servers[0].1;
    let hosts = (1..=50).map(|n| {
        let host = json!({ "address": format!("127.0.1.{n}"), "port": server.port, "user": login_name(), "host_key": server.host_key() });
        (format!("web{n}"), host)
    });
    farm.machines_as(&hosts.collect::<Map<String, Value>>());
    farm.awaited("5m");
    let others = "# somebody's note\n|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ssh-rsa AAAAB3Nz\n";
    std::fs::create_dir_all(farm.own()).unwrap();
    std::fs::write(farm.own().join("known_hosts"), others).unwrap();
    let users = farm.drill.world.home().join(".ssh/known_hosts");
    std::fs::create_dir_all(users.parent().unwrap()).unwrap();
    let wrong = format!(
        "[127.0.1.1]:{} {}\n",
        server.port,
        farm.lab.make_key("other")
    );
    std::fs::write(&users, wrong).unwrap();
    let before = std::fs::read_to_string(&users).unwrap();
    let up = farm.drill.up();
    told(&up, &["1.reach: applied: 50 hosts reached"]);
    let known = farm.known_hosts();
    assert!(known.starts_with(others), "{known}");
    assert_eq!(known.lines().count(), 2 + 50);
    assert_eq!(std::fs::read_to_string(&users).unwrap(), before);
    farm.drill.run(0, &["down", "--target", "drill"]);
    assert_eq!(farm.known_hosts(), others);
}

/// Cases H9, H10 and H11: a port that is open before the login works, a boot that is not over, and a server that is
/// restarted once: all are waited for, and told.
#[test]
fn a_host_is_waited_for_rung_by_rung() {
    let mut farm = Farm::of(&["web1"]);
    farm.awaited("5m");
    farm.servers[0].1.admit(false, &farm.lab);
    farm.servers[0]
        .1
        .program("cloud-init", "echo status: running");
    let mut up = farm.drill.rebuild(&UP).start();
    up.expect_stderr("1.reach: web1: login: ");
    farm.servers[0].1.admit(true, &farm.lab);
    up.expect_stderr("1.reach: web1: boot finished: cloud-init running");
    let server = farm.server("web1");
    server.stop();
    server.program("cloud-init", "echo status: done");
    up.expect_stderr("1.reach: web1: port: ");
    farm.server("web1").start();
    up.expect_stderr("1.reach: web1: reached at 127.0.0.1");
    up.wait().expect_code(0);
}

/// Case H10: a boot that failed ends the wait at once. Case H12: so does a machine that shows another key than the
/// announced one. The host, the rung and the last answer are named.
#[test]
fn what_waiting_does_not_mend_ends_the_wait_at_once() {
    let mut farm = Farm::of(&["web1", "web2"]);
    // Far longer than a test may take.
    farm.awaited("10h");
    farm.server("web1")
        .program("cloud-init", "echo status: error");
    let server = farm.server("web2");
    let announced = server.host_key();
    farm.new_key("web2");
    let shown = farm.server("web2").host_key();
    assert_ne!(announced, shown);
    let mut hosts = Map::new();
    for (name, server) in &farm.servers {
        hosts.insert(name.clone(), Value::Object(farm.host(server)));
    }
    hosts["web2"]["host_key"] = announced.into();
    farm.machines_as(&hosts);
    let failed = farm.drill.run(1, &UP);
    told(
        &failed,
        &[
            "2 of 2 hosts were not reached",
            "`web1`: boot finished: cloud-init error",
            "`web2`: host key: another key than the pinned one was shown: SHA256:",
            "another machine may answer there",
        ],
    );
    assert!(
        !farm.known_hosts().contains(&shown),
        "what was shown is not pinned"
    );
}

/// A host that never comes is named with its rung; what was made before is not made again by the resume, which needs
/// the hosts alone. Killed and interrupted in the middle of the wait, it goes on just so.
#[test]
fn a_host_that_never_comes_is_named_and_awaited_again_by_the_resume() {
    let mut farm = Farm::of(&["web1", "web2"]);
    farm.awaited("10s");
    farm.server("web2").stop();
    let failed = farm.drill.run(1, &UP);
    told(
        &failed,
        &[
            "a host was not reached",
            "`web2`: port: 127.0.0.1 port",
            "connection refused (after",
            "--resume",
        ],
    );
    assert_eq!(farm.made(), ["web1", "web2"]);

    farm.awaited("5m");
    let mut interrupted = farm.drill.rebuild(&RESUME).start();
    interrupted.expect_stderr("1.reach: web2: port: ");
    interrupted.signal(Signal::INT);
    interrupted.expect_stderr("once more interrupts it");
    interrupted.signal(Signal::INT);
    let ended = interrupted.wait();
    ended.expect_code(130);
    assert_eq!(
        step(&farm.drill.record(), "1.reach")["status"],
        "interrupted"
    );

    let mut killed = farm.drill.rebuild(&RESUME).start();
    killed.expect_stderr("1.reach: web2: port: ");
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().ended, Ended::Signal(9));

    farm.server("web2").start();
    let resumed = farm.drill.run(0, &RESUME);
    told(&resumed, &["1.reach: applied: 2 hosts reached"]);
    assert_eq!(farm.made(), ["web1", "web2"], "made once");
    let record = farm.drill.record();
    assert_eq!(record["status"], "finished");
    assert_eq!(step(&record, "1.machines")["attempts"], 1);
}

/// Case H1: a host key that changes is an alarm, and is given up only with the machine: in the run that made it anew.
#[test]
fn a_changed_host_key_is_an_alarm_unless_its_machine_was_replaced() {
    let mut farm = Farm::of(&["web1", "web2"]);
    farm.awaited("2m");
    farm.drill.up();
    let old = farm.server("web1").host_key();

    // The same machine, whatever the definitions say of its key now.
    farm.new_key("web1");
    farm.machines();
    let stopped = farm.drill.run(3, &UP);
    let said = format!("{}{}", stopped.stdout, stopped.stderr);
    assert!(
        said.contains("`web1`: host key: another key than the pinned one was shown"),
        "{said}"
    );
    assert!(
        farm.known_hosts().contains(old.split(' ').nth(1).unwrap()),
        "the pin stays"
    );

    // Made anew by this very run, and its key with it.
    let mut farm = Farm::of(&["web1", "web2"]);
    farm.awaited("2m");
    farm.drill.up();
    let old = farm.server("web1").host_key();
    let new = farm.servers[0].1.next_host_key(&farm.lab);
    farm.replace("web1", &new);
    farm.hold();
    let up = farm.drill.rebuild(&UP).start();
    wait_for("the machine's making", || {
        (farm.made().len() == 3).then_some(())
    });
    farm.servers[0].1.take_next_host_key();
    farm.release();
    let ended = up.wait();
    ended.expect_code(0);
    let known = farm.known_hosts();
    assert!(known.contains(new.split(' ').nth(1).unwrap()), "{known}");
    assert!(!known.contains(old.split(' ').nth(1).unwrap()), "{known}");
    assert_eq!(known.lines().count(), 2);
}

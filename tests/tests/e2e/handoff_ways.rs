//! How hosts are known and how one gets in: by an authority, by an agent, through others; and nobody is ever asked.

use serde_json::{Map, Value, json};
use test_support::{SshAgent, login_name};

use crate::farm::{Farm, UP, told};

/// Host keys that an authority signed, and a key that is in an agent alone, through the whole way of `up`, verify,
/// preflight and `down`. A machine whose key another authority signed is an alarm, and so is every host once the target
/// names another authority.
#[test]
fn hosts_are_known_by_an_authority_and_opened_by_an_agent() {
    let mut farm = Farm::of(&["web1", "web2"]);
    let authority = farm.lab.make_key("authority");
    let other = farm.lab.make_key("other");
    let sign = |farm: &mut Farm, name: &str, by: &str| {
        let at = farm.servers.iter().position(|(of, _)| of == name).unwrap();
        let server = &mut farm.servers[at].1;
        server.stop();
        farm.lab.sign_host_key(by, server);
        server.start();
    };
    for name in ["web1", "web2"] {
        sign(&mut farm, name, "authority");
    }
    let hosts = farm.servers.iter().map(|(name, server)| {
        let mut host = farm.host(server);
        host.remove("host_key");
        (name.clone(), Value::Object(host))
    });
    farm.machines_as(&hosts.collect::<Map<_, _>>());
    let target = |authority: &str| {
        farm.drill.write(
            "targets/drill.toml",
            &format!("[ssh]\nidentity = {{ agent = true }}\nhost_keys = \"ca\"\nhost_ca = \"{authority}\"\n"),
        );
    };
    target(&authority);
    farm.steps(", timeout = \"20s\"", "");
    let agent = SshAgent::with_key_of(&farm.lab);
    let run = |code: i32, args: &[&str]| {
        let outcome = farm
            .drill
            .rebuild(args)
            .env("SSH_AUTH_SOCK", agent.socket())
            .run();
        outcome.expect_code(code);
        outcome
    };
    told(
        &run(0, &UP),
        &[
            "1.reach: applied: 2 hosts reached",
            "1.configure: applied: 2 hosts, 2 changed",
        ],
    );
    let known = farm.known_hosts();
    assert_eq!(known.lines().count(), 2, "{known}");
    assert!(
        known
            .lines()
            .all(|line| line.starts_with("@cert-authority [127.0.0.1]:")),
        "{known}"
    );
    run(0, &["preflight", "--target", "drill"]);
    // Without the agent: told before anything.
    told(&farm.drill.run(2, &UP), &["`SSH_AUTH_SOCK` is not set"]);

    // The target's other authority: the former one vouches for nobody any more.
    target(&other);
    let stopped = run(3, &["preflight", "--target", "drill"]);
    let said = format!("{}{}", stopped.stdout, stopped.stderr);
    assert!(said.contains("`web1`: host key: "), "{said}");
    assert!(
        !farm
            .known_hosts()
            .contains(authority.split(' ').nth(1).unwrap())
    );
    target(&authority);
    run(0, &["preflight", "--target", "drill"]);

    run(0, &["down", "--target", "drill"]);
    assert_eq!(farm.known_hosts(), "", "forgotten with the machines");
}

/// A machine whose key another authority signed ends the wait at once.
#[test]
fn a_machine_that_another_authority_signed_is_an_alarm() {
    let mut farm = Farm::of(&["web1"]);
    let authority = farm.lab.make_key("authority");
    farm.lab.make_key("other");
    farm.servers[0].1.stop();
    farm.lab.sign_host_key("other", &farm.servers[0].1);
    farm.server("web1").start();
    let mut host = farm.host(&farm.servers[0].1);
    host.remove("host_key");
    farm.machines_as(
        &[("web1".to_owned(), Value::Object(host))]
            .into_iter()
            .collect(),
    );
    farm.target("ca", &format!("host_ca = \"{authority}\"\n"));
    // Far longer than a test may take.
    farm.awaited("10h");
    told(&farm.drill.run(1, &UP), &["`web1`: host key: "]);
}

/// A jump host that the output does not name is forgotten with the last host behind it.
#[test]
fn a_jump_host_that_the_output_does_not_name_is_forgotten_with_its_hosts() {
    let farm = Farm::of(&["door", "inner"]);
    let door = &farm.servers[0].1;
    let mut inner = farm.host(&farm.servers[1].1);
    inner.insert(
        "jump_host".to_owned(),
        json!(format!("{}@127.0.0.1:{}", login_name(), door.port)),
    );
    inner.insert("jump_host_key".to_owned(), json!(door.host_key()));
    farm.machines_as(
        &[("inner".to_owned(), Value::Object(inner))]
            .into_iter()
            .collect(),
    );
    let others = "# somebody's note\n";
    std::fs::create_dir_all(farm.own()).unwrap();
    std::fs::write(farm.own().join("known_hosts"), others).unwrap();
    farm.steps("", "");
    farm.drill.up();
    let known = farm.known_hosts();
    assert!(
        known.contains(&format!("[127.0.0.1]:{} ", door.port)),
        "{known}"
    );
    assert_eq!(known.lines().count(), 3);
    assert!(farm.place().join("inner.made").exists());
    farm.drill.run(0, &["down", "--target", "drill"]);
    assert_eq!(farm.known_hosts(), others);
}

/// Case A8: nothing waits for an answer, whatever a host or a key would ask, and though there is a terminal and somebody who
/// would say yes: a host without a key, one that the output lets the client ask for, and one that
/// takes the key no more. The host is named.
#[test]
fn nobody_is_asked_anything_at_a_terminal_either() {
    let farm = Farm::of(&["web1", "web2"]);
    farm.awaited("5s");
    let ended = |args: &[&str]| {
        let mut terminal = farm.drill.rebuild(args).in_terminal();
        terminal.send("yes\nyes\nyes\n");
        terminal.wait()
    };
    let host = |n: usize| farm.host(&farm.servers[n].1);
    let say = |second: Map<String, Value>| {
        let both = [
            ("web1".to_owned(), Value::Object(host(0))),
            ("web2".to_owned(), Value::Object(second)),
        ];
        farm.machines_as(&both.into_iter().collect());
    };
    // No key is known of it.
    let mut unknown = host(1);
    unknown.remove("host_key");
    say(unknown);
    let failed = ended(&UP);
    failed.expect_code(1);
    assert!(
        failed
            .stdout
            .contains("`hosts.web2.host_key` is not declared"),
        "{}",
        failed.stdout
    );
    // The client that Ansible starts would ask.
    let mut asking = host(1);
    asking.insert(
        "ansible_ssh_common_args".to_owned(),
        "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=ask".into(),
    );
    say(asking);
    farm.steps("", ", verify = false");
    let failed = ended(&["up", "--target", "drill", "--no-pause", "--resume"]);
    failed.expect_code(1);
    assert!(
        failed.stdout.contains("`web2`: unreachable")
            && failed.stdout.contains("Host key verification failed"),
        "{}",
        failed.stdout
    );
    assert!(!failed.stdout.contains("(yes/no"), "{}", failed.stdout);
    // The key is refused, and nothing else is tried.
    say(host(1));
    farm.servers[1].1.admit(false, &farm.lab);
    farm.steps(", timeout = \"3s\"", ", verify = false");
    let failed = ended(&["up", "--target", "drill", "--no-pause", "--resume"]);
    farm.servers[1].1.admit(true, &farm.lab);
    failed.expect_code(1);
    assert!(
        failed.stdout.contains("`web2`: login: "),
        "{}",
        failed.stdout
    );
    assert!(!failed.stdout.contains("assword:"), "{}", failed.stdout);
}

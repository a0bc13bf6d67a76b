//! Hosts reached for real: OpenSSH's server on loopback addresses, its client as the product uses it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fleet::{Fleet, HostName, Workspace};
use known_hosts::{HostPort, KnownHostsFile};
use process::RealSpawner;
use serde_json::{Map, Value, json};
use ssh_reach::{HostKeys, Limits, Login, Reach, ReachError, Reached, Rung, Why};
use test_support::{SshLab, SshServer, login_name, ssh_client};

/// Long enough for a loaded machine: a test that waits this long has failed.
const LONG: Duration = Duration::from_secs(120);

fn host_of(server: &SshServer) -> Map<String, Value> {
    let Value::Object(host) = json!({
        "address": server.address.to_string(), "port": server.port, "user": login_name(), "host_key": server.host_key(),
    }) else {
        panic!("an object")
    };
    host
}

fn fleet_of(hosts: impl IntoIterator<Item = (String, Map<String, Value>)>) -> Fleet {
    let hosts = hosts
        .into_iter()
        .map(|(name, host)| (name, Value::Object(host)))
        .collect();
    let name = "prod".parse().expect("a workspace's name");
    let workspace = Workspace::parse(name, &Value::Object(hosts)).expect("hosts");
    Fleet::new(vec![workspace]).expect("a fleet")
}

fn fleet_of_one(server: &SshServer) -> Fleet {
    fleet_of([("web1".to_owned(), host_of(server))])
}

struct Lab {
    keys: SshLab,
    spawner: RealSpawner,
}

impl Lab {
    fn new() -> Self {
        Self {
            keys: SshLab::new(),
            spawner: RealSpawner::direct(),
        }
    }

    fn server(&self, name: &str, address: &str) -> SshServer {
        let mut server = self.keys.server(name, address);
        // The boot of the machine that runs the tests is not what is awaited here.
        server.program("cloud-init", "echo status: done");
        server.start();
        server
    }

    fn known_hosts(&self) -> KnownHostsFile {
        KnownHostsFile::at(self.keys.dir().join("own/known_hosts"))
    }

    fn reach(&self, host_keys: HostKeys, deadline: Duration) -> Reach<'_> {
        Reach {
            spawner: &self.spawner,
            ssh: ssh_client(),
            dir: self.keys.dir().join("own/with blank"),
            known_hosts: self.known_hosts(),
            login: Login::File(self.keys.identity()),
            host_keys,
            limits: Limits {
                deadline,
                settle: Duration::from_millis(200),
                pause: Duration::from_millis(50),
            },
            patience: Duration::from_secs(20),
        }
    }

    fn all(&self, host_keys: HostKeys, fleet: &Fleet) -> Vec<Result<Reached, ReachError>> {
        self.reach(host_keys, LONG)
            .all(fleet, &BTreeSet::new(), &|| false)
    }
}

fn alarm(answer: &Result<Reached, ReachError>) -> (Rung, &str) {
    match answer {
        Err(ReachError {
            why: Why::Alarm { rung, answer },
            ..
        }) => (*rung, answer),
        other => panic!("no alarm: {other:?}"),
    }
}

/// Case H3: other ports. Case H8: the address that answered is the one that is handed on, IPv4 or IPv6.
/// Case H5: fifty hosts at once, and a line for each.
#[test]
fn fifty_hosts_are_reached_at_once_at_the_address_that_answered() {
    let lab = Lab::new();
    let four = lab.server("four", "127.0.0.1");
    let six = lab.server("six", "::1");
    let fleet = fleet_of((0..50).map(|number| {
        let server = if number % 10 == 3 { &six } else { &four };
        let mut host = host_of(server);
        // Nothing listens at the other address, or it does not exist here.
        host.remove("address");
        host.insert(
            "addresses".to_owned(),
            json!(["127.0.0.77", server.address.to_string()]),
        );
        (format!("web{number}"), host)
    }));
    let answers = lab.all(HostKeys::Declared, &fleet);
    assert_eq!(answers.len(), 50);
    for (number, answer) in answers.into_iter().enumerate() {
        let reached = answer.unwrap();
        let expected = if number % 10 == 3 { "::1" } else { "127.0.0.1" };
        assert_eq!(
            (reached.host.as_str(), reached.address.as_str()),
            (format!("web{number}").as_str(), expected)
        );
        assert!(reached.python.contains("python"), "{reached:?}");
    }
    let known = lab.known_hosts().read().unwrap();
    for server in [&four, &six] {
        let place = HostPort::new(&server.address.to_string(), server.port);
        assert_eq!(
            known.find(&place).keys,
            [server.host_key().parse().unwrap()]
        );
    }
}

/// Cases H1 and H12: a wrong key is an alarm at once, and replaced only with the machine.
#[test]
fn a_wrong_key_is_an_alarm_at_once_unless_this_run_replaced_the_machine() {
    let lab = Lab::new();
    let mut server = lab.server("web1", "127.0.0.1");
    let before = fleet_of_one(&server);
    lab.all(HostKeys::Declared, &before)[0].as_ref().unwrap();

    server.stop();
    server.new_host_key(&lab.keys);
    server.start();
    let begin = Instant::now();
    let answers = lab.all(HostKeys::Declared, &before);
    let (rung, answer) = alarm(&answers[0]);
    assert_eq!(rung, Rung::HostKey);
    assert!(answer.contains("SHA256:"), "{answer}");
    assert!(begin.elapsed() < LONG, "not waited for");

    let after = fleet_of_one(&server);
    let answers = lab.all(HostKeys::Declared, &after);
    assert!(
        matches!(
            &answers[0],
            Err(ReachError {
                why: Why::Onboard(_),
                ..
            })
        ),
        "{answers:?}"
    );
    let replaced: BTreeSet<HostName> = ["web1".parse().unwrap()].into();
    let answers = lab
        .reach(HostKeys::Declared, LONG)
        .all(&after, &replaced, &|| false);
    answers[0].as_ref().unwrap();
}

#[test]
fn trust_first_pins_the_first_key_and_takes_no_second() {
    let lab = Lab::new();
    let mut server = lab.server("web1", "127.0.0.1");
    let mut host = host_of(&server);
    host.remove("host_key");
    let fleet = fleet_of([("web1".to_owned(), host)]);
    assert!(matches!(
        &lab.all(HostKeys::Declared, &fleet)[0],
        Err(ReachError {
            why: Why::Onboard(_),
            ..
        })
    ));
    lab.all(HostKeys::TrustFirst, &fleet)[0].as_ref().unwrap();
    let place = HostPort::new("127.0.0.1", server.port);
    let pinned = lab.known_hosts().read().unwrap().find(&place).keys;
    assert_eq!(pinned, [server.host_key().parse().unwrap()]);
    server.stop();
    server.new_host_key(&lab.keys);
    server.start();
    assert_eq!(
        alarm(&lab.all(HostKeys::TrustFirst, &fleet)[0]).0,
        Rung::HostKey
    );
    assert_eq!(lab.known_hosts().read().unwrap().find(&place).keys, pinned);
}

#[test]
fn a_key_that_the_authority_signed_is_taken_and_another_is_not() {
    let lab = Lab::new();
    let authority = lab.keys.make_key("authority").parse().unwrap();
    let policy = HostKeys::Authority(authority);
    let mut server = lab.server("web1", "127.0.0.1");
    let mut host = host_of(&server);
    host.remove("host_key");
    let fleet = fleet_of([("web1".to_owned(), host)]);
    assert_eq!(alarm(&lab.all(policy.clone(), &fleet)[0]).0, Rung::HostKey);
    server.stop();
    lab.keys.sign_host_key("authority", &server);
    server.start();
    lab.all(policy, &fleet)[0].as_ref().unwrap();
}

/// Case H9: a key that is refused at first is waited for. Case H10: so is a boot; one that failed is not.
#[test]
fn a_host_is_awaited_through_login_and_boot() {
    let lab = Lab::new();
    let server = lab.server("web1", "127.0.0.1");
    let fleet = fleet_of_one(&server);
    server.admit(false, &lab.keys);
    let short = Duration::from_secs(2);
    let answer = &lab
        .reach(HostKeys::Declared, short)
        .all(&fleet, &BTreeSet::new(), &|| false)[0];
    let Err(ReachError {
        why:
            Why::TimedOut {
                rung: Some(Rung::Login),
                answer,
                ..
            },
        ..
    }) = answer
    else {
        panic!("{answer:?}")
    };
    assert!(answer.contains("Permission denied"), "{answer}");

    server.admit(true, &lab.keys);
    // The boot goes on until it was asked for three times.
    let count = lab.keys.dir().join("asked");
    server.program(
        "cloud-init",
        &format!("echo x >>'{0}'; if [ $(wc -l <'{0}') -gt 3 ]; then echo status: done; else echo status: running; fi", count.display()),
    );
    lab.all(HostKeys::Declared, &fleet)[0].as_ref().unwrap();
    assert!(
        std::fs::read_to_string(&count).unwrap().lines().count() >= 5,
        "three times running, twice done"
    );

    server.program("cloud-init", "echo status: error; exit 1");
    assert_eq!(alarm(&lab.all(HostKeys::Declared, &fleet)[0]).0, Rung::Boot);
}

#[test]
fn a_host_behind_another_is_reached_through_it_and_named_where_that_fails() {
    let lab = Lab::new();
    let mut bastion = lab.server("bastion", "127.0.0.1");
    let web = lab.server("web1", "127.0.0.2");
    let mut behind = host_of(&web);
    behind.insert("jump_host".to_owned(), json!("bastion"));
    let fleet = fleet_of([
        ("web1".to_owned(), behind),
        ("bastion".to_owned(), host_of(&bastion)),
    ]);
    // First sight too: the jump host's key is pinned before it is gone through.
    for policy in [HostKeys::TrustFirst, HostKeys::Declared] {
        for answer in lab.all(policy, &fleet) {
            answer.unwrap();
        }
    }
    // The same way, through a machine that the output does not know as a host.
    let mut alone = host_of(&web);
    let elsewhere = format!("{}@{}:{}", login_name(), bastion.address, bastion.port);
    alone.insert("jump_host".to_owned(), json!(elsewhere));
    alone.insert("jump_host_key".to_owned(), json!(bastion.host_key()));
    lab.all(HostKeys::Declared, &fleet_of([("web1".to_owned(), alone)]))[0]
        .as_ref()
        .unwrap();

    bastion.stop();
    let answers =
        lab.reach(HostKeys::Declared, Duration::ZERO)
            .all(&fleet, &BTreeSet::new(), &|| false);
    assert!(
        matches!(
            &answers[0],
            Err(ReachError {
                why: Why::Jump { .. },
                ..
            })
        ),
        "{answers:?}"
    );
    assert!(
        matches!(
            &answers[1],
            Err(ReachError {
                why: Why::TimedOut {
                    rung: Some(Rung::Port),
                    ..
                },
                ..
            })
        ),
        "{answers:?}"
    );
}

/// Case H11, for real: the server is gone for a moment between two answers, and the wait goes on.
/// A wait that is stopped ends.
#[test]
fn a_server_that_goes_and_comes_back_is_reached_and_a_stop_ends_the_wait() {
    let lab = Lab::new();
    let mut server = lab.server("web1", "127.0.0.1");
    let fleet = fleet_of_one(&server);
    let asked = lab.keys.dir().join("asked");
    server.program(
        "cloud-init",
        &format!("echo x >>'{}'; echo status: done", asked.display()),
    );
    let mut reach = lab.reach(HostKeys::Declared, LONG);
    reach.limits.settle = Duration::from_secs(2);
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| reach.all(&fleet, &BTreeSet::new(), &|| false));
        let has_answered =
            process::wait::until(Instant::now() + LONG, Duration::from_millis(10), || {
                asked.exists().then_some(())
            });
        assert!(has_answered.is_some());
        server.stop();
        server.start();
        wait.join().unwrap()[0].as_ref().unwrap();
    });
    server.stop();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let wait =
            scope.spawn(|| reach.all(&fleet, &BTreeSet::new(), &|| stop.load(Ordering::SeqCst)));
        stop.store(true, Ordering::SeqCst);
        let answers = wait.join().unwrap();
        assert!(
            matches!(
                &answers[0],
                Err(ReachError {
                    why: Why::Stopped,
                    ..
                })
            ),
            "{answers:?}"
        );
    });
}

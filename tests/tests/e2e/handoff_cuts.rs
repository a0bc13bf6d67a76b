//! SIGKILL in the middle of each act of a handoff, and exactly after each step's end: what had ended is not done again.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use serde_json::{Map, Value, json};
use test_support::Ended;

use crate::farm::{Farm, RESUME, UP};
use crate::gate::step;
use crate::provisioned::{RUN, handed_off, job};

const HOSTS: [&str; 3] = ["web1", "web2", "web3"];
/// Where the hosts answer at first, and after they moved.
const PLACES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)),
];

/// A call that a SIGKILL ends at the nth time that it comes by a point.
fn cut(farm: &Farm, args: &[&str], point: &str, nth: usize) {
    let orders = format!("hurt=kill@{point}#{nth}");
    let ended = farm.drill.rebuild(args).env(fault::VARIABLE, orders).run();
    assert_eq!(
        ended.ended,
        Ended::Signal(9),
        "{args:?} did not come to {point}#{nth}: {}{}",
        ended.stdout,
        ended.stderr
    );
    expect_whole(farm);
}

/// Every line of the known hosts is whole and about a host of ours, once; each machine was made once at the most.
fn expect_whole(farm: &Farm) {
    let known = farm.known_hosts();
    assert!(known.is_empty() || known.ends_with('\n'), "{known}");
    let mut lines: Vec<&str> = known.lines().collect();
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(
            words.len() == 3 && words[0].starts_with("[127.0.0.") && words[1] == "ssh-ed25519",
            "{known}"
        );
    }
    lines.sort_unstable();
    let n = lines.len();
    lines.dedup();
    assert_eq!(lines.len(), n, "{known}");
    let mut made = farm.made();
    let n = made.len();
    made.dedup();
    assert_eq!(made.len(), n, "made twice: {made:?}");
}

/// The hosts have two addresses, of which the servers listen at the first.
fn at_two_places(farm: &Farm) {
    let hosts = farm.servers.iter().map(|(name, server)| {
        let mut host = farm.host(server);
        host.remove("address");
        host.insert("addresses".to_owned(), json!(PLACES));
        (name.clone(), Value::Object(host))
    });
    farm.machines_as(&hosts.collect::<Map<_, _>>());
}

/// From now on they answer at the second.
fn move_all(farm: &mut Farm) {
    for (_, server) in &mut farm.servers {
        server.stop();
        server.address = PLACES[1];
        server.start();
    }
}

/// Notes at which address Ansible found each host.
fn notes_its_address(farm: &Farm, hosts: &str) -> String {
    let place = farm.place();
    format!(
        "- hosts: {hosts}\n  gather_facts: false\n  tasks:\n    - ansible.builtin.shell: echo {{{{ ansible_host }}}} >> {}/{{{{ inventory_hostname }}}}.played\n",
        place.display()
    )
}

fn played(farm: &Farm, host: &str) -> Vec<String> {
    let text = std::fs::read_to_string(farm.place().join(format!("{host}.played")));
    let text = text.unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Cases R1, A7 and H5: one job, killed in the middle of each of its steps, before each step's end is written down and
/// exactly after that. It goes on at the step that had not ended, by the addresses of then; nothing is made twice,
/// and the known hosts are whole each time.
#[test]
fn a_job_that_is_killed_in_and_after_each_step_goes_on_at_the_one_that_had_not_ended() {
    let mut farm = handed_off(&HOSTS);
    at_two_places(&farm);
    farm.playbook(&notes_its_address(&farm, "tf:prod"));
    let expect = |farm: &Farm, statuses: [&str; 4], attempts: [u64; 4]| {
        let (job, words) = job(farm);
        let steps = job["steps"].as_array().cloned().unwrap_or_default();
        let counted: Vec<u64> = steps
            .iter()
            .map(|step| step["attempts"].as_u64().unwrap_or_default())
            .collect();
        assert_eq!(
            (words, counted),
            (statuses.map(str::to_owned).to_vec(), attempts.to_vec())
        );
        job["id"].as_str().unwrap_or_default().to_owned()
    };
    const DONE: &str = "succeeded";
    const CUT: &str = "started";
    const NOT: &str = "pending";
    cut(&farm, &RUN, "job.begin.after apply", 1);
    let id = expect(&farm, [CUT, NOT, NOT, NOT], [1, 0, 0, 0]);
    assert!(farm.made().is_empty());
    cut(&farm, &RUN, "spawn.after tofu apply", 1);
    cut(&farm, &RUN, "job.end.before apply", 1);
    expect(&farm, [CUT, NOT, NOT, NOT], [3, 0, 0, 0]);
    assert_eq!(farm.made(), HOSTS);
    cut(&farm, &RUN, "job.end.after apply", 1);
    expect(&farm, [DONE, NOT, NOT, NOT], [4, 0, 0, 0]);
    assert_eq!(farm.known_hosts(), "");
    // Between two hosts: the keys of some are written, those of others are not.
    cut(
        &farm,
        &["jobs", "resume"],
        "file.write.before known_hosts",
        2,
    );
    expect(&farm, [DONE, CUT, NOT, NOT], [4, 1, 0, 0]);
    assert_eq!(
        farm.known_hosts().lines().count(),
        2,
        "one host, two addresses"
    );
    cut(&farm, &RUN, "job.end.before await", 1);
    assert_eq!(farm.known_hosts().lines().count(), 6);
    cut(&farm, &RUN, "job.end.after await", 1);
    expect(&farm, [DONE, DONE, NOT, NOT], [4, 3, 0, 0]);
    cut(&farm, &RUN, "job.begin.after onboard", 1);
    cut(&farm, &["jobs", "resume", &id], "job.end.after onboard", 1);
    expect(&farm, [DONE, DONE, DONE, NOT], [4, 3, 2, 0]);
    cut(&farm, &RUN, "spawn.after ansible-playbook --inventory", 1);
    // It is waited for, and then run again.
    cut(&farm, &RUN, "job.end.before ansible", 1);
    expect(&farm, [DONE, DONE, DONE, CUT], [4, 3, 2, 2]);
    let before = played(&farm, "web1");
    assert!(
        before.iter().all(|at| *at == PLACES[0].to_string()),
        "{before:?}"
    );
    move_all(&mut farm);
    cut(&farm, &RUN, "job.end.after ansible", 1);
    for host in HOSTS {
        let at = played(&farm, host).pop();
        assert_eq!(at, Some(PLACES[1].to_string()), "the address of now");
    }
    assert_eq!(expect(&farm, [DONE; 4], [4, 3, 2, 3]), id, "one job");
    let n_played = played(&farm, "web1").len();
    let nothing = farm.drill.run(0, &["jobs", "resume"]);
    assert!(
        nothing.stdout.contains("nothing to go on with"),
        "{}",
        nothing.stdout
    );
    assert_eq!(played(&farm, "web1").len(), n_played);
    assert_eq!(farm.made(), HOSTS);
    expect_whole(&farm);
    farm.drill.run(0, &["provision", "down", "prod"]);
    assert_eq!(farm.known_hosts(), "");
    farm.drill.expect_nothing_left_of_the_call();
}

/// The points that a call came by.
fn points(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).expect("a log of points");
    text.lines().map(str::to_owned).collect()
}

/// Cases R1, A7 and H5: the same for the steps of a run. Killed between two hosts and exactly after each write to the record
/// between the machines' apply and the playbook's start, and after the playbook's end, the resume goes on.
#[test]
fn a_run_that_is_killed_in_and_after_each_step_goes_on_at_the_one_that_had_not_ended() {
    let farm = Farm::of(&HOSTS);
    farm.steps("", ", verify = false");
    at_two_places(&farm);
    farm.playbook(&notes_its_address(&farm, "tf:machines"));
    cut(&farm, &UP, "file.write.before known_hosts", 2);
    assert_eq!(
        farm.known_hosts().lines().count(),
        2,
        "one host, two addresses"
    );
    cut(&farm, &RESUME, "file.rename known_hosts", 1);
    cut(
        &farm,
        &RESUME,
        "spawn.after ansible-playbook --inventory",
        1,
    );
    assert_eq!(farm.known_hosts().lines().count(), 6);
    farm.drill.run(0, &RESUME);
    let record = farm.drill.record();
    assert_eq!(record["status"], "finished");
    let attempts = |record: &Value| {
        ["1.machines", "1.reach", "1.configure"].map(|name| step(record, name)["attempts"].as_u64())
    };
    assert_eq!(attempts(&record), [Some(1), Some(3), Some(2)], "{record}");
    assert_eq!(farm.made(), HOSTS);

    // A run of which nothing is to be made, to learn at which points it can be cut.
    let log = farm.drill.world.root().join("points");
    let told = farm
        .drill
        .rebuild(&UP)
        .env(fault::VARIABLE, format!("log={}", log.display()))
        .run();
    told.expect_code(0);
    let passed = points(&log);
    let place = |wanted: &str| passed.iter().position(|point| point == wanted);
    let play = place("spawn.after ansible-playbook --inventory#1").expect("a playbook");
    let is_write = |at: &usize| passed[*at].starts_with("store.put.after run/*.json#");
    let writes: Vec<usize> = (0..passed.len()).filter(is_write).collect();
    let n_before = writes.iter().filter(|at| **at < play).count();
    // The machines' end or the wait's beginning, the wait's end, the playbook's beginning; the playbook's end.
    for at in &writes[n_before - 3..=n_before] {
        let (point, nth) = passed[*at].rsplit_once('#').expect("a number");
        cut(&farm, &UP, point, nth.parse().expect("a number"));
        assert_eq!(farm.known_hosts().lines().count(), 6);
        let n_played = played(&farm, "web1").len();
        let before = farm.drill.record();
        let entry = |record: &Value, name: &str| {
            let steps = record["steps"].as_array().cloned().unwrap_or_default();
            steps.into_iter().find(|step| step["step"] == name)
        };
        let is_done = |name: &str| {
            let status = entry(&before, name).map(|step| step["status"].clone());
            status.is_some_and(|status| status == "succeeded" || status == "verified")
        };
        let done = ["1.machines", "1.reach", "1.configure"].map(is_done);
        farm.drill.run(0, &RESUME);
        let after = farm.drill.record();
        assert_eq!(after["status"], "finished");
        for (number, name) in ["1.machines", "1.reach", "1.configure"].iter().enumerate() {
            if done[number] {
                assert_eq!(
                    step(&after, name)["attempts"],
                    step(&before, name)["attempts"],
                    "{name} after {}",
                    passed[*at]
                );
            }
        }
        let again = played(&farm, "web1").len() - n_played;
        assert_eq!(again, usize::from(!done[2]), "{}: {before}", passed[*at]);
        assert_eq!(farm.made(), HOSTS);
    }
    farm.drill.run(0, &["down", "--target", "drill"]);
    assert_eq!(farm.known_hosts(), "");
}

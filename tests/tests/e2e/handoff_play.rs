//! `ansible` steps: judged by hosts, proven in check mode, cut and run again.

use rustix::process::Signal;
use test_support::Ended;

use crate::farm::{Farm, RESUME, UP, WRITES, told};
use crate::gate::{step, touch, wait_for};

fn play(hosts: &str, rest: &str) -> String {
    format!("- hosts: {hosts}\n  gather_facts: false\n{rest}")
}

/// Cases A1, A3, A7 and A9: whatever Ansible's exit code says, the step fails where hosts were not reached, and only
/// what has to be is done again: the machines were made once.
#[test]
fn a_playbook_is_judged_by_its_hosts_and_run_again_alone() {
    const SECRET: &str = "correct-horse-battery";
    let farm = Farm::of(&["web1", "web2"]);
    farm.target("declared", "[secrets]\ntoken = { env = \"TOKEN\" }\n");
    farm.steps(
        "",
        ", limit = \"tf\", verify = false }\nenv = { LIKE_A_TOKEN = \"${secret.token}\"",
    );
    let run = |code: i32, args: &[&str]| {
        let outcome = farm.drill.rebuild(args).env("TOKEN", SECRET).run();
        outcome.expect_code(code);
        assert!(!format!("{outcome:?}").contains(SECRET), "{outcome:?}");
        outcome
    };
    let ping = "  tasks: [{ansible.builtin.command: 'true', changed_when: false}]\n";
    // Exit code 0.
    farm.playbook(&play("tf:&nobody", ping));
    told(&run(1, &UP), &["no host matched: nothing was done"]);
    // Exit code 0: a lost host is ignored.
    farm.playbook(&format!(
        "{}{}",
        play("web1", ping),
        play(
            "web2",
            &format!("  ignore_unreachable: true\n  vars: {{ansible_port: 1}}\n{ping}")
        )
    ));
    told(
        &run(1, &RESUME),
        &[
            "1 host did not answer",
            "`web2`: unreachable, whatever the playbook says about that: ",
            "Connection refused",
        ],
    );
    // Exit code 0: a host has no part in it.
    farm.playbook(&play("web1", ping));
    told(&run(1, &RESUME), &["1 host had no part in it", "`web2`"]);
    // Exit code 4.
    farm.playbook(&play("tf", &format!("  vars: {{ansible_port: 1}}\n{ping}")));
    told(&run(1, &RESUME), &["2 hosts did not answer"]);
    // Exit code 2, and the failing task prints the secret.
    farm.playbook(&play("tf", "  tasks:\n    - name: breaks\n      ansible.builtin.command: sh -c 'echo no {{ lookup(\"env\", \"LIKE_A_TOKEN\") }} left >&2; exit 3'\n      when: inventory_hostname == 'web2'\n"));
    let failed = run(1, &RESUME);
    told(
        &failed,
        &["tasks failed on 1 host", "`web2`: task `breaks`: ", "log: "],
    );
    // Exit code 4 as well, and no word of hosts: the playbook is no YAML.
    farm.playbook("- hosts: [\n");
    told(&run(1, &RESUME), &["Ansible did not come to its end"]);

    farm.playbook(WRITES);
    told(
        &run(0, &RESUME),
        &["1.configure: applied: 2 hosts, 2 changed"],
    );
    assert_eq!(farm.made(), ["web1", "web2"], "made once");
    let record = farm.drill.record();
    assert_eq!(step(&record, "1.machines")["attempts"], 1, "{record}");
    assert_eq!(step(&record, "1.configure")["attempts"], 7);
    let root = farm.drill.world.root();
    assert!(
        farm.drill
            .world
            .files_with(root, SECRET.as_bytes())
            .is_empty()
    );
}

/// A second run that would change something is no proof: check mode tells, unless the step says that it can't.
#[test]
fn what_check_mode_would_change_is_a_failed_verify_that_can_be_switched_off() {
    let farm = Farm::of(&["web1"]);
    farm.playbook(&play(
        "tf",
        "  tasks:\n    - name: never the same\n      ansible.builtin.copy: {content: \"{{ lookup('pipe', 'date +%s%N') }}\", dest: '{{ place }}/clock'}\n",
    ));
    let failed = farm.drill.run(1, &UP);
    told(
        &failed,
        &[
            "in check mode it would change something",
            "`web1`: 1 task would be changed",
        ],
    );
    farm.steps("", ", verify = false");
    farm.drill.run(0, &RESUME);
    farm.drill.run(0, &["preflight", "--target", "drill"]);
}

/// Case A7: killed in the middle of a playbook, which goes on alone: the resume waits for it, runs it again, and makes
/// nothing anew. Interrupted in the middle of one: Ansible is ended, exit 130, and the resume runs it again.
#[test]
fn a_playbook_that_is_cut_is_run_again_and_never_beside_itself() {
    let farm = Farm::of(&["web1"]);
    farm.steps("", ", verify = false");
    let place = farm.place();
    let [begun, hold, ended] = ["begun", "hold", "ended"].map(|name| place.join(name));
    farm.playbook(&play("tf", "  tasks:\n    - ansible.builtin.command: sh -c 'cd {{ place }}; echo begun >> begun; n=0; while [ -e hold ]; do n=$((n+1)); [ $n -lt 1800 ] || exit 9; sleep 0.05; done; echo ended >> ended'\n"));
    let lines = |path: &std::path::Path| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .lines()
            .count()
    };
    touch(&hold);
    let killed = farm.drill.rebuild(&UP).start();
    wait_for("the task", || (lines(&begun) == 1).then_some(()));
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().ended, Ended::Signal(9));

    let mut resumed = farm.drill.rebuild(&RESUME).start();
    resumed.expect_stderr("waiting for");
    assert_eq!(
        (lines(&begun), lines(&ended)),
        (1, 0),
        "it goes on, and no second one beside it"
    );
    std::fs::remove_file(&hold).unwrap();
    resumed.wait().expect_code(0);
    assert_eq!((lines(&begun), lines(&ended)), (2, 2));
    assert_eq!(farm.made(), ["web1"]);
    assert_eq!(step(&farm.drill.record(), "1.reach")["attempts"], 1);

    // A new run, interrupted by its operator.
    touch(&hold);
    let mut up = farm.drill.rebuild(&UP).start();
    wait_for("the task", || (lines(&begun) == 3).then_some(()));
    up.signal(Signal::INT);
    up.expect_stderr("once more interrupts it");
    up.signal(Signal::INT);
    up.wait().expect_code(130);
    assert_eq!(
        step(&farm.drill.record(), "1.configure")["status"],
        "interrupted"
    );
    std::fs::remove_file(&hold).unwrap();
    farm.drill.run(0, &RESUME);
    farm.drill.expect_nothing_left_of_the_call();
}

/// Case A6: an output that says no hosts is told with every fault, and nothing is played.
#[test]
fn an_output_that_says_no_hosts_is_an_error() {
    let farm = Farm::of(&["web1"]);
    let mut host = farm.host(&farm.servers[0].1);
    host.insert("address".to_owned(), "192.0.2.1/24".into());
    host.insert("port".to_owned(), 99_999.into());
    farm.machines_as(&[("web1".to_owned(), host.into())].into_iter().collect());
    let failed = farm.drill.run(1, &UP);
    told(
        &failed,
        &[
            "output `hosts` of step `1.machines` says no hosts that could be reached",
            "hosts.web1.address",
            "hosts.web1.port",
        ],
    );
    farm.machines_as(&serde_json::Map::new());
    told(&farm.drill.run(1, &RESUME), &["names no host"]);
    assert!(!farm.place().join("web1.made").exists());
}

/// What a step needs is looked for before anything is touched: Ansible of the right version, the key, the agent.
#[test]
fn what_is_missing_is_found_before_anything_is_touched() {
    let farm = Farm::of(&["web1"]);
    let text = std::fs::read_to_string(farm.drill.dir().join("rebuild.toml")).unwrap();
    farm.drill.write(
        "rebuild.toml",
        &text.replace("version = \">=2.15\"", "version = \">=99\""),
    );
    told(
        &farm.drill.run(2, &UP),
        &["`[tools] ansible` demands `>=99`", "nothing was touched"],
    );
    farm.drill.write(
        "rebuild.toml",
        &text.replace("command = [\"", "command = [\"/nowhere"),
    );
    told(
        &farm.drill.run(2, &UP),
        &["/nowhere", "install ansible-core"],
    );
    farm.drill.write("rebuild.toml", &text);
    farm.drill.write(
        "targets/drill.toml",
        "[ssh]\nidentity = { file = \"none\" }\n",
    );
    told(
        &farm.drill.run(2, &UP),
        &["the identity key", "nothing was touched"],
    );
    let key = farm
        .drill
        .write("open-key", "no key, and everybody may read it");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&key, mode).unwrap();
    farm.drill.write(
        "targets/drill.toml",
        "[ssh]\nidentity = { file = \"open-key\" }\n",
    );
    told(
        &farm.drill.run(2, &UP),
        &["may be read by others (mode 0644)", "chmod 600 "],
    );
    farm.drill
        .write("targets/drill.toml", "[ssh]\nidentity = { agent = true }\n");
    told(&farm.drill.run(2, &UP), &["`SSH_AUTH_SOCK` is not set"]);
    assert!(farm.made().is_empty() && farm.drill.states().is_empty());
}

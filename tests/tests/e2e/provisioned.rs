//! Handoffs: a workspace applied, its hosts awaited and onboarded, Ansible; as jobs that go on after a cut.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use test_support::{Command, Started};

use crate::drill::tool;
use crate::farm::Farm;
use crate::gate::{Gate, await_group_gone, touch, wait_for};
use crate::published::{conforms, events};

/// Makes a file on each host, holds while it is told to, and counts how often it ran.
fn playbook(farm: &Farm, hosts: &str) -> String {
    let place = farm.place().display().to_string();
    format!(
        "- hosts: {hosts}
  gather_facts: false
  tasks:
    - name: notes
      ansible.builtin.shell: \"echo played >> {place}/{{{{ inventory_hostname }}}}.played; test ! -e {place}/fail || exit 3; n=0; while [ -e {place}/hold ]; do n=$((n+1)); [ $n -lt 1800 ] || exit 9; sleep 0.05; done\"
"
    )
}

/// A platform with one phase of nothing and the workspace `prod`, which makes the farm's machines.
pub(crate) fn handed_off(names: &[&str]) -> Farm {
    let farm = Farm::of(names);
    platform(
        &farm,
        "[workspace.prod]\nroot = \"machines\"\ntarget = \"drill\"\n",
    );
    farm.drill.write("nothing/main.tf", "");
    farm.playbook(&playbook(&farm, "tf:prod"));
    farm
}

pub(crate) fn platform(farm: &Farm, workspaces: &str) {
    farm.drill.write(
        "rebuild.toml",
        &format!(
            "[platform]\nname = \"lab\"\n[tools]\nansible = {{ command = [\"{}\"] }}\n[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"nothing\"\ntofu = \"nothing\"\n{workspaces}",
            tool("REBUILD_TEST_ANSIBLE").display()
        ),
    );
}

pub(crate) const RUN: [&str; 4] = ["provision", "run", "prod", "playbooks/node.yml"];

fn n_played(farm: &Farm, host: &str) -> usize {
    let file = farm.place().join(format!("{host}.played"));
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

/// The one job, and the status of each of its steps.
pub(crate) fn job(farm: &Farm) -> (Value, Vec<String>) {
    let list = farm.drill.json(0, &["jobs", "list"]);
    conforms("jobs-list", &list);
    let job = list["jobs"][0].clone();
    let steps = job["steps"].as_array().cloned().unwrap_or_default();
    let words = steps
        .iter()
        .map(|step| step["status"].as_str().unwrap_or_default().to_owned());
    let words = words.collect();
    (job, words)
}

fn attempts(job: &Value) -> Vec<u64> {
    let steps = job["steps"].as_array().cloned().unwrap_or_default();
    steps
        .iter()
        .map(|step| step["attempts"].as_u64().unwrap_or_default())
        .collect()
}

fn await_step(farm: &Farm, step: usize, status: &str) {
    wait_for(&format!("step {step} to be `{status}`"), || {
        let (_, words) = job(farm);
        (words.get(step).map(String::as_str) == Some(status)).then_some(())
    });
}

fn killed(started: Started) {
    started.signal(Signal::KILL);
    let _ = started.wait();
}

/// Cases A6, A7 and H1: the whole chain under one job, whose steps, times and outputs are told; what stands is in the
/// way of `down`, is no state that preflight knows of, and goes by `provision down`, guarded.
#[test]
fn a_workspace_is_applied_awaited_onboarded_played_on_shown_and_torn_down() {
    let mut farm = handed_off(&["web1", "web2"]);
    farm.drill.up();
    let said = farm.drill.rebuild(&RUN).run();
    said.expect_code(0);
    for line in [
        "job ",
        "apply: done",
        "await: done: 2 hosts reached",
        "onboard: done",
        "ansible: done: 2 hosts, 2 changed",
    ] {
        assert!(said.stderr.contains(line), "no {line:?} in {}", said.stderr);
    }
    assert_eq!((n_played(&farm, "web1"), n_played(&farm, "web2")), (1, 1));
    let (first, words) = job(&farm);
    assert_eq!(words, ["succeeded"; 4]);
    assert_eq!(first["status"], "succeeded");
    let port = farm.servers[0].1.port;
    assert_eq!(first["steps"][0]["outputs"]["hosts"]["web1"]["port"], port);
    assert!(
        first["steps"][2]["outputs"]
            .to_string()
            .contains("ssh-ed25519"),
        "{first}"
    );
    let status = farm.drill.json(0, &["provision", "status", "prod"]);
    conforms("provision-status", &status);
    let id = first["id"].as_str().unwrap();
    let shown = farm.drill.json(0, &["jobs", "show", id]);
    conforms("jobs-show", &shown);
    assert_eq!(shown["steps"], first["steps"]);
    assert_eq!(
        (&status["stands"], &status["job"]["id"]),
        (&json!(true), &first["id"])
    );
    assert_eq!(status["outputs"]["hosts"]["web2"]["address"], "127.0.0.1");
    assert!(farm.drill.store().join("workspace/prod").exists());

    // A second run is another job, for which nothing is made again; told as events, each of a published shape.
    let again = farm
        .drill
        .rebuild(&[
            "handoff",
            "run",
            "prod",
            "playbooks/node.yml",
            "--output",
            "ndjson",
        ])
        .run();
    again.expect_code(0);
    let told = events(&again.stdout);
    conforms("jobs-show", &told.last().expect("an end")["document"]);
    assert!(
        told.iter()
            .any(|event| event["event"] == "job-step-ended" && event["step"] == "ansible")
    );
    assert_ne!(job(&farm).0["id"], first["id"]);
    assert_eq!(farm.made(), ["web1", "web2"]);
    assert_eq!(n_played(&farm, "web1"), 2);

    farm.drill.run(0, &["preflight", "--target", "drill"]);
    let refused = farm.drill.run(5, &["down", "--target", "drill"]);
    for words in [
        "workspace `prod` stands in target `drill`",
        "rebuild provision down prod --target drill",
    ] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
    let dry = farm
        .drill
        .json(0, &["provision", "down", "prod", "--dry-run"]);
    assert_eq!(dry["addresses"].as_array().map(Vec::len), Some(2), "{dry}");
    assert!(!farm.known_hosts().is_empty());

    // Another host key is an alarm. It is given up with its machine alone, which a redrive from the apply makes anew.
    let old = farm.server("web2").host_key();
    farm.new_key("web2");
    let alarm = farm.drill.run(1, &RUN);
    for words in [
        "`web2`: host key: another key than the pinned one was shown: SHA256:",
        "find out why before anything else: another machine may answer there",
    ] {
        assert!(
            alarm.stderr.contains(words),
            "no {words:?} in {}",
            alarm.stderr
        );
    }
    let (failed, words) = job(&farm);
    assert_eq!(words, ["succeeded", "failed", "pending", "pending"]);
    let new = farm.server("web2").host_key();
    farm.replace("web2", &new);
    let id = failed["id"].as_str().unwrap();
    farm.drill
        .run(0, &["jobs", "redrive", id, "--from", "apply"]);
    let key = |line: &str| line.split(' ').nth(1).unwrap().to_owned();
    let known = farm.known_hosts();
    assert!(known.contains(&key(&new)), "{known}");
    assert!(!known.contains(&key(&old)), "{known}");

    // Guarded as `down` is.
    farm.target("declared", "[encryption]\npassphrase = { env = \"P\" }\n");
    let target = farm.drill.dir().join("targets/drill.toml");
    let open = std::fs::read_to_string(&target).unwrap();
    farm.drill
        .write("targets/drill.toml", &format!("protected = true\n{open}"));
    let refused = farm
        .drill
        .rebuild(&["provision", "down", "prod"])
        .env("P", "sixteen characters")
        .run();
    refused.expect_code(5);
    assert!(
        refused.stderr.contains("--confirm drill"),
        "{}",
        refused.stderr
    );
    farm.target("declared", "");

    let down = farm.drill.json(0, &["provision", "down", "prod"]);
    conforms("provision-down", &down);
    assert_eq!(down["stood"], true);
    assert!(!farm.drill.store().join("workspace/prod").exists());
    assert_eq!(farm.known_hosts(), "", "its hosts are forgotten");
    let down = farm.drill.json(0, &["provision", "down", "prod"]);
    assert_eq!(down["stood"], false);
    farm.drill.run(0, &["down", "--target", "drill"]);
}

/// Cases R1, R2, A7 and N2: killed inside each step and gone on with by each way: the next `provision run`, `jobs
/// resume`, `jobs resume ID`. The machines are made once, and the addresses are those of now.
#[test]
fn killed_inside_each_step_it_goes_on_by_each_way_and_applies_once() {
    let mut farm = handed_off(&["web1"]);
    // Inside the apply.
    farm.hold();
    let first = farm.drill.rebuild(&RUN).start();
    wait_for("the machine to be made", || {
        (farm.made() == ["web1"]).then_some(())
    });
    killed(first);
    assert_eq!(job(&farm).0["status"], "cut");
    farm.release();
    // Inside the wait for hosts: nobody answers.
    farm.server("web1").stop();
    let second = farm.drill.rebuild(&RUN).start();
    await_step(&farm, 1, "started");
    assert_eq!(farm.made(), ["web1"], "an apply that was cut is waited for");
    killed(second);
    let id = job(&farm).0["id"].as_str().unwrap().to_owned();
    // Another machine of the same generation took its place meanwhile: its port is another one.
    farm.server("web1").start();
    // Inside the playbook.
    touch(&farm.place().join("hold"));
    let third = farm.drill.rebuild(&["jobs", "resume"]).cwd("/").start();
    wait_for("the playbook to run", || {
        (n_played(&farm, "web1") == 1).then_some(())
    });
    killed(third);
    std::fs::remove_file(farm.place().join("hold")).unwrap();
    let (cut, words) = job(&farm);
    assert_eq!(words, ["succeeded", "succeeded", "succeeded", "started"]);
    assert_eq!(attempts(&cut)[0], 2);
    farm.drill.run(0, &["jobs", "resume", &id]);
    let (done, words) = job(&farm);
    assert_eq!(words, ["succeeded"; 4]);
    assert_eq!(done["id"], *id);
    assert_eq!(attempts(&done)[0], 2, "once cut, once done, never again");
    assert_eq!(farm.made(), ["web1"]);
    assert_eq!(n_played(&farm, "web1"), 2);
    let nothing = farm.drill.run(0, &["jobs", "resume"]);
    assert!(
        nothing.stdout.contains("nothing to go on with"),
        "{}",
        nothing.stdout
    );
}

/// Case A7: a playbook that failed is run again with the hosts of now, and nothing is applied again; a redrive begins
/// where it is told to.
#[test]
fn a_failed_playbook_is_run_again_and_a_redrive_begins_where_it_is_told_to() {
    let farm = handed_off(&["web1"]);
    touch(&farm.place().join("fail"));
    let failed = farm.drill.rebuild(&RUN).run();
    failed.expect_code(1);
    for words in ["tasks failed on 1 host", "rebuild jobs redrive"] {
        assert!(
            failed.stderr.contains(words),
            "no {words:?} in {}",
            failed.stderr
        );
    }
    let (first, words) = job(&farm);
    assert_eq!(words, ["succeeded", "succeeded", "succeeded", "failed"]);
    // One that failed is not gone on with by itself, and another playbook is not mistaken for it.
    let nothing = farm.drill.run(0, &["jobs", "resume"]);
    assert!(
        nothing.stdout.contains("nothing to go on with"),
        "{}",
        nothing.stdout
    );
    farm.drill
        .write("playbooks/other.yml", &playbook(&farm, "prod"));
    let refused = farm
        .drill
        .run(3, &["provision", "run", "prod", "playbooks/other.yml"]);
    assert!(
        refused.stderr.contains("--give-up REASON"),
        "{}",
        refused.stderr
    );
    std::fs::remove_file(farm.place().join("fail")).unwrap();
    farm.drill.run(0, &RUN);
    let (second, words) = job(&farm);
    assert_eq!(
        (&second["id"], words),
        (&first["id"], vec!["succeeded".to_owned(); 4])
    );
    assert_eq!(attempts(&second), [1, 1, 1, 2]);

    let id = first["id"].as_str().unwrap();
    let refused = farm.drill.run(2, &["jobs", "redrive", id]);
    assert!(refused.stderr.contains("--from STEP"), "{}", refused.stderr);
    let refused = farm
        .drill
        .run(2, &["jobs", "redrive", id, "--from", "nowhere"]);
    assert!(
        refused
            .stderr
            .contains("`apply`, `await`, `onboard`, `ansible`"),
        "{}",
        refused.stderr
    );
    farm.drill
        .run(0, &["jobs", "redrive", id, "--from", "onboard"]);
    assert_eq!(attempts(&job(&farm).0), [1, 1, 2, 3]);
    assert_eq!(farm.made(), ["web1"]);
    farm.drill
        .run(0, &["provision", "run", "prod", "playbooks/other.yml"]);
    let unknown = farm.drill.run(2, &["jobs", "show", "nobody"]);
    assert!(
        unknown.stderr.contains("rebuild jobs list"),
        "{}",
        unknown.stderr
    );
}

/// Case E11: two callers never both change a workspace, nor one of them its target.
#[test]
fn while_one_caller_works_on_a_workspace_every_other_is_turned_away() {
    let farm = handed_off(&["web1"]);
    farm.hold();
    let first = farm.drill.rebuild(&RUN).start();
    wait_for("the machine to be made", || {
        (farm.made() == ["web1"]).then_some(())
    });
    let id = job(&farm).0["id"].as_str().unwrap().to_owned();
    for args in [
        &RUN[..],
        &["provision", "down", "prod"],
        &["up", "--target", "drill", "--no-pause"],
    ] {
        let refused = farm.drill.run(4, args);
        assert!(
            refused.stderr.contains("provision run"),
            "{}",
            refused.stderr
        );
    }
    let refused = farm.drill.run(4, &["jobs", "redrive", &id]);
    assert!(refused.stderr.contains("is run by"), "{}", refused.stderr);
    let (running, _) = job(&farm);
    assert_eq!(running["status"], "running");
    let nothing = farm.drill.run(0, &["jobs", "resume"]);
    assert!(
        nothing.stdout.contains("nothing to go on with"),
        "{}",
        nothing.stdout
    );
    farm.release();
    first.wait().expect_code(0);
    let jobs = farm.drill.json(0, &["jobs", "list", "--target", "drill"]);
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(1));
}

/// Cases S1, A7 and H11: interrupted in each step, and left by its terminal in one, a job ends with 130 where it is, and the same
/// command goes on there; nothing is made twice.
#[test]
fn interrupted_in_each_step_a_job_goes_on_where_it_stopped() {
    let mut farm = handed_off(&["web1"]);
    let expect = |farm: &Farm, status: &str, steps: [&str; 4]| {
        let (job, words) = job(farm);
        assert_eq!(
            (job["status"].as_str(), words),
            (Some(status), steps.map(str::to_owned).to_vec())
        );
    };
    const DONE: &str = "succeeded";
    // The terminal goes while the machine is made: that ends first.
    farm.hold();
    let mut left = farm.drill.rebuild(&RUN).start();
    wait_for("the machine to be made", || {
        (farm.made() == ["web1"]).then_some(())
    });
    left.signal(Signal::HUP);
    left.expect_stderr("the terminal is gone");
    farm.release();
    let left = left.wait();
    left.expect_code(130);
    let hint = "hint: the same command goes on at that step, as `rebuild jobs resume ";
    assert!(left.stderr.contains(hint), "{}", left.stderr);
    expect(&farm, "paused", [DONE, "pending", "pending", "pending"]);

    let twice = |started: &mut Started| {
        started.signal(Signal::INT);
        started.expect_stderr("once more interrupts it");
        started.signal(Signal::INT);
    };
    // One success is luck: the server goes before the second.
    let [once, dropped, gone] = ["once", "dropped", "gone"].map(|name| farm.place().join(name));
    let accepts_once = format!(
        "if [ -e {once} ]; then touch {dropped}; n=0; while [ ! -e {gone} ] && [ $n -lt 900 ]; do sleep 0.1; n=$((n + 1)); done; exit 1; fi; touch {once}; echo status: done",
        once = once.display(),
        dropped = dropped.display(),
        gone = gone.display()
    );
    farm.server("web1").program("cloud-init", &accepts_once);
    let mut awaiting = farm.drill.rebuild(&RUN).start();
    wait_for("the second try", || dropped.exists().then_some(()));
    farm.server("web1").stop();
    touch(&gone);
    awaiting.expect_stderr("workspace.prod: web1: port: 127.0.0.1 port ");
    // Nothing is half done in a wait, so once is enough.
    awaiting.signal(Signal::INT);
    let awaited = awaiting.wait();
    awaited.expect_code(130);
    assert!(
        awaited.stderr.contains("the wait for hosts"),
        "{}",
        awaited.stderr
    );
    assert!(!awaited.stderr.contains("reached at"), "{}", awaited.stderr);
    expect(
        &farm,
        "interrupted",
        [DONE, "interrupted", "pending", "pending"],
    );

    farm.server("web1")
        .program("cloud-init", "echo status: done");
    farm.server("web1").start();
    touch(&farm.place().join("hold"));
    let mut playing = farm.drill.rebuild(&RUN).start();
    wait_for("the playbook to run", || {
        (n_played(&farm, "web1") == 1).then_some(())
    });
    twice(&mut playing);
    playing.wait().expect_code(130);
    expect(&farm, "interrupted", [DONE, DONE, DONE, "interrupted"]);
    farm.drill.expect_nothing_left_of_the_call();

    std::fs::remove_file(farm.place().join("hold")).unwrap();
    farm.drill.run(0, &RUN);
    expect(&farm, DONE, [DONE; 4]);
    let list = farm.drill.json(0, &["jobs", "list"]);
    assert_eq!(list["jobs"].as_array().map(Vec::len), Some(1), "one job");
    assert_eq!(farm.made(), ["web1"]);
    assert_eq!(n_played(&farm, "web1"), 2);
}

/// Case L6: a job whose holder can't be seen from here, on another machine or in another container: who has it is told and
/// what to type, and it goes on once a person has released the target's lock.
#[test]
fn a_job_that_is_held_elsewhere_is_named_and_goes_on_once_the_target_is_free() {
    let farm = handed_off(&["web1"]);
    let orders = "machine=elsewhere;hurt=kill@job.end.after apply#1";
    let elsewhere = farm.drill.rebuild(&RUN);
    let elsewhere = elsewhere.env(fault::VARIABLE, orders);
    let cut = elsewhere.env("__REBUILD_LEASE_MS", "300").run();
    assert_eq!(cut.ended, test_support::Ended::Signal(9), "{}", cut.stderr);
    let (held, _) = job(&farm);
    let id = held["id"].as_str().unwrap().to_owned();
    assert_eq!(held["status"], "held");
    let list = farm.drill.run(0, &["jobs", "list"]);
    let resume = format!("rebuild jobs resume {id}");
    for words in ["is held by `provision run` by", resume.as_str()] {
        assert!(
            list.stdout.contains(words),
            "no {words:?} in {}",
            list.stdout
        );
    }
    let shown = farm.drill.json(0, &["jobs", "show", &id]);
    assert_eq!(
        shown["next"],
        json!(["rebuild status --target drill", resume])
    );
    for args in [
        &["jobs", "resume"][..],
        &["jobs", "resume", &id],
        &["jobs", "redrive", &id],
    ] {
        let refused = farm.drill.run(4, args);
        for words in [
            id.as_str(),
            "was not gone on with; it is held by `provision run` by",
            "rebuild unlock --target drill",
        ] {
            assert!(
                refused.stderr.contains(words),
                "no {words:?} in {}",
                refused.stderr
            );
        }
    }
    let unlock = farm.drill.rebuild(&["unlock", "--target", "drill"]);
    let unlock = unlock.env("__REBUILD_LEASE_MS", "300");
    unlock.run().expect_code(0);
    farm.drill.run(0, &["jobs", "resume"]);
    let (done, words) = job(&farm);
    assert_eq!(
        (&done["id"], words),
        (&held["id"], vec!["succeeded".to_owned(); 4])
    );
    assert_eq!(farm.made(), ["web1"]);
}

fn ledger(farm: &Farm) -> PathBuf {
    farm.drill.world.state_home().join("rebuild/jobs.sqlite")
}

/// A ledger that can't be read, or that a newer version wrote, stops before anything is touched and says what to do.
#[test]
fn a_ledger_that_can_not_be_read_stops_before_anything() {
    let farm = handed_off(&["web1"]);
    let path = ledger(&farm);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // The version of SQLite's `user_version` is in the file's header, at byte 60.
    let mut newer = Vec::new();
    for (what, bytes) in [
        (
            "unreadable",
            b"no database at all, and long enough to be one".repeat(40),
        ),
        ("newer", Vec::new()),
    ] {
        if what == "newer" {
            std::fs::remove_file(&path).unwrap();
            farm.drill.run(0, &["jobs", "list"]);
            newer = std::fs::read(&path).unwrap();
            newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
        }
        let bytes = if what == "newer" {
            newer.clone()
        } else {
            bytes
        };
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(&path, bytes).unwrap();
        for args in [
            &RUN[..],
            &["provision", "status", "prod"],
            &["jobs", "list"],
            &["jobs", "resume"],
            &["provision", "down", "prod"],
        ] {
            let stopped = farm.drill.run(3, args);
            assert!(
                stopped.stderr.contains("jobs.sqlite"),
                "{what}: {}",
                stopped.stderr
            );
            assert!(
                stopped.stderr.contains("nothing was touched"),
                "{what}: {}",
                stopped.stderr
            );
        }
    }
    assert!(!farm.drill.store().exists());
    assert_eq!(farm.made(), Vec::<String>::new());
}

fn ansible_inventory(farm: &Farm, script: &str, args: &[&str]) -> Command {
    let program = tool("REBUILD_TEST_ANSIBLE").with_file_name("ansible-inventory");
    farm.drill
        .rebuild(&[])
        .instead(program.to_str().expect("a text"), &[])
        .args(["-i", script])
        .args(args.iter().copied())
        .env("LC_ALL", "C.UTF-8")
        .env("ANSIBLE_LOCALHOST_WARNING", "False")
}

/// Case A6: the inventory is what the real Ansible reads, value for value; a tree is for people.
#[test]
fn an_inventory_is_read_by_ansible_and_a_graph_by_people() {
    let mut farm = handed_off(&["web1"]);
    let odd = json!({ "hash": "a # b", "braces": "a{{ 1+1 }}b", "number": "007", "word": "yes", "lines": "one\ntwo" });
    farm.say(json!({ "odd": odd, "groups": ["web"] }));
    let none = farm.drill.run(1, &["inventory", "prod", "--list"]);
    assert!(
        none.stderr.contains("nothing stands of workspace `prod`"),
        "{}",
        none.stderr
    );
    farm.drill.run(0, &RUN);
    let script = inventory_script(&farm, "prod");
    let read = ansible_inventory(&farm, &script, &["--list"]).run();
    read.expect_code(0);
    let read: Value = serde_json::from_str(&read.stdout).unwrap();
    let host = &read["_meta"]["hostvars"]["web1"];
    // What no template may be run in is marked so where it is printed.
    let is =
        |arrived: &Value, value: &Value| arrived == value || arrived["__ansible_unsafe"] == *value;
    assert!(is(&host["ansible_host"], &json!("127.0.0.1")), "{host}");
    for (name, value) in odd.as_object().unwrap() {
        assert!(is(&host["odd"][name], value), "{name}: {host}");
    }
    for group in ["tf", "prod", "web"] {
        assert_eq!(read[group]["hosts"], json!(["web1"]), "{group}: {read}");
    }
    let one: Value = serde_json::from_str(
        &farm
            .drill
            .run(0, &["inventory", "--target", "drill", "--host", "web1"])
            .stdout,
    )
    .unwrap();
    assert_eq!(one["ansible_port"], farm.servers[0].1.port);
    let graph = farm.drill.run(0, &["inventory", "prod", "--graph"]).stdout;
    assert!(
        graph.contains("prod\n") && graph.contains("web1"),
        "{graph}"
    );
}

/// Writes a script as the pages tell to, which is an inventory of these words.
fn inventory_script(farm: &Farm, words: &str) -> String {
    let script = farm.drill.write(
        "hosts.sh",
        &format!(
            "#!/bin/sh\nexec {} --platform {} inventory {words} \"$@\"\n",
            env!("CARGO_BIN_EXE_rebuild_dup"),
            farm.drill.dir().display()
        ),
    );
    let mut mode = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    script.display().to_string()
}

/// Case A6: the hosts that a run's steps made and those of a workspace, as the target's store has them: the same on another
/// machine, which has the store and nothing else.
#[test]
fn an_inventory_of_a_target_has_the_hosts_of_its_steps_and_workspaces() {
    let farm = Farm::of(&["web1"]);
    let mut host = farm.host(&farm.servers[0].1);
    host.insert("groups".to_owned(), json!(["db"]));
    let host = json!({ "db1": host });
    let module = format!(
        "resource \"terraform_data\" \"it\" {{}}\noutput \"hosts\" {{ value = jsondecode({:?}) }}\n",
        host.to_string()
    );
    farm.drill.write("fleet/main.tf", &module);
    // An output that has the name and means something else.
    farm.drill.write(
        "names/main.tf",
        "output \"hosts\" { value = [\"www.example.org\"] }\n",
    );
    farm.phases(
        "[[phase.step]]\nname = \"reach\"\nssh = { hosts = \"hosts\" }\n[[phase.step]]\nname = \"names\"\ntofu = \"names\"\n\
         [workspace.stage]\nroot = \"fleet\"\ntarget = \"drill\"\n",
    );
    farm.playbook(&playbook(&farm, "tf:stage"));
    let of_target = ["inventory", "--target", "drill", "--list"];
    let list = |farm: &Farm| -> Value {
        serde_json::from_str(&farm.drill.run(0, &of_target).stdout).unwrap()
    };
    assert_eq!(list(&farm), json!({ "_meta": { "hostvars": {} } }));
    farm.drill.run(0, &crate::farm::UP);
    let alone = list(&farm);
    for group in ["tf", "machines"] {
        assert_eq!(alone[group]["hosts"], json!(["web1"]), "{alone}");
    }
    farm.drill
        .run(0, &["provision", "run", "stage", "playbooks/node.yml"]);

    let script = inventory_script(&farm, "--target drill");
    let read = ansible_inventory(&farm, &script, &["--list"]).run();
    read.expect_code(0);
    let read: Value = serde_json::from_str(&read.stdout).unwrap();
    for (group, host) in [("machines", "web1"), ("stage", "db1"), ("db", "db1")] {
        assert_eq!(read[group]["hosts"], json!([host]), "{group}: {read}");
    }
    assert_eq!(read.get("tf"), None, "it would be all of them");
    let script = inventory_script(&farm, "1.machines --target drill");
    let graph = ansible_inventory(&farm, &script, &["--graph", "tf"]).run();
    graph.expect_code(0);
    assert!(graph.stdout.contains("web1"), "{}", graph.stdout);
    assert!(!graph.stdout.contains("db1"), "{}", graph.stdout);
    let told = farm.drill.run(0, &["inventory", "--target", "drill"]);
    assert_eq!(
        told.stderr,
        "warning: not in this inventory: output `hosts` of step `1.names` names no hosts\n"
    );
    for line in ["machines\n", "stage\n", "└─ db\n"] {
        assert!(told.stdout.contains(line), "no {line:?} in {}", told.stdout);
    }
    let refused = farm
        .drill
        .run(1, &["inventory", "1.names", "--target", "drill", "--list"]);
    assert!(refused.stderr.contains("1.names"), "{}", refused.stderr);

    // Another machine has the store, and nothing of this one's own.
    let before = list(&farm);
    let own = farm.own();
    let workspaces = own.parent().unwrap().join("workspaces");
    assert!(workspaces.join("stage").exists());
    std::fs::remove_dir_all(&workspaces).unwrap();
    assert_eq!(list(&farm), before);
    farm.drill.run(0, &["provision", "down", "stage"]);
    assert_eq!(list(&farm), alone);
    farm.drill.run(0, &["down", "--target", "drill"]);
}

/// Several workspaces in one play: `tf:NAME` in a limit is rewritten, in `hosts:` it is refused with the reason; a
/// workspace may be the directory of a root module that rebuild.toml does not name.
#[test]
fn several_workspaces_are_given_to_one_play_and_a_directory_is_one_too() {
    let farm = handed_off(&["web1"]);
    platform(
        &farm,
        "[workspace.prod]\nroot = \"machines\"\ntarget = \"drill\"\n[workspace.stage]\nroot = \"staged\"\ntarget = \"drill\"\n",
    );
    let staged = |name: &str| {
        let mut host = farm.host(&farm.servers[0].1);
        host.insert("machine_id".to_owned(), "m1".into());
        let host = json!({ name: host });
        format!(
            "resource \"terraform_data\" \"it\" {{}}\noutput \"hosts\" {{ value = jsondecode({:?}) }}\n",
            host.to_string()
        )
    };
    farm.drill.write("staged/main.tf", &staged("db1"));
    farm.drill
        .write("playbooks/both.yml", &playbook(&farm, "prod:stage"));
    let both = [
        "provision",
        "run",
        "prod",
        "playbooks/both.yml",
        "--with",
        "stage",
    ];
    let refused = farm.drill.run(
        2,
        &[
            "provision",
            "run",
            "prod",
            "playbooks/node.yml",
            "--with",
            "stage",
        ],
    );
    for words in [
        "`hosts: tf:prod`",
        "`:` is a union to Ansible",
        "name `prod`",
        "playbooks/node.yml",
    ] {
        assert!(
            refused.stderr.contains(words),
            "no {words:?} in {}",
            refused.stderr
        );
    }
    let refused = farm.drill.run(
        2,
        &[
            "provision",
            "run",
            "prod",
            "playbooks/both.yml",
            "--limit",
            "tf:stage",
        ],
    );
    assert!(refused.stderr.contains("not given"), "{}", refused.stderr);
    assert_eq!(farm.made(), Vec::<String>::new());

    let failed = farm.drill.run(1, &both);
    assert!(
        failed
            .stderr
            .contains("nothing stands of workspace `stage`"),
        "{}",
        failed.stderr
    );
    farm.drill
        .write("playbooks/stage.yml", &playbook(&farm, "stage"));
    farm.drill
        .run(0, &["provision", "run", "stage", "playbooks/stage.yml"]);
    let limited: Vec<&str> = both
        .iter()
        .copied()
        .chain(["--limit", "tf:stage"])
        .collect();
    farm.drill.run(0, &limited);
    assert_eq!((n_played(&farm, "web1"), n_played(&farm, "db1")), (0, 2));
    farm.drill.run(0, &both);
    assert_eq!((n_played(&farm, "web1"), n_played(&farm, "db1")), (1, 3));
    let of_target = farm
        .drill
        .run(0, &["inventory", "--target", "drill", "--list"]);
    let of_target: Value = serde_json::from_str(&of_target.stdout).unwrap();
    assert_eq!(of_target["stage"]["hosts"], json!(["db1"]));
    assert_eq!(of_target.get("tf"), None, "it would be all of them");

    // A directory, which has its path for a name.
    farm.drill.write("more/edge/main.tf", &staged("edge1"));
    farm.drill
        .write("playbooks/edge.yml", &playbook(&farm, "tf:more-edge"));
    farm.drill.run(
        0,
        &[
            "provision",
            "run",
            "more/edge",
            "playbooks/edge.yml",
            "--target",
            "drill",
        ],
    );
    assert_eq!(n_played(&farm, "edge1"), 1);
    assert!(farm.drill.store().join("workspace/more-edge").exists());
    let refused = farm
        .drill
        .run(2, &["provision", "run", "more/edge", "playbooks/edge.yml"]);
    assert!(
        refused.stderr.contains("needs `--target TARGET`"),
        "{}",
        refused.stderr
    );
    let refused = farm.drill.run(5, &["down", "--target", "drill"]);
    assert!(
        refused.stderr.contains("`more-edge`, `prod`, `stage`"),
        "{}",
        refused.stderr
    );
    for name in ["more-edge", "prod", "stage"] {
        farm.drill
            .run(0, &["provision", "down", name, "--target", "drill"]);
    }
    farm.drill.run(0, &["down", "--target", "drill"]);
}

/// Case R4: an apply that was killed with its OpenTofu may have made what is in no state: it is named, it stops the
/// handoff, and it is settled as a step's is.
#[test]
fn what_a_killed_apply_may_have_made_stops_a_handoff_until_it_is_settled() {
    let farm = handed_off(&["web1"]);
    let gate = Gate::new(&farm.drill.world, "gate");
    platform(
        &farm,
        "[workspace.prod]\nroot = \"gated\"\ntarget = \"drill\"\n",
    );
    let hosts = json!({ "web1": farm.host(&farm.servers[0].1) }).to_string();
    let module = format!(
        "{}output \"hosts\" {{ value = jsondecode({hosts:?}) }}\n",
        gate.module()
    );
    farm.drill.write("gated/main.tf", &module);
    gate.hold();
    let started = farm.drill.rebuild(&RUN).start();
    gate.await_creating();
    let group = gate.group();
    killed(started);
    rustix::process::kill_process_group(group, Signal::KILL).expect("a group to kill");
    await_group_gone(group);
    gate.open();
    let stopped = farm.drill.run(3, &RUN);
    for words in [
        "`terraform_data.slow`",
        "rebuild suspects --target drill --workspace prod",
    ] {
        assert!(
            stopped.stderr.contains(words),
            "no {words:?} in {}",
            stopped.stderr
        );
    }
    // The target's own steps have nothing to do with it.
    farm.drill.run(0, &["preflight", "--target", "drill"]);
    let suspects = ["suspects", "--target", "drill", "--workspace", "prod"];
    let listed = farm.drill.json(0, &suspects);
    assert_eq!(listed["suspects"][0]["address"], "terraform_data.slow");
    let next = "rebuild suspects --target drill --workspace prod --gone terraform_data.slow";
    assert_eq!(listed["next"][1], next);
    gate.take_away();
    let gone: Vec<&str> = suspects
        .iter()
        .copied()
        .chain(["--gone", "terraform_data.slow"])
        .collect();
    farm.drill.run(0, &gone);
    farm.drill.run(0, &RUN);
    assert_eq!(job(&farm).1, ["succeeded"; 4]);
    assert!(gate.stands());
}

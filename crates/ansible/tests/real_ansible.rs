//! Playbooks run by the real Ansible, and what is made of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ansible::{Event, Run, Status, Stop, Tally, Verdict};
use process::{Exit, How, RealSpawner};

struct Ended {
    exit: Exit,
    verdict: Verdict,
    events: Vec<Event>,
    printed: String,
}

/// Runs a playbook on two hosts that are this machine and one where nothing listens.
fn run(playbook: &str, check: bool) -> Ended {
    run_in(playbook, check, &[])
}

/// The same with more variables in its environment.
fn run_in(playbook: &str, check: bool, env: &[(&str, &str)]) -> Ended {
    #[expect(clippy::disallowed_methods, reason = "a test finds its tools by it")]
    let program = std::env::var_os("REBUILD_TEST_ANSIBLE").map(PathBuf::from).expect(
        "REBUILD_TEST_ANSIBLE names no `ansible-playbook`: run the tests by `cargo xtask test`, which installs one",
    );
    let python = program.with_file_name("python3");
    // In memory, as the program has it.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    let dir = dir.expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        process::files::write_atomically(&path, text.as_bytes(), 0o600).expect("a file");
        path
    };
    let inventory = format!(
        "all: {{hosts: {{web1: {{ansible_connection: local}}, web2: {{ansible_connection: local}}, lost: {{ansible_host: 127.0.0.1, ansible_port: 1}}}}, children: {{empty: {{}}}}, vars: {{ansible_python_interpreter: {}}}}}\n",
        python.display()
    );
    let run = Run {
        program,
        prefix: Vec::new(),
        cwd: dir.path().to_owned(),
        dir: dir.path().join("own"),
        inventory: write("hosts.yml", &inventory),
        playbook: write("play.yml", playbook),
        limit: None,
        extra_vars: vec![write("vars.json", "{\"given\": \"hunter2-hunter2\"}")],
        roles: Vec::new(),
        collections: Vec::new(),
        ssh: None,
        check,
        diff: false,
        env: [("PATH", "/usr/bin:/bin"), ("LC_ALL", "C.UTF-8")]
            .iter()
            .chain(env)
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    };
    let mut tally = Tally::default();
    let mut events = Vec::new();
    let mut printed = Vec::new();
    let followed = run.follow(
        &RealSpawner::direct(),
        &How::reader(),
        &|| Stop::No,
        |line, event| {
            printed.extend_from_slice(line);
            printed.push(b'\n');
            if let Some(event) = event {
                tally.add(&event);
                events.push(event);
            }
        },
    );
    let exit = followed.expect("a run");
    let expected: BTreeSet<String> = ["web1", "web2"].map(str::to_owned).into();
    Ended {
        exit,
        verdict: tally.judge(exit, &expected),
        events,
        printed: String::from_utf8_lossy(&printed).into_owned(),
    }
}

fn play(hosts: &str, rest: &str) -> String {
    format!("- hosts: {hosts}\n  gather_facts: false\n{rest}")
}

/// Cases A1 and A3: no host matched; a lost host is ignored; a failure; a lost host; a fault in the playbook.
#[test]
fn runs_are_judged_by_hosts_and_not_by_exit_codes_alone() {
    let ping = "  tasks: [{ansible.builtin.command: 'true', changed_when: false}]\n";
    let nothing = run(&play("empty", ping), false);
    assert_eq!(
        (nothing.exit, nothing.verdict),
        (Exit::Code(0), Verdict::NothingMatched),
        "{}",
        nothing.printed
    );

    let ignored = run(
        &play("all", &format!("  ignore_unreachable: true\n{ping}")),
        false,
    );
    let lost = |verdict: Verdict| match verdict {
        Verdict::Unreachable { hosts } => hosts,
        other => panic!("{other:?}"),
    };
    assert_eq!(ignored.exit, Exit::Code(0), "{}", ignored.printed);
    let said = lost(ignored.verdict);
    assert!(said["lost"].contains("Connection refused"), "{said:?}");

    let unreachable = run(&play("all", ping), false);
    assert_eq!(unreachable.exit, Exit::Code(4));
    assert_eq!(lost(unreachable.verdict), said);

    let fails = "  tasks: [{name: breaks, ansible.builtin.fail: {msg: no space left}, when: inventory_hostname == 'web2'}]\n";
    let failed = run(&play("web1:web2", fails), false);
    let Verdict::Failed { hosts, .. } = failed.verdict else {
        panic!("{}", failed.printed)
    };
    assert_eq!(
        hosts["web2"],
        ("breaks".to_owned(), "no space left".to_owned())
    );

    let broken = run("- hosts: [\n", false);
    assert!(
        matches!(broken.verdict, Verdict::Broken { .. }),
        "{:?}",
        broken.verdict
    );
    let missed = run(&play("web1", ping), false);
    assert_eq!(
        missed.verdict,
        Verdict::Missed {
            hosts: ["web2".to_owned()].into()
        }
    );
}

/// Case A9 in part: of a task's result only its message is told. A check run says what would change.
#[test]
fn events_come_task_by_task_and_a_check_run_changes_nothing() {
    let tasks = "  tasks:\n    - name: writes\n      ansible.builtin.copy: {content: '{{ given }}', dest: '{{ playbook_dir }}/made-{{ inventory_hostname }}'}\n";
    let checked = run(&play("web1:web2", tasks), true);
    let all: BTreeSet<String> = ["web1", "web2"].map(str::to_owned).into();
    assert_eq!(
        checked.verdict,
        Verdict::Done { changed: all },
        "{}",
        checked.printed
    );
    assert!(checked.events.contains(&Event::Task {
        name: "writes".to_owned()
    }));
    let changed = checked.events.iter().filter(|event| {
        matches!(
            event,
            Event::Result {
                status: Status::Changed,
                ..
            }
        )
    });
    assert_eq!(changed.count(), 2);
    assert!(!checked.printed.contains("hunter2"), "{}", checked.printed);
}

/// Temporary files of tasks on this machine, delegated ones too, lie in the run's own directory: copies of secrets
/// would come to the disk that the user's home is on.
#[test]
fn what_tasks_on_this_machine_write_for_themselves_lies_in_the_runs_own_directory() {
    let copy = |to: &str| {
        format!(
            "    - ansible.builtin.copy: {{content: x, dest: \"{{{{ playbook_dir }}}}/{to}\"}}\n"
        )
    };
    let delegated = "      delegate_to: localhost\n";
    let list = "    - ansible.builtin.fail: {msg: \"{{ lookup('ansible.builtin.pipe', 'ls ' + ansible_remote_tmp) }}\"}\n";
    let playbook = [
        play("web1", &format!("  tasks:\n{}", copy("one"))),
        play("lost", &format!("  tasks:\n{}{delegated}", copy("two"))),
        play("web1", &format!("  tasks:\n{list}")),
    ]
    .concat();
    let ended = run_in(&playbook, false, &[("ANSIBLE_KEEP_REMOTE_FILES", "1")]);
    let listed = ended.events.iter().find_map(|event| match event {
        Event::Result {
            status: Status::Failed,
            message,
            ..
        } => Some(message.matches("ansible-tmp-").count()),
        _ => None,
    });
    assert!(
        listed.is_some_and(|n| n >= 2),
        "{listed:?}: {}",
        ended.printed
    );
}

/// A task on this machine that becomes another user, who gets into no directory of ours, has its files in memory all the
/// same; one elsewhere has them where Ansible puts them. Only root becomes somebody without a password: others see
/// where the files would lie.
#[cfg(target_os = "linux")]
#[test]
fn what_another_user_of_this_machine_is_given_lies_in_memory_too() {
    let said = |host: &str| {
        let tell =
            "    - ansible.builtin.fail: {msg: '{{ ansible_system_tmpdirs | join(\" \") }}'}\n";
        let ended = run(
            &play(
                host,
                &format!("  tasks:\n{tell}      delegate_to: \"{{{{ inventory_hostname }}}}\"\n"),
            ),
            false,
        );
        let told = ended.events.iter().find_map(|event| match event {
            Event::Result { message, .. } => Some(message.clone()),
            _ => None,
        });
        told.unwrap_or_else(|| panic!("{}", ended.printed))
    };
    assert_eq!(said("web1"), "/dev/shm");
    assert_eq!(said("lost"), "/var/tmp /tmp");

    let needle = format!("content-{}", std::process::id());
    let own = tempfile::tempdir().expect("a directory");
    let owner = std::os::unix::fs::MetadataExt::uid(&own.path().metadata().expect("its owner"));
    if owner != 0 {
        return;
    }
    let becomes = "  become: true\n  become_method: ansible.builtin.su\n  become_user: nobody\n  vars: {ansible_python_interpreter: /usr/bin/python3, ansible_become_flags: '-s /bin/sh', ansible_become_exe: /usr/bin/su}\n";
    let copies = format!(
        "  tasks:\n    - ansible.builtin.copy: {{content: '{needle}', dest: '/dev/shm/{needle}'}}\n"
    );
    let ended = run_in(
        &play("web1", &format!("{becomes}{copies}")),
        false,
        &[("ANSIBLE_KEEP_REMOTE_FILES", "1")],
    );
    let left = |place: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(place).expect("a directory").flatten();
        let dirs = entries.filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("ansible-tmp-")
        });
        let files = dirs.flat_map(|dir| {
            std::fs::read_dir(dir.path())
                .into_iter()
                .flatten()
                .flatten()
        });
        let files = files.map(|file| file.path());
        files
            .filter(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains(&needle)))
            .collect()
    };
    let (memory, disk) = (left("/dev/shm"), left("/var/tmp"));
    let _ = std::fs::remove_file(format!("/dev/shm/{needle}"));
    for file in memory.iter().chain(&disk) {
        let _ = std::fs::remove_dir_all(file.parent().expect("its directory"));
    }
    assert_eq!(ended.exit, Exit::Code(0), "{}", ended.printed);
    assert!(
        disk.is_empty() && !memory.is_empty(),
        "{memory:?} {disk:?}: {}",
        ended.printed
    );
}

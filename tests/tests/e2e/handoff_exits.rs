//! Each code with which Ansible ends, and what is made of it.

use std::os::unix::fs::PermissionsExt as _;

use crate::drill::tool;
use crate::farm::{Farm, RESUME, UP, WRITES, told};
use crate::gate::step;
use crate::provisioned::{RUN, handed_off, job};

/// A program that runs the real Ansible, and then ends as the file `code` says, where there is one.
fn ending_as_told(farm: &Farm) {
    let program = farm.drill.write(
        "ansible.sh",
        &format!(
            "#!/bin/sh\n{} \"$@\"\ncode=$?\ncase $* in *--inventory*) [ -e {code} ] && code=$(cat {code});; esac\nexit $code\n",
            tool("REBUILD_TEST_ANSIBLE").display(),
            code = code_file(farm).display()
        ),
    );
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let path = farm.drill.dir().join("rebuild.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let real = tool("REBUILD_TEST_ANSIBLE").display().to_string();
    let text = text.replace(&real, &program.display().to_string());
    farm.drill.write("rebuild.toml", &text);
}

fn code_file(farm: &Farm) -> std::path::PathBuf {
    farm.place().join("code")
}

fn end_with(farm: &Farm, code: i32) {
    farm.drill
        .world
        .write(code_file(farm).to_str().unwrap(), &code.to_string());
}

fn play(hosts: &str, rest: &str) -> String {
    format!("- hosts: {hosts}\n  gather_facts: false\n{rest}")
}

/// Case A3 and every exit code of `ansible.errors.ExitCode`: the real one where the real Ansible can be brought to it,
/// else a program that ends so after the real one. Only a run that ended well on every host is taken for well, and
/// nothing is made again for it.
#[test]
fn every_exit_code_of_ansible_is_judged() {
    let farm = Farm::of(&["web1", "web2"]);
    let step_with = |env: &str| farm.steps("", &format!(", verify = false }}\nenv = {{ {env}"));
    step_with("NOTHING = \"1\"");
    let ping = "  tasks: [{ansible.builtin.command: 'true', changed_when: false}]\n";
    // 0, and no host matched: an empty group.
    farm.playbook(&play("nobody", ping));
    told(
        &farm.drill.run(1, &UP),
        &["no host matched: nothing was done", "--resume"],
    );
    // 0: errors of a lost host are cleared, so that the play goes on as if it were there.
    farm.playbook(&play("tf", &format!("  tasks:\n    - ansible.builtin.command: 'true'\n      vars: {{ansible_port: \"{{{{ 1 if inventory_hostname == 'web2' else {} }}}}\"}}\n    - ansible.builtin.meta: clear_host_errors\n", farm.servers[0].1.port)));
    told(
        &farm.drill.run(1, &RESUME),
        &[
            "1 host did not answer",
            "`web2`: unreachable",
            "Connection refused",
        ],
    );
    // 0: a block rescues what failed, and it failed for good on neither.
    farm.playbook(&play("tf", "  tasks:\n    - block: [{ansible.builtin.command: 'false'}]\n      rescue: [{ansible.builtin.command: 'true', changed_when: false}]\n"));
    told(
        &farm.drill.run(0, &RESUME),
        &["1.configure: applied: 2 hosts"],
    );
    // A new run for the rest.
    // 1 or 4, by the version: a role that nobody has.
    farm.playbook(&play("tf", "  roles: [nobody_has_it]\n"));
    told(
        &farm.drill.run(1, &UP),
        &[
            "Ansible did not come to its end (exit code ",
            "nobody_has_it",
            "log: ",
            "hint: role `nobody_has_it` is looked for in `roles` of the platform's directory",
            "`rebuild up --target drill --resume` goes on",
        ],
    );
    // 2 and 4 are 6: one host fails, another is lost.
    farm.playbook(&play("tf", &format!("  tasks:\n    - name: breaks\n      ansible.builtin.command: sh -c 'echo no space left >&2; exit 3'\n      vars: {{ansible_port: \"{{{{ 1 if inventory_hostname == 'web2' else {} }}}}\"}}\n", farm.servers[0].1.port)));
    told(
        &farm.drill.run(1, &RESUME),
        &[
            "tasks failed on 1 host",
            "`web1`: task `breaks`: ",
            "no space left",
            "`web2`: unreachable",
        ],
    );
    // 5: a setting that it does not take.
    farm.playbook(WRITES);
    step_with("ANSIBLE_FORKS = \"many\"");
    told(
        &farm.drill.run(1, &RESUME),
        &[
            "exit code 5: an option or a setting that it does not take",
            "FORKS",
        ],
    );
    // 2: the play is broken off at once where any host fails.
    step_with("NOTHING = \"1\"");
    farm.playbook(&play("tf", "  any_errors_fatal: true\n  tasks:\n    - name: breaks\n      ansible.builtin.command: 'false'\n      when: inventory_hostname == 'web2'\n"));
    told(
        &farm.drill.run(1, &RESUME),
        &["tasks failed on 1 host", "`web2`: task `breaks`: "],
    );
    ending_as_told(&farm);
    farm.playbook(WRITES);
    end_with(&farm, 3);
    told(&farm.drill.run(1, &RESUME), &["(exit code 3)"]);
    let awaited = step(&farm.drill.record(), "1.reach")["attempts"].clone();
    for (code, words) in [
        (
            1,
            "exit code 1: an error of the playbook or of Ansible's own",
        ),
        (2, "tasks failed on 0 hosts"),
        (4, "0 hosts did not answer"),
        (6, "0 hosts did not answer"),
        (8, "tasks failed on 0 hosts"),
        (99, "exit code 99: interrupted by a signal"),
        (250, "exit code 250: an exception that it did not expect"),
    ] {
        end_with(&farm, code);
        told(&farm.drill.run(1, &RESUME), &[words, "--resume"]);
    }
    std::fs::remove_file(code_file(&farm)).unwrap();
    farm.drill.run(0, &RESUME);
    assert_eq!(farm.made(), ["web1", "web2"], "made once");
    let record = farm.drill.record();
    assert_eq!(step(&record, "1.machines")["attempts"], 1, "{record}");
    let awaited_now = step(&record, "1.reach")["attempts"].clone();
    assert_eq!(awaited_now, awaited, "the same files: not awaited again");
}

/// The same for a job: whatever the code, the step `ansible` failed, the way on is told, and the same command goes on.
#[test]
fn a_job_whose_playbook_ends_with_any_code_fails_and_goes_on() {
    let farm = handed_off(&["web1"]);
    ending_as_told(&farm);
    for (code, words) in [
        (5, "exit code 5: an option or a setting"),
        (99, "exit code 99: interrupted by a signal"),
        (250, "exit code 250: an exception"),
        (4, "did not answer"),
    ] {
        end_with(&farm, code);
        let failed = farm.drill.run(1, &RUN);
        told(&failed, &[words, "rebuild jobs redrive"]);
        assert_eq!(
            job(&farm).1,
            ["succeeded", "succeeded", "succeeded", "failed"]
        );
    }
    std::fs::remove_file(code_file(&farm)).unwrap();
    let place = farm.place().display().to_string();
    farm.playbook(&play("tf:prod", &format!("  tasks: [{{ansible.builtin.command: 'false', ignore_errors: true}}, {{ansible.builtin.command: touch {place}/done}}]\n")));
    farm.drill.run(0, &RUN);
    assert!(farm.place().join("done").exists());
    assert_eq!(farm.made(), ["web1"]);
}

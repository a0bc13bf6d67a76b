//! `ssh` and `ansible` steps of a run: machines made, awaited, onboarded, configured, proven, undone.

use serde_json::{Value, json};

use crate::farm::Farm;
use test_support::SshLab;

use crate::gate::step;
use crate::networks::Networks;

/// Cases A4, A9, K8 and H3: machines are made, awaited and configured; values arrive as they were in the output, a
/// secret is told nowhere and lies on no disk; what stands is proven; and all of it is undone and forgotten.
#[test]
fn a_phase_of_machines_is_made_awaited_configured_proven_and_undone() {
    const SECRET: &str = "correct-horse-battery";
    let mut farm = Farm::of(&["web1", "web2"]);
    let odd = json!({ "hash": "a # b", "quotes": "'\"", "braces": "a{{ 1+1 }}b", "lines": "one\ntwo\n", "letters": "ä→💡",
                      "number": "007", "word": "yes", "real": 7 });
    farm.say(json!({ "odd": odd, "groups": ["web"] }));
    farm.target(
        "declared",
        "[encryption]\npassphrase = { env = \"PASSPHRASE\" }\n[secrets]\ntoken = { env = \"TOKEN\" }\n",
    );
    farm.playbook(
        "- hosts: tf:machines
  gather_facts: false
  tasks:
    - name: writes what it was given
      ansible.builtin.copy: {content: '{{ {\"odd\": odd, \"given\": given} | to_json }}', dest: '{{ place }}/{{ inventory_hostname }}.json'}
    - name: says the secret
      ansible.builtin.command: echo {{ token }}
      changed_when: false
- hosts: web
  gather_facts: false
  roles: [noted]
",
    );
    farm.drill.write("playbooks/roles/noted/tasks/main.yml", "- name: notes\n  ansible.builtin.copy: {content: 'noted', dest: '{{ place }}/{{ inventory_hostname }}.noted'}\n");
    farm.drill.write("playbooks/gone.yml", "- hosts: tf\n  gather_facts: false\n  tasks:\n    - name: removes\n      ansible.builtin.file: {path: '{{ place }}/{{ inventory_hostname }}.noted', state: absent}\n");
    let place = farm.place();
    farm.phases(&format!(
        "[[phase.step]]\nname = \"reach\"\nssh = {{ hosts = \"hosts\", timeout = \"2m\" }}\n[[phase.step]]\nname = \"configure\"\n[phase.step.ansible]\nplaybook = \"playbooks/node.yml\"\nhosts = \"machines.hosts\"\nteardown = \"playbooks/gone.yml\"\ndiff = true\nvars = {{ place = \"{}\", token = \"${{secret.token}}\", given = \"${{step.1.machines.hosts.web1.odd}}\" }}\n",
        place.display()
    ));
    let rebuild = |code: i32, args: &[&str]| {
        let command = farm
            .drill
            .rebuild(args)
            .env("TOKEN", SECRET)
            .env("PASSPHRASE", "sixteen characters");
        let outcome = command.run();
        outcome.expect_code(code);
        outcome
    };
    let said = rebuild(0, &["up", "--target", "drill", "--no-pause", "-v"]);
    let told = &said.stderr;
    for line in [
        "1.reach: web1: reached at 127.0.0.1",
        "1.reach: applied: 2 hosts reached",
        "1.configure: task writes what it was given",
        "1.configure: web1: writes what it was given: changed",
        "difference",
        "1.configure: web2: 3 ok, 2 changed",
        "1.configure: applied: 2 hosts, 2 changed",
    ] {
        assert!(told.contains(line), "no {line:?} in {told}");
    }
    for name in ["web1", "web2"] {
        let text = std::fs::read_to_string(place.join(format!("{name}.json"))).unwrap();
        let arrived: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(arrived, json!({ "odd": odd, "given": odd }));
        assert!(place.join(format!("{name}.noted")).exists());
    }
    for (_, server) in &farm.servers {
        let line = format!("[127.0.0.1]:{} {}", server.port, server.host_key());
        let pinned: Vec<&str> = line.split_whitespace().take(3).collect();
        assert!(
            farm.known_hosts().contains(&pinned.join(" ")),
            "{line} in {}",
            farm.known_hosts()
        );
    }
    assert!(!format!("{said:?}").contains(SECRET));
    let root = farm.drill.world.root();
    assert_eq!(
        farm.drill.world.files_with(root, SECRET.as_bytes()),
        Vec::<std::path::PathBuf>::new()
    );

    // Once more: nothing is made again, and Ansible says that nothing was to be done.
    let again = rebuild(0, &["up", "--target", "drill", "--no-pause"]);
    assert!(
        again
            .stderr
            .contains("1.configure: applied: 2 hosts, 0 changed"),
        "{}",
        again.stderr
    );
    assert_eq!(farm.made(), ["web1", "web2"]);

    // What somebody changed is drift, which stops what follows and can be repaired.
    std::fs::write(place.join("web2.noted"), "scribbled").unwrap();
    let drifted = rebuild(3, &["preflight", "--target", "drill"]);
    let text = format!("{}{}", drifted.stdout, drifted.stderr);
    assert!(text.contains("`web2`: 1 task would be changed"), "{text}");
    rebuild(0, &["repair", "1", "--target", "drill"]);
    assert_eq!(
        std::fs::read_to_string(place.join("web2.noted")).unwrap(),
        "noted"
    );

    rebuild(0, &["down", "--target", "drill"]);
    assert!(!place.join("web1.noted").exists() && !place.join("web2.noted").exists());
    assert_eq!(farm.known_hosts(), "", "forgotten with the machines");
    let record = farm.drill.record();
    for name in ["1.machines", "1.reach", "1.configure"] {
        assert_eq!(step(&record, name)["status"], "torn-down");
    }
}

/// Case H3 and H8: machines with addresses of their own, one behind another, on port 22 (their keys in the plain form);
/// the address that answers is handed to Ansible, which takes the same way. Where this machine can make no networks they are
/// servers on ports of one address, which proves all of it but the plain form.
#[test]
fn machines_of_networks_of_their_own_are_reached_by_the_way_that_leads_there() {
    let lab = SshLab::new();
    let networks = Networks::new();
    let mut servers = Vec::new();
    let has_networks = networks.is_some();
    let mut networks = networks;
    let mut door_namespace = None;
    for name in ["door", "web1", "inner"] {
        let mut server = match &mut networks {
            Some(networks) => {
                let behind = (name == "inner").then(|| door_namespace.clone()).flatten();
                let (namespace, address) = networks.add(behind.as_deref());
                door_namespace.get_or_insert(namespace.clone());
                lab.server_in(name, &namespace, address)
            }
            None => lab.server(name, "127.0.0.1"),
        };
        server.program("cloud-init", "echo status: done");
        server.start();
        servers.push((name.to_owned(), server));
    }
    let farm = Farm::with(lab, servers);
    let mut hosts = serde_json::Map::new();
    for (name, server) in &farm.servers {
        let mut host = farm.host(server);
        if name == "inner" {
            host.insert("jump_host".to_owned(), "door".into());
        }
        if name == "web1" {
            // Documentation's own network, where nobody answers.
            let address = host.remove("address");
            host.insert("addresses".to_owned(), json!(["2001:db8::1", address]));
        }
        hosts.insert(name.clone(), host.into());
    }
    farm.machines_as(&hosts);
    farm.steps("", ", verify = false");
    farm.playbook("- hosts: tf\n  gather_facts: false\n  tasks:\n    - ansible.builtin.shell: echo $SSH_CONNECTION {{ ansible_host }} > {{ place }}/{{ inventory_hostname }}\n");
    farm.drill.up();
    for (name, server) in &farm.servers {
        let text = std::fs::read_to_string(farm.place().join(name)).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let [_, _, to, port, told] = words[..] else {
            panic!("{text}")
        };
        let address = server.address.to_string();
        assert_eq!(
            (to, told, port),
            (
                address.as_str(),
                address.as_str(),
                server.port.to_string().as_str()
            )
        );
        if has_networks {
            assert!(
                farm.known_hosts()
                    .lines()
                    .any(|line| line.starts_with(&format!("{address} ssh-ed25519 "))),
                "{}",
                farm.known_hosts()
            );
        }
    }
    farm.drill.run(0, &["down", "--target", "drill"]);
    let known = farm.known_hosts();
    assert!(
        !known.contains(&farm.servers[0].1.address.to_string()),
        "{known}"
    );
}

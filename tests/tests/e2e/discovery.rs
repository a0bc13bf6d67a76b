//! `discover`: a scan of this machine's own loopback, and what it finds added to a group.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::drill::Drill;
use crate::published::conforms;
use crate::stage::executable;

/// Addresses of loopback that no other process listens on, with listeners on two of them.
struct Lan {
    network: String,
    waits: Ipv4Addr,
    configured: Ipv4Addr,
    _listeners: Vec<TcpListener>,
}

impl Lan {
    /// Other tests may scan at the same time: a free network is looked for, by this process's number first.
    fn new() -> Self {
        let first = std::process::id();
        for n in 0..200 {
            let [_, a, b, c] = (first.wrapping_mul(8).wrapping_add(n * 8)).to_be_bytes();
            let at = |host: u8| Ipv4Addr::new(127, a | 1, b, (c & 0xf8) + host);
            let bound: Result<Vec<TcpListener>, _> = [2, 5]
                .into_iter()
                .map(|host| TcpListener::bind(SocketAddr::from((at(host), 50_000))))
                .collect();
            if let Ok(listeners) = bound {
                return Self {
                    network: format!("{}/29", at(0)),
                    waits: at(2),
                    configured: at(5),
                    _listeners: listeners,
                };
            }
        }
        panic!("no network of loopback is free");
    }
}

fn drill(lan: &Lan) -> Drill {
    let drill = Drill::empty();
    let dir = drill.world.root().join("cluster");
    std::fs::create_dir_all(dir.join(lan.waits.to_string())).unwrap();
    std::fs::write(dir.join(lan.waits.to_string()).join("maintenance"), "").unwrap();
    std::fs::create_dir_all(dir.join(lan.configured.to_string())).unwrap();
    let program = drill.world.bin().join("talosctl");
    std::fs::write(
        &program,
        format!(
            "#!/bin/sh\nexec {} {} \"$@\"\n",
            env!("CARGO_BIN_EXE_fake_talosctl"),
            dir.display()
        ),
    )
    .unwrap();
    executable(&program);
    drill
}

#[test]
fn machines_that_wait_are_found_told_and_added() {
    let lan = Lan::new();
    let drill = drill(&lan);
    let report = drill.json(0, &["discover", &lan.network]);
    conforms("discover", &report);
    assert_eq!(report["n_addresses"], 6);
    let machines = report["machines"].as_array().unwrap();
    assert_eq!(machines.len(), 2, "{report}");
    assert_eq!(machines[0]["address"], lan.waits.to_string());
    assert_eq!(machines[0]["waits"], true);
    assert_eq!(machines[0]["version"], "v1.11.2");
    assert_eq!(machines[0]["disks"], serde_json::json!(["/dev/sda"]));
    assert_eq!(machines[1]["waits"], false);
    assert!(
        machines[1]["note"]
            .as_str()
            .unwrap()
            .contains("certificate required")
    );

    // Nobody is there to confirm anything: nothing is written.
    let file = "nodes/garage.toml";
    let write = [
        "discover",
        &lan.network,
        "--write",
        file,
        "--group",
        "garage",
    ];
    let said = drill.run(5, &write).stderr;
    assert!(said.contains(&format!("--accept {}", lan.waits)), "{said}");
    assert!(!drill.dir().join(file).exists());
    // One that does not wait is not added.
    let other = lan.configured.to_string();
    drill.run(1, &[&write[..], &["--accept", &other]].concat());
    let address = lan.waits.to_string();
    let accepted = [&write[..], &["--accept", &address]].concat();
    let said = drill.run(0, &accepted).stdout;
    assert!(said.contains(&format!("added {address}")), "{said}");
    let text = std::fs::read_to_string(drill.dir().join(file)).unwrap();
    assert!(
        text.contains(&address) && text.contains("/dev/sda") && text.contains("enp1s0"),
        "{text}"
    );
    // A second time it is there already.
    drill.run(0, &accepted);
    assert_eq!(
        std::fs::read_to_string(drill.dir().join(file)).unwrap(),
        text
    );
}

#[test]
fn a_person_is_asked_for_each_machine() {
    let lan = Lan::new();
    let drill = drill(&lan);
    let write = [
        "discover",
        &lan.network,
        "--write",
        "g.json",
        "--group",
        "g",
    ];
    let mut terminal = drill.rebuild(&write).in_terminal();
    terminal.expect("type yes to do it");
    terminal.send("no\r");
    terminal.wait().expect_code(0);
    assert!(!drill.dir().join("g.json").exists());
    let mut terminal = drill.rebuild(&write).in_terminal();
    terminal.expect("type yes to do it");
    terminal.send("yes\r");
    terminal.wait().expect_code(0);
    assert!(drill.dir().join("g.json").exists());
}

#[test]
fn too_much_is_refused_and_a_missing_talosctl_is_said() {
    let lan = Lan::new();
    let drill = drill(&lan);
    let said = drill.run(2, &["discover", "10.0.0.0/8"]).stderr;
    assert!(
        said.contains("too many") && said.contains("nothing was scanned"),
        "{said}"
    );
    drill.run(2, &["discover", "lan"]);
    std::fs::remove_file(drill.world.bin().join("talosctl")).unwrap();
    let said = drill.run(0, &["discover", &lan.network]).stdout;
    assert!(said.contains("`talosctl` is not installed"), "{said}");
}

/// A file with comments, as people keep them: it gains one line.
#[test]
fn a_file_of_yaml_gains_a_line_and_keeps_the_others() {
    let lan = Lan::new();
    let drill = drill(&lan);
    let before = "# The garage: ask Ada first.\nkind: NodeGroup\nmetadata: { name: garage }\nspec:\n  role: worker   # never a control plane\n  class: metal\n  config:\n    machines:\n      192.168.1.9:\n        installDisk: /dev/sdb   # the small one\n    # schematicId: not yet\n---\nkind: Bucket\nmetadata: { name: logs }\nspec: { class: openstack }\n";
    drill.write("nodes/garage.yaml", before);
    let address = lan.waits.to_string();
    drill.run(
        0,
        &[
            "discover",
            &lan.network,
            "--write",
            "nodes/garage.yaml",
            "--group",
            "garage",
            "--accept",
            &address,
        ],
    );
    let after = std::fs::read_to_string(drill.dir().join("nodes/garage.yaml")).unwrap();
    let line = format!(
        "      \"{address}\": {{ \"installDisk\": \"/dev/sda\", \"networkInterface\": \"enp1s0\" }}\n"
    );
    assert_eq!(after.replace(&line, ""), before);
    assert!(
        after.contains(&format!("# the small one\n{line}")),
        "{after}"
    );
}

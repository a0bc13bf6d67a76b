//! What is rendered for OpenStack, taken by its real provider and the real OpenTofu, offline.
//!
//! `tofu validate` misses wrong indexes, so each module is planned and applied too, against mocks that follow the
//! real schema. `REBUILD_TEST_TOFU` and `REBUILD_TEST_MIRROR` name the tools; `cargo xtask tools` gets them.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use provider::render::render;
use provider::spec::Specs;
use test_support::World;

#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
fn tool(variable: &str) -> std::path::PathBuf {
    let found = std::env::var_os(variable);
    found
        .unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask tools`"))
        .into()
}

/// What a machine's `user_data` is rendered as, in a cluster `c`.
const USER_DATA: &str = "data.talos_machine_configuration.c_worker.machine_configuration";

/// Takes what is rendered for Talos, whose real provider can't be had, out of a module: a variable stands in for the
/// configuration of its machines.
fn without_talos(files: &mut std::collections::BTreeMap<String, Vec<u8>>) {
    files.remove("talos.tf.json");
    let nodes = String::from_utf8(files["openstack.tf.json"].clone()).unwrap();
    assert!(nodes.contains(USER_DATA), "{nodes}");
    let nodes = nodes.replace(USER_DATA, "var.user_data");
    files.insert("openstack.tf.json".to_owned(), nodes.into_bytes());
    let mut main: serde_json::Value = serde_json::from_slice(&files["main.tf.json"]).unwrap();
    main["terraform"]["required_providers"]
        .as_object_mut()
        .unwrap()
        .remove("talos");
    main["output"]
        .as_object_mut()
        .unwrap()
        .retain(|name, _| name == "hosts");
    let secret =
        serde_json::json!({ "type": "string", "default": "#cloud-config ${x}", "sensitive": true });
    main["variable"]["user_data"] = secret;
    files.insert("main.tf.json".to_owned(), main.to_string().into_bytes());
}

/// Renders specs, then validates, plans and applies them; there must be so many hosts.
fn holds(specs: &str, n_hosts: usize) {
    let read = Specs::read([("specs.yaml", specs)]);
    let read = read.unwrap_or_else(|faults| panic!("{faults:?}\n{specs}"));
    let rendered = render(&read, &BTreeSet::new());
    let mut rendered = rendered.unwrap_or_else(|faults| panic!("{faults:?}\n{specs}"));
    if rendered.files.contains_key("talos.tf.json") {
        without_talos(&mut rendered.files);
        rendered.providers.remove(&provider::ProviderName::Talos);
    }
    let world = World::new();
    let write = |name: &str, text: &str| {
        let path = world.work().join(name);
        world.write(path.to_str().unwrap(), text);
    };
    for (name, bytes) in &rendered.files {
        write(name, std::str::from_utf8(bytes).unwrap());
    }
    let asserts = format!(
        "  assert {{\n    condition     = length(output.hosts) == {n_hosts}\n    error_message = \"other hosts\"\n  }}\n  assert {{\n    condition     = alltrue([for host in values(output.hosts) : host.ansible_host != \"\"])\n    error_message = \"a host without an address\"\n  }}\n"
    );
    let (name, mocked) = rendered
        .mocked_test(&asserts)
        .expect("it is of OpenStack's alone");
    write(&name, &mocked);
    for args in [
        &["init", "-no-color"][..],
        &["validate", "-no-color"],
        &["test", "-no-color"],
    ] {
        let outcome = world
            .command(tool("REBUILD_TEST_TOFU"))
            .args(args.iter().copied())
            .env("TF_CLI_CONFIG_FILE", tool("REBUILD_TEST_MIRROR"))
            .env("CHECKPOINT_DISABLE", "1")
            .cwd(world.work())
            .run();
        assert_eq!(outcome.code(), Some(0), "{args:?}\n{specs}\n{outcome:?}");
    }
}

fn network(name: &str, more: &str) -> String {
    format!(
        "kind: Network\nmetadata: {{ name: {name} }}\nspec: {{ class: openstack, cidr: 10.0.0.0/16{more} }}\n---\n"
    )
}

fn nodes(name: &str, count: u64, config: &str) -> String {
    format!(
        "kind: NodeGroup\nmetadata: {{ name: {name}, labels: {{ team: \"${{x}} %{{y}}\" }} }}\nspec: {{ role: worker, count: {count}, class: 'openstack:m1', config: {{ {config} }} }}\n---\n"
    )
}

#[test]
fn every_number_of_machines_is_taken() {
    for count in [0, 1, 3, 100] {
        let nodes = nodes("a", count, "imageName: i, network: standing");
        holds(&nodes, usize::try_from(count).unwrap());
    }
}

#[test]
fn every_optional_field_set_is_taken_and_so_is_none() {
    let public = ", public: true, config: { extNetName: outer }, subnets: [{ name: a, cidr: 10.0.1.0/24 }, { name: b, cidr: 10.0.2.0/24 }], ingress: [{ protocol: tcp, from: 0.0.0.0/0, ports: 6443 }, { protocol: udp, from: '::/0', ports: 1-9 }, { protocol: icmp, from: '::/0' }, { protocol: icmp, from: 0.0.0.0/0 }, { protocol: all, from: 10.9.0.0/16 }]";
    let full = "imageId: i, network: inner, extNetName: outer, floatingIp: true, bootVolumeGb: 80, bootVolumeType: ssd, dataVolumeGb: 9, flavorName: m2";
    holds(&(network("inner", public) + &nodes("full", 2, full)), 2);
    holds(
        &(network("inner", "") + &nodes("bare", 2, "imageId: i, network: inner")),
        2,
    );
}

#[test]
fn buckets_and_networks_alone_are_taken() {
    let bucket = |name: &str, versioning: bool| {
        format!(
            "kind: Bucket\nmetadata: {{ name: {name} }}\nspec: {{ class: openstack, versioning: {versioning} }}\n---\n"
        )
    };
    holds(
        &(bucket("a", true) + &bucket("1b", false) + &network("n", "")),
        0,
    );
}

#[test]
fn user_data_of_a_cluster_is_taken() {
    let cluster = "kind: Cluster\nmetadata: { name: c }\nspec: { talosVersion: v1.11.2, endpoint: 'https://c.example.org:6443' }\n---\n";
    let nodes = nodes("workers", 3, "imageName: i, network: standing");
    holds(&format!("{cluster}{nodes}"), 3);
}

/// Any platform of OpenStack's, and how many machines it has.
fn platform() -> impl Strategy<Value = (String, usize)> {
    let group = (
        0_u64..4,
        any::<[bool; 6]>(),
        prop::sample::select(vec!["standing", "inner", "open"]),
    );
    prop::collection::vec(group, 0..4).prop_map(|groups| {
        let outer = ", public: true, config: { extNetName: outer }, ingress: [{ protocol: tcp, from: 0.0.0.0/0, ports: 22 }]";
        let mut text = network("inner", "") + &network("open", outer);
        let mut n_hosts = 0;
        for (index, (count, set, on)) in groups.into_iter().enumerate() {
            let mut config = format!("network: {on}");
            let [by_name, floating, boot, kind, data, flavor] = set;
            config += if by_name { ", imageName: i" } else { ", imageId: i" };
            if floating && on != "inner" {
                config += ", floatingIp: true, extNetName: outer";
            }
            for (is_set, field) in [
                (boot, ", bootVolumeGb: 20"),
                (kind, ", bootVolumeType: ssd"),
                (data, ", dataVolumeGb: 5"),
                (flavor, ", flavorName: m3"),
            ] {
                if is_set {
                    config += field;
                }
            }
            text += &nodes(&format!("group-{index}"), count, &config);
            n_hosts += usize::try_from(count).unwrap();
        }
        (text, n_hosts)
    })
}

#[test]
fn thirty_two_random_platforms_are_taken() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..32 {
        let (text, n_hosts) = platform().new_tree(&mut runner).unwrap().current();
        holds(&text, n_hosts);
    }
}

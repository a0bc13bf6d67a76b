//! What an output may say of its hosts, and how it is told what it may not.

use serde_json::{Value, json};

use super::*;
use crate::Workspace;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

fn parse(value: Value) -> Result<Vec<Host>, HostsError> {
    Workspace::parse("prod".parse().unwrap(), &value).map(|workspace| workspace.hosts)
}

/// The faults of one host `web1` with these keys.
fn faults(keys: Value) -> Vec<String> {
    match parse(json!({ "web1": keys })) {
        Ok(hosts) => panic!("no fault: {hosts:?}"),
        Err(error) => error.faults.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn everything_that_is_known_of_a_host_is_read() {
    let hosts = parse(json!({
        "web1": {
            "addresses": ["192.0.2.1", "2001:db8::1", "web1.example.org"],
            "port": 2222,
            "user": "admin",
            "host_key": [format!("{KEY} root@web1")],
            "machine_id": 4711,
            "jump_host": "bastion",
            "groups": ["web", "eu-1"],
            "ansible_become": true,
            "disks": [{ "size": 10 }],
            "note": null,
        },
        "bastion": { "ansible_host": "fe80::1%eth0", "ansible_port": "22", "groups": null, "jump_host": null },
    }))
    .unwrap();
    let [web, bastion] = hosts.as_slice() else {
        panic!("{hosts:?}")
    };
    let addresses: Vec<&str> = web.addresses.iter().map(Address::as_str).collect();
    assert_eq!(addresses, ["192.0.2.1", "2001:db8::1", "web1.example.org"]);
    assert_eq!(
        (web.port, web.user.as_deref(), web.machine_id.as_deref()),
        (2222, Some("admin"), Some("4711"))
    );
    assert_eq!(web.host_keys, [KEY.parse().unwrap()]);
    assert_eq!(web.jump, Some(Jump::Host("bastion".parse().unwrap())));
    assert!(web.groups.iter().eq(["eu-1", "web"]));
    assert_eq!(web.variables["disks"], json!([{ "size": 10 }]));
    assert_eq!(web.variables["note"], Value::Null);
    assert!(!web.variables.contains_key("groups"));
    assert_eq!(
        (bastion.port, &bastion.jump, bastion.groups.len()),
        (22, &None, 0)
    );
}

/// Case A6: an output that names no hosts is an error, never an empty play.
#[test]
fn an_output_of_another_shape_is_told_as_such() {
    for wrong in [
        json!({}),
        json!([]),
        json!(null),
        json!("web1"),
        json!({ "web1": "192.0.2.1" }),
    ] {
        let error = parse(wrong.clone()).unwrap_err();
        assert!(
            error.to_string().contains("`hosts` of `prod`"),
            "{wrong}: {error}"
        );
        assert_eq!(error.faults.len(), 1, "{wrong}");
    }
}

#[test]
fn each_fault_names_its_key_and_all_are_told_at_once() {
    let told = faults(json!({
        "address": "192.0.2.300",
        "port": 0,
        "ansible_port": 22,
        "user": "a b",
        "host_key": "ssh-ed25519 AAAA",
        "machine_id": {},
        "jump_host": "nowhere",
        "groups": ["tf", "prod", "all", "a:b", "web1"],
        "inventory_hostname": "x",
        "deep": { "a": [{ "__ansible_vault": "x" }] },
    }));
    let keys: Vec<&str> = told
        .iter()
        .map(|fault| fault.split('`').nth(1).unwrap())
        .collect();
    assert_eq!(
        keys,
        [
            "hosts.web1.address",
            "hosts.web1.port",
            "hosts.web1.user",
            "hosts.web1.host_key",
            "hosts.web1.machine_id",
            "hosts.web1.groups",
            "hosts.web1.groups",
            "hosts.web1.groups",
            "hosts.web1.groups",
            "hosts.web1.inventory_hostname",
            "hosts.web1.deep",
            "hosts.web1.groups",
            "hosts.web1.jump_host",
        ]
    );
}

#[test]
fn two_keys_that_disagree_are_a_fault() {
    let told = faults(
        json!({ "address": "192.0.2.1", "port": 22, "ansible_port": 2222, "user": "a", "ansible_user": "b" }),
    );
    assert_eq!(
        told,
        [
            "`hosts.web1.ansible_port`: says 2222 where `port` says 22",
            "`hosts.web1.ansible_user`: says `b` where `user` says `a`",
        ]
    );
}

#[test]
fn a_host_without_an_address_is_a_fault() {
    assert!(faults(json!({}))[0].starts_with("`hosts.web1`: has none of"));
    assert!(faults(json!({ "address": null }))[0].starts_with("`hosts.web1`: has none of"));
    assert!(faults(json!({ "addresses": [] }))[0].starts_with("`hosts.web1.addresses`: "));
    assert!(faults(json!({ "address": "[::1]:22" }))[0].contains("without brackets"));
    assert!(faults(json!({ "address": "192.0.2.1/24" }))[0].contains("without a prefix length"));
    assert!(faults(json!({ "address": "-oProxyCommand=x" }))[0].contains("neither"));
}

#[test]
fn names_that_mean_something_to_ansible_are_refused() {
    for name in [
        "tf", "prod", "all", "web[1:3]", "web1:22", "a,b", "!x", "-x", "", "é", "~x", "a*",
    ] {
        assert!(
            parse(json!({ name: { "address": "192.0.2.1" } })).is_err(),
            "{name}"
        );
    }
    for name in ["web1", "007", "web1.example.org", "a_b-c"] {
        assert!(
            parse(json!({ name: { "address": "192.0.2.1" } })).is_ok(),
            "{name}"
        );
    }
}

#[test]
fn a_jump_host_is_a_host_or_a_machine_elsewhere() {
    let jump_of = |text: &str| {
        let hosts = json!({ "web1": { "address": "192.0.2.1", "jump_host": text }, "b": { "address": "192.0.2.2" } });
        parse(hosts).map(|hosts| hosts[0].jump.clone().unwrap())
    };
    let elsewhere = |user: Option<&str>, address: &str, port| Jump::Elsewhere {
        user: user.map(str::to_owned),
        address: address.parse().unwrap(),
        port,
    };
    assert_eq!(jump_of("b").unwrap(), Jump::Host("b".parse().unwrap()));
    assert_eq!(
        jump_of("192.0.2.9").unwrap(),
        elsewhere(None, "192.0.2.9", 22)
    );
    assert_eq!(
        jump_of("b.example.org").unwrap(),
        elsewhere(None, "b.example.org", 22)
    );
    assert_eq!(
        jump_of("ops@b:2222").unwrap(),
        elsewhere(Some("ops"), "b", 2222)
    );
    assert_eq!(
        jump_of("ops@[2001:db8::1]:22").unwrap(),
        elsewhere(Some("ops"), "2001:db8::1", 22)
    );
    assert_eq!(
        jump_of("2001:db8::1").unwrap(),
        elsewhere(None, "2001:db8::1", 22)
    );
    for wrong in [
        "-oProxyCommand=x",
        "a b@c",
        "ops@",
        "b:0",
        "b:x",
        "[::1",
        "@b.example.org",
    ] {
        assert!(jump_of(wrong).is_err(), "{wrong}");
    }
    assert!(faults(json!({ "address": "192.0.2.1", "jump_host": "web1" }))[0].contains("circle"));
}

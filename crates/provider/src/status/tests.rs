//! States as `tofu state pull` prints them, and conditions over time.

use serde_json::{Value as Json, json};

use super::*;
use crate::ProviderName;

fn resource(mode: &str, kind: &str, name: &str, instances: Json) -> Json {
    json!({ "mode": mode, "type": kind, "name": name, "provider": "provider[\"a/b/c\"]", "instances": instances })
}

fn state(resources: &[Json]) -> Vec<u8> {
    json!({ "version": 4, "serial": 7, "lineage": "l", "outputs": {}, "later": true, "resources": resources })
        .to_string()
        .into_bytes()
}

#[test]
fn machines_are_found_with_their_addresses_and_the_rest_is_kept() {
    let state = state(&[
        resource(
            "managed",
            "thing_of_tomorrow",
            "x",
            json!([{ "attributes": { "id": "t", "n": [] } }, { "attributes": null }]),
        ),
        resource(
            "data",
            "oci_core_instance",
            "seen",
            json!([{ "attributes": { "id": "no" } }]),
        ),
        resource(
            "managed",
            "oci_core_instance",
            "control",
            json!([
                { "index_key": 0, "attributes": { "id": "o0", "public_ip": "1.1.1.1", "private_ip": "10.0.0.1", "shape": "S" } },
                { "index_key": 1, "attributes": { "id": "o1", "public_ip": "", "private_ip": "10.0.0.2", "shape": "S" } },
                { "index_key": 1, "deposed": "abc", "attributes": { "id": "old" } },
            ]),
        ),
        resource(
            "managed",
            "openstack_compute_instance_v2",
            "workers",
            json!([
                { "index_key": 0, "attributes": { "id": "w0", "flavor_name": "m", "access_ip_v4": "10.1.0.1", "network": [{ "port": "p0" }] } },
                { "index_key": 1, "attributes": { "id": "w1", "flavor_name": "m", "access_ip_v4": "10.1.0.2", "network": [{ "port": "p1" }] } },
                { "index_key": 2, "attributes": { "id": "w2", "access_ip_v6": "fd00::1", "network": [{ "port": "" }] } },
                { "index_key": 3, "attributes": { "id": "w3", "access_ip_v4": "", "network": [{ "fixed_ip_v4": "10.1.0.9" }] } },
            ]),
        ),
        resource(
            "managed",
            "openstack_networking_floatingip_v2",
            "workers",
            json!([
                { "index_key": 0, "attributes": { "id": "f", "port_id": "p1", "address": "9.9.9.9" } },
                { "index_key": 1, "attributes": { "id": "g", "port_id": "", "address": "8.8.8.8" } },
            ]),
        ),
        resource(
            "managed",
            "talos_machine_configuration_apply",
            "garage",
            json!([
                { "index_key": "192.168.1.10", "attributes": { "id": "machine_configuration_apply", "node": "192.168.1.10" } },
            ]),
        ),
    ]);
    let observed = Observed::read(&state).expect("it is a state");
    assert_eq!((observed.serial, observed.lineage.as_str()), (7, "l"));
    let machines: Vec<_> = observed
        .machines
        .iter()
        .map(|machine| {
            (
                machine.resource.as_str(),
                machine.provider,
                machine.provider_id.as_str(),
                machine.address.as_deref().unwrap_or("-"),
                machine.shape.as_deref().unwrap_or("-"),
            )
        })
        .collect();
    use ProviderName::{Oci, Openstack, Talos};
    assert_eq!(
        machines,
        [
            ("oci_core_instance.control[0]", Oci, "o0", "1.1.1.1", "S"),
            ("oci_core_instance.control[1]", Oci, "o1", "10.0.0.2", "S"),
            (
                "openstack_compute_instance_v2.workers[0]",
                Openstack,
                "w0",
                "10.1.0.1",
                "m"
            ),
            (
                "openstack_compute_instance_v2.workers[1]",
                Openstack,
                "w1",
                "9.9.9.9",
                "m"
            ),
            (
                "openstack_compute_instance_v2.workers[2]",
                Openstack,
                "w2",
                "fd00::1",
                "-"
            ),
            (
                "openstack_compute_instance_v2.workers[3]",
                Openstack,
                "w3",
                "10.1.0.9",
                "-"
            ),
            (
                "talos_machine_configuration_apply.garage[\"192.168.1.10\"]",
                Talos,
                "machine_configuration_apply",
                "192.168.1.10",
                "-"
            ),
        ]
    );
    assert_eq!(observed.others.len(), 4);
}

#[test]
fn what_opens_a_cluster_is_found_by_type_and_name_and_its_key_is_not_shown() {
    let of = |key: &str| json!([{ "attributes": { "client_configuration": { "ca_certificate": "Y2E=", "client_certificate": "Y2VydA==", "client_key": key } } }]);
    let state = state(&[
        resource("data", "talos_machine_secrets", "prod", of("wrong")),
        resource("managed", "talos_machine_secrets", "other", of("another")),
        resource("managed", "talos_machine_secrets", "prod", of("right")),
    ]);
    let found = ClientConfiguration::find(&state, "prod")
        .expect("it is a state")
        .expect("it is there");
    assert_eq!(found.client_key, "right");
    assert!(!format!("{found:?}").contains("right"));
    assert_eq!(
        ClientConfiguration::find(&state, "none").expect("it is a state"),
        None
    );
}

#[test]
fn what_is_no_plain_state_is_refused() {
    assert!(matches!(Observed::read(b"{"), Err(ReadStateError::Json(_))));
    let encrypted = br#"{"serial":1,"lineage":"l","meta":{},"encrypted_data":"x"}"#;
    assert!(matches!(
        Observed::read(encrypted),
        Err(ReadStateError::Encrypted)
    ));
    assert!(matches!(
        Observed::read(b"{}"),
        Err(ReadStateError::Lacks { what: "serial" })
    ));
}

#[test]
fn a_condition_keeps_its_time_while_it_says_the_same() {
    let ready = |status: Truth, time: &str, generation: u64| Condition {
        kind: ConditionKind::Ready,
        status,
        reason: "Because".to_owned(),
        message: format!("at {time}"),
        last_transition_time: time.to_owned(),
        observed_generation: generation,
    };
    let mut conditions = Conditions::default();
    conditions.set(ready(Truth::False, "1", 1));
    conditions.set(ready(Truth::False, "2", 2));
    let of = |conditions: &Conditions| {
        conditions
            .get(ConditionKind::Ready)
            .cloned()
            .expect("it is set")
    };
    assert_eq!(of(&conditions).last_transition_time, "1");
    assert_eq!(
        (
            of(&conditions).message.as_str(),
            of(&conditions).observed_generation
        ),
        ("at 2", 2)
    );
    conditions.set(ready(Truth::True, "3", 2));
    assert_eq!(of(&conditions).last_transition_time, "3");
    // A late answer about what was declared before changes nothing.
    conditions.set(ready(Truth::False, "4", 1));
    assert_eq!(of(&conditions).status, Truth::True);
    assert_eq!(conditions.iter().count(), 1);
}

//! Each kind of fault is found, at its place, with the nearest right name.

use serde_json::{Value as Json, json};

use super::*;

fn instance(body: Json) -> Json {
    let mut all = json!({
        "availability_domain": "a", "compartment_id": "c", "shape": "s",
    });
    if let (Some(all), Json::Object(body)) = (all.as_object_mut(), body) {
        all.extend(body);
    }
    json!({ "resource": { "oci_core_instance": { "it": all } } })
}

/// Checks a document that has one fault, and returns its place, the fault and the nearest name.
fn the_fault(document: &Json) -> (String, Problem, Option<String>) {
    let faults = Schemas::shipped().check(document);
    assert_eq!(faults.len(), 1, "{faults:?}");
    let fault = faults.into_iter().next().expect("it is one");
    let path = fault
        .path
        .strip_prefix("resource.oci_core_instance.it")
        .unwrap_or(&fault.path);
    (path.to_owned(), fault.problem, fault.nearest)
}

#[test]
fn a_good_document_has_no_fault() {
    let document = instance(json!({
        "count": 2, "depends_on": ["a.b"], "lifecycle": { "ignore_changes": ["defined_tags", "source_details[0].source_id"] },
        "shape_config": [{ "ocpus": 2, "memory_in_gbs": "12" }],
        "freeform_tags": { "a": "${var.a}", "b": 1 },
        "preemptible_instance_config": { "preemption_action": { "type": "TERMINATE" } },
        "metadata": "${local.metadata}",
        "fault_domain": null,
    }));
    assert_eq!(Schemas::shipped().check(&document), []);
    let built_in = json!({ "resource": { "terraform_data": { "a": { "input": 1 } } } });
    assert_eq!(Schemas::shipped().check(&built_in), []);
}

#[test]
fn each_kind_of_fault_is_found_at_its_place() {
    let some = |name: &str| Some(name.to_owned());
    let unknown = Problem::UnknownArgument;
    for (body, path, problem, nearest) in [
        (
            json!({ "shap": 1 }),
            ".shap",
            unknown.clone(),
            some("shape"),
        ),
        (
            json!({ "shape_config": [{ "ocpu": 1 }] }),
            ".shape_config[0].ocpu",
            unknown.clone(),
            some("ocpus"),
        ),
        (
            json!({ "lifecycle": { "ignore_changes": ["define_tags"] } }),
            ".lifecycle.ignore_changes[0]",
            unknown,
            some("defined_tags"),
        ),
        (
            json!({ "compartment_id": null }),
            "",
            Problem::MissingRequired {
                name: "compartment_id".to_owned(),
            },
            None,
        ),
        (
            json!({ "source_details": {} }),
            ".source_details",
            Problem::MissingRequired {
                name: "source_type".to_owned(),
            },
            None,
        ),
        (
            json!({ "async": "maybe" }),
            ".async",
            Problem::WrongType {
                expected: "`true` or `false`".to_owned(),
                found: "a text",
            },
            None,
        ),
        (
            json!({ "shape_config": [{ "ocpus": "two" }] }),
            ".shape_config[0].ocpus",
            Problem::WrongType {
                expected: "a number".to_owned(),
                found: "a text",
            },
            None,
        ),
        (
            json!({ "freeform_tags": ["a"] }),
            ".freeform_tags",
            Problem::WrongType {
                expected: "an object".to_owned(),
                found: "a list",
            },
            None,
        ),
        (
            json!({ "shape": { "a": 1 } }),
            ".shape",
            Problem::WrongType {
                expected: "a text".to_owned(),
                found: "an object",
            },
            None,
        ),
        (
            json!({ "shape": [{ "a": 1 }] }),
            ".shape",
            Problem::ArgumentExpected,
            None,
        ),
        (
            json!({ "shape_config": "two" }),
            ".shape_config",
            Problem::BlockExpected,
            None,
        ),
        (
            json!({ "shape_config": ["two"] }),
            ".shape_config[0]",
            Problem::BlockExpected,
            None,
        ),
        (
            json!({ "shape_config": [{}, {}] }),
            ".shape_config",
            Problem::TooManyBlocks { n: 2, most: 1 },
            None,
        ),
        (
            json!({ "timeouts": [{}, {}] }),
            ".timeouts",
            Problem::TooManyBlocks { n: 2, most: 1 },
            None,
        ),
        (
            json!({ "preemptible_instance_config": {} }),
            ".preemptible_instance_config",
            Problem::TooFewBlocks {
                name: "preemption_action".to_owned(),
                least: 1,
            },
            None,
        ),
        (
            json!({ "preemptible_instance_config": { "preemption_action": [] } }),
            ".preemptible_instance_config.preemption_action",
            Problem::TooFewBlocks {
                name: "preemption_action".to_owned(),
                least: 1,
            },
            None,
        ),
        (
            json!({ "public_ip": "1.2.3.4" }),
            ".public_ip",
            Problem::ReadOnly,
            None,
        ),
        (
            json!({ "subnet_id": "s" }),
            ".subnet_id",
            Problem::Deprecated,
            None,
        ),
        (
            json!({ "dynamic": { "shape_confi": { "content": {} } } }),
            ".dynamic.shape_confi",
            Problem::UnknownArgument,
            some("shape_config"),
        ),
        (
            json!({ "dynamic": { "shape_config": { "content": { "ocpu": 1 } } } }),
            ".dynamic.shape_config.content.ocpu",
            Problem::UnknownArgument,
            some("ocpus"),
        ),
    ] {
        assert_eq!(
            the_fault(&instance(body.clone())),
            (path.to_owned(), problem, nearest),
            "{body}"
        );
    }
    let talos = |body: Json| json!({ "resource": { "talos_machine_bootstrap": { "it": body } } });
    let at = "resource.talos_machine_bootstrap.it.client_configuration".to_owned();
    assert_eq!(
        the_fault(&talos(
            json!({ "node": "n", "client_configuration": { "ca_certificate": "a", "client_certificate": "b", "client_keys": "${var.k}", "client_key": "${var.k}" } })
        )),
        (
            format!("{at}.client_keys"),
            Problem::UnknownArgument,
            some("client_key")
        )
    );
    assert_eq!(
        the_fault(&talos(
            json!({ "node": "n", "client_configuration": { "ca_certificate": "a", "client_certificate": "b", "client_key": "c" } })
        )),
        (format!("{at}.client_key"), Problem::SecretWrittenOut, None)
    );
    assert_eq!(
        the_fault(&talos(
            json!({ "node": "n", "timeouts": [{ "create": "1m" }] })
        )),
        (
            "resource.talos_machine_bootstrap.it.timeouts".to_owned(),
            Problem::WrongType {
                expected: "an object".to_owned(),
                found: "a list"
            },
            None
        )
    );
}

#[test]
fn what_the_pinned_version_has_not_is_said_to_be_of_another() {
    let token =
        json!({ "resource": { "gitlab_deploy_token": { "t": { "name": "n", "scopes": ["a"] } } } });
    assert_eq!(Schemas::shipped().check(&token), []);
    let pinned = Schemas::shipped().with_pin("gitlab", "19.1.0");
    let faults = pinned.check(&token);
    assert_eq!(faults.len(), 1);
    assert_eq!(
        faults[0].problem,
        Problem::NotInVersion {
            pinned: "19.1.0".to_owned(),
            known_in: "18.6.1".to_owned()
        }
    );
    // One argument of a kind that both versions have.
    let project =
        json!({ "resource": { "gitlab_project": { "p": { "name": "n", "mirror": true } } } });
    let faults = pinned.check(&project);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(matches!(faults[0].problem, Problem::NotInVersion { .. }));
    let newer = instance(json!({ "is_ai_enterprise_enabled": true }));
    assert_eq!(Schemas::shipped().check(&newer), []);
    let faults = Schemas::shipped().with_pin("oci", "7.19.0").check(&newer);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(
        faults[0].problem,
        Problem::NotInVersion {
            pinned: "7.19.0".to_owned(),
            known_in: "8.28.0".to_owned()
        }
    );
}

#[test]
fn unknown_kinds_and_providers_are_faults_and_provider_blocks_are_checked() {
    for (document, path, nearest) in [
        (
            json!({ "resource": { "oci_core_instances": { "a": {} } } }),
            "resource.oci_core_instances",
            Some("oci_core_instance"),
        ),
        (
            json!({ "data": { "oci_core_instance_": { "a": {} } } }),
            "data.oci_core_instance_",
            Some("oci_core_instance"),
        ),
        (
            json!({ "resource": { "ocy_core_instance": { "a": {} } } }),
            "resource.ocy_core_instance",
            Some("oci"),
        ),
        (
            json!({ "provider": { "oci": [{ "alias": "a" }, { "regio": "r" }] } }),
            "provider.oci[1].regio",
            Some("region"),
        ),
        (
            json!({ "check": { "c": { "data": { "talos_cluster_health": { "h": { "client_configuration": "${a.b}", "control_plane_nodes": [], "endpoint": [], "endpoints": [] } } } } } }),
            "check.c.data.talos_cluster_health.h.endpoint",
            Some("endpoints"),
        ),
    ] {
        let faults = Schemas::shipped().check(&document);
        assert_eq!(faults.len(), 1, "{document}: {faults:?}");
        assert_eq!(faults[0].path, path);
        assert_eq!(faults[0].nearest.as_deref(), nearest);
        assert!(faults[0].to_string().contains(path));
    }
}

#[test]
fn members_that_objects_leave_out_are_filled_in_as_null() {
    let schema = r#"{
        "provider": "a/thing", "version": "1.0.0", "source": "a test",
        "provider_config": { "attributes": {} }, "data_sources": {},
        "resources": { "thing_it": { "attributes": {
            "rules": { "optional": true, "type": ["list", ["object", { "from": "number", "to": "number", "note": "string" }]] }
        } } }
    }"#;
    let mut schemas = Schemas::default();
    schemas.add(
        "thing",
        Schema::parse(schema).expect("it is of the reduced form"),
    );
    let mut document = json!({ "resource": { "thing_it": { "a": { "rules": [{ "to": 1 }] } } } });
    let missing: Vec<String> = schemas
        .check(&document)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(missing.len(), 2, "{missing:?}");
    schemas.complete(&mut document);
    assert_eq!(schemas.check(&document), []);
    assert_eq!(
        document["resource"]["thing_it"]["a"]["rules"],
        json!([{ "from": null, "note": null, "to": 1 }])
    );
}

#[test]
fn what_ships_is_read_and_has_what_the_readme_of_it_says() {
    let schemas = Schemas::shipped();
    let pins: Vec<String> = schemas
        .names()
        .filter_map(|name| schemas.pinned(name))
        .map(|schema| format!("{} {}", schema.provider, schema.version))
        .collect();
    assert_eq!(
        pins,
        [
            "maxlaverse/bitwarden 0.18.0",
            "gitlabhq/gitlab 18.6.1",
            "oracle/oci 8.28.0",
            "terraform-provider-openstack/openstack 3.4.0",
            "siderolabs/talos 0.11.0",
        ]
    );
    for text in [
        "",
        "{}",
        r#"{"provider":"p","version":"1","source":"s","provider_config":{"attributes":{"a":{"type":"text"}}},"resources":{},"data_sources":{}}"#,
    ] {
        assert!(Schema::parse(text).is_err(), "{text}");
    }
}

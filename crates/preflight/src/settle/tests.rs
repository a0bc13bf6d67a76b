//! Drift right after an apply.

use serde_json::json;

use super::*;
use crate::facts::{AttributeDrift, DriftedObject, ErrorKind, PlanError, PlannedChange};

fn configuration() -> Value {
    json!({"root_module": {
        "resources": [
            {"address": "box.a", "mode": "managed", "expressions": {
                "size": {"references": ["var.size"]},
                "made": {},
                "fixed": {"constant_value": "x"},
                "nic": [{"name": {"constant_value": "eth0"}}, {"name": {"constant_value": "eth1"}}],
                "disk": {"kind": {"constant_value": "ssd"}},
            }},
            {"address": "box.bare", "mode": "managed"},
        ],
        "module_calls": {"m": {"module": {"resources": [
            {"address": "box.b", "expressions": {"size": {"constant_value": 1}}},
        ]}}},
    }})
}

fn drift(address: &str, action: &str, paths: &[&str]) -> PlanFacts {
    let attributes = paths.iter().map(|path| AttributeDrift {
        path: (*path).into(),
        was: Value::Null,
        is: json!(1),
    });
    PlanFacts {
        complete: true,
        drift: vec![DriftedObject {
            address: address.into(),
            action: action.into(),
            provider: "box".into(),
            attributes: attributes.collect(),
        }],
        ..PlanFacts::default()
    }
}

fn settled(address: &str, paths: &[&str]) -> Settle {
    settle(&drift(address, "update", paths), &configuration())
}

#[test]
fn an_attribute_that_nothing_sets_is_settled_once() {
    for (address, paths) in [
        ("box.a", &["mac"][..]),
        ("box.a", &["mac", "nic[0].address", "nic[1].address"]),
        ("box.a", &["nic[2].name"]),
        ("box.a[3]", &["attached"]),
        ("box.a", &["disk.serial"]),
        ("box.bare", &["anything.at[0].all"]),
        (r#"module.m["k"].box.b[0]"#, &["mac"]),
    ] {
        assert_eq!(
            settled(address, paths),
            Settle::ApplyOnce,
            "{address} {paths:?}"
        );
    }
}

#[test]
fn an_attribute_that_the_configuration_sets_is_not() {
    for (address, path) in [
        ("box.a", "size"),
        ("box.a", "size.below"),
        ("box.a", "made"),
        ("box.a", "fixed[0]"),
        ("box.a", "nic[1].name"),
        ("box.a", "nic"),
        ("box.a", "nic.name"),
        ("box.a", "disk.kind"),
        ("module.m[0].box.b", "size"),
    ] {
        let why = NotSettled::Set {
            address: address.into(),
            attribute: path.into(),
        };
        assert_eq!(
            settled(address, &["mac", path]),
            Settle::Fail(why),
            "{path}"
        );
    }
}

#[test]
fn no_drift_needs_no_settling() {
    let facts = PlanFacts {
        complete: true,
        ..PlanFacts::default()
    };
    assert_eq!(settle(&facts, &configuration()), Settle::NotNeeded);
}

#[test]
fn anything_else_fails() {
    let mut changes = drift("box.a", "update", &["mac"]);
    changes.changes = vec![PlannedChange {
        address: "box.a".into(),
        action: "update".into(),
        reason: String::new(),
    }];
    let mut errors = drift("box.a", "update", &["mac"]);
    errors.errors = vec![PlanError {
        kind: ErrorKind::Other,
        address: None,
        message: "no".into(),
    }];
    let address = || "box.a".to_owned();
    for (facts, why) in [
        (PlanFacts::default(), NotSettled::NoAnswer),
        (errors, NotSettled::NoAnswer),
        (
            changes,
            NotSettled::Change {
                address: address(),
                action: "update".into(),
            },
        ),
        (
            drift("box.a", "delete", &[]),
            NotSettled::Action {
                address: address(),
                action: "delete".into(),
            },
        ),
        (
            drift("box.a", "update", &[]),
            NotSettled::NoValues { address: address() },
        ),
        (
            drift("box.z", "update", &["mac"]),
            NotSettled::NoResource {
                address: "box.z".into(),
            },
        ),
        (
            drift("module.z.box.b", "update", &["mac"]),
            NotSettled::NoResource {
                address: "module.z.box.b".into(),
            },
        ),
    ] {
        assert_eq!(settle(&facts, &configuration()), Settle::Fail(why));
    }
    let facts = drift("box.a", "update", &["mac"]);
    assert!(matches!(
        settle(&facts, &json!({})),
        Settle::Fail(NotSettled::NoResource { .. })
    ));
}

#[test]
fn a_read_is_no_change() {
    let mut facts = drift("box.a", "update", &["mac"]);
    facts.changes = vec![PlannedChange {
        address: "data.box.x".into(),
        action: "read".into(),
        reason: "read_because_check_nested".into(),
    }];
    assert_eq!(settle(&facts, &configuration()), Settle::ApplyOnce);
}

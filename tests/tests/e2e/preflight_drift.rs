//! Preflight of what stands, against a cloud that was changed by hand.

use serde_json::{Value, json};

use crate::cloud::Cloud;

/// One phase `1` with one tofu step `a` in `one`.
pub(crate) const ONE: &str =
    "[[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"a\"\ntofu = \"one\"\n";

/// The findings of a phase, without `was` and `is`.
pub(crate) fn reasons(report: &Value, phase: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings(report, phase)
        .iter()
        .map(|found| {
            (
                text(&found["reason"]),
                text(&found["address"]),
                text(&found["attribute"]),
            )
        })
        .collect()
}

/// What preflight says of one phase.
pub(crate) fn phase<'r>(report: &'r Value, id: &str) -> &'r Value {
    report["phases"]
        .as_array()
        .expect("a report lists phases")
        .iter()
        .find(|phase| phase["id"] == id)
        .unwrap_or_else(|| panic!("phase `{id}` is not in {report:#}"))
}

/// The findings of one phase.
pub(crate) fn findings<'r>(report: &'r Value, id: &str) -> &'r Vec<Value> {
    phase(report, id)["findings"]
        .as_array()
        .expect("a phase lists findings")
}

#[test]
fn a_changed_attribute_that_the_cloud_computes_is_drift() {
    let (drill, cloud) = Cloud::drill(
        ONE,
        &[(
            "one",
            "resource \"test_object\" \"a\" {\n  name = \"a\"\n}\n",
        )],
    );
    drill.up();
    assert_eq!(cloud.calls(), ["create a"]);
    assert_eq!(
        drill.json(0, &["preflight", "--target", "drill"])["verdict"],
        "clean"
    );
    cloud.set("a", "address", "10.9.9.9");
    let report = drill.json(3, &["preflight", "--target", "drill"]);
    assert_eq!(report["verdict"], "stopped");
    assert_eq!(phase(&report, "1")["verdict"], "drifted");
    assert_eq!(
        findings(&report, "1")[0],
        json!({"step": "a", "address": "test_object.a", "attribute": "address", "was": "10.0.0.1", "is": "10.9.9.9", "reason": "changed-outside"})
    );
    assert_eq!(cloud.calls(), ["create a"], "preflight changes nothing");
    cloud.set("a", "address", "10.0.0.1");
    drill.run(0, &["down", "--target", "drill"]);
    assert!(!cloud.has("a"));
}

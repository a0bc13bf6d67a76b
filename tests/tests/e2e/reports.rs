//! Preflight's reports, as a script reads them: each one is held against the published schema.

use serde_json::Value;

use crate::drill::Drill;
use crate::published;

/// Runs `preflight --output json`, demands its exit code and gives its report.
pub(crate) fn preflight(drill: &Drill, code: i32) -> Value {
    valid(drill.json(code, &["preflight", "--target", "drill"]))
}

/// Gives a report back that is what its published schema says.
pub(crate) fn valid(report: Value) -> Value {
    published::conforms("preflight", &report);
    report
}

/// What a report says of one phase.
pub(crate) fn phase<'r>(report: &'r Value, id: &str) -> &'r Value {
    report["phases"]
        .as_array()
        .expect("a report lists phases")
        .iter()
        .find(|phase| phase["id"] == id)
        .unwrap_or_else(|| panic!("phase `{id}` is not in {report:#}"))
}

/// The verdict of one phase.
pub(crate) fn verdict<'r>(report: &'r Value, id: &str) -> &'r str {
    phase(report, id)["verdict"].as_str().expect("a word")
}

/// The findings of one phase.
pub(crate) fn findings<'r>(report: &'r Value, id: &str) -> &'r Vec<Value> {
    phase(report, id)["findings"]
        .as_array()
        .expect("a phase lists findings")
}

/// Reason, address and attribute of each finding of a phase.
pub(crate) fn reasons(report: &Value, id: &str) -> Vec<String> {
    findings(report, id)
        .iter()
        .map(|found| {
            ["reason", "address", "attribute"]
                .iter()
                .filter_map(|part| found[part].as_str())
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

/// Every note of a report, those of its phases included, one a line.
pub(crate) fn notes(report: &Value) -> String {
    let of = |notes: &Value| -> Vec<String> {
        notes
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|note| Some(note["text"].as_str()?.to_owned()))
            .collect()
    };
    let mut all = of(&report["notes"]);
    for phase in report["phases"].as_array().into_iter().flatten() {
        all.extend(of(&phase["notes"]));
    }
    all.join("\n")
}

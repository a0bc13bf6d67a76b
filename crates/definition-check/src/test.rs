//! What a module's own tests came to, and what they left behind.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tofu::TestReport;

use crate::module::finding;
use crate::report::{Finding, LeftBehind, Tests};

/// The state that OpenTofu writes beside the module when a test could not destroy what it made.
const LEFT_STATE: &str = "errored_test.tfstate";

/// Turns OpenTofu's report into ours. `directory` is where the tests ran.
pub(crate) fn outcome(module: &str, directory: &Path, report: TestReport) -> Tests {
    let ids = fs::read(directory.join(LEFT_STATE))
        .map(|state| ids(&state))
        .unwrap_or_default();
    let is_only = |address: &String| {
        report
            .left_behind
            .iter()
            .filter(|other| *other == address)
            .count()
            == 1
    };
    let left_behind: Vec<LeftBehind> = report
        .left_behind
        .iter()
        .map(|address| LeftBehind {
            address: address.clone(),
            // Of two objects at one address only one is in the file.
            id: ids
                .iter()
                .find(|(known, _)| known == address && is_only(address))
                .map(|(_, id)| id.clone()),
        })
        .collect();
    let mut findings: Vec<Finding> = report
        .errors
        .iter()
        .map(|diagnostic| finding(module, diagnostic))
        .collect();
    let is_silent = report.failed.is_empty() && left_behind.is_empty() && findings.is_empty();
    if !report.is_good() && is_silent {
        let end = report
            .exit
            .map_or_else(|| "no exit code".to_owned(), |exit| exit.to_string());
        findings.push(Finding::error(
            format!("`tofu test` ended with {end} and said nothing"),
            "",
        ));
    }
    Tests::Ran {
        passed: report.passed,
        failed: report.failed,
        left_behind,
        findings,
    }
}

/// Addresses and ids of the managed objects in a state; sensitive ids are left out.
fn ids(state: &[u8]) -> Vec<(String, String)> {
    let state: Value = serde_json::from_slice(state).unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for resource in state["resources"].as_array().into_iter().flatten() {
        if text(resource, "mode") != "managed" {
            continue;
        }
        let module = text(resource, "module");
        let dot = if module.is_empty() { "" } else { "." };
        let base = format!(
            "{module}{dot}{}.{}",
            text(resource, "type"),
            text(resource, "name")
        );
        for instance in resource["instances"].as_array().into_iter().flatten() {
            let key = match &instance["index_key"] {
                Value::Null => String::new(),
                key => format!("[{key}]"),
            };
            let is_sensitive = instance["sensitive_attributes"]
                .to_string()
                .contains("\"id\"");
            if let (Some(id), false) = (instance["attributes"]["id"].as_str(), is_sensitive) {
                found.push((format!("{base}{key}"), id.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_by_the_address_that_opentofu_prints() {
        let state = br#"{"resources":[
            {"mode":"managed","type":"a","name":"b","instances":[{"index_key":"k","attributes":{"id":"1"}},{"index_key":0,"attributes":{"id":"2"}}]},
            {"module":"module.m","mode":"managed","type":"a","name":"b","instances":[{"attributes":{"id":"3"}}]},
            {"mode":"managed","type":"s","name":"s","instances":[{"attributes":{"id":"4"},"sensitive_attributes":[[{"type":"get_attr","value":"id"}]]}]},
            {"mode":"data","type":"a","name":"d","instances":[{"attributes":{"id":"5"}}]}]}"#;
        let found = ids(state);
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(a, i)| (a.as_str(), i.as_str()))
            .collect();
        assert_eq!(
            found,
            [("a.b[\"k\"]", "1"), ("a.b[0]", "2"), ("module.m.a.b", "3")]
        );
        assert!(ids(b"no state").is_empty());
    }

    #[test]
    fn an_end_without_a_word_is_a_finding() {
        let report = TestReport {
            exit: Some(process::Exit::Signal(9)),
            ..TestReport::default()
        };
        let Tests::Ran { findings, .. } = outcome("m", Path::new("/nowhere"), report) else {
            panic!("it ran");
        };
        assert_eq!(
            findings[0].summary,
            "`tofu test` ended with signal 9 and said nothing"
        );
    }
}

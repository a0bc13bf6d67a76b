//! From OpenTofu's events and JSON plan to plain values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tofu::events::OutputEvent;
use tofu::{Change, Diagnostic, Outcome, PlanDocument, RunError, Shown, ValueChange};

use crate::facts::{
    AttributeDrift, DriftedObject, ErrorKind, FailedCheck, Looked, OutputChange, PlanError,
    PlanFacts, PlannedChange,
};
use crate::report::SENSITIVE;

fn changed_outputs(outcome: &Outcome) -> impl Iterator<Item = (&String, &str, &OutputEvent)> {
    outcome.outputs.iter().filter_map(|(name, output)| {
        let action = output.action.as_ref()?.as_str();
        (action != "noop").then_some((name, action, output))
    })
}

impl PlanFacts {
    /// What a plan's summed-up events say. `document` is its JSON form, where it was read.
    pub fn of_outcome(outcome: &Outcome, document: Option<&PlanDocument>) -> Self {
        let errors = errors(outcome);
        // The events come in the order in which the provider answered: another one each time.
        let mut drift: Vec<DriftedObject> = outcome
            .drift
            .iter()
            .map(|change| drifted(change, document))
            .collect();
        drift.sort_by(|a, b| a.address.cmp(&b.address));
        let mut changes: Vec<PlannedChange> = outcome.planned.iter().map(planned).collect();
        changes.sort_by(|a, b| a.address.cmp(&b.address));
        Self {
            complete: outcome.plan_summary.is_some() && !outcome.interrupted && !outcome.killed,
            drift,
            changes,
            outputs: changed_outputs(outcome)
                .map(|(name, action, output)| output_change(name, action, output, document))
                .collect(),
            checks: checks(outcome, document, !errors.is_empty()),
            errors,
            objects: objects(outcome),
            explained_outputs: BTreeSet::new(),
        }
    }

    /// Whether drift, a changed output or a failed check shows, so that the JSON plan is worth its
    /// process: without it no value is known, and no attribute of drift can be ignored.
    pub fn wants_document(outcome: &Outcome) -> bool {
        !outcome.drift.is_empty()
            || !outcome.failed_checks.is_empty()
            || changed_outputs(outcome).next().is_some()
    }
}

impl Looked {
    /// What a plan that failed says.
    pub fn of_error(error: &RunError) -> Self {
        if error.is_interrupted() {
            return Self::NotRun { why: chain(error) };
        }
        let facts = PlanFacts::of_outcome(&error.outcome, None);
        if facts.errors.is_empty() {
            Self::Undecided {
                message: chain(error),
            }
        } else {
            Self::Planned(Box::new(facts))
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

fn drifted(change: &Change, document: Option<&PlanDocument>) -> DriftedObject {
    let address = change.address();
    let attributes = document
        .into_iter()
        .flat_map(|document| &document.resource_drift)
        .filter(|drift| drift.address == address && drift.deposed.is_none())
        .flat_map(|drift| attributes(&drift.change))
        .collect();
    DriftedObject {
        address: address.to_owned(),
        action: change.action.as_str().to_owned(),
        provider: change.resource.implied_provider.clone(),
        attributes,
    }
}

/// What a machine is started with. It holds the machine's secrets, and the providers of clouds don't mark it.
const USER_DATA: &str = "user_data";

fn holds_user_data(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name == USER_DATA || holds_user_data(value)),
        Value::Array(items) => items.iter().any(holds_user_data),
        _ => false,
    }
}

/// What differs. A value is masked when either side of it is sensitive, and what machines are started with always.
fn attributes(change: &ValueChange) -> Vec<AttributeDrift> {
    change
        .attributes()
        .into_iter()
        .map(|attribute| {
            let (was, is) = match (attribute.was, attribute.is) {
                (None, _) | (_, Shown::Sensitive) => (SENSITIVE.into(), SENSITIVE.into()),
                (Some(was), Shown::Value(is)) => (was, is),
                (Some(was), Shown::Unknown) => (was, Value::Null),
            };
            let is_secret =
                attribute.path.contains(USER_DATA) || holds_user_data(&was) || holds_user_data(&is);
            let (was, is) = if is_secret {
                (SENSITIVE.into(), SENSITIVE.into())
            } else {
                (was, is)
            };
            AttributeDrift {
                path: attribute.path,
                was,
                is,
            }
        })
        .collect()
}

fn planned(change: &Change) -> PlannedChange {
    PlannedChange {
        address: change.address().to_owned(),
        action: change.action.as_str().to_owned(),
        reason: change.reason.clone(),
    }
}

fn output_change(
    name: &str,
    action: &str,
    output: &OutputEvent,
    document: Option<&PlanDocument>,
) -> OutputChange {
    let change = document.and_then(|document| document.output_changes.get(name));
    let (was, is) = match change {
        _ if output.sensitive => (SENSITIVE.into(), SENSITIVE.into()),
        Some(change) if change.is_sensitive() => (SENSITIVE.into(), SENSITIVE.into()),
        Some(change) => (change.before.clone(), change.after.clone()),
        None => (Value::Null, Value::Null),
    };
    OutputChange {
        name: name.to_owned(),
        action: action.to_owned(),
        known: change.map(ValueChange::is_known),
        was,
        is,
    }
}

/// A warning from inside a `check` block may be about something else (a deprecated argument): where
/// the JSON plan was read, its verdict counts.
fn checks(outcome: &Outcome, document: Option<&PlanDocument>, errored: bool) -> Vec<FailedCheck> {
    let told = document.into_iter().flat_map(|document| &document.checks);
    let told: BTreeMap<&str, &str> = told
        .filter(|check| check.address.kind == "check")
        .map(|check| (check.address.name.as_str(), check.status.as_str()))
        .collect();
    let mut failed: Vec<FailedCheck> = outcome
        .failed_checks
        .iter()
        .filter(|check| told.get(check.name.as_str()) != Some(&"pass"))
        .map(|check| FailedCheck {
            name: check.name.clone(),
            message: check.message.clone(),
        })
        .collect();
    for (name, status) in told {
        // After an error much is unknown, and the error says why.
        let counts = status != "pass" && !(errored && status == "unknown");
        if counts && !failed.iter().any(|check| check.name == name) {
            let message = format!("the check's status is `{status}`");
            failed.push(FailedCheck {
                name: name.to_owned(),
                message,
            });
        }
    }
    failed
}

fn errors(outcome: &Outcome) -> Vec<PlanError> {
    let mut errors: Vec<PlanError> = outcome.errors().map(error).collect();
    if errors.is_empty()
        && let Some(exit) = outcome.exit.filter(|exit| !exit.is_success())
    {
        let tail = outcome
            .tail
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n");
        errors.push(PlanError {
            kind: ErrorKind::Other,
            address: None,
            message: format!("tofu ended with {exit} and told no error\n{tail}")
                .trim_end()
                .to_owned(),
        });
    }
    errors
}

fn error(diagnostic: &Diagnostic) -> PlanError {
    let address = diagnostic
        .address
        .clone()
        .filter(|address| !address.is_empty());
    let kind = if diagnostic.mentions("Error acquiring the state lock") {
        ErrorKind::Lock
    } else if address.is_some() || speaks_of_the_network(diagnostic) {
        // OpenTofu gives an address to what a provider says, and to nothing else.
        ErrorKind::Api
    } else {
        ErrorKind::Other
    };
    PlanError {
        kind,
        address,
        message: diagnostic.to_string(),
    }
}

fn speaks_of_the_network(diagnostic: &Diagnostic) -> bool {
    const WORDS: [&str; 8] = [
        "connection refused",
        "connection reset",
        "no such host",
        "i/o timeout",
        "network is unreachable",
        "no route to host",
        "TLS handshake timeout",
        "context deadline exceeded",
    ];
    WORDS.iter().any(|word| diagnostic.mentions(word))
}

/// How many managed objects of each provider the state has: those that are there and those that are
/// gone.
fn objects(outcome: &Outcome) -> BTreeMap<String, usize> {
    let mut objects = BTreeMap::new();
    for provider in outcome.refreshed.values() {
        *objects.entry(provider.clone()).or_default() += 1;
    }
    objects
}

#[cfg(test)]
mod tests {
    use process::Exit;
    use serde_json::json;
    use tofu::{Cause, EventLine, StepKey};

    use super::*;

    fn failed(cause: Cause, diagnostics: &[Value]) -> RunError {
        let mut outcome = Outcome::default();
        for diagnostic in diagnostics {
            let event = json!({"@message": "x", "type": "diagnostic", "diagnostic": diagnostic});
            outcome.take(&EventLine::parse(event.to_string().as_bytes()));
        }
        RunError {
            step: "1a/edge".parse::<StepKey>().unwrap(),
            command: "plan",
            cause: Box::new(cause),
            outcome: Box::new(outcome),
            transcript: None,
        }
    }

    #[test]
    fn a_plan_that_failed_says_what_it_told() {
        let error = json!({"severity": "error", "summary": "Unsupported block", "detail": "No."});
        let warning = json!({"severity": "warning", "summary": "Deprecated", "detail": ""});
        let looked = Looked::of_error(&failed(
            Cause::Ended(Exit::Code(1)),
            &[warning.clone(), error],
        ));
        let Looked::Planned(facts) = looked else {
            panic!("it told an error");
        };
        assert!(!facts.complete);
        assert_eq!(facts.errors.len(), 1);
        assert_eq!(facts.errors[0].kind, ErrorKind::Other);
        assert!(facts.errors[0].message.starts_with("Unsupported block"));
    }

    /// Case D12.
    #[test]
    fn a_lock_that_is_held_is_told_apart() {
        let held = json!({"severity": "error", "summary": "Error acquiring the state lock", "detail": "Lock Info:"});
        let looked = Looked::of_error(&failed(Cause::Ended(Exit::Code(1)), &[held]));
        let Looked::Planned(facts) = looked else {
            panic!("it told an error");
        };
        assert_eq!(facts.errors[0].kind, ErrorKind::Lock);
    }

    #[test]
    fn a_plan_that_told_nothing_is_undecided_and_one_that_was_interrupted_was_not_run() {
        let warning = json!({"severity": "warning", "summary": "Deprecated", "detail": ""});
        let cause = Cause::Init(tofu::InitFailure::Network);
        let looked = Looked::of_error(&failed(cause, &[warning]));
        assert!(matches!(looked, Looked::Undecided { message } if message.contains("the network")));
        let looked = Looked::of_error(&failed(Cause::Interrupted, &[]));
        assert!(matches!(looked, Looked::NotRun { why } if why.contains("interrupted")));
    }

    #[test]
    fn a_warning_from_inside_a_check_that_passes_is_no_failure() {
        let warning = json!({
            "severity": "warning", "summary": "Deprecated argument", "detail": "",
            "snippet": {"context": "check \"a\"", "code": "x", "start_line": 1},
        });
        let outcome = *failed(Cause::Interrupted, &[warning]).outcome;
        let document = |status: &str| {
            let check = |name: &str, status: &str| json!({"address": {"kind": "check", "name": name}, "status": status});
            let resource = json!({"address": {"kind": "resource", "name": "c"}, "status": "fail"});
            let document = json!({
                "format_version": "1.2",
                "checks": [check("a", status), check("b", "error"), resource],
            });
            PlanDocument::parse(document.to_string().as_bytes()).unwrap()
        };
        let names = |document: Option<&PlanDocument>| -> Vec<String> {
            let facts = PlanFacts::of_outcome(&outcome, document);
            facts.checks.into_iter().map(|check| check.name).collect()
        };
        assert_eq!(names(None), ["a"]);
        assert_eq!(names(Some(&document("fail"))), ["a", "b"]);
        assert_eq!(names(Some(&document("pass"))), ["b"]);
    }

    #[test]
    fn a_value_that_is_sensitive_on_either_side_is_masked_on_both() {
        for (before, after) in [(true, false), (false, true), (true, true)] {
            let change: ValueChange = serde_json::from_value(json!({
                "actions": ["update"],
                "before": {"key": "hunter1", "list": ["hunter1"], "size": 1},
                "after": {"key": "hunter2", "list": ["hunter2"], "size": 2},
                "before_sensitive": {"key": before, "list": [before]},
                "after_sensitive": {"key": after, "list": [after]},
            }))
            .unwrap();
            let found = attributes(&change);
            let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(paths, ["key", "list[0]", "size"]);
            assert!(!format!("{found:?}").contains("hunter"), "{found:?}");
            assert_eq!((&found[2].was, &found[2].is), (&json!(1), &json!(2)));
        }
    }

    #[test]
    fn what_a_machine_is_started_with_is_masked_though_no_provider_marks_it() {
        let change: ValueChange = serde_json::from_value(json!({
            "actions": ["update"],
            "before": {"user_data": "hunter1", "metadata": {"user_data": "hunter1", "a": "b"}, "all": [], "name": "a"},
            "after": {"user_data": "hunter2", "metadata": null, "all": [{"user_data": "hunter2"}], "name": "b"},
        }))
        .unwrap();
        let found = attributes(&change);
        assert!(!format!("{found:?}").contains("hunter"), "{found:?}");
        let name = found.iter().find(|one| one.path == "name").unwrap();
        assert_eq!((&name.was, &name.is), (&json!("a"), &json!("b")));
    }
}

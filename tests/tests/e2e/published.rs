//! The published JSON Schemas: what every document must conform to.

use std::path::Path;

use serde_json::Value;

/// Fails the test unless the document conforms to `docs/schemas/NAME.schema.json`.
pub(crate) fn conforms(name: &str, document: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/schemas")
        .join(format!("{name}.schema.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("no schema {}: {error}", path.display()));
    let schema: Value = serde_json::from_str(&text).expect("a published schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("a published schema is one");
    let faults: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{} at {}", error, error.instance_path()))
        .collect();
    assert!(
        faults.is_empty(),
        "it does not conform to `{name}`: {}\n{document:#}",
        faults.join("; ")
    );
}

/// Reads a stream of events, each of which conforms, and the last of which ends it.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let events: Vec<Value> = text
        .lines()
        .map(|line| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("a line is no JSON ({error}): {line}"))
        })
        .collect();
    for event in &events {
        conforms("event", event);
    }
    let ends = events
        .iter()
        .filter(|event| event["event"] == "ended")
        .count();
    assert_eq!(ends, 1, "one event ends the stream: {text}");
    assert_eq!(events.last().expect("an event")["event"], "ended");
    events
}

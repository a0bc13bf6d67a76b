//! One line of the stream to one [`EventLine`]. Any bytes are taken.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{
    ApplyStage, Diagnostic, Event, Hook, OutputEvent, ProvisionStage, RawState, RefreshStage,
    TestEvent, TestSummary,
};

/// What OpenTofu says above a state that it could write nowhere.
pub(crate) const EMERGENCY: &str = "Emergency state dump";

/// One line: the event and what every message carries.
#[derive(Debug, Clone, PartialEq)]
pub struct EventLine {
    /// The message's meaning.
    pub event: Event,
    /// The message for people, without colour codes.
    pub message: String,
    /// When OpenTofu wrote it (RFC 3339), if it is a message.
    pub timestamp: Option<String>,
}

impl EventLine {
    /// Reads one line, with or without its end.
    #[must_use]
    pub fn parse(line: &[u8]) -> Self {
        let text = line.trim_ascii();
        if text.first() == Some(&b'{')
            && let Some(parsed) = parse_message(text)
        {
            return parsed;
        }
        let text = without_colour(&String::from_utf8_lossy(text));
        if text.contains(EMERGENCY) {
            return Self {
                event: Event::EmergencyState(RawState(line.to_vec())),
                message: EMERGENCY.to_owned(),
                timestamp: None,
            };
        }
        Self {
            message: text.clone(),
            event: Event::Text(text),
            timestamp: None,
        }
    }

    /// The address of the resource instance that the line is about.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        match &self.event {
            Event::ResourceDrift(change) | Event::PlannedChange(change) => Some(change.address()),
            Event::Apply(_, hook) | Event::Provision(_, hook) | Event::Refresh(_, hook) => {
                Some(&hook.resource.addr)
            }
            Event::Diagnostic(diagnostic) => diagnostic.address.as_deref(),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Emergency<'a> {
    #[serde(borrow)]
    state: Option<&'a RawValue>,
}

fn parse_message(text: &[u8]) -> Option<EventLine> {
    let mut fields: Map<String, Value> = serde_json::from_slice(text).ok()?;
    let message = match fields.get("@message") {
        Some(Value::String(message)) => without_colour(message),
        _ => return None,
    };
    let timestamp = fields
        .get("@timestamp")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let kind = fields
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if message == EMERGENCY {
        let state = std::str::from_utf8(text)
            .ok()
            .and_then(|text| serde_json::from_str::<Emergency<'_>>(text).ok());
        let bytes = match state.and_then(|emergency| emergency.state) {
            Some(raw) => raw.get().as_bytes().to_vec(),
            None => text.to_vec(),
        };
        return Some(EventLine {
            event: Event::EmergencyState(RawState(bytes)),
            message,
            timestamp,
        });
    }
    let event = event(&kind, &mut fields, &message).unwrap_or_else(|| {
        if kind.is_empty() {
            Event::Log(message.clone())
        } else {
            Event::Other {
                kind,
                message: message.clone(),
            }
        }
    });
    Some(EventLine {
        event,
        message,
        timestamp,
    })
}

/// The typed event; `None` for an unknown type, or a known one of another shape.
fn event(kind: &str, fields: &mut Map<String, Value>, message: &str) -> Option<Event> {
    Some(match kind {
        "version" => Event::Version {
            tofu: fields
                .get("tofu")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            ui: fields
                .get("ui")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        },
        "log" | "output" => Event::Log(message.to_owned()),
        "diagnostic" => {
            let mut diagnostic: Diagnostic = take(fields, "diagnostic")?;
            diagnostic.difference = diagnostic
                .difference
                .map(super::Difference::without_sensitive);
            diagnostic.summary = without_colour(&diagnostic.summary);
            diagnostic.detail = without_colour(&diagnostic.detail);
            Event::Diagnostic(Box::new(diagnostic))
        }
        "resource_drift" => Event::ResourceDrift(take(fields, "change")?),
        "planned_change" => Event::PlannedChange(take(fields, "change")?),
        "change_summary" => Event::ChangeSummary(take(fields, "changes")?),
        "outputs" => Event::Outputs(take::<BTreeMap<String, OutputEvent>>(fields, "outputs")?),
        "apply_start" => Event::Apply(ApplyStage::Started, hook(fields)?),
        "apply_progress" => Event::Apply(ApplyStage::Progress, hook(fields)?),
        "apply_complete" => Event::Apply(ApplyStage::Completed, hook(fields)?),
        "apply_errored" => Event::Apply(ApplyStage::Errored, hook(fields)?),
        "provision_start" => Event::Provision(ProvisionStage::Started, hook(fields)?),
        "provision_progress" => Event::Provision(ProvisionStage::Progress, hook(fields)?),
        "provision_complete" => Event::Provision(ProvisionStage::Completed, hook(fields)?),
        "provision_errored" => Event::Provision(ProvisionStage::Errored, hook(fields)?),
        "refresh_start" => Event::Refresh(RefreshStage::Started, hook(fields)?),
        "refresh_complete" => Event::Refresh(RefreshStage::Completed, hook(fields)?),
        kind if kind.starts_with("test_") => Event::Test(test_event(kind, fields)),
        _ => return None,
    })
}

fn hook(fields: &mut Map<String, Value>) -> Option<Hook> {
    take(fields, "hook")
}

fn take<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Option<T> {
    serde_json::from_value(fields.remove(name)?).ok()
}

#[derive(Deserialize, Default)]
struct TestStatus {
    #[serde(default)]
    path: String,
    #[serde(default)]
    run: String,
    #[serde(default)]
    status: String,
}

fn test_event(kind: &str, fields: &mut Map<String, Value>) -> TestEvent {
    let status =
        |fields: &mut Map<String, Value>| take::<TestStatus>(fields, kind).unwrap_or_default();
    match kind {
        "test_file" => {
            let TestStatus { path, status, .. } = status(fields);
            TestEvent::File { path, status }
        }
        "test_run" => {
            let TestStatus { path, run, status } = status(fields);
            TestEvent::Run { path, run, status }
        }
        "test_summary" => TestEvent::Summary(take::<TestSummary>(fields, kind).unwrap_or_default()),
        "test_cleanup" => TestEvent::Cleanup {
            left_behind: instances(fields.get(kind)),
        },
        "test_interrupt" => TestEvent::Interrupt {
            left_behind: instances(fields.get(kind)),
        },
        other => TestEvent::Other(other.to_owned()),
    }
}

/// Every `instance` below `value`, with the deposed key where there is one, and planned addresses.
fn instances(value: Option<&Value>) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<&Value> = value.into_iter().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.iter().rev()),
            Value::Object(members) => {
                if let Some(Value::String(instance)) = members.get("instance") {
                    match members.get("deposed_key").and_then(Value::as_str) {
                        Some(deposed) => found.push(format!("{instance} (deposed {deposed})")),
                        None => found.push(instance.clone()),
                    }
                } else {
                    if let Some(Value::Array(planned)) = members.get("planned") {
                        found.extend(planned.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    open.extend(members.values());
                }
            }
            _ => {}
        }
    }
    found
}

/// The text without terminal control sequences (CSI and OSC) and other control characters but tab
/// and newline.
pub(crate) fn without_colour(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.peek() {
                Some('[') => {
                    chars.next();
                    while let Some(&next) = chars.peek() {
                        chars.next();
                        if ('\u{40}'..='\u{7e}').contains(&next) {
                            break;
                        }
                    }
                }
                Some(']') => {
                    for next in chars.by_ref() {
                        if next == '\u{7}' || next == '\u{9c}' || next == '\\' {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\t' | '\n' => plain.push(c),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

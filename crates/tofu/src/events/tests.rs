//! Tests of the events: lines as OpenTofu prints them.

use super::*;
use proptest::prelude::*;

fn parse(line: &str) -> EventLine {
    EventLine::parse(line.as_bytes())
}

#[test]
fn a_text_line_in_the_middle_is_kept_as_text() {
    let line = parse("Releasing state lock. This may take a few moments...\n");
    assert_eq!(
        line.event,
        Event::Text("Releasing state lock. This may take a few moments...".into())
    );
}

#[test]
fn an_unknown_type_is_kept_and_never_fatal() {
    let line = parse(r#"{"@level":"info","@message":"what","type":"future_thing","x":1}"#);
    assert_eq!(
        line.event,
        Event::Other {
            kind: "future_thing".into(),
            message: "what".into()
        }
    );
}

#[test]
fn a_known_type_of_another_shape_is_kept() {
    let line = parse(r#"{"@message":"what","type":"planned_change","change":7}"#);
    assert_eq!(
        line.event,
        Event::Other {
            kind: "planned_change".into(),
            message: "what".into()
        }
    );
}

#[test]
fn the_emergency_state_is_held_byte_for_byte() {
    let line = parse(
        r#"{"@level":"info","@message":"Emergency state dump","type":"log","state":{ "serial": 1.00,  "a": 123456789012345678901234567890}}"#,
    );
    let Event::EmergencyState(RawState(bytes)) = line.event else {
        panic!("{line:?}")
    };
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        r#"{ "serial": 1.00,  "a": 123456789012345678901234567890}"#
    );
}

#[test]
fn a_broken_emergency_line_is_not_taken_for_text() {
    let line = parse(r#"{"@message":"Emergency state dump","type":"log","state":{"a"#);
    assert!(matches!(line.event, Event::EmergencyState(_)), "{line:?}");
    assert!(!format!("{line:?}").contains("\"a"));
}

#[test]
fn sensitive_sides_of_a_difference_are_dropped() {
    let line = parse(
        r#"{"@message":"Error: x","type":"diagnostic","diagnostic":{"severity":"error","summary":"s","detail":"","difference":{"before":"hunter2","after":{"a":"ok"},"before_sensitive":true,"after_sensitive":{"a":false}}}}"#,
    );
    let Event::Diagnostic(diagnostic) = line.event else {
        panic!()
    };
    let difference = diagnostic.difference.unwrap();
    assert_eq!(difference.before, Value::Null);
    assert_eq!(difference.after, serde_json::json!({"a": "ok"}));
}

#[test]
fn a_failed_check_is_told_by_its_context() {
    let line = parse(
        r#"{"@message":"Warning: Check block assertion failed","type":"diagnostic","diagnostic":{"severity":"warning","summary":"Check block assertion failed","detail":"x is not a","snippet":{"context":"check \"c\"","code":"","start_line":1,"highlight_start_offset":0,"highlight_end_offset":1,"values":[]}}}"#,
    );
    let Event::Diagnostic(diagnostic) = line.event else {
        panic!()
    };
    assert_eq!(diagnostic.failed_check(), Some("c"));
}

#[test]
fn an_over_long_diagnostic_is_shown_short_and_not_empty() {
    let diagnostic = Diagnostic {
        summary: "Cycle".into(),
        detail: "a → ".repeat(20_000),
        ..Default::default()
    };
    let text = diagnostic.to_string();
    assert!(text.starts_with("Cycle: a → a"), "{text}");
    assert!(text.len() < 10_000);
    assert_eq!(
        Diagnostic::default().to_string(),
        "OpenTofu gave no summary"
    );
}

#[test]
fn colour_codes_are_stripped() {
    assert_eq!(
        parse::without_colour("\u{1b}[31m╷\u{1b}[0m\u{1b}[0m x\r"),
        "╷ x"
    );
    assert_eq!(parse::without_colour("a\u{1b}]8;;http://x\u{7}b"), "ab");
}

#[test]
fn what_a_test_left_behind_is_named() {
    let line = parse(
        r#"{"@message":"m","type":"test_cleanup","test_cleanup":{"failed_resources":[{"instance":"a.b"},{"instance":"c.d","deposed_key":"x1"}]}}"#,
    );
    assert_eq!(
        line.event,
        Event::Test(TestEvent::Cleanup {
            left_behind: vec!["a.b".into(), "c.d (deposed x1)".into()]
        })
    );
}

proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = EventLine::parse(&bytes);
    }

    #[test]
    fn any_message_is_taken(kind in "[a-z_]{0,18}", message in any::<String>(), body in "[\\[\\]{}\":,a-z0-9]{0,60}") {
        let head = serde_json::json!({"@message": message, "type": kind}).to_string();
        let line = format!("{},\"change\":{body},\"hook\":{body}}}", &head[..head.len() - 1]);
        let _ = EventLine::parse(line.as_bytes());
    }

    #[test]
    fn a_message_with_a_known_type_and_any_fields_is_taken(
        kind in prop::sample::select(vec!["version", "diagnostic", "planned_change", "outputs", "apply_start", "test_cleanup", "test_run"]),
        value in prop::sample::select(vec!["null", "1", "[]", "{}", "\"x\"", r#"{"resource":null}"#, r#"{"resource":{"addr":1}}"#]),
    ) {
        let line = format!(r#"{{"@message":"m","type":"{kind}","{kind}":{value},"change":{value},"hook":{value},"outputs":{value},"tofu":{value}}}"#);
        prop_assert_eq!(EventLine::parse(line.as_bytes()).message, "m");
    }
}

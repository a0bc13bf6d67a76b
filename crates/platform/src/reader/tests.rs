//! Keys, types and spans of tables.

use super::*;

#[test]
fn durations_are_read_and_others_refused() {
    assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5400)));
    assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
    assert_eq!(parse_duration("7d"), Some(Duration::from_secs(604_800)));
    for wrong in [
        "",
        "5",
        "m",
        "5 m",
        "5w",
        "-5s",
        "99999999999999999999s",
        "18446744073709551615d",
    ] {
        assert_eq!(parse_duration(wrong), None, "{wrong}");
    }
}

fn read<T>(text: &str, act: impl FnOnce(&Section<'_>) -> T) -> (T, Vec<Fault>) {
    let report = Report::default();
    let doc = Doc::new(TextFile::new("rebuild.toml", text), &report);
    let document = doc.parse().unwrap();
    let section = doc.root(&document);
    let got = act(&section);
    section.finish();
    (got, report.take())
}

fn underlined(fault: &Fault) -> String {
    fault.source_text()[fault.span.clone().unwrap()].to_owned()
}

#[test]
fn an_unknown_key_is_underlined_with_the_near_name() {
    let (_, faults) = read("nmae = \"x\"\n", |section| section.string("name"));
    assert_eq!(underlined(&faults[0]), "nmae");
    assert_eq!(faults[0].help.as_deref(), Some("did you mean `name`?"));
}

#[test]
fn a_wrong_type_is_underlined() {
    let (_, faults) = read("name = 5\n", |section| section.string("name"));
    assert_eq!(underlined(&faults[0]), "5");
}

#[test]
fn the_second_of_two_equal_references_is_found() {
    let (expr, faults) = read("x = \"${target.a} é ${target.a}\"\n", |section| {
        section.field("x").and_then(|field| field.expr())
    });
    assert!(faults.is_empty());
    let spans: Vec<_> = expr
        .unwrap()
        .references()
        .iter()
        .map(|located| located.span.clone().unwrap())
        .collect();
    assert_eq!(spans, [5..16, 20..31]);
}

#[test]
fn a_reference_behind_an_escape_is_found() {
    let (_, faults) = read("x = \"\\t\\\"${foo.a}\"\n", |section| {
        section.field("x").and_then(|field| field.expr())
    });
    assert_eq!(underlined(&faults[0]), "${foo.a}");
}

#[test]
fn comments_and_order_of_keys_do_not_change_what_a_section_says() {
    let (a, _) = read("x = 1 # one\ny = [1, {b = 2, a = 1}]\n", |section| {
        let _ = (section.field("x"), section.field("y"));
        section.canonical().to_string()
    });
    let (b, _) = read("y = [1, {a = 1, b = 2}]\nx = 1\n", |section| {
        let _ = (section.field("x"), section.field("y"));
        section.canonical().to_string()
    });
    assert_eq!(a, b);
}

#[test]
fn an_infinite_number_is_no_value() {
    let (expr, faults) = read("x = inf\n", |section| {
        section.field("x").and_then(|field| field.expr())
    });
    assert!(expr.is_none());
    assert_eq!(underlined(&faults[0]), "inf");
}

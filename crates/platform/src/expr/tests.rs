//! Templates: what they parse to, and what they resolve to.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[derive(Default)]
struct Values {
    target: BTreeMap<String, Value>,
    secret: BTreeMap<String, String>,
    outputs: BTreeMap<String, (Value, bool)>,
}

impl Scope for Values {
    fn target(&self, name: &str) -> Option<Value> {
        self.target.get(name).cloned()
    }
    fn secret(&self, name: &str) -> Option<String> {
        self.secret.get(name).cloned()
    }
    fn output(&self, step: &StepId, output: &str) -> Option<(Value, bool)> {
        self.outputs.get(&format!("{step}.{output}")).cloned()
    }
}

fn values() -> Values {
    let mut values = Values::default();
    values.target.insert("zone".into(), json!("example.org"));
    values
        .target
        .insert("nodes".into(), json!([{ "name": "a" }, { "name": "b" }]));
    values.target.insert("count".into(), json!(3));
    values.secret.insert("token".into(), "s3cret-value".into());
    values
        .outputs
        .insert("1a.edge.address".into(), (json!("10.0.0.1"), false));
    values
        .outputs
        .insert("1a.edge.key".into(), (json!("k"), true));
    values
}

fn resolve(text: &str) -> Result<Resolved, ResolveError> {
    Expr::parse(text).unwrap().resolve(&values())
}

#[test]
fn a_lone_reference_keeps_its_type() {
    assert_eq!(resolve("${target.count}").unwrap().value, json!(3));
    assert_eq!(resolve("n=${target.count}").unwrap().value, json!("n=3"));
    assert_eq!(
        resolve("${target.nodes}").unwrap().value,
        json!([{ "name": "a" }, { "name": "b" }])
    );
}

#[test]
fn a_reference_goes_into_lists_and_tables() {
    assert_eq!(resolve("${target.nodes.1.name}").unwrap().value, json!("b"));
    assert_eq!(
        resolve("${target.nodes.2.name}").unwrap_err(),
        ResolveError::NoSuchPart {
            reference: "${target.nodes.2.name}".into(),
            part: "2".into()
        }
    );
}

#[test]
fn a_list_can_not_be_put_into_a_text() {
    assert!(matches!(
        resolve("x${target.nodes}").unwrap_err(),
        ResolveError::NotText { kind: "list", .. }
    ));
}

#[test]
fn what_a_secret_or_sensitive_output_went_into_is_sensitive() {
    assert!(resolve("a ${secret.token}").unwrap().sensitive);
    assert!(resolve("${step.1a.edge.key}").unwrap().sensitive);
    assert!(!resolve("${step.1a.edge.address}").unwrap().sensitive);
}

#[test]
fn two_dollars_are_a_literal() {
    assert_eq!(
        resolve("$${target.zone} $5 $$ %{x}").unwrap().value,
        json!("${target.zone} $5 $$ %{x}")
    );
    assert_eq!(
        resolve("$$${target.zone}").unwrap().value,
        json!("$${target.zone}")
    );
}

#[test]
fn an_output_that_is_not_there_is_never_a_default() {
    // N4
    assert_eq!(
        resolve("${step.1a.edge.adress}").unwrap_err(),
        ResolveError::Unknown {
            reference: "${step.1a.edge.adress}".into()
        }
    );
}

#[test]
fn references_inside_of_tables_are_found_in_order() {
    let expr = Expr::Array(vec![
        Expr::parse("${target.zone}").unwrap(),
        Expr::Table(BTreeMap::from([(
            "k".to_owned(),
            Expr::parse("${secret.token}").unwrap(),
        )])),
    ]);
    let found: Vec<String> = expr
        .references()
        .iter()
        .map(|located| located.reference.to_string())
        .collect();
    assert_eq!(found, ["${target.zone}", "${secret.token}"]);
    assert!(expr.resolve(&values()).unwrap().sensitive);
}

#[test]
fn illegal_references_say_what_is_wrong() {
    for (text, says) in [
        ("${target.zone", "never closed"),
        ("${}", "empty part"),
        ("${target..x}", "empty part"),
        ("${target}", "names no target"),
        ("${targt.x}", "`targt` is nothing"),
        ("${step.1a.edge}", "must name a phase, a step and an output"),
        ("${secret.a.b}", "no parts"),
        ("${var.x + 1}", "no name"),
    ] {
        let error = Expr::parse(text).unwrap_err();
        assert!(error.message.contains(says), "{text}: {}", error.message);
        assert!(error.help.is_some());
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(text in ".*") {
        let _ = Expr::parse(&text);
    }

    #[test]
    fn parsing_of_near_templates_never_panics(text in "[${}a-z.é \\[\\]]{0,40}") {
        if let Err(error) = Expr::parse(&text) {
            prop_assert!(text.get(error.span.clone()).is_some());
        }
    }

    #[test]
    fn an_escaped_text_comes_back_unchanged(text in "[${}a-z.%é]{0,40}") {
        let parsed = Expr::parse(&escape(&text)).unwrap();
        prop_assert!(parsed.references().is_empty());
        prop_assert_eq!(parsed.resolve(&Values::default()).unwrap().value, json!(text));
    }
}

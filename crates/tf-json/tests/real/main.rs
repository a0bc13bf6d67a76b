//! What is written, read by the real OpenTofu. `REBUILD_TEST_TOFU` names it; `cargo xtask tools` gets one.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value as Json, json};
use test_support::{Outcome, World};
use tf_json::{
    Body, Check, Condition, Document, Encryption, EncryptionTarget, Expression, Identifier,
    IgnoreChanges, Lifecycle, Meta, Moved, Output, Reference, Removed, Resource, Template, Value,
    Variable,
};

#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
fn program() -> std::path::PathBuf {
    std::env::var_os("REBUILD_TEST_TOFU")
        .expect("REBUILD_TEST_TOFU is not set: run `cargo xtask tools`")
        .into()
}

fn tofu(world: &World, args: &[&str]) -> Outcome {
    world
        .command(program())
        .args(args)
        .env("CHECKPOINT_DISABLE", "1")
        .env("TF_IN_AUTOMATION", "1")
        .cwd(world.work())
        .run()
}

/// Applies a document and returns its outputs.
fn outputs_of(document: &Document) -> BTreeMap<String, Json> {
    let world = World::new();
    let bytes = document.to_bytes();
    let again = Document::parse(&bytes).unwrap();
    assert_eq!(again.to_bytes(), bytes, "it is read as it was written");
    let path = world.work().join("main.tf.json");
    world.write(path.to_str().unwrap(), std::str::from_utf8(&bytes).unwrap());
    tofu(&world, &["init", "-no-color"]).expect_code(0);
    tofu(&world, &["apply", "-auto-approve", "-no-color"]).expect_code(0);
    let outcome = tofu(&world, &["output", "-json"]);
    let outputs: BTreeMap<String, Json> =
        serde_json::from_str(&outcome.expect_code(0).stdout).unwrap();
    outputs
        .into_iter()
        .map(|(name, output)| (name, output["value"].clone()))
        .collect()
}

/// Text made of what OpenTofu, its JSON and its native syntax give a meaning to.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "$", "%", "{", "}", "${", "%{", "$${", "%%{", "\\", "\"", "\n", "\r", "\t", "\u{0}", "\u{7f}",
            "~", "#", "//", "/*", "<<EOT", "\u{2028}", "\u{feff}", "é", "漢", "🦀", "\\u0041", "D:\\f",
            "if", "endif", "var.x", "=", ":", ",", "[", "]", "(", ")", " ",
        ]).prop_map(str::to_owned),
        1 => "[ -~]{0,6}",
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

fn samples<S: Strategy>(strategy: &S, n: usize) -> Vec<S::Value> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    (0..n)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}

#[test]
fn every_literal_and_every_key_comes_out_of_opentofu_as_it_went_in() {
    let texts = samples(&text(), 600);
    let mut document = Document::new();
    let add = |document: &mut Document, name: &str, value: Value| {
        let name = Identifier::new(name).unwrap();
        document.add_output(name, Output::new(value)).unwrap();
    };
    add(&mut document, "values", Value::list(texts.iter()));
    // As values of the native syntax, inside an expression.
    let quoted = texts.iter().map(|text| Expression::string(text));
    add(&mut document, "quoted", Expression::list(quoted).into());
    // Beside an expression, so that what is around it meets `${`.
    let beside: Vec<Value> = texts
        .iter()
        .map(|text| {
            let template = Template::literal(text.as_str())
                .expression(Expression::string("-"))
                .text(text.as_str());
            Value::from(template)
        })
        .collect();
    add(&mut document, "beside", Value::List(beside));
    let inside = texts.iter().map(|text| {
        let template = Template::literal(text.as_str())
            .expression(Expression::string("-"))
            .text(text.as_str());
        Expression::quoted(&template)
    });
    add(&mut document, "inside", Expression::list(inside).into());
    let keys: BTreeMap<&str, u64> = texts.iter().map(String::as_str).zip(0..).collect();
    add(
        &mut document,
        "keys",
        Value::object(keys.iter().map(|(key, value)| (*key, *value))),
    );
    add(
        &mut document,
        "quoted_keys",
        Expression::object(keys.iter().map(|(key, value)| (*key, (*value).into()))).into(),
    );
    // OpenTofu evaluates neither of these, so nothing is escaped in them.
    let variable = Variable {
        default: Some(json!({ "texts": texts, "keys": keys })),
        description: Some(texts.concat()),
        ..Variable::default()
    };
    document.add_variable("plain", variable).unwrap();
    add(&mut document, "plain", Expression::variable("plain").into());

    let outputs = outputs_of(&document);
    let beside: Vec<String> = texts.iter().map(|text| format!("{text}-{text}")).collect();
    for (name, expected) in [
        ("values", json!(texts)),
        ("quoted", json!(texts)),
        ("beside", json!(beside)),
        ("inside", json!(beside)),
        ("keys", json!(keys)),
        ("quoted_keys", json!(keys)),
        ("plain", json!({ "texts": texts, "keys": keys })),
    ] {
        let found = &outputs[name];
        if *found == expected {
            continue;
        }
        if let (Json::Array(found), Json::Array(expected)) = (found, &expected) {
            for (found, expected) in found.iter().zip(expected) {
                assert_eq!(found, expected, "{name}");
            }
        }
        assert_eq!(found, &expected, "{name}");
    }
}

#[test]
fn the_known_bad_texts_come_back() {
    let texts = [
        "${HOME}", "%{text}", "50%", r"D:\f", "$${x}", "%%{x}", "$", "%",
    ];
    let mut document = Document::new();
    let value = Value::list(texts);
    document.add_output("texts", Output::new(value)).unwrap();
    let value = Value::object([("k${1+1}", 1_u64), ("//", 2), ("", 3)]);
    document.add_output("keys", Output::new(value)).unwrap();
    let outputs = outputs_of(&document);
    assert_eq!(outputs["texts"], json!(texts));
    assert_eq!(outputs["keys"], json!({ "k${1+1}": 1, "//": 2, "": 3 }));
}

#[test]
fn decomposed_text_comes_back_composed_as_opentofu_normalises_every_string() {
    let mut document = Document::new();
    let output = Output::new("e\u{301}");
    document.add_output("text", output).unwrap();
    assert_eq!(outputs_of(&document)["text"], json!("\u{e9}"));
}

#[test]
fn opentofu_takes_every_meta_argument_in_the_form_it_is_written() {
    let of = |name: &'static str| Reference::resource("terraform_data", name);
    let mut document = Document::new();
    document.settings.required_version = Some(">= 1.12.0".to_owned());
    let variable = Variable {
        kind: Some(Expression::raw("list(string)").unwrap()),
        default: Some(json!(["${not evaluated}"])),
        sensitive: true,
        nullable: Some(false),
        validations: vec![Condition {
            condition: Expression::raw("length(var.words) > 0").unwrap(),
            error_message: "at least one ${word}".into(),
        }],
        ..Variable::default()
    };
    document.add_variable("words", variable).unwrap();
    let fleeting = Variable {
        default: Some(json!("x")),
        ephemeral: true,
        ..Variable::default()
    };
    document.add_variable("fleeting", fleeting).unwrap();
    document.add_local("two", 2_u64).unwrap();
    let first = Resource {
        body: Body::new().set("input", "first"),
        meta: Meta::default(),
    };
    document
        .add_resource("terraform_data", "first", first)
        .unwrap();
    let second = Resource {
        body: Body::new()
            .set(
                "input",
                Template::literal("n").expression(Reference::name("count").attribute("index")),
            )
            .set_some("triggers_replace", None::<Value>),
        meta: Meta {
            count: Some(Expression::local("two").into()),
            depends_on: vec![of("first")],
            lifecycle: Lifecycle {
                create_before_destroy: Some(true),
                prevent_destroy: Some(false),
                ignore_changes: IgnoreChanges::These(vec![Reference::name("input")]),
                replace_triggered_by: vec![of("first").attribute("input")],
                preconditions: vec![Condition {
                    condition: Expression::raw("local.two == 2").unwrap(),
                    error_message: "no".into(),
                }],
                postconditions: vec![Condition {
                    condition: Expression::raw("self.id != \"\"").unwrap(),
                    error_message: "no".into(),
                }],
            },
            ..Meta::default()
        },
    };
    document
        .add_resource("terraform_data", "second", second)
        .unwrap();
    let third = Resource {
        body: Body::new().set("input", Reference::name("each").attribute("key")),
        meta: Meta {
            for_each: Some(Expression::raw("toset([\"a\"])").unwrap().into()),
            lifecycle: Lifecycle {
                ignore_changes: IgnoreChanges::All,
                ..Lifecycle::default()
            },
            ..Meta::default()
        },
    };
    document
        .add_resource("terraform_data", "third", third)
        .unwrap();
    document.add_moved(Moved {
        from: of("was"),
        to: of("first"),
    });
    document.add_removed(Removed {
        from: of("gone"),
        destroy: Some(false),
    });
    let check = Check {
        data: None,
        assertions: vec![Condition {
            condition: Expression::raw("terraform_data.first.output == \"first\"").unwrap(),
            error_message: "no".into(),
        }],
    };
    document.add_check("all_well", check).unwrap();
    let outputs = Output {
        depends_on: vec![of("third")],
        description: Some("${not evaluated}".to_owned()),
        ..Output::new(of("second").splat().attribute("input")).sensitive()
    };
    document.add_output("inputs", outputs).unwrap();
    document
        .add_output(
            "words",
            Output::new(Expression::variable("words")).sensitive(),
        )
        .unwrap();
    let outputs = outputs_of(&document);
    assert_eq!(outputs["inputs"], json!(["n0", "n1"]));
    assert_eq!(outputs["words"], json!(["${not evaluated}"]));
}

#[test]
fn an_encrypted_state_is_written_by_a_method_that_is_named_bare() {
    let mut document = Document::new();
    let provider = (Identifier::of("pbkdf2"), Identifier::of("main"));
    let method = (Identifier::of("aes_gcm"), Identifier::of("main"));
    let target = || EncryptionTarget {
        method: Reference::name("method")
            .attribute("aes_gcm")
            .attribute("main"),
        fallback: None,
        enforced: true,
    };
    let key = Reference::name("key_provider")
        .attribute("pbkdf2")
        .attribute("main");
    document.settings.encryption = Some(Encryption {
        key_providers: [(
            provider,
            Body::new()
                .set("passphrase", "a passphrase of ${the tests}")
                .set("iterations", 200_000_u64),
        )]
        .into(),
        methods: [(method, Body::new().set("keys", key))].into(),
        state: Some(target()),
        plan: Some(target()),
    });
    document.add_output("it", Output::new("${x}")).unwrap();
    assert_eq!(outputs_of(&document)["it"], json!("${x}"));
}

#[test]
fn an_empty_document_is_one_that_opentofu_applies() {
    assert_eq!(Document::new().to_bytes(), b"{}\n");
    assert!(outputs_of(&Document::new()).is_empty());
}

//! What a document looks like, and that it is read back as it was written.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn json_of(document: &Document) -> serde_json::Value {
    let bytes = document.to_bytes();
    let read = Document::parse(&bytes).expect("what was written is read");
    assert_eq!(
        String::from_utf8_lossy(&read.to_bytes()),
        String::from_utf8_lossy(&bytes)
    );
    serde_json::from_slice(&bytes).expect("it is JSON")
}

#[test]
fn the_order_of_building_does_not_show() {
    let port = |name: &'static str| Resource {
        body: Body::new()
            .set("name", name)
            .set("b", true)
            .set("a", Value::Null),
        meta: Meta::default(),
    };
    let mut one = Document::new();
    let mut other = Document::new();
    for name in ["x", "y", "z"] {
        one.add_resource("kind_a", name, port("n")).expect("new");
        one.add_local(name, 1_u64).expect("new");
    }
    for name in ["z", "x", "y"] {
        other.add_local(name, 1_u64).expect("new");
        other.add_resource("kind_a", name, port("n")).expect("new");
    }
    assert_eq!(one.to_bytes(), other.to_bytes());
    let value = |keys: [&'static str; 3]| Value::object(keys.map(|key| (key, 1_u64))).to_json();
    assert_eq!(
        value(["a", "b", "${"]).to_string(),
        value(["${", "b", "a"]).to_string()
    );
}

#[test]
fn an_absent_block_an_empty_one_and_null_are_three_things() {
    let resource = Resource {
        body: Body::new()
            .blocks("absent", [])
            .block("empty", Body::new())
            .set("null", Value::Null)
            .set("none", Value::List(Vec::new()))
            .set_some("unset", None::<bool>),
        meta: Meta::default(),
    };
    let mut document = Document::new();
    document.add_resource("k", "n", resource).expect("new");
    assert_eq!(
        json_of(&document)["resource"]["k"]["n"],
        json!({ "empty": [{}], "none": [], "null": null })
    );
}

#[test]
fn references_stand_bare_where_opentofu_wants_them_and_evaluated_elsewhere() {
    let reference = Reference::resource("kind_a", "x");
    let provider = ProviderReference {
        name: Identifier::of("oci"),
        alias: Some(Identifier::of("home")),
    };
    let resource = Resource {
        body: Body::new().set("of", &reference),
        meta: Meta {
            depends_on: vec![reference.clone()],
            provider: Some(provider.clone()),
            lifecycle: Lifecycle {
                ignore_changes: IgnoreChanges::These(vec![
                    Reference::name("tags").key("run"),
                    Reference::name("source").index(0).attribute("id"),
                ]),
                replace_triggered_by: vec![reference.clone()],
                ..Lifecycle::default()
            },
            ..Meta::default()
        },
    };
    let mut document = Document::new();
    document.add_resource("k", "n", resource).expect("new");
    document.add_import(Import {
        to: reference.clone(),
        id: "an ${id}".into(),
        provider: Some(provider.clone()),
        for_each: None,
    });
    document.add_removed(Removed {
        from: reference.clone(),
        destroy: Some(false),
    });
    document.add_moved(Moved {
        from: reference.clone(),
        to: reference.clone().index(0),
    });
    document
        .add_module(
            "m",
            Module {
                source: "./m".into(),
                version: None,
                arguments: Body::new().set("a", "${b}"),
                providers: vec![(
                    ProviderReference {
                        name: Identifier::of("oci"),
                        alias: None,
                    },
                    provider,
                )],
                meta: Meta::default(),
            },
        )
        .expect("new");
    assert_eq!(
        json_of(&document),
        json!({
            "import": [{ "id": "an $${id}", "provider": "oci.home", "to": "kind_a.x" }],
            "module": { "m": { "a": "$${b}", "providers": { "oci": "oci.home" }, "source": "./m" } },
            "moved": [{ "from": "kind_a.x", "to": "kind_a.x[0]" }],
            "removed": [{ "from": "kind_a.x", "lifecycle": { "destroy": false } }],
            "resource": { "k": { "n": {
                "depends_on": ["kind_a.x"],
                "lifecycle": {
                    "ignore_changes": ["tags[\"run\"]", "source[0].id"],
                    "replace_triggered_by": ["kind_a.x"],
                },
                "of": "${kind_a.x}",
                "provider": "oci.home",
            } } },
        })
    );
}

#[test]
fn nothing_is_defined_twice_and_no_meta_argument_is_an_argument() {
    let mut document = Document::new();
    let resource = Resource::default();
    document
        .add_resource("k", "n", resource.clone())
        .expect("new");
    assert_eq!(
        document.add_resource("k", "n", resource),
        Err(BuildError::Twice {
            address: "k.n".to_owned()
        })
    );
    let resource = Resource {
        body: Body::new().set("count", 2_u64),
        meta: Meta::default(),
    };
    assert!(matches!(
        document.add_resource("k", "o", resource),
        Err(BuildError::Reserved { .. })
    ));
    let alias = Body::new().set("alias", "a");
    assert!(document.add_provider("oci", None, alias).is_err());
}

#[test]
fn the_settings_are_one_object_with_one_entry_for_each_provider() {
    let mut document = Document::new();
    for (name, source) in [("talos", "siderolabs/talos"), ("oci", "oracle/oci")] {
        document.settings.required_providers.insert(
            Identifier::of(name),
            RequiredProvider {
                source: source.to_owned(),
                version: Some("~> 1.0".to_owned()),
            },
        );
    }
    document.settings.backend = Some((Identifier::of("http"), Body::new()));
    assert_eq!(
        json_of(&document),
        json!({ "terraform": {
            "backend": { "http": {} },
            "required_providers": {
                "oci": { "source": "oracle/oci", "version": "~> 1.0" },
                "talos": { "source": "siderolabs/talos", "version": "~> 1.0" },
            },
        } })
    );
}

#[test]
fn a_document_of_another_form_is_refused_with_the_place() {
    for (text, place) in [
        ("{", ""),
        ("[]", ""),
        (r#"{ "resources": {} }"#, "resources"),
        (r#"{ "resource": { "k": 1 } }"#, "resource.k"),
        (r#"{ "resource": { "k": { "1": {} } } }"#, "resource.k.1"),
        (
            r#"{ "resource": { "k": { "n": { "depends_on": ["${a.b}"] } } } }"#,
            "resource.k.n.depends_on",
        ),
        (r#"{ "output": { "o": {} } }"#, "output.o"),
        (
            r#"{ "output": { "o": { "value": "${" } } }"#,
            "output.o.value",
        ),
        (
            r#"{ "variable": { "v": { "sensitive": "yes" } } }"#,
            "variable.v.sensitive",
        ),
        (r#"{ "moved": [{ "from": "a.b" }] }"#, "moved[0]"),
        (
            r#"{ "check": { "c": { "assert": [{ "condition": true, "error_message": "" }] } } }"#,
            "check.c.assert[0].condition",
        ),
    ] {
        let error = Document::parse(text.as_bytes()).expect_err(text);
        assert!(error.to_string().contains(place), "{text}: {error}");
    }
    let comment = r#"{ "//": "for people", "resource": { "k": { "n": { "//": 1, "a": 1 } } } }"#;
    let read = Document::parse(comment.as_bytes()).expect("comments are no members");
    assert_eq!(
        read.to_json(),
        json!({ "resource": { "k": { "n": { "a": 1 } } } })
    );
}

fn value() -> impl Strategy<Value = Value> {
    let text = "[a${}%\"\\\\ ]{0,8}";
    let template = prop::collection::vec((text, prop::bool::ANY), 0..4).prop_map(|pieces| {
        pieces
            .into_iter()
            .fold(Template::new(), |template, (text, expression)| {
                let template = template.text(text.clone());
                if expression {
                    // `${"$"}` is how a `$` is written, so it is read as one.
                    template.expression(Expression::string(&format!("x{text}")))
                } else {
                    template
                }
            })
    });
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        template.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map(template.clone(), inner, 0..4).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_is_read_as_it_was_written(value in value()) {
        prop_assert_eq!(Value::parse(&value.to_json()), Ok(value));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a${}%\"\\\\\\[\\].]{0,16}") {
        let _ = Template::parse(&text);
        let _ = Reference::parse(&text);
        let _ = Expression::raw(text);
    }
}

//! Tests of masking: no form of a secret survives, and nothing else is touched.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn masker(secrets: &[&str]) -> Masker {
    let masker = Masker::new();
    for (i, secret) in secrets.iter().enumerate() {
        masker.add(&format!("s{i}"), &Secret::new(*secret));
    }
    masker
}

#[test]
fn what_is_no_secret_is_left_as_it_is_without_a_copy() {
    assert!(matches!(
        Masker::new().mask("anything"),
        Cow::Borrowed("anything")
    ));
    assert!(matches!(
        masker(&["s3cret-value"]).mask("other"),
        Cow::Borrowed("other")
    ));
    assert_eq!(masker(&[""]).mask("x"), "x");
}

#[test]
fn every_place_is_masked_and_the_text_around_it_stays() {
    let masked = masker(&["s3cret-value"]);
    assert_eq!(
        masked.mask("a s3cret-value, s3cret-values3cret-value"),
        "a [secret], [secret][secret]"
    );
    assert_eq!(
        masked.mask_bytes(b"\xffs3cret-value\xff").as_ref(),
        b"\xff[secret]\xff"
    );
}

#[test]
fn of_two_secrets_that_overlap_neither_shows() {
    let masked = masker(&["abcdefgh", "fghijklm", "defgh", "cdefghij"]);
    assert_eq!(masked.mask("<abcdefghijklm>"), "<[secret]>");
    assert_eq!(
        masker(&["abcdef", "abcdefghij"]).mask("abcdefghij abcdefgh"),
        "[secret] [secret]gh"
    );
}

#[test]
fn short_secrets_are_named_and_not_masked() {
    let masker = masker(&["12345", "äöüäö", "123456"]);
    assert_eq!(masker.unmaskable(), ["s0", "s1"]);
    assert_eq!(masker.mask("12345 äöüäö"), "12345 äöüäö");
    assert_eq!(masker.mask("123456"), MASK);
}

#[test]
fn clones_share_what_they_learn_later() {
    let one = Masker::new();
    let other = one.clone();
    assert_eq!(other.mask("first-secret"), "first-secret");
    one.add_text("output", "first-secret");
    assert_eq!(other.mask("first-secret"), MASK);
    one.add_text("output", "second-secret");
    assert_eq!(
        other.mask("first-secret second-secret"),
        "[secret] [secret]"
    );
    assert!(!format!("{one:?}").contains("first"));
}

#[test]
fn each_long_line_of_a_secret_is_one_too() {
    let masker = masker(&["-----BEGIN KEY-----\r\n  MIIabcdef\nend\n-----END KEY-----\n"]);
    assert_eq!(
        masker.mask("said MIIabcdef and end"),
        "said [secret] and end"
    );
    assert_eq!(
        masker.mask("-----BEGIN KEY-----\n  MIIabcdef\nend\n-----END KEY-----"),
        "[secret]\n[secret]\nend\n[secret]"
    );
    assert_eq!(masker.mask("      "), "      ");
}

#[test]
fn the_ways_in_which_programs_write_a_secret_are_all_known() {
    let secret = "p<&ä\"\\\n\t'${x}/%{ ü+=@€𝄞";
    let masked = masker(&[secret]);
    let forms = [
        // Go's encoding/json, with and without its short forms and its escapes for HTML.
        r#"p\u003c\u0026ä\"\\\n\t'${x}/%{ ü+=@€𝄞"#,
        r#"p<&ä\"\\\n\t'${x}/%{ ü+=@€𝄞"#,
        // Python's json.dumps and repr.
        r#"p<&\u00e4\"\\\n\t'${x}/%{ \u00fc+=@\u20ac\ud834\udd1e"#,
        r#"p<&ä"\\\n\t\'${x}/%{ ü+=@€𝄞"#,
        // A quoted string of HCL, as such and inside a JSON event.
        r#"p<&ä\"\\\n\t'$${x}/%%{ ü+=@€𝄞"#,
        r#"p\u003c\u0026ä\\\"\\\\\\n\\t'$${x}/%%{ ü+=@€𝄞"#,
        // Query and path of a URL.
        "p%3C%26%C3%A4%22%5C%0A%09%27%24%7Bx%7D%2F%25%7B+%C3%BC%2B%3D%40%E2%82%AC%F0%9D%84%9E",
        "p%3c%26%c3%a4%22%5c%0a%09%27%24%7bx%7d%2f%25%7b%20%c3%bc%2b%3d%40%e2%82%ac%f0%9d%84%9e",
        "p%3C&%C3%A4%22%5C%0A%09%27$%7Bx%7D%2F%25%7B%20%C3%BC+=@%E2%82%AC%F0%9D%84%9E",
    ];
    for form in forms {
        assert_eq!(masked.mask(&format!("<{form}>")), "<[secret]>", "{form}");
    }
    let json = serde_json::to_string(secret).unwrap();
    assert_eq!(masked.mask(&json), "\"[secret]\"");
    assert_eq!(
        masked.mask(&serde_json::to_string(&json).unwrap()),
        r#""\"[secret]\"""#
    );
}

#[test]
fn a_basic_credential_hides_its_password() {
    let masked = masker(&["correct horse battery"]);
    for user in ["a", "ab", "abc", ""] {
        let header = STANDARD.encode(format!("{user}:correct horse battery"));
        let shown = masked.mask(&header).into_owned();
        assert!(shown.contains(MASK), "{user}: {shown}");
        // What is left stands for the user's name and the edges, which two bytes share.
        assert!(shown.len() - MASK.len() <= 10, "{user}: {shown}");
    }
}

#[test]
fn a_long_base64_text_is_found_in_its_folded_lines() {
    let secret = "k".repeat(301);
    let masked = masker(&[&secret]);
    let encoded = STANDARD.encode(&secret);
    for width in [64, 76] {
        let lines = encoded
            .as_bytes()
            .chunks(width)
            .map(|line| std::str::from_utf8(line).unwrap());
        for line in lines.filter(|line| line.len() > 8) {
            let shown = masked.mask(line).into_owned();
            assert!(
                shown.starts_with(MASK) && shown.len() <= MASK.len() + 4,
                "{shown}"
            );
        }
    }
}

#[test]
fn a_json_document_is_masked_in_values_keys_and_numbers_and_keeps_its_shape() {
    let masker = masker(&["s3cret\"value", "31337000"]);
    let mut document = json!({
        "a": ["x s3cret\"value y", {"s3cret\"value": 1, "s3cret\\\"value": 2, "z": null}],
        "n": 31_337_000, "m": 4, "t": true,
    });
    masker.mask_json(&mut document);
    let expected = json!({
        "a": ["x [secret] y", {"[secret]": 1, "[secret] 2": 2, "z": null}],
        "n": "[secret]", "m": 4, "t": true,
    });
    assert_eq!(document, expected);
    let order: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert_eq!(order, ["a", "n", "m", "t"]);
}

/// Every plain encoder of the libraries, written independently of `forms`.
fn encodings(secret: &str) -> Vec<String> {
    let json = serde_json::to_string(secret).unwrap();
    let mut all = vec![
        secret.to_owned(),
        json[1..json.len() - 1].to_owned(),
        percent_encoding::utf8_percent_encode(secret, percent_encoding::NON_ALPHANUMERIC)
            .to_string(),
    ];
    for before in ["", "u", "us", "use"] {
        for after in ["", "\n"] {
            let whole = format!("{before}{secret}{after}");
            for encoded in [STANDARD.encode(&whole), URL_SAFE.encode(&whole)] {
                // What no neighbour has a part in.
                let first = (before.len() * 8).div_ceil(6);
                let last = (before.len() + secret.len()) * 8 / 6;
                all.push(encoded[first..last].to_owned());
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_form_of_a_secret_survives(
        secrets in proptest::collection::vec("[a-zA-Z0-9+/=\"\\\\\n\t <&>ä€'$%{}~:@-]{1,40}", 1..4),
        noise in "[ -~\n]{0,30}",
        choice in any::<prop::sample::Index>(),
        neighbour in any::<prop::sample::Index>(),
    ) {
        // A text that is part of the mask itself shows in every mask.
        prop_assume!(secrets.iter().all(|secret| !MASK.contains(secret.trim())));
        let masker = Masker::new();
        let mut shown = Vec::new();
        for (i, secret) in secrets.iter().enumerate() {
            masker.add_text(&i.to_string(), secret);
            if !masker.unmaskable().contains(&i.to_string()) {
                shown.extend(encodings(secret));
            }
        }
        prop_assume!(!shown.is_empty());
        let text = format!(
            "{noise}{}{noise}{}{}{noise}",
            choice.get(&shown), neighbour.get(&shown), choice.get(&shown)
        );
        let masked = masker.mask(&text);
        for form in &shown {
            prop_assert!(!masked.contains(form.as_str()), "{form:?} in {masked:?} of {text:?}");
        }
        let masked_bytes = masker.mask_bytes(text.as_bytes());
        prop_assert_eq!(masked_bytes.as_ref(), masked.as_bytes());
    }

    #[test]
    fn a_secret_in_any_json_document_is_gone_from_its_text(
        secret in "[a-z\"\\\\\n<ä]{6,20}",
        key in "[a-z]{0,8}",
        before in "[ -~]{0,8}",
    ) {
        prop_assume!(secret.trim().chars().count() >= 6);
        let masker = masker(&[&secret]);
        let mut document = json!({key: [{secret.clone(): format!("{before}{secret}")}]});
        let text = document.to_string();
        masker.mask_json(&mut document);
        let escaped = serde_json::to_string(&secret).unwrap();
        let inner = &escaped[1..escaped.len() - 1];
        prop_assert!(!document.to_string().contains(inner));
        // And line by line, as events are masked.
        prop_assert!(!masker.mask(&text).contains(inner));
    }
}

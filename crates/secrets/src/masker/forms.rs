//! Every form in which a secret shows up in output: plain, JSON, base64, URL.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use zeroize::Zeroizing;

use super::SHORTEST;

/// Every form of a secret and of its lines; none for one that is too short to be masked.
pub(super) fn of(text: &str) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for piece in pieces(text) {
        add_forms_of_piece(piece, &mut forms);
    }
    forms
}

/// The whole, what is left of it without the space around it, and each line of several.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = vec![text, text.trim()];
    if text.contains(['\n', '\r']) {
        pieces.extend(
            text.split(['\n', '\r'])
                .flat_map(|line| [line, line.trim()]),
        );
    }
    // The space around a short word makes it no better known.
    pieces.retain(|piece| piece.trim().chars().count() >= SHORTEST);
    pieces.dedup();
    pieces
}

fn add_forms_of_piece(piece: &str, forms: &mut Vec<Vec<u8>>) {
    let mut add = |form: Vec<u8>| forms.push(form);
    add(piece.as_bytes().to_vec());

    for escaped in escaped_forms(piece) {
        // A message that quotes it is itself a string of the event that carries it.
        for twice in escaped_forms(&escaped) {
            add(twice.into_bytes());
        }
        add(escaped.into_bytes());
    }
    for (engine, alphabet) in [(&STANDARD_NO_PAD, "+/"), (&URL_SAFE_NO_PAD, "-_")] {
        for offset in 0..3 {
            let form = base64_within(engine, piece.as_bytes(), offset);
            if offset == 0 {
                add_wrapped(&form, &mut add);
            }
            if alphabet == "+/" && form.contains('/') {
                // Some JSON writers escape the slash.
                add(form.replace('/', "\\/").into_bytes());
            }
            add(form.into_bytes());
        }
    }
    for set in url_sets() {
        let form = percent_encode(piece.as_bytes(), set).to_string();
        add(lower_hex(&form).into_bytes());
        add(form.replace("%20", "+").into_bytes());
        add(form.into_bytes());
    }
}

/// As a JSON string without its quotes, the way that several writers escape it; as a string of HCL
/// or Python, which differ in little.
fn escaped_forms(text: &str) -> Vec<String> {
    let json = |is_escaped: &dyn Fn(char) -> bool, is_short: bool| {
        let mut out = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' if is_short => out.push_str("\\b"),
                '\u{c}' if is_short => out.push_str("\\f"),
                c if c < ' ' || is_escaped(c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out
    };
    let nothing = |_: char| false;
    // Go's encoding/json, which OpenTofu writes with, escapes these for HTML's sake.
    let html = |c: char| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
    let not_ascii = |c: char| !c.is_ascii() || c == '\u{7f}';

    let plain = json(&nothing, true);
    let mut forms = vec![
        plain.replace("${", "$${").replace("%{", "%%{"),
        plain.replace("\\\"", "\""),
        plain.replace("\\\"", "\"").replace('\'', "\\'"),
        plain.replace('/', "\\/"),
        json(&nothing, false),
        json(&html, true),
        json(&html, false),
        json(&not_ascii, true),
        plain,
    ];
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// The characters of a base64 text that stand for this piece alone, wherever it lies in what was
/// encoded: `offset` is the place of its first byte in a group of three.
fn base64_within(engine: &impl Engine, piece: &[u8], offset: usize) -> String {
    let mut bytes = Zeroizing::new(vec![0; offset]);
    bytes.extend_from_slice(piece);
    let encoded = engine.encode(&*bytes);
    let first = (offset * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    encoded[first..last].to_owned()
}

/// Encoders that fold their lines cut a long text into pieces of 76 (MIME) or 64 (PEM) characters.
fn add_wrapped(form: &str, add: &mut impl FnMut(Vec<u8>)) {
    for width in [64, 76] {
        if form.len() > width {
            let lines = form.as_bytes().chunks(width);
            lines
                .filter(|line| line.len() >= SHORTEST)
                .for_each(|line| add(line.to_vec()));
        }
    }
}

/// What is left as it is differs: RFC 3986, JavaScript's encodeURIComponent, Go's paths and user
/// parts, nothing at all.
fn url_sets() -> [&'static AsciiSet; 5] {
    const RFC_3986: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~');
    const COMPONENT: &AsciiSet = &RFC_3986
        .remove(b'!')
        .remove(b'\'')
        .remove(b'(')
        .remove(b')')
        .remove(b'*');
    const GO_USER: &AsciiSet = &RFC_3986
        .remove(b'$')
        .remove(b'&')
        .remove(b'+')
        .remove(b',')
        .remove(b';')
        .remove(b'=');
    const GO_PATH: &AsciiSet = &RFC_3986
        .remove(b'$')
        .remove(b'&')
        .remove(b'+')
        .remove(b'=')
        .remove(b':')
        .remove(b'@');
    [NON_ALPHANUMERIC, RFC_3986, COMPONENT, GO_USER, GO_PATH]
}

/// `%2F` as `%2f`, and nothing else changed.
fn lower_hex(encoded: &str) -> String {
    let mut out = String::with_capacity(encoded.len());
    let mut n_hex = 0;
    for c in encoded.chars() {
        if c == '%' {
            n_hex = 2;
            out.push(c);
        } else if n_hex > 0 {
            n_hex -= 1;
            out.push(c.to_ascii_lowercase());
        } else {
            out.push(c);
        }
    }
    out
}

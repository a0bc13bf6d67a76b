//! The access log: one record for each request, without a secret in it.

use serde::Serialize;
use std::net::SocketAddr;

/// The longest text of a record that a stranger has chosen, in bytes.
const MAX_TEXT: usize = 600;

/// One request and its answer. No header and no body is ever part of it, nor a query but the lock's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessRecord {
    /// When it was answered, RFC 3339.
    pub at: String,
    /// From where it came.
    pub peer: SocketAddr,
    /// The name of the credential; none where it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The method.
    pub method: String,
    /// The path of the address.
    pub path: String,
    /// The id of the state's lock, where one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The status that was answered.
    pub status: u16,
    /// Bytes of the request's body.
    pub n_bytes_in: u64,
    /// Bytes of the answer's body.
    pub n_bytes_out: u64,
    /// How long it took until the answer was ready, in milliseconds.
    pub milliseconds: u64,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What will go wrong later if nobody looks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// What is said of a state that comes near to the biggest that is taken: four fifths of it, or more.
pub(crate) fn near(n_bytes: u64, most: u64) -> Option<String> {
    (n_bytes > most / 5 * 4).then(|| {
        format!(
            "the state has {n_bytes} bytes, and {most} is the most that is taken: raise `state_mib` of `[limits]`, or part the root module, \
             before a write is refused at the end of an apply"
        )
    })
}

/// A stranger's text, cut to a length that a log can bear.
pub(crate) fn short(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_more_than_four_fifths_is_near() {
        let mib = 1024 * 1024;
        assert_eq!(near(mib / 2, mib), None);
        let near = near(mib / 10 * 9, mib).expect("near");
        assert!(near.contains("state_mib"), "{near}");
        assert_eq!(super::near(0, 0), None);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(short("abc"), "abc");
        let long = "ä".repeat(1000);
        assert_eq!(short(&long).len(), MAX_TEXT);
        assert_eq!(short(&format!("a{long}")).len(), MAX_TEXT - 1);
    }
}

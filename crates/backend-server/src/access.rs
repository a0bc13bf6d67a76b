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
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(short("abc"), "abc");
        let long = "ä".repeat(1000);
        assert_eq!(short(&long).len(), MAX_TEXT);
        assert_eq!(short(&format!("a{long}")).len(), MAX_TEXT - 1);
    }
}

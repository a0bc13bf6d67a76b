//! Values that mean "absent".
//!
//! A server that can't delete one version only (most that speak S3 and are not Amazon's) is given
//! a tombstone by a conditional write instead: whoever writes it has deleted that version and no
//! other. It is not removed afterwards. A removal without a condition could hit the value that the
//! next writer has put in its place in between, and that writer has been told that its write is
//! durable. So a tombstone stays until the key is written again, which replaces it under its tag.
//! All stores know tombstones, also those that never write one: what a server can do may change.

use rand::RngCore as _;

/// What every tombstone begins with. Values that begin so are refused.
const MARK: &[u8] = b"rebuild:tombstone:deleted:8f1c9a52d3b7\n";
/// The hexadecimal digits behind it that make one tombstone differ from the next.
const N_DIGITS: usize = 32;
/// The length of every tombstone, by which a listing tells what may be one.
pub(crate) const LENGTH: u64 = (MARK.len() + N_DIGITS + 1) as u64;

/// Makes a new tombstone. Each is different, so that its tag is.
pub(crate) fn new() -> Vec<u8> {
    use std::fmt::Write as _;
    let mut nonce = [0; N_DIGITS / 2];
    rand::rng().fill_bytes(&mut nonce);
    let mut digits = String::with_capacity(N_DIGITS);
    for byte in nonce {
        let _ = write!(digits, "{byte:02x}");
    }
    [MARK, digits.as_bytes(), b"\n"].concat()
}

/// Whether a body is a tombstone.
pub(crate) fn is(body: &[u8]) -> bool {
    body.starts_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tombstones_are_known_and_differ_and_have_one_length() {
        let (one, other) = (new(), new());
        assert_ne!(one, other);
        for body in [&one, &other] {
            assert!(is(body));
            assert_eq!(body.len() as u64, LENGTH);
        }
        for body in [&b""[..], b"{}", &MARK[1..], &one[1..]] {
            assert!(!is(body));
        }
    }
}

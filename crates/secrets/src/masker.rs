//! Takes known secrets out of everything that is written down.

mod forms;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde_json::Value;

use crate::secret::Secret;

/// What stands where a secret was.
pub const MASK: &str = "[secret]";

/// Secrets shorter than this, in characters, are found in too much that is none: not masked.
const SHORTEST: usize = 6;

/// Knows the secrets of a call and masks every form of them. Clones share what they know.
#[derive(Clone, Default)]
pub struct Masker {
    shared: Arc<RwLock<Known>>,
}

#[derive(Default)]
struct Known {
    forms: BTreeSet<Vec<u8>>,
    unmaskable: BTreeSet<String>,
    /// Built when first needed after a change.
    searcher: Option<Arc<AhoCorasick>>,
}

impl Masker {
    /// Knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns a secret by its name. One that is too short to be masked is noted by its name.
    pub fn add(&self, name: &str, secret: &Secret) {
        self.add_text(name, secret.expose());
    }

    /// The same for a value that came as plain text, such as a sensitive output.
    pub fn add_text(&self, name: &str, text: &str) {
        let forms = forms::of(text);
        let mut known = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if forms.is_empty() {
            if !text.is_empty() {
                known.unmaskable.insert(name.to_owned());
            }
            return;
        }
        let before = known.forms.len();
        known.forms.extend(forms);
        if known.forms.len() != before {
            known.searcher = None;
        }
    }

    /// The names of secrets that are too short to be masked, in order.
    #[must_use]
    pub fn unmaskable(&self) -> Vec<String> {
        let known = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        known.unmaskable.iter().cloned().collect()
    }

    /// Gives the text with every form of every secret replaced by [`MASK`].
    #[must_use]
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.mask_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Forms are whole texts, so cutting them out leaves text.
            Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        }
    }

    /// The same for bytes that may be no text.
    #[must_use]
    pub fn mask_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(searcher) = self.searcher() else {
            return Cow::Borrowed(bytes);
        };
        let mut found: Vec<(usize, usize)> = searcher
            .find_overlapping_iter(bytes)
            .map(|found| (found.start(), found.end()))
            .collect();
        if found.is_empty() {
            return Cow::Borrowed(bytes);
        }
        // Where two secrets overlap the whole stretch goes: the end of the second is secret too.
        found.sort_unstable();
        let mut masked = Vec::with_capacity(bytes.len());
        let (mut start, mut end) = (0, 0);
        let mut copied = 0;
        for (next_start, next_end) in found.into_iter().chain([(usize::MAX, usize::MAX)]) {
            if next_start < end {
                end = end.max(next_end);
                continue;
            }
            if end > start {
                masked.extend_from_slice(&bytes[copied..start]);
                masked.extend_from_slice(MASK.as_bytes());
                copied = end;
            }
            (start, end) = (next_start, next_end);
        }
        masked.extend_from_slice(&bytes[copied..]);
        Cow::Owned(masked)
    }

    /// Masks every text of a JSON document, the keys of objects too, and numbers that are secrets.
    pub fn mask_json(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if let Cow::Owned(masked) = self.mask(&number.to_string()) {
                    *value = Value::String(masked);
                }
            }
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_json(item)),
            Value::Object(members) => {
                let is_known = |key: &String| matches!(self.mask(key), Cow::Owned(_));
                if members.keys().any(is_known) {
                    for (key, member) in std::mem::take(members) {
                        let masked = self.mask(&key).into_owned();
                        let mut name = masked.clone();
                        // Two secrets as keys must not become one member.
                        let mut n_same = 1;
                        while members.contains_key(&name) {
                            n_same += 1;
                            name = format!("{masked} {n_same}");
                        }
                        members.insert(name, member);
                    }
                }
                members
                    .values_mut()
                    .for_each(|member| self.mask_json(member));
            }
        }
    }

    fn searcher(&self) -> Option<Arc<AhoCorasick>> {
        {
            let known = self.shared.read().unwrap_or_else(PoisonError::into_inner);
            if known.forms.is_empty() {
                return None;
            }
            if let Some(searcher) = &known.searcher {
                return Some(Arc::clone(searcher));
            }
        }
        let mut known = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        if known.searcher.is_none() {
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                // Left to itself it makes a DFA of few patterns, which takes more memory.
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(&known.forms)
                .expect("as many forms as fit into memory fit into a searcher");
            known.searcher = Some(Arc::new(built));
        }
        known.searcher.clone()
    }
}

/// Tells how many, never which.
impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Masker")
            .field("n_forms", &known.forms.len())
            .field("unmaskable", &known.unmaskable)
            .finish()
    }
}

#[cfg(test)]
#[path = "masker/tests.rs"]
mod tests;

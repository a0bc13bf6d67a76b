//! What was rendered, and what it would change on disk.

use std::collections::{BTreeMap, BTreeSet};

use crate::ProviderName;

/// The file of what the providers share.
pub(crate) const SHARED: &str = "main.tf.json";

/// The files of a root module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Names and contents.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The providers that it uses.
    pub providers: BTreeSet<ProviderName>,
    /// Variables that must be set.
    pub inputs: BTreeSet<String>,
    /// Those of them that are secrets.
    pub secret_inputs: BTreeSet<String>,
    /// How many things OpenTofu may do at once; its own rule otherwise. Bitwarden's client is not safe in
    /// parallel.
    pub parallelism: Option<u32>,
    /// Whether a plan of it holds secrets that no provider marks, such as `user_data`. It is never printed in
    /// full.
    pub plan_is_secret: bool,
    /// Whether it has `check` blocks.
    pub(crate) has_checks: bool,
    /// Mocks of its providers, for a test.
    pub(crate) mocks: BTreeMap<ProviderName, String>,
}

/// The test of a rendered module, below its directory.
const TEST: &str = "tests/rendered.tftest.hcl";

impl Rendered {
    /// Returns the name and text of a test that plans and applies the module against mocks of its providers:
    /// `tofu test` needs no credentials then, and finds what `validate` can't see. `asserts` stand in its apply.
    /// None where there are no providers.
    #[must_use]
    pub fn mocked_test(&self, asserts: &str) -> Option<(String, String)> {
        if self.providers.is_empty() {
            return None;
        }
        let mocks = self.providers.iter().map(|name| self.mocks.get(name));
        let mut text: String = mocks.flatten().map(String::as_str).collect();
        if !self.inputs.is_empty() {
            let longest = self
                .inputs
                .iter()
                .map(String::len)
                .max()
                .unwrap_or_default();
            text.push_str("variables {\n");
            for input in &self.inputs {
                text.push_str(&format!("  {input:<longest$} = \"a value\"\n"));
            }
            text.push_str("}\n\n");
        }
        // What a check looks at is not known before the apply, and a test takes that for a failure.
        if !self.has_checks {
            text.push_str("run \"plan\" {\n  command = plan\n}\n\n");
        }
        text.push_str("run \"apply\" {\n");
        text.push_str(asserts);
        text.push_str("}\n");
        Some((TEST.to_owned(), text))
    }
}

/// Something to do to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Write it: it is new or differs.
    Write(String),
    /// Remove it: its provider is no longer used.
    Remove(String),
}

impl Rendered {
    /// Compares with what a directory holds; names that are never rendered are left alone.
    #[must_use]
    pub fn changes(&self, on_disk: &BTreeMap<String, Vec<u8>>) -> Vec<Change> {
        let ours = names();
        let written = self
            .files
            .iter()
            .filter(|(name, bytes)| on_disk.get(*name) != Some(*bytes))
            .map(|(name, _)| Change::Write(name.clone()));
        let removed = on_disk
            .keys()
            .filter(|name| ours.contains(*name) && !self.files.contains_key(*name))
            .map(|name| Change::Remove(name.clone()));
        written.chain(removed).collect()
    }
}

/// Returns the names of all files that are ever rendered.
#[must_use]
pub fn names() -> BTreeSet<String> {
    let all = ProviderName::ALL.into_iter().map(file_of);
    all.chain([SHARED.to_owned(), TEST.to_owned()]).collect()
}

/// Returns the name of a provider's file.
pub(crate) fn file_of(provider: ProviderName) -> String {
    format!("{provider}.tf.json")
}

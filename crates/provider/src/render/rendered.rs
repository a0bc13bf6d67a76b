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
        let ours: BTreeSet<String> = ProviderName::ALL
            .into_iter()
            .map(file_of)
            .chain([SHARED.to_owned()])
            .collect();
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

/// Returns the name of a provider's file.
pub(crate) fn file_of(provider: ProviderName) -> String {
    format!("{provider}.tf.json")
}

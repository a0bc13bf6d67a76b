//! The dependency lock file (`.terraform.lock.hcl`): read, merged, written in OpenTofu's own form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body};

/// The file's name beside a root module's files.
pub const LOCK_FILE_NAME: &str = ".terraform.lock.hcl";

/// Why a lock file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum LockFileError {
    /// It is not UTF-8.
    #[error("the dependency lock file is not UTF-8")]
    NotText(#[source] std::str::Utf8Error),
    /// It is not in OpenTofu's language.
    #[error("cannot read the dependency lock file")]
    Syntax(#[source] Box<hcl_edit::parser::Error>),
    /// A block or attribute is not as OpenTofu writes it.
    #[error("the dependency lock file has {0}")]
    Shape(String),
}

/// What is locked for one provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockEntry {
    /// The selected version.
    pub version: String,
    /// The version constraints of the configuration when it was selected.
    pub constraints: Option<String>,
    /// Checksums, `h1:` and `zh:`.
    pub hashes: BTreeSet<String>,
}

/// A dependency lock file: entries by source address (`registry.opentofu.org/hashicorp/local`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockFile {
    /// The entries.
    pub entries: BTreeMap<String, LockEntry>,
}

impl LockFile {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// When it is not a dependency lock file.
    pub fn parse(bytes: &[u8]) -> Result<Self, LockFileError> {
        let text = std::str::from_utf8(bytes).map_err(LockFileError::NotText)?;
        let body: Body = text
            .parse()
            .map_err(|error| LockFileError::Syntax(Box::new(error)))?;
        let mut entries = BTreeMap::new();
        for block in body
            .blocks()
            .filter(|block| block.ident.as_str() == "provider")
        {
            let (address, entry) = entry(block)?;
            if entries.insert(address.clone(), entry).is_some() {
                return Err(LockFileError::Shape(format!(
                    "two entries for provider `{address}`"
                )));
            }
        }
        Ok(Self { entries })
    }

    /// Today's entries, and those of the last applied definitions for providers that only the state
    /// still has. An entry of neither today's configuration nor the state would be surplus, which
    /// OpenTofu refuses.
    #[must_use]
    pub fn merge(today: &Self, last: Option<&Self>, state_providers: &BTreeSet<String>) -> Self {
        let mut merged = today.clone();
        for (address, entry) in last.into_iter().flat_map(|last| &last.entries) {
            if state_providers.contains(address) && !merged.entries.contains_key(address) {
                merged.entries.insert(address.clone(), entry.clone());
            }
        }
        merged
    }
}

impl fmt::Display for LockFile {
    /// OpenTofu's own form, so that it finds nothing to rewrite.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("# This file is maintained automatically by \"tofu init\".\n# Manual edits may be lost in future updates.\n")?;
        for (address, entry) in &self.entries {
            use crate::encryption::quoted;
            writeln!(f, "\nprovider {} {{", quoted(address))?;
            match &entry.constraints {
                None => writeln!(f, "  version = {}", quoted(&entry.version))?,
                Some(constraints) => {
                    writeln!(f, "  version     = {}", quoted(&entry.version))?;
                    writeln!(f, "  constraints = {}", quoted(constraints))?;
                }
            }
            if !entry.hashes.is_empty() {
                f.write_str("  hashes = [\n")?;
                for hash in &entry.hashes {
                    writeln!(f, "    {},", quoted(hash))?;
                }
                f.write_str("  ]\n")?;
            }
            f.write_str("}\n")?;
        }
        Ok(())
    }
}

fn entry(block: &Block) -> Result<(String, LockEntry), LockFileError> {
    let [label] = block.labels.as_slice() else {
        return Err(LockFileError::Shape(
            "a provider block without exactly one label".to_owned(),
        ));
    };
    let address = label.as_str().to_owned();
    let text = |name: &str| {
        block
            .body
            .get_attribute(name)
            .and_then(|attribute| attribute.value.as_str())
    };
    let version = text("version")
        .ok_or_else(|| LockFileError::Shape(format!("no version for provider `{address}`")))?
        .to_owned();
    let constraints = text("constraints").map(str::to_owned);
    let hashes = match block
        .body
        .get_attribute("hashes")
        .map(|attribute| &attribute.value)
    {
        None => BTreeSet::new(),
        Some(Expression::Array(items)) => items
            .iter()
            .filter_map(Expression::as_str)
            .map(str::to_owned)
            .collect(),
        Some(_) => {
            return Err(LockFileError::Shape(format!(
                "hashes that are not a list for provider `{address}`"
            )));
        }
    };
    Ok((
        address,
        LockEntry {
            version,
            constraints,
            hashes,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = r#"# This file is maintained automatically by "tofu init".
# Manual edits may be lost in future updates.

provider "registry.opentofu.org/hashicorp/local" {
  version     = "1.4.0"
  constraints = "~> 1.4"
  hashes = [
    "h1:abc=",
    "zh:0123",
  ]
}

provider "registry.opentofu.org/hashicorp/null" {
  version = "3.2.1"
  hashes = [
    "h1:def=",
  ]
}
"#;

    #[test]
    fn what_opentofu_writes_is_read_and_written_the_same() {
        let file = LockFile::parse(FILE.as_bytes()).unwrap();
        assert_eq!(
            file.entries["registry.opentofu.org/hashicorp/local"]
                .constraints
                .as_deref(),
            Some("~> 1.4")
        );
        assert_eq!(file.to_string(), FILE);
    }

    #[test]
    fn only_what_the_state_still_has_comes_from_the_last() {
        let entry = |version: &str| LockEntry {
            version: version.into(),
            ..LockEntry::default()
        };
        let file = |entries: &[(&str, &str)]| LockFile {
            entries: entries
                .iter()
                .map(|(name, version)| ((*name).to_owned(), entry(version)))
                .collect(),
        };
        let today = file(&[("h/n/a", "2"), ("h/n/b", "1")]);
        let last = file(&[("h/n/a", "1"), ("h/n/gone", "1"), ("h/n/surplus", "1")]);
        let state = ["h/n/a".to_owned(), "h/n/gone".to_owned()].into();
        let merged = LockFile::merge(&today, Some(&last), &state);
        assert_eq!(
            merged,
            file(&[("h/n/a", "2"), ("h/n/b", "1"), ("h/n/gone", "1")])
        );
        assert_eq!(LockFile::merge(&today, None, &state), today);
    }

    #[test]
    fn damage_is_told() {
        for (text, expect) in [
            ("provider {", "cannot read the dependency lock file"),
            (
                "provider \"a\" {\n}\n",
                "the dependency lock file has no version for provider `a`",
            ),
            (
                "provider \"a\" {\n  version = \"1\"\n}\nprovider \"a\" {\n  version = \"1\"\n}\n",
                "the dependency lock file has two entries for provider `a`",
            ),
            (
                "provider {\n}\n",
                "the dependency lock file has a provider block without exactly one label",
            ),
        ] {
            assert_eq!(
                LockFile::parse(text.as_bytes()).unwrap_err().to_string(),
                expect
            );
        }
        assert!(LockFile::parse(&[0xff]).is_err());
    }

    proptest! {
        #[test]
        fn any_entry_is_read_back(
            entries in proptest::collection::btree_map(
                "[a-z.]{1,9}/[a-z]{1,5}/[a-z-]{1,9}",
                ("[0-9.]{1,8}", proptest::option::of("[ -~]{0,12}"), proptest::collection::btree_set("h1:[ -~]{0,12}", 0..3)),
                0..4,
            )
        ) {
            let file = LockFile {
                entries: entries
                    .into_iter()
                    .map(|(name, (version, constraints, hashes))| (name, LockEntry { version, constraints, hashes }))
                    .collect(),
            };
            prop_assert_eq!(LockFile::parse(file.to_string().as_bytes()).unwrap(), file);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = LockFile::parse(&bytes);
        }
    }
}

//! What no compiler checks, and what goes stale: each check returns its findings, one line each.

mod docs;
mod manifests;
mod sources;

pub(crate) use sources::{is_test_path, lines_of_code};

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::sh::note;

/// Runs every check over the tree.
pub(crate) fn run(root: &Path) -> Result<()> {
    let findings = findings(root)?;
    for finding in &findings {
        note(finding);
    }
    match findings.len() {
        0 => {
            note("tidy: nothing to say");
            Ok(())
        }
        n => bail!("tidy: {n} finding(s)"),
    }
}

fn findings(root: &Path) -> Result<Vec<String>> {
    let tree = Tree::read(root)?;
    let mut findings = Vec::new();
    findings.extend(sources::module_docs(&tree));
    findings.extend(sources::lengths(&tree));
    findings.extend(sources::words(&tree));
    findings.extend(manifests::members(&tree)?);
    findings.extend(manifests::arrows(&tree)?);
    findings.extend(manifests::lock_file(&tree));
    findings.extend(docs::paths(&tree));
    findings.extend(docs::exit_codes(&tree));
    findings.extend(docs::named_tests(&tree));
    findings.extend(docs::ci(&tree));
    Ok(findings)
}

/// The text files of the tree, apart from what is built or fetched.
struct Tree {
    root: PathBuf,
    files: Vec<File>,
}

struct File {
    /// Path within the tree, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| found == extension)
    }
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let mut tree = Self {
            root: root.to_path_buf(),
            files: Vec::new(),
        };
        tree.walk("")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn walk(&mut self, within: &str) -> Result<()> {
        const NOT_OURS: [&str; 4] = [".git", "target", ".tools", ".terraform"];
        let directory = self.root.join(within);
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("cannot read `{}`", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if within.is_empty() {
                name.clone()
            } else {
                format!("{within}/{name}")
            };
            let kind = entry.file_type()?;
            if NOT_OURS.contains(&name.as_str()) {
                continue;
            }
            if kind.is_dir() {
                self.walk(&path)?;
            } else if kind.is_file()
                && let Ok(text) = std::fs::read_to_string(entry.path())
            {
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|file| file.path == path)
            .map(|file| file.text.as_str())
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        });
        Self {
            root: PathBuf::from("/nowhere"),
            files: files.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = findings(&crate::sh::root()).expect("the tree can be read");
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }
}

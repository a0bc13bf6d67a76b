//! The canonical form of a module's files: OpenTofu's own `fmt`, and ours for JSON.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use platform::Bundle;
use similar::TextDiff;
use tofu::{CheckError as CommandError, Checker};

use crate::canonical_json::canonical;
use crate::report::Finding;
use crate::scope::{Subject, TEST_DIRECTORY};

/// Files in OpenTofu's native syntax: what `fmt` arranges.
const NATIVE: [&str; 5] = [".tf", ".tofu", ".tfvars", ".tftest.hcl", ".tofutest.hcl"];
/// The same in JSON, which `fmt` leaves alone.
const JSON: [&str; 5] = [
    ".tf.json",
    ".tofu.json",
    ".tfvars.json",
    ".tftest.json",
    ".tofutest.json",
];

/// The most lines of a diff that are shown.
const MOST_LINES: usize = 400;
/// How long a diff may take to become small.
const DIFF_PATIENCE: Duration = Duration::from_secs(2);

/// A file that is not in its canonical form.
pub(crate) struct Change {
    /// Its path within the platform.
    pub(crate) file: String,
    pub(crate) was: Vec<u8>,
    pub(crate) now: Vec<u8>,
}

/// What is to be changed in a module, and what has no canonical form.
pub(crate) struct Formatting {
    pub(crate) changes: Vec<Change>,
    /// Texts that can't be parsed; `validate` says the same of most of them.
    pub(crate) unreadable: Vec<Finding>,
}

/// Why the form could not be judged.
pub(crate) enum FormatError {
    Copy(io::Error),
    Command(CommandError),
}

/// Judges the files of a module and of its tests. `directory` is an empty one to work in.
pub(crate) fn judge(
    bundle: &Bundle,
    subject: &Subject,
    checker: &Checker,
    directory: &Path,
) -> Result<Formatting, FormatError> {
    let mut formatting = Formatting {
        changes: Vec::new(),
        unreadable: Vec::new(),
    };
    for (n, within) in [subject.path.clone(), subject.join(TEST_DIRECTORY)]
        .iter()
        .enumerate()
    {
        let directory = directory.join(n.to_string());
        fs::create_dir_all(&directory).map_err(FormatError::Copy)?;
        let mut native = Vec::new();
        for file in bundle.files() {
            let (parent, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
            // What is rendered has the form that it is rendered in, and no file to be changed.
            let is_rendered = file.path.starts_with(platform::GENERATED);
            if parent != within || name.starts_with('.') || is_rendered {
                continue;
            }
            if JSON.iter().any(|ending| name.ends_with(ending)) {
                judge_json(&file.path, &file.bytes, &mut formatting);
            } else if NATIVE.iter().any(|ending| name.ends_with(ending)) {
                write(&directory.join(name), &file.bytes).map_err(FormatError::Copy)?;
                native.push((name, file));
            }
        }
        if native.is_empty() {
            continue;
        }
        match checker.fmt_fix(&directory) {
            Ok(_) => {}
            // Some file can't be parsed; the others are arranged all the same.
            Err(CommandError::Ended {
                said,
                exit: process::Exit::Code(2),
                ..
            }) => {
                formatting.unreadable.push(Finding {
                    file: (native.len() == 1).then(|| native[0].1.path.clone()),
                    ..Finding::error("a file can't be parsed, so it has no canonical form", said)
                });
            }
            Err(error) => return Err(FormatError::Command(error)),
        }
        for (name, file) in native {
            let now = fs::read(directory.join(name)).map_err(FormatError::Copy)?;
            formatting.add(&file.path, &file.bytes, now);
        }
    }
    formatting
        .changes
        .sort_by(|left, right| left.file.cmp(&right.file));
    Ok(formatting)
}

impl Formatting {
    fn add(&mut self, file: &str, was: &[u8], now: Vec<u8>) {
        if now != was {
            self.changes.push(Change {
                file: file.to_owned(),
                was: was.to_vec(),
                now,
            });
        }
    }
}

fn judge_json(path: &str, bytes: &[u8], formatting: &mut Formatting) {
    match canonical(bytes) {
        Ok(now) => formatting.add(path, bytes, now.into_bytes()),
        Err(error) => formatting.unreadable.push(Finding {
            file: Some(path.to_owned()),
            ..Finding::error(
                "the file can't be parsed, so it has no canonical form",
                error.to_string(),
            )
        }),
    }
}

/// Writes a file of the throw-away copy.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::File::create(path)?.write_all(bytes)
}

impl Change {
    /// The change as a unified diff.
    pub(crate) fn diff(&self) -> String {
        let was = String::from_utf8_lossy(&self.was);
        let now = String::from_utf8_lossy(&self.now);
        let whole = TextDiff::configure()
            .timeout(DIFF_PATIENCE)
            .diff_lines(was.as_ref(), now.as_ref())
            .unified_diff()
            .context_radius(2)
            .header(&format!("old/{}", self.file), &format!("new/{}", self.file))
            .to_string();
        let n_lines = whole.lines().count();
        if n_lines <= MOST_LINES {
            return whole;
        }
        let mut short: String = whole.split_inclusive('\n').take(MOST_LINES).collect();
        short.push_str(&format!("… and {} more lines\n", n_lines - MOST_LINES));
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(was: &str, now: &str) -> Change {
        Change {
            file: "modules/a/main.tf".to_owned(),
            was: was.into(),
            now: now.into(),
        }
    }

    #[test]
    fn a_diff_names_the_file_and_shows_both_lines() {
        let diff = change("a = 1\nbb=2\n", "a = 1\nbb = 2\n").diff();
        assert_eq!(
            diff,
            "--- old/modules/a/main.tf\n+++ new/modules/a/main.tf\n@@ -1,2 +1,2 @@\n a = 1\n-bb=2\n+bb = 2\n"
        );
    }

    #[test]
    fn a_very_long_diff_is_shortened_and_says_so() {
        let diff = change("", &"x\n".repeat(5_000)).diff();
        assert_eq!(diff.lines().count(), MOST_LINES + 1);
        assert!(
            diff.ends_with("… and 4603 more lines\n"),
            "{}",
            &diff[diff.len() - 60..]
        );
    }
}

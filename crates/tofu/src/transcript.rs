//! The masked copy of a command's output that stays on the disk.
//!
//! Never in it: a known secret, a `difference` side flagged sensitive, a state.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use secrets::Masker;
use serde_json::{Map, Value};

use crate::disk;
use crate::events::{has_true, without_colour};

/// How many transcripts of a step are kept.
const KEPT: usize = 60;

/// One transcript, written line by line.
#[derive(Debug)]
pub(crate) struct Transcript {
    path: PathBuf,
    file: fs::File,
}

impl Transcript {
    /// Begins the next transcript of a step: `0007-apply.log`.
    pub(crate) fn begin(directory: &Path, command: &str) -> io::Result<Self> {
        disk::private_dir(directory)?;
        let mut numbers: Vec<(u64, PathBuf)> = fs::read_dir(directory)?
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some((name.split('-').next()?.parse().ok()?, entry.path()))
            })
            .collect();
        numbers.sort();
        let surplus = (numbers.len() + 1).saturating_sub(KEPT);
        for (_, path) in numbers.iter().take(surplus) {
            let _ = fs::remove_file(path);
        }
        let mut number = numbers.last().map_or(1, |(number, _)| number + 1);
        loop {
            let path = directory.join(format!("{number:04}-{}.log", command.replace(' ', "-")));
            match fs::OpenOptions::new()
                .append(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
            {
                Ok(file) => return Ok(Self { path, file }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one line.
    pub(crate) fn add(&mut self, line: &[u8], masker: &Masker) -> io::Result<()> {
        let mut text = safe_line(line, masker);
        text.push('\n');
        self.file.write_all(text.as_bytes())
    }
}

/// The line as it may lie on a disk.
pub(crate) fn safe_line(line: &[u8], masker: &Masker) -> String {
    let line = line.trim_ascii();
    if line.first() == Some(&b'{')
        && let Ok(mut fields) = serde_json::from_slice::<Map<String, Value>>(line)
    {
        redact(&mut fields);
        let mut value = Value::Object(fields);
        strip_colour(&mut value);
        return masker.mask(&value.to_string()).into_owned();
    }
    let text = String::from_utf8_lossy(line);
    if text.contains(crate::events::EMERGENCY) {
        return format!("{} (held back)", crate::events::EMERGENCY);
    }
    masker.mask(&without_colour(&text)).into_owned()
}

/// What a provisioner colours is kept without its colours.
fn strip_colour(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('\x1b') => *text = without_colour(text),
        Value::Array(items) => items.iter_mut().for_each(strip_colour),
        Value::Object(members) => members.values_mut().for_each(strip_colour),
        _ => {}
    }
}

fn redact(fields: &mut Map<String, Value>) {
    if let Some(state) = fields.get_mut("state") {
        *state = Value::String("(held back)".to_owned());
    }
    // States in `test` messages hold values of any kind.
    for name in ["test_state", "test_plan"] {
        if let Some(value) = fields.get_mut(name) {
            *value = Value::String("(held back)".to_owned());
        }
    }
    if let Some(Value::Object(difference)) = fields
        .get_mut("diagnostic")
        .and_then(|it| it.get_mut("difference"))
    {
        for (side, marks) in [("before", "before_sensitive"), ("after", "after_sensitive")] {
            if difference.get(marks).is_some_and(has_true) && difference.contains_key(side) {
                difference.insert(side.to_owned(), Value::String("(sensitive)".to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emergency_state_never_reaches_the_disk() {
        let masker = Masker::default();
        let whole = br#"{"@message":"Emergency state dump","type":"log","state":{"outputs":{"x":"hunter2hunter2"}}}"#;
        assert!(!safe_line(whole, &masker).contains("hunter2"));
        let cut = br#"{"@message":"Emergency state dump","type":"log","state":{"outputs":{"x":"hunter2hunter2"#;
        assert!(!safe_line(cut, &masker).contains("hunter2"));
    }

    #[test]
    fn a_sensitive_side_of_a_difference_never_reaches_the_disk() {
        let line = br#"{"@message":"m","diagnostic":{"difference":{"before":"hunter2","after":"shown","before_sensitive":true,"after_sensitive":false}}}"#;
        let safe = safe_line(line, &Masker::default());
        assert!(
            !safe.contains("hunter2") && safe.contains("shown"),
            "{safe}"
        );
    }

    #[test]
    fn colours_are_left_out_of_text_and_of_json() {
        let masker = Masker::default();
        let json = br#"{"@message":"a","hook":{"output":"\u001b[31mred\u001b[0m"}}"#;
        assert_eq!(
            safe_line(json, &masker),
            r#"{"@message":"a","hook":{"output":"red"}}"#
        );
        assert_eq!(safe_line(b"\x1b[31mred\x1b[0m", &masker), "red");
    }

    #[test]
    fn a_known_secret_is_masked_in_text_and_in_json() {
        let masker = Masker::default();
        masker.add_text("token", "hunter2\"hunter2");
        assert!(!safe_line(br#"{"@message":"is hunter2\"hunter2"}"#, &masker).contains("hunter2"));
        assert!(!safe_line(b"is hunter2\"hunter2", &masker).contains("hunter2"));
    }

    #[test]
    fn transcripts_are_numbered_private_and_pruned() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path().join("logs");
        for _ in 0..KEPT + 3 {
            Transcript::begin(&logs, "state pull").unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(&logs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names.len(), KEPT);
        assert_eq!(names[0], "0004-state-pull.log");
        let mode = fs::metadata(logs.join(&names[0]))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

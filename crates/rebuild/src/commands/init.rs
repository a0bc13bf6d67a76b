//! `rebuild init DIR`: a small platform that works, to start from.

use std::path::{Path, PathBuf};

use phase_engine::ExitCode;
use platform::InitError;
use schemars::JsonSchema;
use serde::Serialize;

use super::Told;
use super::telling::document;
use crate::failure::Failure;

/// What `init` wrote.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Initialized {
    /// The version of this format.
    schema: u32,
    /// The platform's directory.
    directory: PathBuf,
    /// The files that were written, from there.
    files: Vec<String>,
    /// The commands that go on from here.
    next: Vec<String>,
}

/// Writes the platform and says what to type next.
pub(crate) fn run(cwd: &Path, dir: &Path) -> Told {
    match platform::init(&cwd.join(dir)) {
        Ok(files) => {
            let text = text(dir, &files);
            let made = Initialized {
                schema: 1,
                directory: cwd.join(dir),
                files,
                next: next(dir),
            };
            Told::done(document(&made), text)
        }
        Err(error) => {
            let failure = Failure::of(ExitCode::Unusable, &error);
            Told::failed(match error {
                InitError::NotEmpty { .. } => {
                    failure.hint("nothing was written; name a directory that is empty")
                }
                InitError::Directory { .. } | InitError::Write { .. } => failure,
            })
        }
    }
}

fn next(dir: &Path) -> Vec<String> {
    vec![
        format!("cd {}", quoted(dir)),
        "git init && git add --all && git commit --message 'a platform to start from'".to_owned(),
        "rebuild up --target drill".to_owned(),
        "rebuild down --target drill".to_owned(),
    ]
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) && !text.starts_with('-') {
        text
    } else {
        let text = if text.starts_with('-') {
            format!("./{text}")
        } else {
            text
        };
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn text(dir: &Path, files: &[String]) -> String {
    let mut text = format!("a platform is in {}\n", dir.display());
    for file in files {
        text.push_str(&format!("  {file}\n"));
    }
    text.push_str("next:\n");
    for command in next(dir) {
        text.push_str(&format!("  {command}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_listed_and_a_second_time_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let told = run(dir.path(), Path::new("p"));
        assert_eq!(told.exit, ExitCode::Done);
        for file in told.document.unwrap()["files"].as_array().unwrap() {
            assert!(
                dir.path().join("p").join(file.as_str().unwrap()).exists(),
                "{file}"
            );
        }
        let again = run(dir.path(), Path::new("p"));
        assert_eq!(again.exit, ExitCode::Unusable);
        assert!(
            again
                .failure
                .unwrap()
                .hint
                .unwrap()
                .contains("nothing was written")
        );
    }

    #[test]
    fn a_path_can_be_pasted_into_a_shell() {
        assert_eq!(quoted(Path::new("a/b-1")), "a/b-1");
        assert_eq!(quoted(Path::new("my lab")), "'my lab'");
        assert_eq!(quoted(Path::new("-x")), "'./-x'");
        assert_eq!(quoted(Path::new("it's")), "'it'\\''s'");
    }
}

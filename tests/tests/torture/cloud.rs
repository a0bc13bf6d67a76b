//! The fake cloud, for as long as it is needed.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// A cloud that serves.
pub(crate) struct Cloud {
    dir: tempfile::TempDir,
    url: String,
    child: Child,
}

impl Cloud {
    /// Starts one without any object.
    pub(crate) fn start() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("rebuild-cloud-")
            .tempdir()
            .expect("a temporary directory");
        #[expect(
            clippy::disallowed_methods,
            reason = "a test starts what it tests with"
        )]
        let mut child = std::process::Command::new(crate::FAKE_CLOUD)
            .arg("serve")
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the cloud starts");
        let mut url = String::new();
        let stdout = child.stdout.take().expect("its output is piped");
        std::io::BufReader::new(stdout)
            .read_line(&mut url)
            .expect("the cloud says where it is");
        Self {
            dir,
            url: url.trim().to_owned(),
            child,
        }
    }

    /// Where its objects are.
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Its address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The objects in a place, sorted.
pub(crate) fn objects(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(".json")?.to_owned();
        (!name.starts_with('.')).then_some(name)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// What was done in a place, oldest first: a word and an object.
pub(crate) fn journal(place: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(place.join("calls")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(word, name)| (word.to_owned(), name.to_owned()))
        .collect()
}

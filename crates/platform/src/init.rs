//! A new platform: seven phases that run as they are, with nothing to download.

use std::io;
use std::path::{Path, PathBuf};

use process::files::{FileError, write_atomically};

/// Why no platform was written.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There is something already.
    #[error("`{}` is not empty: it holds `{found}`", directory.display())]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
        /// A name in it.
        found: String,
    },
    /// The directory can't be read or made.
    #[error("cannot make the directory `{}`", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file can't be written.
    #[error("cannot write `{path}`")]
    Write {
        /// Path within the platform.
        path: &'static str,
        /// What went wrong.
        #[source]
        source: FileError,
    },
}

const FILES: [(&str, u32, &str); 15] = [
    (
        "rebuild.toml",
        0o644,
        include_str!("../templates/rebuild.toml"),
    ),
    ("README.md", 0o644, include_str!("../templates/README.md")),
    (".gitignore", 0o644, include_str!("../templates/gitignore")),
    (
        "targets/drill.toml",
        0o644,
        include_str!("../templates/drill.toml"),
    ),
    (
        "targets/live.toml",
        0o644,
        include_str!("../templates/live.toml"),
    ),
    (
        "phases/0-ground/main.tf",
        0o644,
        include_str!("../templates/ground.tf"),
    ),
    (
        "phases/1a-edge/main.tf",
        0o644,
        include_str!("../templates/edge.tf"),
    ),
    (
        "phases/1b-tunnel/main.tf",
        0o644,
        include_str!("../templates/tunnel.tf"),
    ),
    (
        "phases/1c-metal/main.tf",
        0o644,
        include_str!("../templates/metal.tf"),
    ),
    (
        "phases/2-service/main.tf",
        0o644,
        include_str!("../templates/service.tf"),
    ),
    (
        "bin/backup.sh",
        0o755,
        include_str!("../templates/backup.sh"),
    ),
    (
        "bin/canary.sh",
        0o755,
        include_str!("../templates/canary.sh"),
    ),
    (
        "bin/left-over.sh",
        0o755,
        include_str!("../templates/left-over.sh"),
    ),
    ("modules/.gitkeep", 0o644, ""),
    ("playbooks/.gitkeep", 0o644, ""),
];

/// Writes a platform into a directory that is empty (but for `.git`) or not there yet.
///
/// Returns the paths that were written, relative to it.
///
/// # Errors
/// The directory holds something, or can't be written.
pub fn init(directory: &Path) -> Result<Vec<String>, InitError> {
    let failed = |source| InitError::Directory {
        directory: directory.to_owned(),
        source,
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let found = entry
            .map_err(failed)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if found != ".git" {
            return Err(InitError::NotEmpty {
                directory: directory.to_owned(),
                found,
            });
        }
    }
    let name = platform_name(&directory.canonicalize().map_err(failed)?);
    let mut written = Vec::new();
    for (path, mode, text) in FILES {
        let full = directory.join(path);
        if let Some(parent) = full.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        write_atomically(&full, text.replace("{name}", &name).as_bytes(), mode)
            .map_err(|source| InitError::Write { path, source })?;
        written.push(path.to_owned());
    }
    Ok(written)
}

/// Makes a name of a directory's own, with nothing in it that a path or a table could stumble over.
fn platform_name(directory: &Path) -> String {
    let own = directory
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    let kept: String = own
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let kept = kept.trim_matches('-').chars().take(40).collect::<String>();
    if kept.is_empty() {
        "platform".to_owned()
    } else {
        kept
    }
}

#[cfg(test)]
mod tests {
    use phase_engine::TargetName;

    use super::*;
    use crate::{DirFiles, load};

    #[test]
    fn what_is_written_has_no_faults_and_no_warnings() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("Mein Labor \"1\"");
        let written = init(&at).unwrap();
        assert_eq!(written.len(), FILES.len());
        for target in ["drill", "live"] {
            let name = TargetName::new(target).unwrap();
            let loaded = load(&DirFiles::open(&at).unwrap(), None, &name)
                .unwrap_or_else(|faults| panic!("{}", faults.render_plain()));
            assert!(loaded.warnings.is_empty());
            assert_eq!(loaded.platform.name, "mein-labor--1");
            let ids: Vec<&str> = loaded
                .platform
                .phases
                .iter()
                .map(|phase| phase.id.as_str())
                .collect();
            assert_eq!(ids, ["0", "1a", "1b", "1c", "2", "3", "4"]);
            assert_eq!(loaded.target.protected, target == "live");
        }
    }

    #[test]
    fn a_directory_that_holds_something_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        init(dir.path()).unwrap();
        assert!(matches!(init(dir.path()), Err(InitError::NotEmpty { .. })));
    }

    #[test]
    fn a_directory_without_a_usable_name_gets_one() {
        assert_eq!(platform_name(Path::new("/tmp/---")), "platform");
        assert_eq!(platform_name(Path::new("/")), "platform");
        assert_eq!(platform_name(Path::new("/tmp/Home Lab")), "home-lab");
    }
}

//! Which `tofu` is used: found, asked for its version once, and measured.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::{CollectError, How, Invocation, SpawnError, Spawner, collect, find_program};
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::disk;

/// The program's name on a `PATH`.
pub const PROGRAM: &str = "tofu";

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(30);

/// A `tofu` that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program by its whole path, and first arguments where the target names a command.
    pub command: Vec<OsString>,
    /// The file that is run.
    pub path: PathBuf,
    /// Its version.
    pub version: Version,
    /// SHA-256 of the file, in hex.
    pub digest: String,
}

/// The oldest OpenTofu that is driven: from 1.12 on `lineage` and `serial` of an encrypted state can be read.
const OLDEST: (u64, u64) = (1, 12);

/// Why there is no `tofu`.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No such file.
    #[error("there is no program `{name}`; looked in {}", places(looked_in))]
    NotFound {
        /// The name that was looked for.
        name: String,
        /// The directories of the `PATH`, or the one file that was named.
        looked_in: Vec<PathBuf>,
    },
    /// It has another version than is demanded.
    #[error("`{}` has version {version}, and `{wanted}` is demanded", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: Box<Version>,
        /// The version requirement.
        wanted: Box<VersionReq>,
    },
    /// It is older than what this program drives.
    #[error("`{}` has version {version}, and {}.{} is the oldest that is driven", path.display(), OLDEST.0, OLDEST.1)]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: Box<Version>,
    },
    /// It did not say its version.
    #[error("`{}` does not say its version{}", path.display(), said(answer))]
    Unanswering {
        /// The file.
        path: PathBuf,
        /// What it said instead, shortened.
        answer: String,
        /// Why it could not be run.
        #[source]
        source: Option<CollectError>,
    },
    /// It is Terraform.
    #[error("`{}` is Terraform, not OpenTofu", path.display())]
    Terraform {
        /// The file.
        path: PathBuf,
    },
    /// The file can't be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

fn places(looked_in: &[PathBuf]) -> String {
    match looked_in {
        [] => "no directory: `PATH` is empty".to_owned(),
        places => places
            .iter()
            .map(|place| format!("`{}`", place.display()))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn said(answer: &str) -> String {
    if answer.is_empty() {
        String::new()
    } else {
        format!("; it says: {answer}")
    }
}

/// What is remembered of a file, so that its version costs no process the next time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    command: Vec<String>,
    size: u64,
    modified: (i64, i64),
    inode: u64,
    device: u64,
    version: Version,
    digest: String,
}

impl Program {
    /// Finds `tofu`: `command` where the target names one, else on `path_env`. `cache` is a file that
    /// remembers the version and digest of files that did not change since.
    ///
    /// # Errors
    /// When there is none, when it does not say its version, or when the version does not fit.
    pub fn find(
        command: Option<&[String]>,
        path_env: Option<&OsStr>,
        requirement: Option<&VersionReq>,
        cache: Option<&Path>,
        spawner: &dyn Spawner,
    ) -> Result<Self, FindError> {
        let words: Vec<String> = match command {
            Some(words) if !words.is_empty() => words.to_vec(),
            _ => vec![PROGRAM.to_owned()],
        };
        let name = Path::new(&words[0]);
        let path = find_program(name, path_env, Path::new("/")).map_err(|error| {
            let looked_in = match &error {
                SpawnError::NotExecutable { program } => vec![program.clone()],
                _ if words[0].contains('/') => vec![name.to_owned()],
                _ => std::env::split_paths(path_env.unwrap_or_default())
                    .filter(|place| place.is_absolute())
                    .collect(),
            };
            FindError::NotFound {
                name: words[0].clone(),
                looked_in,
            }
        })?;
        let unreadable = |source| FindError::Unreadable {
            path: path.clone(),
            source,
        };
        let there = fs::metadata(&path).map_err(unreadable)?;
        let mut key = words.clone();
        key[0] = path.to_string_lossy().into_owned();
        let fits = |known: &Known| {
            known.command == key
                && known.size == there.size()
                && known.modified == (there.mtime(), there.mtime_nsec())
                && known.inode == there.ino()
                && known.device == there.dev()
        };
        let remembered = cache.map(read_cache).unwrap_or_default();
        let known = match remembered.iter().find(|known| fits(known)) {
            Some(known) => known.clone(),
            None => {
                let known = Known {
                    version: ask_version(&path, &words[1..], path_env, spawner)?,
                    digest: digest(&path).map_err(unreadable)?,
                    size: there.size(),
                    modified: (there.mtime(), there.mtime_nsec()),
                    inode: there.ino(),
                    device: there.dev(),
                    command: key.clone(),
                };
                if let Some(cache) = cache {
                    write_cache(cache, remembered, known.clone());
                }
                known
            }
        };
        let mut command: Vec<OsString> = vec![path.clone().into()];
        command.extend(words[1..].iter().map(OsString::from));
        let program = Self {
            command,
            path,
            version: known.version,
            digest: known.digest,
        };
        if (program.version.major, program.version.minor) < OLDEST {
            return Err(FindError::TooOld {
                path: program.path,
                version: Box::new(program.version),
            });
        }
        match requirement {
            Some(wanted) if !wanted.matches(&program.version) => Err(FindError::Unfit {
                path: program.path,
                version: Box::new(program.version),
                wanted: Box::new(wanted.clone()),
            }),
            _ => Ok(program),
        }
    }

    /// Whether this program may touch a state that `writer` (`terraform_version`) wrote last. An
    /// older tool is refused; so is a version that can't be read.
    #[must_use]
    pub fn is_new_enough_for(&self, writer: &str) -> bool {
        Version::parse(writer.trim_start_matches('v')).is_ok_and(|writer| {
            // A pre-release of a version is not told apart from it: builds call themselves `-dev`.
            (self.version.major, self.version.minor, self.version.patch)
                >= (writer.major, writer.minor, writer.patch)
        })
    }
}

fn ask_version(
    path: &Path,
    arguments: &[String],
    path_env: Option<&OsStr>,
    spawner: &dyn Spawner,
) -> Result<Version, FindError> {
    let call = Invocation::new(path, "/")
        .args(arguments.iter().map(OsString::from))
        .args(["version", "-json"])
        .env("PATH", path_env.unwrap_or_default())
        // No configuration of anybody's: what is asked is the program alone.
        .env("HOME", "/nonexistent")
        .env("CHECKPOINT_DISABLE", "1");
    let unanswering = |answer: String, source| FindError::Unanswering {
        path: path.to_owned(),
        answer,
        source,
    };
    let collected = collect(spawner, &call, &How::reader(), PATIENCE, &mut || false)
        .map_err(|error| unanswering(String::new(), Some(error)))?;
    let text = String::from_utf8_lossy(&collected.stdout);
    // Warnings may stand before the document.
    let value = text.find('{').and_then(|start| {
        serde_json::Deserializer::from_str(&text[start..])
            .into_iter::<serde_json::Value>()
            .next()?
            .ok()
    });
    if value
        .as_ref()
        .is_some_and(|value| value.get("terraform_outdated").is_some())
    {
        return Err(FindError::Terraform {
            path: path.to_owned(),
        });
    }
    let version = value
        .as_ref()
        .and_then(|value| value.get("terraform_version")?.as_str())
        .and_then(|version| Version::parse(version).ok());
    version.ok_or_else(|| {
        let all = if collected.stderr.is_empty() {
            &collected.stdout
        } else {
            &collected.stderr
        };
        let said = crate::events::without_colour(&String::from_utf8_lossy(all));
        let first: String = said
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("nothing")
            .chars()
            .take(200)
            .collect();
        unanswering(format!("{first} ({})", collected.exit), None)
    })
}

fn digest(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => digest.update(&buffer[..n]),
        }
    }
    Ok(crate::step_dir::hex(&digest.finalize()))
}

fn read_cache(path: &Path) -> Vec<Known> {
    fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// A cache that can't be written costs a process the next time, no more.
fn write_cache(path: &Path, mut known: Vec<Known>, new: Known) {
    const MOST: usize = 16;
    known.retain(|old| old.command != new.command);
    known.push(new);
    let surplus = known.len().saturating_sub(MOST);
    known.drain(..surplus);
    if let Ok(bytes) = serde_json::to_vec(&known)
        && path
            .parent()
            .is_none_or(|parent| disk::private_dir(parent).is_ok())
    {
        let _ = disk::write(path, &bytes, 0o600);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::fake::{FakeSpawner, NoSpawn, Script};
    use std::os::unix::fs::PermissionsExt as _;

    fn world() -> (tempfile::TempDir, OsString) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tofu");
        fs::File::create(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().as_os_str().to_owned();
        (dir, path)
    }

    fn says(text: &'static str) -> FakeSpawner {
        FakeSpawner::new(move |call| {
            (call.args.ends_with(&["version".into(), "-json".into()]))
                .then(|| Script::exits(0).stdout(text))
        })
    }

    #[test]
    fn the_version_is_asked_once_and_remembered_while_the_file_is_the_same() {
        let (dir, path) = world();
        let cache = dir.path().join("cache.json");
        let spawner = says("Warning: x\n{\n  \"terraform_version\": \"1.12.6\"\n}");
        let first = Program::find(None, Some(&path), None, Some(&cache), &spawner).unwrap();
        assert_eq!(first.version, Version::new(1, 12, 6));
        let second = Program::find(None, Some(&path), None, Some(&cache), &NoSpawn).unwrap();
        assert_eq!(first, second);
        fs::remove_file(dir.path().join("tofu")).unwrap();
        fs::copy(std::env::current_exe().unwrap(), dir.path().join("tofu")).unwrap();
        assert!(
            Program::find(None, Some(&path), None, Some(&cache), &NoSpawn).is_err(),
            "a new file is asked again"
        );
    }

    #[test]
    fn a_missing_program_names_where_it_was_looked_for() {
        let error =
            Program::find(None, Some(OsStr::new("/no/where")), None, None, &NoSpawn).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no program `tofu`; looked in `/no/where`"
        );
    }

    #[test]
    fn an_old_version_is_refused_by_name() {
        let (_dir, path) = world();
        let wanted = VersionReq::parse("~1.12").unwrap();
        let spawner = says("{\"terraform_version\":\"1.13.0\"}");
        let error = Program::find(None, Some(&path), Some(&wanted), None, &spawner).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("has version 1.13.0, and `~1.12` is demanded"),
            "{error}"
        );
        let spawner = says("{\"terraform_version\":\"1.5.0\"}");
        let error = Program::find(None, Some(&path), None, None, &spawner).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("has version 1.5.0, and 1.12 is the oldest that is driven"),
            "{error}"
        );
    }

    #[test]
    fn terraform_and_a_babbler_are_refused() {
        let (_dir, path) = world();
        let terraform = says("{\"terraform_version\":\"1.12.6\",\"terraform_outdated\":false}");
        assert!(matches!(
            Program::find(None, Some(&path), None, None, &terraform).unwrap_err(),
            FindError::Terraform { .. }
        ));
        let error = Program::find(
            None,
            Some(&path),
            None,
            None,
            &says("\u{1b}[31mhello\u{1b}[0m"),
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("it says: hello (exit code 0)"),
            "{error}"
        );
    }

    #[test]
    fn an_older_tool_than_the_last_writer_is_not_new_enough() {
        let program = Program {
            command: vec![],
            path: "/t".into(),
            version: Version::parse("1.12.6-dev").unwrap(),
            digest: String::new(),
        };
        assert!(program.is_new_enough_for("1.12.6") && program.is_new_enough_for("1.11.9"));
        assert!(!program.is_new_enough_for("1.12.7") && !program.is_new_enough_for("x"));
    }
}

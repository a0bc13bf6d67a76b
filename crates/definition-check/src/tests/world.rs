//! A platform to check, and a machine with as little on it as it needs.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use process::RealSpawner;
use tempfile::TempDir;

use crate::{CheckError, CheckNotice, CheckReport, CheckRequest, ModuleReport};

/// A root module and a module that it calls, both without a fault.
const GOOD: [(&str, &str); 3] = [
    (
        "rebuild.toml",
        "[platform]\nname = \"p\"\n\n[[phase]]\nid = \"0\"\ntitle = \"one\"\n\n[[phase.step]]\nname = \"s\"\ntofu = \"phases/0\"\n",
    ),
    (
        "phases/0/main.tf",
        "module \"thing\" {\n  source = \"../../modules/thing\"\n  size   = 1\n}\n",
    ),
    (
        "modules/thing/main.tf",
        "variable \"size\" {\n  type = number\n}\n\nresource \"terraform_data\" \"it\" {\n  input = var.size\n}\n",
    ),
];

pub(super) struct World {
    directory: TempDir,
    pub(super) fix: bool,
    pub(super) require_tflint: bool,
    pub(super) notices: Mutex<Vec<CheckNotice>>,
}

#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

impl World {
    /// A platform without a fault, and a machine with `tofu`, a shell and little else.
    pub(super) fn new() -> Self {
        let world = Self::empty();
        for (path, text) in GOOD {
            world.write(path, text);
        }
        world
    }

    pub(super) fn empty() -> Self {
        let world = Self {
            directory: tempfile::tempdir().unwrap(),
            fix: false,
            require_tflint: false,
            notices: Mutex::default(),
        };
        for name in ["platform", "bin", "tmp"] {
            std::fs::create_dir(world.path(name)).unwrap();
        }
        let tofu = variable("REBUILD_TEST_TOFU").expect(
            "REBUILD_TEST_TOFU is not set: run `cargo xtask tools`, which says what to set it to",
        );
        std::os::unix::fs::symlink(tofu, world.path("bin/tofu")).unwrap();
        world
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn platform(&self) -> PathBuf {
        self.path("platform")
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        write(&self.platform().join(path), text);
    }

    pub(super) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.platform().join(path)).unwrap()
    }

    /// Puts a shell script on the PATH.
    pub(super) fn program(&self, name: &str, shell: &str) {
        let path = self.path("bin").join(name);
        write(&path, &format!("#!/bin/sh\n{shell}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(super) fn check(&self) -> Result<CheckReport, CheckError> {
        self.check_until(&|| false)
    }

    pub(super) fn check_until(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<CheckReport, CheckError> {
        let path = self.path("bin");
        let machine = variable("PATH").unwrap_or_default();
        let env = BTreeMap::from([(OsString::from("PATH"), machine)]);
        crate::check(&CheckRequest {
            platform_dir: &self.platform(),
            fix: self.fix,
            require_tflint: self.require_tflint,
            path_env: Some(OsStr::new(&path)),
            base_env: &env,
            caller_env: &env,
            temp_dir: &self.path("tmp"),
            tflint_plugins: None,
            program_cache: Some(&self.path("programs.json")),
            spawner: Arc::new(RealSpawner::direct()),
            stop,
            notify: &|notice| self.notices.lock().unwrap().push(notice.clone()),
        })
    }

    /// Every file of the platform with its bytes.
    pub(super) fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![self.platform()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    found.insert(path.clone(), std::fs::read(path).unwrap());
                }
            }
        }
        found
    }

    pub(super) fn is_swept(&self) -> bool {
        std::fs::read_dir(self.path("tmp")).unwrap().count() == 0
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::File::create(path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

/// The report of one module.
pub(super) fn of<'r>(report: &'r CheckReport, path: &str) -> &'r ModuleReport {
    report
        .modules
        .iter()
        .find(|module| module.path == path)
        .unwrap_or_else(|| panic!("no `{path}` in {report:#?}"))
}

//! A platform in a world of its own, and `rebuild` to work on it.

use std::path::{Path, PathBuf};

use serde_json::Value;
use test_support::{Command, Outcome, World};

/// The tools that the tests need, as `cargo xtask test` names them.
pub(crate) fn tool(variable: &str) -> PathBuf {
    #[expect(
        clippy::disallowed_methods,
        reason = "how `cargo xtask test` hands the tools over"
    )]
    let path = std::env::var_os(variable);
    PathBuf::from(path.unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask test`")))
}

/// A platform with one target, `drill`, and its own home.
pub(crate) struct Drill {
    /// The world.
    pub(crate) world: World,
}

impl Drill {
    /// Makes an empty platform named `lab` with an empty target `drill`.
    pub(crate) fn empty() -> Self {
        let drill = Self {
            world: World::new(),
        };
        drill.write("targets/drill.toml", "");
        drill
    }

    /// Makes a platform from `rebuild.toml`'s phases and the given root modules (directory, main.tf).
    pub(crate) fn of(phases: &str, modules: &[(&str, &str)]) -> Self {
        let drill = Self::empty();
        drill.write(
            "rebuild.toml",
            &format!("[platform]\nname = \"lab\"\n{phases}"),
        );
        for (directory, text) in modules {
            drill.write(&format!("{directory}/main.tf"), text);
        }
        drill
    }

    /// The platform's directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.world.work().join("platform")
    }

    /// Writes a file of the platform.
    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir().join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a parent"))
            .expect("make its directory");
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(&path, text).expect("write a file of the platform");
        path
    }

    /// The target's store.
    pub(crate) fn store(&self) -> PathBuf {
        self.world
            .state_home()
            .join("rebuild/targets/lab/drill/store")
    }

    /// The target's working directory.
    pub(crate) fn work(&self) -> PathBuf {
        self.world
            .state_home()
            .join("rebuild/targets/lab/drill/work")
    }

    /// A `rebuild` command line in the platform's directory, with the real `tofu` on its PATH.
    pub(crate) fn rebuild(&self, args: &[&str]) -> Command {
        let tofu = tool("REBUILD_TEST_TOFU");
        let directory = tofu.parent().expect("a program has a directory");
        let env = self.world.env();
        let path = env
            .get(std::ffi::OsStr::new("PATH"))
            .cloned()
            .unwrap_or_default();
        let mut directories = vec![directory.to_owned()];
        directories.extend(std::env::split_paths(&path));
        let path = std::env::join_paths(directories).expect("directories make a PATH");
        self.world
            .command(env!("CARGO_BIN_EXE_rebuild_dup"))
            .args(args.iter().copied())
            .env("PATH", path)
            .cwd(self.dir())
    }

    /// Runs `rebuild` and demands its exit code.
    pub(crate) fn run(&self, code: i32, args: &[&str]) -> Outcome {
        let outcome = self.rebuild(args).run();
        outcome.expect_code(code);
        outcome
    }

    /// Runs `rebuild … --output json`, demands its exit code and reads the document.
    pub(crate) fn json(&self, code: i32, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.extend(["--output", "json"]);
        let outcome = self.run(code, &all);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| {
            panic!(
                "`rebuild {}` printed no JSON ({error}): {outcome:?}",
                all.join(" ")
            )
        })
    }

    /// `up --target drill --no-pause`, which must end well.
    pub(crate) fn up(&self) -> Outcome {
        self.run(0, &["up", "--target", "drill", "--no-pause"])
    }

    /// The target's status document.
    pub(crate) fn status(&self) -> Value {
        self.json(0, &["status", "--target", "drill"])
    }

    /// Names of the states in the store, as `1a/edge`; versions are left out.
    pub(crate) fn states(&self) -> Vec<String> {
        let mut found = Vec::new();
        let root = self.store().join("state");
        let Ok(phases) = std::fs::read_dir(&root) else {
            return found;
        };
        for phase in phases.filter_map(Result::ok) {
            for step in std::fs::read_dir(phase.path())
                .into_iter()
                .flatten()
                .filter_map(Result::ok)
            {
                let name = step.file_name().to_string_lossy().into_owned();
                if !name.contains('@') {
                    found.push(format!("{}/{name}", phase.file_name().to_string_lossy()));
                }
            }
        }
        found.sort();
        found
    }
}

/// A step that makes one `terraform_data` and leaves a file for as long as it stands.
pub(crate) fn marker_module(file: &Path) -> String {
    format!(
        r#"resource "terraform_data" "it" {{
  input = "{file}"
  provisioner "local-exec" {{
    command = "touch ${{self.input}}"
  }}
  provisioner "local-exec" {{
    when    = destroy
    command = "rm -f ${{self.input}}"
  }}
}}
output "file" {{ value = terraform_data.it.output }}
"#,
        file = file.display()
    )
}

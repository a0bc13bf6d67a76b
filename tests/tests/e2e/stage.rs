//! A drill whose steps write down what is done to them, and fail where a test wants it.

use std::fmt::Write as _;
use std::ops::Deref;
use std::path::PathBuf;

use serde_json::Value;

use crate::drill::{Drill, tool};

/// A drill with a book of what was done, in order, and switches that make steps fail.
pub(crate) struct Stage(Drill);

impl Deref for Stage {
    type Target = Drill;

    fn deref(&self) -> &Drill {
        &self.0
    }
}

impl Stage {
    /// Makes an empty one.
    pub(crate) fn empty() -> Self {
        Self(Drill::empty())
    }

    /// Makes one with a phase for each entry, `ID: STEP STEP …`, of tofu steps in `ID-STEP` directories.
    pub(crate) fn of(phases: &[&str]) -> Self {
        let stage = Self::empty();
        let mut text = String::new();
        for phase in phases {
            let (id, steps) = phase.split_once(": ").expect("`ID: STEPS`");
            text.push_str(&stage.phase(id, steps));
        }
        stage.define(&text);
        stage
    }

    /// The definitions of a phase with tofu steps, whose root modules it writes.
    pub(crate) fn phase(&self, id: &str, steps: &str) -> String {
        let mut text = format!("[[phase]]\nid = \"{id}\"\ntitle = \"title of {id}\"\n");
        for step in steps.split(' ') {
            let name = format!("{id}-{step}");
            self.module(&name, "");
            writeln!(text, "[[phase.step]]\nname = \"{step}\"\ntofu = \"{name}\"")
                .expect("a string grows");
        }
        text
    }

    /// Writes `rebuild.toml`.
    pub(crate) fn define(&self, phases: &str) {
        self.write(
            "rebuild.toml",
            &format!("[platform]\nname = \"lab\"\n{phases}"),
        );
    }

    /// Writes a root module that books `create NAME` and `destroy NAME`, whose plan fails while the switch
    /// `plan-NAME` is on, whose apply fails after its first resource while `apply-NAME` is, and whose destroy while
    /// `destroy-NAME` is.
    pub(crate) fn module(&self, name: &str, more: &str) {
        let book = self.book_path();
        let book = book.display();
        let switch = |verb: &str| self.switch_path(&format!("{verb}-{name}"));
        self.write(
            &format!("{name}/main.tf"),
            &format!(
                r#"locals {{ switch = "{plan}" }}
resource "terraform_data" "it" {{
  input = "{name}"
  lifecycle {{
    precondition {{
      condition     = !fileexists(local.switch)
      error_message = "the plan of {name} is switched off"
    }}
  }}
  provisioner "local-exec" {{ command = "echo create {name} >> {book}" }}
  provisioner "local-exec" {{
    when    = destroy
    command = "test ! -e {destroy} && echo destroy {name} >> {book}"
  }}
}}
resource "terraform_data" "last" {{
  lifecycle {{
    precondition {{
      condition     = terraform_data.it.id == "" || !fileexists("{apply}")
      error_message = "the apply of {name} is switched off"
    }}
  }}
}}
output "name" {{ value = terraform_data.it.output }}
{more}
"#,
                plan = switch("plan").display(),
                apply = switch("apply").display(),
                destroy = switch("destroy").display(),
            ),
        );
    }

    /// An exec step's line for `rebuild.toml`: books what is done, and fails where a switch `apply-NAME`, `verify-NAME`
    /// or `destroy-NAME` is on.
    pub(crate) fn exec(&self, name: &str) -> String {
        let act = |act: &str, word: &str| {
            let switch = self.switch_path(&format!("{act}-{name}"));
            let book = self.book_path();
            format!(
                r#"["sh", "-c", "test ! -e {} && echo {word} {name} >> {}"]"#,
                switch.display(),
                book.display()
            )
        };
        format!(
            "exec = {{ apply = {}, verify = {}, teardown = {} }}\n",
            act("apply", "create"),
            act("verify", "verify"),
            act("destroy", "destroy")
        )
    }

    fn book_path(&self) -> PathBuf {
        self.world.root().join("book")
    }

    fn switch_path(&self, name: &str) -> PathBuf {
        self.world.root().join("switches").join(name)
    }

    /// Turns a switch on.
    pub(crate) fn on(&self, switch: &str) {
        let path = self.switch_path(switch);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("make its directory");
        std::fs::File::create(path).expect("a switch that turns");
    }

    /// Turns a switch off.
    pub(crate) fn off(&self, switch: &str) {
        std::fs::remove_file(self.switch_path(switch)).expect("a switch that is on");
    }

    /// What was done since the last look, in order.
    pub(crate) fn book(&self) -> Vec<String> {
        let path = self.book_path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if path.exists() {
            std::fs::remove_file(&path).expect("a book that can be closed");
        }
        text.lines().map(str::to_owned).collect()
    }

    /// Forgets what was done so far.
    pub(crate) fn forget_book(&self) {
        let _ = self.book();
    }

    /// `up --target drill --no-pause` and more; demands the exit code and gives standard error.
    pub(crate) fn up_to(&self, code: i32, more: &[&str]) -> String {
        let mut args = vec!["up", "--target", "drill", "--no-pause"];
        args.extend(more);
        self.run(code, &args).stderr
    }

    /// `down --target drill` and more; demands the exit code and gives standard error.
    pub(crate) fn down_to(&self, code: i32, more: &[&str]) -> String {
        let mut args = vec!["down", "--target", "drill"];
        args.extend(more);
        self.run(code, &args).stderr
    }

    /// The record of the target's current run.
    pub(crate) fn record(&self) -> Value {
        self.status()["run"].clone()
    }

    /// One step of the record.
    pub(crate) fn step(&self, step: &str) -> Value {
        let record = self.record();
        let steps = record["steps"].as_array().expect("a list of steps");
        steps
            .iter()
            .find(|found| found["step"] == step)
            .unwrap_or_else(|| panic!("the record has no step `{step}`: {record}"))
            .clone()
    }

    /// The statuses of the record's phases, as `1a verified`.
    pub(crate) fn phases(&self) -> Vec<String> {
        let record = self.record();
        let phases = record["phases"].as_array().expect("a list of phases");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        phases
            .iter()
            .map(|phase| format!("{} {}", text(&phase["id"]), text(&phase["status"])))
            .collect()
    }

    /// What stands, as the record says.
    pub(crate) fn standing(&self) -> Vec<String> {
        let record = self.record();
        let Some(standing) = record["standing"].as_array() else {
            return Vec::new();
        };
        standing
            .iter()
            .map(|entry| entry["step"].as_str().expect("a step's name").to_owned())
            .collect()
    }

    /// Makes `rebuild` use a `tofu` that writes down each call's first word and step before it becomes the real one.
    /// For `rebuild.toml`, before the first phase.
    pub(crate) fn counted_tofu(&self) -> String {
        let calls = self.world.root().join("calls");
        let path = self.world.write(
            "counted/tofu",
            &format!(
                "#!/bin/sh\necho \"$1\" >> {}\nexec {} \"$@\"\n",
                calls.display(),
                tool("REBUILD_TEST_TOFU").display()
            ),
        );
        executable(&path);
        format!("[tools]\ntofu = {{ command = [\"{}\"] }}\n", path.display())
    }

    /// The calls of the counted `tofu` since the last look, sorted.
    pub(crate) fn calls(&self) -> Vec<String> {
        let path = self.world.root().join("calls");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if path.exists() {
            std::fs::remove_file(&path).expect("a file of calls");
        }
        let mut calls: Vec<String> = text.lines().map(str::to_owned).collect();
        calls.sort();
        calls
    }
}

/// Makes a file a program.
pub(crate) fn executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .expect("a program's mode");
}

/// Every file below a directory with its bytes.
pub(crate) fn snapshot(root: &std::path::Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let bytes = std::fs::read(&path).expect("a file");
                found.insert(path, bytes);
            }
        }
    }
    found
}

//! Platforms whose objects live in the cloud of the test provider: `tools/provider-test/main.go` says what it can.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::drill::{Drill, tool};

/// The cloud of one drill: a directory in which an object is one file.
pub(crate) struct Cloud {
    dir: PathBuf,
}

impl Cloud {
    /// Makes a drill whose providers come from the mirror, and whose root modules (directory, body of main.tf)
    /// have their objects in a cloud of its own.
    pub(crate) fn drill(phases: &str, modules: &[(&str, &str)]) -> (Drill, Self) {
        let drill = Drill::empty();
        let cloud = Self {
            dir: drill.world.root().join("cloud"),
        };
        cloud.platform(&drill, phases);
        let mirror =
            std::fs::read_to_string(tool("REBUILD_TEST_MIRROR")).expect("the mirror's file");
        drill.write("tofu.tfrc", &mirror);
        for (directory, body) in modules {
            drill.write(&format!("{directory}/main.tf"), &cloud.module(body));
        }
        (drill, cloud)
    }

    /// Writes `rebuild.toml` with these phases.
    pub(crate) fn platform(&self, drill: &Drill, phases: &str) {
        drill.write(
            "rebuild.toml",
            &format!("[platform]\nname = \"lab\"\n[tools]\ntofu = {{ cli_config = \"tofu.tfrc\" }}\n{phases}"),
        );
    }

    /// The text of a root module that uses the test provider.
    pub(crate) fn module(&self, body: &str) -> String {
        format!(
            "terraform {{\n  required_providers {{\n    test = {{ source = \"rebuild/test\" }}\n  }}\n}}\n\
             provider \"test\" {{\n  cloud = \"{}\"\n}}\n{body}",
            self.dir.display()
        )
    }

    /// A file of the cloud.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Whether an object is there.
    pub(crate) fn has(&self, object: &str) -> bool {
        self.file(&format!("{object}.json")).exists()
    }

    /// What the cloud has of an object.
    pub(crate) fn object(&self, object: &str) -> Value {
        let text =
            std::fs::read(self.file(&format!("{object}.json"))).expect("the object is there");
        serde_json::from_slice(&text).expect("an object is JSON")
    }

    /// Makes an object that no state knows.
    pub(crate) fn make(&self, object: &str, members: Value) {
        std::fs::create_dir_all(&self.dir).expect("make the cloud");
        write(&self.file(&format!("{object}.json")), &members.to_string());
    }

    /// Changes one member of an object behind everybody's back.
    pub(crate) fn set(&self, object: &str, member: &str, value: impl Into<Value>) {
        let mut all = self.object(object);
        all[member] = value.into();
        write(&self.file(&format!("{object}.json")), &all.to_string());
    }

    /// Deletes an object behind everybody's back.
    pub(crate) fn delete(&self, object: &str) {
        std::fs::remove_file(self.file(&format!("{object}.json"))).expect("the object is there");
    }

    /// From now on the API answers everything with this error; `gone`: it knows no object any more.
    pub(crate) fn answer(&self, text: &str) {
        write(&self.file("api"), text);
    }

    /// From now on the API answers as it should.
    pub(crate) fn recover(&self) {
        std::fs::remove_file(self.file("api")).expect("the API was out of order");
    }

    /// The calls so far that changed something, as `create a`.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.file("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write a file of the cloud");
}

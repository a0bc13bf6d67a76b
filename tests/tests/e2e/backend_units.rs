//! The served backend under tools that run many units: what Terragrunt and Atmos do with OpenTofu, done one by one.
//!
//! Terragrunt copies a unit's source into a directory of its own below `.terragrunt-cache`, writes `backend.tf` there (with
//! `generate`) or gives `init` a `-backend-config` for each setting (without), runs units that do not depend on each other at
//! once, and reads what a unit depends on by `tofu output -json` in that one's directory. Atmos writes `backend.tf.json`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use test_support::{Command, Outcome};

use crate::backend_stage::{Backend, SECRET, Stage};

const NETWORK: &str = "variable \"name\" {}\nresource \"terraform_data\" \"it\" { input = var.name }\noutput \"id\" { value = terraform_data.it.output }\n";
const APP: &str = "variable \"network\" {}\nresource \"terraform_data\" \"it\" { input = var.network }\noutput \"on\" { value = terraform_data.it.output }\n";

/// How a unit is told where its state is.
#[derive(Clone, Copy)]
enum Told {
    /// `generate` of Terragrunt's `remote_state`.
    Generated,
    /// `-backend-config`, with an empty `backend "http" {}` in the module.
    ByArguments,
    /// The file that Atmos writes.
    GeneratedJson,
}

struct Units<'a> {
    stage: &'a Stage,
    backend: &'a Backend,
}

impl Units<'_> {
    /// A unit's working copy, initialized; whatever was there is gone, as after `rm -r .terragrunt-cache`.
    fn copy(&self, unit: &str, module: &str, told: Told) -> PathBuf {
        let cache = format!("live/{unit}/.terragrunt-cache/3KX/9sQ");
        let dir = self.stage.world.work().join(&cache);
        let _ = std::fs::remove_dir_all(&dir);
        self.stage.world.write(&format!("{cache}/main.tf"), module);
        let address = format!("{}/state/live/{unit}", self.backend.address());
        let settings = [
            ("address", address.clone()),
            ("lock_address", address.clone()),
            ("unlock_address", address),
        ];
        let mut init = vec!["init".to_owned(), "-input=false".to_owned()];
        match told {
            Told::Generated => {
                let lines: String = settings
                    .iter()
                    .map(|(name, value)| format!("    {name} = \"{value}\"\n"))
                    .collect();
                self.stage.world.write(
                    &format!("{cache}/backend.tf"),
                    &format!("terraform {{\n  backend \"http\" {{\n{lines}  }}\n}}\n"),
                );
            }
            Told::ByArguments => {
                self.stage.world.write(
                    &format!("{cache}/versions.tf"),
                    "terraform {\n  backend \"http\" {}\n}\n",
                );
                let arguments = settings
                    .iter()
                    .map(|(name, value)| format!("-backend-config={name}={value}"));
                init.extend(arguments);
            }
            Told::GeneratedJson => {
                let settings: serde_json::Map<String, Value> = settings
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), json!(value)))
                    .collect();
                let file = json!({"terraform": {"backend": {"http": settings}}});
                self.stage
                    .world
                    .write(&format!("{cache}/backend.tf.json"), &file.to_string());
            }
        }
        let words: Vec<&str> = init.iter().map(String::as_str).collect();
        self.tofu(&dir, &words).run().expect_code(0);
        dir
    }

    /// Name and password in the environment, and no address there.
    fn tofu(&self, dir: &Path, args: &[&str]) -> Command {
        self.stage
            .plain_tofu(dir, args)
            .env("TF_HTTP_USERNAME", "ci")
            .env("TF_HTTP_PASSWORD", SECRET)
    }

    fn output(&self, dir: &Path, name: &str) -> String {
        let outcome = self.tofu(dir, &["output", "-json"]).run();
        outcome.expect_code(0);
        let outputs: Value = serde_json::from_str(&outcome.stdout).expect("outputs");
        outputs[name]["value"].as_str().expect("a text").to_owned()
    }
}

fn both(one: Command, other: Command) -> [Outcome; 2] {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| one.run());
        let other = other.run();
        [running.join().expect("no thread panics"), other]
    })
}

const APPLY: [&str; 4] = [
    "apply",
    "-auto-approve",
    "-input=false",
    "-lock-timeout=60s",
];

/// Units of their own, two at once, the third on the outputs of both kinds; then from fresh copies, with nothing to change,
/// and down in reverse. The same with a generated file, with arguments, and with Atmos' file.
#[test]
fn units_of_other_tools_keep_a_state_each_and_depend_on_each_other() {
    let stage = Stage::new();
    let backend = stage.start();
    let units = Units {
        stage: &stage,
        backend: &backend,
    };
    for told in [Told::Generated, Told::ByArguments, Told::GeneratedJson] {
        let (east, west) = (
            units.copy("east/network", NETWORK, told),
            units.copy("west/network", NETWORK, told),
        );
        let apply = |dir: &Path, name: &str| units.tofu(dir, &APPLY).env("TF_VAR_name", name);
        for outcome in both(apply(&east, "net-east"), apply(&west, "net-west")) {
            outcome.expect_code(0);
        }
        let app = units.copy("east/app", APP, told);
        let network = units.output(&east, "id");
        let on = units.tofu(&app, &APPLY).env("TF_VAR_network", &network);
        on.run().expect_code(0);
        assert_eq!(units.output(&app, "on"), "net-east");
        let listed = stage.rebuild(&backend, &["state", "list", "live"]).run();
        listed.expect_code(0);
        for unit in ["live/east/app", "live/east/network", "live/west/network"] {
            assert!(listed.stdout.contains(unit), "{}", listed.stdout);
        }
        // Another machine, or a cache that was thrown away: the same states.
        let app = units.copy("east/app", APP, told);
        let plan = ["plan", "-detailed-exitcode", "-input=false"];
        let again = units.tofu(&app, &plan).env("TF_VAR_network", &network);
        again.run().expect_code(0);
        let destroy = ["destroy", "-auto-approve", "-input=false"];
        let gone = units.tofu(&app, &destroy).env("TF_VAR_network", &network);
        gone.run().expect_code(0);
        let gone = |dir: &Path| units.tofu(dir, &destroy).env("TF_VAR_name", "x");
        for outcome in both(gone(&east), gone(&west)) {
            outcome.expect_code(0);
        }
        let state = backend.json("/state/live/east/app");
        assert_eq!(state["resources"], json!([]), "{state}");
    }
}

/// One unit run by two people at once: one waits for the other, and both end well.
#[test]
fn one_unit_run_twice_at_once_takes_turns() {
    let stage = Stage::new();
    let backend = stage.start();
    let units = Units {
        stage: &stage,
        backend: &backend,
    };
    let first = units.copy("network", NETWORK, Told::Generated);
    // The other person's copy of the same unit.
    let address = std::fs::read(first.join("backend.tf")).expect("it was written");
    let other = stage.world.work().join("other/live/network");
    let write = |name: &str, bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        stage
            .world
            .write(&format!("other/live/network/{name}"), &text);
    };
    write("backend.tf", &address);
    write("main.tf", NETWORK.as_bytes());
    units
        .tofu(&other, &["init", "-input=false"])
        .run()
        .expect_code(0);
    let apply = |dir: &Path, name: &str| units.tofu(dir, &APPLY).env("TF_VAR_name", name);
    for outcome in both(apply(&first, "mine"), apply(&other, "theirs")) {
        outcome.expect_code(0);
    }
    let state = backend.json("/state/live/network");
    let input = &state["resources"][0]["instances"][0]["attributes"]["input"]["value"];
    assert!(input == "mine" || input == "theirs", "{state}");
    assert_eq!(
        state["serial"].as_u64().map(|serial| serial >= 2),
        Some(true)
    );
}

/// Without a password a unit is refused, and never takes that for "there is no state".
#[test]
fn a_unit_without_a_password_is_refused_and_builds_nothing() {
    let stage = Stage::new();
    let backend = stage.start();
    let units = Units {
        stage: &stage,
        backend: &backend,
    };
    let dir = units.copy("network", NETWORK, Told::Generated);
    let refused = stage.plain_tofu(&dir, &APPLY).env("TF_VAR_name", "x").run();
    assert_ne!(refused.code(), Some(0));
    assert!(
        refused.stderr.contains("requires auth"),
        "{}",
        refused.stderr
    );
    assert_eq!(backend.ask("GET", "/state/live/network", b"").0, 404);
}

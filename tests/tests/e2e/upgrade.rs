//! Versions of providers and modules: nothing moves by itself, and `up --upgrade` says what does.

use std::path::{Path, PathBuf};

use crate::cloud::Cloud;
use crate::drill::{Drill, tool};
use crate::stage::{Stage, executable};

const PHASES: &str =
    "[[phase]]\nid = \"1a\"\ntitle = \"edge\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n";
const BODY: &str = "resource \"test_object\" \"a\" {\n  name = \"a\"\n}\n";
const UPGRADE: [&str; 5] = ["up", "--target", "drill", "--no-pause", "--upgrade"];

/// A mirror of its own, in which the test provider has as many versions as a test wants.
struct Mirror {
    place: PathBuf,
}

impl Mirror {
    fn new(drill: &Drill) -> Self {
        let place = drill.world.root().join("mirror");
        drill.write(
            "tofu.tfrc",
            &format!(
                "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
                place.display()
            ),
        );
        Self { place }
    }

    /// Adds a version of the provider: the same program.
    fn add(&self, version: &str) {
        const PROVIDER: &str = "registry.opentofu.org/rebuild/test";
        let text = std::fs::read_to_string(tool("REBUILD_TEST_MIRROR")).expect("the mirror's file");
        let from = text.split('"').nth(1).expect("the mirror's path");
        let from = Path::new(from).join(PROVIDER).join("1.0.0");
        for platform in std::fs::read_dir(from).expect("the provider's platforms") {
            let platform = platform.expect("an entry");
            let to = self
                .place
                .join(PROVIDER)
                .join(version)
                .join(platform.file_name());
            std::fs::create_dir_all(&to).expect("a place in the mirror");
            for program in std::fs::read_dir(platform.path()).expect("a package") {
                let program = program.expect("an entry");
                std::fs::copy(program.path(), to.join(program.file_name())).expect("a copy");
            }
        }
    }
}

fn provider(drill: &Drill) -> String {
    let version = &drill.status()["standing"][0]["providers"]["registry.opentofu.org/rebuild/test"];
    version.as_str().expect("a version").to_owned()
}

#[test]
fn a_provider_moves_on_upgrade_only_and_is_named() {
    let (drill, cloud) = Cloud::drill(PHASES, &[("edge", BODY)]);
    let mirror = Mirror::new(&drill);
    mirror.add("1.0.0");
    drill.up();
    mirror.add("1.1.0");
    drill.up();
    assert_eq!(provider(&drill), "1.0.0", "it moved by itself");
    let upgraded = drill.run(0, &UPGRADE);
    assert!(
        upgraded.stderr.contains(
            "upgrade 1a.edge: provider registry.opentofu.org/rebuild/test 1.0.0 -> 1.1.0"
        ),
        "{}",
        upgraded.stderr
    );
    assert_eq!(provider(&drill), "1.1.0");
    drill.up();
    assert_eq!(provider(&drill), "1.1.0", "and stays");
    let nothing = drill.run(0, &UPGRADE);
    assert!(
        nothing.stderr.contains("no provider and no module moves"),
        "{}",
        nothing.stderr
    );
    drill.run(0, &["preflight", "--target", "drill"]);
    assert_eq!(cloud.calls(), ["create a"]);
    drill.run(0, &["down", "--target", "drill"]);
}

#[test]
fn a_committed_lock_file_stays_in_force_and_the_upgrade_says_so() {
    let (drill, _cloud) = Cloud::drill(PHASES, &[("edge", BODY)]);
    let mirror = Mirror::new(&drill);
    mirror.add("1.0.0");
    let init = drill
        .world
        .command(tool("REBUILD_TEST_TOFU"))
        .args(["init", "-input=false"])
        .env("TF_CLI_CONFIG_FILE", drill.dir().join("tofu.tfrc"))
        .cwd(drill.dir().join("edge"))
        .run();
    init.expect_code(0);
    drill.up();
    mirror.add("1.1.0");
    let upgraded = drill.run(0, &UPGRADE);
    assert!(
        upgraded.stderr.contains(
            "the lock file of step `1a.edge` is committed and holds newer providers back"
        ),
        "{}",
        upgraded.stderr
    );
    assert_eq!(provider(&drill), "1.0.0");
    drill.run(0, &["preflight", "--target", "drill"]);
}

#[test]
fn a_downloaded_module_moves_on_upgrade_only() {
    let stage = Stage::empty();
    let far = stage.world.root().join("far");
    std::fs::create_dir_all(&far).expect("a directory");
    let git = |args: &[&str]| {
        stage
            .world
            .command("git")
            .cwd(&far)
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args.iter().copied())
            .run()
            .expect_code(0);
    };
    let module = |text: &str| {
        write(
            &far.join("main.tf"),
            &format!(
                "resource \"terraform_data\" \"it\" {{\n  input = \"{text}\"\n}}\noutput \"said\" {{ value = terraform_data.it.output }}\n"
            ),
        );
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", text]);
    };
    git(&["init", "-q"]);
    module("first");
    stage.write(
        "0-s/main.tf",
        &format!(
            "module \"far\" {{\n  source = \"git::file://{}\"\n}}\noutput \"said\" {{ value = module.far.said }}\n",
            far.display()
        ),
    );
    stage.define(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"s\"\ntofu = \"0-s\"\n",
    );
    let said = || {
        let status = stage.status();
        status["standing"][0]["outputs"]["said"]
            .as_str()
            .map(str::to_owned)
    };
    stage.up();
    module("second");
    stage.up();
    assert_eq!(said().as_deref(), Some("first"), "it moved by itself");
    let upgraded = stage.run(0, &UPGRADE);
    assert!(
        upgraded
            .stderr
            .contains("upgrade 0.s: module far has changed"),
        "{}",
        upgraded.stderr
    );
    assert_eq!(said().as_deref(), Some("second"));
    stage.up();
    assert_eq!(said().as_deref(), Some("second"), "and stays");
    stage.run(0, &["preflight", "--target", "drill"]);
}

/// Case R10: the lock file is another one at the apply than it was at the plan.
#[test]
fn a_lock_file_that_changes_between_plan_and_apply_is_refused() {
    let (drill, cloud) = Cloud::drill(PHASES, &[("edge", BODY)]);
    drill.up();
    let path = drill.world.write(
        "changing/tofu",
        &format!(
            "#!/bin/sh\nif [ \"$1\" = apply ]; then sed -i.bak 's/version *= \"1.0.0\"/version = \"1.0.9\"/' .terraform.lock.hcl; fi\n\
             exec {} \"$@\"\n",
            tool("REBUILD_TEST_TOFU").display()
        ),
    );
    executable(&path);
    drill.write(
        "rebuild.toml",
        &format!(
            "[platform]\nname = \"lab\"\n[tools]\ntofu = {{ cli_config = \"tofu.tfrc\", command = [\"{}\"] }}\n{PHASES}",
            path.display()
        ),
    );
    drill.write(
        "edge/main.tf",
        &cloud.module("resource \"test_object\" \"a\" {\n  name = \"a\"\n  content = \"new\"\n}\n"),
    );
    let refused = drill.run(1, &["up", "--target", "drill", "--no-pause"]);
    assert!(
        refused
            .stderr
            .contains("there is no package for registry.opentofu.org/rebuild/test 1.0.9"),
        "{}",
        refused.stderr
    );
    assert_eq!(cloud.calls(), ["create a"], "nothing was applied");
}

#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file of the test");
}

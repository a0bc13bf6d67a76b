//! Modules that `init` downloads: they stand beside the bundle, and their source may go.

use crate::stage::Stage;

/// A module from a git repository that is gone meanwhile: preflight, another `up` and `down` still work, on another
/// machine as well.
#[test]
fn a_downloaded_module_outlives_its_source() {
    let stage = Stage::empty();
    let shared = stage.world.root().join("shared");
    stage.write(
        "targets/drill.toml",
        &format!("[store]\nlocal = {{ dir = \"{}\" }}\n", shared.display()),
    );
    // The far module books what is done.
    stage.module("0-s", "");
    let far = stage.world.root().join("far");
    std::fs::rename(stage.dir().join("0-s"), &far).unwrap();
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
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "far"]);
    stage.write(
        "0-s/main.tf",
        &format!(
            "module \"far\" {{\n  source = \"git::file://{}\"\n}}\noutput \"name\" {{ value = module.far.name }}\n",
            far.display()
        ),
    );
    stage.define(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"s\"\ntofu = \"0-s\"\n",
    );
    stage.up();
    assert_eq!(stage.book(), ["create 0-s"]);
    let record = stage.record();
    assert!(
        record["standing"][0]["init_extras"].is_string(),
        "{}",
        record["standing"]
    );
    std::fs::remove_dir_all(&far).unwrap();
    let elsewhere = |n: u32, args: &[&str]| {
        let outcome = stage
            .rebuild(args)
            .env(
                "XDG_STATE_HOME",
                stage.world.root().join(format!("machine-{n}")),
            )
            .run();
        outcome.expect_code(0);
    };
    stage.run(0, &["preflight", "--target", "drill"]);
    elsewhere(1, &["preflight", "--target", "drill"]);
    // Today's definitions name the same source: what was recorded is used again.
    elsewhere(2, &["up", "--target", "drill", "--no-pause"]);
    assert!(stage.book().is_empty());
    elsewhere(3, &["down", "--target", "drill"]);
    assert_eq!(stage.book(), ["destroy 0-s"]);
}

/// `[tools] tofu.command` may lie in the platform directory.
#[test]
fn a_tool_may_be_named_relative_to_the_platform() {
    let stage = Stage::of(&["0: s"]);
    let path = stage.write(
        "tools/tofu",
        &format!(
            "#!/bin/sh\nexec {} \"$@\"\n",
            crate::drill::tool("REBUILD_TEST_TOFU").display()
        ),
    );
    crate::stage::executable(&path);
    let text = std::fs::read_to_string(stage.dir().join("rebuild.toml")).unwrap();
    stage.write(
        "rebuild.toml",
        &format!("{text}[tools]\ntofu = {{ command = [\"tools/tofu\"] }}\n"),
    );
    let below = stage.dir().join("0-s");
    let outcome = stage
        .rebuild(&["up", "--target", "drill", "--no-pause"])
        .cwd(below)
        .env("PATH", "/usr/bin:/bin")
        .run();
    outcome.expect_code(0);
    assert_eq!(stage.book(), ["create 0-s"]);
}

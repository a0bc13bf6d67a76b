//! A whole small platform with the real OpenTofu, which `REBUILD_TEST_TOFU` names: at a terminal, and with a
//! reader that goes away.

use std::path::Path;

use serde_json::Value;
use test_support::World;

use crate::rebuild;

/// Writes the platform that `init` writes, with a place of its own, and puts the real OpenTofu on PATH.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests' own switch, and files of a test"
)]
fn lab(world: &World) {
    let tofu = std::env::var_os("REBUILD_TEST_TOFU")
        .expect("REBUILD_TEST_TOFU is not set: run `cargo xtask tools`");
    std::os::unix::fs::symlink(Path::new(&tofu), world.bin().join("tofu"))
        .expect("a link to OpenTofu");
    rebuild(world, &["init", "."]).run().expect_code(0);
    let target = world.work().join("targets/drill.toml");
    let text = std::fs::read_to_string(&target).expect("the target file of `init`");
    let place = format!("place = {:?}", world.root().join("place"));
    let moved: Vec<_> = text
        .lines()
        .map(|line| {
            if line.starts_with("place =") {
                &place
            } else {
                line
            }
        })
        .collect();
    std::fs::write(&target, moved.join("\n")).expect("the target file, moved");
}

fn status(world: &World) -> Value {
    let told = rebuild(world, &["status", "--target", "drill", "--output", "json"]).run();
    serde_json::from_str(&told.expect_code(0).stdout).expect("one JSON document")
}

#[test]
fn up_ends_well_though_nobody_reads_it() {
    let world = World::new();
    lab(&world);
    let up = rebuild(&world, &["up", "--target", "drill", "--no-pause"])
        .stdout_unread()
        .run();
    up.expect_code(0);
    assert_eq!(status(&world)["state"], "finished");
    let down = rebuild(&world, &["down", "--target", "drill", "--output", "ndjson"]).run();
    let last: Value =
        serde_json::from_str(down.expect_code(0).stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["document"]["status"], "torn-down");
    let again = rebuild(&world, &["down", "--target", "drill"]).run();
    again.expect_code(0);
    assert!(again.stderr.contains("nothing is left"), "{}", again.stderr);
}

#[test]
fn a_person_goes_on_pauses_and_tears_down() {
    let world = World::new();
    lab(&world);
    let mut up = rebuild(&world, &["up", "--target", "drill"]).in_terminal();
    up.expect("continue with phase 1a, pause, or tear down? [c/p/t] ")
        .send("c\n");
    up.expect("continue with phase 1b, pause, or tear down? [c/p/t] ")
        .send("\x03");
    let up = up.wait();
    up.expect_code(0);
    assert!(
        up.stdout
            .contains("`rebuild up --target drill --resume` goes on"),
        "{}",
        up.stdout
    );
    assert_eq!(status(&world)["run"]["status"], "paused");

    let refused = rebuild(&world, &["up", "--target", "drill", "--output", "json"]).run();
    let document: Value = serde_json::from_str(&refused.expect_code(3).stdout).unwrap();
    assert_eq!(document["error"]["exit"], 3);

    let mut resumed = rebuild(&world, &["up", "--target", "drill", "--resume"]).in_terminal();
    resumed
        .expect("continue with phase 1c, pause, or tear down? [c/p/t] ")
        .send("t\n");
    resumed.wait().expect_code(0);
    assert_eq!(status(&world)["state"], "empty");
}

//! Streams whose other end is gone, colour, and the two hidden ways in.

use std::time::Duration;

use test_support::World;

use crate::rebuild;

#[test]
fn a_reader_that_is_gone_stops_nothing() {
    let world = World::new();
    let outcome = rebuild(&world, &["init", "lab"]).stdout_unread().run();
    outcome.expect_code(0);
    assert_eq!(outcome.stderr, "");
    assert!(world.work().join("lab/rebuild.toml").is_file());
    rebuild(&world, &["--help"])
        .stdout_unread()
        .run()
        .expect_code(0);
    rebuild(&world, &["--output", "json", "plan"])
        .stdout_unread()
        .run()
        .expect_code(2);
}

#[test]
fn colour_is_for_terminals_alone() {
    let world = World::new();
    let plain = rebuild(&world, &["down", "--target", "a", "--confirm", "b"]);
    assert!(!plain.run().stderr.contains('\x1b'));
    let shown = plain.in_terminal().wait();
    assert!(
        shown.stdout.contains("\x1b[31merror\x1b[0m"),
        "{}",
        shown.stdout
    );
    let kept = plain.clone().env("NO_COLOR", "1").in_terminal().wait();
    assert!(!kept.stdout.contains('\x1b'), "{}", kept.stdout);
    let forced = plain.arg("--color=always").run();
    assert!(
        forced.stderr.contains("\x1b[31merror\x1b[0m"),
        "{}",
        forced.stderr
    );
}

#[test]
fn opentofu_gets_its_key() {
    let world = World::new();
    let file = world.write("key", &"k".repeat(32));
    let asked = rebuild(&world, &["__key", &file.to_string_lossy()])
        .without_env("HOME")
        .stdin("null\n");
    let outcome = asked.deadline(Duration::from_secs(20)).run();
    outcome.expect_code(0);
    let answer = outcome.stdout.lines().last().unwrap();
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
    assert!(answer["keys"]["encryption_key"].is_string());
    assert!(
        !answer["meta"].is_null(),
        "without `meta` a state can never be read again"
    );
    let missing = rebuild(&world, &["__key", "nowhere"]).run();
    missing.expect_code(1);
    assert!(
        missing
            .stderr
            .starts_with("error: cannot read the key\ncaused by: "),
        "{}",
        missing.stderr
    );
}

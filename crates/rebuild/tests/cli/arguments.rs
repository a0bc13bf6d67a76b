//! Command lines and their exit codes.

use serde_json::Value;
use test_support::World;

use crate::rebuild;

/// Each is a usage error: exit code 2, with this in the message, and nothing on standard output.
#[test]
fn what_can_not_be_meant_is_refused_before_anything() {
    let world = World::new();
    for (args, wanted) in [
        (&["up"][..], "--target"),
        (&["down"], "--target"),
        (&["preflight"], "--target"),
        (&["status"], "--target"),
        (&["unlock"], "--target"),
        (&["runs", "list"], "--target"),
        (&["runs", "show", "--target", "drill"], "<ID>"),
        (&["runs"], "list"),
        (&["rise", "--target", "drill"], "rise"),
        (&["up", "--target", "drill", "--targt", "x"], "--targt"),
        (&["up", "--target", "drill", "--jobs", "0"], "--jobs"),
        (&["up", "--target", "drill", "--jobs", "many"], "--jobs"),
        (
            &["up", "--target", "drill", "--grace", "soon"],
            "a length of time looks like",
        ),
        (&["up", "--target", "drill", "--grace=-3s"], "negative"),
        (&["up", "--target", "drill", "--output", "xml"], "xml"),
        (
            &["down", "--target", "drill", "--forget", "1a.edge"],
            "--reason",
        ),
        (
            &["down", "--target", "drill", "--reason", "dead"],
            "--forget",
        ),
        (
            &["down", "--target", "drill", "--confirm", "live"],
            "does not match",
        ),
        (&["init"], "<DIR>"),
        (&[], "Usage"),
    ] {
        let outcome = rebuild(&world, args).run();
        assert_eq!(outcome.code(), Some(2), "{args:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(wanted),
            "{args:?}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stdout, "", "{args:?}");
    }
}

#[test]
fn what_a_later_version_will_have_is_recognised_and_refused() {
    let world = World::new();
    let outcome = rebuild(&world, &["serve"]).run();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .starts_with("error: `serve` is not there yet"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn help_shows_what_there_is_and_nothing_else() {
    let world = World::new();
    let help = rebuild(&world, &["--help"]).run();
    help.expect_code(0);
    insta::assert_snapshot!(help.stdout);
    let up = rebuild(&world, &["up", "--help"]).run();
    up.expect_code(0);
    insta::assert_snapshot!(up.stdout);
    rebuild(&world, &["--version"]).run().expect_code(0);
}

#[test]
fn a_failing_command_prints_one_document() {
    let world = World::new();
    for args in [
        &["--output", "json", "up"][..],
        &["up", "--output=json", "--target", "drill", "--prune"],
        &["plan", "--output", "json"],
        &["--output", "json"],
        &[
            "down",
            "--output",
            "json",
            "--target",
            "a",
            "--confirm",
            "b",
        ],
    ] {
        let outcome = rebuild(&world, args).run();
        outcome.expect_code(2);
        let document: Value = serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", outcome.stdout));
        assert_eq!(
            (&document["schema"], &document["error"]["exit"]),
            (&1.into(), &2.into()),
            "{args:?}"
        );
        assert!(
            document["error"]["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{args:?}"
        );
        assert!(!outcome.stderr.is_empty(), "{args:?}: people are told, too");
    }
}

#[test]
fn events_end_with_one_that_says_how_it_ended() {
    let world = World::new();
    let outcome = rebuild(&world, &["plan", "--output", "ndjson"]).run();
    let last: Value = serde_json::from_str(outcome.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["event"], &last["exit"]),
        (&"ended".into(), &2.into())
    );
}

#[test]
fn init_writes_a_platform_once() {
    let world = World::new();
    let first = rebuild(&world, &["init", "lab"]).run();
    first.expect_code(0);
    assert!(
        first.stdout.contains("rebuild up --target drill"),
        "{}",
        first.stdout
    );
    assert!(world.work().join("lab/rebuild.toml").is_file());
    let again = rebuild(&world, &["init", "lab"]).run();
    again.expect_code(2);
    assert!(
        again.stderr.contains("hint: nothing was written"),
        "{}",
        again.stderr
    );
    let document = rebuild(&world, &["init", "other", "--output", "json"]).run();
    let document: Value = serde_json::from_str(document.expect_code(0).stdout.trim()).unwrap();
    assert_eq!(document["schema"], 1);
}

#[test]
fn a_home_that_is_not_set_is_told_in_one_sentence() {
    let world = World::new();
    let outcome = rebuild(&world, &["status", "--target", "drill"])
        .without_env("HOME")
        .run();
    outcome.expect_code(2);
    assert_eq!(
        outcome.stderr,
        "error: the variable `HOME` is not set, so there is no place to keep targets\n"
    );
}

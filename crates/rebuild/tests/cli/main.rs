//! The program from outside: what can be typed and what comes back.

mod arguments;
mod real;
mod streams;

use test_support::{Command, World};

/// The program under test, in a world of its own.
fn rebuild(world: &World, args: &[&str]) -> Command {
    world.command(env!("CARGO_BIN_EXE_rebuild")).args(args)
}

#[test]
fn no_file_of_tests_is_forgotten() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli");
    for entry in std::fs::read_dir(here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs") else {
            continue;
        };
        let named = include_str!("main.rs").contains(&format!("mod {module};"));
        assert!(module == "main" || named, "{name}");
    }
}

//! Everything that a change must pass, in the order in which a fault is cheapest to find.

use std::time::Instant;

use anyhow::{Context, Result};

use crate::sh::{Cmd, cargo, note, root};
use crate::{demo, test, tidy, tools};

/// One part: good, or why not.
type Part = fn() -> Result<()>;

/// Runs it; stops at the first part that fails.
pub(crate) fn run(checks_only: bool) -> Result<()> {
    let begun = Instant::now();
    let mut parts: Vec<(&str, Part)> = vec![
        ("format", format),
        ("tidy", || tidy::run(&root())),
        ("lints", lints),
        ("docs", docs),
        ("licences, bans and sources", deny),
    ];
    if !checks_only {
        parts.push(("test", || test::run(&[])));
        parts.push(("demo", demo::run));
    }
    for (name, part) in parts {
        note(&format!("== {name}"));
        let started = Instant::now();
        part().with_context(|| format!("ci: {name}"))?;
        note(&format!("== {name}: good, {:.0?}", started.elapsed()));
    }
    note(&format!("== all good, {:.0?}", begun.elapsed()));
    Ok(())
}

fn format() -> Result<()> {
    cargo()
        .args(["fmt", "--all", "--check"])
        .current_dir(&root())
        .run()
}

fn lints() -> Result<()> {
    cargo()
        .args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ])
        .current_dir(&root())
        .run()
}

fn docs() -> Result<()> {
    cargo()
        .args(["doc", "--workspace", "--no-deps", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .current_dir(&root())
        .run()
}

/// The database of advisories needs a network, so advisories are not part of it.
fn deny() -> Result<()> {
    let Some(program) = tools::cargo_deny(&tools::default_directory()) else {
        note(
            "cargo-deny is not installed, so this part is left out; `cargo xtask tools --dev` installs it",
        );
        return Ok(());
    };
    Cmd::new(program)
        .shown_as("cargo-deny")
        .args(["--locked", "check", "licenses", "bans", "sources"])
        .current_dir(&root())
        .run()
}

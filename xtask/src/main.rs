//! The project's own commands: `cargo xtask COMMAND`.
//!
//! They need Rust, Go, Python 3 and git, and nothing else that was set up before.

mod bench;
mod ci;
mod coverage;
mod demo;
mod oracle;
mod schema;
mod sh;
mod test;
mod tidy;
mod tools;
mod torture;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::sh::{cargo, note, root};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find or build the tools that tests and the demo need; print where they are, one JSON line each
    Tools {
        /// Directory for what is built
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
        /// Also what only development needs: cargo-deny and LLVM's coverage programs
        #[arg(long)]
        dev: bool,
    },
    /// Build the example platform from nothing, look at it, and tear it down
    Demo,
    /// Run every test, with the real tools
    Test {
        /// Also measure line coverage of each crate and hold it to its threshold
        #[arg(long, conflicts_with = "args")]
        coverage: bool,
        /// Passed on to `cargo test`: a filter, or `-p CRATE`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Check what no compiler checks: module docs, file lengths, crate arrows, words, paths in docs
    Tidy,
    /// Everything that a change must pass: format, lints, docs, deny, tidy, test, demo
    Ci {
        /// Leave out `test` and `demo`
        #[arg(long)]
        checks_only: bool,
    },
    /// Reduce what `tofu providers schema -json` prints to a schema that ships with the crate `provider`
    Schema(schema::Options),
    /// Compare what is rendered with the arguments in published Python bindings; fetches them from PyPI
    Oracle(oracle::Options),
    /// Measure line coverage of each crate and hold it to its threshold
    Coverage(coverage::Options),
    /// Call what reads strangers' bytes with changed ones: `fuzz --seconds 600`, `fuzz record state`
    Fuzz {
        /// Passed on: `--seconds N` for each target, `--seed N`, names of targets
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Hurt `rebuild` at points all over it, and look whether anything is lost: docs/reliability.md
    Torture(torture::Options),
    /// Measure `rebuild` against a plain loop of tofu commands over the same root modules
    Bench(bench::Options),
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Tools { into, dev } => {
            let into = into.unwrap_or_else(tools::default_directory);
            tools::show(&into, dev)
        }
        Command::Demo => demo::run(),
        Command::Test { coverage: true, .. } => coverage::test_whole(),
        Command::Test { args, .. } => test::run(&args),
        Command::Tidy => tidy::run(&root()),
        Command::Ci { checks_only } => ci::run(checks_only),
        Command::Schema(options) => schema::run(&options),
        Command::Oracle(options) => oracle::run(&options),
        Command::Coverage(options) => coverage::run(&options),
        Command::Fuzz { args } => cargo()
            .args(["run", "--quiet", "--locked", "--package", "fuzz", "--"])
            .args(&args)
            .current_dir(&root())
            .run(),
        Command::Torture(options) => torture::run(&options),
        Command::Bench(options) => bench::run(&options),
    }
}

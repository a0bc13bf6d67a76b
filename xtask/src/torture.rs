//! The kill matrix: hurts `rebuild` at points all over it and looks whether anything is lost.

use anyhow::Result;

use crate::sh::{cargo, note, root};
use crate::test;
use crate::tools;

/// How many faults the long form injects, unless it is told otherwise.
const LONG: usize = 1_000;

/// What is tried.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// From what the cases are drawn; the same seed draws the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many faults are to come about, at least [default: 1000]
    #[arg(long)]
    faults: Option<usize>,
    /// The form that is among the tests: some hundred faults
    #[arg(long, conflicts_with_all = ["faults", "case"])]
    short: bool,
    /// Only points with this in their name, as `store.put` or `run/head.json`
    #[arg(long)]
    point: Option<String>,
    /// This one case, as the line that a failure prints
    #[arg(long)]
    case: Option<String>,
    /// How many cases at once
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// How much of each platform: parts of `programs`, `pair`, `seven`, `plain`, as `12,7,1,2`
    #[arg(long)]
    parts: Option<String>,
}

/// Runs it, with the real tools.
pub(crate) fn run(options: &Options) -> Result<()> {
    test::demand_programs()?;
    let tools = tools::ensure(&tools::default_directory())?;
    let servers = tools::ensure_servers(&tools::default_directory())?;
    let reach = tools::ensure_reach(&tools::default_directory())?;
    let mut call = cargo().args(["test", "--quiet", "--locked"]).args([
        "--package",
        "e2e-tests",
        "--test",
        "torture",
        "--",
    ]);
    if let Some(case) = &options.case {
        call = call.arg(format!("--case={case}"));
    } else if !options.short {
        call = call
            .arg(format!("--seed={}", options.seed))
            .arg(format!("--faults={}", options.faults.unwrap_or(LONG)))
            .arg("--verbose");
    }
    call = call.arg(format!("--jobs={}", options.jobs));
    if let Some(point) = &options.point {
        call = call.arg(format!("--point={point}"));
    }
    if let Some(parts) = &options.parts {
        call = call.arg(format!("--parts={parts}"));
    }
    for (name, value) in test::variables(&tools, &servers, &reach) {
        call = call.env(name, value);
    }
    note("this takes a while; each case that ends badly prints the line that repeats it");
    call.current_dir(&root()).run()
}

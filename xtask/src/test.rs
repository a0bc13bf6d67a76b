//! Every test, with the real tools named to it.

use anyhow::Result;

use crate::sh::{cargo, demand, note, root};
use crate::tools::{self, Reach, Servers, Tools};

/// What the tests and the demo need besides Rust and Go.
pub(crate) fn demand_programs() -> Result<()> {
    demand(
        "python3",
        "the example platform's servers are written in it",
        "install Python 3.9 or newer (Debian: `apt install python3`, macOS: `brew install python`)",
    )?;
    demand(
        "git",
        "a platform is a git repository",
        "install git (Debian: `apt install git`, macOS: `xcode-select --install`)",
    )?;
    Ok(())
}

/// Returns the variables by which tests find the tools.
pub(crate) fn variables(
    tools: &Tools,
    servers: &Servers,
    reach: &Reach,
) -> Vec<(&'static str, std::path::PathBuf)> {
    let mut variables = vec![
        ("REBUILD_TEST_TOFU", tools.tofu.path.clone()),
        ("REBUILD_TEST_MIRROR", tools.cli_config.clone()),
        (
            "REBUILD_TEST_STAND_IN",
            tools.provider_stand_in.path.clone(),
        ),
    ];
    variables.extend(servers.variables());
    variables.extend(reach.variables());
    variables
}

/// Runs them all, or those that the arguments choose.
pub(crate) fn run(args: &[String]) -> Result<()> {
    demand_programs()?;
    let tools = tools::ensure(&tools::default_directory())?;
    let servers = tools::ensure_servers(&tools::default_directory())?;
    tools::ensure_packages()?;
    let reach = tools::ensure_reach(&tools::default_directory())?;
    let names_a_package = args
        .iter()
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package"));
    let mut call = cargo()
        .args(["test", "--no-fail-fast", "--locked"])
        .current_dir(&root());
    if !names_a_package {
        call = call.arg("--workspace");
    }
    for (name, value) in variables(&tools, &servers, &reach) {
        note(&format!("{name}={}", value.display()));
        call = call.env(name, value);
    }
    call.args(args).run()
}

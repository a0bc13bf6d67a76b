//! The program: arguments, wiring, prompts, rendering, exit codes.
//!
//! - The environment is read here, once, and passed on as a value ([`run::api::Machine`]).
//! - Only this crate prints: results on standard output; progress, prompts and errors on standard error.
//! - A stream whose reader is gone stops nothing; a prompt that can't be read never means yes.

#[cfg(not(unix))]
compile_error!("`rebuild` runs on Linux and macOS; Windows is not supported");

mod args;
mod commands;
mod entry;
mod failure;
mod handoff_args;
mod later;
mod machine;
#[cfg(test)]
mod pages_tests;
mod panic;
mod prompt;
mod reference;
mod render;
mod schemas;
mod signals;
mod stream;
mod ui;

use std::ffi::OsString;

/// Runs the program with the arguments and the environment of this process.
#[must_use]
pub fn main() -> std::process::ExitCode {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| "rebuild".into());
    let rest: Vec<OsString> = args.collect();
    entry::main(name, rest)
}

/// The command reference, as `docs/commands.md` holds it.
#[must_use]
pub fn command_reference() -> String {
    reference::page()
}

/// The JSON Schemas of everything that is printed or stored as JSON, as `docs/schemas` holds them: file name and text.
#[must_use]
pub fn json_schemas() -> std::collections::BTreeMap<String, String> {
    schemas::files()
}

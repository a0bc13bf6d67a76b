//! Tests with the real OpenTofu. `REBUILD_TEST_TOFU` names it; `cargo xtask tools` gets one.

#![expect(clippy::unwrap_used, reason = "all of this is a test")]

mod applies;
mod backend;
mod checks;
mod encryption;
mod failures;
mod inits;
mod outliving;
mod plans;
mod world;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Names every test of a module for the runner below.
#[macro_export]
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[(&str, fn())] = &[$((stringify!($name), $name as fn())),+];
    };
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next().unwrap_or_default();
    if process::launch::is_launcher(&first) {
        return process::launch::main(args);
    }
    if first == encryption::KEY {
        return encryption::be_a_key_provider(args.collect());
    }
    if first == outliving::CALLER {
        return outliving::be_a_caller(args.collect());
    }
    run(std::env::args_os().skip(1).collect())
}

fn run(args: Vec<OsString>) -> ExitCode {
    let args: Vec<String> = args
        .iter()
        .map(|arg| arg.to_string_lossy().into())
        .collect();
    let only_lists = args.iter().any(|arg| arg == "--list");
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let mut n_failed = 0;
    let mut out = std::io::stdout();
    for module in [
        applies::TESTS,
        plans::TESTS,
        inits::TESTS,
        failures::TESTS,
        encryption::TESTS,
        outliving::TESTS,
        checks::TESTS,
    ] {
        for (name, test) in module {
            if !filters.is_empty() && !filters.iter().any(|filter| name.contains(*filter)) {
                continue;
            }
            if only_lists {
                writeln!(out, "{name}: test").unwrap();
                continue;
            }
            let begun = std::time::Instant::now();
            let is_ok = std::panic::catch_unwind(test).is_ok();
            n_failed += usize::from(!is_ok);
            let word = if is_ok { "ok" } else { "FAILED" };
            writeln!(
                out,
                "test {name} ... {word} ({:.2} s)",
                begun.elapsed().as_secs_f32()
            )
            .unwrap();
        }
    }
    if n_failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

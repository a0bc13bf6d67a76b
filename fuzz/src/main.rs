//! Runs the targets: `cargo xtask fuzz` calls it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fuzz::{Bounds, Fault, TARGETS, run};

#[derive(Parser)]
#[command(about = "Calls what reads strangers' bytes with changed ones")]
struct Args {
    /// Only these targets
    targets: Vec<String>,
    /// For each target, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// From what the changes are drawn; the same seed makes the same ones [default: another each time]
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    // What a panic says is told once, with the input.
    std::panic::set_hook(Box::new(|_| {}));
    let mut exit = ExitCode::SUCCESS;
    let chosen =
        |name: &str| args.targets.is_empty() || args.targets.iter().any(|wanted| wanted == name);
    for target in TARGETS.iter().filter(|target| chosen(target.name)) {
        let bounds = Bounds {
            time: Duration::from_secs(args.seconds),
            n_inputs: u64::MAX,
            seed: args.seed.unwrap_or_else(rand::random),
        };
        match run(target, &corpus, bounds) {
            Ok(report) => tell(&format!(
                "{}: {} inputs, {} KiB at most, seed {}",
                target.name,
                report.n_inputs,
                report
                    .peak_kib
                    .map_or_else(|| "?".to_owned(), |kib| kib.to_string()),
                bounds.seed
            )),
            Err(error) => {
                exit = ExitCode::FAILURE;
                tell(&format!("error: {error:#}"));
                if let Some(fault) = error.downcast_ref::<Fault>() {
                    tell(&match kept(fault) {
                        Ok(path) => format!("the input is in {}", path.display()),
                        Err(error) => format!("the input can't be kept: {error}"),
                    });
                }
            }
        }
    }
    exit
}

/// Keeps an input that failed, so that it can be tried again and be added to the corpus.
fn kept(fault: &Fault) -> Result<PathBuf, process::files::FileError> {
    let name = format!(
        "rebuild-fuzz-{}-{}",
        fault.target,
        &store::sha256_hex(&fault.input)[..12]
    );
    let path = std::env::temp_dir().join(name);
    process::files::write_atomically(&path, &fault.input, 0o600)?;
    Ok(path)
}

#[expect(clippy::print_stderr, reason = "a program for developers")]
fn tell(line: &str) {
    eprintln!("{line}");
}

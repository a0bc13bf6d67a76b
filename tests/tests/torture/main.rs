//! Hurts the real `rebuild`, with the real `tofu`, at points all over it, and looks whether anything is lost.
//!
//! `cargo xtask torture` calls it; without arguments it is the short form, a test among tests. Every case is one line of
//! text, and `--case LINE` tries that one again.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program that tells what it found"
)]

mod case;
mod cloud;
mod plan;
mod scene;
mod table;
mod trial;
mod truth;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use case::{Case, Shape, Verb};
use cloud::Cloud;
use plan::{Draw, Passed};
use trial::{Hurt, Tried};

pub(crate) const REBUILD: &str = env!("CARGO_BIN_EXE_rebuild_dup");
pub(crate) const FAKE_CLOUD: &str = env!("CARGO_BIN_EXE_fake_cloud");

/// The name of the one test that this is.
const NAME: &str = "torture_loses_nothing";
/// What the short form tries; its seed is always the same, so that a failure is one for everybody.
const SHORT: (u64, usize) = (6, 122);

/// A tool, as `cargo xtask` names it.
pub(crate) fn tool(variable: &str) -> PathBuf {
    #[expect(
        clippy::disallowed_methods,
        reason = "how `cargo xtask` hands the tools over"
    )]
    let path = std::env::var_os(variable);
    PathBuf::from(
        path.unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask torture`")),
    )
}

/// What is to be done.
#[derive(Debug, Default)]
struct Asked {
    seed: Option<u64>,
    n_faults: Option<usize>,
    only: Option<String>,
    case: Option<String>,
    jobs: Option<usize>,
    /// Parts of `programs`, `pair` and `seven`.
    parts: Option<Vec<u32>>,
    verbose: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // What a filter of `cargo test` does not name is not run.
    let is_filtered = !args
        .iter()
        .any(|arg| arg.starts_with("--faults") || arg.starts_with("--case"))
        && args
            .first()
            .is_some_and(|first| !first.starts_with('-') && !NAME.contains(first.as_str()));
    if is_filtered {
        return ExitCode::SUCCESS;
    }
    if args.iter().any(|arg| arg == "--list") {
        println!("{NAME}: test");
        return ExitCode::SUCCESS;
    }
    match asked(&args).and_then(|asked| run(&asked)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(n) => {
            eprintln!("{n} cases ended badly");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn asked(args: &[String]) -> anyhow::Result<Asked> {
    let mut asked = Asked::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, mut value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let mut next = || -> anyhow::Result<String> {
            let value = value.take().or_else(|| args.next().cloned());
            value.ok_or_else(|| anyhow::anyhow!("`{name}` has no value"))
        };
        match name {
            "--seed" => asked.seed = Some(next()?.parse()?),
            "--faults" => asked.n_faults = Some(next()?.parse()?),
            "--point" => asked.only = Some(next()?),
            "--case" => asked.case = Some(next()?),
            "--jobs" => asked.jobs = Some(next()?.parse()?),
            "--parts" => {
                let parts = next()?;
                let parts = parts.split(',').map(str::parse);
                asked.parts = Some(parts.collect::<Result<_, _>>()?);
            }
            "--verbose" => asked.verbose = true,
            // Options of `cargo test`'s own programs.
            _ => {}
        }
    }
    Ok(asked)
}

/// Gives how many cases ended badly.
fn run(asked: &Asked) -> anyhow::Result<usize> {
    case::reads_as_it_is_written();
    let cloud = Cloud::start();
    let began = Instant::now();
    if let Some(text) = &asked.case {
        let case: Case = text.parse()?;
        let (tried, done) = caught(&case, &cloud, "case");
        for line in &tried.told {
            println!("{line}");
        }
        print!("{}", table::told(&tried.hurts, 1, 0));
        if let Err(error) = done {
            eprintln!("{error:#}");
            return Ok(1);
        }
        return Ok(0);
    }
    let parts = asked.parts.clone().unwrap_or_else(|| vec![40, 6, 1]);
    let draw = Draw {
        seed: asked.seed.unwrap_or(SHORT.0),
        n_faults: asked.n_faults.unwrap_or(SHORT.1),
        parts: Shape::all()
            .zip(parts)
            .filter(|(_, part)| *part > 0)
            .collect(),
        only: asked.only.clone(),
    };
    let shapes: Vec<Shape> = draw.parts.iter().map(|(shape, _)| *shape).collect();
    let passed = passed(&shapes, &cloud)?;
    let n_points = passed.values().map(Vec::len).sum();
    let cases = plan::drawn(&passed, &draw);
    let next = AtomicUsize::new(0);
    let found: Mutex<(Vec<Hurt>, usize)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..asked.jobs.unwrap_or(2) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else {
                        return;
                    };
                    let (tried, done) = caught(case, &cloud, &format!("case-{index}"));
                    if asked.verbose {
                        let word = if done.is_ok() { "ok" } else { "BAD" };
                        eprintln!(
                            "{index}/{} {word} {:.0} s {case}",
                            cases.len(),
                            began.elapsed().as_secs_f32()
                        );
                    }
                    if let Err(error) = &done {
                        tell_bad(case, &tried, error);
                    }
                    if let Ok(mut found) = found.lock() {
                        found.0.extend(tried.hurts);
                        found.1 += usize::from(done.is_err());
                    }
                }
            });
        }
    });
    let (hurts, n_bad) = found.into_inner().unwrap_or_default();
    println!(
        "seed {}, {:.0} s\n{}",
        draw.seed,
        began.elapsed().as_secs_f32(),
        table::told(&hurts, cases.len(), n_points)
    );
    // A second hurt may lie behind what a call still had to do.
    let n_wanted = draw.n_faults * 3 / 4;
    anyhow::ensure!(
        n_bad > 0 || hurts.len() >= n_wanted,
        "only {} of {} faults came about",
        hurts.len(),
        draw.n_faults
    );
    Ok(n_bad)
}

fn tell_bad(case: &Case, tried: &Tried, error: &anyhow::Error) {
    let calls = tried.told.join("\n  ");
    eprintln!("\nBAD {error:#}\n  {calls}\nagain: cargo xtask torture --case '{case}'\n");
}

fn caught(case: &Case, cloud: &Cloud, place: &str) -> (Tried, anyhow::Result<()>) {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        trial::tried(case, cloud, place)
    }));
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.unwrap_or_else(|| "a check failed".to_owned());
        (Tried::default(), Err(anyhow::anyhow!(text)))
    })
}

/// What whole calls of each shape pass.
fn passed(shapes: &[Shape], cloud: &Cloud) -> anyhow::Result<Passed> {
    let mut passed = BTreeMap::new();
    for shape in shapes {
        let mut scene = scene::Scene::new(*shape, cloud, &format!("whole-{shape}"));
        let to = scene.next_store();
        for (verb, words) in [
            (Verb::Up, &["up", "--target", "drill", "--no-pause"][..]),
            (
                Verb::Move,
                &["store", "move", "--target", "drill", "--to", &to],
            ),
            (Verb::Down, &["down", "--target", "drill"]),
        ] {
            let called = scene.call(words, None);
            anyhow::ensure!(
                called.outcome.code() == Some(0),
                "a whole call of `{shape}` failed: {}",
                called.outcome.stderr
            );
            anyhow::ensure!(!called.passed.is_empty(), "no point was passed");
            scene.share_tools();
            if verb == Verb::Move {
                scene.has_moved();
            }
            passed.insert((*shape, verb), called.passed);
        }
    }
    Ok(passed)
}

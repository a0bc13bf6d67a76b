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
mod laptop;
mod plan;
mod scene;
mod table;
mod trial;
mod truth;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use case::{Case, Shape, Verb};
use cloud::Cloud;
use plan::{Draw, Drawer, Passed};
use trial::{Hurt, Tried};

pub(crate) const REBUILD: &str = env!("CARGO_BIN_EXE_rebuild_dup");
pub(crate) const FAKE_CLOUD: &str = env!("CARGO_BIN_EXE_fake_cloud");

/// The name of the one test that this is.
const NAME: &str = "torture_loses_nothing";
/// What the short form tries; its seed is always the same, so that a failure is one for everybody.
const SHORT: (u64, usize) = (6, 100);
/// What ended badly once, and what the seed of the short form may not draw again: always tried.
const ALWAYS: &[&str] = &[
    "plain; up, same; move, same, kill-all@store.delete.after moving.json#1; move, other; down, same",
];
/// How many cases are tried at most for each hurt that is to come about: some are aimed at what a resumed call had no more
/// to do.
const MOST_CASES: usize = 3;

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
    /// Parts of `programs`, `pair`, `seven` and `plain`.
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

/// What a run came to.
#[derive(Debug, Default)]
struct Found {
    hurts: Vec<Hurt>,
    n_cases: usize,
    n_bad: usize,
}

/// Gives how many cases ended badly.
fn run(asked: &Asked) -> anyhow::Result<usize> {
    case::reads_as_it_is_written();
    let cloud = Cloud::start();
    let began = Instant::now();
    if let Some(text) = &asked.case {
        return one(text, &cloud);
    }
    let parts = asked.parts.clone().unwrap_or_else(|| vec![36, 4, 1, 6]);
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
    let is_short = asked.n_faults.is_none();
    let asleep = laptop::cases().take(if is_short { laptop::SHORT } else { usize::MAX });
    let asleep: Vec<String> = asleep.collect();
    let n_asleep = asleep.len();
    let always = ALWAYS.iter().map(|line| (*line).to_owned());
    let first: Vec<String> = match asked.only {
        Some(_) => Vec::new(),
        None => asleep.into_iter().chain(always).collect(),
    };
    let next = Mutex::new((first.iter(), Drawer::new(&passed, &draw)));
    let found = Mutex::new(Found::default());
    std::thread::scope(|scope| {
        for _ in 0..asked.jobs.unwrap_or(2) {
            scope.spawn(|| {
                while let Some((index, wanted)) = wanted(&next, &found, &draw) {
                    let place = format!("case-{index}");
                    let (line, tried, done) = match wanted {
                        Wanted::Line(line) => {
                            let (tried, done) = again(line, &cloud, &place);
                            (line.clone(), tried, done)
                        }
                        Wanted::Drawn(case) => {
                            let (tried, done) = caught(|| trial::tried(&case, &cloud, &place));
                            (case.to_string(), tried, done)
                        }
                    };
                    if asked.verbose {
                        let word = if done.is_ok() { "ok" } else { "BAD" };
                        eprintln!(
                            "{index} {word} {:.0} s {line}",
                            began.elapsed().as_secs_f32()
                        );
                    }
                    if let Err(error) = &done {
                        tell_bad(&line, &tried, error);
                    }
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.hurts.extend(tried.hurts);
                    found.n_bad += usize::from(done.is_err());
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "seed {}, {:.0} s, {} of a laptop that fell asleep\n{}",
        draw.seed,
        began.elapsed().as_secs_f32(),
        counted(n_asleep, "case"),
        table::told(&found.hurts, found.n_cases, n_points)
    );
    println!(
        "{}, {} ended badly",
        counted(found.n_cases, "case"),
        found.n_bad
    );
    anyhow::ensure!(
        found.n_bad > 0 || found.hurts.len() >= draw.n_faults,
        "only {} of {} faults came about in {} cases",
        found.hurts.len(),
        draw.n_faults,
        found.n_cases
    );
    Ok(found.n_bad)
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What is tried next.
enum Wanted<'a> {
    /// One that is always tried.
    Line(&'a String),
    Drawn(Case),
}

/// The next case with its number; none once enough hurts came about.
fn wanted<'a>(
    next: &Mutex<(std::slice::Iter<'a, String>, Drawer<'_>)>,
    found: &Mutex<Found>,
    draw: &Draw,
) -> Option<(usize, Wanted<'a>)> {
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    let (asleep, drawer) = &mut *next.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = match asleep.next() {
        Some(line) => Wanted::Line(line),
        None => {
            let is_enough = found.hurts.len() >= draw.n_faults
                || found.n_cases >= draw.n_faults.saturating_mul(MOST_CASES);
            if is_enough {
                return None;
            }
            Wanted::Drawn(drawer.next()?)
        }
    };
    found.n_cases += 1;
    Some((found.n_cases, wanted))
}

/// Tries a case as its line says.
fn again(text: &str, cloud: &Cloud, place: &str) -> (Tried, anyhow::Result<()>) {
    if text.starts_with(laptop::CASE) {
        return caught(|| with_calls(laptop::tried(text, cloud, place)));
    }
    match text.parse::<Case>() {
        Ok(case) => caught(|| trial::tried(&case, cloud, place)),
        Err(error) => (Tried::default(), Err(error)),
    }
}

/// Tries one case and tells all of it.
fn one(text: &str, cloud: &Cloud) -> anyhow::Result<usize> {
    let (tried, done) = again(text, cloud, "case");
    for line in &tried.told {
        println!("{line}");
    }
    print!("{}", table::told(&tried.hurts, 1, 0));
    if let Err(error) = done {
        eprintln!("{error:#}");
        return Ok(1);
    }
    Ok(0)
}

fn with_calls((told, done): (Vec<String>, anyhow::Result<()>)) -> (Tried, anyhow::Result<()>) {
    let hurts = Vec::new();
    (Tried { hurts, told }, done)
}

fn tell_bad(case: &str, tried: &Tried, error: &anyhow::Error) {
    let calls = tried.told.join("\n  ");
    eprintln!("\nBAD {error:#}\n  {calls}\nagain: cargo xtask torture --case '{case}'\n");
}

fn caught(tried: impl FnOnce() -> (Tried, anyhow::Result<()>)) -> (Tried, anyhow::Result<()>) {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(tried));
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

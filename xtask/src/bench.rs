//! `rebuild` against a plain loop of tofu commands over the same seven root modules, and what ten thousand rendered
//! resources cost.
//!
//! Everything is made in a temporary directory; nothing is written in the tree. Runs of both are
//! interleaved, so that a machine that gets slower gets slower for both. Both use the same tofu, the same
//! mirror and a real provider plugin.

mod loop_of_tofu;
mod meter;
mod platform;
mod rendered;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;

use self::loop_of_tofu::Loop;
use self::meter::Reading;
use self::platform::Rebuild;
use crate::sh::{build, note, print};
use crate::tools;

/// How to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Rounds of everything; the table shows medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Objects of the plugin in each root module
    #[arg(long, default_value_t = 3)]
    objects: usize,
    /// Leave out `rebuild` with encrypted states
    #[arg(long)]
    plain_only: bool,
}

/// What is compared, in the order in which it is run.
const PARTS: [(&str, &str); 4] = [
    ("up", "init, plan -out, apply, refresh-only plan"),
    ("preflight", "plan"),
    ("second up", "init, plan -out, apply, refresh-only plan"),
    ("down", "init, destroy"),
];

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    /// The plain loop of `tofu` commands.
    Loop,
    /// `rebuild`, states in clear like the loop's.
    Clear,
    /// `rebuild`, states and plans encrypted.
    Encrypted,
}

type Readings = BTreeMap<(usize, Side), Vec<Reading>>;

/// Measures and prints the tables.
pub(crate) fn run(options: &Options) -> Result<()> {
    let tools = tools::ensure(&tools::default_directory())?;
    let rebuild = build("rebuild", "rebuild", true)?;
    let begun = Instant::now();
    let mut readings = Readings::new();
    let mut first_of_all = Vec::new();
    let mut sides = vec![Side::Loop, Side::Clear];
    if !options.plain_only {
        sides.push(Side::Encrypted);
    }
    for round in 0..options.rounds.max(1) {
        note(&format!("round {} of {}", round + 1, options.rounds.max(1)));
        let directory = tempfile::Builder::new()
            .prefix("rebuild-bench-")
            .tempdir()
            .context("no temporary directory")?;
        let here = directory.path().canonicalize()?;
        let ours = |name: &str, encrypted| {
            Rebuild::set_up(
                &here.join(name),
                &tools,
                &rebuild,
                options.objects,
                encrypted,
            )
        };
        let (clear, encrypted) = (ours("clear", false)?, ours("encrypted", true)?);
        let theirs = Loop::set_up(&here.join("loop"), &tools, options.objects)?;
        // Once for each installed tofu: its digest, and the cache's own copy of each plugin.
        for side in [&clear, &encrypted] {
            first_of_all.push(side.check()?);
        }
        for part in 0..PARTS.len() {
            // Who comes first goes round, so that nobody always finds the warmer machine.
            let n_sides = sides.len();
            for turn in 0..n_sides {
                let side = sides[(round + part + turn) % n_sides];
                let reading = match side {
                    Side::Loop => theirs.part(part)?,
                    Side::Clear => clear.part(part)?,
                    Side::Encrypted => encrypted.part(part)?,
                };
                readings.entry((part, side)).or_default().push(reading);
            }
        }
    }
    print("medians; seconds, MiB for the peak")?;
    print(&format!(
        "{:<10} {:>9} {:>9} {:>7} {:>10} {:>10} {:>10} {:>10} {:>6}  loop",
        "rebuild", "wall", "loop", "ratio", "own cpu", "tofu cpu", "loop cpu", "cpu ratio", "peak"
    ))?;
    for (part, (name, theirs)) in PARTS.iter().enumerate() {
        row(&readings, part, name, theirs)?;
    }
    print(&format!(
        "\nbefore the first `up` of a state home, once for each installed tofu: {:.3} s of own processor time",
        median(&first_of_all, |r| r.own)
    ))?;
    if !options.plain_only {
        print("\nencryption on, against `rebuild` with encryption off")?;
        for (part, (name, _)) in PARTS.iter().enumerate() {
            let of = |side, value: fn(&Reading) -> f64| median_of(&readings, part, side, value);
            let (on, off) = (of(Side::Encrypted, |r| r.wall), of(Side::Clear, |r| r.wall));
            print(&format!(
                "{name:<10} {on:>9.2} {off:>9.2} {:>7.2} {:>10.3} own cpu",
                on / off,
                of(Side::Encrypted, |r| r.own)
            ))?;
        }
    }
    let directory = tempfile::tempdir().context("no temporary directory")?;
    let here = directory.path().canonicalize()?;
    rendered::run(&here, &tools, &rebuild, options.rounds.max(1))?;
    note(&format!(
        "measured for {:.0} s",
        begun.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn median_of(readings: &Readings, part: usize, side: Side, value: fn(&Reading) -> f64) -> f64 {
    let found = readings.get(&(part, side)).map(Vec::as_slice);
    median(found.unwrap_or_default(), value)
}

fn row(readings: &Readings, part: usize, name: &str, theirs: &str) -> Result<()> {
    let of = |side, value: fn(&Reading) -> f64| median_of(readings, part, side, value);
    let (wall, loop_wall) = (of(Side::Clear, |r| r.wall), of(Side::Loop, |r| r.wall));
    let (own, tofu) = (of(Side::Clear, |r| r.own), of(Side::Clear, |r| r.children));
    let loop_cpu = of(Side::Loop, |r| r.own + r.children);
    print(&format!(
        "{name:<10} {wall:>9.2} {loop_wall:>9.2} {:>7.2} {own:>10.3} {tofu:>10.2} {loop_cpu:>10.2} {:>10.2} {:>6.1}  {theirs}",
        wall / loop_wall,
        (own + tofu) / loop_cpu,
        of(Side::Clear, |r| r.peak as f64) / 1024.0,
    ))
}

fn median(readings: &[Reading], value: fn(&Reading) -> f64) -> f64 {
    let mut values: Vec<f64> = readings.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let of = |walls: &[f64]| -> Vec<Reading> {
            walls
                .iter()
                .map(|wall| Reading {
                    wall: *wall,
                    ..Reading::default()
                })
                .collect()
        };
        assert_eq!(median(&of(&[9.0, 1.0, 2.0]), |r| r.wall), 2.0);
        assert_eq!(median(&of(&[9.0, 1.0, 2.0, 4.0]), |r| r.wall), 3.0);
    }
}

//! `rebuild` against a plain loop of tofu commands over the same seven root modules.
//!
//! Everything is made in a temporary directory; nothing is written in the tree. Runs of both are
//! interleaved, so that a machine that gets slower gets slower for both. Both use the same tofu, the same
//! mirror and a real provider plugin.

mod loop_of_tofu;
mod meter;
mod platform;

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
    /// Leave out the measurements with encrypted states
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

/// Measures and prints the table.
pub(crate) fn run(options: &Options) -> Result<()> {
    let tools = tools::ensure(&tools::default_directory())?;
    let rebuild = build("rebuild", "rebuild", true)?;
    let mut encryptions = vec![false];
    if !options.plain_only {
        encryptions.push(true);
    }
    let begun = Instant::now();
    for encrypted in encryptions {
        let mut readings: BTreeMap<(usize, bool), Vec<Reading>> = BTreeMap::new();
        for round in 0..options.rounds.max(1) {
            note(&format!(
                "round {} of {}, encryption {}",
                round + 1,
                options.rounds.max(1),
                on(encrypted)
            ));
            let directory = tempfile::Builder::new()
                .prefix("rebuild-bench-")
                .tempdir()
                .context("no temporary directory")?;
            let here = directory.path().canonicalize()?;
            let ours = Rebuild::set_up(
                &here.join("rebuild"),
                &tools,
                &rebuild,
                options.objects,
                encrypted,
            )?;
            let theirs = Loop::set_up(&here.join("loop"), &tools, options.objects, encrypted)?;
            for part in 0..PARTS.len() {
                // Who comes first alternates, so that neither always finds the warmer machine.
                for is_ours in if (round + part) % 2 == 0 {
                    [true, false]
                } else {
                    [false, true]
                } {
                    let reading = if is_ours {
                        ours.part(part)?
                    } else {
                        theirs.part(part)?
                    };
                    readings.entry((part, is_ours)).or_default().push(reading);
                }
            }
        }
        table(encrypted, &readings)?;
    }
    note(&format!(
        "measured for {:.0} s",
        begun.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn on(encrypted: bool) -> &'static str {
    if encrypted { "on" } else { "off" }
}

fn table(encrypted: bool, readings: &BTreeMap<(usize, bool), Vec<Reading>>) -> Result<()> {
    print(&format!(
        "\nencryption {}, medians; seconds, and KiB for the peak",
        on(encrypted)
    ))?;
    print(&format!(
        "{:<10} {:>9} {:>9} {:>7} {:>10} {:>10} {:>10} {:>10} {:>9}  loop",
        "rebuild", "wall", "loop", "ratio", "own cpu", "tofu cpu", "loop cpu", "cpu ratio", "peak"
    ))?;
    for (part, (ours, theirs)) in PARTS.iter().enumerate() {
        let of = |is_ours: bool, value: fn(&Reading) -> f64| -> f64 {
            median(
                readings
                    .get(&(part, is_ours))
                    .map(Vec::as_slice)
                    .unwrap_or_default(),
                value,
            )
        };
        let (wall, loop_wall) = (of(true, |r| r.wall), of(false, |r| r.wall));
        let (own, tofu) = (of(true, |r| r.own), of(true, |r| r.children));
        let loop_cpu = of(false, |r| r.own + r.children);
        print(&format!(
            "{ours:<10} {wall:>9.2} {loop_wall:>9.2} {:>7.2} {own:>10.2} {tofu:>10.2} {loop_cpu:>10.2} {:>10.2} {:>9.0}  {theirs}",
            wall / loop_wall,
            (own + tofu) / loop_cpu,
            of(true, |r| r.peak as f64),
        ))?;
    }
    Ok(())
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

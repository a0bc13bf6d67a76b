//! What the runs came to, in figures that come from the runs alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use test_support::Ended;

use crate::plan::name_of;
use crate::trial::Hurt;

/// Points by ways with how often each was tried, and what came of them.
pub(crate) fn told(hurts: &[Hurt], n_cases: usize, n_points: usize) -> String {
    let mut cells: BTreeMap<(&str, String), usize> = BTreeMap::new();
    let mut ends: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut thens: BTreeMap<&str, usize> = BTreeMap::new();
    let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
    for hurt in hurts {
        let way = hurt.aim.way.to_string();
        *cells
            .entry((name_of(&hurt.aim.point), way.clone()))
            .or_default() += 1;
        *ends.entry((way, ended(hurt.ended))).or_default() += 1;
        *thens.entry(&hurt.then).or_default() += 1;
        *hosts
            .entry(format!("{} hurt, {} machine goes on", hurt.verb, hurt.next))
            .or_default() += 1;
    }
    let ways: BTreeSet<&String> = cells.keys().map(|(_, way)| way).collect();
    let points: BTreeSet<&str> = cells.keys().map(|(point, _)| *point).collect();
    let different: BTreeSet<(&String, usize)> = hurts
        .iter()
        .map(|hurt| (&hurt.aim.point, hurt.aim.nth))
        .collect();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} faults at {} different points of {n_points}, in {n_cases} cases\n",
        hurts.len(),
        different.len()
    );
    let columns: Vec<String> = ways.iter().map(|way| (*way).clone()).collect();
    let _ = writeln!(text, "| point | {} |", columns.join(" | "));
    let _ = writeln!(text, "| --- |{}", " --- |".repeat(columns.len()));
    for point in points {
        let _ = write!(text, "| `{point}` |");
        for way in &columns {
            match cells.get(&(point, way.clone())) {
                Some(n) => {
                    let _ = write!(text, " {n} |");
                }
                None => text.push_str("  |"),
            }
        }
        text.push('\n');
    }
    let _ = writeln!(text, "\n| way | how the hurt call ended |\n| --- | --- |");
    for way in &columns {
        let of_way = ends.iter().filter(|((one, _), _)| one == way);
        let of_way: Vec<String> = of_way.map(|((_, end), n)| format!("{end}: {n}")).collect();
        let _ = writeln!(text, "| `{way}` | {} |", of_way.join(", "));
    }
    let _ = writeln!(
        text,
        "\n| how it was gone on with | faults |\n| --- | --- |"
    );
    for (then, n) in &thens {
        let _ = writeln!(text, "| {then} | {n} |");
    }
    let _ = writeln!(text, "\n| call, and who went on | faults |\n| --- | --- |");
    for (host, n) in &hosts {
        let _ = writeln!(text, "| {host} | {n} |");
    }
    text
}

fn ended(ended: Ended) -> String {
    match ended {
        Ended::Code(code) => format!("exit {code}"),
        Ended::Signal(signal) => format!("signal {signal}"),
    }
}

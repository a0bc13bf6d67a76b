//! Machines that answered a scan.

use run::DiscoverReport;

use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};

/// A line for each machine, then what was written.
pub(crate) fn discovered(report: &DiscoverReport, look: Look) -> String {
    let n = report.machines.len();
    let mut text = format!(
        "{n} of {} {} answer on Talos' port\n",
        report.n_addresses,
        if report.n_addresses == 1 {
            "address"
        } else {
            "addresses"
        }
    );
    let rows: Vec<Vec<Cell>> = report
        .machines
        .iter()
        .map(|machine| {
            let (word, tone) = if machine.waits {
                ("waits for its configuration", Tone::Good)
            } else {
                ("says nothing without credentials", Tone::Quiet)
            };
            let version = machine.version.as_deref().unwrap_or_default();
            let known = match &machine.note {
                Some(note) => clean(note).into_owned(),
                None => {
                    let all = machine.disks.iter().chain(&machine.links);
                    let all: Vec<&str> = all.map(String::as_str).collect();
                    clean(&all.join(", ")).into_owned()
                }
            };
            vec![
                clean(&machine.address).into_owned().into(),
                Cell(word.to_owned(), Some(tone)),
                clean(version).into_owned().into(),
                known.into(),
            ]
        })
        .collect();
    text.push_str(&table(&rows, "  ", look));
    for note in &report.notes {
        text.push_str(&format!("note: {}\n", clean(note)));
    }
    if let Some(written) = &report.written {
        let added = report.added.join(", ");
        text.push_str(&format!("{}: added {}\n", clean(written), clean(&added)));
    }
    text
}

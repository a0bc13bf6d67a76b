//! States of a served backend, their locks and versions.

use backend_server::StateEntry;

use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};

/// One state, in words.
pub(crate) struct Listed {
    path: String,
    serial: String,
    lock: Option<String>,
    fault: Option<String>,
}

impl Listed {
    /// Takes what people read out of an entry.
    pub(crate) fn of(entry: &StateEntry) -> Self {
        let lock = entry.lock.as_ref().map(|lock| {
            let text = |name: &str| lock[name].as_str().unwrap_or_default();
            format!(
                "locked by {} ({}) since {}, lock {}",
                text("Who"),
                text("Operation"),
                text("Created"),
                text("ID")
            )
        });
        Self {
            path: entry.path.clone(),
            serial: entry.serial.map_or("no state yet".to_owned(), |serial| {
                format!("serial {serial}")
            }),
            lock,
            fault: entry.fault.clone(),
        }
    }
}

fn line(text: &str) -> String {
    clean(text).replace('\n', " ")
}

/// A line a state.
pub(crate) fn states(listed: &[Listed], none: &str, look: Look) -> String {
    if listed.is_empty() {
        return none.to_owned();
    }
    let rows: Vec<_> = listed
        .iter()
        .map(|state| {
            let (note, tone) = match (&state.fault, &state.lock) {
                (Some(fault), _) => (line(fault), Some(Tone::Bad)),
                (None, Some(lock)) => (line(lock), Some(Tone::Warn)),
                (None, None) => (String::new(), None),
            };
            vec![
                line(&state.path).into(),
                line(&state.serial).into(),
                Cell(note, tone),
            ]
        })
        .collect();
    table(&rows, "", look)
}

/// The state that is there (serial, lineage), then a line an earlier version (name, lineage, fault).
pub(crate) fn versions(
    now: Option<(u64, &str)>,
    versions: &[(&str, &str, Option<&str>)],
    look: Look,
) -> String {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    match now {
        Some((serial, lineage)) => rows.push(vec![
            Cell("now".to_owned(), Some(Tone::Good)),
            format!("serial {serial}").into(),
            line(lineage).into(),
        ]),
        None => rows.push(vec!["now".into(), "no state".into()]),
    }
    for (name, lineage, fault) in versions {
        rows.push(vec![
            (*name).into(),
            match fault {
                Some(fault) => Cell(line(fault), Some(Tone::Bad)),
                None => "kept".into(),
            },
            line(lineage).into(),
        ]);
    }
    table(&rows, "", look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_nothing_steers_the_terminal() {
        let entry = StateEntry {
            path: "team/app".into(),
            serial: Some(7),
            lineage: "l".into(),
            lock: Some(
                serde_json::json!({ "ID": "id-1", "Who": "ann@lab\u{1b}[2J", "Operation": "OperationTypeApply", "Created": "2026-01-02T03:04:05Z" }),
            ),
            fault: None,
        };
        assert_eq!(
            states(&[Listed::of(&entry)], "", Look::PLAIN),
            "team/app  serial 7  locked by ann@lab (OperationTypeApply) since 2026-01-02T03:04:05Z, lock id-1\n"
        );
        assert_eq!(states(&[], "none\n", Look::PLAIN), "none\n");
    }

    #[test]
    fn versions_stand_below_the_state_of_now() {
        let text = versions(
            Some((9, "l")),
            &[("7", "l", None), ("7.2", "m", Some("damaged"))],
            Look::PLAIN,
        );
        assert_eq!(
            text,
            "now  serial 9  l\n7    kept      l\n7.2  damaged   m\n"
        );
        assert!(versions(None, &[], Look::PLAIN).contains("no state"));
    }
}

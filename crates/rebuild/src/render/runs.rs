//! The runs of a target, the newest first.

use record::Listed;
use serde_json::{Value, json};

use super::run::{moment, time, tone_of_run};
use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};

/// A line a run; a record that can't be read says why and harms no other.
pub(crate) fn runs(target: &str, listed: &[Listed], look: Look) -> String {
    if listed.is_empty() {
        return format!("no run of {} is on record\n", clean(target));
    }
    let rows: Vec<_> = listed
        .iter()
        .map(|listed| match &listed.record {
            Ok(record) => vec![
                listed.run.to_string().into(),
                Cell(
                    record.status.word().to_owned(),
                    Some(tone_of_run(record.status)),
                ),
                moment(record.first_start).into(),
                time(
                    record,
                    Look {
                        color: false,
                        ..look
                    },
                )
                .into(),
            ],
            Err(error) => vec![
                listed.run.to_string().into(),
                Cell("unreadable".to_owned(), Some(Tone::Bad)),
                clean(&error.to_string()).replace('\n', " ").into(),
            ],
        })
        .collect();
    table(&rows, "", look)
}

/// The document of `runs list`.
pub(crate) fn runs_document(target: &str, listed: &[Listed]) -> Value {
    let runs: Vec<_> = listed
        .iter()
        .map(|listed| match &listed.record {
            Ok(record) => json!({
                "run": listed.run.to_string(),
                "status": record.status.word(),
                "first_start": record.first_start,
                "last_verify": record.last_verify,
                "finished": record.finished,
                "total_seconds": record.total_seconds,
                "over_budget": record.over_budget,
            }),
            Err(error) => json!({ "run": listed.run.to_string(), "error": error.to_string() }),
        })
        .collect();
    json!({ "schema": 1, "target": target, "runs": runs })
}

//! The runs of a target, the newest first.

use record::{Listed, Time};
use schemars::JsonSchema;
use serde::Serialize;

use super::run::{moment, tone_of_run};
use super::table::{Cell, table};
use crate::stream::{Look, Tone, clean};
use crate::ui::seconds;

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
                seconds(record.total_seconds).into(),
                Cell(
                    if record.over_budget {
                        "over the budget".to_owned()
                    } else {
                        String::new()
                    },
                    Some(Tone::Warn),
                ),
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
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunsDocument {
    /// The version of this format.
    pub(crate) schema: u32,
    /// The target.
    pub(crate) target: String,
    /// Its runs, the newest first.
    pub(crate) runs: Vec<RunLine>,
}

/// One run in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RunLine {
    /// A record that can be read.
    Run {
        /// The run's id.
        run: String,
        /// Where it is.
        status: &'static str,
        /// When its first call started.
        first_start: Time,
        /// When a phase of it was last verified.
        last_verify: Option<Time>,
        /// When every phase was verified.
        finished: Option<Time>,
        /// From the first call's start to the last verify.
        total_seconds: f64,
        /// The run took longer than its budget.
        over_budget: bool,
    },
    /// A record that can't be read, which harms no other.
    Unreadable {
        /// The run's id.
        run: String,
        /// Why.
        error: String,
    },
}

/// Makes the document of `runs list`.
pub(crate) fn runs_document(target: &str, listed: &[Listed]) -> RunsDocument {
    let line = |listed: &Listed| match &listed.record {
        Ok(record) => RunLine::Run {
            run: listed.run.to_string(),
            status: record.status.word(),
            first_start: record.first_start,
            last_verify: record.last_verify,
            finished: record.finished,
            total_seconds: record.total_seconds,
            over_budget: record.over_budget,
        },
        Err(error) => RunLine::Unreadable {
            run: listed.run.to_string(),
            error: error.to_string(),
        },
    };
    RunsDocument {
        schema: 1,
        target: target.to_owned(),
        runs: listed.iter().map(line).collect(),
    }
}

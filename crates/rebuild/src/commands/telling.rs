//! What each kind of result is told as, in every format.

use phase_engine::ExitCode;
use preflight::Report;
use record::{Listed, Record, StatusDocument};
use serde::Serialize;
use serde_json::Value;

use super::Told;
use crate::failure::Failure;
use crate::render;
use crate::stream::Look;

/// The end of `up` or `down`: the record is the document, whatever went wrong.
pub(super) fn run(
    record: Option<&Record>,
    failure: Option<Failure>,
    exit: ExitCode,
    look: Look,
) -> Told {
    Told {
        document: record.map(document),
        text: record.map_or_else(String::new, |record| render::run(record, look)),
        failure,
        exit,
    }
}

/// A preflight that came to its verdict.
pub(super) fn preflight(report: &Report, exit: ExitCode, look: Look) -> Told {
    let failure = (exit != ExitCode::Done).then(|| {
        let n_findings = report.n_findings();
        let found = match n_findings {
            0 => "what stopped it is named in the report".to_owned(),
            1 => "1 finding".to_owned(),
            n => format!("{n} findings"),
        };
        let mut failure = Failure::new(
            exit,
            format!("preflight of target `{}` stopped", report.target),
        );
        failure.causes.push(found);
        failure.hint("nothing was changed; the report says what differs, phase by phase")
    });
    Told {
        document: Some(document(report)),
        text: render::preflight(report, look),
        failure,
        exit,
    }
}

/// `status`.
pub(super) fn status(status: &StatusDocument, look: Look) -> Told {
    Told::done(document(status), render::status(status, look))
}

/// `runs list`.
pub(super) fn runs(target: &str, listed: &[Listed], look: Look) -> Told {
    Told::done(
        render::runs_document(target, listed),
        render::runs(target, listed, look),
    )
}

/// `runs show`.
pub(super) fn run_shown(record: &Record, look: Look) -> Told {
    Told::done(document(record), render::run_whole(record, look))
}

/// A published shape as JSON; our own types always are.
fn document(shape: &impl Serialize) -> Value {
    serde_json::to_value(shape).unwrap_or_else(|error| {
        Value::String(format!("this document can't be written as JSON: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdict: &str) -> Report {
        serde_json::from_value(serde_json::json!({
            "schema": 1, "target": "drill", "verdict": verdict, "phases": [], "notes": [], "seconds": 1.0
        }))
        .unwrap()
    }

    #[test]
    fn a_preflight_that_stopped_is_a_document_and_an_error() {
        let stopped = preflight(&report("stopped"), ExitCode::Stopped, Look::PLAIN);
        assert_eq!(stopped.document.as_ref().unwrap()["verdict"], "stopped");
        assert_eq!(stopped.failure.as_ref().unwrap().exit, ExitCode::Stopped);
        let clean = preflight(&report("clean"), ExitCode::Done, Look::PLAIN);
        assert!(clean.failure.is_none());
        assert_eq!(clean.exit, ExitCode::Done);
    }

    #[test]
    fn a_call_without_a_record_has_its_failure_as_the_document() {
        let failure = Failure::new(ExitCode::Locked, "locked");
        let told = run(None, Some(failure), ExitCode::Locked, Look::PLAIN);
        assert!(told.document.is_none() && told.text.is_empty());
        assert_eq!(told.exit, ExitCode::Locked);
    }
}

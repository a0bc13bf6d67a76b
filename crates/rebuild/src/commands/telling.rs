//! What each kind of result is told as, in every format.

use phase_engine::ExitCode;
use preflight::Report;
use record::{Listed, Record, StatusDocument};
use run::{
    CheckReport, DiscoverReport, DryRun, Explanation, Migrated, PlanReport, RenderReport,
    StoreMove, SuspectsReport, Unlocked,
};
use serde::Serialize;
use serde_json::Value;

use super::Told;
use crate::failure::Failure;
use crate::render;
use crate::stream::{Look, clean};

/// The end of `up` or `down`: the record is the document, whatever went wrong after it began.
pub(super) fn run(
    record: Option<&Record>,
    failure: Option<Failure>,
    exit: ExitCode,
    look: Look,
) -> Told {
    let record = record.filter(|record| !was_refused(record, exit));
    Told {
        document: record.map(document),
        text: record.map_or_else(String::new, |record| render::run(record, look)),
        failure,
        exit,
    }
}

/// A call that was refused before it began is no part of the record, which is an earlier call's.
fn was_refused(record: &Record, exit: ExitCode) -> bool {
    let refuses = match exit {
        ExitCode::Unusable | ExitCode::Stopped | ExitCode::Locked | ExitCode::Declined => true,
        ExitCode::Done | ExitCode::Failed | ExitCode::Changes | ExitCode::Interrupted => false,
    };
    refuses && record.calls.last().and_then(|call| call.exit) != Some(exit.code())
}

/// A preflight; the report is the document, even where it stops.
pub(super) fn preflight(
    report: Option<&Report>,
    failure: Option<Failure>,
    exit: ExitCode,
    look: Look,
) -> Told {
    Told {
        document: report.map(document),
        text: report.map_or_else(String::new, |report| render::preflight(report, look)),
        failure,
        exit,
    }
}

/// `down --dry-run`.
pub(super) fn dry_run(dry: &DryRun, look: Look) -> Told {
    Told::done(document(dry), render::dry_run(dry, look))
}

/// `plan`: what can't be planned is in the document, and a failure of the command.
pub(super) fn planned(report: &PlanReport, detailed: bool, look: Look) -> Told {
    Told {
        exit: report.exit(detailed),
        ..Told::done(document(report), render::plan(report, look))
    }
}

/// `check`: what is wrong is the document, and no error of the command.
pub(super) fn checked(report: &CheckReport, look: Look) -> Told {
    let exit = if report.good {
        ExitCode::Done
    } else {
        ExitCode::Failed
    };
    Told {
        exit,
        ..Told::done(document(report), render::check(report, look))
    }
}

/// `render`: files that differ are the document, and a failure of the command.
pub(super) fn rendered(report: &RenderReport, look: Look) -> Told {
    let exit = if report.good {
        ExitCode::Done
    } else {
        ExitCode::Failed
    };
    Told {
        exit,
        ..Told::done(document(report), render::rendered(report, look))
    }
}

/// `discover`.
pub(super) fn discovered(report: &DiscoverReport, look: Look) -> Told {
    Told::done(document(report), render::discovered(report, look))
}

/// `state rekey`.
pub(super) fn rekeyed(rekeyed: &run::Rekeyed) -> Told {
    let target = clean(&rekeyed.target);
    let n = rekeyed.n_states + rekeyed.n_versions + rekeyed.n_bundles;
    let text = if n == 0 {
        format!("everything of target {target} is under the key that its file names\n")
    } else {
        format!(
            "target {target}: {} states, {} earlier versions and {} bundles are under the key that its file names; \
             nothing needs the former one any more\n",
            rekeyed.n_states, rekeyed.n_versions, rekeyed.n_bundles
        )
    };
    Told::done(document(rekeyed), text)
}

/// `store move`.
pub(super) fn store_moved(moved: &StoreMove) -> Told {
    let what = match moved.n_values {
        0 => "it was there already".to_owned(),
        n => format!("{n} values copied and compared"),
    };
    let text = format!(
        "target {} moved from {} to {}: {what}\nlet targets/{}.toml say from now on:\n\n[store]\n{}\n",
        clean(&moved.target),
        clean(&moved.from),
        clean(&moved.to),
        clean(&moved.target),
        clean(&moved.store)
    );
    Told::done(document(moved), text)
}

/// `unlock`.
pub(super) fn unlocked(unlocked: &Unlocked) -> Told {
    let holder = unlocked
        .holder
        .as_deref()
        .unwrap_or("somebody who left no name");
    let text = format!(
        "the lock of {} is removed; it was held by {holder}\n",
        unlocked.target
    );
    Told::done(document(unlocked), clean(&text).into_owned())
}

/// `suspects`.
pub(super) fn suspects(report: &SuspectsReport, look: Look) -> Told {
    Told::done(document(report), render::suspects(report, look))
}

/// `state migrate`.
pub(super) fn migrated(migrated: &Migrated, look: Look) -> Told {
    Told::done(document(migrated), render::migrated(migrated, look))
}

/// `status`.
pub(super) fn status(status: &StatusDocument, look: Look) -> Told {
    Told::done(document(status), render::status(status, look))
}

/// `explain`.
pub(super) fn explained(explained: &Explanation, look: Look) -> Told {
    Told::done(document(explained), render::explain(explained, look))
}

/// `runs list`.
pub(super) fn runs(target: &str, listed: &[Listed], look: Look) -> Told {
    Told::done(
        document(&render::runs_document(target, listed)),
        render::runs(target, listed, look),
    )
}

/// `runs show`.
pub(super) fn run_shown(record: &Record, look: Look) -> Told {
    Told::done(document(record), render::run_whole(record, look))
}

/// A published shape as JSON; our own types always are.
pub(super) fn document(shape: &impl Serialize) -> Value {
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
        let failure = Failure::new(ExitCode::Stopped, "preflight stops");
        let report = report("stopped");
        let stopped = preflight(Some(&report), Some(failure), ExitCode::Stopped, Look::PLAIN);
        assert_eq!(stopped.document.as_ref().unwrap()["verdict"], "stopped");
        assert_eq!(stopped.exit, ExitCode::Stopped);
        assert!(stopped.text.starts_with("preflight of drill: stopped"));
    }

    #[test]
    fn a_call_that_was_refused_does_not_show_the_run_before_it() {
        let record: Record = serde_json::from_value(serde_json::json!({
            "schema": 1, "fence": 1, "run": "01JQ0000000000000000000001", "platform": "lab", "target": "drill",
            "status": "finished", "first_start": "2026-03-02T10:00:00Z", "phases": [], "steps": [], "standing": [],
            "calls": [{ "command": "up", "started": "2026-03-02T10:00:00Z", "exit": 0, "user": "a", "host": "b" }]
        }))
        .unwrap();
        let refused = Failure::new(ExitCode::Stopped, "no run is unfinished");
        let told = run(Some(&record), Some(refused), ExitCode::Stopped, Look::PLAIN);
        assert!(told.document.is_none() && told.text.is_empty());
        let done = run(Some(&record), None, ExitCode::Done, Look::PLAIN);
        assert!(done.document.is_some() && !done.text.is_empty());
    }

    #[test]
    fn an_unlock_names_the_holder() {
        let was = Unlocked {
            schema: 1,
            target: "drill".to_owned(),
            holder: Some("ada on bench".to_owned()),
        };
        let told = unlocked(&was);
        assert_eq!(
            told.text,
            "the lock of drill is removed; it was held by ada on bench\n"
        );
        assert_eq!(told.document.unwrap()["holder"], "ada on bench");
    }

    #[test]
    fn a_call_without_a_record_has_its_failure_as_the_document() {
        let failure = Failure::new(ExitCode::Locked, "locked");
        let told = run(None, Some(failure), ExitCode::Locked, Look::PLAIN);
        assert!(told.document.is_none() && told.text.is_empty());
        assert_eq!(told.exit, ExitCode::Locked);
    }
}

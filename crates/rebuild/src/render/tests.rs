//! Records, lists and status with fixed values.

use record::{Listed, LockShown, Record, StatusDocument};
use serde_json::json;

use super::*;
use crate::stream::{Look, clean};

fn applied(commit: Option<&str>, attempted: bool) -> serde_json::Value {
    json!({
        "bundle": "ab".repeat(32), "commit": commit, "definition": "d", "run": "01JQ0000000000000000000001",
        "since": "2026-03-01T10:00:00Z", "attempted": attempted
    })
}

fn standing(step: &str, kind: &str, commit: Option<&str>, attempted: bool) -> serde_json::Value {
    let mut entry = applied(commit, attempted);
    entry["step"] = step.into();
    entry["kind"] = kind.into();
    entry
}

fn failed() -> Record {
    serde_json::from_value(json!({
        "schema": 1, "fence": 3, "run": "01JQ0000000000000000000002", "previous": "01JQ0000000000000000000001",
        "platform": "homelab", "target": "live", "status": "failed",
        "first_start": "2026-03-02T10:00:00Z", "last_verify": "2026-03-02T11:10:00Z",
        "total_seconds": 4200.0, "budget_seconds": 3600.0, "over_budget": true,
        "calls": [
            { "command": "up", "started": "2026-03-02T10:00:00Z", "ended": "2026-03-02T10:05:30Z", "exit": 0,
              "user": "ada", "host": "bench", "commit": "0123456789abcdef", "dirty": true },
            { "command": "resume", "started": "2026-03-02T11:00:00Z", "user": "ada", "host": "bench" }
        ],
        "phases": [
            { "id": "0", "status": "verified", "apply_seconds": 3.1, "verify_seconds": 0.4, "pause_seconds": 65,
              "made": { "create": { "local_file": 2, "terraform_data": 1 }, "update": { "local_file": 1 } } },
            { "id": "1a", "status": "failed", "apply_seconds": 75.0 }
        ],
        "steps": [
            { "step": "0.bucket", "status": "verified", "attempts": 1 },
            { "step": "1a.edge", "status": "failed", "attempts": 2,
              "error": { "what": "apply failed", "causes": ["quota\nexceeded"], "exit": 1 } },
            { "step": "1a.tail", "status": "pending" }
        ],
        "standing": [
            standing("0.bucket", "tofu", Some("0123456789abcdef"), false),
            standing("1a.edge", "tofu", None, true)
        ],
        "suspects": [
            { "step": "1a.edge", "address": "local_file.x", "since": "2026-03-02T11:01:00Z",
              "run": "01JQ0000000000000000000002" }
        ],
        "decisions": [
            { "kind": "first-build", "at": "2026-03-02T10:00:00Z", "user": "ada", "about": "01JQID" }
        ],
        "error": { "phase": "1a", "step": "1a.edge", "what": "phase `1a`, step `edge`: apply failed",
                   "causes": ["quota\nexceeded"], "hint": "`rebuild up --target live --resume`",
                   "log": "/state/log", "exit": 1 }
    }))
    .unwrap()
}

fn finished() -> Record {
    let mut record = failed();
    record.status = phase_engine::RunStatus::Finished;
    record.over_budget = false;
    record.total_seconds = 723.0;
    record.phases.truncate(1);
    record.error = None;
    record
}

#[test]
fn a_run_over_its_budget() {
    insta::assert_snapshot!(super::run(&failed(), Look::PLAIN));
}

#[test]
fn everything_of_a_run() {
    insta::assert_snapshot!(run_whole(&failed(), Look::PLAIN));
}

#[test]
fn a_status_with_everything() {
    let lock = LockShown {
        user: "ada".to_owned(),
        host: "bench".to_owned(),
        run: Some("01JQ0000000000000000000002".to_owned()),
        command: "up".to_owned(),
        since: "2026-03-02T11:00:00Z".to_owned(),
    };
    let good = finished().previous;
    let document = StatusDocument::of("live".parse().unwrap(), Some(failed()), good, Some(lock));
    insta::assert_snapshot!(status(&document, Look::PLAIN));
}

#[test]
fn the_status_of_an_empty_target() {
    let document = StatusDocument::of("drill".parse().unwrap(), None, None, None);
    insta::assert_snapshot!(status(&document, Look::PLAIN));
}

#[test]
fn runs_stand_below_each_other() {
    let listed = [failed(), finished()].map(|record| Listed {
        run: record.run.clone(),
        record: Ok(record),
    });
    insta::assert_snapshot!(runs("live", &listed, Look::PLAIN));
    insta::assert_json_snapshot!(runs_document("live", &listed));
    assert_eq!(
        runs("live", &[], Look::PLAIN),
        "no run of live is on record\n"
    );
}

#[test]
fn colour_moves_nothing() {
    let colored = Look {
        color: true,
        unicode: false,
    };
    let painted = run_whole(&failed(), colored);
    assert!(painted.contains('\x1b'));
    assert_eq!(clean(&painted), run_whole(&failed(), Look::PLAIN));
}

#[test]
fn a_dry_run_lists_every_resource_in_order() {
    let step = |step: &str, addresses: &[&str]| ::run::DryStep {
        step: step.to_owned(),
        addresses: addresses
            .iter()
            .map(|&address| address.to_owned())
            .collect(),
    };
    let steps = vec![
        step("4.canary", &[]),
        step("1a.edge", &["local_file.b", "local_file.a"]),
    ];
    let dry = ::run::DryRun {
        schema: 1,
        target: "drill".to_owned(),
        steps,
        notes: vec!["step `1a.edge` is on its way to `1b.edge`".to_owned()],
    };
    insta::assert_snapshot!(dry_run(&dry, Look::PLAIN));
    let nothing = ::run::DryRun {
        steps: Vec::new(),
        notes: Vec::new(),
        ..dry
    };
    assert_eq!(dry_run(&nothing, Look::PLAIN), "nothing stands in drill\n");
}

#[test]
fn a_paused_run_says_what_goes_on() {
    let mut record = finished();
    record.status = phase_engine::RunStatus::Paused;
    let text = super::run(&record, Look::PLAIN);
    assert!(
        text.ends_with("`rebuild up --target live --resume` goes on\n"),
        "{text}"
    );
}

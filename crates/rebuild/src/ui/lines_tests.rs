//! Every notice as people see it.

use super::*;

fn all() -> Vec<Notice> {
    let text = str::to_owned;
    vec![
        Notice::Bundle {
            digest: "3f2a".repeat(16),
            commit: Some("0123456789abcdef".to_owned()),
            dirty: true,
        },
        Notice::Bundle {
            digest: "3f2a".repeat(16),
            commit: None,
            dirty: false,
        },
        Notice::Tool {
            name: text("tofu"),
            path: text("/usr/bin/tofu"),
            version: text("1.12.6"),
        },
        Notice::EnvironmentDropped {
            names: vec![text("TF_WORKSPACE"), text("AWS_PROFILE")],
        },
        Notice::Unmaskable {
            names: vec![text("pin")],
        },
        Notice::Locked { fence: 3 },
        Notice::Waiting {
            what: text("process 4711, which a killed call left behind"),
        },
        Notice::Init {
            step: text("1a.edge"),
            warm: false,
        },
        Notice::Init {
            step: text("1b.tunnel"),
            warm: true,
        },
        Notice::Preflight {
            report: serde_json::json!({
                "schema": 1, "target": "drill", "verdict": "first-build", "phases": [], "notes": [], "seconds": 0.2
            }),
        },
        Notice::Preflight {
            report: serde_json::json!({
                "schema": 1, "target": "drill", "verdict": "stopped", "notes": [], "seconds": 0.2,
                "phases": [{ "id": "1a", "verdict": "not-run", "findings": [], "notes": [], "seconds": 0 }],
            }),
        },
        Notice::Run {
            id: text("01JABC"),
            resumed: false,
        },
        Notice::Run {
            id: text("01JABC"),
            resumed: true,
        },
        Notice::Phase {
            phase: text("1a"),
            title: text("cloud anchor and edge"),
            doing: Doing::Apply,
        },
        Notice::Step {
            step: text("1a.edge"),
            doing: Doing::Apply,
        },
        Notice::Resource {
            step: text("1a.edge"),
            address: text("module.net.local_file.zone[\"a\"]"),
            action: text("create"),
            stage: Stage::Started,
            seconds: 0,
        },
        Notice::Resource {
            step: text("1a.edge"),
            address: text("local_file.zone"),
            action: text("create"),
            stage: Stage::Completed,
            seconds: 75,
        },
        Notice::Resource {
            step: text("1a.edge"),
            address: text("local_file.other"),
            action: text("update"),
            stage: Stage::Errored,
            seconds: 1,
        },
        Notice::Host {
            step: text("1c.reach"),
            host: text("web1"),
            what: text("port: 192.0.2.11 port 22: connection refused"),
        },
        Notice::Task {
            step: text("1c.configure"),
            task: text("install \x1b[31mnginx"),
        },
        Notice::TaskEnded {
            step: text("1c.configure"),
            host: text("web1"),
            task: text("install nginx"),
            status: text("changed"),
            message: text("not shown where it went well"),
        },
        Notice::TaskEnded {
            step: text("1c.configure"),
            host: text("web2"),
            task: text("install nginx"),
            status: text("failed"),
            message: text("no space left\n"),
        },
        Notice::Difference {
            step: text("1c.configure"),
            host: text("web1"),
            task: text("write motd"),
            text: text("--- before\n+++ after\n\n+hello\n"),
        },
        Notice::Quiet {
            step: text("1a.edge"),
            address: Some(text("local_file.zone")),
            seconds: 180,
        },
        Notice::StepEnded {
            step: text("1a.edge"),
            doing: Doing::Apply,
            ok: true,
            summary: text("3 created"),
            seconds: 2.14,
        },
        Notice::StepEnded {
            step: text("1a.edge"),
            doing: Doing::Verify,
            ok: false,
            summary: text("1 object \x1b[31mdrifted\x1b[0m"),
            seconds: 61.0,
        },
        Notice::Check {
            phase: text("1a"),
            check: text("edge answers"),
            failure: None,
        },
        Notice::Check {
            phase: text("1a"),
            check: text("edge answers"),
            failure: Some(text("status 503")),
        },
        Notice::Verified {
            summary: Checkpoint {
                phase: text("1a"),
                title: text("cloud anchor and edge"),
                made: vec![text("3 created"), text("1 updated")],
                phase_seconds: 4.2,
                run_seconds: 65.0,
                budget_left_seconds: Some(3535.0),
                next: Some(text("1b")),
            },
        },
        Notice::Verified {
            summary: Checkpoint {
                phase: text("4"),
                run_seconds: 7500.0,
                budget_left_seconds: Some(-600.0),
                ..Checkpoint::default()
            },
        },
        Notice::TornDown {
            phase: text("1a"),
            n_probes: 0,
        },
        Notice::TornDown {
            phase: text("1b"),
            n_probes: 2,
        },
        Notice::NothingLeft {
            target: text("drill"),
        },
        Notice::Told {
            message: text("phase `1a` is as it was applied: nothing to repair"),
        },
        Notice::Warning {
            message: text("no residue probe"),
            hint: Some(text("add `[[phase.residue]]`")),
        },
    ]
}

fn told(verbosity: Verbosity, look: Look) -> String {
    all()
        .iter()
        .filter_map(|notice| of(notice, look, verbosity))
        .collect()
}

#[test]
fn everything_at_its_most_verbose() {
    insta::assert_snapshot!(told(Verbosity::Verbose, Look::PLAIN));
}

#[test]
fn what_an_operator_follows() {
    insta::assert_snapshot!(told(Verbosity::Normal, Look::PLAIN));
}

#[test]
fn warnings_are_told_even_when_quiet() {
    let quiet = told(Verbosity::Quiet, Look::PLAIN);
    assert_eq!(quiet.matches("warning: ").count(), 2);
    assert_eq!(quiet.lines().count(), 4);
}

#[test]
fn plain_text_is_ascii_without_colour() {
    let told = told(Verbosity::Verbose, Look::PLAIN);
    assert!(told.is_ascii(), "{told}");
    assert!(!told.contains('\x1b'), "{told}");
}

#[test]
fn times_are_short() {
    let times = [0.0, 0.44, 9.94, 9.96, 59.4, 59.6, 185.0, 3599.6, 7620.0].map(seconds);
    assert_eq!(
        times,
        [
            "0.0 s",
            "0.4 s",
            "9.9 s",
            "10 s",
            "59 s",
            "1 min 00 s",
            "3 min 05 s",
            "1 h 00 min",
            "2 h 07 min"
        ]
    );
}

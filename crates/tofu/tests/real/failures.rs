//! What a failing command tells people.

use std::time::Instant;

use tofu::{ApplyWhat, InitFailure, PlanMode, PlanOptions, Session, Severity};

use crate::world::*;

crate::tests![
    a_missing_variable_fails_at_once_by_name,
    every_error_is_shown_with_the_first_on_top,
    a_cycle_of_300_nodes_is_told_short_and_not_empty,
    a_flag_that_is_not_there_gives_the_raw_tail,
    faults_of_a_configuration_are_an_answer,
    a_refused_lock_is_told_apart,
    a_cloud_block_is_no_backend_of_ours,
];

fn plan_error(world: &World, main: &str) -> tofu::RunError {
    world
        .session(main)
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap_err()
}

fn a_missing_variable_fails_at_once_by_name() {
    let world = World::new();
    let begun = Instant::now();
    let error = plan_error(&world, "variable \"needed\" { type = string }");
    assert!(error.to_string().contains("\"needed\""), "{error}");
    assert!(begun.elapsed().as_secs() < 20);
}

fn every_error_is_shown_with_the_first_on_top() {
    let world = World::new();
    let main = r#"
resource "terraform_data" "no" { input = false }
resource "terraform_data" "a" {
  lifecycle {
    precondition {
      condition     = terraform_data.no.input
      error_message = "the first reason"
    }
  }
}
resource "terraform_data" "b" {
  lifecycle {
    precondition {
      condition     = terraform_data.no.input
      error_message = "the second reason"
    }
  }
}
"#;
    let error = plan_error(&world, main);
    let text = error.to_string();
    assert!(
        text.contains("the first reason") && text.contains("the second reason"),
        "{text}"
    );
    assert_eq!(error.diagnostics().len(), 2);
    assert!(
        text.lines().nth(1).unwrap().contains("reason") && text.contains("main.tf:"),
        "{text}"
    );
    assert!(
        text.contains("`tofu plan` of step `1a/edge` failed with exit code 1"),
        "{text}"
    );
    assert!(error.transcript().is_some_and(std::path::Path::is_file));
}

fn a_cycle_of_300_nodes_is_told_short_and_not_empty() {
    let world = World::new();
    let main: String = (0..300)
        .map(|n| {
            format!(
                "resource \"terraform_data\" \"n{n}\" {{ input = terraform_data.n{}.id }}\n",
                (n + 1) % 300
            )
        })
        .collect();
    let text = plan_error(&world, &main).to_string();
    assert!(text.contains("Cycle"), "{text}");
    assert!(text.len() < 10_000, "{} bytes", text.len());
}

fn a_flag_that_is_not_there_gives_the_raw_tail() {
    let world = World::new();
    let mut settings = world.settings("");
    // A wrapper that adds a flag which no OpenTofu has.
    settings.program.command = vec![
        "/bin/sh".into(),
        "-c".into(),
        format!("exec {} \"$@\" -nosuch", program().path.display()).into(),
        "sh".into(),
    ];
    let error = Session::open(settings).unwrap().init(false).unwrap_err();
    assert!(error.to_string().contains("-nosuch"), "{error}");
    assert!(error.exit().is_some());
    assert!(!error.to_string().contains('\u{1b}'));
}

fn faults_of_a_configuration_are_an_answer() {
    let world = World::new();
    let faults = world
        .session("resource \"terraform_data\" \"a\" { nosuch = 1 }")
        .validate()
        .unwrap();
    assert!(
        faults
            .iter()
            .any(|fault| fault.severity == Severity::Error && fault.mentions("nosuch")),
        "{faults:?}"
    );
    assert!(world.session("").validate().unwrap().is_empty());
}

fn a_refused_lock_is_told_apart() {
    let world = World::new();
    let info = r#"{"ID":"other","Operation":"OperationTypeApply","Info":"","Who":"ann@host","Version":"1.12.6","Created":"2026-01-01T00:00:00Z","Path":""}"#;
    world.backend.held().lock = Some(info.into());
    let main = "resource \"terraform_data\" \"a\" {}";
    let error = plan_error(&world, main);
    assert!(error.is_lock_refused(), "{error}");
    let error = world.session(main).apply(ApplyWhat::Direct).unwrap_err();
    assert!(error.is_lock_refused() && error.outcome.started.is_empty());
    world
        .session(main)
        .plan(
            PlanMode::Normal,
            &PlanOptions {
                lock: false,
                ..PlanOptions::default()
            },
        )
        .unwrap();
}

fn a_cloud_block_is_no_backend_of_ours() {
    let world = World::new();
    let main = "terraform {\n  cloud {\n    organization = \"o\"\n    workspaces {\n      name = \"w\"\n    }\n  }\n}\n";
    match world.session(main).init(false) {
        // The override took the block's place: the state is ours.
        Ok(_) => assert!(!world.backend.held().requests.is_empty()),
        Err(error) => assert!(
            error
                .init_failure()
                .is_some_and(|it| *it != InitFailure::Network),
            "{error}"
        ),
    }
}

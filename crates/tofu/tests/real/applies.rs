//! Applies: outputs, warm data directories, interrupts, rescue files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use serde_json::json;
use tofu::{
    ApplyWhat, Control, Event, PlanMode, PlanOptions, Session, Shown, StateFacts, Wanted,
    with_lineage,
};

use crate::world::*;

crate::tests![
    a_plan_is_made_read_applied_and_then_clean,
    plan_and_apply_in_one_process,
    a_variable_of_200_kb_arrives,
    sensitive_values_reach_no_file_and_sensitive_outputs_are_read_apart,
    one_interrupt_frees_the_lock_and_names_the_suspects,
    a_kill_takes_the_whole_group,
    silence_is_told_with_the_last_address,
    a_state_that_could_not_be_written_is_found_and_pushed,
    destroy_leaves_nothing_and_may_be_repeated,
];

const MAIN: &str = r#"
variable "x" { type = string }
resource "terraform_data" "a" { input = var.x }
output "o" { value = terraform_data.a.output }
"#;

fn a_plan_is_made_read_applied_and_then_clean() {
    let world = World::new();
    let session = world.session_with(MAIN, &[("x", json!("one"))]);
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.planned.len(), 1);
    assert_eq!(plan.outcome.planned[0].action.as_str(), "create");
    assert_eq!(plan.outcome.plan_summary.unwrap().add, 1);
    let document = session.show(&plan).unwrap();
    let attributes = document.resource_changes[0].change.attributes();
    assert!(
        attributes
            .iter()
            .any(|it| it.path.is_empty() || it.path == "input"),
        "{attributes:?}"
    );
    assert!(!document.output_changes["o"].is_known());
    let applied = session.apply(ApplyWhat::Saved(&plan)).unwrap();
    assert_eq!(applied.outcome.outputs["o"].value, Some(json!("one")));
    assert_eq!(applied.outcome.apply_summary.unwrap().add, 1);
    assert!(applied.outcome.suspects().is_empty());
    assert!(
        session
            .settings()
            .step
            .leftover(&world.masker)
            .unwrap()
            .is_none()
    );

    let session = world.session_with(MAIN, &[("x", json!("two"))]);
    let report = session.init(false).unwrap();
    assert!(report.was_warm, "the second init runs no process");
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    let document = session.show(&plan).unwrap();
    let change = &document.resource_changes[0].change;
    let input = change
        .attributes()
        .into_iter()
        .find(|it| it.path == "input")
        .unwrap();
    assert_eq!(
        (input.was, input.is),
        (Some(json!("one")), Shown::Value(json!("two")))
    );
    assert!(
        change
            .attributes()
            .iter()
            .any(|it| it.path == "output" && it.is == Shown::Unknown)
    );

    let session = world.session_with(MAIN, &[("x", json!("one"))]);
    let plan = session
        .plan(PlanMode::RefreshOnly, &PlanOptions::default())
        .unwrap();
    assert!(plan.outcome.drift.is_empty() && plan.outcome.planned.is_empty());
    let n_logs = std::fs::read_dir(world.workshop.logs(&"1a/edge".parse().unwrap()))
        .unwrap()
        .count();
    assert!(n_logs >= 5, "{n_logs} transcripts");
}

fn plan_and_apply_in_one_process() {
    let world = World::new();
    let session = world.session_with(MAIN, &[("x", json!("one"))]);
    let applied = session.apply(ApplyWhat::Direct).unwrap();
    assert_eq!(applied.outcome.planned.len(), 1);
    assert_eq!(applied.outcome.completed[0].address, "terraform_data.a");
    assert!(world.heard.has("terraform_data.a: Creation complete"));
    let values = world.heard.lines.lock().unwrap().iter().any(|line| {
        matches!(&line.event, Event::Outputs(outputs) if outputs.values().any(|output| output.value.is_some()))
    });
    assert!(!values, "observers are given no output value");
}

fn a_variable_of_200_kb_arrives() {
    let world = World::new();
    let long = "x".repeat(200_000);
    let session = world.session_with(MAIN, &[("x", json!(long))]);
    let applied = session.apply(ApplyWhat::Direct).unwrap();
    assert_eq!(applied.outcome.outputs["o"].value, Some(json!(long)));
}

fn sensitive_values_reach_no_file_and_sensitive_outputs_are_read_apart() {
    let world = World::new();
    world.masker.add_text("token", "hunter2hunter2");
    let main = r#"
variable "token" {
  type      = string
  sensitive = true
}
resource "terraform_data" "a" {
  input = var.token
  provisioner "local-exec" {
    command     = "echo token is $TOKEN"
    environment = { TOKEN = nonsensitive(var.token) }
  }
}
output "token" {
  value     = terraform_data.a.output
  sensitive = true
}
"#;
    let session = world.session_with(main, &[("token", json!("hunter2hunter2"))]);
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    let applied = session.apply(ApplyWhat::Saved(&plan)).unwrap();
    assert_eq!(applied.outcome.outputs["token"].value, None);
    assert!(applied.outcome.outputs["token"].sensitive);
    assert_eq!(
        session.output_json().unwrap()["token"].value,
        json!("hunter2hunter2")
    );
    assert!(!format!("{:?}", session.output_json().unwrap()).contains("hunter2"));
    assert!(
        world.heard.has("token is [secret]"),
        "the provisioner's line is masked for observers"
    );
    assert_eq!(world.files_with("hunter2hunter2"), Vec::<String>::new());
    assert_eq!(world.files_with("the-password"), Vec::<String>::new());
    let memory = plan.file().parent().unwrap().to_owned();
    assert!(memory.is_dir());
    drop((plan, session));
    assert!(
        !memory.exists(),
        "plans and variables go with their session"
    );
}

/// Wants more as the test says.
#[derive(Default)]
pub(crate) struct Dial(AtomicU8);

impl Dial {
    fn turn(&self, to: u8) {
        self.0.store(to, Ordering::SeqCst);
    }
}

impl Control for Dial {
    fn wanted(&self) -> Wanted {
        match self.0.load(Ordering::SeqCst) {
            0 => Wanted::Run,
            1 => Wanted::Interrupt,
            _ => Wanted::Kill,
        }
    }
}

const SLOW: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" { command = "echo begun; sleep 30" }
}
"#;

fn apply_and_turn(world: &World, to: u8) -> tofu::RunError {
    let dial = Arc::new(Dial::default());
    let session = world.controlled(SLOW, dial.clone());
    std::thread::scope(|scope| {
        let apply = scope.spawn(|| session.apply(ApplyWhat::Direct));
        wait_until("the provisioner began", || world.heard.has("begun"));
        dial.turn(to);
        apply.join().unwrap().unwrap_err()
    })
}

fn one_interrupt_frees_the_lock_and_names_the_suspects() {
    let world = World::new();
    let error = apply_and_turn(&world, 1);
    assert!(error.is_interrupted(), "{error}");
    assert_eq!(
        error.outcome.suspects().into_iter().collect::<Vec<_>>(),
        ["terraform_data.slow"]
    );
    assert!(world.backend.held().lock.is_none());
    let session: Session = world.session(SLOW);
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.tainted().count(), 1);
    let pulled = session.state_pull().unwrap().unwrap();
    assert_eq!(
        StateFacts::read(&pulled).unwrap().tainted,
        ["terraform_data.slow"]
    );
    session.untaint("terraform_data.slow").unwrap();
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.real_changes().count(), 0);
}

fn a_kill_takes_the_whole_group() {
    let world = World::new();
    let error = apply_and_turn(&world, 2);
    assert!(error.is_interrupted() && error.outcome.killed, "{error}");
    assert_eq!(
        error.outcome.suspects().into_iter().collect::<Vec<_>>(),
        ["terraform_data.slow"]
    );
    assert!(
        world.backend.held().lock.is_some(),
        "a killed apply leaves its lock"
    );
    let error = world
        .session(SLOW)
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap_err();
    assert!(error.is_lock_refused(), "{error}");
}

fn silence_is_told_with_the_last_address() {
    let world = World::new();
    let mut settings = world.settings(
        r#"
resource "terraform_data" "sleeper" {
  provisioner "local-exec" { command = "sleep 2" }
}
"#,
    );
    settings.patience = Duration::from_millis(400);
    Session::open(settings)
        .unwrap()
        .apply(ApplyWhat::Direct)
        .unwrap();
    let silences = world.heard.silences.lock().unwrap();
    assert!(silences.len() >= 2, "{silences:?}");
    assert_eq!(silences[0].0.as_deref(), Some("terraform_data.sleeper"));
    assert!(silences[1].1 >= silences[0].1);
}

fn a_state_that_could_not_be_written_is_found_and_pushed() {
    let world = World::new();
    world.backend.held().refuses_writes = true;
    let session = world.session_with(MAIN, &[("x", json!("one"))]);
    let error = session.apply(ApplyWhat::Direct).unwrap_err();
    assert!(error.first_diagnostic().is_some(), "{error}");
    let step = world.step();
    let rescued = step
        .errored_state("root")
        .unwrap()
        .expect("errored.tfstate");
    assert_eq!(step.errored_states().unwrap().len(), 1);
    // Another bundle in the same tree keeps it.
    step.place(
        tofu::Slot::Tree,
        "other",
        &["root"],
        [("root/other.tf", 0o600, b"".as_slice())],
    )
    .unwrap();
    assert!(step.errored_state("root").unwrap().is_some());

    world.backend.held().refuses_writes = false;
    world.backend.held().lock = None;
    let facts = StateFacts::read(&rescued).unwrap();
    let lineage = if facts.lineage.is_empty() {
        "11111111-2222-3333-4444-555555555555"
    } else {
        &facts.lineage
    };
    let session = world.session_with(MAIN, &[("x", json!("one"))]);
    session
        .state_push(&with_lineage(&rescued, lineage).unwrap())
        .unwrap();
    step.remove_errored_state("root").unwrap();
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(
        plan.outcome.real_changes().count(),
        0,
        "the object is known again"
    );
}

fn destroy_leaves_nothing_and_may_be_repeated() {
    let world = World::new();
    let session = world.session_with(MAIN, &[("x", json!("one"))]);
    session.apply(ApplyWhat::Direct).unwrap();
    let plan = session
        .plan(PlanMode::Destroy, &PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.planned[0].action.as_str(), "delete");
    session.apply(ApplyWhat::Saved(&plan)).unwrap();
    session
        .apply(ApplyWhat::DirectDestroy { refresh: true })
        .unwrap();
    let pulled = session.state_pull().unwrap().unwrap();
    assert!(StateFacts::read(&pulled).unwrap().addresses.is_empty());
}

//! Plans: checks, odd lines, and what the environment cannot do.

use std::sync::Mutex;

use serde_json::json;
use tofu::{ApplyWhat, PlanMode, PlanOptions, Session, Workshop};

use crate::world::*;

crate::tests![
    drift_is_told_with_values_by_a_real_provider_below_a_long_path,
    a_false_check_is_told_by_name,
    outputs_alone_are_told_with_known_values,
    nothing_of_the_caller_reaches_tofu,
    replacements_can_be_asked_for,
];

fn a_false_check_is_told_by_name() {
    let world = World::new();
    let main = r#"
variable "x" { type = string }
check "right" {
  assert {
    condition     = var.x == "a"
    error_message = "x is not a"
  }
}
"#;
    let session = world.session_with(main, &[("x", json!("b"))]);
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    let [check] = plan.outcome.failed_checks.as_slice() else {
        panic!("{:?}", plan.outcome)
    };
    assert_eq!(
        (check.name.as_str(), check.message.as_str()),
        ("right", "x is not a")
    );
    let checks = session.show(&plan).unwrap().checks;
    assert!(
        checks
            .iter()
            .any(|check| check.address.kind == "check" && check.status == "fail"),
        "{checks:?}"
    );
}

fn outputs_alone_are_told_with_known_values() {
    let world = World::new();
    world
        .session("output \"o\" { value = 1 }")
        .apply(ApplyWhat::Direct)
        .unwrap();
    let session = world.session("output \"o\" { value = 2 }");
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.real_changes().count(), 0);
    assert_eq!(
        plan.outcome.outputs["o"].action.as_ref().unwrap().as_str(),
        "update"
    );
    let document = session.show(&plan).unwrap();
    let change = &document.output_changes["o"];
    assert!(change.is_known());
    assert_eq!((&change.before, &change.after), (&json!(1), &json!(2)));
}

/// What a provisioner saw of its environment.
fn nothing_of_the_caller_reaches_tofu() {
    static ENV: Mutex<()> = Mutex::new(());
    let _one = ENV.lock().unwrap();
    let world = World::new();
    let out = world.dir.path().join("env");
    let main = format!(
        "resource \"terraform_data\" \"a\" {{\n provisioner \"local-exec\" {{ command = \"env > {}\" }}\n}}\n",
        out.display()
    );
    let mut settings = world.settings(&main);
    for name in [
        "TF_CLI_ARGS_apply",
        "TF_CLI_ARGS_plan",
        "TF_WORKSPACE",
        "TF_DATA_DIR",
    ] {
        settings.env.insert(name.into(), "-destroy".into());
    }
    Session::open(settings)
        .unwrap()
        .apply(ApplyWhat::Direct)
        .unwrap();
    let env = std::fs::read_to_string(out).unwrap();
    let value = |name: &str| {
        env.lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")))
    };
    assert_eq!(value("HOME"), Some(world.workshop.home().to_str().unwrap()));
    assert_eq!(
        value("TMPDIR"),
        Some(world.workshop.tmp().to_str().unwrap())
    );
    assert_eq!(value("GOGC"), Some("400"));
    assert_eq!(value(tofu::PLUGIN_TLS_OFF), Some("1"));
    assert_eq!(value("CARGO"), None, "{env}");
    assert_eq!(value("TF_WORKSPACE"), None);
    assert_eq!(value("USER"), None);
}

fn replacements_can_be_asked_for() {
    let world = World::new();
    let main = "resource \"terraform_data\" \"a\" {\n  for_each = toset([\"x y\"])\n}\n";
    world.session(main).apply(ApplyWhat::Direct).unwrap();
    let options = PlanOptions {
        replace: vec!["terraform_data.a[\"x y\"]".into()],
        ..PlanOptions::default()
    };
    let plan = world
        .session(main)
        .plan(PlanMode::Normal, &options)
        .unwrap();
    let [change] = plan.outcome.planned.as_slice() else {
        panic!("{:?}", plan.outcome.planned)
    };
    assert!(change.action.destroys() && change.reason == "requested");
}

/// A provider's socket has no room below such a path.
fn drift_is_told_with_values_by_a_real_provider_below_a_long_path() {
    let mut world = World::new();
    let long = world.dir.path().join("long".repeat(25));
    world.workshop = Workshop::open(&long, Some(&mirror())).unwrap();
    let file = world.dir.path().join("made");
    let main = format!(
        "resource \"local_file\" \"a\" {{\n  content  = \"one\"\n  filename = \"{}\"\n}}\n",
        file.display()
    );
    let applied = world.session(&main).apply(ApplyWhat::Direct).unwrap();
    assert_eq!(applied.outcome.completed[0].address, "local_file.a");
    std::fs::remove_file(&file).unwrap();
    let session = world.session(&main);
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.drift.len(), 1);
    assert_eq!(plan.outcome.drift[0].action.as_str(), "delete");
    let document = session.show(&plan).unwrap();
    let drift = &document.resource_drift[0];
    assert_eq!(
        (drift.address.as_str(), &drift.change.before["content"]),
        ("local_file.a", &json!("one"))
    );
    assert!(drift.provider_name.ends_with("hashicorp/local"));
}

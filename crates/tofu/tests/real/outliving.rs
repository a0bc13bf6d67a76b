//! An apply outlives its caller.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use process::{Ending, How, Invocation, Liveness, Output, Spawner, Waited, wait_until_dead};
use tofu::{ApplyWhat, PlanMode, PlanOptions, Session, StateFacts, Workshop};

use crate::world::*;

crate::tests![an_apply_goes_on_when_its_caller_is_killed_and_the_next_call_finds_it];

/// The subcommand under which this program applies, and is killed by a test.
pub(crate) const CALLER: &str = "be-a-caller";

const SLOW: &str = r#"
resource "terraform_data" "first" {}
resource "terraform_data" "slow" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "echo begun; sleep 3; for i in 1 2 3 4 5; do echo line $i; done" }
}
"#;

/// `ROOT PORT`: applies in the working directory at ROOT with the state backend at PORT.
pub(crate) fn be_a_caller(args: Vec<OsString>) -> ExitCode {
    let port: u16 = args[1].to_str().unwrap().parse().unwrap();
    let mut world = World::new();
    world.workshop = Workshop::open(Path::new(&args[0]), None).unwrap();
    let mut settings = world.settings(SLOW);
    settings.backend = Some(crate::backend::access(port));
    struct Tell;
    impl tofu::Observer for Tell {
        fn event(&self, _: &str, line: &tofu::EventLine) {
            let mut out = std::io::stdout();
            writeln!(out, "{}", line.message).unwrap();
        }
    }
    settings.observer = std::sync::Arc::new(Tell);
    Session::open(settings)
        .unwrap()
        .apply(ApplyWhat::Direct)
        .unwrap();
    ExitCode::SUCCESS
}

fn an_apply_goes_on_when_its_caller_is_killed_and_the_next_call_finds_it() {
    let world = World::new();
    let call = Invocation::new(me(), "/")
        .args([
            OsString::from(CALLER),
            world.workshop.root().into(),
            world.backend.port.to_string().into(),
        ])
        .env("PATH", path_env())
        .env("REBUILD_TEST_TOFU", program().path);
    let how = How {
        ending: Ending::OnItsOwn,
        output: Output::Captured,
        marker: None,
    };
    let mut caller = launching().start(&call, &how).unwrap();
    wait_until("the provisioner began", || {
        matches!(caller.next(Duration::from_millis(10)).unwrap(), process::Progress::Line(line, _)
            if String::from_utf8_lossy(&line).contains("(local-exec): begun"))
    });
    let step = world.step();
    let child = step.running_child().unwrap().expect("a marker");
    assert_eq!(child.liveness, Liveness::Alive);
    caller.kill_group().unwrap();

    assert_eq!(
        step.running_child().unwrap().unwrap().liveness,
        Liveness::Alive,
        "it outlives its caller"
    );
    assert_eq!(world.workshop.steps().unwrap().len(), 1);
    assert_eq!(wait_until_dead(&child.identity, &mut || true), Waited::Dead);
    assert!(
        world.backend.held().lock.is_none(),
        "it freed its lock itself"
    );
    let leftover = step
        .leftover(&world.masker)
        .unwrap()
        .expect("something is left");
    let outcome = leftover.outcome.expect("its output is still in memory");
    assert_eq!(leftover.command, "apply");
    assert_eq!(outcome.completed.len(), 2);
    assert!(outcome.suspects().is_empty());
    let note: serde_json::Value =
        serde_json::from_slice(&std::fs::read(step.path().join("output.json")).unwrap()).unwrap();
    let memory = Path::new(note["path"].as_str().unwrap())
        .parent()
        .unwrap()
        .to_owned();
    std::fs::remove_dir_all(memory).unwrap();
    step.clear_marker().unwrap();
    assert!(step.leftover(&world.masker).unwrap().is_none());

    let session = world.session(SLOW);
    let facts = StateFacts::read(&session.state_pull().unwrap().unwrap()).unwrap();
    assert_eq!(facts.addresses.len(), 2);
    let plan = session
        .plan(PlanMode::Normal, &PlanOptions::default())
        .unwrap();
    assert_eq!(plan.outcome.real_changes().count(), 0);
}

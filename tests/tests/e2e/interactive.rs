//! What a person is asked at a terminal, and what runs through without one.

use crate::stage::Stage;

const UP: [&str; 3] = ["up", "--target", "drill"];

/// Checkpoints at a terminal: continue, pause, tear down.
#[test]
fn a_checkpoint_asks_for_continue_pause_or_teardown() {
    let stage = Stage::of(&["0: s", "1: s", "2: s"]);
    let mut terminal = stage.rebuild(&UP).in_terminal();
    terminal
        .expect("phase 0")
        .expect("is verified")
        .expect("2 terraform_data created");
    terminal.expect("[c/p/t] ").send("c\n");
    terminal
        .expect("[c/p/t] ")
        .send("x\n")
        .expect("type c, p or t")
        .expect("[c/p/t] ")
        .send("p\n");
    terminal.wait().expect_code(0);
    assert_eq!(stage.book(), ["create 0-s", "create 1-s"]);
    assert_eq!(stage.record()["status"], "paused");
    let mut terminal = stage
        .rebuild(&[&UP[..], &["--resume"]].concat())
        .in_terminal();
    // Nothing is asked after the last phase; verified ones are not asked about again.
    terminal.expect("phase 2").expect("is verified");
    terminal.wait().expect_code(0);
    assert_eq!(stage.book(), ["create 2-s"]);
    assert_eq!(stage.record()["status"], "finished");

    let stage = Stage::of(&["0: s", "1: s"]);
    let mut terminal = stage.rebuild(&UP).in_terminal();
    terminal.expect("[c/p/t] ").send("t\n");
    terminal.wait().expect_code(0);
    assert_eq!(stage.book(), ["create 0-s", "destroy 0-s"]);
    assert_eq!(stage.record()["status"], "torn-down");
}

/// Case S12: without a terminal nothing is asked, and `--pause` ends the call at the next checkpoint all the same.
#[test]
fn without_a_terminal_nothing_waits() {
    let stage = Stage::of(&["0: s", "1: s"]);
    let said = stage.run(0, &[&UP[..], &["--pause"]].concat()).stderr;
    assert!(
        said.contains("phase 0 is verified: 2 terraform_data created"),
        "{said}"
    );
    assert_eq!(stage.book(), ["create 0-s"]);
    assert_eq!(stage.record()["status"], "paused");
    stage.run(0, &[&UP[..], &["--resume"]].concat());
    assert_eq!(stage.book(), ["create 1-s"]);
    // At a terminal `--no-pause` does not ask either.
    stage.down_to(0, &[]);
    stage.forget_book();
    let outcome = stage
        .rebuild(&[&UP[..], &["--no-pause"]].concat())
        .in_terminal()
        .wait();
    outcome.expect_code(0);
    assert!(!outcome.stdout.contains("[c/p/t]"), "{}", outcome.stdout);
    assert_eq!(stage.book(), ["create 0-s", "create 1-s"]);
}

/// After a failure a person at the terminal is offered teardown; a no leaves everything as it is.
#[test]
fn teardown_is_offered_after_a_failure() {
    let stage = Stage::of(&["0: s", "1: s"]);
    stage.on("plan-1-s");
    let mut terminal = stage.rebuild(&UP).in_terminal();
    terminal.expect("[c/p/t] ").send("c\n");
    terminal.expect("the plan of 1-s is switched off");
    terminal
        .expect("tear down everything that stands in `drill`?")
        .send("no\n");
    terminal.wait().expect_code(1);
    assert_eq!(stage.book(), ["create 0-s"]);
    assert_eq!(stage.record()["status"], "failed");
    let mut terminal = stage
        .rebuild(&[&UP[..], &["--resume"]].concat())
        .in_terminal();
    terminal
        .expect("tear down everything that stands in `drill`?")
        .send("yes\n");
    let outcome = terminal.wait();
    assert_eq!(stage.book(), ["destroy 0-s"], "{}", outcome.stdout);
    assert_eq!(stage.record()["status"], "torn-down");
    assert!(stage.states().is_empty());
}

/// The plan guard of a protected target: unattended it stops with 5 and the addresses, at a terminal a person agrees.
#[test]
fn a_plan_that_destroys_on_a_protected_target_needs_a_person() {
    let stage = Stage::of(&["0: s", "1: s"]);
    stage.write(
        "targets/drill.toml",
        "protected = true\n[encryption]\npassphrase = { env = \"PASSPHRASE\" }\n",
    );
    let call = |args: &[&str]| {
        stage
            .rebuild(args)
            .env("PASSPHRASE", "a passphrase of some length")
    };
    let unattended = [&UP[..], &["--no-pause"]].concat();
    call(&unattended).run().expect_code(0);
    stage.forget_book();
    // A replacement, and a removal.
    let path = "1-s/main.tf";
    let text = std::fs::read_to_string(stage.dir().join(path)).unwrap();
    let text = text.replace(
        "  input = \"1-s\"\n",
        "  input = \"1-s\"\n  triggers_replace = \"new\"\n",
    );
    stage.write(path, &text);
    let outcome = call(&unattended).run();
    outcome.expect_code(5);
    assert!(
        outcome.stderr.contains("`terraform_data.it`"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("protected"), "{}", outcome.stderr);
    assert!(stage.book().is_empty());
    let resume = [&UP[..], &["--resume"]].concat();
    let mut terminal = call(&resume).in_terminal();
    terminal
        .expect("the plan of 1.s destroys or replaces")
        .expect("terraform_data.it")
        .expect("type yes")
        .send("no\n");
    terminal.wait().expect_code(5);
    assert!(stage.book().is_empty());
    let mut terminal = call(&resume).in_terminal();
    terminal.expect("type yes").send("yes\n");
    terminal.wait().expect_code(0);
    assert_eq!(stage.book(), ["destroy 1-s", "create 1-s"]);
    // Who agreed to what is in the record.
    let record = stage.record();
    let decisions = record["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(decisions[0]["kind"], "allow-destroy");
    assert_eq!(decisions[0]["about"], "1.s");
}

/// `max_destroy` bounds what a phase's plan may destroy on any target.
#[test]
fn max_destroy_bounds_what_a_phase_may_lose() {
    let stage = Stage::empty();
    let steps = stage.phase("0", "s");
    let define = |max: u32| {
        stage.define(&steps.replacen("title = ", &format!("max_destroy = {max}\ntitle = "), 1));
    };
    define(0);
    stage.up();
    stage.forget_book();
    let path = "0-s/main.tf";
    let text = std::fs::read_to_string(stage.dir().join(path)).unwrap();
    stage.write(
        path,
        &text.replace(
            "  input = \"0-s\"\n",
            "  input = \"0-s\"\n  triggers_replace = \"new\"\n",
        ),
    );
    let said = stage.up_to(5, &[]);
    assert!(
        said.contains("the phase allows 0") && said.contains("`terraform_data.it`"),
        "{said}"
    );
    assert!(stage.book().is_empty());
    // Nothing was begun, so there is nothing to resume.
    assert!(
        !said.contains("begins") && !said.contains("--resume"),
        "{said}"
    );
    assert_eq!(stage.status()["state"], "finished");
    define(1);
    stage.up();
    assert_eq!(stage.book(), ["destroy 0-s", "create 0-s"]);
}

/// A run over its time budget is marked, and never stopped.
#[test]
fn a_spent_budget_is_marked_and_stops_nothing() {
    let stage = Stage::empty();
    let phases = stage.phase("0", "s") + &stage.phase("1", "s");
    stage.write(
        "rebuild.toml",
        &format!("[platform]\nname = \"lab\"\ntime_budget = \"1s\"\n{phases}"),
    );
    stage.up_to(0, &["--through", "0"]);
    let begun = std::time::Instant::now();
    process::wait::until(
        begun + std::time::Duration::from_secs(60),
        std::time::Duration::from_millis(20),
        || (begun.elapsed().as_secs_f64() > 1.1).then_some(()),
    );
    let said = stage.up_to(0, &["--resume"]);
    assert!(said.contains("over the budget"), "{said}");
    let record = stage.record();
    assert_eq!(record["status"], "finished");
    assert_eq!(record["over_budget"], true, "{record}");
    assert_eq!(stage.book(), ["create 0-s", "create 1-s"]);
}

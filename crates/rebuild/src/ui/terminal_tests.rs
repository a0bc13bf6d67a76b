//! An operator at a real terminal: this test program starts itself there, with a moving line, and answers.

use std::sync::Arc;

use run::stop::StopRequests;
use run::ui::{Checkpoint, Doing, Notice, Ui};
use test_support::{Command, World};

use super::*;
use crate::stream::{self, Look};

/// Set in the child only.
const CHILD: &str = "__REBUILD_OPERATOR_CHILD";

/// What the child does: follows a step, asks everything once, tells what it got.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the switch between parent and child of this test"
)]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let stop = Arc::new(StopRequests::new(None));
    let human = Human::new(Look::PLAIN, Verbosity::Normal, true, false);
    let questions = Questions {
        allowed: true,
        stop,
        look: Look::PLAIN,
    };
    let operator = Operator {
        teller: Arc::new(human),
        questions,
    };
    let say = |text: String| operator.teller.say(&format!("{text}\n"));
    operator.tell(&Notice::Step {
        step: "1a.edge".to_owned(),
        doing: Doing::Apply,
    });
    if !operator.interactive() {
        say("nobody can be asked".to_owned());
        return;
    }
    let summary = Checkpoint {
        phase: "1a".to_owned(),
        next: Some("1b".to_owned()),
        ..Checkpoint::default()
    };
    say(format!("checkpoint {:?}", operator.at_checkpoint(&summary)));
    say(format!(
        "failure {}",
        operator.tear_down_after_failure("live", true)
    ));
    say(format!(
        "named {}",
        operator.confirm_by_name("live", "this goes")
    ));
    say(format!(
        "agreed {}",
        operator.agree_to_destroy("1a.edge", &["local_file.x".to_owned()])
    ));
    operator.teller.end();
    stream::err("over\n");
}

fn started(world: &World) -> Command {
    world
        .command(std::env::current_exe().unwrap())
        .args(["--exact", "ui::terminal_tests::child", "--nocapture"])
        .env(CHILD, "1")
}

#[test]
fn every_question_is_asked_and_answered() {
    let world = World::new();
    let mut terminal = started(&world).in_terminal();
    terminal
        .expect("continue with phase 1b, pause, or tear down? [c/p/t] ")
        .send("what\n");
    terminal
        .expect("type c, p or t")
        .expect("[c/p/t] ")
        .send("t\n")
        .expect("checkpoint TearDown");
    terminal
        .expect("type the target's name to go on: ")
        .send("liv\n")
        .expect("failure false");
    terminal
        .expect("this goes")
        .expect("to go on: ")
        .send("live\n")
        .expect("named true");
    terminal
        .expect("local_file.x")
        .expect("type yes to apply it: ")
        .send("yes\n")
        .expect("agreed true");
    terminal.expect("over");
    assert!(terminal.is_sane());
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn ctrl_c_at_each_question_pauses_or_declines() {
    let world = World::new();
    let mut terminal = started(&world).in_terminal();
    terminal
        .expect("[c/p/t] ")
        .send("\x03")
        .expect("checkpoint Pause");
    terminal
        .expect("to go on: ")
        .send("live\x03")
        .expect("failure false");
    terminal
        .expect("to go on: ")
        .send("\x04")
        .expect("named false");
    terminal
        .expect("apply it: ")
        .send("yes\x03")
        .expect("agreed false");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn a_program_in_the_background_asks_nobody() {
    let world = World::new();
    let exe = std::env::current_exe().unwrap();
    let script = format!(
        "'{}' --exact ui::terminal_tests::child --nocapture & wait",
        exe.display()
    );
    let mut terminal = world
        .command("/bin/sh")
        .args(["-m", "-c", &script])
        .env(CHILD, "1")
        .in_terminal();
    terminal.expect("nobody can be asked");
    assert_eq!(terminal.wait().code(), Some(0));
}

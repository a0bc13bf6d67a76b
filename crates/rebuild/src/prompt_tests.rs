//! The prompt at a real terminal: this test program starts itself there and answers.

use std::sync::Arc;

use run::stop::StopRequests;
use test_support::{Terminal, World};

use super::*;

/// Set in the child only.
const CHILD: &str = "__REBUILD_PROMPT_CHILD";
/// Set as well where the line is not to be shown.
const HIDDEN: &str = "__REBUILD_PROMPT_HIDDEN";

/// What the child does: asks once and tells what it got. Does nothing as an ordinary test.
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
    crate::signals::listen(Arc::clone(&stop), |_| {}).unwrap();
    let is_hidden = std::env::var_os(HIDDEN).is_some();
    let reply = if is_hidden {
        ask_hidden("which? ", &stop)
    } else {
        ask("which? ", &stop)
    };
    crate::stream::err(&format!("reply {reply:?}, {:?}\n", stop.level()));
}

fn at_terminal(world: &World) -> Terminal {
    let mut terminal = world
        .command(std::env::current_exe().unwrap())
        .args(["--exact", "prompt::tests::child", "--nocapture"])
        .env(CHILD, "1")
        .in_terminal();
    terminal.expect("which? ");
    terminal
}

#[test]
fn a_line_is_the_reply_and_the_terminal_is_as_it_was() {
    let world = World::new();
    let mut terminal = at_terminal(&world);
    terminal
        .send(" lovi\x7f\x7f\x7five \n")
        .expect("reply Line(\"live\"), None");
    assert!(terminal.is_sane());
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn ctrl_c_declines_and_is_no_signal() {
    let world = World::new();
    let mut terminal = at_terminal(&world);
    terminal.send("yes\x03").expect("reply Declined, None");
    assert!(terminal.is_sane());
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn the_end_of_input_declines() {
    let world = World::new();
    at_terminal(&world)
        .send("\x04")
        .expect("reply Declined, None");
}

#[test]
fn a_signal_while_the_question_stands_declines() {
    let world = World::new();
    let mut terminal = at_terminal(&world);
    terminal
        .signal(rustix::process::Signal::TERM)
        .expect("reply Declined, Gentle");
    assert!(terminal.is_sane());
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn only_a_whole_line_is_an_answer() {
    assert_eq!(judge(b"liv", Echo::Shown), None);
    assert_eq!(
        judge(b" live \n", Echo::Shown),
        Some(Reply::Line("live".to_owned()))
    );
    assert_eq!(judge(b"\n", Echo::Shown), Some(Reply::Line(String::new())));
}

#[test]
fn ctrl_c_and_broken_text_decline_whatever_stands_before_them() {
    assert_eq!(judge(b"yes\x03", Echo::Shown), Some(Reply::Declined));
    assert_eq!(judge(b"\xff\n", Echo::Shown), Some(Reply::Declined));
}

#[test]
fn a_hidden_line_is_whole_and_never_shown() {
    let world = World::new();
    let mut terminal = world
        .command(std::env::current_exe().unwrap())
        .args(["--exact", "prompt::tests::child", "--nocapture"])
        .env(CHILD, "1")
        .env(HIDDEN, "1")
        .in_terminal();
    terminal.expect("which? ");
    terminal
        .send(" s3cret \n")
        .expect("reply Line(\" s3cret \"), None");
    assert!(terminal.is_sane(), "the terminal shows what is typed again");
    let outcome = terminal.wait();
    assert_eq!(
        outcome.stdout.matches("s3cret").count(),
        1,
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_hidden_line_that_may_be_cut_is_no_answer() {
    let long = |n| [vec![b'x'; n], b"\n".to_vec()].concat();
    assert_eq!(
        judge(&long(LONGEST_LINE), Echo::Hidden),
        Some(Reply::Declined)
    );
    assert!(matches!(
        judge(&long(LONGEST_LINE - 1), Echo::Hidden),
        Some(Reply::Line(_))
    ));
}

//! The operator's end of a call: what is told as it goes on, and what is asked.

mod human;
mod lines;
mod ndjson;
mod questions;
#[cfg(test)]
mod terminal_tests;

use std::sync::Arc;

use run::ui::{Answer, Checkpoint, Notice, Ui};

pub(crate) use human::Human;
pub(crate) use lines::{seconds, short};
pub(crate) use ndjson::Ndjson;
pub(crate) use questions::Questions;

/// Where notices go.
pub(crate) trait Teller: Send + Sync {
    /// Tells one; must never fail or block.
    fn tell(&self, notice: &Notice);
    /// Says something that is no notice, on standard error.
    fn say(&self, text: &str);
    /// Makes room on the screen for what `print` prints and asks.
    fn aside(&self, print: &mut dyn FnMut());
    /// Clears away what should not stay on the screen.
    fn end(&self);
}

/// How much is told to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    /// Warnings alone.
    Quiet,
    /// What an operator follows.
    Normal,
    /// Tools, resources and warm directories, too.
    Verbose,
}

/// The operator of one call: told by one of the tellers, asked where there is somebody to ask.
pub(crate) struct Operator {
    pub(crate) teller: Arc<dyn Teller>,
    pub(crate) questions: Questions,
}

impl Operator {
    fn aside<T>(&self, refused: T, ask: impl Fn() -> T) -> T {
        let mut answer = refused;
        self.teller.aside(&mut || answer = ask());
        answer
    }
}

impl Ui for Operator {
    fn tell(&self, notice: &Notice) {
        self.teller.tell(notice);
    }

    fn interactive(&self) -> bool {
        self.questions.can_ask()
    }

    fn at_checkpoint(&self, summary: &Checkpoint) -> Answer {
        self.aside(Answer::Pause, || self.questions.at_checkpoint(summary))
    }

    fn tear_down_after_failure(&self, target: &str, protected: bool) -> bool {
        self.aside(false, || {
            self.questions.tear_down_after_failure(target, protected)
        })
    }

    fn confirm_by_name(&self, target: &str, what: &str) -> bool {
        self.aside(false, || self.questions.confirm_by_name(target, what))
    }

    fn agree_to_destroy(&self, step: &str, addresses: &[String]) -> bool {
        self.aside(false, || self.questions.agree_to_destroy(step, addresses))
    }
}

//! What a caller says to, and hears from, a command that runs.

use std::time::Duration;

use crate::events::EventLine;

/// What is wanted of a command that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Wanted {
    /// Let it run.
    #[default]
    Run,
    /// Send its group one SIGINT, once, and wait.
    Interrupt,
    /// Kill its whole group.
    Kill,
}

/// Asked some times a second while a command runs.
pub trait Control: Send + Sync {
    /// What is wanted now. Once more than [`Wanted::Run`] was said, less is not heard any more.
    fn wanted(&self) -> Wanted;

    /// Whether the end that is wanted is the clock's, not a person's.
    fn is_timeout(&self) -> bool {
        false
    }
}

/// Lets every command run to its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uncontrolled;

impl Control for Uncontrolled {
    fn wanted(&self) -> Wanted {
        Wanted::Run
    }
}

/// Hears of a command while it runs. All text is masked; output values are left out.
pub trait Observer: Send + Sync {
    /// One line of the event stream.
    fn event(&self, command: &str, line: &EventLine);

    /// Nothing was heard for `silence`; `address` is the last resource instance that was named.
    /// Said again each time that the silence doubles.
    fn quiet(&self, command: &str, address: Option<&str>, silence: Duration) {
        let _ = (command, address, silence);
    }
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn event(&self, _: &str, _: &EventLine) {}
}

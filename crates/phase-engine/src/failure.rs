//! What went wrong, as a value that can be shown, merged and kept.

use std::error::Error;
use std::path::PathBuf;

use crate::ExitCode;

/// Why something did not end well: what and where, why, and what to do.
///
/// The exit code says of which kind it is. [`ExitCode::Interrupted`] means that a signal ended it,
/// whatever it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    /// What the call ends with because of it.
    pub exit: ExitCode,
    /// What was tried and where, in one line.
    pub what: String,
    /// Why, outermost first; a tool's own first diagnostic is the first of them.
    pub causes: Vec<String>,
    /// What is safe to type next.
    pub hint: Option<String>,
    /// Where the whole log is.
    pub log: Option<PathBuf>,
}

impl Failure {
    /// Makes one with a line that says what was tried.
    pub fn new(exit: ExitCode, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            causes: Vec::new(),
            hint: None,
            log: None,
        }
    }

    /// Makes one that ends the call with [`ExitCode::Failed`].
    pub fn failed(what: impl Into<String>) -> Self {
        Self::new(ExitCode::Failed, what)
    }

    /// Makes one of an error and the errors behind it.
    pub fn of(exit: ExitCode, error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(exit, error.to_string());
        let mut source = error.source();
        while let Some(error) = source {
            failure.causes.push(error.to_string());
            source = error.source();
        }
        failure
    }

    /// Adds a reason.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says where the whole log is.
    #[must_use]
    pub fn log(mut self, log: impl Into<PathBuf>) -> Self {
        self.log = Some(log.into());
        self
    }

    /// Gives what was tried and why it failed in one line.
    pub fn one_line(&self) -> String {
        std::iter::once(self.what.as_str())
            .chain(self.causes.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(": ")
    }

    /// Says whether a signal ended it.
    pub fn is_interrupt(&self) -> bool {
        self.exit == ExitCode::Interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the plan")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn the_chain_of_an_error_is_kept_apart() {
        let failure = Failure::of(ExitCode::Failed, &Outer(std::fmt::Error));
        assert_eq!(failure.to_string(), "cannot read the plan");
        assert_eq!(failure.causes, [std::fmt::Error.to_string()]);
    }

    #[test]
    fn a_failure_says_why_and_what_to_do() {
        let failure = Failure::failed("x").because("y").hint("z").log("/log");
        assert_eq!(failure.causes, ["y"]);
        assert_eq!(failure.one_line(), "x: y");
        assert_eq!(failure.hint.as_deref(), Some("z"));
        assert_eq!(failure.log, Some(PathBuf::from("/log")));
        assert!(!failure.is_interrupt());
        assert!(Failure::new(ExitCode::Interrupted, "x").is_interrupt());
    }
}

//! Exit codes of the program, and the one function that merges results.

use std::fmt;

/// How a command ends. A tool's own exit code is never ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitCode {
    /// 0: done, a pause and `--through` included.
    Done,
    /// 1: a phase, step or check failed, or the store was lost in mid-run.
    Failed,
    /// 2: usage, definitions, tools, secrets or keys are wrong; nothing was touched.
    Unusable,
    /// 3: preflight stopped it, the store being unreachable included.
    Stopped,
    /// 4: locked by someone else.
    Locked,
    /// 5: declined by the operator or a guard.
    Declined,
    /// 6: there are changes (`plan --detailed-exitcode` only).
    Changes,
    /// 130: interrupted (SIGINT, SIGTERM, SIGHUP).
    Interrupted,
}

impl ExitCode {
    /// Every exit code, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Unusable,
        Self::Stopped,
        Self::Locked,
        Self::Declined,
        Self::Changes,
        Self::Interrupted,
    ];

    /// Gives the number that the process ends with.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Unusable => 2,
            Self::Stopped => 3,
            Self::Locked => 4,
            Self::Declined => 5,
            Self::Changes => 6,
            Self::Interrupted => 130,
        }
    }

    /// Says what the code means, in one line.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done (a pause and `--through` included)",
            Self::Failed => "a phase, step or check failed, or the store was lost in mid-run",
            Self::Unusable => {
                "usage, definitions, tools, secrets or keys are wrong; nothing was touched"
            }
            Self::Stopped => "preflight stopped it, the store being unreachable included",
            Self::Locked => "locked by someone else",
            Self::Declined => "declined by the operator or a guard",
            Self::Changes => "there are changes (`plan --detailed-exitcode` only)",
            Self::Interrupted => "interrupted (SIGINT, SIGTERM, SIGHUP)",
        }
    }

    /// Reads a number, where it is one of ours.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| exit.code() == code)
    }

    /// Says whether everything that was asked for is done.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Done)
    }

    /// The higher, the more it wins: errors, then drift, then the rest, then clean.
    const fn weight(self) -> u8 {
        match self {
            Self::Interrupted => 7,
            Self::Failed => 6,
            Self::Unusable => 5,
            Self::Locked => 4,
            Self::Stopped => 3,
            Self::Declined => 2,
            Self::Changes => 1,
            Self::Done => 0,
        }
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code().fmt(f)
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(exit: ExitCode) -> Self {
        exit.code().into()
    }
}

/// The result of one part of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The part ran and ended so.
    Ran(ExitCode),
    /// The part did not run, for whatever reason; it counts as [`ExitCode::Stopped`].
    NotRun,
}

impl From<ExitCode> for Outcome {
    fn from(exit: ExitCode) -> Self {
        Self::Ran(exit)
    }
}

/// Merges the results of a command's parts into its exit code.
///
/// Error goes before drift, drift before clean. What did not run is never green, and neither is a
/// command of which no part ran at all.
pub fn merge<I>(outcomes: I) -> ExitCode
where
    I: IntoIterator,
    I::Item: Into<Outcome>,
{
    outcomes
        .into_iter()
        .map(|outcome| match outcome.into() {
            Outcome::Ran(exit) => exit,
            Outcome::NotRun => ExitCode::Stopped,
        })
        .max_by_key(|exit| exit.weight())
        .unwrap_or(ExitCode::Stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_numbers_are_those_that_are_published() {
        let codes: Vec<u8> = ExitCode::ALL.into_iter().map(ExitCode::code).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 130]);
        for exit in ExitCode::ALL {
            assert_eq!(ExitCode::from_code(exit.code()), Some(exit));
            assert!(!exit.meaning().is_empty());
        }
        assert_eq!(ExitCode::from_code(7), None);
        assert_eq!(ExitCode::Interrupted.to_string(), "130");
        assert_eq!(
            std::process::ExitCode::from(ExitCode::Done),
            std::process::ExitCode::SUCCESS
        );
    }

    #[test]
    fn error_goes_before_drift_before_clean() {
        use ExitCode as X;
        for (parts, merged) in [
            (vec![X::Done, X::Done], X::Done),
            (vec![X::Done, X::Stopped, X::Done], X::Stopped),
            (vec![X::Stopped, X::Failed], X::Failed),
            (vec![X::Failed, X::Stopped, X::Done], X::Failed),
            (vec![X::Unusable, X::Stopped], X::Unusable),
            (vec![X::Done, X::Changes], X::Changes),
            (vec![X::Changes, X::Declined], X::Declined),
            (vec![X::Failed, X::Interrupted], X::Interrupted),
        ] {
            assert_eq!(merge(parts.clone()), merged, "{parts:?}");
        }
    }

    #[test]
    fn not_run_is_never_green() {
        assert_eq!(
            merge([Outcome::Ran(ExitCode::Done), Outcome::NotRun]),
            ExitCode::Stopped
        );
        assert_eq!(
            merge([Outcome::NotRun, Outcome::Ran(ExitCode::Failed)]),
            ExitCode::Failed
        );
        assert_eq!(merge(Vec::<Outcome>::new()), ExitCode::Stopped);
    }

    proptest! {
        #[test]
        fn the_order_of_the_parts_does_not_matter(mut parts in prop::collection::vec(0..8_usize, 1..8)) {
            let of = |parts: &[usize]| merge(parts.iter().map(|i| ExitCode::ALL[*i]));
            let forward = of(&parts);
            parts.reverse();
            prop_assert_eq!(of(&parts), forward);
            prop_assert_eq!(forward.is_done(), parts.iter().all(|i| *i == 0));
        }
    }
}

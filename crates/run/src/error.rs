//! Why a call ended as it did, for the one renderer in the binary.

use phase_engine::{ExitCode, Failure};
use platform::Faults;

/// Why a command did not end well.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The definitions have faults; nothing was touched.
    #[error("the definitions have {}", count(faults.len()))]
    Definitions {
        /// All of them.
        faults: Faults,
    },
    /// Anything else.
    #[error(transparent)]
    Failure(#[from] Failure),
}

fn count(n_faults: usize) -> String {
    if n_faults == 1 {
        "a fault".to_owned()
    } else {
        format!("{n_faults} faults")
    }
}

impl CallError {
    /// What the process ends with.
    #[must_use]
    pub fn exit(&self) -> ExitCode {
        match self {
            Self::Definitions { .. } => ExitCode::Unusable,
            Self::Failure(failure) => failure.exit,
        }
    }

    /// Why, outermost first.
    #[must_use]
    pub fn causes(&self) -> &[String] {
        match self {
            Self::Definitions { .. } => &[],
            Self::Failure(failure) => &failure.causes,
        }
    }

    /// What is safe to type next.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Definitions { .. } => None,
            Self::Failure(failure) => failure.hint.as_deref(),
        }
    }

    /// The faults of the definitions, each with its place.
    #[must_use]
    pub fn faults(&self) -> Option<&Faults> {
        match self {
            Self::Definitions { faults } => Some(faults),
            Self::Failure(_) => None,
        }
    }
}

impl From<Faults> for CallError {
    fn from(faults: Faults) -> Self {
        Self::Definitions { faults }
    }
}

/// Definitions, tools, secrets or keys are wrong, and nothing was touched.
pub(crate) fn unusable(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::of(ExitCode::Unusable, error)
}

/// Something can't be explained or read; nothing was changed.
pub(crate) fn stopped(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::of(ExitCode::Stopped, error)
}

/// A phase, step or check failed, or the store was lost in mid-run.
pub(crate) fn failed(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::of(ExitCode::Failed, error)
}

//! The words of a verdict.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of one phase or step, worst first: the least one of several is theirs together.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A state that the record knows is not in the store.
    StateAbsent,
    /// A state is not the recorded one, or the record knows nothing of it.
    StateUnexplained,
    /// An API, a host or the store gave no answer, or all objects of a provider are gone at once.
    Unreachable,
    /// It was not looked at.
    NotRun,
    /// It was looked at, and nothing can be said.
    Undecided,
    /// An object is marked for replacement by an interrupted or failed apply.
    Tainted,
    /// The target differs from what was last applied to it.
    Drifted,
    /// A check does not hold.
    CheckFailed,
    /// It is what was last applied.
    Clean,
}

impl Verdict {
    /// Every verdict, worst first.
    pub const ALL: [Self; 9] = [
        Self::StateAbsent,
        Self::StateUnexplained,
        Self::Unreachable,
        Self::NotRun,
        Self::Undecided,
        Self::Tainted,
        Self::Drifted,
        Self::CheckFailed,
        Self::Clean,
    ];

    /// The word, as reports have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StateAbsent => "state-absent",
            Self::StateUnexplained => "state-unexplained",
            Self::Unreachable => "unreachable",
            Self::NotRun => "not-run",
            Self::Undecided => "undecided",
            Self::Tainted => "tainted",
            Self::Drifted => "drifted",
            Self::CheckFailed => "check-failed",
            Self::Clean => "clean",
        }
    }

    /// The worst of several; of none at all it is [`Verdict::NotRun`], since nothing was looked at.
    pub fn worst(of: impl IntoIterator<Item = Self>) -> Self {
        of.into_iter().min().unwrap_or(Self::NotRun)
    }

    /// Whether nothing speaks against going on.
    pub fn is_clean(self) -> bool {
        self == Self::Clean
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// What is known of the whole target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReportVerdict {
    /// Nothing stands and nothing is left of anything: the first apply may come.
    FirstBuild,
    /// Everything is what was last applied.
    Clean,
    /// Something is not proven: no change may be made.
    Stopped,
}

impl fmt::Display for ReportVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::FirstBuild => "first-build",
            Self::Clean => "clean",
            Self::Stopped => "stopped",
        })
    }
}

/// Why a finding speaks against going on. The words are part of the report's format.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The store lacks the state.
    StateAbsent,
    /// The state has another lineage than the recorded one.
    LineageDiffers,
    /// The state has another serial than the recorded one.
    SerialDiffers,
    /// The state has the recorded lineage and serial, and other bytes.
    DigestDiffers,
    /// The store holds a state that the record does not know.
    UnknownState,
    /// The store could not be read.
    StoreUnreachable,
    /// A provider's API gave an error.
    ProviderUnreachable,
    /// A host or service that a step verifies gave no answer.
    StepUnreachable,
    /// Three objects or more of one provider, and all of them gone at once.
    MassDisappearance,
    /// The state's lock is held by someone else.
    LockHeld,
    /// It was not looked at.
    NotRun,
    /// The plan failed, or gave no whole answer.
    PlanFailed,
    /// An apply that was cut or failed marked the object for replacement.
    Tainted,
    /// The object was changed outside OpenTofu.
    ChangedOutside,
    /// The object was deleted outside OpenTofu.
    DeletedOutside,
    /// An output has another value, though no resource changed.
    OutputsChanged,
    /// A step's own verify does not hold.
    VerifyFailed,
    /// A `check` block is false, or could not be evaluated.
    CheckBlockFalse,
    /// A check of the phase does not hold.
    PhaseCheckFailed,
    /// An entry of `ignore_drift` has passed its end date.
    IgnoreExpired,
    /// Nothing stands by the record, and a residue probe still found something.
    LeftBehind,
    /// A residue probe could not be run to its end.
    ResidueFailed,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 22] = [
        Self::StateAbsent,
        Self::LineageDiffers,
        Self::SerialDiffers,
        Self::DigestDiffers,
        Self::UnknownState,
        Self::StoreUnreachable,
        Self::ProviderUnreachable,
        Self::StepUnreachable,
        Self::MassDisappearance,
        Self::LockHeld,
        Self::NotRun,
        Self::PlanFailed,
        Self::Tainted,
        Self::ChangedOutside,
        Self::DeletedOutside,
        Self::OutputsChanged,
        Self::VerifyFailed,
        Self::CheckBlockFalse,
        Self::PhaseCheckFailed,
        Self::IgnoreExpired,
        Self::LeftBehind,
        Self::ResidueFailed,
    ];

    /// The word, as reports have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StateAbsent => "state-absent",
            Self::LineageDiffers => "lineage-differs",
            Self::SerialDiffers => "serial-differs",
            Self::DigestDiffers => "digest-differs",
            Self::UnknownState => "unknown-state",
            Self::StoreUnreachable => "store-unreachable",
            Self::ProviderUnreachable => "provider-unreachable",
            Self::StepUnreachable => "step-unreachable",
            Self::MassDisappearance => "mass-disappearance",
            Self::LockHeld => "lock-held",
            Self::NotRun => "not-run",
            Self::PlanFailed => "plan-failed",
            Self::Tainted => "tainted",
            Self::ChangedOutside => "changed-outside",
            Self::DeletedOutside => "deleted-outside",
            Self::OutputsChanged => "outputs-changed",
            Self::VerifyFailed => "verify-failed",
            Self::CheckBlockFalse => "check-block-false",
            Self::PhaseCheckFailed => "phase-check-failed",
            Self::IgnoreExpired => "ignore-expired",
            Self::LeftBehind => "left-behind",
            Self::ResidueFailed => "residue-failed",
        }
    }

    /// The verdict of a step or phase for which this alone was found.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::StateAbsent => Verdict::StateAbsent,
            Self::LineageDiffers
            | Self::SerialDiffers
            | Self::DigestDiffers
            | Self::UnknownState
            | Self::LeftBehind => Verdict::StateUnexplained,
            Self::StoreUnreachable
            | Self::ProviderUnreachable
            | Self::StepUnreachable
            | Self::MassDisappearance => Verdict::Unreachable,
            Self::LockHeld | Self::NotRun => Verdict::NotRun,
            Self::PlanFailed | Self::ResidueFailed => Verdict::Undecided,
            Self::Tainted => Verdict::Tainted,
            Self::ChangedOutside | Self::DeletedOutside | Self::OutputsChanged => Verdict::Drifted,
            Self::VerifyFailed
            | Self::CheckBlockFalse
            | Self::PhaseCheckFailed
            | Self::IgnoreExpired => Verdict::CheckFailed,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_is_the_first_in_the_list() {
        for pair in Verdict::ALL.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
            assert_eq!(Verdict::worst([pair[1], pair[0], Verdict::Clean]), pair[0]);
        }
    }

    #[test]
    fn of_nothing_the_verdict_is_never_green() {
        assert_eq!(Verdict::worst([]), Verdict::NotRun);
    }

    #[test]
    fn the_words_are_those_of_the_serialized_form() {
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.as_str());
            assert_eq!(verdict.to_string(), verdict.as_str());
            assert_eq!(verdict.is_clean(), verdict == Verdict::Clean);
        }
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.to_string());
            assert!(!reason.verdict().is_clean());
        }
        for verdict in [
            ReportVerdict::FirstBuild,
            ReportVerdict::Clean,
            ReportVerdict::Stopped,
        ] {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.to_string());
        }
    }
}

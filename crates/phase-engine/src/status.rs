//! The status of a step, as a function of what was stored; and the statuses of a run.

use std::fmt;

/// What the ledger says of a step within one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepStatus {
    /// This run has not come to it.
    Pending,
    /// Its apply was begun. With no end stored it was cut.
    Started,
    /// Its apply ended well.
    Succeeded,
    /// Its apply failed.
    Failed,
    /// Its apply was stopped by a signal and came to an end.
    Interrupted,
    /// Its verify passed.
    Verified,
    /// Its verify failed after its apply had ended well.
    VerifyFailed,
    /// Its teardown was begun.
    TearingDown,
    /// It is proven gone.
    TornDown,
    /// Its teardown failed; it may be run again.
    TeardownFailed,
    /// It was given up without a destroy; its addresses are recorded.
    Forgotten,
}

/// What can be stored of a step, before or after an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepEvent {
    /// The apply begins.
    Started,
    /// The apply ended well.
    Succeeded,
    /// The apply failed.
    Failed,
    /// The apply was stopped by a signal.
    Interrupted,
    /// The verify passed.
    Verified,
    /// The verify failed.
    VerifyFailed,
    /// The teardown begins.
    TeardownStarted,
    /// The step is proven gone.
    TornDown,
    /// The teardown failed.
    TeardownFailed,
    /// The step is given up without a destroy.
    Forgotten,
}

/// An event that can't follow the status that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a step that is `{status}` cannot become `{event}`")]
pub struct IllegalEvent {
    /// The status that is stored.
    pub status: StepStatus,
    /// The event that was to be stored.
    pub event: StepEvent,
}

impl StepStatus {
    /// Every status.
    pub const ALL: [Self; 11] = [
        Self::Pending,
        Self::Started,
        Self::Succeeded,
        Self::Failed,
        Self::Interrupted,
        Self::Verified,
        Self::VerifyFailed,
        Self::TearingDown,
        Self::TornDown,
        Self::TeardownFailed,
        Self::Forgotten,
    ];

    /// Gives the status that follows when `event` is stored. Any pair that is not here is an error.
    pub fn after(self, event: StepEvent) -> Result<Self, IllegalEvent> {
        use StepEvent as E;
        use StepStatus as S;
        Ok(match (self, event) {
            // Resume starts a step again that was cut, that failed, or whose definitions changed;
            // `repair` one of a verified phase.
            (
                S::Pending
                | S::Started
                | S::Succeeded
                | S::Failed
                | S::Interrupted
                | S::Verified
                | S::VerifyFailed,
                E::Started,
            ) => S::Started,
            (S::Started, E::Succeeded) => S::Succeeded,
            (S::Started, E::Failed) => S::Failed,
            (S::Started, E::Interrupted) => S::Interrupted,
            // A verify may be repeated, with whatever result, as long as the apply ended well.
            (S::Succeeded | S::Verified | S::VerifyFailed, E::Verified) => S::Verified,
            (S::Succeeded | S::Verified | S::VerifyFailed, E::VerifyFailed) => S::VerifyFailed,
            // Always allowed, always safe to repeat.
            (_, E::TeardownStarted) => S::TearingDown,
            (S::TearingDown, E::TornDown) => S::TornDown,
            (S::TearingDown, E::TeardownFailed) => S::TeardownFailed,
            // By `down --forget`, or as a deferred step whose container is gone.
            (S::TearingDown | S::TeardownFailed, E::Forgotten) => S::Forgotten,
            (status, event) => return Err(IllegalEvent { status, event }),
        })
    }

    /// Says whether the apply ended well, so that the same definitions need no second one.
    pub const fn ended_well(self) -> bool {
        matches!(self, Self::Succeeded | Self::Verified)
    }

    /// Gives the word of the record.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Started => "started",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Verified => "verified",
            Self::VerifyFailed => "verify-failed",
            Self::TearingDown => "tearing-down",
            Self::TornDown => "torn-down",
            Self::TeardownFailed => "teardown-failed",
            Self::Forgotten => "forgotten",
        }
    }
}

impl StepEvent {
    /// Every event.
    pub const ALL: [Self; 10] = [
        Self::Started,
        Self::Succeeded,
        Self::Failed,
        Self::Interrupted,
        Self::Verified,
        Self::VerifyFailed,
        Self::TeardownStarted,
        Self::TornDown,
        Self::TeardownFailed,
        Self::Forgotten,
    ];

    /// Gives the status that this event leads to, wherever it is legal.
    pub const fn leads_to(self) -> StepStatus {
        match self {
            Self::Started => StepStatus::Started,
            Self::Succeeded => StepStatus::Succeeded,
            Self::Failed => StepStatus::Failed,
            Self::Interrupted => StepStatus::Interrupted,
            Self::Verified => StepStatus::Verified,
            Self::VerifyFailed => StepStatus::VerifyFailed,
            Self::TeardownStarted => StepStatus::TearingDown,
            Self::TornDown => StepStatus::TornDown,
            Self::TeardownFailed => StepStatus::TeardownFailed,
            Self::Forgotten => StepStatus::Forgotten,
        }
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl fmt::Display for StepEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.leads_to().word())
    }
}

/// What the record says of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// A call of it is at work, or was cut.
    Running,
    /// A call ended at a checkpoint or at `--through`.
    Paused,
    /// An apply, a verify or a re-verify failed.
    Failed,
    /// A call was ended by a signal.
    Interrupted,
    /// Every phase that exists is verified.
    Finished,
    /// Everything that stood is proven gone.
    TornDown,
    /// A teardown did not come to its end.
    TeardownFailed,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Paused,
        Self::Failed,
        Self::Interrupted,
        Self::Finished,
        Self::TornDown,
        Self::TeardownFailed,
    ];

    /// Says whether the run came to one of its two ends.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Finished | Self::TornDown)
    }

    /// Gives the word of the record.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Finished => "finished",
            Self::TornDown => "torn-down",
            Self::TeardownFailed => "teardown-failed",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table, a row for each status: the events that may follow it.
    fn legal(status: StepStatus) -> Vec<StepEvent> {
        use StepEvent as E;
        use StepStatus as S;
        let mut events = match status {
            S::Pending | S::Failed | S::Interrupted => vec![E::Started],
            S::Started => vec![E::Started, E::Succeeded, E::Failed, E::Interrupted],
            S::Succeeded | S::Verified | S::VerifyFailed => {
                vec![E::Started, E::Verified, E::VerifyFailed]
            }
            S::TearingDown => vec![E::TornDown, E::TeardownFailed, E::Forgotten],
            S::TeardownFailed => vec![E::Forgotten],
            S::TornDown | S::Forgotten => vec![],
        };
        events.push(E::TeardownStarted);
        events
    }

    #[test]
    fn every_pair_of_status_and_event_is_decided() {
        for status in StepStatus::ALL {
            for event in StepEvent::ALL {
                let after = status.after(event);
                if legal(status).contains(&event) {
                    assert_eq!(after, Ok(event.leads_to()), "{status} {event}");
                } else {
                    assert_eq!(
                        after,
                        Err(IllegalEvent { status, event }),
                        "{status} {event}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_illegal_event_names_both() {
        assert_eq!(
            StepStatus::Pending
                .after(StepEvent::Succeeded)
                .unwrap_err()
                .to_string(),
            "a step that is `pending` cannot become `succeeded`"
        );
    }

    #[test]
    fn only_a_step_that_ended_well_is_left_alone() {
        let well: Vec<_> = StepStatus::ALL
            .into_iter()
            .filter(|s| s.ended_well())
            .collect();
        assert_eq!(well, [StepStatus::Succeeded, StepStatus::Verified]);
    }

    #[test]
    fn words_are_unique_and_in_kebab_case() {
        let words: std::collections::BTreeSet<_> =
            StepStatus::ALL.into_iter().map(|s| s.to_string()).collect();
        assert_eq!(words.len(), StepStatus::ALL.len());
        let run: Vec<_> = RunStatus::ALL.into_iter().map(|s| s.to_string()).collect();
        assert_eq!(
            run.join(" "),
            "running paused failed interrupted finished torn-down teardown-failed"
        );
        let ended: Vec<_> = RunStatus::ALL
            .into_iter()
            .filter(|s| s.has_ended())
            .collect();
        assert_eq!(ended, [RunStatus::Finished, RunStatus::TornDown]);
    }
}

//! Whether a command may go on with the run that the target has; pure.

use crate::{ExitCode, Failure, History, RunStatus, TargetName};

/// A command that goes on with a run or begins one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `up`.
    Up,
    /// `up --resume`.
    Resume,
    /// `down`.
    Down,
}

/// The state of the target's current run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunState {
    /// Its status; nothing where the target never had a run.
    pub status: Option<RunStatus>,
    /// A teardown of it has begun.
    pub teardown_begun: bool,
    /// Something stands, a state is there, or a phase is not proven gone.
    pub anything_left: bool,
}

impl RunState {
    /// Reads it off a history; `states` says whether the store holds any state at all.
    pub fn of(history: &History, states: bool) -> Self {
        Self {
            status: history.status,
            teardown_begun: history.teardown_begun,
            anything_left: states || !history.standing.is_empty() || !history.unproven.is_empty(),
        }
    }

    /// Says whether the run is neither finished nor torn down.
    pub fn is_unfinished(&self) -> bool {
        self.status.is_some_and(|status| !status.has_ended()) || self.is_tearing_down()
    }

    /// Says whether only `down` may go on.
    pub fn is_tearing_down(&self) -> bool {
        self.teardown_begun
            && self
                .status
                .is_some_and(|status| status != RunStatus::TornDown)
    }
}

/// What the command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Begins a new run.
    New,
    /// Goes on with the unfinished run.
    Resume,
    /// Tears down.
    TearDown,
    /// There is nothing to tear down: says so, exit 0.
    NothingLeft,
}

/// Why the command may not go on; each is [`ExitCode::Stopped`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A plain `up` while a run is unfinished.
    #[error("the run is unfinished: it is `{status}`")]
    Unfinished {
        /// The status of the run.
        status: RunStatus,
    },
    /// `up --resume` with no unfinished run.
    #[error("no run is unfinished, so there is nothing to resume")]
    NothingToResume,
    /// `up` of either kind while the target is being torn down.
    #[error("a teardown has begun, and only `down` goes on with it")]
    TeardownBegun,
}

impl Refusal {
    /// Gives the commands that go on from here.
    pub fn ways(self, target: &TargetName) -> Vec<String> {
        let resume = format!("rebuild up --target {target} --resume");
        let down = format!("rebuild down --target {target}");
        match self {
            Self::Unfinished { .. } => vec![resume, down],
            Self::NothingToResume => vec![format!("rebuild up --target {target}")],
            Self::TeardownBegun => vec![down],
        }
    }

    /// Gives it with its ways on, as a failure to show.
    pub fn failure(self, target: &TargetName) -> Failure {
        let ways = self.ways(target).into_iter().map(|way| format!("`{way}`"));
        let ways = ways.collect::<Vec<_>>().join(" or ");
        Failure::new(ExitCode::Stopped, self.to_string()).hint(ways)
    }
}

/// Decides what a command does with the target's current run, or why it may not.
pub fn admission(command: Command, run: RunState) -> Result<Mode, Refusal> {
    match (command, run.status) {
        (Command::Up | Command::Resume, _) if run.is_tearing_down() => Err(Refusal::TeardownBegun),
        (Command::Up, Some(status)) if !status.has_ended() => Err(Refusal::Unfinished { status }),
        (Command::Up, _) => Ok(Mode::New),
        (Command::Resume, Some(status)) if !status.has_ended() => Ok(Mode::Resume),
        (Command::Resume, _) => Err(Refusal::NothingToResume),
        (Command::Down, None | Some(RunStatus::TornDown)) if !run.anything_left => {
            Ok(Mode::NothingLeft)
        }
        (Command::Down, _) => Ok(Mode::TearDown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: Option<RunStatus>, teardown_begun: bool, anything_left: bool) -> RunState {
        RunState {
            status,
            teardown_begun,
            anything_left,
        }
    }

    #[test]
    fn every_command_on_every_run() {
        use RunStatus as S;
        let unfinished = |status| Err(Refusal::Unfinished { status });
        for status in S::ALL {
            let state = run(Some(status), false, true);
            let (up, resume) = match status {
                S::Finished | S::TornDown => (Ok(Mode::New), Err(Refusal::NothingToResume)),
                _ => (unfinished(status), Ok(Mode::Resume)),
            };
            assert_eq!(admission(Command::Up, state), up, "{status}");
            assert_eq!(admission(Command::Resume, state), resume, "{status}");
            assert_eq!(
                admission(Command::Down, state),
                Ok(Mode::TearDown),
                "{status}"
            );
        }
    }

    #[test]
    fn once_a_teardown_has_begun_only_down_goes_on() {
        for status in RunStatus::ALL {
            let state = run(Some(status), true, true);
            let expected_up = match status {
                RunStatus::TornDown => Ok(Mode::New),
                _ => Err(Refusal::TeardownBegun),
            };
            assert_eq!(admission(Command::Up, state), expected_up, "{status}");
            assert!(admission(Command::Resume, state).is_err(), "{status}");
            assert_eq!(
                admission(Command::Down, state),
                Ok(Mode::TearDown),
                "{status}"
            );
            assert_eq!(state.is_unfinished(), status != RunStatus::TornDown);
        }
    }

    #[test]
    fn a_target_that_never_had_a_run() {
        let none = run(None, false, false);
        assert_eq!(admission(Command::Up, none), Ok(Mode::New));
        assert_eq!(
            admission(Command::Resume, none),
            Err(Refusal::NothingToResume)
        );
        assert_eq!(admission(Command::Down, none), Ok(Mode::NothingLeft));
        // States that no record knows.
        assert_eq!(
            admission(Command::Down, run(None, false, true)),
            Ok(Mode::TearDown)
        );
    }

    #[test]
    fn a_torn_down_target_has_nothing_left_unless_it_has() {
        let gone = run(Some(RunStatus::TornDown), true, false);
        assert_eq!(admission(Command::Down, gone), Ok(Mode::NothingLeft));
        // Everything is gone, but the end was not stored: the run still has to be ended.
        let cut = run(Some(RunStatus::Running), true, false);
        assert_eq!(admission(Command::Down, cut), Ok(Mode::TearDown));
    }

    #[test]
    fn a_refusal_names_the_ways_on() {
        let target = TargetName::new("drill").unwrap();
        let failure = Refusal::Unfinished {
            status: RunStatus::Paused,
        }
        .failure(&target);
        assert_eq!(failure.exit, ExitCode::Stopped);
        assert_eq!(failure.to_string(), "the run is unfinished: it is `paused`");
        assert_eq!(
            failure.hint.as_deref(),
            Some("`rebuild up --target drill --resume` or `rebuild down --target drill`")
        );
        assert_eq!(
            Refusal::NothingToResume.ways(&target),
            ["rebuild up --target drill"]
        );
        assert_eq!(
            Refusal::TeardownBegun.ways(&target),
            ["rebuild down --target drill"]
        );
    }

    #[test]
    fn the_state_of_a_run_is_read_off_its_history() {
        let mut history = History::default();
        assert!(!RunState::of(&history, false).anything_left);
        assert!(RunState::of(&history, true).anything_left);
        history.unproven.push("1".parse().unwrap());
        assert!(RunState::of(&history, false).anything_left);
        assert!(!RunState::of(&history, false).is_unfinished());
    }
}

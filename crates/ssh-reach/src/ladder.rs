//! When a host counts as reached: a decision over what the tries saw.

use std::fmt;
use std::time::Duration;

/// What a try has to get past, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Something listens.
    Port,
    /// It is an SSH server.
    Banner,
    /// It shows the key that it must have.
    HostKey,
    /// It lets us in.
    Login,
    /// Its first boot is over: nothing holds the package lock any more.
    Boot,
    /// It has a Python for Ansible.
    Python,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port => "port",
            Self::Banner => "SSH banner",
            Self::HostKey => "host key",
            Self::Login => "login",
            Self::Boot => "boot finished",
            Self::Python => "Python",
        })
    }
}

/// How far one try came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// To the top.
    Top(T),
    /// Not past this rung, which may still come.
    NotYet {
        /// The rung.
        rung: Rung,
        /// What was answered there.
        answer: String,
    },
    /// Not past this rung, and no waiting will help.
    Never {
        /// The rung.
        rung: Rung,
        /// What was answered there.
        answer: String,
    },
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most for a host.
    pub deadline: Duration,
    /// The least between the two tries that must both come to the top.
    pub settle: Duration,
    /// Between one try that failed and the next.
    pub pause: Duration,
}

impl Default for Limits {
    /// Ten minutes; two successes three seconds apart; a try each two seconds.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(600),
            settle: Duration::from_secs(3),
            pause: Duration::from_secs(2),
        }
    }
}

/// What to do after a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<T> {
    /// Try again after this time.
    Again(Duration),
    /// The host is reached, as the last try had it.
    Reached(T),
    /// The host is given up.
    GiveUp {
        /// The rung that the last try did not get past; `None` where it did, but not twice in time.
        rung: Option<Rung>,
        /// What was answered there.
        answer: String,
        /// Whether waiting longer would not have helped.
        is_final: bool,
    },
}

/// The tries of one host so far.
#[derive(Debug, Clone)]
pub struct Ladder {
    limits: Limits,
    /// When the first of the successes with no failure between them began.
    first_top: Option<Duration>,
}

impl Ladder {
    /// No try yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            first_top: None,
        }
    }

    /// Decides after a try that ended at `now`, counted from the beginning of the wait.
    pub fn after<T>(&mut self, now: Duration, outcome: Outcome<T>) -> Decision<T> {
        let left = self.limits.deadline.saturating_sub(now);
        let (rung, answer) = match outcome {
            Outcome::Top(reached) => {
                let first = *self.first_top.get_or_insert(now);
                let is_first = first == now && !self.limits.settle.is_zero();
                let apart = now.saturating_sub(first);
                if !is_first && apart >= self.limits.settle {
                    return Decision::Reached(reached);
                }
                if !left.is_zero() {
                    return Decision::Again((self.limits.settle - apart).min(left));
                }
                (
                    None,
                    "it answered once, and the time was over before it did again".to_owned(),
                )
            }
            Outcome::Never { rung, answer } => {
                return Decision::GiveUp {
                    rung: Some(rung),
                    answer,
                    is_final: true,
                };
            }
            Outcome::NotYet { rung, answer } => {
                // A server that came and went again has not settled: it counts from the start.
                self.first_top = None;
                if !left.is_zero() {
                    return Decision::Again(self.limits.pause.min(left));
                }
                (Some(rung), answer)
            }
        };
        Decision::GiveUp {
            rung,
            answer,
            is_final: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const LIMITS: Limits = Limits {
        deadline: s(60),
        settle: s(3),
        pause: s(2),
    };

    fn not_yet(rung: Rung) -> Outcome<u32> {
        Outcome::NotYet {
            rung,
            answer: format!("no {rung}"),
        }
    }

    /// Runs a host whose state at a second is what `at` says; a try takes no time.
    fn run(at: impl Fn(u64) -> Outcome<u32>) -> (u64, Decision<u32>) {
        let mut ladder = Ladder::new(LIMITS);
        let mut now = Duration::ZERO;
        loop {
            match ladder.after(now, at(now.as_secs())) {
                Decision::Again(pause) => now += pause,
                decision => return (now.as_secs(), decision),
            }
        }
    }

    #[test]
    fn a_host_that_is_there_is_reached_after_two_successes() {
        assert_eq!(run(|_| Outcome::Top(1)), (3, Decision::Reached(1)));
    }

    /// Case H11: the server answers, goes away for five seconds, and comes back.
    #[test]
    fn one_success_before_a_restart_does_not_count() {
        let host = |second| match second {
            0..=2 | 8.. => Outcome::Top(1),
            _ => not_yet(Rung::Port),
        };
        let (ended, decision) = run(host);
        assert_eq!(decision, Decision::Reached(1));
        assert!(ended >= 8 + 3, "two successes after it came back: {ended}");
    }

    /// Case H9: a key that is refused at first is waited for, and the rung is named at the end.
    #[test]
    fn what_does_not_come_is_given_up_at_the_deadline_with_rung_and_answer() {
        let (ended, decision) = run(|_| not_yet(Rung::Login));
        assert_eq!(ended, 60);
        let Decision::GiveUp {
            rung,
            answer,
            is_final,
        } = decision
        else {
            panic!("{decision:?}")
        };
        assert_eq!(
            (rung, answer.as_str(), is_final),
            (Some(Rung::Login), "no login", false)
        );
    }

    /// Case H12: a wrong key ends the wait at once. Case H10: so does a boot that failed.
    #[test]
    fn what_can_not_come_ends_the_wait_at_once() {
        for rung in [Rung::HostKey, Rung::Boot] {
            let host = |second| {
                if second < 4 {
                    not_yet(Rung::Port)
                } else {
                    Outcome::Never {
                        rung,
                        answer: "wrong".to_owned(),
                    }
                }
            };
            let (ended, decision) = run(host);
            assert_eq!(ended, 4);
            assert!(
                matches!(decision, Decision::GiveUp { is_final: true, .. }),
                "{decision:?}"
            );
        }
    }

    #[test]
    fn a_host_that_answers_only_at_the_very_end_is_not_reached() {
        let (_, decision) = run(|second| {
            if second < 60 {
                not_yet(Rung::Boot)
            } else {
                Outcome::Top(1)
            }
        });
        assert!(
            matches!(decision, Decision::GiveUp { rung: None, .. }),
            "{decision:?}"
        );
    }

    proptest! {
        /// Whatever a host does, the wait ends by its deadline, and nothing is reached on one success.
        #[test]
        fn every_wait_ends(states in prop::collection::vec(0..4u8, 61)) {
            let at = |second: u64| match states[usize::try_from(second.min(60)).unwrap()] {
                0 => not_yet(Rung::Port),
                1 => not_yet(Rung::Boot),
                _ => Outcome::Top(1),
            };
            let (ended, decision) = run(at);
            prop_assert!(ended <= 60);
            if decision == Decision::Reached(1) {
                prop_assert!(ended >= 3);
                prop_assert!(matches!(at(ended), Outcome::Top(_)));
                prop_assert!(matches!(at(ended - 3), Outcome::Top(_)) || matches!(at(ended - 1), Outcome::Top(_)));
            }
        }
    }
}

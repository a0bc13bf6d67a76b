//! Asking again until it is right or the time is over.

use std::time::{Duration, Instant};

use process::Spawner;

use crate::answer::{ask, failure};
use crate::deadline::Deadline;
use crate::failure::{Came, ProbeFailure};
use crate::probe::Probe;

/// The longest that one connection is waited for, so that one lost packet does not use up `within`.
const ONE_ANSWER: Duration = Duration::from_secs(10);
/// The least that the first attempt gets, however short `within` is.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// A probe that passed.
#[derive(Debug, Clone, PartialEq)]
pub struct Passed {
    /// How often it was asked.
    pub attempts: u32,
    /// How long it took from the first question on.
    pub seconds: f64,
}

/// A probe that never passed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", words(*attempts, *seconds))]
pub struct Failed {
    /// How often it was asked.
    pub attempts: u32,
    /// How long it was tried for.
    pub seconds: f64,
    /// What came last.
    #[source]
    pub last: ProbeFailure,
}

fn words(attempts: u32, seconds: f64) -> String {
    match attempts {
        0 => "was not asked".to_owned(),
        1 => format!("did not pass ({seconds:.1} s)"),
        n => format!("did not pass in {n} attempts over {seconds:.1} s"),
    }
}

/// Asks every `every` until it passes, `within` is over by the monotonic clock, or `stop` says so.
///
/// It is asked once at least, and the first attempt gets a second at least. A connection is waited
/// for 10 s at most, then asked anew; a program gets all that is left. A probe that can't be asked at
/// all (its address can't be read) is not asked again.
pub fn await_ok(
    probe: &Probe,
    within: Duration,
    every: Duration,
    stop: &dyn Fn() -> bool,
    spawner: &dyn Spawner,
) -> Result<Passed, Failed> {
    let started = Instant::now();
    let tried = repeat(within, every, stop, |left| {
        let timeout = match probe {
            Probe::Exec(_) => left,
            _ => left.min(ONE_ANSWER),
        };
        match ask(probe, timeout, stop, spawner) {
            Ok(()) => Turn::Done(()),
            Err(came) => turn_of(came, left, |came| came),
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    match tried {
        Tried {
            attempts,
            end: Ok(()),
        } => Ok(Passed { attempts, seconds }),
        Tried {
            attempts,
            end: Err(last),
        } => Err(Failed {
            attempts,
            seconds,
            last: failure(probe, last.unwrap_or(Came::Stopped)),
        }),
    }
}

/// What one attempt says.
pub(crate) enum Turn<T, B> {
    /// It is right.
    Done(T),
    /// It is not right yet.
    Again(B),
    /// There was no time left to hear the answer: what came before says more, if anything did.
    Cut(B),
    /// It will never be right.
    Never(B),
}

/// The turn that an answer makes. One that was late because little time was left says less than what
/// came before.
pub(crate) fn turn_of<T, B>(
    came: Came,
    left: Duration,
    wrong: impl FnOnce(Came) -> B,
) -> Turn<T, B> {
    match came {
        Came::TimedOut { .. } | Came::Hung { .. } if left < ONE_ANSWER => Turn::Cut(wrong(came)),
        came if came.may_pass_later() => Turn::Again(wrong(came)),
        came => Turn::Never(wrong(came)),
    }
}

/// How a row of attempts ended: right, or with what came last (nothing: it was never asked).
pub(crate) struct Tried<T, B> {
    pub(crate) attempts: u32,
    pub(crate) end: Result<T, Option<B>>,
}

/// Takes turns until one ends it, the time is over or `stop` says so; the only loop of the crate.
pub(crate) fn repeat<T, B>(
    within: Duration,
    every: Duration,
    stop: &dyn Fn() -> bool,
    mut turn: impl FnMut(Duration) -> Turn<T, B>,
) -> Tried<T, B> {
    let deadline = Deadline::after(within);
    let mut attempts = 0;
    let mut last = None;
    loop {
        if stop() {
            return Tried {
                attempts,
                end: Err(last),
            };
        }
        let left = match (deadline.left(), attempts) {
            (left, 0) => left.unwrap_or_default().max(FIRST_ANSWER),
            (Some(left), _) => left,
            (None, _) => {
                return Tried {
                    attempts,
                    end: Err(last),
                };
            }
        };
        attempts += 1;
        match turn(left) {
            Turn::Done(right) => {
                return Tried {
                    attempts,
                    end: Ok(right),
                };
            }
            Turn::Never(wrong) => {
                return Tried {
                    attempts,
                    end: Err(Some(wrong)),
                };
            }
            Turn::Again(wrong) => last = Some(wrong),
            Turn::Cut(wrong) => last = last.or(Some(wrong)),
        }
        pause(every, deadline, stop);
    }
}

/// Waits for the next turn: `every`, or less where the time is over or the call stops before it.
fn pause(every: Duration, deadline: Deadline, stop: &dyn Fn() -> bool) {
    const LOOK: Duration = Duration::from_millis(50);
    let until = Instant::now() + every.min(deadline.left().unwrap_or_default());
    let _ = process::wait::until(until, LOOK.min(every), || stop().then_some(()));
}

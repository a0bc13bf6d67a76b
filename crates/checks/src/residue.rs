//! What is left behind after a teardown: a program that must have nothing to print.

use std::time::{Duration, Instant};

use process::{Invocation, Spawner};

use crate::answer::failure;
use crate::deadline::Deadline;
use crate::exec;
use crate::failure::{Came, ProbeFailure};
use crate::probe::Probe;
use crate::waiting::{Turn, repeat, turn_of};

/// What a residue probe found.
#[derive(Debug, Clone, PartialEq)]
pub enum Residue {
    /// It printed nothing and ended with 0: nothing is left.
    Silent {
        /// How often it was asked.
        attempts: u32,
        /// How long it took from the first question on.
        seconds: f64,
    },
    /// It ended with 0 and printed: that is left.
    Left {
        /// The last lines, 20 at most.
        lines: Vec<String>,
        /// How many lines there were in all.
        n_lines: usize,
    },
    /// It could not be run, did not end, or ended with another code than 0: nothing is known.
    Failed(ProbeFailure),
}

impl Residue {
    /// Whether it is proven that nothing is left.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Silent { .. })
    }
}

/// Asks every `every` until nothing is printed and the exit code is 0, or `within` is over; what came
/// last is the answer. Standard error counts as printed; blank lines don't (several cloud clients end
/// an empty list with one).
pub fn residue(
    call: &Invocation,
    within: Duration,
    every: Duration,
    stop: &dyn Fn() -> bool,
    spawner: &dyn Spawner,
) -> Residue {
    let probe = Probe::Exec(call.clone());
    let started = Instant::now();
    let tried = repeat(within, every, stop, |left| {
        match exec::run(call, Deadline::after(left), stop, spawner) {
            Err(came) => turn_of(came, left, |came| Residue::Failed(failure(&probe, came))),
            Ok(ended) => match exec::failure_of(&ended) {
                Some(came) => Turn::Again(Residue::Failed(failure(&probe, came))),
                None if ended.n_printed == 0 => Turn::Done(()),
                None => Turn::Again(Residue::Left {
                    lines: ended.last_lines,
                    n_lines: ended.n_printed,
                }),
            },
        }
    });
    match tried.end {
        Ok(()) => Residue::Silent {
            attempts: tried.attempts,
            seconds: started.elapsed().as_secs_f64(),
        },
        Err(Some(last)) => last,
        Err(None) => Residue::Failed(failure(&probe, Came::Stopped)),
    }
}

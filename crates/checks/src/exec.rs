//! The exec probe: a program that only reads, killed with its whole group at the deadline.

use std::collections::VecDeque;
use std::time::Duration;

use process::{Exit, How, Invocation, Progress, Running, Spawner};

use crate::deadline::Deadline;
use crate::failure::{Came, chain, readable};

/// How many lines of output are kept for the message.
const KEPT_LINES: usize = 20;
/// How often the deadline and the stop request are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a program did that ended by itself.
pub(crate) struct Ended {
    /// How it ended.
    pub(crate) exit: Exit,
    /// Its last lines, standard output and standard error in the order in which they came.
    pub(crate) last_lines: Vec<String>,
    /// How many lines were not blank.
    pub(crate) n_printed: usize,
}

/// Asks once: 0 is the only right exit code.
pub(crate) fn ask(
    call: &Invocation,
    deadline: Deadline,
    stop: &dyn Fn() -> bool,
    spawner: &dyn Spawner,
) -> Result<(), Came> {
    let ended = run(call, deadline, stop, spawner)?;
    match failure_of(&ended) {
        None => Ok(()),
        Some(came) => Err(came),
    }
}

/// What the way it ended says against it.
pub(crate) fn failure_of(ended: &Ended) -> Option<Came> {
    match ended.exit {
        Exit::Code(0) => None,
        Exit::Code(code) => Some(Came::Exited {
            code,
            last_lines: ended.last_lines.clone(),
        }),
        Exit::Signal(signal) => Some(Came::Signalled {
            signal,
            last_lines: ended.last_lines.clone(),
        }),
    }
}

/// Runs it to its end or to the deadline.
pub(crate) fn run(
    call: &Invocation,
    deadline: Deadline,
    stop: &dyn Fn() -> bool,
    spawner: &dyn Spawner,
) -> Result<Ended, Came> {
    let mut running = spawner
        .start(call, &How::reader())
        .map_err(|error| Came::NotRun {
            reason: chain(&error),
        })?;
    let mut last_lines = VecDeque::new();
    let mut n_printed = 0;
    loop {
        let wait = deadline.left().unwrap_or_default().min(LOOK);
        match running.next(wait) {
            Ok(Progress::Line(line, _)) => {
                let line = readable(&line);
                if !line.is_empty() {
                    n_printed += 1;
                    if last_lines.len() == KEPT_LINES {
                        last_lines.pop_front();
                    }
                    last_lines.push_back(line);
                }
            }
            Ok(Progress::Ended(exit)) => {
                return Ok(Ended {
                    exit,
                    last_lines: last_lines.into(),
                    n_printed,
                });
            }
            Ok(Progress::Quiet) => {}
            Err(error) => {
                let reason = chain(&error);
                return Err(killed(running.as_ref()).unwrap_or(Came::NotRun { reason }));
            }
        }
        if deadline.left().is_none() {
            let hung = Came::Hung {
                after: deadline.allowed(),
                last_lines: last_lines.into(),
            };
            return Err(killed(running.as_ref()).unwrap_or(hung));
        }
        if stop() {
            return Err(killed(running.as_ref()).unwrap_or(Came::Stopped));
        }
    }
}

/// Ends the whole group; what went wrong with that, if anything did.
fn killed(running: &dyn Running) -> Option<Came> {
    running.kill_group().err().map(|error| Came::NotRun {
        reason: format!("it can't be killed: {}", chain(&error)),
    })
}

//! One question to a person at the terminal, answered by a line.
//!
//! The rule that everything here serves: only a line that was typed after the question counts, and whatever
//! can't be read means no. Ctrl-C, Ctrl-D, a terminal that goes away, a signal while the question stands:
//! each is "declined".

use std::os::fd::BorrowedFd;
use std::time::Duration;

use run::stop::{StopLevel, StopRequests};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios};
use zeroize::Zeroizing;

use crate::stream;

/// How often a standing question looks whether it was told to stop.
const LOOK: Duration = Duration::from_millis(100);
/// What Ctrl-C is while a question stands.
const CTRL_C: u8 = 0x03;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A line, without the white space around it.
    Line(String),
    /// Nothing that counts as an answer.
    Declined,
}

/// Whether somebody at this terminal can answer: the program is in its foreground.
///
/// A program in the background that reads from its terminal is stopped by the system, with the target locked.
pub(crate) fn is_in_foreground() -> bool {
    rustix::termios::tcgetpgrp(rustix::stdio::stdin())
        .is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Asks and waits for a line.
pub(crate) fn ask(question: &str, stop: &StopRequests) -> Reply {
    asked(question, stop, Echo::Shown)
}

/// Asks for a line that the terminal does not show. The white space around it is part of it.
///
/// A terminal takes no longer line than [`LONGEST_LINE`]; one that reaches it may be cut, and counts as declined.
pub(crate) fn ask_hidden(question: &str, stop: &StopRequests) -> Reply {
    asked(question, stop, Echo::Hidden)
}

/// The most bytes of a line that a terminal keeps, its end apart (`man 3 termios`, canonical mode).
pub(crate) const LONGEST_LINE: usize = 4095;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Echo {
    Shown,
    Hidden,
}

fn asked(question: &str, stop: &StopRequests, echo: Echo) -> Reply {
    let stdin = rustix::stdio::stdin();
    let Ok(_line_mode) = LineMode::enter(stdin, echo) else {
        return Reply::Declined;
    };
    // What was typed before the question was an answer to something else.
    if rustix::termios::tcflush(stdin, QueueSelector::IFlush).is_err() || !stream::err(question) {
        return Reply::Declined;
    }
    let reply = read_line(stdin, stop, echo);
    // The newline that was typed is not shown either.
    if reply == Reply::Declined || echo == Echo::Hidden {
        stream::err("\n");
    }
    reply
}

fn read_line(stdin: BorrowedFd<'_>, stop: &StopRequests, echo: Echo) -> Reply {
    let every = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.subsec_nanos().into(),
    };
    // Room for the longest, so that it never moves and leaves no copy of what may be a secret behind.
    let mut line = Zeroizing::new(Vec::with_capacity(2 * LONGEST_LINE));
    loop {
        if stop.level() != StopLevel::None {
            return Reply::Declined;
        }
        let mut fds = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&every)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return Reply::Declined,
        }
        let mut buffer = Zeroizing::new([0; 1024]);
        match rustix::io::read(stdin, buffer.as_mut_slice()) {
            Ok(0) => return Reply::Declined,
            Ok(n) => line.extend(buffer.get(..n).unwrap_or_default()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            Err(_) => return Reply::Declined,
        }
        if let Some(reply) = judge(&line, echo) {
            return reply;
        }
    }
}

/// Judges what was read so far; `None` while the line goes on.
fn judge(read: &[u8], echo: Echo) -> Option<Reply> {
    if read.contains(&CTRL_C) {
        return Some(Reply::Declined);
    }
    let line = read.strip_suffix(b"\n")?;
    Some(match std::str::from_utf8(line) {
        Ok(line) if echo == Echo::Hidden && line.len() < LONGEST_LINE => {
            Reply::Line(line.to_owned())
        }
        Ok(_) if echo == Echo::Hidden => Reply::Declined,
        Ok(line) => Reply::Line(line.trim().to_owned()),
        Err(_) => Reply::Declined,
    })
}

/// The terminal while a question stands: Ctrl-C ends the line instead of sending a signal.
struct LineMode<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> LineMode<'a> {
    fn enter(terminal: BorrowedFd<'a>, echo: Echo) -> rustix::io::Result<Self> {
        let before = rustix::termios::tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ISIG);
        modes
            .local_modes
            .insert(LocalModes::ICANON | LocalModes::ECHO);
        if echo == Echo::Hidden {
            modes.local_modes.remove(LocalModes::ECHO);
        }
        modes.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        rustix::termios::tcsetattr(terminal, OptionalActions::Now, &modes)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for LineMode<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = rustix::termios::tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;

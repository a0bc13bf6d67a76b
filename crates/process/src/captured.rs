//! Output through pipes, drained by a thread all the time that the program runs.

use std::io::{self, PipeReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};

use crate::child::Child;
use crate::group::KillError;
use crate::identity::Identity;
use crate::lines::Lines;
use crate::spawn::{Exit, Progress, ReadError, Running, Signal, Stream};

/// A line, or why there will be none.
pub(crate) type Piece = io::Result<(Vec<u8>, Stream)>;

/// A program whose output is captured.
pub(crate) struct Captured {
    pub(crate) child: Child,
    pub(crate) pieces: Receiver<Piece>,
}

impl Running for Captured {
    fn identity(&self) -> &Identity {
        self.child.identity()
    }

    fn next(&mut self, wait: Duration) -> Result<Progress, ReadError> {
        let pid = self.child.identity().pid;
        let deadline = Instant::now() + wait;
        match self.pieces.recv_timeout(wait) {
            Ok(Ok((line, stream))) => return Ok(Progress::Line(line, stream)),
            Ok(Err(source)) => return Err(ReadError::Output { pid, source }),
            Err(RecvTimeoutError::Timeout) => return Ok(Progress::Quiet),
            Err(RecvTimeoutError::Disconnected) => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match self.child.ended_within(left) {
            Ok(Some(exit)) => Ok(Progress::Ended(exit)),
            Ok(None) => Ok(Progress::Quiet),
            Err(source) => Err(ReadError::Exit { pid, source }),
        }
    }

    fn signal_group(&self, signal: Signal) -> io::Result<()> {
        self.child.signal_group(signal)
    }

    fn kill_group(&self) -> Result<(), KillError> {
        self.child.kill_group()
    }

    fn wait(&mut self) -> io::Result<Exit> {
        self.child.wait()
    }
}

/// One output of the program.
struct Source {
    pipe: PipeReader,
    stream: Stream,
    lines: Lines,
    is_open: bool,
}

impl Source {
    /// Reads once, `limit` bytes at most, and hands on the lines. Returns how many bytes came.
    fn read(&mut self, limit: usize, to: &Sender<Piece>) -> usize {
        let mut buffer = vec![0; limit.min(64 * 1024)];
        match self.pipe.read(&mut buffer) {
            Ok(0) => self.is_open = false,
            Ok(n) => {
                self.lines.push(&buffer[..n]);
                while let Some(line) = self.lines.take() {
                    // Nobody reads any more; we drain all the same, so that the child can write.
                    let _ = to.send(Ok((line, self.stream)));
                }
                return n;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let _ = to.send(Err(error));
                self.is_open = false;
            }
        }
        0
    }

    /// Reads what is there now, and no more: what a grandchild writes later is not waited for.
    fn read_what_is_there(&mut self, to: &Sender<Piece>) {
        let mut left = match ioctl_fionread(&self.pipe) {
            Ok(n) => usize::try_from(n).unwrap_or(usize::MAX),
            Err(error) => {
                let _ = to.send(Err(error.into()));
                0
            }
        };
        while left > 0 && self.is_open {
            left -= self.read(left, to).min(left);
        }
    }
}

/// Drains both outputs until both are closed or `notice` says that the program has ended.
pub(crate) fn drain(
    stdout: PipeReader,
    stderr: PipeReader,
    notice: &PipeReader,
    to: &Sender<Piece>,
) {
    let mut sources =
        [(stdout, Stream::Stdout), (stderr, Stream::Stderr)].map(|(pipe, stream)| Source {
            pipe,
            stream,
            lines: Lines::default(),
            is_open: true,
        });
    while sources.iter().any(|source| source.is_open) {
        let mut watched = vec![PollFd::new(notice, PollFlags::IN)];
        let open: Vec<usize> = (0..sources.len()).filter(|i| sources[*i].is_open).collect();
        for i in &open {
            watched.push(PollFd::new(&sources[*i].pipe, PollFlags::IN));
        }
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                let _ = to.send(Err(error.into()));
                break;
            }
        }
        let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(watched);
        if ready[0] {
            for source in sources.iter_mut().filter(|source| source.is_open) {
                source.read_what_is_there(to);
            }
            break;
        }
        for (i, is_ready) in open.into_iter().zip(&ready[1..]) {
            if *is_ready {
                sources[i].read(usize::MAX, to);
            }
        }
    }
    for source in &mut sources {
        if let Some(line) = source.lines.rest() {
            let _ = to.send(Ok((line, source.stream)));
        }
    }
}

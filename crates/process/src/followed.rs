//! Output to a file that we follow: our end is not the program's end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::child::Child;
use crate::group::KillError;
use crate::identity::Identity;
use crate::lines::Lines;
use crate::spawn::{Exit, Progress, ReadError, Running, Signal, Stream};

/// How long to wait before looking again: at first, and at most while nothing comes. The program's end ends a wait.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(80);
/// How much is read at once, in bytes.
const CHUNK: usize = 32 * 1024;

/// A program whose output file is followed.
pub(crate) struct Followed {
    child: Child,
    file: File,
    offset: u64,
    /// Set once the program has ended: what is written later is a grandchild's.
    end_of_output: Option<u64>,
    lines: Lines,
    buffer: Box<[u8]>,
    interval: Duration,
}

impl Followed {
    pub(crate) fn new(child: Child, file: File) -> Self {
        Self {
            child,
            file,
            offset: 0,
            end_of_output: None,
            lines: Lines::default(),
            buffer: vec![0; CHUNK].into_boxed_slice(),
            interval: SHORTEST,
        }
    }

    /// Reads once; tells whether anything came.
    fn read(&mut self) -> io::Result<bool> {
        let most = match self.end_of_output {
            Some(end) => usize::try_from(end.saturating_sub(self.offset)).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let most = most.min(CHUNK);
        let n = match self.file.read_at(&mut self.buffer[..most], self.offset) {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        self.lines.push(&self.buffer[..n]);
        self.offset += n as u64;
        Ok(n > 0)
    }
}

impl Running for Followed {
    fn identity(&self) -> &Identity {
        self.child.identity()
    }

    fn next(&mut self, wait: Duration) -> Result<Progress, ReadError> {
        let pid = self.child.identity().pid;
        let unreadable = |source| ReadError::Output { pid, source };
        let deadline = Instant::now() + wait;
        loop {
            if let Some(line) = self.lines.take() {
                return Ok(Progress::Line(line, Stream::Merged));
            }
            // Asked before reading: what it wrote before its end is then in the file.
            let exit = self
                .child
                .ended()
                .map_err(|source| ReadError::Exit { pid, source })?;
            if exit.is_some() && self.end_of_output.is_none() {
                self.end_of_output = Some(self.file.metadata().map_err(unreadable)?.len());
            }
            if self.read().map_err(unreadable)? {
                self.interval = SHORTEST;
                continue;
            }
            if let Some(exit) = exit {
                return Ok(match self.lines.rest() {
                    Some(line) => Progress::Line(line, Stream::Merged),
                    None => Progress::Ended(exit),
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Progress::Quiet);
            }
            self.child
                .ended_within(self.interval.min(left))
                .map_err(|source| ReadError::Exit { pid, source })?;
            self.interval = (self.interval * 2).min(LONGEST);
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

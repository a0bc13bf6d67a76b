//! Fakes for tests: a spawner that answers from a script, and one that answers nothing.
//!
//! A call without a script is an error; it never is "success, no output".

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::files::write_atomically;
use crate::group::KillError;
use crate::identity::Identity;
use crate::invocation::Invocation;
use crate::spawn::{
    Exit, How, Output, Progress, ReadError, Running, Signal, SpawnError, Spawner, Stream,
};

/// What a faked program writes, and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    lines: VecDeque<(Vec<u8>, Stream)>,
    exit: Exit,
    /// It does not end before this signal comes.
    hangs_until: Option<Signal>,
}

impl Script {
    /// A program that writes nothing and ends with this code.
    #[must_use]
    pub fn exits(code: i32) -> Self {
        Self {
            lines: VecDeque::new(),
            exit: Exit::Code(code),
            hangs_until: None,
        }
    }

    /// A program that writes nothing and is ended by a signal from elsewhere.
    #[must_use]
    pub fn dies_by(signal: i32) -> Self {
        Self {
            exit: Exit::Signal(signal),
            ..Self::exits(0)
        }
    }

    /// Adds lines to its stdout.
    #[must_use]
    pub fn stdout(mut self, text: impl AsRef<[u8]>) -> Self {
        self.add(text.as_ref(), Stream::Stdout);
        self
    }

    /// Adds lines to its stderr.
    #[must_use]
    pub fn stderr(mut self, text: impl AsRef<[u8]>) -> Self {
        self.add(text.as_ref(), Stream::Stderr);
        self
    }

    /// After its lines it hangs until this signal (or SIGKILL, which then decides its end) comes.
    #[must_use]
    pub fn hangs_until(mut self, signal: Signal) -> Self {
        self.hangs_until = Some(signal);
        self
    }

    fn add(&mut self, text: &[u8], stream: Stream) {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        self.lines.extend(
            text.split(|b| *b == b'\n')
                .map(|line| (line.to_vec(), stream)),
        );
    }
}

type Answer = Box<dyn Fn(&Invocation, &How) -> Option<Script> + Send + Sync>;

/// Answers every call from a closure, and remembers it.
pub struct FakeSpawner {
    answer: Answer,
    calls: Mutex<Vec<Invocation>>,
    signals: Arc<Mutex<Vec<Signal>>>,
}

impl FakeSpawner {
    /// Answers with what `answer` gives; `None` is an unscripted call, which is an error.
    pub fn new(answer: impl Fn(&Invocation) -> Option<Script> + Send + Sync + 'static) -> Self {
        Self::with_how(move |call, _| answer(call))
    }

    /// The same for tests that look at how a program is started, too.
    pub fn with_how(
        answer: impl Fn(&Invocation, &How) -> Option<Script> + Send + Sync + 'static,
    ) -> Self {
        Self {
            answer: Box::new(answer),
            calls: Mutex::default(),
            signals: Arc::default(),
        }
    }

    /// Every call so far, in order, the unscripted ones too.
    pub fn calls(&self) -> Vec<Invocation> {
        lock(&self.calls).clone()
    }

    /// Every signal that was sent to any of its programs, in order.
    pub fn signals(&self) -> Vec<Signal> {
        lock(&self.signals).clone()
    }
}

impl fmt::Debug for FakeSpawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSpawner")
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

impl Spawner for FakeSpawner {
    fn start(&self, call: &Invocation, how: &How) -> Result<Box<dyn Running>, SpawnError> {
        lock(&self.calls).push(call.clone());
        let unscripted = || unscripted(call);
        let script = (self.answer)(call, how).ok_or_else(unscripted)?;
        let identity = Identity::of_self().map_err(|source| SpawnError::Unidentified {
            program: call.program.clone(),
            source,
        })?;
        let mut script = script;
        if let Output::Followed { path } = &how.output {
            write_output(call, path, &mut script)?;
        }
        if let Some(marker) = &how.marker {
            identity
                .write_marker(marker)
                .map_err(|source| SpawnError::Unidentified {
                    program: call.program.clone(),
                    source,
                })?;
        }
        Ok(Box::new(FakeRunning {
            identity,
            script,
            killed: Mutex::default(),
            signals: Arc::clone(&self.signals),
        }))
    }
}

/// As with a real program, a followed output is in the file, and its streams are one.
fn write_output(
    call: &Invocation,
    path: &std::path::Path,
    script: &mut Script,
) -> Result<(), SpawnError> {
    let mut bytes = Vec::new();
    for (line, stream) in &mut script.lines {
        *stream = Stream::Merged;
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    let failed = |source| SpawnError::OutputFile {
        program: call.program.clone(),
        path: path.to_owned(),
        source,
    };
    if path.exists() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    write_atomically(path, &bytes, 0o600).map_err(|error| failed(io::Error::other(error)))
}

fn unscripted(call: &Invocation) -> SpawnError {
    SpawnError::Unscripted {
        program: call.program.clone(),
        args: call.args.clone(),
    }
}

/// Fails on every call: for code that must not start anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSpawn;

impl Spawner for NoSpawn {
    fn start(&self, call: &Invocation, _: &How) -> Result<Box<dyn Running>, SpawnError> {
        Err(unscripted(call))
    }
}

struct FakeRunning {
    identity: Identity,
    script: Script,
    killed: Mutex<Option<Exit>>,
    signals: Arc<Mutex<Vec<Signal>>>,
}

impl FakeRunning {
    /// How it ended, if it has.
    fn ended(&self) -> Option<Exit> {
        match (*lock(&self.killed), self.script.hangs_until) {
            (Some(exit), _) => Some(exit),
            (None, None) => Some(self.script.exit),
            (None, Some(_)) => None,
        }
    }
}

impl Running for FakeRunning {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn next(&mut self, wait: Duration) -> Result<Progress, ReadError> {
        if let Some((line, stream)) = self.script.lines.pop_front() {
            return Ok(Progress::Line(line, stream));
        }
        Ok(match self.ended() {
            Some(exit) => Progress::Ended(exit),
            None => {
                crate::wait::pause(wait.min(Duration::from_millis(10)));
                Progress::Quiet
            }
        })
    }

    fn signal_group(&self, signal: Signal) -> io::Result<()> {
        lock(&self.signals).push(signal);
        let mut killed = lock(&self.killed);
        if killed.is_none() && self.script.hangs_until.is_some() {
            if signal == Signal::Kill {
                *killed = Some(Exit::Signal(signal.number()));
            } else if self.script.hangs_until == Some(signal) {
                *killed = Some(self.script.exit);
            }
        }
        Ok(())
    }

    fn kill_group(&self) -> Result<(), KillError> {
        // It cannot fail.
        let _ = self.signal_group(Signal::Kill);
        Ok(())
    }

    fn wait(&mut self) -> io::Result<Exit> {
        self.ended()
            .ok_or_else(|| io::Error::other("the scripted program hangs"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collected::{CollectError, collect};

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn an_unscripted_call_is_an_error_and_is_remembered() {
        let spawner = FakeSpawner::new(|call| {
            (call.args == ["version"]).then(|| Script::exits(0).stdout("1.12\n"))
        });
        let known = Invocation::new("tofu", "/").arg("version");
        let unknown = Invocation::new("tofu", "/").arg("apply");
        let answer = collect(&spawner, &known, &How::reader(), LONG, &mut || false).unwrap();
        assert_eq!(
            (answer.stdout.as_slice(), answer.exit),
            (&b"1.12"[..], Exit::Code(0))
        );
        for refusing in [&spawner as &dyn Spawner, &NoSpawn] {
            let error = collect(refusing, &unknown, &How::reader(), LONG, &mut || false);
            let error = error.unwrap_err();
            assert!(matches!(
                error,
                CollectError::Spawn(SpawnError::Unscripted { .. })
            ));
        }
        assert_eq!(spawner.calls(), [known, unknown]);
    }

    #[test]
    fn a_script_that_hangs_ends_by_its_signal() {
        let spawner = FakeSpawner::new(|_| {
            Some(
                Script::exits(1)
                    .stdout("a\nb")
                    .hangs_until(Signal::Interrupt),
            )
        });
        let call = Invocation::new("tofu", "/");
        let mut running = spawner.start(&call, &How::reader()).unwrap();
        let line = |text: &str| Progress::Line(text.into(), Stream::Stdout);
        assert_eq!(running.next(LONG).unwrap(), line("a"));
        assert_eq!(running.next(LONG).unwrap(), line("b"));
        assert_eq!(running.next(Duration::ZERO).unwrap(), Progress::Quiet);
        running.signal_group(Signal::Terminate).unwrap();
        assert_eq!(running.next(Duration::ZERO).unwrap(), Progress::Quiet);
        running.signal_group(Signal::Interrupt).unwrap();
        assert_eq!(
            running.next(Duration::ZERO).unwrap(),
            Progress::Ended(Exit::Code(1))
        );
        assert_eq!(spawner.signals(), [Signal::Terminate, Signal::Interrupt]);
    }
}

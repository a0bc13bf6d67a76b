//! One program, run to its end under a deadline.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Terminal;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

/// What a program left: how it ended and what it said.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ended: Ended,
    /// Its standard output; at a terminal, everything.
    pub stdout: String,
    /// Its standard error; at a terminal, nothing.
    pub stderr: String,
}

impl Outcome {
    /// The exit code; a death by signal is no exit code.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self.ended {
            Ended::Code(code) => Some(code),
            Ended::Signal(_) => None,
        }
    }

    /// Fails the test, with everything the program said, unless it ended with this exit code.
    ///
    /// # Panics
    /// When it did not.
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(
            self.ended,
            Ended::Code(code),
            "unexpected end\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

/// A program to be run in a world.
#[derive(Clone, Debug)]
pub struct Command {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<OsString, OsString>,
    pub(crate) deadline: Duration,
    stdin: Vec<u8>,
    is_read: bool,
}

impl Command {
    pub(crate) fn new(program: PathBuf, cwd: PathBuf, env: BTreeMap<OsString, OsString>) -> Self {
        let deadline = Duration::from_secs(120);
        Self {
            program,
            args: Vec::new(),
            cwd,
            env,
            deadline,
            stdin: Vec::new(),
            is_read: true,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Runs another program with other arguments in the same world.
    #[must_use]
    pub fn instead(mut self, program: &str, args: &[&str]) -> Self {
        self.program = program.into();
        self.args = args.iter().map(OsString::from).collect();
        self
    }

    /// The program and its arguments as a shell takes them.
    ///
    /// # Panics
    /// When one of them is not UTF-8.
    #[must_use]
    pub fn shell_line(&self) -> String {
        let program = self.program.as_os_str();
        let words = std::iter::once(program).chain(self.args.iter().map(OsString::as_os_str));
        let quoted = words.map(|word| crate::fake::quote(word.to_str().expect("UTF-8")));
        quoted.collect::<Vec<_>>().join(" ")
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Takes a variable away.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.env.remove(std::ffi::OsStr::new(name));
        self
    }

    /// Starts it in another directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.cwd = dir.as_ref().to_owned();
        self
    }

    /// Runs a line of shell instead, with the same environment and working directory.
    #[must_use]
    pub fn into_shell(mut self, line: &str) -> Self {
        self.program = PathBuf::from("/bin/sh");
        self.args = vec!["-c".into(), line.into()];
        self
    }

    /// Gives it something to read; without this its standard input is empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Gives it a standard output that nobody reads any more, as `| head -1` does in the end.
    #[must_use]
    pub fn stdout_unread(mut self) -> Self {
        self.is_read = false;
        self
    }

    /// Kills its whole group and fails the test after this long; two minutes unless told otherwise.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it can't be started, or runs over the deadline.
    #[must_use]
    pub fn run(&self) -> Outcome {
        self.start().wait()
    }

    /// Starts it and comes back at once.
    ///
    /// # Panics
    /// When it can't be started.
    #[must_use]
    pub fn start(&self) -> Started {
        let mut child = self
            .to_std()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(if self.is_read {
                Stdio::piped()
            } else {
                unread()
            })
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start `{}`: {error}", self.program.display()));
        let mut stdin = child.stdin.take().expect("a piped stdin");
        let bytes = self.stdin.clone();
        // A program that does not read what it is given must not block the test.
        std::thread::spawn(move || stdin.write_all(&bytes));
        let stdout = child
            .stdout
            .take()
            .map_or_else(|| drain(std::io::empty()), drain);
        let (heard, hears) = mpsc::channel();
        let stderr = drain_and_tell(child.stderr.take().expect("a piped stderr"), heard);
        Started {
            child,
            stdout,
            stderr,
            heard: hears,
            fresh: Vec::new(),
            program: self.program.clone(),
            end: Instant::now() + self.deadline,
        }
    }

    /// Starts it at a terminal of its own.
    ///
    /// # Panics
    /// When there is no terminal to be had, or it can't be started.
    #[must_use]
    pub fn in_terminal(&self) -> Terminal {
        Terminal::start(self, None)
    }

    /// Starts it at a terminal of its own, with standard output going to a file instead.
    ///
    /// # Panics
    /// When there is no terminal to be had, or it can't be started.
    #[must_use]
    pub fn in_terminal_with_stdout(&self, file: &Path) -> Terminal {
        Terminal::start(self, Some(file))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests must not lean on the crate that they test, and no crate reads the environment for them"
    )]
    pub(crate) fn to_std(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command
            .args(&self.args)
            .current_dir(&self.cwd)
            .env_clear()
            .envs(&self.env);
        // Where coverage is measured, a program of ours says which of its lines ran.
        if let Some(profile) = std::env::var_os("LLVM_PROFILE_FILE") {
            command.env("LLVM_PROFILE_FILE", profile);
        }
        command
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Started {
    child: Child,
    stdout: JoinHandle<Vec<u8>>,
    stderr: JoinHandle<Vec<u8>>,
    heard: Receiver<Vec<u8>>,
    fresh: Vec<u8>,
    program: PathBuf,
    end: Instant,
}

impl Started {
    /// Its process id, which is also its group's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has written `wanted` to standard error after what was waited for before.
    ///
    /// # Panics
    /// When it ends, or the deadline comes, without having written it.
    pub fn expect_stderr(&mut self, wanted: &str) -> &mut Self {
        loop {
            let at = self
                .fresh
                .windows(wanted.len())
                .position(|window| window == wanted.as_bytes());
            if let Some(at) = at {
                self.fresh.drain(..at + wanted.len());
                return self;
            }
            let left = self.end.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok(bytes) => self.fresh.extend(bytes),
                Err(reason) => {
                    kill_group(&mut self.child);
                    panic!(
                        "`{}` did not write {wanted:?} ({reason}); since then it wrote:\n{}",
                        self.program.display(),
                        String::from_utf8_lossy(&self.fresh)
                    );
                }
            }
        }
    }

    /// Sends one signal to it alone.
    ///
    /// # Panics
    /// When it can't be sent.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(pid_of(&self.child), signal)
            .expect("a signal to a running child");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it runs over the deadline; its group is killed first.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        let ended = wait_until(&mut self.child, self.end);
        let late = ended.is_none();
        if late {
            kill_group(&mut self.child);
        }
        let stdout = text(self.stdout.join().expect("the reader of stdout"));
        let stderr = text(self.stderr.join().expect("the reader of stderr"));
        let program = self.program.display();
        assert!(
            !late,
            "`{program}` ran over its deadline\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        );
        Outcome {
            ended: ended.expect("checked above"),
            stdout,
            stderr,
        }
    }
}

/// Waits for a child until a point in time.
pub(crate) fn wait_until(child: &mut Child, end: Instant) -> Option<Ended> {
    // The channel that nobody sends on is a sleep with an end that needs no sleep.
    let (_keep, never) = mpsc::channel::<()>();
    loop {
        if let Some(status) = child.try_wait().expect("a child that can be waited for") {
            return Some(status.into());
        }
        if Instant::now() >= end {
            return None;
        }
        let _ = never.recv_timeout(Duration::from_millis(5));
    }
}

pub(crate) fn kill_group(child: &mut Child) {
    let _ = rustix::process::kill_process_group(pid_of(child), rustix::process::Signal::KILL);
    let _ = child.wait();
}

pub(crate) fn pid_of(child: &Child) -> rustix::process::Pid {
    i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a pid that fits")
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The writing end of a pipe whose reading end is closed.
fn unread() -> Stdio {
    let (_, writer) = std::io::pipe().expect("a pipe");
    writer.into()
}

fn drain(mut source: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = source.read_to_end(&mut bytes);
        bytes
    })
}

/// As [`drain`], each piece told on as it comes.
fn drain_and_tell(
    mut source: impl Read + Send + 'static,
    heard: Sender<Vec<u8>>,
) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match source.read(&mut buffer) {
                Ok(n @ 1..) => {
                    let piece = buffer.get(..n).unwrap_or_default();
                    bytes.extend_from_slice(piece);
                    let _ = heard.send(piece.to_vec());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => return bytes,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;

    #[test]
    fn a_program_sees_its_world_and_nothing_else() {
        let world = World::new();
        let outcome = world.command("/usr/bin/env").env("ONE", "1").run();
        outcome.expect_code(0);
        let mut names: Vec<_> = outcome
            .stdout
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name)
            // Passed on where coverage is measured.
            .filter(|name| *name != "LLVM_PROFILE_FILE")
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "HOME",
                "LANG",
                "ONE",
                "PATH",
                "TERM",
                "TMPDIR",
                "USER",
                "XDG_STATE_HOME"
            ]
        );
    }

    #[test]
    fn input_output_and_exit_code_come_through() {
        let world = World::new();
        let outcome = world
            .command("/bin/sh")
            .args(["-c", "cat; echo no >&2; exit 3"])
            .stdin("yes")
            .run();
        assert_eq!(
            (outcome.code(), &*outcome.stdout, &*outcome.stderr),
            (Some(3), "yes", "no\n")
        );
    }

    #[test]
    #[should_panic(expected = "ran over its deadline")]
    fn a_hanging_program_is_killed_and_named() {
        let world = World::new();
        let _ = world
            .command("/bin/sh")
            .args(["-c", "sleep 60 & sleep 60"])
            .deadline(Duration::from_millis(50))
            .run();
    }

    #[test]
    fn an_output_that_nobody_reads_breaks_a_program_that_minds() {
        let world = World::new();
        let outcome = world
            .command("/bin/sh")
            .args(["-c", "exec yes"])
            .stdout_unread()
            .run();
        assert_ne!(outcome.ended, Ended::Code(0));
        assert_eq!(outcome.stdout, "");
    }

    #[test]
    fn what_is_written_to_stderr_can_be_waited_for_in_order() {
        let world = World::new();
        let mut started = world
            .command("/bin/sh")
            .args(["-c", "echo one >&2; echo two >&2; exec sleep 60"])
            .start();
        started.expect_stderr("one").expect_stderr("two");
        started.signal(rustix::process::Signal::KILL);
        let outcome = started.wait();
        assert_eq!(outcome.stderr, "one\ntwo\n");
    }

    #[test]
    #[should_panic(expected = "did not write \"three\"")]
    fn what_is_not_written_fails_the_test() {
        let world = World::new();
        let mut started = world.command("/bin/echo").arg("x").start();
        started.expect_stderr("three");
    }

    #[test]
    fn a_death_by_signal_is_no_exit_code() {
        let world = World::new();
        let started = world.command("/bin/sleep").arg("60").start();
        started.signal(rustix::process::Signal::TERM);
        assert_eq!(started.wait().ended, Ended::Signal(15));
    }
}

//! A program at a terminal of its own: what it prints can be waited for, what it asks can be answered.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::pty::OpenptFlags;

use crate::command::{Command, Outcome, kill_group, text, wait_until};

/// A program that runs at a pseudo-terminal, which is its controlling terminal.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: Vec<u8>,
    passed: usize,
    program: PathBuf,
    end: Instant,
    closed: Arc<AtomicBool>,
}

impl Terminal {
    pub(crate) fn start(command: &Command, stdout: Option<&Path>) -> Self {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)
            .expect("a pseudo-terminal");
        // Otherwise the program holds our side too, and closing it hangs nothing up.
        rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)
            .expect("a descriptor of our own");
        rustix::pty::grantpt(&master).expect("a granted pseudo-terminal");
        rustix::pty::unlockpt(&master).expect("an unlocked pseudo-terminal");
        let name = rustix::pty::ptsname(&master, Vec::new()).expect("the terminal's name");
        let name = name.into_string().expect("a name in UTF-8");
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags_noctty()
            .open(&name)
            .expect("the program's side of the terminal");
        let size = rustix::termios::Winsize {
            ws_row: 40,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&slave, size).expect("a terminal with a size");
        let side = || Stdio::from(slave.try_clone().expect("a copy of the terminal"));
        let mut std = command.to_std();
        std.stdin(side()).stderr(side()).stdout(match stdout {
            Some(path) => Stdio::from(File::create(path).expect("a file for stdout")),
            None => side(),
        });
        own_session(&mut std);
        let child = std.spawn().unwrap_or_else(|error| {
            panic!("cannot start `{}`: {error}", command.program.display())
        });
        drop((std, slave));
        let master = File::from(master);
        let keyboard = master.try_clone().expect("a copy of our side");
        let closed = Arc::new(AtomicBool::new(false));
        Self {
            child,
            keyboard,
            screen: follow(master, Arc::clone(&closed)),
            closed,
            seen: Vec::new(),
            passed: 0,
            program: command.program.clone(),
            end: Instant::now() + command.deadline,
        }
    }

    /// Waits until the program has printed `wanted` after what was waited for before.
    ///
    /// # Panics
    /// When it ends, or the deadline comes, without having printed it.
    pub fn expect(&mut self, wanted: &str) -> &mut Self {
        loop {
            let fresh = self.seen.get(self.passed..).unwrap_or_default();
            if let Some(at) = fresh
                .windows(wanted.len())
                .position(|window| window == wanted.as_bytes())
            {
                self.passed += at + wanted.len();
                return self;
            }
            match self
                .screen
                .recv_timeout(self.end.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.seen.extend(bytes),
                Err(reason) => {
                    kill_group(&mut self.child);
                    let why = match reason {
                        RecvTimeoutError::Timeout => "in time",
                        RecvTimeoutError::Disconnected => "before its end",
                    };
                    panic!(
                        "`{}` did not print {wanted:?} {why}; it printed:\n{}",
                        self.program.display(),
                        String::from_utf8_lossy(&self.seen)
                    );
                }
            }
        }
    }

    /// Types something; the Enter key is `\n`, Ctrl-C `\x03`.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn send(&mut self, keys: &str) -> &mut Self {
        self.keyboard
            .write_all(keys.as_bytes())
            .expect("a terminal to type at");
        self
    }

    /// Sends one signal to the program alone.
    ///
    /// # Panics
    /// When it can't be sent.
    pub fn signal(&mut self, signal: rustix::process::Signal) -> &mut Self {
        rustix::process::kill_process(crate::command::pid_of(&self.child), signal)
            .expect("a signal to a running child");
        self
    }

    /// Closes the terminal, as a window that is closed or a connection that is lost does; the program lives on.
    ///
    /// # Panics
    /// When the terminal is still in use after some seconds.
    pub fn close(self) {
        let Self {
            keyboard,
            screen,
            closed,
            ..
        } = self;
        closed.store(true, Ordering::Relaxed);
        drop(keyboard);
        // Our last copy is closed when the reader has ended.
        loop {
            match screen.recv_timeout(Duration::from_secs(10)) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => panic!("the terminal does not close"),
            }
        }
    }

    /// Whether what is typed is shown and ended by Enter, as a shell wants to find its terminal.
    ///
    /// # Panics
    /// When the terminal is gone.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        use rustix::termios::LocalModes;
        let modes = rustix::termios::tcgetattr(&self.keyboard)
            .expect("a terminal with modes")
            .local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// Waits for the program's end; everything that it printed is in `stdout`.
    ///
    /// # Panics
    /// When it runs over the deadline; its group is killed first.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        let ended = wait_until(&mut self.child, self.end);
        if ended.is_none() {
            kill_group(&mut self.child);
        }
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_secs(2)) {
            self.seen.extend(bytes);
        }
        let stdout = text(std::mem::take(&mut self.seen));
        let program = self.program.display();
        let Some(ended) = ended else {
            panic!("`{program}` ran over its deadline; it printed:\n{stdout}")
        };
        Outcome {
            ended,
            stdout,
            stderr: String::new(),
        }
    }
}

/// Reads the screen until nobody has the other side open any more, or the terminal is closed.
fn follow(mut master: File, closed: Arc<AtomicBool>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let tick = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while !closed.load(Ordering::Relaxed) {
            let mut wanted = [PollFd::new(&master, PollFlags::IN)];
            match rustix::event::poll(&mut wanted, Some(&tick)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(_) => break,
            }
            // Linux answers EIO where macOS answers 0 once the other side is closed.
            let Ok(n @ 1..) = master.read(&mut buffer) else {
                break;
            };
            if sender
                .send(buffer.get(..n).unwrap_or_default().to_vec())
                .is_err()
            {
                break;
            }
        }
        // Whoever waits for the end of the messages knows that our side is closed then.
        drop(master);
        drop(sender);
    });
    receiver
}

#[expect(
    unsafe_code,
    reason = "a controlling terminal can only be taken between fork and exec"
)]
fn own_session(command: &mut std::process::Command) {
    // SAFETY: both are single system calls that allocate nothing and take no lock.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
}

trait NoCtty {
    fn custom_flags_noctty(&mut self) -> &mut Self;
}

impl NoCtty for OpenOptions {
    /// Keeps the test's own process from taking the terminal as its controlling one.
    fn custom_flags_noctty(&mut self) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        self.custom_flags(i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ended, World};

    #[test]
    fn a_question_at_a_terminal_is_answered() {
        let world = World::new();
        let script =
            "test -t 0 && test -t 2 && printf 'name? ' && read name && echo \"hello $name\"";
        let mut terminal = world.command("/bin/sh").args(["-c", script]).in_terminal();
        terminal.expect("name? ").send("ada\n").expect("hello ada");
        assert_eq!(terminal.wait().code(), Some(0));
    }

    #[test]
    fn ctrl_c_reaches_the_program_as_sigint() {
        let world = World::new();
        let mut terminal = world
            .command("/bin/sh")
            .args(["-c", "echo on; exec sleep 60"])
            .in_terminal();
        terminal.expect("on").send("\x03");
        assert_eq!(terminal.wait().ended, Ended::Signal(2));
    }

    #[test]
    fn a_closed_terminal_hangs_up_on_the_program() {
        let world = World::new();
        let ended = world.root().join("ended");
        let script = format!(
            "trap 'touch {}; exit' HUP; echo on; while :; do sleep 0.05; done",
            ended.display()
        );
        let mut terminal = world.command("/bin/sh").args(["-c", &script]).in_terminal();
        terminal.expect("on");
        terminal.close();
        let (_keep, never) = std::sync::mpsc::channel::<()>();
        for _ in 0..1000 {
            if ended.exists() {
                return;
            }
            let _ = never.recv_timeout(std::time::Duration::from_millis(10));
        }
        panic!("no SIGHUP came");
    }

    #[test]
    #[should_panic(expected = "did not print \"never\" before its end")]
    fn what_is_not_printed_fails_the_test() {
        let world = World::new();
        let _ = world
            .command("/bin/echo")
            .arg("x")
            .in_terminal()
            .expect("never");
    }
}

//! A child of ours: its end is noticed at once, and its pid stays its own until we let go.

use std::io;
use std::io::PipeWriter;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};

use crate::group;
use crate::identity::Identity;
use crate::spawn::{Ending, Exit, Signal};

/// How it ended, or the number of the error that hid it.
type End = Result<Exit, i32>;

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    end: Option<End>,
    /// Nobody holds the child any more: the thread that notices the end reaps it.
    let_go: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is half done under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that waits for a child, made before the child so that making it cannot fail later.
pub(crate) struct Waiter {
    child: SyncSender<(Pid, Option<PipeWriter>)>,
    shared: Arc<Shared>,
}

impl Waiter {
    pub(crate) fn new() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (child, given) = mpsc::sync_channel(1);
        let own = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("child-waiter".into())
            .stack_size(128 * 1024)
            .spawn(move || wait(&given, &own))?;
        Ok(Self { child, shared })
    }

    /// Begins to wait for a child. `notice` is closed when it has ended.
    pub(crate) fn watch(
        self,
        identity: Identity,
        pid: Pid,
        ending: Ending,
        notice: Option<PipeWriter>,
    ) -> Child {
        fault::child_began(identity.pid);
        // The thread is waiting for this and takes one.
        let _ = self.child.send((pid, notice));
        Child {
            identity,
            pid,
            ending,
            shared: self.shared,
        }
    }
}

fn wait(given: &Receiver<(Pid, Option<PipeWriter>)>, shared: &Shared) {
    let Ok((pid, notice)) = given.recv() else {
        return;
    };
    let end = loop {
        // NOWAIT leaves it a zombie: its pid cannot become another's while we may signal it.
        match waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        ) {
            Err(Errno::INTR) | Ok(None) => {}
            Err(error) => break Err(error.raw_os_error()),
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => break Ok(Exit::Code(code)),
                (None, Some(signal)) => break Ok(Exit::Signal(signal)),
                (None, None) => {}
            },
        }
    };
    let mut state = shared.lock();
    state.end = Some(end);
    if state.let_go {
        reap(pid);
    }
    drop(state);
    shared.changed.notify_all();
    drop(notice);
}

fn reap(pid: Pid) {
    // It is a zombie, or was reaped behind our back; neither can be mended.
    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
}

/// A child program, running or ended.
pub(crate) struct Child {
    identity: Identity,
    pid: Pid,
    ending: Ending,
    shared: Arc<Shared>,
}

impl Child {
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> io::Result<Option<Exit>> {
        self.shared.lock().end.map(known).transpose()
    }

    /// Waits for its end for `time` at most.
    pub(crate) fn ended_within(&self, time: Duration) -> io::Result<Option<Exit>> {
        let deadline = Instant::now() + time;
        let mut state = self.shared.lock();
        while state.end.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = match self.shared.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        state.end.map(known).transpose()
    }

    /// Waits for its end.
    pub(crate) fn wait(&self) -> io::Result<Exit> {
        loop {
            if let Some(exit) = self.ended_within(Duration::from_secs(3600))? {
                return Ok(exit);
            }
        }
    }

    pub(crate) fn signal_group(&self, signal: Signal) -> io::Result<()> {
        group::signal(self.pid, signal)
    }

    pub(crate) fn kill_group(&self) -> Result<(), group::KillError> {
        group::kill(self.pid)
    }
}

fn known(end: End) -> io::Result<Exit> {
    end.map_err(io::Error::from_raw_os_error)
}

impl Drop for Child {
    fn drop(&mut self) {
        fault::child_ended(self.identity.pid);
        if self.ending == Ending::WithUs {
            // Best effort: whoever needs proof calls `kill_group`.
            let _ = group::signal(self.pid, Signal::Kill);
        }
        let mut state = self.shared.lock();
        state.let_go = true;
        if state.end.is_some() {
            reap(self.pid);
        }
    }
}

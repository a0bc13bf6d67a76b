//! What the tests of this program share.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use process::{
    Ending, Exit, How, Identity, Invocation, Output, Progress, RealSpawner, Running, Spawner,
    Stream, wait,
};

/// The subcommand under which this program is a caller that a test kills.
pub(crate) const CALLER: &str = "be-a-caller";

/// Long enough for anything on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// This program.
pub(crate) fn me() -> OsString {
    std::env::current_exe().unwrap().into()
}

/// Starts children the way that `rebuild` does.
pub(crate) fn launching() -> RealSpawner {
    RealSpawner::new(vec![me(), process::launch::NAME.into()])
}

/// A shell script as a child.
pub(crate) fn sh(script: &str) -> Invocation {
    Invocation::new("/bin/sh", "/")
        .args(["-c", script])
        .env("PATH", "/usr/bin:/bin")
}

/// How to start a child whose output is followed.
pub(crate) fn followed(dir: &Path, ending: Ending) -> How {
    How {
        ending,
        output: Output::Followed {
            path: dir.join("output"),
        },
        marker: None,
    }
}

pub(crate) fn captured(ending: Ending) -> How {
    How {
        ending,
        output: Output::Captured,
        marker: None,
    }
}

/// Reads a child to its end.
pub(crate) fn read_all(running: &mut dyn Running) -> (Vec<(Vec<u8>, Stream)>, Exit) {
    let deadline = Instant::now() + LONG;
    let mut lines = Vec::new();
    loop {
        match running.next(Duration::from_millis(100)).unwrap() {
            Progress::Line(line, stream) => lines.push((line, stream)),
            Progress::Ended(exit) => return (lines, exit),
            Progress::Quiet => assert!(Instant::now() < deadline, "no end; so far {lines:?}"),
        }
    }
}

/// Starts a child and reads its lines, whichever stream they came from, to its end.
pub(crate) fn run(spawner: &dyn Spawner, call: &Invocation, how: &How) -> (Vec<String>, Exit) {
    let mut running = spawner.start(call, how).unwrap();
    let (lines, exit) = read_all(running.as_mut());
    let text = |(line, _): (Vec<u8>, Stream)| String::from_utf8(line).unwrap();
    (lines.into_iter().map(text).collect(), exit)
}

/// Waits for the next line and gives it as text.
pub(crate) fn next_line(running: &mut dyn Running) -> String {
    match running.next(LONG).unwrap() {
        Progress::Line(line, _) => String::from_utf8(line).unwrap(),
        other => panic!("{other:?} instead of a line"),
    }
}

/// Waits until a file holds something, and gives it.
pub(crate) fn wait_for_file(path: &Path) -> String {
    let read = || {
        std::fs::read_to_string(path)
            .ok()
            .filter(|text| text.ends_with('\n'))
    };
    wait::until(Instant::now() + LONG, Duration::from_millis(5), read)
        .unwrap_or_else(|| panic!("nothing in {}", path.display()))
}

/// Waits until a condition holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    let held = wait::until(deadline, Duration::from_millis(5), || {
        condition().then_some(())
    });
    assert!(held.is_some(), "never: {what}");
}

/// Waits until a process is dead, a zombie included.
pub(crate) fn wait_until_gone(identity: &Identity) {
    wait_until("process gone", || {
        identity.liveness() == process::Liveness::Dead
    });
}

/// Tells whether a pid is nobody's: ended and reaped.
pub(crate) fn is_reaped(pid: u32) -> bool {
    !PathBuf::from(format!("/proc/{pid}")).exists()
}

/// The identity that a script wrote as its pid into a file.
pub(crate) fn identity_in(path: &Path) -> Identity {
    Identity::of(wait_for_file(path).trim().parse().unwrap()).unwrap()
}

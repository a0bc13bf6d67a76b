//! How children end: by signals, by our end, by themselves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use process::{
    Ending, Exit, How, Identity, Liveness, Output, Progress, Running, Signal, Spawner, Waited,
    wait_until_dead,
};

use crate::support::*;

crate::tests![
    a_signal_reaches_the_whole_group_and_nobody_else,
    a_kill_takes_grandchildren_that_ignore_everything,
    a_kill_takes_what_a_dead_leader_left,
    signals_to_a_group_that_is_gone_are_no_error,
    a_reader_that_is_dropped_dies_and_a_changer_does_not,
    a_changer_outlives_a_killed_caller_and_a_reader_does_not,
    a_caller_that_dies_while_it_starts_a_changer_leaves_a_marked_one_or_none,
    a_reader_outlives_the_thread_that_started_it,
];

fn a_signal_reaches_the_whole_group_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    // A shell's background commands ignore SIGINT, and no trap can undo that.
    let note = |who: &str| format!("trap 'echo {who} >> {}; exit 0' TERM", log.display());
    let script = format!(
        "({}; echo ready; while :; do sleep 0.02; done) & {}; echo ready; wait; wait",
        note("inner"),
        note("outer")
    );
    let how = followed(dir.path(), Ending::OnItsOwn);
    let mut running = launching().start(&sh(&script), &how).unwrap();
    next_line(running.as_mut());
    next_line(running.as_mut());
    running.signal_group(Signal::Terminate).unwrap();
    read_all(running.as_mut());
    wait_until("both noted it", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 2)
    });
}

fn a_kill_takes_grandchildren_that_ignore_everything() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    let script = format!(
        "trap '' INT TERM HUP; (sh -c 'echo $$ > {}; while :; do sleep 1; done' &) ; \
         while :; do sleep 1; done",
        inner.display()
    );
    for how in [
        captured(Ending::WithUs),
        followed(dir.path(), Ending::OnItsOwn),
    ] {
        let _ = std::fs::remove_file(&inner);
        let mut running = launching().start(&sh(&script), &how).unwrap();
        let grandchild = identity_in(&inner);
        running.signal_group(Signal::Interrupt).unwrap();
        running.signal_group(Signal::Terminate).unwrap();
        assert_eq!(
            running.next(Duration::from_millis(50)).unwrap(),
            Progress::Quiet
        );
        running.kill_group().unwrap();
        assert_eq!(running.identity().liveness(), Liveness::Dead);
        assert_eq!(grandchild.liveness(), Liveness::Dead);
        assert_eq!(read_all(running.as_mut()).1, Exit::Signal(9));
    }
}

fn a_kill_takes_what_a_dead_leader_left() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    let script = format!(
        "sh -c 'echo $$ > {}; exec sleep 300' & exit 0",
        inner.display()
    );
    let how = followed(dir.path(), Ending::OnItsOwn);
    let mut running = launching().start(&sh(&script), &how).unwrap();
    assert_eq!(read_all(running.as_mut()).1, Exit::Code(0));
    let grandchild = identity_in(&inner);
    assert_eq!(grandchild.liveness(), Liveness::Alive);
    running.kill_group().unwrap();
    assert_eq!(grandchild.liveness(), Liveness::Dead);
}

fn signals_to_a_group_that_is_gone_are_no_error() {
    let mut running = launching().start(&sh("exit 0"), &How::reader()).unwrap();
    running.wait().unwrap();
    running.signal_group(Signal::Interrupt).unwrap();
    running.kill_group().unwrap();
}

fn a_reader_that_is_dropped_dies_and_a_changer_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (gate, end) = (dir.path().join("gate"), dir.path().join("end"));
    let script = format!(
        "until [ -e {} ]; do sleep 0.02; done; echo ended; echo ended > {}",
        gate.display(),
        end.display()
    );
    let reader = launching().start(&sh(&script), &How::reader()).unwrap();
    let (reader_identity, pid) = (reader.identity().clone(), reader.identity().pid);
    drop(reader);
    wait_until_gone(&reader_identity);
    wait_until("the reader is reaped", || is_reaped(pid));

    let how = followed(dir.path(), Ending::OnItsOwn);
    let changer = launching().start(&sh(&script), &how).unwrap();
    let identity = changer.identity().clone();
    drop(changer);
    assert_eq!(identity.liveness(), Liveness::Alive);
    process::files::write_atomically(&gate, b"", 0o600).unwrap();
    assert_eq!(wait_until_dead(&identity, &mut || true), Waited::Dead);
    assert_eq!(wait_for_file(&end), "ended\n");
    assert_eq!(wait_for_file(&dir.path().join("output")), "ended\n");
    wait_until("the changer is reaped", || is_reaped(identity.pid));
}

/// The caller that is killed: starts a reader and a changer, and says so.
pub(crate) fn be_a_caller(args: Vec<OsString>) -> ExitCode {
    let dir = PathBuf::from(&args[0]);
    let pause = if args.len() == 1 { "0.02" } else { "0.001" };
    let changer = sh(&format!(
        "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo line $i; sleep {pause}; done; echo end > {}",
        dir.join("end").display()
    ));
    let how = How::changer(dir.join("output"), dir.join("marker"));
    let Some(_) = args.get(1) else {
        let _changer = launching().start(&changer, &how).unwrap();
        let mut reader = launching()
            .start(&sh("exec sleep 300"), &How::reader())
            .unwrap();
        reader.identity().write_marker(&dir.join("reader")).unwrap();
        // Nothing more is ever said; the test kills us here.
        while reader.next(LONG).unwrap() == Progress::Quiet {}
        return ExitCode::SUCCESS;
    };
    // The other test kills us at any moment of this.
    let _running = launching().start(&changer, &how);
    process::wait::until(Instant::now() + LONG, LONG, || None::<()>);
    ExitCode::SUCCESS
}

fn start_caller(dir: &Path, how: &[&str]) -> Box<dyn Running> {
    let call = process::Invocation::new(me(), "/")
        .arg(CALLER)
        .arg(dir)
        .args(how.to_vec());
    let output = Output::Captured;
    let how = How {
        ending: Ending::OnItsOwn,
        output,
        marker: None,
    };
    process::RealSpawner::direct().start(&call, &how).unwrap()
}

fn a_changer_outlives_a_killed_caller_and_a_reader_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut caller = start_caller(dir.path(), &[]);
    let marker = |name: &str| Identity::read_marker(&dir.path().join(name)).unwrap();
    wait_until("both are started", || {
        marker("reader").is_some() && marker("marker").is_some()
    });
    let (reader, changer) = (marker("reader").unwrap(), marker("marker").unwrap());
    wait_until("it has begun", || {
        std::fs::metadata(dir.path().join("output")).is_ok_and(|f| f.len() > 0)
    });
    // Children have groups of their own: this is a SIGKILL to the caller alone.
    caller.signal_group(Signal::Kill).unwrap();
    assert_eq!(caller.wait().unwrap(), Exit::Signal(9));
    wait_until_gone(&reader);
    assert_eq!(changer.liveness(), Liveness::Alive);

    let mut n_words = 0;
    let waited = wait_until_dead(&changer, &mut || {
        n_words += 1;
        true
    });
    assert_eq!(waited, Waited::Dead);
    assert!(n_words > 0);
    assert_eq!(wait_for_file(&dir.path().join("end")), "end\n");
    let output = std::fs::read_to_string(dir.path().join("output")).unwrap();
    assert_eq!(
        output.lines().count(),
        40,
        "every line, with nobody reading"
    );
    assert!(output.ends_with("line 40\n"));
}

fn a_caller_that_dies_while_it_starts_a_changer_leaves_a_marked_one_or_none() {
    for quarter_millis in 0..24 {
        let dir = tempfile::tempdir().unwrap();
        let mut caller = start_caller(dir.path(), &["at-any-moment"]);
        let output = dir.path().join("output");
        wait_until("it is about to start", || output.exists());
        process::wait::until(
            Instant::now() + Duration::from_millis(quarter_millis) / 4,
            LONG,
            || None::<()>,
        );
        caller.signal_group(Signal::Kill).unwrap();
        caller.wait().unwrap();
        // From here on, whoever finds no living marker may start its own.
        let marker = Identity::read_marker(&dir.path().join("marker")).unwrap();
        match marker {
            Some(changer) => {
                // It runs to its end, or saw that its caller was gone and never began.
                assert_eq!(wait_until_dead(&changer, &mut || true), Waited::Dead);
                let has_begun = std::fs::metadata(&output).unwrap().len() > 0;
                let text = std::fs::read_to_string(&output).unwrap();
                assert!(
                    !has_begun || text.contains("line 40") || text.contains("is gone"),
                    "{text}"
                );
            }
            None => {
                let deadline = Instant::now() + Duration::from_millis(200);
                let begun = process::wait::until(deadline, Duration::from_millis(5), || {
                    std::fs::read_to_string(&output)
                        .unwrap()
                        .contains("line")
                        .then_some(())
                });
                assert_eq!(begun, None, "a changer runs that nobody can find");
            }
        }
    }
}

fn a_reader_outlives_the_thread_that_started_it() {
    // The kernel's parent-death signal means the thread that forked.
    let start = || {
        launching()
            .start(&sh("echo on; sleep 0.3; echo still"), &How::reader())
            .unwrap()
    };
    let mut running = std::thread::spawn(start).join().unwrap();
    let (lines, exit) = read_all(running.as_mut());
    assert_eq!((lines.len(), exit), (2, Exit::Code(0)));
}

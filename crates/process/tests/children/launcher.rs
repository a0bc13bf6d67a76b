//! What only the launcher can do, and how it fails.

use process::files::write_atomically;
use process::{Ending, Exit, How, Identity, Invocation, Output, RealSpawner, launch};

use crate::support::*;

crate::tests![
    the_marker_is_on_disk_before_the_program_runs,
    a_changer_does_not_hear_that_the_terminal_is_gone,
    a_launcher_whose_caller_is_gone_starts_nothing,
    a_launcher_that_cannot_mark_starts_nothing,
    a_program_that_the_system_will_not_run_is_said_so,
];

fn the_marker_is_on_disk_before_the_program_runs() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("marker");
    let call = sh(&format!("cat {}; echo; echo $$", marker.display()));
    let (lines, _) = run(
        &launching(),
        &call,
        &How::changer(dir.path().join("output"), &marker),
    );
    let seen: Identity = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(seen.pid.to_string(), lines[1]);
    assert_eq!(Identity::read_marker(&marker).unwrap(), Some(seen));
}

fn a_changer_does_not_hear_that_the_terminal_is_gone() {
    let call = sh("kill -HUP $$; echo deaf");
    let dir = tempfile::tempdir().unwrap();
    let (lines, exit) = run(&launching(), &call, &followed(dir.path(), Ending::OnItsOwn));
    assert_eq!((lines, exit), (vec!["deaf".to_owned()], Exit::Code(0)));
    // A reader does, and without a launcher everybody does.
    assert_eq!(
        run(&launching(), &call, &How::reader()),
        (vec![], Exit::Signal(1))
    );
    let direct = run(&RealSpawner::direct(), &call, &captured(Ending::OnItsOwn));
    assert_eq!(direct, (vec![], Exit::Signal(1)));
}

/// Starts the launcher by hand.
fn launcher(ending: &str, parent: u32, marker: Option<&str>) -> Invocation {
    let parent = parent.to_string();
    let call = Invocation::new(me(), "/").args([launch::NAME, "--ending", ending]);
    let call = call.args(["--parent", &parent]);
    let call = marker
        .into_iter()
        .fold(call, |call, marker| call.args(["--marker", marker]));
    call.args(["--", "/bin/echo", "started"])
}

fn a_launcher_whose_caller_is_gone_starts_nothing() {
    for ending in ["with-us", "on-its-own"] {
        let call = launcher(ending, std::process::id(), None);
        let (lines, _) = run(&RealSpawner::direct(), &call, &How::reader());
        assert_eq!(lines, ["started"]);

        let call = launcher(ending, std::process::id() + 1, None);
        let (lines, exit) = run(&RealSpawner::direct(), &call, &How::reader());
        let said = format!(
            "launcher: the caller, process {}, is gone",
            std::process::id() + 1
        );
        assert_eq!(
            (lines, exit),
            (vec![said], Exit::Code(launch::EXIT_UNPREPARED.into()))
        );
    }
}

fn a_launcher_that_cannot_mark_starts_nothing() {
    let call = launcher("on-its-own", std::process::id(), Some("/proc/no/marker"));
    let (lines, exit) = run(&RealSpawner::direct(), &call, &How::reader());
    assert_eq!(exit, Exit::Code(launch::EXIT_UNPREPARED.into()));
    assert!(
        lines[0].starts_with("launcher: cannot mark the process as started: "),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 1);
}

fn a_program_that_the_system_will_not_run_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no-interpreter");
    write_atomically(&path, b"#!/no/such/interpreter\n", 0o700).unwrap();
    let how = How {
        ending: Ending::OnItsOwn,
        output: Output::Captured,
        marker: Some(dir.path().join("m")),
    };
    let (lines, exit) = run(&launching(), &Invocation::new(&path, "/"), &how);
    assert_eq!(exit, Exit::Code(launch::EXIT_NOT_RUN.into()));
    let said = format!("launcher: cannot run program `{}`: ", path.display());
    assert!(lines[0].starts_with(&said), "{lines:?}");
}

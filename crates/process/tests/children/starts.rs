//! What a child is given, and what is refused before it starts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use process::files::write_atomically;
use process::{Ending, Exit, How, Invocation, RealSpawner, SpawnError, Spawner};

use crate::support::*;

crate::tests![
    a_child_sees_exactly_its_environment_directory_and_arguments,
    stdin_is_empty_or_what_was_given,
    a_bare_name_is_found_on_the_childs_own_path,
    what_cannot_run_is_refused_with_its_name,
    what_is_too_long_for_the_system_is_refused_without_its_value,
    a_call_shows_no_values,
    fifty_children_start_at_once_and_none_stays_a_zombie,
];

fn each_spawner(test: impl Fn(&dyn Spawner)) {
    test(&RealSpawner::direct());
    test(&launching());
}

fn a_child_sees_exactly_its_environment_directory_and_arguments() {
    each_spawner(|spawner| {
        let call = Invocation::new("/usr/bin/env", "/usr").env("ONLY", "this  one");
        let mut seen = run(spawner, &call, &How::reader()).0;
        // What a launcher that measures its coverage leaves in the environment it hands on.
        seen.retain(|line| !line.starts_with("__LLVM_PROFILE"));
        assert_eq!(seen, ["ONLY=this  one"]);
        let call = sh("pwd; echo \"$0,$1,$2\"").args(["--", "--marker", ""]);
        let call = Invocation {
            cwd: "/usr".into(),
            ..call
        };
        assert_eq!(
            run(spawner, &call, &How::reader()).0,
            ["/usr", "--,--marker,"]
        );
    });
}

fn stdin_is_empty_or_what_was_given() {
    each_spawner(|spawner| {
        assert_eq!(run(spawner, &sh("wc -c"), &How::reader()).0, ["0"]);
        let long = sh("wc -c").stdin(vec![b'x'; 1 << 20]);
        assert_eq!(
            run(spawner, &long, &captured(Ending::OnItsOwn)).0,
            ["1048576"]
        );
        let unread = sh("echo fine").stdin(vec![b'x'; 1 << 20]);
        assert_eq!(run(spawner, &unread, &How::reader()).0, ["fine"]);
    });
}

fn program(dir: &Path, name: &str, text: &str, mode: u32) {
    let path = dir.join(name);
    write_atomically(&path, text.as_bytes(), mode).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        mode
    );
}

fn a_bare_name_is_found_on_the_childs_own_path() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    for directory in [&first, &second] {
        process::files::create_private_dir(directory).unwrap();
    }
    program(&first, "tool", "no program", 0o600);
    program(&second, "tool", "#!/bin/sh\necho second\n", 0o700);
    let path = std::env::join_paths([".".as_ref(), first.as_path(), second.as_path()]).unwrap();
    each_spawner(|spawner| {
        let call = Invocation::new("tool", &first).env("PATH", &path);
        assert_eq!(run(spawner, &call, &How::reader()).0, ["second"]);
        let call = Invocation::new("./tool", &second);
        assert_eq!(run(spawner, &call, &How::reader()).0, ["second"]);
    });
}

fn what_cannot_run_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    program(dir.path(), "plain", "no program", 0o600);
    each_spawner(|spawner| {
        let error = |program: &str, cwd: &Path| {
            let call = Invocation::new(program, cwd).env("PATH", dir.path());
            spawner.start(&call, &How::reader()).err().unwrap()
        };
        let missing = error("no-such-tool", dir.path());
        assert_eq!(
            missing.to_string(),
            "there is no program `no-such-tool` on its PATH"
        );
        assert!(matches!(
            error("./no", dir.path()),
            SpawnError::Missing { on_path: false, .. }
        ));
        assert!(matches!(
            error("plain", dir.path()),
            SpawnError::NotExecutable { .. }
        ));
        assert!(matches!(
            error("/", dir.path()),
            SpawnError::NotExecutable { .. }
        ));
        let no_cwd = error("/bin/sh", &dir.path().join("none"));
        assert!(matches!(no_cwd, SpawnError::NoDirectory { .. }));
    });
}

fn what_is_too_long_for_the_system_is_refused_without_its_value() {
    each_spawner(|spawner| {
        let long = "v".repeat(200_000);
        let refused = |call: &Invocation| spawner.start(call, &How::reader()).err().unwrap();
        let error = refused(&sh("true").env("TF_VAR_big", &long)).to_string();
        assert!(error.starts_with("variable `TF_VAR_big` of program `/bin/sh` is 200012 bytes"));
        assert!(!error.contains("vvv"), "{error}");
        let error = refused(&sh("true").arg("-x").arg(&long)).to_string();
        assert!(error.starts_with("argument 4 of program"), "{error}");

        // Each is short enough, all are not: the limit is a quarter of the stack, 6 MiB at most.
        let many = (0..100).map(|_| "v".repeat(100_000));
        let error = refused(&sh("true").args(many));
        assert!(
            matches!(
                error,
                SpawnError::TooLong {
                    n_bytes: 10_000_000..,
                    ..
                }
            ),
            "{error:?}"
        );
    });
}

fn a_call_shows_no_values() {
    let call = sh("true").env("PASSWORD", "hunter2").stdin("swordfish");
    let shown = format!("{call:?} {call:#?}");
    assert!(shown.contains("PASSWORD"), "{shown}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("swordfish"),
        "{shown}"
    );
    assert!(!shown.contains(&format!("{:?}", b"swordfish")), "{shown}");
}

fn fifty_children_start_at_once_and_none_stays_a_zombie() {
    let spawner = launching();
    let pids = std::thread::scope(|scope| {
        let start = |i: usize| {
            let spawner = &spawner;
            move || {
                let dir = tempfile::tempdir().unwrap();
                let how = match i % 2 {
                    0 => How::reader(),
                    _ => followed(dir.path(), Ending::OnItsOwn),
                };
                let mut running = spawner.start(&sh("echo $$"), &how).unwrap();
                let pid = running.identity().pid;
                let (lines, exit) = read_all(running.as_mut());
                assert_eq!(exit, Exit::Code(0));
                assert_eq!(
                    lines[0].0,
                    pid.to_string().into_bytes(),
                    "the same over the exec"
                );
                pid
            }
        };
        let threads: Vec<_> = (0..50).map(|i| scope.spawn(start(i))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert!(pids.iter().all(|pid| is_reaped(*pid)), "{pids:?}");
}

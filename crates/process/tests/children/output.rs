//! What a child writes arrives: all of it, in order, and nobody can hold us up.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use process::{
    CollectError, Ending, Exit, How, Progress, RealSpawner, SpawnError, Spawner, Stream, collect,
};

use crate::support::*;

crate::tests![
    every_line_arrives_before_the_end_from_both_streams,
    a_followed_output_arrives_in_the_order_in_which_it_was_written,
    lines_of_any_length_and_any_bytes_are_kept,
    a_child_that_fills_both_pipes_is_not_held_up,
    nobody_needs_to_read_for_a_child_to_end,
    a_grandchild_that_keeps_the_output_open_does_not_hold_us,
    a_grandchild_that_writes_without_end_does_not_hold_us,
    lines_come_while_the_child_lives,
    an_end_is_noticed_at_once,
    a_followed_file_is_private_and_never_somebody_elses,
    collect_gives_the_output_and_ends_what_takes_too_long,
];

const ENDINGS: [Ending; 2] = [Ending::WithUs, Ending::OnItsOwn];

/// Every way in which output is read.
fn each_way(test: impl Fn(&dyn Spawner, &How)) {
    for spawner in [RealSpawner::direct(), launching()] {
        for ending in ENDINGS {
            test(&spawner, &captured(ending));
            let dir = tempfile::tempdir().unwrap();
            test(&spawner, &followed(dir.path(), ending));
        }
    }
}

fn every_line_arrives_before_the_end_from_both_streams() {
    let call = sh("echo one; echo two; printf 'three, unfinished'; echo wrong >&2; exit 7");
    let mut running = launching().start(&call, &How::reader()).unwrap();
    let (mut lines, exit) = read_all(running.as_mut());
    assert_eq!(exit, Exit::Code(7));
    lines.sort_by_key(|(_, stream)| *stream == Stream::Stderr);
    let line = |text: &str, stream| (text.as_bytes().to_vec(), stream);
    assert_eq!(
        lines,
        [
            line("one", Stream::Stdout),
            line("two", Stream::Stdout),
            line("three, unfinished", Stream::Stdout),
            line("wrong", Stream::Stderr),
        ]
    );
    assert_eq!(
        running.next(Duration::ZERO).unwrap(),
        Progress::Ended(exit),
        "and says so again"
    );
    assert_eq!(running.wait().unwrap(), exit);
}

fn a_followed_output_arrives_in_the_order_in_which_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let call = sh("echo one; echo two >&2; echo three; kill -TERM $$");
    let (lines, exit) = run(&launching(), &call, &followed(dir.path(), Ending::OnItsOwn));
    assert_eq!(lines, ["one", "two", "three"]);
    assert_eq!(exit, Exit::Signal(15));
}

fn lines_of_any_length_and_any_bytes_are_kept() {
    let script = "head -c 1048576 /dev/zero | tr '\\0' x; echo; echo; printf '\\377\\000\\r\\n'; \
                  head -c 3000000 /dev/zero | tr '\\0' y";
    each_way(|spawner, how| {
        let mut running = spawner.start(&sh(script), how).unwrap();
        let (lines, exit) = read_all(running.as_mut());
        let lines: Vec<Vec<u8>> = lines.into_iter().map(|(line, _)| line).collect();
        assert_eq!(exit, Exit::Code(0));
        let expected = [
            vec![b'x'; 1 << 20],
            vec![],
            b"\xff\0\r".to_vec(),
            vec![b'y'; 3_000_000],
        ];
        let sizes: Vec<usize> = lines.iter().map(Vec::len).collect();
        assert!(lines == expected, "lines of {sizes:?} bytes");
    });
}

fn a_child_that_fills_both_pipes_is_not_held_up() {
    let script = "head -c 2000000 /dev/zero >&2; head -c 2000000 /dev/zero; echo; echo end";
    each_way(|spawner, how| {
        let mut running = spawner.start(&sh(script), how).unwrap();
        let (lines, exit) = read_all(running.as_mut());
        let n_bytes: usize = lines.iter().map(|(line, _)| line.len()).sum();
        assert_eq!((n_bytes, exit), (4_000_003, Exit::Code(0)));
    });
}

fn nobody_needs_to_read_for_a_child_to_end() {
    each_way(|spawner, how| {
        let mut running = spawner
            .start(&sh("head -c 1000000 /dev/zero; exit 3"), how)
            .unwrap();
        assert_eq!(running.wait().unwrap(), Exit::Code(3));
        let (lines, exit) = read_all(running.as_mut());
        assert_eq!(
            (lines[0].0.len(), exit),
            (1_000_000, Exit::Code(3)),
            "and can read later"
        );
    });
}

fn a_grandchild_that_keeps_the_output_open_does_not_hold_us() {
    each_way(|spawner, how| {
        let begun = Instant::now();
        let mut running = spawner.start(&sh("sleep 300 & echo started"), how).unwrap();
        let (lines, exit) = read_all(running.as_mut());
        assert_eq!((lines.len(), lines[0].0.as_slice()), (1, &b"started"[..]));
        assert_eq!(exit, Exit::Code(0));
        assert!(begun.elapsed() < Duration::from_secs(30));
        running.kill_group().unwrap();
    });
}

fn a_grandchild_that_writes_without_end_does_not_hold_us() {
    each_way(|spawner, how| {
        // Not too fast: the file that is followed would fill the disk.
        let script = "(while :; do echo more; done) & echo started; exit 4";
        let mut running = spawner.start(&sh(script), how).unwrap();
        let (lines, exit) = read_all(running.as_mut());
        assert!(lines.iter().any(|(line, _)| line == b"started"));
        assert_eq!(exit, Exit::Code(4));
        running.kill_group().unwrap();
    });
}

fn lines_come_while_the_child_lives() {
    let dir = tempfile::tempdir().unwrap();
    let gate = dir.path().join("gate");
    for (i, how) in [
        captured(Ending::WithUs),
        followed(dir.path(), Ending::OnItsOwn),
    ]
    .iter()
    .enumerate()
    {
        let gate = gate.with_extension(i.to_string());
        let call = sh(&format!(
            "echo first; until [ -e {} ]; do sleep 0.02; done; echo second",
            gate.display()
        ));
        let mut running = launching().start(&call, how).unwrap();
        assert_eq!(next_line(running.as_mut()), "first");
        assert_eq!(
            running.next(Duration::from_millis(20)).unwrap(),
            Progress::Quiet
        );
        process::files::write_atomically(&gate, b"", 0o600).unwrap();
        assert_eq!(next_line(running.as_mut()), "second");
        assert_eq!(running.next(LONG).unwrap(), Progress::Ended(Exit::Code(0)));
    }
}

fn an_end_is_noticed_at_once() {
    // The shortest of several, since other tests may take the processor.
    let shortest = (0..5).map(|_| {
        let dir = tempfile::tempdir().unwrap();
        let how = followed(dir.path(), Ending::OnItsOwn);
        let begun = Instant::now();
        let mut running = launching().start(&sh("exit 0"), &how).unwrap();
        while running.next(LONG).unwrap() != Progress::Ended(Exit::Code(0)) {}
        begun.elapsed()
    });
    let shortest = shortest.min().unwrap();
    assert!(shortest < Duration::from_millis(500), "{shortest:?}");
}

fn a_followed_file_is_private_and_never_somebody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let how = followed(dir.path(), Ending::OnItsOwn);
    let path = dir.path().join("output");
    run(&launching(), &sh("umask 0; echo secret"), &how);
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"secret\n");
    let error = launching().start(&sh("echo again"), &how).err().unwrap();
    assert!(matches!(error, SpawnError::OutputFile { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"secret\n", "nothing ran");
}

fn collect_gives_the_output_and_ends_what_takes_too_long() {
    let spawner = launching();
    let mut never = || false;
    let call = sh("echo a; echo b; echo; echo no >&2; exit 1");
    let got = collect(&spawner, &call, &How::reader(), LONG, &mut never).unwrap();
    assert_eq!(
        (got.stdout.as_slice(), got.stderr.as_slice()),
        (&b"a\nb\n"[..], &b"no"[..])
    );
    assert_eq!(got.exit, Exit::Code(1));

    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    let call = sh(&format!(
        "trap '' INT TERM; echo $$ > {}; sleep 300",
        pid_file.display()
    ));
    let mut child = None;
    let error = collect(&spawner, &call, &How::reader(), LONG, &mut || {
        child = Some(identity_in(&pid_file));
        true
    });
    assert!(matches!(error.unwrap_err(), CollectError::Stopped { .. }));
    assert_eq!(child.unwrap().liveness(), process::Liveness::Dead);

    let limit = Duration::from_millis(50);
    let error = collect(
        &spawner,
        &sh("sleep 300"),
        &How::reader(),
        limit,
        &mut never,
    );
    assert!(matches!(error.unwrap_err(), CollectError::TimedOut { .. }));
}

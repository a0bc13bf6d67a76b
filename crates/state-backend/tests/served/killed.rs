//! L16: the server is killed at any instant; locks, states and versions survive whole.

use crate::world::{STEP, backend, lock_info, send, state, writer};
use process::{Ending, Exit, How, Invocation, Output, RealSpawner, Spawner};
use state_backend::{Access, GrantOptions, LockInfo, Server, ServerOptions, StateBackend};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::lock::Hold;
use store::{LocalStore, Store};

/// Says to the child which directory is the store; without it the child's test does nothing.
const CHILD: &str = "__REBUILD_TEST_STORE";

/// What is killed: a server, and a client that locks, writes and unlocks, over and over.
#[test]
#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
fn a_child_that_is_killed() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let backend = Arc::new(backend(Path::new(&dir)));
    let first = backend
        .read_state(STEP)
        .unwrap()
        .map_or(0, |file| file.header.serial);
    let server = Server::start(backend, ServerOptions::default()).unwrap();
    let access = server.grant(STEP, GrantOptions::default());
    for serial in first + 1.. {
        cycle(&access, serial);
        // Counted by the parent, so that a kill comes while writes are under way.
        process::files::write_atomically(
            &Path::new(&dir).join("../cycles"),
            serial.to_string().as_bytes(),
            0o600,
        )
        .unwrap();
    }
}

fn cycle(access: &Access, serial: u64) {
    let id = format!("id-{serial}");
    assert_eq!(send(access, "LOCK", "", &lock_info(&id)).0, 200);
    assert_eq!(
        send(access, "POST", &format!("?ID={id}"), &whole(serial)).0,
        200
    );
    assert_eq!(send(access, "UNLOCK", "", &lock_info(&id)).0, 200);
}

/// A state that shows by itself whether it is whole.
fn whole(serial: u64) -> Vec<u8> {
    state("l", serial, &serial.to_string().repeat(2000))
}

fn n_cycles(dir: &Path) -> u64 {
    std::fs::read_to_string(dir.join("cycles"))
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_killed_server_leaves_whole_states_versions_and_locks() {
    let dir = tempfile::tempdir().unwrap();
    let store_dir = dir.path().join("store");
    let mut n_locked = 0;
    for round in 0..12_u64 {
        let before = n_cycles(dir.path());
        let call = Invocation::new(std::env::current_exe().unwrap(), dir.path())
            .args(["--exact", "killed::a_child_that_is_killed", "--nocapture"])
            .env(CHILD, store_dir.as_os_str());
        let how = How {
            ending: Ending::WithUs,
            output: Output::Captured,
            marker: None,
        };
        let mut child = RealSpawner::direct().start(&call, &how).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        // Another instant each round; every other one as soon as the lock is seen to be taken.
        let lock_path = store_dir.join("lock").join(STEP);
        let interval = Duration::from_micros(50 + 170 * round);
        let worked = process::wait::until(deadline, interval, || {
            let is_due = round % 2 == 0 || lock_path.exists();
            (is_due && n_cycles(dir.path()) > before + round % 3).then_some(())
        });
        worked.expect("the child works");
        child.kill_group().unwrap();
        assert!(matches!(child.wait().unwrap(), Exit::Signal(_)));

        // A new server over the same directory.
        let backend = backend(&store_dir);
        let file = backend.read_state(STEP).unwrap().unwrap();
        assert_eq!(file.bytes, whole(file.header.serial));
        assert!(
            file.header.serial >= n_cycles(dir.path()),
            "what was answered is there"
        );
        for version in backend.versions(STEP).unwrap() {
            let kept = backend.read_version(&version).unwrap().unwrap();
            assert_eq!(kept.bytes, whole(version.serial), "round {round}");
        }
        if let Some(lock) = backend.lock_of(STEP).unwrap() {
            n_locked += 1;
            assert_ne!(lock.writer, writer());
            assert!(lock.info.id.starts_with("id-"));
            let is_dead = |of: &store::Writer| of.identity.liveness() == process::Liveness::Dead;
            let released = backend.release_lock_of_dead(STEP, &is_dead).unwrap();
            assert_eq!(released, Some(lock));
        }
    }
    assert!(n_locked > 0, "some kill came between lock and unlock");
}

/// The lock that a killed server has taken is still held for the server after it.
#[test]
fn a_lock_outlives_the_server_that_took_it() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let store: Arc<dyn Store> = Arc::new(LocalStore::open(dir.path()));
        let backend = StateBackend::new(store, 1, writer(), Arc::new(|| Hold::Held));
        Server::start(Arc::new(backend), ServerOptions::default()).unwrap()
    };
    let first = start();
    assert_eq!(
        send(
            &first.grant(STEP, GrantOptions::default()),
            "LOCK",
            "",
            &lock_info("me")
        )
        .0,
        200
    );
    first.stop();
    let second = start();
    let access = second.grant(STEP, GrantOptions::default());
    assert_eq!(
        send(&access, "LOCK", "", &lock_info("other")),
        (423, lock_info("me"))
    );
    assert_eq!(send(&access, "LOCK", "", &lock_info("me")).0, 200);
    assert_eq!(send(&access, "POST", "?ID=me", &whole(1)).0, 200);
    assert_eq!(send(&access, "UNLOCK", "", &lock_info("me")).0, 200);
    let held = second
        .backend()
        .lock(STEP, &LockInfo::parse(&lock_info("other")).unwrap());
    assert!(held.is_ok());
}

//! A process that writes to a local store is killed, over and over: every value stays whole.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use process::{Ending, Exit, How, Invocation, Output, RealSpawner, Spawner};
use std::path::Path;
use std::time::{Duration, Instant};
use store::{Key, LocalStore, Store};

/// Says to the child which directory is the store; without it the child's test does nothing.
const CHILD: &str = "__REBUILD_TEST_STORE";

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// A value that shows by itself whether it is whole.
fn body(n: usize) -> Vec<u8> {
    format!("{n}\n").repeat(1 + n % 7 * 3000).into_bytes()
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .next()
        .and_then(|line| line.parse().ok())
        .is_some_and(|n: usize| body(n) == bytes)
}

/// What is killed: creates, replaces and deletes.
#[test]
#[expect(clippy::disallowed_methods, reason = "the tests' own switch")]
fn a_child_that_is_killed() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let store = LocalStore::open(Path::new(&dir));
    for n in 0.. {
        let key = key(&format!("state/{}/step-{}", n % 3, n % 5));
        match store.get(&key).unwrap() {
            None => drop(store.put_if_absent(&key, &body(n)).unwrap()),
            Some(value) if n % 4 == 0 => store.delete_if_match(&key, &value.tag).unwrap(),
            Some(value) => drop(store.put_if_match(&key, &body(n), &value.tag).unwrap()),
        }
    }
}

#[test]
fn a_kill_at_any_instant_leaves_every_value_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store_dir = dir.path().join("store");
    let store = LocalStore::open(&store_dir);
    for round in 0..25_u64 {
        let call = Invocation::new(std::env::current_exe().unwrap(), dir.path())
            .args(["--exact", "a_child_that_is_killed", "--nocapture"])
            .env(CHILD, store_dir.as_os_str());
        let how = How {
            ending: Ending::WithUs,
            output: Output::Captured,
            marker: None,
        };
        let before = values(&store);
        let mut child = RealSpawner::direct().start(&call, &how).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let changed =
            process::wait::until(deadline, Duration::from_micros(500 + 310 * round), || {
                (values(&store) != before).then_some(())
            });
        changed.expect("the child writes");
        child.kill_group().unwrap();
        assert!(matches!(child.wait().unwrap(), Exit::Signal(_)));
        for (key, bytes) in values(&store) {
            assert!(is_whole(&bytes), "round {round}: `{key}` is torn");
        }
        // The store goes on: no lock is left, and what was half written is swept away.
        let next = LocalStore::open(&store_dir);
        let tag = next.put_if_absent(&key("probe"), &body(1)).unwrap();
        assert_eq!(left_over(&store_dir), 0, "round {round}");
        next.delete_if_match(&key("probe"), &tag).unwrap();
    }
}

/// Every value that is listed; one that goes meanwhile is left out.
fn values(store: &LocalStore) -> Vec<(Key, Vec<u8>)> {
    let keys = store.list("").unwrap();
    let values = keys.into_iter().map(|key| (store.get(&key).unwrap(), key));
    values
        .filter_map(|(value, key)| Some((key, value?.bytes)))
        .collect()
}

/// How many hidden files there are besides the store's own lock.
fn left_over(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                left_over(&entry.path())
            } else {
                usize::from(name.starts_with('.') && name != ".lock")
            }
        })
        .sum()
}

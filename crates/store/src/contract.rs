//! What every store must do, as tests that a store's own tests call.
//!
//! The functions panic where a store breaks the contract. Each takes a new, empty store.

use crate::{Body, Key, Store, Tag, WriteError, settle};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// Runs every case, each on a store that `make` has made.
pub fn check(make: &dyn Fn() -> Arc<dyn Store>) {
    values_are_read_as_written(make());
    creation_needs_an_absent_key(make());
    replacement_needs_the_version_that_was_read(make());
    deletion_needs_the_version_that_was_read(make());
    lists_are_sorted_and_whole(make());
    big_values_are_kept(make());
    values_in_parts_are_values(make());
    one_of_many_creates(make(), 8, 10);
    one_of_many_replaces(make(), 8, 10);
    no_update_is_lost(make(), 6, 10);
    errors_name_store_and_key(make());
}

fn key(text: &str) -> Key {
    Key::new(text).expect("the key is spelled out here")
}

fn bytes(store: &dyn Store, key: &Key) -> Option<Vec<u8>> {
    store
        .get(key)
        .expect("a healthy store answers")
        .map(|value| value.bytes)
}

fn is_conflict<T: std::fmt::Debug>(result: Result<T, WriteError>) -> bool {
    match result {
        Err(error) if error.is_conflict() => true,
        other => panic!("no conflict, but {other:?}"),
    }
}

/// Any bytes come back as they were, the empty value included, with the tag that the write gave.
pub fn values_are_read_as_written(store: Arc<dyn Store>) {
    let every_byte: Vec<u8> = (0..=255).collect();
    for (name, body) in [
        ("empty", &b""[..]),
        ("text", b"{\"a\":1}\n"),
        ("binary", &every_byte),
    ] {
        let key = key(&format!("a/{name}"));
        assert_eq!(bytes(&*store, &key), None);
        let tag = store.put_if_absent(&key, body).expect("the key is absent");
        let read = store
            .get(&key)
            .expect("a healthy store answers")
            .expect("it was written");
        assert_eq!(read.bytes, body);
        assert_eq!(read.tag, tag);
    }
}

/// `put_if_absent` never replaces.
pub fn creation_needs_an_absent_key(store: Arc<dyn Store>) {
    let key = key("lock.json");
    store
        .put_if_absent(&key, b"first")
        .expect("the key is absent");
    assert!(is_conflict(store.put_if_absent(&key, b"second")));
    assert!(is_conflict(store.put_if_absent(&key, b"first")));
    assert_eq!(bytes(&*store, &key).as_deref(), Some(&b"first"[..]));
}

/// `put_if_match` replaces one version only, and creates nothing.
pub fn replacement_needs_the_version_that_was_read(store: Arc<dyn Store>) {
    let key = key("run/head.json");
    let first = store.put_if_absent(&key, b"1").expect("the key is absent");
    let second = store
        .put_if_match(&key, b"2", &first)
        .expect("nobody else wrote");
    assert_ne!(first, second);
    assert!(is_conflict(store.put_if_match(&key, b"3", &first)));
    assert_eq!(bytes(&*store, &key).as_deref(), Some(&b"2"[..]));
    store
        .delete_if_match(&key, &second)
        .expect("nobody else wrote");
    assert!(is_conflict(store.put_if_match(&key, b"3", &second)));
    assert_eq!(bytes(&*store, &key), None);
}

/// `delete_if_match` deletes one version only; a deleted key can be created again.
pub fn deletion_needs_the_version_that_was_read(store: Arc<dyn Store>) {
    let key = key("lock/1a/edge");
    let first = store.put_if_absent(&key, b"1").expect("the key is absent");
    let second = store
        .put_if_match(&key, b"2", &first)
        .expect("nobody else wrote");
    assert!(is_conflict(store.delete_if_match(&key, &first)));
    store
        .delete_if_match(&key, &second)
        .expect("nobody else wrote");
    assert!(is_conflict(store.delete_if_match(&key, &second)));
    assert_eq!(bytes(&*store, &key), None);
    store.put_if_absent(&key, b"1").expect("the key is absent");
}

/// Every key that begins with the text is listed, once, sorted; deleted ones are not.
pub fn lists_are_sorted_and_whole(store: Arc<dyn Store>) {
    let all = [
        "lock.json",
        "run/head.json",
        "state/1a/edge",
        "state/1a/edge@2",
        "state/1b/net",
        "state2/x/y",
        "target.json",
    ];
    assert!(store.list("").expect("a healthy store answers").is_empty());
    for text in all.iter().rev() {
        store
            .put_if_absent(&key(text), b"x")
            .expect("the key is absent");
    }
    let listed = |prefix: &str| -> Vec<String> {
        let keys = store.list(prefix).expect("a healthy store answers");
        keys.iter().map(ToString::to_string).collect()
    };
    assert_eq!(listed(""), all);
    assert_eq!(listed("state/"), all[2..5]);
    assert_eq!(listed("state/1a/edge"), all[2..4]);
    assert_eq!(listed("state/1a/edge@"), all[3..4]);
    assert_eq!(listed("state"), all[2..6]);
    assert!(listed("nothing/").is_empty());
    let version = store
        .get(&key("state/1b/net"))
        .expect("a healthy store answers")
        .expect("written above");
    store
        .delete_if_match(&key("state/1b/net"), &version.tag)
        .expect("nobody else wrote");
    assert_eq!(listed("state/"), all[2..4]);
}

/// A value of 6 MiB is kept and read back.
pub fn big_values_are_kept(store: Arc<dyn Store>) {
    let key = key("bundle/big");
    let body: Vec<u8> = (0..6 * 1024 * 1024_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let tag = store.put_if_absent(&key, &body).expect("the key is absent");
    assert!(bytes(&*store, &key).as_deref() == Some(&body[..]));
    let tag = store
        .put_if_match(&key, &body[1..], &tag)
        .expect("nobody else wrote");
    assert!(bytes(&*store, &key).as_deref() == Some(&body[1..]));
    store
        .delete_if_match(&key, &tag)
        .expect("nobody else wrote");
}

/// Of many threads that create one key at once, exactly one succeeds, and its value is there.
pub fn one_of_many_creates(store: Arc<dyn Store>, n_threads: usize, n_rounds: usize) {
    for round in 0..n_rounds {
        let key = key(&format!("race/{round}"));
        let winners = race(n_threads, |thread| {
            let done = store.put_if_absent(&key, format!("thread {thread}").as_bytes());
            match done {
                Ok(_) => true,
                Err(WriteError::Conflict { .. }) => false,
                Err(error) => panic!("a race is no failure: {error}"),
            }
        });
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        assert_eq!(
            bytes(&*store, &key),
            Some(format!("thread {}", winners[0]).into_bytes())
        );
    }
}

/// Of many threads that replace one version at once, exactly one succeeds, and its value is there.
pub fn one_of_many_replaces(store: Arc<dyn Store>, n_threads: usize, n_rounds: usize) {
    let key = key("race");
    let mut tag = store
        .put_if_absent(&key, b"start")
        .expect("the key is absent");
    for round in 0..n_rounds {
        let body = |thread: usize| format!("round {round} thread {thread}").into_bytes();
        let winners = race(n_threads, |thread| {
            match store.put_if_match(&key, &body(thread), &tag) {
                Ok(_) => true,
                Err(WriteError::Conflict { .. }) => false,
                Err(error) => panic!("a race is no failure: {error}"),
            }
        });
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let value = store
            .get(&key)
            .expect("a healthy store answers")
            .expect("it was written");
        assert_eq!(value.bytes, body(winners[0]));
        tag = value.tag;
    }
}

/// Many threads that count up by read and conditional write lose no count.
pub fn no_update_is_lost(store: Arc<dyn Store>, n_threads: usize, n_each: usize) {
    let key = key("count");
    store.put_if_absent(&key, b"0").expect("the key is absent");
    race(n_threads, |_| {
        for _ in 0..n_each {
            loop {
                let value = store
                    .get(&key)
                    .expect("a healthy store answers")
                    .expect("it was written");
                let count: usize = String::from_utf8_lossy(&value.bytes)
                    .parse()
                    .expect("a whole number");
                match store.put_if_match(&key, (count + 1).to_string().as_bytes(), &value.tag) {
                    Ok(_) => break,
                    Err(WriteError::Conflict { .. }) => {}
                    Err(error) => panic!("a race is no failure: {error}"),
                }
            }
        }
        true
    });
    assert_eq!(
        bytes(&*store, &key),
        Some((n_threads * n_each).to_string().into_bytes())
    );
}

/// A message says which key of which store.
pub fn errors_name_store_and_key(store: Arc<dyn Store>) {
    let key = key("state/1a/edge");
    let error = store
        .put_if_match(&key, b"x", &Tag::new("no such version"))
        .expect_err("the key is absent");
    let text = error.to_string();
    assert!(error.is_conflict());
    assert!(
        text.contains(key.as_str()) && text.contains(&store.describe()),
        "{text}"
    );
}

/// What is written in two parts, and read without being held, is a value like any other.
pub fn values_in_parts_are_values(store: Arc<dyn Store>) {
    use std::io::Write as _;
    let key = key("state/1a/edge");
    let long: Vec<u8> = (0..900_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut writer = store
        .body_writer()
        .expect("a healthy store takes a value in");
    writer.write_all(&long).expect("there is room");
    let tail = writer.finish().expect("there is room");
    assert!(
        store
            .get_body(&key)
            .expect("a healthy store answers")
            .is_none()
    );
    assert!(
        store
            .get_start(&key, 9)
            .expect("a healthy store answers")
            .is_none()
    );
    let tag = store
        .put_body_if_absent(&key, b"head\n", &tail)
        .expect("the key is absent");
    // Other bytes: the same ones may be taken for a write of ours whose answer was lost.
    assert!(is_conflict(
        store.put_body_if_absent(&key, b"other\n", &tail)
    ));
    let found = store
        .get(&key)
        .expect("a healthy store answers")
        .expect("it was written");
    assert_eq!(found.bytes, [b"head\n", &long[..]].concat());
    assert_eq!(found.tag, tag);
    let read = store
        .get_body(&key)
        .expect("a healthy store answers")
        .expect("it was written");
    assert_eq!(read.tag, tag);
    assert_eq!(
        store
            .get_start(&key, 7)
            .expect("a healthy store answers")
            .as_deref(),
        Some(&b"head\n\0\x01"[..])
    );
    let next = Body::from(b"next".to_vec());
    let stale = Tag::new("no such version");
    assert!(is_conflict(
        store.put_body_if_match(&key, b"", &next, &stale)
    ));
    store
        .put_body_if_match(&key, b"", &next, &tag)
        .expect("the version is there");
    assert_eq!(bytes(&*store, &key).as_deref(), Some(&b"next"[..]));
    // What was read before stays what it was.
    assert!(
        read.body
            .is_joined(b"head\n", &tail)
            .expect("it can still be read")
    );
}

/// A write that landed and whose answer was lost counts as done once it is settled.
///
/// `lose_next` makes the store lose the answer of its next write.
pub fn lost_answers_are_settled(store: Arc<dyn Store>, lose_next: &dyn Fn()) {
    let key = key("run/head.json");
    lose_next();
    let tag = settle::put_if_absent(&*store, &key, b"1").expect("the write landed");
    lose_next();
    let tag = settle::put_if_match(&*store, &key, b"2", &tag).expect("the write landed");
    assert_eq!(bytes(&*store, &key).as_deref(), Some(&b"2"[..]));
    lose_next();
    settle::delete_if_match(&*store, &key, &tag).expect("the delete landed");
    assert_eq!(bytes(&*store, &key), None);
}

/// Runs `act` in many threads at once; gives the numbers of those that say `true`.
fn race(n_threads: usize, act: impl Fn(usize) -> bool + Sync) -> Vec<usize> {
    let (barrier, n_done) = (Barrier::new(n_threads), AtomicUsize::new(0));
    let winners = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..n_threads)
            .map(|thread| {
                let (barrier, n_done, act) = (&barrier, &n_done, &act);
                scope.spawn(move || {
                    barrier.wait();
                    let won = act(thread);
                    n_done.fetch_add(1, Ordering::Relaxed);
                    won.then_some(thread)
                })
            })
            .collect();
        let won = handles
            .into_iter()
            .filter_map(|handle| handle.join().expect("no thread panics"));
        won.collect::<BTreeSet<_>>()
    });
    assert_eq!(n_done.into_inner(), n_threads);
    winners.into_iter().collect()
}

//! The rules of states, locks and versions.

use super::*;
use crate::N_VERSIONS;
use process::Identity;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use store::lock::{Holder, TargetLock};
use store::{Fault, MemoryStore, OperationKind};

const STEP: &str = "1a/edge";

fn writer() -> Writer {
    Writer {
        identity: Identity::of_self().unwrap(),
        user: "ann".into(),
        host: "lab".into(),
        run: Some("01J".into()),
    }
}

fn with_fence(store: &Arc<MemoryStore>, fence: u64) -> StateBackend {
    let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(store);
    StateBackend::new(store, fence, writer(), Arc::new(|| Hold::Held))
}

/// A store and its backend, with the state locked by `me`.
fn locked() -> (Arc<MemoryStore>, StateBackend) {
    let store = Arc::new(MemoryStore::new());
    let backend = with_fence(&store, 1);
    backend.lock(STEP, &info("me")).unwrap();
    (store, backend)
}

fn info(id: &str) -> LockInfo {
    LockInfo::parse(format!(r#"{{"ID":"{id}","Who":"ann@lab"}}"#).as_bytes()).unwrap()
}

fn state(lineage: &str, serial: u64, value: &str) -> Vec<u8> {
    format!("{{\"version\":4,\"serial\":{serial},\"lineage\":\"{lineage}\",\"x\":\"{value}\"}}\n")
        .into_bytes()
}

fn bytes(backend: &StateBackend) -> Option<Vec<u8>> {
    backend.read_state(STEP).unwrap().map(|file| file.bytes)
}

fn serials(backend: &StateBackend) -> Vec<u64> {
    let versions = backend.versions(STEP).unwrap();
    versions.iter().map(|version| version.serial).collect()
}

fn keys(store: &MemoryStore, prefix: &str) -> Vec<String> {
    let keys = store.list(prefix).unwrap();
    keys.iter().map(ToString::to_string).collect()
}

#[test]
fn a_state_comes_back_byte_for_byte_with_its_writer() {
    let (store, backend) = locked();
    assert_eq!(bytes(&backend), None);
    let written = backend
        .write_state(STEP, &state("l", 1, "a"), Some("me"))
        .unwrap();
    assert_eq!(written, Written::New);
    let file = backend.read_state(STEP).unwrap().unwrap();
    assert_eq!(file.bytes, state("l", 1, "a"));
    assert_eq!((file.header.lineage.as_str(), file.header.serial), ("l", 1));
    assert_eq!((file.header.fence, &file.header.writer), (1, &writer()));
    assert_eq!(keys(&store, "state/"), ["state/1a/edge"]);
    assert_eq!(backend.list_states().unwrap(), [STEP]);
}

#[test]
fn a_write_needs_the_locks_own_id() {
    let (store, backend) = locked();
    for id in [None, Some("other"), Some("")] {
        let error = backend
            .write_state(STEP, &state("l", 1, "a"), id)
            .unwrap_err();
        assert!(
            matches!(&error, BackendError::Locked { lock, .. } if lock.info.id == "me"),
            "{error}"
        );
        assert!(matches!(
            backend.delete_state(STEP, id),
            Err(BackendError::Locked { .. })
        ));
    }
    backend.unlock(STEP, "me").unwrap();
    for id in [None, Some("me")] {
        let error = backend
            .write_state(STEP, &state("l", 1, "a"), id)
            .unwrap_err();
        assert!(matches!(error, BackendError::NotLocked { .. }), "{error}");
    }
    assert!(keys(&store, "").is_empty());
}

#[test]
fn only_what_follows_is_written() {
    let (_, backend) = locked();
    let write = |bytes: &[u8]| backend.write_state(STEP, bytes, Some("me"));
    write(&state("l", 7, "a")).unwrap();
    assert!(matches!(
        write(&state("l", 5, "a")),
        Err(BackendError::OlderSerial {
            stored: 7,
            offered: 5,
            ..
        })
    ));
    assert!(matches!(
        write(&state("l", 7, "b")),
        Err(BackendError::SameSerial { serial: 7, .. })
    ));
    assert!(matches!(
        write(&state("m", 8, "a")),
        Err(BackendError::Lineage { .. })
    ));
    assert!(matches!(
        write(&state("", 8, "a")),
        Err(BackendError::Lineage { .. })
    ));
    assert!(matches!(write(b"{}"), Err(BackendError::NotAState { .. })));
    assert_eq!(write(&state("l", 7, "a")).unwrap(), Written::Already);
    assert_eq!(bytes(&backend), Some(state("l", 7, "a")));
    assert!(serials(&backend).is_empty(), "nothing was replaced");
    assert_eq!(write(&state("l", 8, "a")).unwrap(), Written::New);
}

#[test]
fn an_empty_lineage_becomes_a_set_one_once() {
    let (_, backend) = locked();
    let write = |bytes: &[u8]| backend.write_state(STEP, bytes, Some("me"));
    write(&state("", 3, "a")).unwrap();
    assert!(matches!(
        write(&state("l", 2, "a")),
        Err(BackendError::OlderSerial { .. })
    ));
    write(&state("l", 3, "a")).unwrap();
    assert!(matches!(
        write(&state("m", 4, "a")),
        Err(BackendError::Lineage { .. })
    ));
    assert!(matches!(
        write(&state("", 4, "a")),
        Err(BackendError::Lineage { .. })
    ));
}

#[test]
fn the_version_before_is_kept_and_of_many_the_last() {
    let (_, backend) = locked();
    for serial in 1..=25 {
        backend
            .write_state(STEP, &state("l", serial, "a"), Some("me"))
            .unwrap();
    }
    assert_eq!(serials(&backend), (5..=24).collect::<Vec<_>>());
    assert_eq!(serials(&backend).len(), N_VERSIONS);
    let versions = backend.versions(STEP).unwrap();
    let version = backend.read_version(&versions[0]).unwrap().unwrap();
    assert_eq!(version.bytes, state("l", 5, "a"));
}

#[test]
fn a_step_that_is_built_again_loses_no_version_of_its_former_life() {
    let (store, backend) = locked();
    for serial in [1, 2, 9] {
        backend
            .write_state(STEP, &state("old", serial, "a"), Some("me"))
            .unwrap();
    }
    backend.unlock(STEP, "me").unwrap();
    assert!(backend.retire(STEP).unwrap());
    assert!(!backend.retire(STEP).unwrap());
    assert_eq!(
        keys(&store, "state/"),
        ["state/1a/edge@1", "state/1a/edge@2", "state/1a/edge@9"]
    );
    assert!(backend.list_states().unwrap().is_empty());

    let backend = with_fence(&store, 2);
    backend.lock(STEP, &info("me")).unwrap();
    for serial in 1..=20 {
        backend
            .write_state(STEP, &state("new", serial, "a"), Some("me"))
            .unwrap();
    }
    // 22 were made; the two oldest are of the former life, whatever their serials.
    let versions = backend.versions(STEP).unwrap();
    assert_eq!(versions.len(), N_VERSIONS);
    let of_old: Vec<_> = versions
        .iter()
        .filter(|version| {
            let file = backend.read_version(version).unwrap().unwrap();
            file.header.lineage == "old"
        })
        .map(|version| version.serial)
        .collect();
    assert_eq!(of_old, [9]);
}

#[test]
fn a_repeated_lock_and_unlock_change_nothing() {
    let (_, backend) = locked();
    backend.lock(STEP, &info("me")).unwrap();
    assert!(matches!(
        backend.lock(STEP, &info("other")),
        Err(BackendError::Locked { lock, .. }) if lock.info == info("me") && lock.writer == writer()
    ));
    assert!(matches!(
        backend.unlock(STEP, "other"),
        Err(BackendError::Locked { .. })
    ));
    backend.unlock(STEP, "me").unwrap();
    backend.unlock(STEP, "me").unwrap();
    assert!(matches!(
        backend.unlock(STEP, "other"),
        Err(BackendError::UnknownLock { .. })
    ));
    assert_eq!(backend.lock_of(STEP).unwrap(), None);
    backend.lock(STEP, &info("other")).unwrap();
    assert!(matches!(
        backend.unlock(STEP, "me"),
        Err(BackendError::Locked { .. })
    ));
}

#[test]
fn of_many_one_gets_the_lock() {
    let store = Arc::new(MemoryStore::new());
    let backend = with_fence(&store, 1);
    let got: Vec<_> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..8)
            .map(|asker| {
                scope.spawn({
                    let backend = &backend;
                    move || backend.lock(STEP, &info(&format!("id-{asker}"))).is_ok()
                })
            })
            .collect();
        askers
            .into_iter()
            .map(|asker| asker.join().unwrap())
            .collect()
    });
    assert_eq!(got.iter().filter(|got| **got).count(), 1);
}

#[test]
fn a_lock_is_released_only_by_proof() {
    let (_, backend) = locked();
    assert_eq!(
        backend.release_lock_of_dead(STEP, &|_| false).unwrap(),
        None
    );
    assert!(backend.lock_of(STEP).unwrap().is_some());
    let released = backend
        .release_lock_of_dead(STEP, &|of| *of == writer())
        .unwrap();
    assert_eq!(released.unwrap().info, info("me"));
    assert_eq!(backend.lock_of(STEP).unwrap(), None);
    assert_eq!(backend.release_lock_of_dead(STEP, &|_| true).unwrap(), None);
}

#[test]
fn a_rescue_is_written_byte_for_byte_where_nobody_holds_the_lock() {
    let (_, backend) = locked();
    backend
        .write_state(STEP, &state("l", 3, "a"), Some("me"))
        .unwrap();
    assert!(matches!(
        backend.write_rescued(STEP, &state("l", 4, "b")),
        Err(BackendError::Locked { .. })
    ));
    assert!(matches!(
        backend.retire(STEP),
        Err(BackendError::Locked { .. })
    ));
    backend.unlock(STEP, "me").unwrap();
    assert!(matches!(
        backend.write_rescued(STEP, &state("m", 4, "b")),
        Err(BackendError::Lineage { .. })
    ));
    assert!(matches!(
        backend.write_rescued(STEP, &state("l", 2, "b")),
        Err(BackendError::OlderSerial { .. })
    ));
    backend.write_rescued(STEP, &state("l", 4, "b")).unwrap();
    assert_eq!(
        backend.write_rescued(STEP, &state("l", 4, "b")).unwrap(),
        Written::Already
    );
    assert_eq!(bytes(&backend), Some(state("l", 4, "b")));
}

#[test]
fn what_the_record_knows_must_be_there() {
    let (_, backend) = locked();
    let demand = |lineage: &str, serial| Demand {
        lineage: lineage.into(),
        serial,
    };
    let read = |demand: Demand| backend.read_demanded(STEP, &demand);
    assert!(matches!(
        read(demand("l", 2)),
        Err(BackendError::Lost { serial: 2, .. })
    ));
    backend
        .write_state(STEP, &state("l", 2, "a"), Some("me"))
        .unwrap();
    assert_eq!(read(demand("l", 2)).unwrap().header.serial, 2);
    assert_eq!(read(demand("l", 1)).unwrap().header.serial, 2);
    assert_eq!(read(demand("", 1)).unwrap().header.serial, 2);
    assert!(matches!(
        read(demand("l", 3)),
        Err(BackendError::NotTheRecorded { .. })
    ));
    assert!(matches!(
        read(demand("m", 2)),
        Err(BackendError::NotTheRecorded { .. })
    ));
}

#[test]
fn nothing_is_written_once_the_targets_lock_is_lost() {
    let store = Arc::new(MemoryStore::new());
    let hold = Arc::new(AtomicU8::new(0));
    let asked = Arc::clone(&hold);
    let guard: Guard = Arc::new(move || match asked.load(Ordering::Relaxed) {
        0 => Hold::Held,
        1 => Hold::Unsure,
        _ => Hold::Lost,
    });
    let shared: Arc<dyn Store> = Arc::<MemoryStore>::clone(&store);
    let backend = StateBackend::new(shared, 1, writer(), guard);
    backend.lock(STEP, &info("me")).unwrap();
    backend
        .write_state(STEP, &state("l", 1, "a"), Some("me"))
        .unwrap();
    let before = (keys(&store, ""), store.n_writes());
    for (level, is_transient) in [(1, true), (2, false)] {
        hold.store(level, Ordering::Relaxed);
        let errors = [
            backend
                .write_state(STEP, &state("l", 2, "a"), Some("me"))
                .unwrap_err(),
            backend.delete_state(STEP, Some("me")).unwrap_err(),
            backend.lock("1a/dns", &info("me")).unwrap_err(),
            backend.unlock(STEP, "me").unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.is_transient(), is_transient, "{error}");
            assert!(
                matches!(error, BackendError::LockLost | BackendError::LockUnsure),
                "{error}"
            );
        }
        assert_eq!(backend.read_state(STEP).unwrap().unwrap().header.serial, 1);
    }
    assert_eq!((keys(&store, ""), store.n_writes()), before);
}

#[test]
fn a_stale_writer_is_shut_out_by_a_take_over_even_if_it_does_not_know() {
    let (store, stale) = locked();
    stale
        .write_state(STEP, &state("l", 1, "a"), Some("me"))
        .unwrap();
    let mut identity = Identity::of_self().unwrap();
    identity.start_time += 1;
    let holder = |identity| Holder {
        identity,
        user: "ann".into(),
        host: "lab".into(),
        run: None,
        command: "up".into(),
        since: String::new(),
    };
    let shared: Arc<dyn Store> = Arc::<MemoryStore>::clone(&store);
    let take = |identity| {
        TargetLock::acquire(
            Arc::clone(&shared),
            holder(identity),
            Duration::from_secs(60),
            &mut |_| {},
        )
    };
    let taken = take(identity).unwrap();
    // The first holder is one that is dead; its lock is found and taken over.
    std::mem::forget(taken);
    let lock = take(Identity::of_self().unwrap()).unwrap();
    assert!(lock.fence() > 1);
    for error in [
        stale
            .write_state(STEP, &state("l", 2, "a"), Some("me"))
            .unwrap_err(),
        stale.unlock(STEP, "me").unwrap_err(),
        stale.delete_state(STEP, Some("me")).unwrap_err(),
    ] {
        assert!(matches!(error, BackendError::LockLost), "{error}");
    }
    let next = with_fence(&store, lock.fence());
    assert_eq!(bytes(&next), Some(state("l", 1, "a")));
    next.write_state(STEP, &state("l", 2, "a"), Some("me"))
        .unwrap();
}

#[test]
fn a_take_over_between_reading_and_writing_is_noticed() {
    let (store, backend) = locked();
    backend
        .write_state(STEP, &state("l", 1, "a"), Some("me"))
        .unwrap();
    let other = Arc::downgrade(&store);
    store.on_operation(move |operation| {
        if operation.kind == OperationKind::PutIfMatch {
            let store = other.upgrade().unwrap();
            with_fence(&store, 2)
                .write_state(STEP, &state("l", 2, "theirs"), Some("me"))
                .unwrap();
        }
        Fault::None
    });
    let error = backend
        .write_state(STEP, &state("l", 2, "ours"), Some("me"))
        .unwrap_err();
    store.heal();
    assert!(matches!(error, BackendError::LockLost), "{error}");
    assert_eq!(bytes(&backend), Some(state("l", 2, "theirs")));
}

#[test]
fn a_write_cut_anywhere_leaves_one_whole_state_and_can_be_repeated() {
    let mut n_cut = 0;
    for cut in 1.. {
        let (store, backend) = locked();
        backend
            .write_state(STEP, &state("l", 1, "a"), Some("me"))
            .unwrap();
        store.fail_from_write(cut);
        let done = backend.write_state(STEP, &state("l", 2, "b"), Some("me"));
        store.heal();
        if done.is_ok() {
            break;
        }
        n_cut += 1;
        assert!(done.unwrap_err().is_transient());
        let again = with_fence(&store, 1);
        assert_eq!(bytes(&again), Some(state("l", 1, "a")));
        assert_eq!(again.lock_of(STEP).unwrap().unwrap().info, info("me"));
        again
            .write_state(STEP, &state("l", 2, "b"), Some("me"))
            .unwrap();
        assert_eq!(serials(&again), [1]);
    }
    assert_eq!(n_cut, 2, "the version and the state");
}

#[test]
fn lost_answers_of_the_store_are_no_failures() {
    for lost in 1..=4 {
        let store = Arc::new(MemoryStore::new());
        let backend = with_fence(&store, 1);
        store.fault_on_write(lost, Fault::LoseAnswer);
        backend.lock(STEP, &info("me")).unwrap();
        backend
            .write_state(STEP, &state("l", 1, "a"), Some("me"))
            .unwrap();
        backend
            .write_state(STEP, &state("l", 2, "a"), Some("me"))
            .unwrap();
        assert_eq!(bytes(&backend), Some(state("l", 2, "a")));
        assert_eq!(serials(&backend), [1]);
    }
}

#[test]
fn damage_is_an_error_and_never_no_state() {
    let (store, backend) = locked();
    backend
        .write_state(STEP, &state("l", 1, "a"), Some("me"))
        .unwrap();
    let key = layout::state(STEP).unwrap();
    let mut body = store.get(&key).unwrap().unwrap().bytes;
    body.pop();
    store.set(&key, body);
    assert!(matches!(
        backend.read_state(STEP),
        Err(BackendError::Damaged { .. })
    ));
    let write = backend.write_state(STEP, &state("l", 2, "a"), Some("me"));
    assert!(matches!(write, Err(BackendError::Damaged { .. })));
    store.set(&key, "");
    assert!(matches!(
        backend.read_state(STEP),
        Err(BackendError::Damaged { .. })
    ));
    store.set(&layout::state_lock(STEP).unwrap(), "{}");
    assert!(matches!(
        backend.lock_of(STEP),
        Err(BackendError::DamagedLock { .. })
    ));
    store.on_operation(|_| Fault::Fail);
    assert!(matches!(
        backend.read_state(STEP),
        Err(BackendError::Read(_))
    ));
}

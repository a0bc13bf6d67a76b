//! The lock: who may take it, when, and what it shuts out.

use super::*;
use crate::{Fault, Key, MemoryStore, OperationKind, layout};
use process::Identity;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const LEASE: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(600);

fn holder(command: &str) -> Holder {
    Holder {
        identity: Identity::of_self().unwrap(),
        user: "ann".into(),
        host: "lab".into(),
        run: None,
        command: command.into(),
        since: "2026-01-02T03:04:05Z".into(),
    }
}

/// A holder of this boot whose pid was reused.
fn dead() -> Holder {
    let mut holder = holder("up");
    holder.identity.start_time += 1;
    holder
}

fn of_other_boot() -> Holder {
    let mut holder = holder("up");
    holder.identity.boot_id = "another".into();
    holder
}

fn of_other_machine() -> Holder {
    let mut holder = holder("up");
    holder.identity.machine_id = "another".into();
    holder
}

fn acquire(store: &Arc<MemoryStore>, lease: Duration) -> Result<TargetLock, LockError> {
    acquire_as(store, holder("down"), lease)
}

fn acquire_as(
    store: &Arc<MemoryStore>,
    holder: Holder,
    lease: Duration,
) -> Result<TargetLock, LockError> {
    TargetLock::acquire(shared(store), holder, lease, &mut |_| {})
}

fn shared(store: &Arc<MemoryStore>) -> Arc<dyn Store> {
    Arc::<MemoryStore>::clone(store)
}

/// Leaves the lock of `holder` behind, as a kill does.
fn leave(store: &MemoryStore, holder: Holder, fence: u64, lease: Duration) {
    let body = LockBody::new(holder, fence, lease).encode().unwrap();
    store.set(&layout::lock_json(), body);
}

fn found(store: &MemoryStore) -> LockBody {
    inspect(store).unwrap().unwrap()
}

fn within_seconds(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    process::wait::until(deadline, Duration::from_millis(2), || {
        condition().then_some(())
    })
    .is_some()
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// A head, its record, a state with a version, and a state lock, all of fence 4.
fn fill(store: &MemoryStore) {
    store.set(&layout::head(), r#"{"current":"A","fence":4}"#);
    store.set(&key("run/A.json"), r#"{"status":"running","fence":4}"#);
    store.set(&key("state/1a/edge"), "{\"schema\":1,\"fence\":4}\nbytes");
    store.set(&key("state/1a/edge@1"), "{\"schema\":1,\"fence\":3}\nold");
    store.set(&key("lock/1a/edge"), r#"{"fence":4}"#);
}

const MUTABLE: [&str; 4] = [
    "run/head.json",
    "run/A.json",
    "state/1a/edge",
    "lock/1a/edge",
];

#[test]
fn the_second_caller_stops_at_once_and_is_told_who_was_first() {
    let store = Arc::new(MemoryStore::new());
    let first = acquire_as(&store, holder("up"), LONG).unwrap();
    let begun = Instant::now();
    let error = acquire(&store, LONG).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5));
    let pid = std::process::id();
    assert!(
        matches!(&error, LockError::Held { holder, how_to: HowTo::WaitFor { pid: of } }
        if holder.command == "up" && *of == pid)
    );
    let text = error.to_string();
    let said = [
        &format!("pid {pid}"),
        "ann",
        "lab",
        "`up`",
        "2026-01-02T03:04:05Z",
    ];
    assert!(said.iter().all(|part| text.contains(*part)), "{text}");
    first.release().unwrap();
    acquire(&store, LONG).unwrap();
}

#[test]
fn a_release_leaves_no_lock_and_so_does_a_drop() {
    let store = Arc::new(MemoryStore::new());
    acquire(&store, LONG).unwrap().release().unwrap();
    assert_eq!(inspect(&*store).unwrap(), None);
    drop(acquire(&store, LONG).unwrap());
    assert_eq!(inspect(&*store).unwrap(), None);
}

#[test]
fn the_fence_is_higher_than_that_of_the_head() {
    let store = Arc::new(MemoryStore::new());
    assert_eq!(acquire(&store, LONG).unwrap().fence(), 1);
    fill(&store);
    assert_eq!(acquire(&store, LONG).unwrap().fence(), 5);
}

/// A target that has a workspace and never had a run: what a takeover raised is not gone below.
#[test]
fn without_a_head_the_fence_is_higher_than_that_of_any_value() {
    let store = Arc::new(MemoryStore::new());
    store.set(&key("workspace/prod"), "{\"schema\":1,\"fence\":2}\nbytes");
    store.set(&key("workspace/damaged"), "no header");
    assert_eq!(acquire(&store, LONG).unwrap().fence(), 3);
}

#[test]
fn of_many_callers_one_gets_the_lock() {
    for former in [None, Some(dead())] {
        let store = Arc::new(MemoryStore::new());
        fill(&store);
        if let Some(former) = former {
            leave(&store, former, 4, LONG);
        }
        let locks: Vec<_> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| acquire(&store, LONG)))
                .collect();
            callers
                .into_iter()
                .map(|caller| caller.join().unwrap())
                .collect()
        });
        assert_eq!(locks.iter().filter(|lock| lock.is_ok()).count(), 1);
        assert!(
            locks
                .iter()
                .all(|lock| matches!(lock, Ok(_) | Err(LockError::Held { .. })))
        );
    }
}

#[test]
fn a_proven_dead_holder_is_taken_over_at_once_and_its_writes_fail() {
    let store = Arc::new(MemoryStore::new());
    fill(&store);
    leave(&store, dead(), 4, LONG);
    let stale: Vec<_> = MUTABLE
        .iter()
        .map(|at| (key(at), store.get(&key(at)).unwrap().unwrap().tag))
        .collect();
    let mut notices = Vec::new();
    let lock = TargetLock::acquire(shared(&store), holder("down"), LONG, &mut |notice| {
        notices.push(notice);
    })
    .unwrap();
    assert_eq!(
        notices,
        [LockNotice::TakingOver {
            holder: Some(dead())
        }]
    );
    assert_eq!(lock.fence(), 5);
    for (key, tag) in stale {
        let value = store.get(&key).unwrap().unwrap();
        assert!(
            String::from_utf8_lossy(&value.bytes).contains("\"fence\":5"),
            "{key}"
        );
        assert!(
            store
                .put_if_match(&key, b"stale", &tag)
                .unwrap_err()
                .is_conflict(),
            "{key}"
        );
    }
    let version = store.get(&key("state/1a/edge@1")).unwrap().unwrap();
    assert!(
        version.bytes.ends_with(b"\nold")
            && version.bytes.starts_with(b"{\"schema\":1,\"fence\":3}")
    );
}

#[test]
fn a_stale_write_in_the_midst_of_a_take_over_is_fenced_too() {
    let store = Arc::new(MemoryStore::new());
    fill(&store);
    leave(&store, dead(), 4, LONG);
    let (other, done) = (Arc::downgrade(&store), AtomicBool::new(false));
    store.on_operation(move |operation| {
        let is_it = operation.kind == OperationKind::PutIfMatch && operation.key == "state/1a/edge";
        if is_it && !done.swap(true, Ordering::Relaxed) {
            let store = other.upgrade().unwrap();
            store.set(&key("state/1a/edge"), "{\"schema\":1,\"fence\":4}\nnewer");
        }
        Fault::None
    });
    let _lock = acquire(&store, LONG).unwrap();
    let state = store.get(&key("state/1a/edge")).unwrap().unwrap();
    assert_eq!(state.bytes, b"{\"schema\":1,\"fence\":5}\nnewer");
}

#[test]
fn a_holder_before_another_boot_is_watched_for_one_lease() {
    let store = Arc::new(MemoryStore::new());
    leave(&store, of_other_boot(), 7, LEASE);
    let (begun, mut notices) = (Instant::now(), Vec::new());
    let lock = TargetLock::acquire(shared(&store), holder("up"), LONG, &mut |notice| {
        notices.push((notice, begun.elapsed()));
    })
    .unwrap();
    assert_eq!(lock.fence(), 8);
    assert!(
        matches!(&notices[0], (LockNotice::Waiting { lease, .. }, at) if *lease == LEASE && *at < LEASE)
    );
    assert!(matches!(&notices[1], (LockNotice::TakingOver { .. }, at) if *at >= LEASE));
}

#[test]
fn a_holder_before_another_boot_that_beats_is_left_alone() {
    let store = Arc::new(MemoryStore::new());
    let clone = acquire_as(&store, of_other_boot(), LEASE).unwrap();
    let error = acquire(&store, LONG).unwrap_err();
    assert!(matches!(
        error,
        LockError::Held {
            how_to: HowTo::Unlock,
            ..
        }
    ));
    assert!(!clone.is_lost());
    clone.release().unwrap();
}

#[test]
fn a_lock_that_is_given_up_while_it_is_watched_is_taken() {
    let store = Arc::new(MemoryStore::new());
    leave(&store, of_other_boot(), 7, LONG);
    let remover = Arc::clone(&store);
    let lock = TargetLock::acquire(shared(&store), holder("up"), LONG, &mut |notice| {
        assert!(matches!(notice, LockNotice::Waiting { .. }));
        remover.remove(&layout::lock_json());
    });
    assert_eq!(lock.unwrap().fence(), 1);
}

#[test]
fn a_holder_elsewhere_is_never_judged() {
    let store = Arc::new(MemoryStore::new());
    let mut of_other_namespace = holder("up");
    of_other_namespace.identity.pid_namespace = "pid:[1]".into();
    for former in [of_other_machine(), of_other_namespace] {
        leave(&store, former.clone(), 1, Duration::from_millis(1));
        let before = found(&store);
        let error = acquire(&store, LONG).unwrap_err();
        assert!(
            matches!(error, LockError::Held { holder, how_to: HowTo::Unlock } if *holder == former)
        );
        assert_eq!(found(&store), before);
    }
}

#[test]
fn renewal_beats_and_keeps_the_lock() {
    let store = Arc::new(MemoryStore::new());
    let lock = acquire(&store, LEASE).unwrap();
    assert!(within_seconds(|| found(&store).beat >= 4));
    assert_eq!(lock.handle().hold(), Hold::Held);
    assert_eq!(found(&store).lease(), LEASE);
    lock.release().unwrap();
}

#[test]
fn the_run_is_named_once_it_is_known() {
    let store = Arc::new(MemoryStore::new());
    let lock = acquire(&store, LONG).unwrap();
    lock.set_run("01J").unwrap();
    assert_eq!(found(&store).holder.run.as_deref(), Some("01J"));
    assert!(found(&store).holder.to_string().contains("run 01J"));
    lock.release().unwrap();
}

#[test]
fn lost_answers_lose_no_lock() {
    let store = Arc::new(MemoryStore::new());
    store.fault_on_write(1, Fault::LoseAnswer);
    let lock = acquire(&store, LONG).unwrap();
    store.fault_on_write(1, Fault::LoseAnswer);
    lock.set_run("01J").unwrap();
    // A renewal lands, its answer is lost, and so is the look at what became of it.
    let cut = AtomicBool::new(false);
    store.on_operation(move |operation| match operation.kind {
        OperationKind::PutIfMatch if !cut.swap(true, Ordering::Relaxed) => Fault::LoseAnswer,
        OperationKind::Get => Fault::Fail,
        _ => Fault::None,
    });
    lock.set_run("01K").unwrap();
    store.heal();
    lock.set_run("01L").unwrap();
    assert!(!lock.is_lost());
    assert_eq!(found(&store).holder.run.as_deref(), Some("01L"));
    store.fault_on_write(1, Fault::LoseAnswer);
    lock.release().unwrap();
    assert_eq!(inspect(&*store).unwrap(), None);
}

#[test]
fn an_outage_makes_unsure_and_its_end_makes_sure_again() {
    let store = Arc::new(MemoryStore::new());
    let lock = acquire(&store, LEASE).unwrap();
    let handle = lock.handle();
    store.on_operation(|_| Fault::Fail);
    assert!(within_seconds(|| handle.hold() == Hold::Unsure));
    assert!(!lock.is_lost());
    store.heal();
    assert_eq!(handle.hold(), Hold::Held);
    lock.release().unwrap();
}

#[test]
fn a_lock_taken_by_another_is_lost_for_good_and_stays_the_others() {
    let store = Arc::new(MemoryStore::new());
    let stale = acquire(&store, LEASE).unwrap();
    leave(&store, of_other_machine(), 9, LONG);
    assert!(within_seconds(|| stale.is_lost()));
    assert_eq!(stale.handle().hold(), Hold::Lost);
    assert!(matches!(stale.set_run("x"), Err(LockError::Lost { .. })));
    assert!(matches!(stale.release(), Err(LockError::Lost { .. })));
    assert_eq!(found(&store).holder, of_other_machine());
}

#[test]
fn a_lock_lost_unnoticed_is_not_deleted_by_release() {
    let store = Arc::new(MemoryStore::new());
    let stale = acquire(&store, LONG).unwrap();
    leave(&store, of_other_machine(), 9, LONG);
    assert!(matches!(stale.release(), Err(LockError::Lost { .. })));
    assert_eq!(found(&store).holder, of_other_machine());
}

#[test]
fn unlock_removes_a_holder_that_shows_no_life_and_fences_it() {
    let store = Arc::new(MemoryStore::new());
    fill(&store);
    leave(&store, of_other_machine(), 4, LEASE);
    let stale = store.get(&layout::head()).unwrap().unwrap().tag;
    let begun = Instant::now();
    let mut notices = Vec::new();
    let removed = unlock(
        shared(&store),
        holder("unlock"),
        Duration::ZERO,
        &mut |notice| {
            notices.push(notice);
        },
    )
    .unwrap();
    assert!(begun.elapsed() >= LEASE, "the lock's own lease is waited");
    assert_eq!(removed.holder, Some(of_other_machine()));
    assert!(matches!(notices[0], LockNotice::Waiting { .. }));
    assert_eq!(inspect(&*store).unwrap(), None);
    assert!(
        store
            .put_if_match(&layout::head(), b"stale", &stale)
            .unwrap_err()
            .is_conflict()
    );
    assert_eq!(acquire(&store, LONG).unwrap().fence(), 6);
}

#[test]
fn unlock_refuses_while_the_holder_beats() {
    let store = Arc::new(MemoryStore::new());
    let alive = acquire_as(&store, of_other_machine(), LEASE).unwrap();
    let error = unlock(shared(&store), holder("unlock"), LEASE, &mut |_| {}).unwrap_err();
    assert!(matches!(error, LockError::Beating { holder } if *holder == of_other_machine()));
    assert!(!alive.is_lost());
    alive.release().unwrap();
    let error = unlock(shared(&store), holder("unlock"), LEASE, &mut |_| {}).unwrap_err();
    assert!(matches!(error, LockError::NotLocked { .. }));
}

#[test]
fn unlock_needs_no_wait_for_the_proven_dead() {
    let store = Arc::new(MemoryStore::new());
    leave(&store, dead(), 4, LONG);
    let removed = unlock(shared(&store), holder("unlock"), LONG, &mut |_| {}).unwrap();
    assert_eq!(removed.holder, Some(dead()));
}

#[test]
fn a_damaged_lock_stops_everyone_until_it_is_unlocked() {
    let store = Arc::new(MemoryStore::new());
    fill(&store);
    store.set(&layout::lock_json(), "{");
    assert!(matches!(
        acquire(&store, LONG),
        Err(LockError::Unreadable { .. })
    ));
    assert!(matches!(
        inspect(&*store),
        Err(LockError::Unreadable { .. })
    ));
    let removed = unlock(shared(&store), holder("unlock"), LEASE, &mut |_| {}).unwrap();
    assert_eq!(removed.holder, None);
    assert_eq!(acquire(&store, LONG).unwrap().fence(), 6);
}

#[test]
fn a_lock_of_a_newer_schema_is_not_misread() {
    let store = Arc::new(MemoryStore::new());
    store.set(&layout::lock_json(), r#"{"schema":2,"holder":"someone"}"#);
    assert!(matches!(
        acquire(&store, LONG),
        Err(LockError::Newer { found: 2, .. })
    ));
}

#[test]
fn a_take_over_that_is_cut_anywhere_is_done_again_whole() {
    let mut n_cut = 0;
    for cut in 1.. {
        let store = Arc::new(MemoryStore::new());
        fill(&store);
        leave(&store, dead(), 4, LONG);
        store.fail_from_write(cut);
        let taken = acquire(&store, LONG);
        store.heal();
        if taken.is_ok() {
            break;
        }
        n_cut += 1;
        // Its process is still there: what it left must not look free, or as if it were fenced.
        let left = found(&store);
        let mut gone = left.clone();
        gone.holder.identity.start_time += 1;
        store.set(&layout::lock_json(), gone.encode().unwrap());
        let lock = acquire(&store, LONG).unwrap();
        assert!(lock.fence() > left.fence);
        for at in MUTABLE {
            let value = store.get(&key(at)).unwrap().unwrap();
            let fence = format!("\"fence\":{}", lock.fence());
            assert!(
                String::from_utf8_lossy(&value.bytes).contains(&fence),
                "{at} after cut {cut}"
            );
        }
    }
    assert_eq!(n_cut, 1 + MUTABLE.len());
}

#[test]
fn a_lock_in_a_directory_is_seen_by_another_instance() {
    let dir = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn Store> { Arc::new(crate::LocalStore::open(dir.path().join("new"))) };
    let lock = TargetLock::acquire(open(), holder("up"), LONG, &mut |_| {}).unwrap();
    assert_eq!(inspect(&*open()).unwrap().unwrap().holder, holder("up"));
    assert!(matches!(
        TargetLock::acquire(open(), holder("up"), LONG, &mut |_| {}),
        Err(LockError::Held { .. })
    ));
    lock.release().unwrap();
    assert_eq!(open().list("").unwrap(), []);
}

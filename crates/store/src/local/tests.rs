//! The local store: the contract, its permissions, and what it leaves on disk.

use super::*;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_local_store_holds_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let n = std::cell::Cell::new(0);
    crate::contract::check(&|| {
        n.set(n.get() + 1);
        Arc::new(LocalStore::open(
            dir.path().join(format!("store-{}", n.get())),
        ))
    });
}

/// Fifty at once, as on every store.
#[test]
fn of_fifty_writers_one_wins_each_round() {
    let dir = tempfile::tempdir().unwrap();
    let store = |name: &str| Arc::new(LocalStore::open(dir.path().join(name)));
    crate::contract::one_of_many_replaces(store("replace"), 50, 10);
    crate::contract::one_of_many_creates(store("create"), 50, 5);
}

/// A local store whose next write lands and is told as a failure, as of a file system over a network.
struct Forgetful {
    store: LocalStore,
    forgets: AtomicBool,
}

impl Forgetful {
    fn told<T>(&self, key: &Key, done: Result<T, WriteError>) -> Result<T, WriteError> {
        if !self.forgets.swap(false, Ordering::Relaxed) {
            return done;
        }
        done.and(Err(WriteError::Unreachable {
            store: self.describe(),
            key: key.clone(),
            source: "the answer was lost".into(),
        }))
    }
}

impl Store for Forgetful {
    fn describe(&self) -> String {
        self.store.describe()
    }
    fn get(&self, key: &Key) -> Result<Option<Versioned>, ReadError> {
        self.store.get(key)
    }
    fn put_if_absent(&self, key: &Key, body: &[u8]) -> Result<Tag, WriteError> {
        self.told(key, self.store.put_if_absent(key, body))
    }
    fn put_if_match(&self, key: &Key, body: &[u8], tag: &Tag) -> Result<Tag, WriteError> {
        self.told(key, self.store.put_if_match(key, body, tag))
    }
    fn delete_if_match(&self, key: &Key, tag: &Tag) -> Result<(), WriteError> {
        self.told(key, self.store.delete_if_match(key, tag))
    }
    fn list(&self, prefix: &str) -> Result<Vec<Key>, ReadError> {
        self.store.list(prefix)
    }
}

#[test]
fn a_write_whose_answer_is_lost_is_settled() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Forgetful {
        store: LocalStore::open(dir.path()),
        forgets: AtomicBool::new(false),
    });
    let lose_next = || store.forgets.store(true, Ordering::Relaxed);
    let shared = Arc::<Forgetful>::clone(&store);
    crate::contract::lost_answers_are_settled(shared, &lose_next);
}

#[test]
fn two_instances_on_one_directory_are_one_store() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (LocalStore::open(dir.path()), LocalStore::open(dir.path()));
    let tag = one.put_if_absent(&key("a/b"), b"1").unwrap();
    assert!(
        other
            .put_if_absent(&key("a/b"), b"2")
            .unwrap_err()
            .is_conflict()
    );
    other.put_if_match(&key("a/b"), b"2", &tag).unwrap();
    assert!(
        one.put_if_match(&key("a/b"), b"3", &tag)
            .unwrap_err()
            .is_conflict()
    );
}

#[test]
fn reading_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("no/such/store");
    let store = LocalStore::open(&root);
    assert!(store.get(&key("lock.json")).unwrap().is_none());
    assert!(store.list("").unwrap().is_empty());
    assert!(
        store
            .delete_if_match(&key("a"), &Tag::of(b""))
            .unwrap_err()
            .is_conflict()
    );
    assert!(!dir.path().join("no").exists());
}

#[test]
fn directories_are_0700_and_files_0600() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("new/store");
    LocalStore::open(&root)
        .put_if_absent(&key("state/1a/edge"), b"x")
        .unwrap();
    for made in ["new", "new/store", "new/store/state", "new/store/state/1a"] {
        assert_eq!(mode(&dir.path().join(made)), 0o700, "{made}");
    }
    for made in ["state/1a/edge", LOCK_FILE] {
        assert_eq!(mode(&root.join(made)), 0o600, "{made}");
    }
}

#[test]
fn directories_that_a_delete_empties_go_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path());
    let edge = store.put_if_absent(&key("state/1a/edge"), b"x").unwrap();
    let dns = store.put_if_absent(&key("state/1a/dns"), b"x").unwrap();
    store.delete_if_match(&key("state/1a/edge"), &edge).unwrap();
    assert!(dir.path().join("state/1a/dns").exists());
    store.delete_if_match(&key("state/1a/dns"), &dns).unwrap();
    assert!(!dir.path().join("state").exists());
    assert!(dir.path().exists());
}

#[test]
fn what_is_no_value_is_not_listed_and_what_a_kill_left_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let first = LocalStore::open(dir.path());
    first.put_if_absent(&key("state/1a/edge"), b"x").unwrap();
    let left = dir.path().join("state/1a").join(".edge.1-0.tmp");
    write_durably(&left, b"half", None).unwrap();
    write_durably(&dir.path().join("state/a note.txt"), b"mine", None).unwrap();
    assert_eq!(first.list("").unwrap(), [key("state/1a/edge")]);
    LocalStore::open(dir.path())
        .put_if_absent(&key("b"), b"x")
        .unwrap();
    assert!(!left.exists());
    assert!(dir.path().join("state/a note.txt").exists());
}

#[test]
fn a_failure_names_the_store_and_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    write_durably(&file, b"", None).unwrap();
    let store = LocalStore::open(file.join("store"));
    let error = store.put_if_absent(&key("a/b"), b"x").unwrap_err();
    assert!(matches!(error, WriteError::Unreachable { .. }));
    let text = error.to_string();
    assert!(
        text.contains("`a/b`") && text.contains("file/store"),
        "{text}"
    );
}

#[test]
fn a_lock_that_a_power_cut_blanked_is_none_and_its_directory_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path().join("store"));
    let lock = key("lock/0/step");
    let path = store.root().join("lock/0/step");
    for blank in [&b""[..], &[0; 40]] {
        let tag = store.put_if_absent(&lock, b"held").unwrap();
        process::files::write_passing(&path, blank, 0o600).unwrap();
        assert!(store.get(&lock).unwrap().is_none());
        assert!(store.put_if_match(&lock, b"mine", &tag).is_err());
        let tag = store.put_if_absent(&lock, b"taken").unwrap();
        store.delete_if_match(&lock, &tag).unwrap();
        assert!(!path.exists() && path.parent().unwrap().is_dir());
    }
    // Of no other value is that said.
    let value = key("run/head.json");
    store.put_if_absent(&value, b"{}").unwrap();
    process::files::write_passing(&store.root().join("run/head.json"), b"", 0o600).unwrap();
    assert!(store.get(&value).unwrap().is_some());
}

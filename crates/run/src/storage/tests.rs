//! Which store counts, whatever was cut in between.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use cloud_store::Fault;
use record::SCHEMA;
use store::{MemoryStore, layout};

use super::fakes::{Life, Seen, forever};
use super::*;

/// The two places as they lie there, between processes.
#[derive(Default)]
struct Places {
    bucket: Arc<MemoryStore>,
    spool: Arc<MemoryStore>,
}

/// One process that works on the two places.
struct Process {
    storage: Storage,
    bucket: Arc<Seen>,
}

const VALUES: [(&str, &str); 7] = [
    ("keys.json", "{}"),
    ("run/head.json", "{\"fence\":1}"),
    ("run/01A.json", "{\"fence\":1}"),
    ("state/0/bucket", "{\"fence\":1}\nstate 2"),
    ("state/0/bucket@1", "{\"fence\":1}\nstate 1"),
    ("bundle/ab", "sealed"),
    ("workspace/ci", "{\"fence\":1}\nw"),
];

fn target(id: &str) -> TargetJson {
    TargetJson {
        schema: SCHEMA,
        platform: "lab".to_owned(),
        target: TargetName::new("live").unwrap(),
        id: id.to_owned(),
        moved_to: None,
    }
}

fn key(text: &str) -> store::Key {
    store::Key::new(text).unwrap()
}

fn fill_with(store: &MemoryStore, id: &str) {
    for (at, body) in VALUES {
        store.set(&key(at), body);
    }
    let body = serde_json::to_vec(&target(id)).unwrap();
    store.set(&layout::target_json(), body);
}

/// What a store has, the pointers and the lock apart.
fn contents(store: &dyn Store) -> BTreeMap<String, Vec<u8>> {
    store
        .list("")
        .unwrap()
        .into_iter()
        .filter(|key| !["target.json", "moving.json", "lock.json"].contains(&key.as_str()))
        .map(|key| {
            let bytes = store.get(&key).unwrap().unwrap().bytes;
            (key.to_string(), bytes)
        })
        .collect()
}

fn whole() -> BTreeMap<String, Vec<u8>> {
    VALUES
        .iter()
        .map(|(at, body)| ((*at).to_owned(), body.as_bytes().to_vec()))
        .collect()
}

impl Places {
    fn process(&self, life: &Life) -> Process {
        let bucket = Seen::of(&self.bucket, life);
        let named: Arc<dyn Store> = Arc::clone(&bucket) as Arc<dyn Store>;
        let storage = Storage {
            switch: Arc::new(Switch::new(Arc::clone(&named))),
            named,
            spool: Some(Spool {
                store: Seen::of(&self.spool, life),
                dir: "/spool".into(),
                provided: true,
            }),
            name: TargetName::new("live").unwrap(),
            platform: "lab".to_owned(),
            host: "here".to_owned(),
            adopts: false,
        };
        Process { storage, bucket }
    }

    /// A killed process leaves its locks; the next one proves it dead and takes them.
    fn bury(&self) {
        self.bucket.remove(&layout::lock_json());
        self.spool.remove(&layout::lock_json());
    }
}

fn holder() -> Holder {
    Holder {
        identity: process::Identity::of_self().unwrap(),
        user: "ada".to_owned(),
        host: "here".to_owned(),
        run: None,
        command: "up".to_owned(),
        since: String::new(),
    }
}

impl Process {
    fn locks(&self) -> Result<CallLocks, store::lock::LockError> {
        let lease = Duration::from_secs(600);
        let current = self.storage.current();
        let lock = TargetLock::acquire(Arc::clone(&current), holder(), lease, &mut |_| {})?;
        Ok(CallLocks::new(current, lock, lease))
    }

    /// What a call does that comes to the end of phase 0.
    fn up(&self) -> Result<(), Failure> {
        self.act(|locks| self.storage.made(locks, holder()))
    }

    /// What a call does that comes to the teardown of phase 0.
    fn down(&self) -> Result<(), Failure> {
        self.act(|locks| self.storage.going(locks, holder()))
    }

    fn act(
        &self,
        act: impl FnOnce(&CallLocks) -> Result<Option<(String, String)>, Failure>,
    ) -> Result<(), Failure> {
        self.storage.locate()?;
        let locks = self.locks().map_err(|error| stopped(&error))?;
        self.storage.sweep()?;
        let result = act(&locks).map(drop);
        let released = locks.release().map_err(|error| stopped(&error));
        result.and(released)
    }

    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        contents(self.storage.current().as_ref())
    }
}

/// Kills a process before its nth write, for every n, and looks what the next one finds.
fn cut_everywhere(begin: &dyn Fn(&Places), act: &dyn Fn(&Process) -> Result<(), Failure>) -> usize {
    for n in 0..200 {
        let places = Places::default();
        begin(&places);
        let cut = places.process(&Arc::new(AtomicUsize::new(n)));
        let is_done = act(&cut).is_ok();
        drop(cut);
        places.bury();
        let next = places.process(&forever());
        next.storage.locate().unwrap();
        assert!(
            next.contents() == whole(),
            "cut before write {n}: what counts is not whole"
        );
        act(&next).unwrap_or_else(|failure| panic!("cut before write {n}: {failure:?}"));
        let last = places.process(&forever());
        last.storage.locate().unwrap();
        assert!(
            last.contents() == whole(),
            "cut before write {n}, then done"
        );
        if is_done {
            return n;
        }
    }
    panic!("it never came to its end");
}

#[test]
fn killed_between_any_two_writes_of_the_move_up_it_goes_on_from_one_complete_copy() {
    let begin = |places: &Places| {
        fill_with(&places.spool, "id");
        // What a copy long before has left: gone from the spool by now.
        let moving = serde_json::to_vec(&target("id")).unwrap();
        places.bucket.set(&layout::moving_json(), moving);
        places.bucket.set(&key("state/0/former"), "x");
        places.bucket.set(&key("state/0/bucket"), "old");
    };
    let n = cut_everywhere(&begin, &Process::up);
    assert!(n > 2 * VALUES.len(), "it wrote {n} times only");
    let places = Places::default();
    begin(&places);
    places.process(&forever()).up().unwrap();
    assert!(contents(places.bucket.as_ref()) == whole());
    assert!(
        places.spool.list("").unwrap().is_empty(),
        "the spool is swept"
    );
    assert!(places.bucket.get(&layout::moving_json()).unwrap().is_none());
}

#[test]
fn killed_between_any_two_writes_of_the_move_back_it_goes_on_from_one_complete_copy() {
    let begin = |places: &Places| fill_with(&places.bucket, "id");
    let n = cut_everywhere(&begin, &Process::down);
    assert!(n > VALUES.len(), "it wrote {n} times only");
    let places = Places::default();
    begin(&places);
    places.process(&forever()).down().unwrap();
    // The bucket says where everything went, until it is gone.
    let process = places.process(&forever());
    process.storage.locate().unwrap();
    assert!(!process.storage.is_named() && process.contents() == whole());
    let says = target_of(&process.storage.named).unwrap().unwrap();
    assert_eq!(says.moved_to.unwrap().host, "here");
    *process.bucket.says.lock().unwrap() = Some(Seen::missing());
    process.storage.locate().unwrap();
    assert!(!process.storage.is_named());
    // Another machine has no spool, so it can't go on.
    let elsewhere = Places {
        bucket: Arc::clone(&places.bucket),
        ..Places::default()
    };
    let failure = elsewhere.process(&forever()).storage.locate().unwrap_err();
    assert_eq!(failure.exit, ExitCode::Stopped);
    assert!(failure.one_line().contains("`/spool`"), "{failure:?}");
    // Up again, into a bucket that was kept.
    process.bucket.says.lock().unwrap().take();
    process.up().unwrap();
    assert!(process.storage.is_named());
    let says = target_of(&process.storage.named).unwrap().unwrap();
    assert_eq!(says, target("id"));
}

#[test]
fn only_a_definite_word_of_the_cloud_means_not_yet() {
    let places = Places::default();
    let process = places.process(&forever());
    let say = |fault: Fault| {
        *process.bucket.says.lock().unwrap() = Some(fault);
        process.storage.locate()
    };
    say(Seen::missing()).unwrap();
    assert!(!process.storage.is_named());
    let host = "s3.example".to_owned();
    let why = String::new();
    for fault in [
        Fault::Denied {
            answer: why.clone(),
        },
        Fault::UnknownHost { host: host.clone() },
        Fault::NoConnection {
            host: host.clone(),
            why: why.clone(),
        },
        Fault::TimedOut {
            host: host.clone(),
            within: Duration::from_secs(1),
        },
        Fault::BrokenOff {
            host: host.clone(),
            why: why.clone(),
        },
        Fault::NoCredentials { host, why },
        Fault::Unexpected {
            answer: "404 Not Found".to_owned(),
        },
    ] {
        let failure = say(fault.clone()).unwrap_err();
        assert_eq!(failure.exit, ExitCode::Stopped, "{fault}");
        assert!(
            failure.hint.unwrap().contains("nothing was touched"),
            "{fault}"
        );
    }
    // A spool is no reason to guess either.
    fill_with(&places.spool, "id");
    assert!(
        say(Fault::Denied {
            answer: String::new()
        })
        .is_err()
    );
}

#[test]
fn a_bucket_without_a_target_needs_the_spool() {
    let places = Places::default();
    let process = places.process(&forever());
    let failure = process.storage.locate().unwrap_err();
    assert_eq!(failure.exit, ExitCode::Stopped);
    assert!(failure.what.contains("no spool"), "{failure:?}");
    // Whoever takes over the state of what made it begins the build.
    let adopting = Process {
        storage: places.process(&forever()).storage.adopting(true),
        ..places.process(&forever())
    };
    adopting.storage.locate().unwrap();
    assert!(!adopting.storage.is_named());
    fill_with(&places.spool, "id");
    process.storage.locate().unwrap();
    assert!(!process.storage.is_named());
    // A store that no phase makes is taken as it is.
    let mut plain = Places::default().process(&forever());
    plain.storage.spool.as_mut().unwrap().provided = false;
    plain.storage.locate().unwrap();
    assert!(plain.storage.is_named());
    *plain.bucket.says.lock().unwrap() = Some(Seen::missing());
    assert_eq!(plain.storage.locate().unwrap_err().exit, ExitCode::Stopped);
}

#[test]
fn a_store_that_is_someone_elses_is_refused_and_nothing_of_it_is_touched() {
    let other = TargetJson {
        target: TargetName::new("drill").unwrap(),
        ..target("other")
    };
    let moving = serde_json::to_vec(&other).unwrap();
    let free = serde_json::to_vec(&target("another")).unwrap();
    for (at, body, says) in [
        (layout::moving_json(), moving, "belongs to target `drill`"),
        (layout::moving_json(), free, "built apart"),
        (
            key("state/1a/edge"),
            b"x".to_vec(),
            "nothing in it says whose",
        ),
    ] {
        let places = Places::default();
        fill_with(&places.spool, "id");
        places.bucket.set(&at, body.clone());
        let failure = places.process(&forever()).up().unwrap_err();
        assert!(failure.one_line().contains(says), "{failure:?}");
        assert_eq!(places.bucket.list("").unwrap(), std::slice::from_ref(&at));
        assert_eq!(places.bucket.get(&at).unwrap().unwrap().bytes, body);
        assert!(contents(places.spool.as_ref()) == whole());
    }
    // What is no target's is left alone.
    let places = Places::default();
    fill_with(&places.spool, "id");
    places.bucket.set(&key("website/index.html"), "<p>");
    places.process(&forever()).up().unwrap();
    assert!(
        places
            .bucket
            .get(&key("website/index.html"))
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_spool_of_another_build_is_not_swept() {
    let places = Places::default();
    fill_with(&places.bucket, "theirs");
    fill_with(&places.spool, "ours");
    let process = places.process(&forever());
    process.storage.locate().unwrap();
    assert!(process.storage.is_named());
    process.storage.sweep().unwrap();
    assert!(contents(places.spool.as_ref()) == whole());
}

#[test]
fn while_a_move_goes_on_both_stores_are_locked() {
    let places = Places::default();
    fill_with(&places.spool, "id");
    let process = places.process(&forever());
    process.storage.locate().unwrap();
    let locks = process.locks().unwrap();
    process.storage.made(&locks, holder()).unwrap();
    assert!(places.bucket.get(&layout::lock_json()).unwrap().is_some());
    assert!(places.spool.get(&layout::lock_json()).unwrap().is_some());
    assert_eq!(locks.hold(), store::lock::Hold::Held);
    // And back in the same call: nothing may be written any more into a bucket that phase 0 empties.
    process.storage.going(&locks, holder()).unwrap();
    assert!(places.bucket.get(&layout::lock_json()).unwrap().is_none());
    assert!(places.spool.get(&layout::lock_json()).unwrap().is_some());
    assert_eq!(locks.hold(), store::lock::Hold::Held);
    locks.release().unwrap();
    assert_eq!(
        locks.hold(),
        store::lock::Hold::Lost,
        "what holds nothing writes nothing"
    );
}

//! The rules of locks and versions against a small model of them: random sequences of requests by several clients, of
//! store writes that fail, answers that are lost and repeated, and servers that die and come back.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use proptest::prelude::*;
use state_backend::{BackendError, LockInfo, Names, StateBackend, Written};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::lock::Hold;
use store::{Fault, MemoryStore, Store, Writer};

/// A path, one below it, and one beside them.
const PATHS: [&str; 3] = ["a", "a/b", "c"];
const IDS: [&str; 3] = ["ann", "bob", "eve"];
const LINEAGES: [&str; 3] = ["", "l", "m"];

/// What one client asks for.
#[derive(Debug, Clone)]
enum Request {
    Lock(&'static str),
    Unlock(&'static str),
    /// Lock id, lineage, serial, variant of the bytes; whether it goes back (with that lineage named).
    Write(Option<&'static str>, &'static str, u64, u8, bool),
    Delete(Option<&'static str>),
    Read,
}

/// What happens around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    None,
    /// The nth write of the store fails and does nothing.
    StoreFails(u8),
    /// The nth write of the store is done, and the store's answer is lost.
    StoreForgets(u8),
    /// The client does not hear the answer, and asks again.
    AnswerLost,
    /// The server dies after it has answered.
    ServerDies,
}

fn request() -> impl Strategy<Value = Request> {
    let id = || prop::sample::select(&IDS[..]);
    let held = || prop::option::weighted(0.9, id());
    prop_oneof![
        4 => id().prop_map(Request::Lock),
        3 => id().prop_map(Request::Unlock),
        6 => (held(), prop::sample::select(&LINEAGES[..]), 1..6_u64, 0..2_u8, prop::bool::weighted(0.2))
            .prop_map(|(id, lineage, serial, variant, back)| Request::Write(id, lineage, serial, variant, back)),
        1 => held().prop_map(Request::Delete),
        2 => Just(Request::Read),
    ]
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        6 => Just(Mishap::None),
        1 => (1..4_u8).prop_map(Mishap::StoreFails),
        1 => (1..4_u8).prop_map(Mishap::StoreForgets),
        1 => Just(Mishap::AnswerLost),
        1 => Just(Mishap::ServerDies),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    lineage: &'static str,
    serial: u64,
    variant: u8,
}

impl Kept {
    fn bytes(&self) -> Vec<u8> {
        let Self {
            lineage,
            serial,
            variant,
        } = self;
        format!("{{\"serial\":{serial},\"lineage\":\"{lineage}\",\"x\":{variant}}}").into_bytes()
    }
}

/// One state of the model.
#[derive(Debug, Default, Clone)]
struct Model {
    lock: Option<&'static str>,
    state: Option<Kept>,
    /// All that ever was replaced or deleted.
    replaced: BTreeSet<Kept>,
    /// What was released.
    released: VecDeque<&'static str>,
}

/// What the rules say of a request.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    Found(Option<Kept>),
    Refused(&'static str),
}

impl Model {
    fn ask(&mut self, request: &Request) -> Verdict {
        match request {
            Request::Lock(id) => match self.lock {
                Some(held) if held != *id => Verdict::Refused("locked"),
                _ => {
                    self.lock = Some(id);
                    Verdict::Done
                }
            },
            Request::Unlock(id) => match self.lock {
                Some(held) if held != *id => Verdict::Refused("locked"),
                Some(_) => {
                    self.lock = None;
                    self.released.push_back(id);
                    Verdict::Done
                }
                None if self.released.contains(id) => Verdict::Done,
                None => Verdict::Refused("unknown lock"),
            },
            Request::Write(id, lineage, serial, variant, back) => {
                if let Some(refused) = self.not_allowed(*id) {
                    return refused;
                }
                let offered = Kept {
                    lineage,
                    serial: *serial,
                    variant: *variant,
                };
                if let Some(there) = &self.state {
                    if *there == offered {
                        return Verdict::Done;
                    }
                    let gets_lineage = there.lineage.is_empty() && !offered.lineage.is_empty();
                    let follows = there.lineage == offered.lineage || gets_lineage;
                    if !back && !follows {
                        return Verdict::Refused("lineage");
                    }
                    if !back && offered.serial < there.serial {
                        return Verdict::Refused("older");
                    }
                    if !back && offered.serial == there.serial && !gets_lineage {
                        return Verdict::Refused("same serial");
                    }
                    self.replaced.insert(there.clone());
                }
                self.state = Some(offered);
                Verdict::Done
            }
            Request::Delete(id) => {
                if let Some(refused) = self.not_allowed(*id) {
                    return refused;
                }
                self.replaced.extend(self.state.take());
                Verdict::Done
            }
            Request::Read => Verdict::Found(self.state.clone()),
        }
    }

    fn not_allowed(&self, id: Option<&str>) -> Option<Verdict> {
        match self.lock {
            None => Some(Verdict::Refused("not locked")),
            Some(held) if Some(held) != id => Some(Verdict::Refused("locked")),
            Some(_) => None,
        }
    }
}

fn server(store: &Arc<MemoryStore>) -> StateBackend {
    let writer = Writer {
        identity: process::Identity::of_self().unwrap(),
        user: "ann".into(),
        host: "lab".into(),
        run: None,
    };
    let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(store);
    StateBackend::new(store, 1, writer, Arc::new(|| Hold::Held)).named(Names::Paths)
}

/// Asks the real one. `None`: it could not tell, and may have done it.
fn ask(backend: &StateBackend, path: &str, request: &Request) -> Option<Verdict> {
    let done = |result: Result<(), BackendError>| result.map(|()| Verdict::Done);
    let result = match request {
        Request::Lock(id) => {
            let info = format!("{{\"ID\":\"{id}\"}}");
            done(backend.lock(path, &LockInfo::parse(info.as_bytes()).unwrap()))
        }
        Request::Unlock(id) => done(backend.unlock(path, id)),
        Request::Write(id, lineage, serial, variant, back) => {
            let kept = Kept {
                lineage,
                serial: *serial,
                variant: *variant,
            };
            let written = if *back {
                backend.restore(path, &kept.bytes().into(), *id, lineage)
            } else {
                backend.write_state(path, &kept.bytes(), *id)
            };
            written.map(|(Written::New | Written::Already)| Verdict::Done)
        }
        Request::Delete(id) => done(backend.delete_state(path, *id)),
        Request::Read => backend
            .read_state(path)
            .map(|found| Verdict::Found(found.map(|file| kept_of(&file.bytes)))),
    };
    match result {
        Ok(verdict) => Some(verdict),
        Err(error) if error.is_transient() => None,
        Err(error) => Some(Verdict::Refused(match error {
            BackendError::Locked { .. } => "locked",
            BackendError::NotLocked { .. } => "not locked",
            BackendError::UnknownLock { .. } => "unknown lock",
            BackendError::Lineage { .. } => "lineage",
            BackendError::OlderSerial { .. } => "older",
            BackendError::SameSerial { .. } => "same serial",
            other => panic!("{other}"),
        })),
    }
}

fn kept_of(bytes: &[u8]) -> Kept {
    let value: serde_json::Value = serde_json::from_slice(bytes).expect("no half state");
    let lineage = value["lineage"].as_str().unwrap();
    let kept = Kept {
        lineage: LINEAGES.iter().find(|known| **known == lineage).unwrap(),
        serial: value["serial"].as_u64().unwrap(),
        variant: value["x"].as_u64().unwrap().try_into().unwrap(),
    };
    assert_eq!(kept.bytes(), bytes, "no half state");
    kept
}

/// Everything that can be seen of the real one is what the model says.
fn same(backend: &StateBackend, models: &BTreeMap<&str, Model>) {
    for (path, model) in models {
        let lock = backend.lock_of(path).unwrap().map(|lock| lock.info.id);
        assert_eq!(lock.as_deref(), model.lock, "the lock of {path}");
        let state = backend.read_state(path).unwrap();
        assert_eq!(
            state.map(|file| kept_of(&file.bytes)),
            model.state,
            "the state of {path}"
        );
        let mut kept = BTreeSet::new();
        for version in backend.versions(path).unwrap() {
            let file = backend.read_version(&version).unwrap().unwrap();
            assert_eq!(file.header.serial, version.serial);
            kept.insert(kept_of(&file.bytes));
        }
        // A write that failed after it had kept the state before it leaves that as a version beforehand.
        let known: BTreeSet<_> = model.replaced.iter().chain(&model.state).cloned().collect();
        assert!(kept.is_subset(&known), "{path}: {kept:?} of {known:?}");
        if model.replaced.len() < state_backend::N_VERSIONS {
            assert!(
                kept.is_superset(&model.replaced),
                "{path}: {kept:?}, replaced {:?}",
                model.replaced
            );
        }
    }
    let paths = |has: &dyn Fn(&Model) -> bool| -> Vec<String> {
        let with = models.iter().filter(|(_, model)| has(model));
        with.map(|(path, _)| (*path).to_owned()).collect()
    };
    let sorted = |mut listed: Vec<String>| {
        listed.sort();
        listed
    };
    assert_eq!(
        sorted(backend.list_states().unwrap()),
        paths(&|model| model.state.is_some())
    );
    assert_eq!(
        sorted(backend.list_locks().unwrap()),
        paths(&|model| model.lock.is_some())
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cases L1, L5, L9, L10, L16.
    #[test]
    fn every_sequence_of_requests_crashes_and_lost_answers_keeps_the_rules(
        steps in prop::collection::vec((prop::sample::select(&PATHS[..]), request(), mishap()), 1..60)
    ) {
        let store = Arc::new(MemoryStore::new());
        let mut backend = server(&store);
        let mut models: BTreeMap<&str, Model> = PATHS.iter().map(|path| (*path, Model::default())).collect();
        for (path, request, mishap) in &steps {
            match mishap {
                Mishap::StoreFails(nth) => store.fault_on_write(usize::from(*nth), Fault::Fail),
                Mishap::StoreForgets(nth) => store.fault_on_write(usize::from(*nth), Fault::LoseAnswer),
                _ => {}
            }
            let told = ask(&backend, path, request);
            store.heal();
            let model = models.get_mut(path).unwrap();
            match told {
                Some(verdict) => prop_assert_eq!(verdict, model.ask(request), "{} {:?}", path, request),
                // Only a store that fails, or whose "no" is lost, leaves it open; and then nothing was done.
                None => prop_assert!(
                    matches!(mishap, Mishap::StoreFails(_) | Mishap::StoreForgets(_)),
                    "{} {:?}",
                    path,
                    request
                ),
            }
            match mishap {
                // The same request once more finds its own work done, or is refused as before.
                Mishap::AnswerLost => {
                    let again = ask(&backend, path, request);
                    prop_assert_eq!(again, Some(model.ask(request)));
                }
                // What it had released is known to the next one.
                Mishap::ServerDies => backend = server(&store),
                _ => {}
            }
            same(&backend, &models);
        }
    }
}

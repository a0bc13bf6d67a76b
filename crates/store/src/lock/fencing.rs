//! Giving every mutable value of a target a new fencing number.

use super::LockError;
use crate::{Key, Store, Versioned, layout, settle, state_file};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;

/// How often one value is tried while a stale holder keeps changing it.
const MAX_TRIES: usize = 50;

/// The highest fencing number of any mutable value; 0 where there is none.
pub(super) fn highest(store: &dyn Store) -> Result<u64, LockError> {
    let mut highest = 0;
    for key in mutable_keys(store)? {
        if let Some(value) = store.get(&key)? {
            highest = highest.max(fence_of(store, &key, &value)?);
        }
    }
    Ok(highest)
}

/// The fencing number in `run/head.json`; where there is none, as on a target that has workspaces and never had a run, the
/// highest of any value: it goes on from what a takeover has raised it to.
pub(super) fn of_head(store: &dyn Store) -> Result<u64, LockError> {
    let key = layout::head();
    match store.get(&key)? {
        None => {
            let mut highest = 0;
            for key in mutable_keys(store)? {
                // What is damaged is told by whoever needs it, and keeps nobody from the lock.
                let fence = store.get(&key)?.map(|value| fence_of(store, &key, &value));
                highest = highest.max(fence.and_then(Result::ok).unwrap_or_default());
            }
            Ok(highest)
        }
        Some(value) => fence_of(store, &key, &value),
    }
}

/// Rewrites every mutable value with `fence`.
pub(super) fn rewrite_all(store: &dyn Store, fence: u64) -> Result<(), LockError> {
    for key in mutable_keys(store)? {
        rewrite(store, &key, fence)?;
    }
    Ok(())
}

/// Head, records that it names, states (not their versions), states of workspaces, state locks.
fn mutable_keys(store: &dyn Store) -> Result<Vec<Key>, LockError> {
    let mut keys = Vec::new();
    let head = store.get(&layout::head())?;
    if let Some(head) = &head {
        keys.push(layout::head());
        let text = String::from_utf8_lossy(&head.bytes);
        for key in store.list(layout::RUNS)? {
            let is_named =
                layout::run_of_record(&key).is_some_and(|run| text.contains(&format!("\"{run}\"")));
            if is_named {
                keys.push(key);
            }
        }
    }
    for prefix in [layout::STATES, layout::WORKSPACES, layout::STATE_LOCKS] {
        let listed = store.list(prefix)?;
        keys.extend(listed.into_iter().filter(|key| !key.as_str().contains('@')));
    }
    Ok(keys)
}

fn rewrite(store: &dyn Store, key: &Key, fence: u64) -> Result<(), LockError> {
    for _ in 0..MAX_TRIES {
        let Some(value) = store.get(key)? else {
            return Ok(());
        };
        let body = with_fence(store, key, &value, fence)?;
        match settle::put_if_match(store, key, &body, &value.tag) {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(unfenceable(
        store,
        key,
        "it keeps being changed by another writer",
    ))
}

fn unfenceable(store: &dyn Store, key: &Key, why: impl Into<String>) -> LockError {
    LockError::Unfenceable {
        store: store.describe(),
        key: key.clone(),
        why: why.into(),
    }
}

/// Whether the number stands in a header line of its own.
fn has_header(key: &Key) -> bool {
    let text = key.as_str();
    text.starts_with(layout::STATES) || text.starts_with(layout::WORKSPACES)
}

fn parts<'a>(
    store: &dyn Store,
    key: &Key,
    value: &'a Versioned,
) -> Result<(Object, &'a [u8]), LockError> {
    let (object, rest) = if has_header(key) {
        state_file::split(&value.bytes)
            .ok_or_else(|| unfenceable(store, key, "it has no header line"))?
    } else {
        (&value.bytes[..], &[][..])
    };
    let object = serde_json::from_slice(object)
        .map_err(|error| unfenceable(store, key, error.to_string()))?;
    Ok((object, rest))
}

fn fence_of(store: &dyn Store, key: &Key, value: &Versioned) -> Result<u64, LockError> {
    let (object, _) = parts(store, key, value)?;
    match object.get("fence") {
        None => Ok(0),
        Some(fence) => serde_json::from_str(fence.get())
            .map_err(|error| unfenceable(store, key, error.to_string())),
    }
}

fn with_fence(
    store: &dyn Store,
    key: &Key,
    value: &Versioned,
    fence: u64,
) -> Result<Vec<u8>, LockError> {
    let (mut object, rest) = parts(store, key, value)?;
    object.set(
        "fence",
        serde_json::value::to_raw_value(&fence).map_err(LockError::Encode)?,
    );
    let mut body = serde_json::to_vec(&object).map_err(LockError::Encode)?;
    if has_header(key) {
        body.push(b'\n');
        body.extend_from_slice(rest);
    }
    Ok(body)
}

/// A JSON object whose members keep their order and their very text.
struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    fn get(&self, name: &str) -> Option<&RawValue> {
        self.0
            .iter()
            .find(|(found, _)| found == name)
            .map(|(_, value)| &**value)
    }

    fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(found, _)| found == name) {
            Some(member) => member.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    fn text(store: &MemoryStore, at: &str) -> String {
        String::from_utf8(store.get(&key(at)).unwrap().unwrap().bytes).unwrap()
    }

    #[test]
    fn every_mutable_value_gets_the_number_and_nothing_else_changes() {
        let store = MemoryStore::new();
        let values = [
            ("target.json", "{\"id\":1}"),
            ("bundle/ab", "\0\x01"),
            (
                "run/head.json",
                "{\"current\":\"B\",\"fence\":3,\"last_known_good\":null}",
            ),
            ("run/A.json", "{\"x\":1,\"fence\":1}"),
            (
                "run/B.json",
                "{\"seconds\":0.30000000000000004,\"big\":12345678901234567890123,\"fence\":3}",
            ),
            (
                "state/1a/edge",
                "{\"schema\":1,\"fence\":9}\n{\"fence\":5, \"serial\":1}\n",
            ),
            ("state/1a/edge@1", "{\"schema\":1,\"fence\":2}\nx"),
            ("workspace/prod", "{\"schema\":1,\"fence\":2}\n"),
            ("lock/1a/edge", "{\"info\":{\"ID\":\"x\"}}"),
        ];
        for (at, body) in values {
            store.set(&key(at), body);
        }
        assert_eq!(highest(&store).unwrap(), 9);
        assert_eq!(of_head(&store).unwrap(), 3);
        rewrite_all(&store, 10).unwrap();
        assert_eq!(
            text(&store, "run/head.json"),
            "{\"current\":\"B\",\"fence\":10,\"last_known_good\":null}"
        );
        assert_eq!(
            text(&store, "run/B.json"),
            "{\"seconds\":0.30000000000000004,\"big\":12345678901234567890123,\"fence\":10}"
        );
        assert_eq!(
            text(&store, "state/1a/edge"),
            "{\"schema\":1,\"fence\":10}\n{\"fence\":5, \"serial\":1}\n"
        );
        assert_eq!(
            text(&store, "workspace/prod"),
            "{\"schema\":1,\"fence\":10}\n"
        );
        assert_eq!(
            text(&store, "lock/1a/edge"),
            "{\"info\":{\"ID\":\"x\"},\"fence\":10}"
        );
        for (at, body) in [values[0], values[1], values[3], values[6]] {
            assert_eq!(text(&store, at), body, "{at}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_fenced_is_named() {
        for (at, body) in [
            ("run/head.json", "[]"),
            ("state/1a/edge", "no header"),
            ("lock/1a/edge", "{\"fence\":\"x\"}"),
        ] {
            let store = MemoryStore::new();
            store.set(&key(at), body);
            let error = highest(&store).unwrap_err();
            assert!(
                matches!(&error, LockError::Unfenceable { key, .. } if key.as_str() == at),
                "{error}"
            );
        }
    }
}

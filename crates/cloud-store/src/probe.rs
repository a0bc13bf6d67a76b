//! Tries on a key of its own whether a server honours conditions.
//!
//! Servers that speak S3 and know nothing of conditions take the request and ignore them: two
//! writers would both be told that they hold the lock.

use crate::client::Condition;
use crate::cloud::{CloudStore, Written};
use crate::error::Fault;
use object_store::path::Path;
use rand::Rng as _;
use store::Tag;

/// How a server deletes one version and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletes {
    /// By a delete with a condition.
    OneVersion,
    /// Not at all: a tombstone replaces the version, see `tombstone.rs`.
    ByTombstone,
}

const CREATION: &str = "a creation (`If-None-Match: *`)";
const REPLACEMENT: &str = "a replacement (`If-Match`)";

/// Tries it. The key begins with a dot, so no key of the store is hit, and no listing shows it.
pub(crate) fn conditions(store: &CloudStore) -> Result<Deletes, Fault> {
    let name = format!(".probe-{:032x}", rand::rng().random::<u128>());
    let path = store.path_of(&store.below(&name))?;
    let found = on(store, &path);
    // Nobody else knows the key. What stays behind after a failure harms nothing.
    let removed = store.remove(&path);
    let found = found?;
    removed?;
    Ok(found)
}

fn on(store: &CloudStore, path: &Path) -> Result<Deletes, Fault> {
    let first = done(store.write(path, b"1", Condition::Absent)?)?;
    if let Written::Done(_) = store.write(path, b"2", Condition::Absent)? {
        return Err(Fault::ConditionIgnored { what: CREATION });
    }
    let second = done(store.write(path, b"3", Condition::Version(&first))?)?;
    if let Written::Done(_) = store.write(path, b"4", Condition::Version(&first))? {
        return Err(Fault::ConditionIgnored { what: REPLACEMENT });
    }
    // A server that ignores it says yes; one that doesn't know it says so.
    let one_version = matches!(store.delete_version(path, &first), Ok(false))
        && matches!(store.delete_version(path, &second), Ok(true))
        && matches!(store.delete_version(path, &second), Ok(false))
        && store.read(path)?.is_none();
    Ok(if one_version {
        Deletes::OneVersion
    } else {
        Deletes::ByTombstone
    })
}

fn done(written: Written) -> Result<Tag, Fault> {
    match written {
        Written::Done(tag) => Ok(tag),
        Written::Refused | Written::Unsure => Err(Fault::Unexpected {
            answer: "a key that nobody else knows was changed by another writer".to_owned(),
        }),
    }
}

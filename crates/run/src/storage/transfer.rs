//! Everything of a target from one store to another: copied, read back, compared, and switched by one pointer.
//!
//! `target.json` is the pointer. In the store that is being filled it is written last, and only if absent; before it,
//! `moving.json` says whose half copy that is, so that a copy which was cut goes on and nothing of anybody else is
//! touched. At every instant one of the two stores is whole, and its `target.json` says so.

use record::{MovedTo, RecordError, RecordStore, TargetJson};
use std::sync::Arc;
use store::{Key, ReadError, Store, WriteError, layout, settle};

/// Why a target did not come over. The store that it comes from is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    /// The other store is someone else's.
    #[error("{store} belongs to target `{target}` of platform `{platform}`")]
    Foreign {
        store: String,
        platform: String,
        target: String,
    },
    /// The other store holds this target by name, built apart from this one.
    #[error(
        "{store} holds target `{target}` already, built apart from this one: its id is `{found}`, not `{id}`"
    )]
    AnotherBuild {
        store: String,
        target: String,
        found: String,
        id: String,
    },
    /// The other store has things in it of which nothing says whose they are.
    #[error("{store} is not empty: it holds `{key}`, and nothing in it says whose that is")]
    Unowned { store: String, key: Key },
    /// What was written does not read back.
    #[error("`{key}` reads back from {store} otherwise than it was written")]
    Differs { store: String, key: Key },
    /// A value went away while it was copied.
    #[error("`{key}` was changed in {store} while it was copied")]
    Moving { store: String, key: Key },
    /// A pointer can't be read or written.
    #[error(transparent)]
    Pointer(#[from] RecordError),
    /// `moving.json` can't be understood.
    #[error("`{key}` in {store} can't be understood")]
    Garbled {
        store: String,
        key: Key,
        #[source]
        source: serde_json::Error,
    },
    /// One of the two can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// One of the two can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Keys that belong to the place and not to what is in it.
fn stays(key: &Key) -> bool {
    *key == layout::target_json() || *key == layout::lock_json() || *key == layout::moving_json()
}

/// Whether a key is one that a target has. Others in the same place are left alone.
fn is_of_a_target(key: &Key) -> bool {
    const BEGINNINGS: [&str; 5] = [
        layout::STATES,
        layout::STATE_LOCKS,
        layout::RUNS,
        layout::BUNDLES,
        layout::WORKSPACES,
    ];
    *key == layout::keys_json()
        || BEGINNINGS
            .iter()
            .any(|beginning| key.as_str().starts_with(beginning))
}

fn records(store: &Arc<dyn Store>) -> RecordStore {
    RecordStore::new(Arc::clone(store))
}

/// Refuses a store that is not this target's and not free. Nothing is written.
pub(crate) fn may_take(dest: &Arc<dyn Store>, target: &TargetJson) -> Result<(), TransferError> {
    let own = match records(dest).target()? {
        Some(found) => {
            is_ours(dest, &found.value, target)?;
            true
        }
        None => match moving(dest)? {
            Some(found) => {
                is_ours(dest, &found, target)?;
                true
            }
            None => false,
        },
    };
    if own {
        return Ok(());
    }
    match dest.list("")?.into_iter().find(is_of_a_target) {
        None => Ok(()),
        Some(key) => Err(TransferError::Unowned {
            store: dest.describe(),
            key,
        }),
    }
}

fn is_ours(
    dest: &Arc<dyn Store>,
    found: &TargetJson,
    target: &TargetJson,
) -> Result<(), TransferError> {
    let store = dest.describe();
    if found.platform != target.platform || found.target != target.target {
        return Err(TransferError::Foreign {
            store,
            platform: found.platform.clone(),
            target: found.target.to_string(),
        });
    }
    if found.id != target.id {
        return Err(TransferError::AnotherBuild {
            store,
            target: target.target.to_string(),
            found: found.id.clone(),
            id: target.id.clone(),
        });
    }
    Ok(())
}

/// Whose half copy a store holds.
fn moving(store: &Arc<dyn Store>) -> Result<Option<TargetJson>, TransferError> {
    let key = layout::moving_json();
    let Some(found) = store.get(&key)? else {
        return Ok(None);
    };
    serde_json::from_slice(&found.bytes)
        .map(Some)
        .map_err(|source| TransferError::Garbled {
            store: store.describe(),
            key,
            source,
        })
}

/// Fills `dest` with all that `source` has of `target`, and lets it count. Returns how many values it has.
///
/// The caller holds the locks of both. `source` is not written to: whether it counts any longer is the caller's to say.
pub(crate) fn fill(
    source: &Arc<dyn Store>,
    dest: &Arc<dyn Store>,
    target: &TargetJson,
) -> Result<usize, TransferError> {
    may_take(dest, target)?;
    let target = TargetJson {
        moved_to: None,
        ..target.clone()
    };
    if dest.get(&layout::moving_json())?.is_none() {
        let mut body =
            serde_json::to_vec_pretty(&target).map_err(|source| TransferError::Garbled {
                store: dest.describe(),
                key: layout::moving_json(),
                source,
            })?;
        body.push(b'\n');
        settle::put_if_absent(dest.as_ref(), &layout::moving_json(), &body)?;
    }
    // What is not whole must not count, whatever became of the other store.
    remove(dest.as_ref(), &layout::target_json())?;
    let keys: Vec<Key> = source
        .list("")?
        .into_iter()
        .filter(|key| !stays(key))
        .collect();
    for key in &keys {
        copy(source.as_ref(), dest.as_ref(), key)?;
    }
    for key in dest.list("")? {
        if is_of_a_target(&key) && !keys.contains(&key) {
            remove(dest.as_ref(), &key)?;
        }
    }
    compare(source.as_ref(), dest.as_ref())?;
    records(dest).create_target(&target)?;
    remove(dest.as_ref(), &layout::moving_json())?;
    Ok(keys.len())
}

fn copy(source: &dyn Store, dest: &dyn Store, key: &Key) -> Result<(), TransferError> {
    let Some(value) = source.get(key)? else {
        return Err(TransferError::Moving {
            store: source.describe(),
            key: key.clone(),
        });
    };
    match dest.get(key)? {
        Some(there) if there.bytes == value.bytes => {}
        Some(there) => {
            settle::put_if_match(dest, key, &value.bytes, &there.tag)?;
        }
        None => {
            settle::put_if_absent(dest, key, &value.bytes)?;
        }
    }
    Ok(())
}

/// Reads both back, value by value.
fn compare(source: &dyn Store, dest: &dyn Store) -> Result<(), TransferError> {
    let list = |store: &dyn Store| -> Result<Vec<Key>, ReadError> {
        let mut keys = store.list("")?;
        keys.retain(|key| !stays(key));
        Ok(keys)
    };
    let (ours, theirs) = (list(source)?, list(dest)?);
    let differs = |key: &Key| TransferError::Differs {
        store: dest.describe(),
        key: key.clone(),
    };
    if let Some(extra) = theirs
        .iter()
        .find(|key| is_of_a_target(key) && !ours.contains(key))
    {
        return Err(differs(extra));
    }
    for key in &ours {
        let value = source.get(key)?.map(|value| value.bytes);
        if value.is_none() || value != dest.get(key)?.map(|value| value.bytes) {
            return Err(differs(key));
        }
    }
    Ok(())
}

fn remove(store: &dyn Store, key: &Key) -> Result<(), TransferError> {
    if let Some(value) = store.get(key)? {
        settle::delete_if_match(store, key, &value.tag)?;
    }
    Ok(())
}

/// Empties a store whose contents count elsewhere by now: the pointer first, then the head, then the rest. The lock
/// stays its holder's.
pub(crate) fn empty(store: &dyn Store) -> Result<(), TransferError> {
    for key in [layout::target_json(), layout::moving_json(), layout::head()] {
        remove(store, &key)?;
    }
    for key in store.list("")?.iter().filter(|key| is_of_a_target(key)) {
        remove(store, key)?;
    }
    Ok(())
}

/// Lets a store say where its contents went.
pub(crate) fn point_to(store: &Arc<dyn Store>, to: MovedTo) -> Result<(), TransferError> {
    let records = records(store);
    let Some(mut found) = records.target()? else {
        return Ok(());
    };
    let value = TargetJson {
        moved_to: Some(to),
        ..found.value.clone()
    };
    records.replace_target(&mut found, value)?;
    Ok(())
}

//! Writes whose answer was lost.
//!
//! A store that is reached over a network may do a write and lose the answer, or repeat a write by
//! itself and then meet its own first try. Both look like failures. These functions read back what
//! is there: where it is byte for byte what was to be written, the write has happened. They are for
//! bodies that no other writer would write (that hold a writer, a number or a nonce of their own).

use crate::{Body, Key, ReadError, Store, Tag, WriteError};

/// [`Store::put_if_absent`], settled by reading back.
pub fn put_if_absent(store: &dyn Store, key: &Key, body: &[u8]) -> Result<Tag, WriteError> {
    let first = match store.put_if_absent(key, body) {
        Ok(tag) => return Ok(tag),
        Err(error) => error,
    };
    settled(store, key, body, first)
}

/// [`Store::put_if_match`], settled by reading back.
pub fn put_if_match(
    store: &dyn Store,
    key: &Key,
    body: &[u8],
    tag: &Tag,
) -> Result<Tag, WriteError> {
    let first = match store.put_if_match(key, body, tag) {
        Ok(tag) => return Ok(tag),
        Err(error) => error,
    };
    settled(store, key, body, first)
}

/// [`Store::put_body_if_absent`], settled by reading back.
pub fn put_body_if_absent(
    store: &dyn Store,
    key: &Key,
    head: &[u8],
    tail: &Body,
) -> Result<Tag, WriteError> {
    let first = match store.put_body_if_absent(key, head, tail) {
        Ok(tag) => return Ok(tag),
        Err(error) => error,
    };
    settled_body(store, key, head, tail, first)
}

/// [`Store::put_body_if_match`], settled by reading back.
pub fn put_body_if_match(
    store: &dyn Store,
    key: &Key,
    head: &[u8],
    tail: &Body,
    tag: &Tag,
) -> Result<Tag, WriteError> {
    let first = match store.put_body_if_match(key, head, tail, tag) {
        Ok(tag) => return Ok(tag),
        Err(error) => error,
    };
    settled_body(store, key, head, tail, first)
}

/// [`Store::delete_if_match`]; a key that is gone after a failed or lost try has been deleted.
pub fn delete_if_match(store: &dyn Store, key: &Key, tag: &Tag) -> Result<(), WriteError> {
    let first = match store.delete_if_match(key, tag) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    match store.get(key) {
        Ok(None) => Ok(()),
        Ok(Some(_)) | Err(_) => Err(first),
    }
}

fn settled(
    store: &dyn Store,
    key: &Key,
    body: &[u8],
    first: WriteError,
) -> Result<Tag, WriteError> {
    match store.get(key) {
        Ok(Some(found)) if found.bytes == body => Ok(found.tag),
        // Another body is there: whatever became of our write, it isn't there now.
        Ok(Some(_)) => Err(first),
        Ok(None) => Err(first),
        Err(ReadError::Unreachable { .. } | ReadError::List { .. }) => Err(first),
    }
}

fn settled_body(
    store: &dyn Store,
    key: &Key,
    head: &[u8],
    tail: &Body,
    first: WriteError,
) -> Result<Tag, WriteError> {
    match store.get_body(key) {
        Ok(Some(found)) if found.body.is_joined(head, tail).unwrap_or(false) => Ok(found.tag),
        // As in `settled`.
        Ok(_) | Err(_) => Err(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, MemoryStore};

    fn key() -> Key {
        Key::new("a/b").unwrap()
    }

    #[test]
    fn a_write_that_landed_and_lost_its_answer_is_done() {
        let store = std::sync::Arc::new(MemoryStore::new());
        let lose_next = || store.fault_on_write(1, Fault::LoseAnswer);
        let shared = std::sync::Arc::<MemoryStore>::clone(&store);
        crate::contract::lost_answers_are_settled(shared, &lose_next);
    }

    #[test]
    fn a_write_that_did_not_land_is_a_failure() {
        let store = MemoryStore::new();
        store.fault_on_write(1, Fault::Fail);
        assert!(matches!(
            put_if_absent(&store, &key(), b"one"),
            Err(WriteError::Unreachable { .. })
        ));
        let tag = put_if_absent(&store, &key(), b"one").unwrap();
        assert!(
            put_if_absent(&store, &key(), b"other")
                .unwrap_err()
                .is_conflict()
        );
        store.fault_on_write(1, Fault::Fail);
        assert!(matches!(
            put_if_match(&store, &key(), b"two", &tag),
            Err(WriteError::Unreachable { .. })
        ));
        store.fault_on_write(1, Fault::Fail);
        assert!(matches!(
            delete_if_match(&store, &key(), &tag),
            Err(WriteError::Unreachable { .. })
        ));
    }
}

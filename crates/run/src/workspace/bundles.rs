//! Definitions that nothing of a workspace names any more: they go with the records that named them.
//!
//! A bundle is a whole platform's, so others may stand on it too: steps of runs, other workspaces, on other machines as
//! well. It is forgotten only where it is certain that nobody does.

use std::collections::BTreeSet;

use phase_engine::{Failure, StepId};
use platform::WORKSPACE_PHASE;
use store::{LocalStore, Store, layout, settle};

use super::Workspace;
use super::recorded::{entry, names};
use crate::error::{failed, stopped};

/// Where bundles lie in a store.
const BUNDLES: &str = "bundle/";
/// The characters of a digest.
const DIGEST: usize = 64;

impl Workspace<'_> {
    /// Forgets those of the digests `named` by records that are gone which are bundles and which nothing else names. Tells
    /// how many.
    ///
    /// # Errors
    /// The store, or what this machine keeps of workspaces, can't be read or written.
    pub(super) fn forget_bundles(&self, named: BTreeSet<String>) -> Result<usize, Failure> {
        let store = self.held.store.as_ref();
        let mut candidates = stored(store, named)?;
        let workspaces = self.held.paths.workspaces();
        for name in names(&workspaces)? {
            let kept = LocalStore::open(workspaces.join(&name));
            take_out_named(&kept, &mut candidates)?;
        }
        if candidates.is_empty() || !self.knows_all_workspaces()? {
            return Ok(0);
        }
        take_out_named(store, &mut candidates)?;
        forget(store, &candidates)
    }

    /// Whether each workspace that stands in the target's store was applied last from this machine: what another one
    /// applied is told by its records alone.
    fn knows_all_workspaces(&self) -> Result<bool, Failure> {
        let backend = self.held.bench.server.backend();
        let listed = backend.list_workspaces().map_err(|error| stopped(&error))?;
        for name in listed {
            let Ok(step) = format!("{WORKSPACE_PHASE}.{name}").parse::<StepId>() else {
                return Ok(false);
            };
            let found = backend
                .read_header(&step.key())
                .map_err(|error| stopped(&error))?;
            let known = entry(&self.held.paths, &step)?.and_then(|entry| entry.state);
            if found.is_some_and(|found| known.is_none_or(|known| known.digest != found.digest)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Those of the digests that are bundles of this store.
fn stored(store: &dyn Store, mut named: BTreeSet<String>) -> Result<BTreeSet<String>, Failure> {
    if named.is_empty() {
        return Ok(named);
    }
    let keys = store.list(BUNDLES).map_err(|error| stopped(&error))?;
    let there: BTreeSet<&str> = keys
        .iter()
        .filter_map(|key| key.as_str().strip_prefix(BUNDLES))
        .collect();
    named.retain(|digest| there.contains(digest.as_str()));
    Ok(named)
}

/// Takes out what a record of this store names.
fn take_out_named(store: &dyn Store, candidates: &mut BTreeSet<String>) -> Result<(), Failure> {
    if candidates.is_empty() {
        return Ok(());
    }
    for key in store.list(layout::RUNS).map_err(|error| stopped(&error))? {
        let found = store.get(&key).map_err(|error| stopped(&error))?;
        for digest in found.iter().flat_map(|found| digests_in(&found.bytes)) {
            candidates.remove(&digest);
        }
    }
    Ok(())
}

fn forget(store: &dyn Store, digests: &BTreeSet<String>) -> Result<usize, Failure> {
    let mut n = 0;
    for digest in digests {
        let key = layout::bundle(digest).map_err(|error| failed(&error))?;
        let Some(found) = store.get(&key).map_err(|error| stopped(&error))? else {
            continue;
        };
        settle::delete_if_match(store, &key, &found.tag).map_err(|error| failed(&error))?;
        n += 1;
    }
    Ok(n)
}

/// All that may be a digest in the text of a record: whole words of as many hexadecimal characters.
pub(super) fn digests_in(record: &[u8]) -> BTreeSet<String> {
    let words = record.split(|byte| !byte.is_ascii_alphanumeric());
    let is_digest = |word: &&[u8]| {
        word.len() == DIGEST
            && word
                .iter()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte))
    };
    words
        .filter(is_digest)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(of: char) -> String {
        std::iter::repeat_n(of, DIGEST).collect()
    }

    fn put(store: &dyn Store, key: &store::Key, text: &str) {
        store.put_if_absent(key, text.as_bytes()).unwrap();
    }

    #[test]
    fn what_a_record_names_stays_and_what_none_does_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(dir.path().to_owned());
        for name in ['a', 'b', 'c', 'd'] {
            put(&store, &layout::bundle(&digest(name)).unwrap(), "sealed");
        }
        // One that stands is named by its bundle, and by what `init` added to it.
        let record = format!(
            "{{\"standing\":[{{\"bundle\":\"{}\",\"init_extras\":\"{}\"}}]}}",
            digest('a'),
            digest('b')
        );
        put(&store, &layout::record("01KB").unwrap(), &record);
        // `e` is no bundle: a state's digest, say.
        let named = ['a', 'b', 'c', 'e'].map(digest).into();
        let mut candidates = stored(&store, named).unwrap();
        assert_eq!(candidates, ['a', 'b', 'c'].map(digest).into());
        take_out_named(&store, &mut candidates).unwrap();
        assert_eq!(forget(&store, &candidates).unwrap(), 1);
        let left = store.list(BUNDLES).unwrap();
        let left: Vec<&str> = left.iter().map(store::Key::as_str).collect();
        let expected = ['a', 'b', 'd'].map(|name| format!("{BUNDLES}{}", digest(name)));
        assert_eq!(left, expected);
    }

    #[test]
    fn a_digest_is_a_whole_word() {
        let text = format!(
            "{{\"x\":\"{}\",\"y\":\"{}0\",\"z\":\"sha256:{}\",\"n\":\"{}\"}}",
            digest('a'),
            digest('b'),
            digest('c'),
            digest('G')
        );
        assert_eq!(digests_in(text.as_bytes()), ['a', 'c'].map(digest).into());
    }
}

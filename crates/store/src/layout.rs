//! The keys of a target: which value lies where under the target's prefix.
//!
//! A *step key* is `<phase>/<step>`, as `StepId::key()` of the phase engine writes it. That of a handoff's workspace is
//! `workspace/<name>`, which is its state's key as it is.

use crate::{Key, KeyError};

/// The beginning of every state's key.
pub const STATES: &str = "state/";
/// The beginning of every state lock's key.
pub const STATE_LOCKS: &str = "lock/";
/// The beginning of every record's key, and of the head's.
pub const RUNS: &str = "run/";
/// The beginning of every bundle's key.
pub const BUNDLES: &str = "bundle/";
/// The beginning of the keys of the states of workspaces.
pub const WORKSPACES: &str = "workspace/";

/// Which platform and target this store belongs to.
pub fn target_json() -> Key {
    Key::fixed("target.json")
}

/// Salt, stretching parameters and the verifier of the key.
pub fn keys_json() -> Key {
    Key::fixed("keys.json")
}

/// The target's lock.
pub fn lock_json() -> Key {
    Key::fixed("lock.json")
}

/// Whose half copy a store holds that is being filled from another.
pub fn moving_json() -> Key {
    Key::fixed("moving.json")
}

/// The only pointer: current run, last-known-good, fence.
pub fn head() -> Key {
    Key::fixed("run/head.json")
}

/// The record of one run.
pub fn record(run: &str) -> Result<Key, KeyError> {
    Key::new(format!("run/{run}.json"))
}

/// The run id that a record's key names; `None` for the head and for other keys.
pub fn run_of_record(key: &Key) -> Option<&str> {
    let name = key.as_str().strip_prefix(RUNS)?.strip_suffix(".json")?;
    (name != "head" && !name.contains('/')).then_some(name)
}

/// The state of a step, or of a workspace.
pub fn state(step_key: &str) -> Result<Key, KeyError> {
    Key::new(place(step_key)?)
}

/// An earlier version of a step's state.
///
/// Where another state with this serial is kept already (a step that was torn down and built
/// again counts from the start), `copy` is 2 or more and shows in the key.
pub fn state_version(step_key: &str, serial: u64, copy: u32) -> Result<Key, KeyError> {
    let place = place(step_key)?;
    match copy {
        0 | 1 => Key::new(format!("{place}@{serial}")),
        _ => Key::new(format!("{place}@{serial}.{copy}")),
    }
}

/// The lock of a step's state.
pub fn state_lock(step_key: &str) -> Result<Key, KeyError> {
    Key::new(format!("lock/{}", checked(step_key)?))
}

/// The step key of a state's key; `None` for its versions and for other keys.
pub fn step_of_state(key: &Key) -> Option<&str> {
    let step_key = key.as_str().strip_prefix(STATES)?;
    checked(step_key).ok()
}

/// Whether a power cut may undo a write or a delete of this key: nobody holds a state's lock then, or a dead holder does,
/// whose lock is let go as any other of the dead.
pub(crate) fn is_passing(key: &Key) -> bool {
    key.as_str().starts_with(STATE_LOCKS)
}

/// The step key of a state's lock; `None` for other keys.
pub fn step_of_lock(key: &Key) -> Option<&str> {
    let step_key = key.as_str().strip_prefix(STATE_LOCKS)?;
    checked(step_key).ok()
}

/// A bundle, by the SHA-256 of what it holds.
pub fn bundle(digest: &str) -> Result<Key, KeyError> {
    Key::new(format!("bundle/{digest}"))
}

/// The name of the workspace of a state's key; `None` for its versions and for other keys.
pub fn workspace_of_state(key: &Key) -> Option<&str> {
    let name = key.as_str().strip_prefix(WORKSPACES)?;
    checked(key.as_str()).ok().map(|_| name)
}

/// Where the state of a step or of a workspace lies.
fn place(step_key: &str) -> Result<String, KeyError> {
    let step_key = checked(step_key)?;
    Ok(if step_key.starts_with(WORKSPACES) {
        step_key.to_owned()
    } else {
        format!("{STATES}{step_key}")
    })
}

/// Refuses a step key that isn't two parts, or that could be taken for a version.
fn checked(step_key: &str) -> Result<&str, KeyError> {
    let why = if step_key.contains('@') {
        "a step has no `@` in it"
    } else if step_key.split('/').count() != 2 {
        "a step is named by its phase and its name"
    } else {
        return Key::new(step_key).map(|_| step_key);
    };
    Err(KeyError {
        text: step_key.to_owned(),
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_their_versions_are_told_apart() {
        let state = state("1a/edge").unwrap();
        let version = state_version("1a/edge", 7, 1).unwrap();
        assert_eq!(state.as_str(), "state/1a/edge");
        assert_eq!(version.as_str(), "state/1a/edge@7");
        assert_eq!(
            state_version("1a/edge", 7, 3).unwrap().as_str(),
            "state/1a/edge@7.3"
        );
        assert_eq!(step_of_state(&state), Some("1a/edge"));
        assert_eq!(step_of_state(&version), None);
        assert_eq!(step_of_state(&lock_json()), None);
    }

    #[test]
    fn the_state_of_a_workspace_is_no_steps() {
        let state = state("workspace/prod").unwrap();
        let version = state_version("workspace/prod", 7, 2).unwrap();
        assert_eq!(state.as_str(), "workspace/prod");
        assert_eq!(version.as_str(), "workspace/prod@7.2");
        assert_eq!(
            state_lock("workspace/prod").unwrap().as_str(),
            "lock/workspace/prod"
        );
        assert_eq!(step_of_state(&state), None);
        assert_eq!(workspace_of_state(&state), Some("prod"));
        assert_eq!(workspace_of_state(&version), None);
        assert_eq!(workspace_of_state(&super::state("1a/edge").unwrap()), None);
    }

    #[test]
    fn a_step_key_with_other_parts_is_refused() {
        for step_key in ["edge", "1a/edge/x", "1a/edge@7", "1a/", "../edge", "1a/.."] {
            assert!(super::state(step_key).is_err(), "{step_key}");
            assert!(state_lock(step_key).is_err(), "{step_key}");
            assert!(state_version(step_key, 1, 1).is_err(), "{step_key}");
        }
    }

    #[test]
    fn the_head_is_no_record() {
        assert_eq!(run_of_record(&head()), None);
        assert_eq!(run_of_record(&record("01J").unwrap()), Some("01J"));
    }
}

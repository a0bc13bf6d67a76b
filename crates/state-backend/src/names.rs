//! How a state's path becomes keys of the store.

use store::{Key, KeyError, layout};

/// The longest path of a state, in bytes, so that the keys of its versions are keys as well.
const MAX_PATH: usize = 400;
/// The longest part of a path, in bytes.
const MAX_PART: usize = 150;
/// What begins the keys under which ids of released locks are kept.
const RELEASED: &str = "released/";

/// How a state's path becomes keys of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    /// `<phase>/<step>` under `state/` and `lock/`: the layout of a target.
    #[default]
    Steps,
    /// Any path. Each part but the last gets an `@`, which no path has: `a/b/c` is `state/a@/b@/c`. So a state may
    /// lie below another's path, and is never taken for one of its versions.
    Paths,
}

impl Names {
    /// Whether a path can be a state's.
    ///
    /// # Errors
    /// Where it can't.
    pub fn check(self, path: &str) -> Result<(), KeyError> {
        self.state(path).map(drop)
    }

    pub(crate) fn state(self, path: &str) -> Result<Key, KeyError> {
        match self {
            Self::Steps => layout::state(path),
            Self::Paths => Key::new(format!("{}{}", layout::STATES, spread(path)?)),
        }
    }

    pub(crate) fn lock(self, path: &str) -> Result<Key, KeyError> {
        match self {
            Self::Steps => layout::state_lock(path),
            Self::Paths => Key::new(format!("{}{}", layout::STATE_LOCKS, spread(path)?)),
        }
    }

    /// Where the ids of released locks are kept. A target's backend needs none: its process ends with those that ask it.
    pub(crate) fn released(self, path: &str) -> Result<Option<Key>, KeyError> {
        match self {
            Self::Steps => Ok(None),
            Self::Paths => Key::new(format!("{RELEASED}{}", spread(path)?)).map(Some),
        }
    }

    pub(crate) fn version(self, path: &str, serial: u64, copy: u32) -> Result<Key, KeyError> {
        match (self, copy) {
            (Self::Steps, _) => layout::state_version(path, serial, copy),
            (Self::Paths, 0 | 1) => Key::new(format!("{}@{serial}", self.state(path)?)),
            (Self::Paths, _) => Key::new(format!("{}@{serial}.{copy}", self.state(path)?)),
        }
    }

    /// The path of a state's key; `None` for its versions and for other keys.
    pub(crate) fn path_of_state(self, key: &Key) -> Option<String> {
        match self {
            Self::Steps => layout::step_of_state(key).map(ToOwned::to_owned),
            Self::Paths => gathered(key.as_str().strip_prefix(layout::STATES)?),
        }
    }

    /// The path of a lock's key; `None` for other keys.
    pub(crate) fn path_of_lock(self, key: &Key) -> Option<String> {
        match self {
            Self::Steps => layout::step_of_lock(key).map(ToOwned::to_owned),
            Self::Paths => gathered(key.as_str().strip_prefix(layout::STATE_LOCKS)?),
        }
    }
}

fn spread(path: &str) -> Result<String, KeyError> {
    let why = if path.contains('@') {
        Some("no `@` may be in it")
    } else if path.len() > MAX_PATH {
        Some("it is longer than 400 bytes")
    } else if path.split('/').any(|part| part.len() > MAX_PART) {
        Some("a part of it is longer than 150 bytes")
    } else {
        None
    };
    if let Some(why) = why {
        return Err(KeyError {
            text: path.chars().take(MAX_PATH).collect(),
            why,
        });
    }
    // Told in the caller's words, not in those of the key that is made from it.
    Key::new(path)?;
    Ok(path.replace('/', "@/"))
}

fn gathered(spread: &str) -> Option<String> {
    let path = spread.replace("@/", "/");
    (!path.contains('@')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn states_below_one_another_have_keys_that_can_be_side_by_side() {
        let key = |path| Names::Paths.state(path).unwrap().to_string();
        assert_eq!(key("a"), "state/a");
        assert_eq!(key("a/b/c"), "state/a@/b@/c");
        assert_eq!(Names::Paths.lock("a/b").unwrap().as_str(), "lock/a@/b");
        assert_eq!(
            Names::Paths.version("a", 7, 1).unwrap().as_str(),
            "state/a@7"
        );
        assert_eq!(
            Names::Paths.version("a/b", 7, 2).unwrap().as_str(),
            "state/a@/b@7.2"
        );
    }

    #[test]
    fn paths_that_would_lead_elsewhere_are_refused() {
        for path in [
            "", "/", "a/", "/a", "a//b", "..", "a/../b", "a/.b", "a@7", "a@/b", "a b", "a%2fb",
            "a\\b",
        ] {
            assert!(Names::Paths.state(path).is_err(), "{path}");
            assert!(Names::Paths.lock(path).is_err(), "{path}");
        }
        let long = vec!["a".repeat(100); 4].join("/");
        assert!(Names::Paths.state(&long).is_err());
        assert!(Names::Paths.state(&"a".repeat(151)).is_err());
    }

    proptest! {
        #[test]
        fn every_legal_path_comes_back_and_has_versions(path in "[a-z._-]{1,12}(/[a-z._-]{1,12}){0,30}") {
            if let Ok(key) = Names::Paths.state(&path) {
                prop_assert_eq!(Names::Paths.path_of_state(&key), Some(path.clone()));
                let version = Names::Paths.version(&path, u64::MAX, u32::MAX).unwrap();
                prop_assert_eq!(Names::Paths.path_of_state(&version), None);
                let lock = Names::Paths.lock(&path).unwrap();
                prop_assert_eq!(Names::Paths.path_of_lock(&lock), Some(path));
            }
        }
    }
}

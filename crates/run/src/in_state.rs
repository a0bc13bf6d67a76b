//! Whether what may have been made is in its step's state. An address alone does not tell: a replacement's state has the
//! former object under it until the apply has written what it made.

use std::collections::BTreeMap;

use record::Suspected;
use secrets::Masker;
use tofu::StateFacts;

/// The objects that a state has, by their addresses, as a record has those.
#[derive(Debug, Default)]
pub(crate) struct InState(BTreeMap<String, Vec<Option<String>>>);

impl InState {
    /// Reads them off a state.
    pub(crate) fn of(facts: &StateFacts, masker: &Masker) -> Self {
        let masked = |text: &str| masker.mask(text).into_owned();
        let objects = facts.ids.iter().map(|(address, ids)| {
            let ids = ids.iter().map(|id| id.as_deref().map(masked));
            (masked(address), ids.collect())
        });
        Self(objects.collect())
    }

    /// Whether that object is in it: the one of its id, where that is known, else one that is not the former. An object
    /// without an id is taken for it.
    pub(crate) fn has(&self, found: &Suspected) -> bool {
        let Some(address) = &found.address else {
            return false;
        };
        let Some(ids) = self.0.get(address.as_str()) else {
            return false;
        };
        ids.iter().any(|id| match (id, &found.id, &found.was) {
            (Some(id), Some(made), _) => id == made,
            (Some(id), None, Some(was)) => id != was,
            _ => true,
        })
    }

    /// The ids that it has at an address; nothing where it has not the address.
    pub(crate) fn ids(&self, address: &str) -> Option<Vec<&str>> {
        let ids = self.0.get(address)?;
        Some(ids.iter().flatten().map(String::as_str).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_has_the_former_object_does_not_hold_the_new_one() {
        let state = br#"{"version":4,"serial":1,"lineage":"l","resources":[
            {"mode":"managed","type":"x","name":"replaced","instances":[{"attributes":{"id":"old"}}]},
            {"mode":"managed","type":"x","name":"both","instances":[{"attributes":{"id":"new"}},{"deposed":"d","attributes":{"id":"old"}}]},
            {"mode":"managed","type":"x","name":"nameless","instances":[{"attributes":{}}]}]}"#;
        let facts = StateFacts::read(state).unwrap();
        let state = InState::of(&facts, &Masker::new());
        let has = |address: &str, id: Option<&str>, was: Option<&str>| {
            state.has(&Suspected {
                address: Some(address.parse().unwrap()),
                provider: None,
                id: id.map(str::to_owned),
                was: was.map(str::to_owned),
            })
        };
        assert!(!has("x.replaced", Some("new"), None));
        assert!(!has("x.replaced", Some("new"), Some("old")));
        assert!(!has("x.replaced", None, Some("old")));
        assert!(has("x.replaced", Some("old"), None));
        assert!(
            has("x.replaced", None, None),
            "nothing tells that it was there before"
        );
        assert!(has("x.both", Some("new"), Some("old")));
        assert!(has("x.both", None, Some("old")));
        assert!(has("x.nameless", Some("new"), Some("old")));
        assert!(!has("x.other", None, None));
        assert!(!state.has(&Suspected::default()), "a step as a whole");
        assert_eq!(state.ids("x.both"), Some(vec!["new", "old"]));
        assert_eq!(state.ids("x.other"), None);
    }
}

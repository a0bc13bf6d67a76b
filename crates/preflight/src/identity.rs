//! Whether the store is the one that this target's things are recorded in.

/// What `target.json` says of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTarget {
    /// The platform's name.
    pub platform: String,
    /// The target's name.
    pub target: String,
    /// The random id that the store got when it was first written to.
    pub id: String,
}

/// Whose store it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// This target's, and the one that this machine knows, if it knows one.
    Ok {
        /// Its id.
        id: String,
    },
    /// Nothing is in it and this machine knows of nothing: a first build may come.
    Fresh,
    /// Nothing is in it, and the person at the terminal typed the id that is missing: build anew, and
    /// record it.
    FreshInstead {
        /// The id that is missing.
        missing: String,
    },
    /// Nothing is in it although this machine knows an id: the store is lost, or it is another one.
    Missing {
        /// The id that is missing.
        known: String,
    },
    /// It is this target's by name, with another id than the one that this machine knows.
    Replaced {
        /// The id that this machine knows.
        known: String,
        /// The id that the store has.
        found: String,
    },
    /// It belongs to another platform or target.
    Foreign {
        /// What it says of itself.
        found: KnownTarget,
    },
    /// An id was typed for a first build, and it is not the one that is missing.
    NotMissing {
        /// The id that was typed.
        typed: String,
        /// The id that is missing, if one is.
        known: Option<String>,
    },
}

impl Identity {
    /// Whether to go on; otherwise [`Identity::why`] says why not.
    pub fn passes(&self) -> bool {
        matches!(
            self,
            Self::Ok { .. } | Self::Fresh | Self::FreshInstead { .. }
        )
    }

    /// Why it stops; `None` when it passes.
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Ok { .. } | Self::Fresh | Self::FreshInstead { .. } => None,
            Self::Missing { known } => Some(format!(
                "the store is empty, and this machine knows that target by the id `{known}`"
            )),
            Self::Replaced { known, found } => Some(format!(
                "the store has the id `{found}`, and this machine knows that target by the id `{known}`"
            )),
            Self::Foreign { found } => Some(format!(
                "the store belongs to target `{}` of platform `{}`",
                found.target, found.platform
            )),
            Self::NotMissing {
                typed,
                known: Some(known),
            } => Some(format!(
                "`--first-build {typed}` is not the id that is missing, which is `{known}`"
            )),
            Self::NotMissing { typed, known: None } => {
                Some(format!("`--first-build {typed}`: no id is missing"))
            }
        }
    }

    /// What to do about it; `None` when it passes.
    pub fn way_on(&self, target: &str) -> Option<String> {
        let look = format!(
            "look whether `[store]` of targets/{target}.toml and the variable `XDG_STATE_HOME` are what they were"
        );
        match self {
            Self::Ok { .. } | Self::Fresh | Self::FreshInstead { .. } => None,
            Self::Missing { known } => Some(format!(
                "{look}; if that store is lost for good, `rebuild up --target {target} --first-build {known}` builds anew"
            )),
            Self::Replaced { known, .. } => Some(format!(
                "{look}; if this is the right one, `rebuild up --target {target} --first-build {known}` takes it"
            )),
            Self::Foreign { .. } => Some(format!(
                "{look}; each target of each platform needs a store of its own"
            )),
            Self::NotMissing {
                known: Some(known), ..
            } => Some(format!("type `--first-build {known}`, or leave it out")),
            Self::NotMissing { known: None, .. } => {
                Some("leave it out; nothing was touched".to_owned())
            }
        }
    }
}

/// Judges what the store says of itself (`found`) against the id that this machine remembers
/// (`known`). `first_build` is the id typed by the person who wants to build anew in spite of it.
pub fn identify(
    found: Option<&KnownTarget>,
    known: Option<&str>,
    platform: &str,
    target: &str,
    first_build: Option<&str>,
) -> Identity {
    if let Some(found) = found.filter(|found| found.platform != platform || found.target != target)
    {
        return Identity::Foreign {
            found: found.clone(),
        };
    }
    let missing = known.filter(|known| found.is_none_or(|found| found.id != *known));
    if let Some(typed) = first_build.filter(|typed| missing != Some(*typed)) {
        return Identity::NotMissing {
            typed: typed.to_owned(),
            known: missing.map(str::to_owned),
        };
    }
    match (found, missing) {
        (Some(found), Some(known)) if first_build.is_none() => Identity::Replaced {
            known: known.to_owned(),
            found: found.id.clone(),
        },
        (Some(found), _) => Identity::Ok {
            id: found.id.clone(),
        },
        (None, None) => Identity::Fresh,
        (None, Some(known)) if first_build.is_some() => Identity::FreshInstead {
            missing: known.to_owned(),
        },
        (None, Some(known)) => Identity::Missing {
            known: known.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(platform: &str, target: &str, id: &str) -> KnownTarget {
        KnownTarget {
            platform: platform.into(),
            target: target.into(),
            id: id.into(),
        }
    }

    #[test]
    fn the_store_must_be_the_known_one() {
        let ours = store("homelab", "live", "A");
        let ok = || Identity::Ok { id: "A".into() };
        let missing = || Identity::Missing { known: "A".into() };
        let replaced = Identity::Replaced {
            known: "B".into(),
            found: "A".into(),
        };
        let not_missing = |typed: &str, known: Option<&str>| Identity::NotMissing {
            typed: typed.into(),
            known: known.map(str::to_owned),
        };
        for (found, known, typed, expected) in [
            (None, None, None, Identity::Fresh),
            (None, Some("A"), None, missing()),
            (
                None,
                Some("A"),
                Some("A"),
                Identity::FreshInstead {
                    missing: "A".into(),
                },
            ),
            (None, Some("A"), Some("B"), not_missing("B", Some("A"))),
            (None, None, Some("A"), not_missing("A", None)),
            (Some(&ours), None, None, ok()),
            (Some(&ours), Some("A"), None, ok()),
            (Some(&ours), Some("A"), Some("A"), not_missing("A", None)),
            (Some(&ours), Some("B"), None, replaced),
            (Some(&ours), Some("B"), Some("B"), ok()),
            (
                Some(&ours),
                Some("B"),
                Some("A"),
                not_missing("A", Some("B")),
            ),
        ] {
            let got = identify(found, known, "homelab", "live", typed);
            assert_eq!(got, expected, "{found:?} {known:?} {typed:?}");
            assert_eq!(got.passes(), got.why().is_none());
            assert_eq!(got.passes(), got.way_on("live").is_none());
        }
    }

    #[test]
    fn the_store_of_another_target_or_platform_is_refused_whatever_was_typed() {
        for found in [store("homelab", "drill", "A"), store("other", "live", "A")] {
            let got = identify(Some(&found), None, "homelab", "live", None);
            assert_eq!(
                got,
                Identity::Foreign {
                    found: found.clone()
                }
            );
            let got = identify(Some(&found), Some("B"), "homelab", "live", Some("B"));
            assert_eq!(
                got,
                Identity::Foreign {
                    found: found.clone()
                }
            );
            assert!(got.why().unwrap().contains(&found.platform));
        }
    }

    #[test]
    fn a_stop_names_the_way_on() {
        let found = store("homelab", "live", "A");
        for found in [None, Some(&found)] {
            let way_on = identify(found, Some("01ABC"), "homelab", "live", None)
                .way_on("live")
                .unwrap();
            assert!(
                way_on.contains("`rebuild up --target live --first-build 01ABC`"),
                "{way_on}"
            );
        }
        for typed in [Some("X"), None] {
            let why = identify(None, typed.and(Some("01ABC")), "homelab", "live", Some("Y")).why();
            assert!(why.unwrap().contains("`--first-build Y`"));
        }
    }
}

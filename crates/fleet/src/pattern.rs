//! Ansible's host patterns, and what `tf:NAME` means in them.
//!
//! To Ansible `:` is a union, so `tf:prod` is every host of `tf` and every host of `prod`. With one
//! workspace both are the same set and the words mean what they say. With several, `tf` would be all of
//! them: there is no such group then, a limit is rewritten, and a play that says it is refused.

use crate::workspace::Fleet;

/// A pattern that can't be given to Ansible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A workspace that the play was not given.
    #[error("`tf:{name}` in `{pattern}` names a workspace that this play is not given")]
    NotGiven {
        /// The name after `tf:`.
        name: String,
        /// The whole pattern.
        pattern: String,
    },
    /// `tf` among several workspaces, where it can't be rewritten.
    #[error(
        "`{term}` in `{pattern}` means nothing with several workspaces: there is no group `tf` then"
    )]
    NoSuchGroup {
        /// The term.
        term: String,
        /// The whole pattern.
        pattern: String,
    },
    /// A play says `tf` and is given several workspaces.
    #[error(
        "a play has `hosts: {pattern}`; with several workspaces `tf` would be the hosts of all of them, since `:` is a union to Ansible; name `{instead}`"
    )]
    UnionInPlay {
        /// The whole pattern.
        pattern: String,
        /// What to write in its place.
        instead: String,
    },
}

impl Fleet {
    /// The limit that Ansible is given for the limit that a person typed.
    ///
    /// # Errors
    /// When `tf` stands in it where it has no meaning, or before a workspace that is not given.
    pub fn limit(&self, pattern: &str) -> Result<String, PatternError> {
        let terms = terms(pattern);
        self.names_are_given(&terms, pattern)?;
        if self.only().is_some() {
            return Ok(pattern.to_owned());
        }
        let mut rewritten: Vec<&str> = Vec::new();
        for (index, term) in terms.iter().enumerate() {
            match *term {
                crate::EVERY_HOST
                    if terms
                        .get(index + 1)
                        .is_some_and(|next| self.is_workspace(next)) => {}
                crate::EVERY_HOST => {
                    rewritten.extend(self.workspaces.iter().map(|one| one.name.as_str()))
                }
                "&tf" | "!tf" => {
                    return Err(PatternError::NoSuchGroup {
                        term: (*term).to_owned(),
                        pattern: pattern.to_owned(),
                    });
                }
                other => rewritten.push(other),
            }
        }
        Ok(rewritten.join(":"))
    }

    /// Checks the `hosts:` of a play, which is Ansible's to read and is not rewritten.
    ///
    /// # Errors
    /// When `tf` stands in it and several workspaces are given, or a workspace that is not given.
    pub fn check_play(&self, pattern: &str) -> Result<(), PatternError> {
        let terms = terms(pattern);
        self.names_are_given(&terms, pattern)?;
        let says_tf = terms
            .iter()
            .any(|term| term.trim_start_matches(['&', '!']) == crate::EVERY_HOST);
        if self.only().is_some() || !says_tf {
            return Ok(());
        }
        let instead = self.limit(pattern).unwrap_or_else(|_| {
            let names: Vec<&str> = self
                .workspaces
                .iter()
                .map(|one| one.name.as_str())
                .collect();
            names.join(":")
        });
        Err(PatternError::UnionInPlay {
            pattern: pattern.to_owned(),
            instead,
        })
    }

    fn is_workspace(&self, name: &str) -> bool {
        self.workspaces
            .iter()
            .any(|workspace| workspace.name.as_str() == name)
    }

    /// In `tf:NAME` the name must be a workspace, a group or a host that is given: a typing error there would
    /// be a union with everything.
    fn names_are_given(&self, terms: &[&str], pattern: &str) -> Result<(), PatternError> {
        for two in terms.windows(2) {
            let [crate::EVERY_HOST, name] = two else {
                continue;
            };
            let is_plain =
                !name.starts_with(['&', '!', '~']) && !name.contains(['*', '?', '[', '{']);
            if is_plain && !self.is_workspace(name) {
                return Err(PatternError::NotGiven {
                    name: (*name).to_owned(),
                    pattern: pattern.to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// The terms of a pattern: between `,` and `:`, but not within brackets or braces. With a comma anywhere
/// the colons of an address are part of a term to Ansible; host names here have none.
fn terms(pattern: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut from, mut depth) = (0, 0usize);
    for (at, char) in pattern.char_indices() {
        match char {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            ',' | ':' if depth == 0 => {
                terms.push(pattern[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    terms.push(pattern[from..].trim());
    terms.retain(|term| !term.is_empty());
    terms
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Workspace;

    fn fleet(names: &[&str]) -> Fleet {
        let workspaces = names.iter().map(|name| {
            let hosts =
                json!({ format!("{name}-1"): { "address": "192.0.2.1", "groups": ["web"] } });
            Workspace::parse(name.parse().unwrap(), &hosts).unwrap()
        });
        Fleet::new(workspaces.collect()).unwrap()
    }

    #[test]
    fn with_one_workspace_every_pattern_is_given_as_it_is() {
        let fleet = fleet(&["prod"]);
        for pattern in ["tf:prod", "tf", "prod:&web", "tf,prod", "all", "tf:&web"] {
            assert_eq!(fleet.limit(pattern).unwrap(), pattern);
            fleet.check_play(pattern).unwrap();
        }
    }

    #[test]
    fn with_several_a_limit_is_rewritten() {
        let fleet = fleet(&["prod", "stage"]);
        for (typed, given) in [
            ("tf:prod", "prod"),
            ("tf,prod", "prod"),
            ("tf:prod:&web", "prod:&web"),
            ("tf:prod:tf:stage", "prod:stage"),
            ("tf", "prod:stage"),
            ("tf:&web", "prod:stage:&web"),
            ("web[0:1]:tf:stage", "web[0:1]:stage"),
            ("web", "web"),
        ] {
            assert_eq!(fleet.limit(typed).unwrap(), given, "{typed}");
        }
        assert!(matches!(
            fleet.limit("web:!tf"),
            Err(PatternError::NoSuchGroup { .. })
        ));
    }

    #[test]
    fn with_several_a_play_that_says_tf_is_refused_with_what_to_write() {
        let fleet = fleet(&["prod", "stage"]);
        let error = fleet.check_play("tf:prod").unwrap_err();
        assert!(error.to_string().contains("name `prod`"), "{error}");
        assert!(fleet.check_play("all:!tf").is_err());
        fleet.check_play("prod:&web").unwrap();
    }

    #[test]
    fn a_workspace_that_is_not_given_is_told_and_not_taken_for_everything() {
        for fleet in [fleet(&["prod"]), fleet(&["prod", "stage"])] {
            assert!(matches!(
                fleet.limit("tf:prdo"),
                Err(PatternError::NotGiven { .. })
            ));
            assert!(matches!(
                fleet.check_play("tf:prdo"),
                Err(PatternError::NotGiven { .. })
            ));
        }
    }
}

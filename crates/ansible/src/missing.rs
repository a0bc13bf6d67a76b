//! What a playbook wants and Ansible does not find, in its own words.

/// Something of a collection or a role that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// A collection, as `community.general`, by a name of something in it.
    Collection(String),
    /// A role.
    Role(String),
}

/// What ansible-core 2.15 to 2.19 say before a name in quotes, where it is of something that they can't load.
const BEFORE_A_PLUGIN: [&str; 4] = [
    "module/action '",
    "filter named '",
    "test named '",
    "plugin '",
];

impl Missing {
    /// Reads one line of what Ansible said. What is of no collection is misspelt, and of that nothing is told.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let line_says = |words: &str| line.contains(words);
        if line_says("the role '") && line_says("was not found") {
            let name = quoted_after(line, "the role '")?;
            return Some(match collection_of(name) {
                Some(collection) => Self::Collection(collection),
                None => Self::Role(name.to_owned()),
            });
        }
        let is_unfound =
            line_says("couldn't resolve") || line_says(" named '") || line_says("was not found");
        let mut names = BEFORE_A_PLUGIN
            .iter()
            .filter_map(|words| quoted_after(line, words));
        let collection = names.find_map(collection_of).filter(|_| is_unfound)?;
        // What Ansible itself brings is there.
        (!collection.starts_with("ansible.builtin") && !collection.starts_with("ansible.legacy"))
            .then_some(Self::Collection(collection))
    }
}

fn quoted_after<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(words)?;
    let (name, _) = rest.split_once('\'')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// The collection of a name of three parts or more.
fn collection_of(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('.').collect();
    (parts.len() > 2 && parts.iter().all(|part| !part.is_empty()))
        .then(|| format!("{}.{}", parts[0], parts[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ansible-core 2.19 prints them.
    #[test]
    fn what_is_missing_is_read_from_ansibles_words() {
        let collection = |name: &str| Some(Missing::Collection(name.to_owned()));
        let role = |name: &str| Some(Missing::Role(name.to_owned()));
        for (line, expected) in [
            (
                "[ERROR]: couldn't resolve module/action 'community.general.ufw'. This often indicates a misspelling, missing collection, or incorrect module path.",
                collection("community.general"),
            ),
            (
                "[ERROR]: couldn't resolve module/action 'ufww'. This often indicates a misspelling, missing collection, or incorrect module path.",
                None,
            ),
            (
                "[ERROR]: couldn't resolve module/action 'ansible.builtin.coppy'. This often",
                None,
            ),
            (
                "[ERROR]: the role 'geerlingguy.docker' was not found in /p/roles:/p",
                role("geerlingguy.docker"),
            ),
            (
                "the role 'devsec.hardening.os' was not found in devsec.hardening:ansible.legacy:/p/roles",
                collection("devsec.hardening"),
            ),
            (
                "`web1`: task `x`: Task failed: Syntax error in template: No filter named 'community.general.json_query'.",
                collection("community.general"),
            ),
            (
                "The lookup plugin 'community.hashi_vault.hashi_vault' was not found.",
                collection("community.hashi_vault"),
            ),
            (
                "Task failed: the connection plugin 'community.docker.docker' was not found",
                collection("community.docker"),
            ),
            ("the user 'a.b.c' was not found", None),
            ("the role 'x; rm -r' was not found", None),
            ("Could not load plugin 'a.b.c'", None),
        ] {
            assert_eq!(Missing::read(line), expected, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_line_is_it_is_read(line in ".*") {
            let _ = Missing::read(&line);
            let _ = Missing::read(&format!("the role '{line}' was not found"));
        }
    }
}

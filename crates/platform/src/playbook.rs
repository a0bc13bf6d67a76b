//! Playbooks, as far as they can be wrong before Ansible reads them: which hosts their plays name.

use std::ops::Range;

use fleet::Fleet;
use saphyr::{LoadableYamlNode as _, MarkedYaml, Scalar, YamlData};

use crate::fault::TextFile;
use crate::reader::Doc;

/// The `hosts:` of one play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlayHosts {
    /// The pattern, as Ansible would join it.
    pub pattern: String,
    /// Where it stands, in bytes of the playbook.
    pub span: Range<usize>,
}

/// Finds the `hosts:` of every play of a playbook. Those of plays that it imports are not among them.
///
/// # Errors
/// What is no YAML, or no list of plays, in a sentence.
pub fn plays(text: &str) -> Result<Vec<PlayHosts>, String> {
    let documents = MarkedYaml::load_from_str(text).map_err(|error| error.to_string())?;
    let Some(document) = documents.first() else {
        return Err("it holds no play".to_owned());
    };
    let YamlData::Sequence(plays) = &plain(document).data else {
        return Err("a playbook is a list of plays".to_owned());
    };
    let offsets = Offsets::of(text);
    let mut found = Vec::new();
    for play in plays {
        let YamlData::Mapping(keys) = &plain(play).data else {
            return Err("a play is a map with `hosts` and `tasks`".to_owned());
        };
        for (key, value) in keys {
            if text_of(key) != Some("hosts") {
                continue;
            }
            let value = plain(value);
            let pattern = match &value.data {
                YamlData::Sequence(items) => {
                    let items: Vec<&str> = items.iter().filter_map(text_of).collect();
                    items.join(",")
                }
                _ => text_of(value).unwrap_or_default().to_owned(),
            };
            let span = offsets.at(value.span.start.index())..offsets.at(value.span.end.index());
            found.push(PlayHosts { pattern, span });
        }
    }
    Ok(found)
}

/// Where each character of a text begins: marks count characters, spans count bytes.
struct Offsets(Vec<usize>);

impl Offsets {
    fn of(text: &str) -> Self {
        let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        starts.push(text.len());
        Self(starts)
    }

    fn at(&self, character: usize) -> usize {
        let last = self.0.len() - 1;
        self.0[character.min(last)]
    }
}

/// A value without its tag, such as Ansible's `!unsafe`.
fn plain<'a, 'b>(value: &'a MarkedYaml<'b>) -> &'a MarkedYaml<'b> {
    match &value.data {
        YamlData::Tagged(_, inner) => plain(inner),
        _ => value,
    }
}

fn text_of<'a>(value: &'a MarkedYaml<'_>) -> Option<&'a str> {
    match &plain(value).data {
        YamlData::Value(Scalar::String(text)) => Some(text),
        YamlData::Representation(text, ..) => Some(text),
        _ => None,
    }
}

/// Reports what is wrong with the hosts that a playbook names, where one workspace's hosts are given to it.
pub(crate) fn look(doc: &Doc<'_>, path: &str, bytes: Vec<u8>, fleet: Option<&Fleet>) {
    let Ok(text) = String::from_utf8(bytes) else {
        let file = TextFile::new(path, "");
        let message = format!("`{path}` is not UTF-8 text");
        return doc.report.push(file.fault_of_whole(message));
    };
    let file = TextFile::new(path, text);
    match plays(&file.text) {
        // Ansible is the judge of its own language.
        Err(error) => doc.report.push(
            file.fault_of_whole(format!("playbook `{path}` can't be looked at: {error}"))
                .warning(),
        ),
        Ok(plays) => {
            for play in plays {
                // What a template makes of it nobody knows before Ansible.
                if play.pattern.contains("{{") {
                    continue;
                }
                if let Some(Err(error)) = fleet.map(|fleet| fleet.check_play(&play.pattern)) {
                    doc.report.push(
                        file.fault(play.span, "not given to this play", error.to_string())
                            .help(
                                "write `tf` for all hosts of the step, or name one of their groups",
                            ),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_every_play_are_found_where_they_stand() {
        let text = "# ä\n- name: one\n  hosts: tf:prod\n  vars: {x: !unsafe 'a{{'}\n- import_playbook: other.yml\n- hosts:\n    - web\n    - '!db'\n";
        let found = plays(text).unwrap();
        let patterns: Vec<&str> = found.iter().map(|play| play.pattern.as_str()).collect();
        assert_eq!(patterns, ["tf:prod", "web,!db"]);
        assert_eq!(&text[found[0].span.clone()], "tf:prod");
        for wrong in ["", "hosts: all\n", "- just text\n", "- hosts: [\n"] {
            assert!(plays(wrong).is_err(), "{wrong:?}");
        }
    }
}

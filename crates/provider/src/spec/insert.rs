//! Members added to a table within a YAML or JSON text, every other byte left as it is.
//!
//! No library writes YAML back with its comments, so the place is found by the reader's own markers and text is put
//! there. Whether that did what was meant is for the caller to prove, by reading the result.

use saphyr::{LoadableYamlNode, MarkedYaml, YamlData};

/// A member to add: its key, and its value as JSON, which YAML takes as well.
pub(super) struct Member {
    pub(super) key: String,
    pub(super) value: String,
}

/// Returns the text with members added to the table `spec.config.machines` of a group. None where there is no such
/// table, or none that text can be put into.
pub(super) fn with_members(text: &str, group: &str, members: &[Member]) -> Option<String> {
    let documents = MarkedYaml::load_from_str(text).ok()?;
    let specs = documents.iter().flat_map(|document| match &document.data {
        YamlData::Sequence(specs) => specs.iter().collect::<Vec<_>>(),
        _ => vec![document],
    });
    let is_it = |spec: &&MarkedYaml<'_>| {
        let name = member(spec, "metadata").and_then(|metadata| member(metadata, "name"));
        member(spec, "kind").is_some_and(|kind| is_text(kind, "NodeGroup"))
            && name.is_some_and(|name| is_text(name, group))
    };
    let mut specs = specs;
    let spec = specs.find(is_it)?;
    let table = member(member(member(spec, "spec")?, "config")?, "machines")?;
    let YamlData::Mapping(there) = &table.data else {
        return None;
    };
    let source = Source::of(text);
    let first = there.keys().next();
    let last = there
        .iter()
        .flat_map(|(key, value)| [key, value])
        .map(|node| source.end_of(node))
        .max();
    let (at, added) = match (source.is_flow(table), first, last) {
        (true, Some(_), Some(last)) => source.after_flow(last, there, members)?,
        (true, ..) => (
            source.byte(table.span.start.index())? + 1,
            in_a_line(members),
        ),
        (false, Some(first), Some(last)) => source.after_block(first, last, members)?,
        // A table of nothing that is not `{}` has no place of its own.
        (false, ..) => return None,
    };
    let (before, after) = text.split_at_checked(at)?;
    Some(format!("{before}{added}{after}"))
}

fn member<'a, 'i>(node: &'a MarkedYaml<'i>, name: &str) -> Option<&'a MarkedYaml<'i>> {
    match &node.data {
        YamlData::Mapping(members) => members
            .iter()
            .find(|(key, _)| is_text(key, name))
            .map(|(_, value)| value),
        _ => None,
    }
}

fn is_text(node: &MarkedYaml<'_>, text: &str) -> bool {
    node.data.as_str() == Some(text)
}

fn in_a_line(members: &[Member]) -> String {
    let all = members.iter();
    let all: Vec<String> = all
        .map(|member| format!("{}: {}", member.key, member.value))
        .collect();
    format!(" {} ", all.join(", "))
}

/// A text, and where its characters begin: markers count characters.
struct Source<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Source<'t> {
    fn of(text: &'t str) -> Self {
        let starts = text.char_indices().map(|(at, _)| at);
        Self {
            text,
            starts: starts.chain([text.len()]).collect(),
        }
    }

    fn byte(&self, character: usize) -> Option<usize> {
        self.starts.get(character).copied()
    }

    fn rest(&self, at: usize) -> &'t str {
        self.text.get(at..).unwrap_or_default()
    }

    fn is_flow(&self, table: &MarkedYaml<'_>) -> bool {
        self.byte(table.span.start.index())
            .is_some_and(|at| self.rest(at).starts_with('{'))
    }

    /// The end of what a node says, without what follows it in its line.
    fn end_of(&self, node: &MarkedYaml<'_>) -> usize {
        let start = self.byte(node.span.start.index()).unwrap_or_default();
        let end = self.byte(node.span.end.index()).unwrap_or_default();
        let is_flow = self.rest(start).starts_with(['{', '[']);
        match &node.data {
            // The marker is that of the closing bracket.
            YamlData::Mapping(_) | YamlData::Sequence(_) if is_flow => end + 1,
            YamlData::Mapping(members) => members
                .iter()
                .flat_map(|(key, value)| [key, value])
                .map(|node| self.end_of(node))
                .max()
                .unwrap_or_default(),
            YamlData::Sequence(items) => items
                .iter()
                .map(|node| self.end_of(node))
                .max()
                .unwrap_or_default(),
            // What is not written at all has no end of its own.
            _ if end <= start => 0,
            _ => {
                start
                    + self
                        .text
                        .get(start..end)
                        .unwrap_or_default()
                        .trim_end()
                        .len()
            }
        }
    }

    /// Members on lines of their own, below the last one, as far to the right as the first.
    fn after_block(
        &self,
        first: &MarkedYaml<'_>,
        last: usize,
        members: &[Member],
    ) -> Option<(usize, String)> {
        let indent = self.indent_of(self.byte(first.span.start.index())?)?;
        let rest = self.rest(last);
        let end = rest.find('\n').unwrap_or(rest.len());
        let end = last + rest.get(..end)?.trim_end_matches('\r').len();
        let line_end = self.line_end();
        let added = members
            .iter()
            .map(|member| format!("{line_end}{indent}{}: {}", member.key, member.value));
        Some((end, added.collect()))
    }

    /// Members after the last one of a table in braces: on lines of their own where those are.
    fn after_flow(
        &self,
        last: usize,
        there: &saphyr::AnnotatedMapping<'_, MarkedYaml<'_>>,
        members: &[Member],
    ) -> Option<(usize, String)> {
        let (key, _) = there.iter().next_back()?;
        let indent = self.indent_of(self.byte(key.span.start.index())?);
        let between = match indent {
            Some(indent) => format!(",{}{indent}", self.line_end()),
            None => ", ".to_owned(),
        };
        // A key without a value ends before its colon.
        let rest = self.rest(last);
        let colon = rest.trim_start().starts_with(':');
        let at = last + if colon { rest.find(':')? + 1 } else { 0 };
        let added = members
            .iter()
            .map(|member| format!("{between}{}: {}", member.key, member.value));
        Some((at, added.collect()))
    }

    /// What stands before something in its line, where that is white space alone.
    fn indent_of(&self, at: usize) -> Option<&'t str> {
        let before = self.text.get(..at)?;
        let line = before.rsplit('\n').next()?;
        line.trim().is_empty().then_some(line)
    }

    fn line_end(&self) -> &'static str {
        if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        }
    }
}

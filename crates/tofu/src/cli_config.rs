//! The CLI configuration that every `tofu` gets: ours, never the user's own.
//!
//! Two are written. The whole one asks the plugin cache, then what the target's base file says
//! (`direct` without one). The offline one asks the cache alone: OpenTofu asks *every* method for
//! the versions of a provider, so a mirror that has the right version does not keep it from a
//! registry that is down.
//!
//! The base file is in the first version of HCL, which no library here reads (`"a/b" = "c"`). All
//! that is needed is where its blocks begin and end; the rest is passed on letter by letter.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::encryption::quoted;

/// Why a base CLI configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CliConfigError {
    /// The file can't be read.
    #[error("cannot read the CLI configuration `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A block has no end.
    #[error("the CLI configuration `{}` has a block without end, begun in line {line}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line that it begins in, from 1.
        line: usize,
    },
    /// It is in JSON syntax.
    #[error("the CLI configuration `{}` is in JSON syntax; write it in HCL", path.display())]
    Json {
        /// The file.
        path: PathBuf,
    },
}

/// The texts of the two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliConfigs {
    /// Cache, then the base file's methods or the registry.
    pub(crate) whole: String,
    /// The cache alone.
    pub(crate) offline: String,
}

/// Builds both from the plugin cache's path and the base file's path and text.
pub(crate) fn render(
    cache: &Path,
    base: Option<(&Path, &str)>,
) -> Result<CliConfigs, CliConfigError> {
    let mut settings = String::new();
    let mut overrides = String::new();
    let mut methods = String::new();
    if let Some((path, text)) = base {
        if text.trim_start().starts_with('{') {
            return Err(CliConfigError::Json {
                path: path.to_owned(),
            });
        }
        let syntax = |line| CliConfigError::Syntax {
            path: path.to_owned(),
            line,
        };
        let mut kept = 0;
        for item in items(text).map_err(syntax)? {
            let Some(body) = item.body.filter(|_| item.name == "provider_installation") else {
                continue;
            };
            settings.push_str(&text[kept..item.range.start]);
            kept = item.range.end;
            let body = &text[body];
            for method in items(body).map_err(syntax)? {
                let into = if method.name == "dev_overrides" {
                    &mut overrides
                } else {
                    &mut methods
                };
                into.push_str(&absolute(body, &method, path).map_err(syntax)?);
                into.push('\n');
            }
        }
        settings.push_str(&text[kept..]);
        let end = settings.trim_end().len();
        settings.truncate(end);
        if !settings.is_empty() {
            settings.push('\n');
        }
    }
    if methods.is_empty() {
        methods.push_str("direct {}\n");
    }
    let cache = format!(
        "filesystem_mirror {{\n  path = {}\n}}\n",
        quoted(&cache.to_string_lossy())
    );
    let file = |methods: &str| {
        format!(
            "# Written by rebuild; changes are lost.\n{settings}provider_installation {{\n{overrides}{cache}{methods}}}\n"
        )
    };
    Ok(CliConfigs {
        whole: file(&methods),
        offline: file(""),
    })
}

/// A method's text. A mirror's relative path means the base file's directory, not the step's working
/// directory.
fn absolute<'t>(text: &'t str, method: &Item<'t>, base: &Path) -> Result<Cow<'t, str>, usize> {
    let whole = &text[method.range.clone()];
    let (Some(body), "filesystem_mirror") = (method.body.clone(), method.name) else {
        return Ok(whole.into());
    };
    let offset = body.start;
    for item in items(&text[body])? {
        let range = offset + item.range.start..offset + item.range.end;
        let attribute = &text[range.clone()];
        let Some((name, value)) = attribute.split_once('=') else {
            continue;
        };
        let value = value.trim();
        let plain = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'));
        if let (true, Some(path)) = (name.trim() == "path", plain)
            && Path::new(path).is_relative()
        {
            let joined = base.parent().unwrap_or(Path::new("/")).join(path);
            return Ok(format!(
                "{}path = {}{}",
                &text[method.range.start..range.start],
                quoted(&joined.to_string_lossy()),
                &text[range.end..method.range.end]
            )
            .into());
        }
    }
    Ok(whole.into())
}

/// One attribute or block of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item<'t> {
    name: &'t str,
    range: Range<usize>,
    /// Between a block's braces.
    body: Option<Range<usize>>,
}

/// The items of a body; the line of one without end.
fn items(text: &str) -> Result<Vec<Item<'_>>, usize> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if let Some(after) = comment(text, at) {
            at = after;
            continue;
        }
        if bytes[at].is_ascii_whitespace() || matches!(bytes[at], b',' | b'}' | b']') {
            at += 1;
            continue;
        }
        let start = at;
        at = if bytes[at] == b'"' {
            string(bytes, at)
        } else {
            word(bytes, at)
        };
        let name = text[start..at].trim_matches('"');
        let (mut depth, mut assigned, mut body) = (0_usize, false, None);
        let end = loop {
            if at >= bytes.len() {
                if depth > 0 {
                    return Err(text[..start].matches('\n').count() + 1);
                }
                break at;
            }
            if let Some(after) = comment(text, at) {
                // A comment to the line's end leaves the newline to be seen.
                at = if bytes[after - 1] == b'\n' {
                    after - 1
                } else {
                    after
                };
                continue;
            }
            match bytes[at] {
                b'"' => {
                    at = string(bytes, at);
                    continue;
                }
                b'<' if bytes[at..].starts_with(b"<<") => {
                    at = heredoc(text, at);
                    continue;
                }
                b'=' if depth == 0 => assigned = true,
                b'{' | b'[' => {
                    if depth == 0 && !assigned && bytes[at] == b'{' {
                        body = Some(at + 1);
                    }
                    depth += 1;
                }
                b'}' | b']' => {
                    if depth <= 1 && body.is_some() {
                        break at + 1;
                    }
                    depth = depth.saturating_sub(1);
                }
                b'\n' if depth == 0 && assigned => break at,
                _ => {}
            }
            at += 1;
        };
        at = end;
        found.push(Item {
            name,
            range: start..end,
            body: body.map(|body| body..end - 1),
        });
    }
    Ok(found)
}

/// The end of a comment that begins here.
fn comment(text: &str, at: usize) -> Option<usize> {
    let rest = &text.as_bytes()[at..];
    if rest.starts_with(b"/*") {
        return Some(
            text.get(at + 2..)?
                .find("*/")
                .map_or(text.len(), |end| at + end + 4),
        );
    }
    if rest.starts_with(b"#") || rest.starts_with(b"//") {
        return Some(
            rest.iter()
                .position(|byte| *byte == b'\n')
                .map_or(text.len(), |end| at + end + 1),
        );
    }
    None
}

fn string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a word; never in the midst of a character, never where it began.
fn word(bytes: &[u8], start: usize) -> usize {
    let ends = |byte: &u8| {
        byte.is_ascii_whitespace()
            || matches!(byte, b'=' | b'{' | b'[' | b'"' | b'#' | b'}' | b']' | b',')
    };
    start
        + bytes[start..]
            .iter()
            .skip(1)
            .position(ends)
            .map_or(bytes.len() - start, |end| end + 1)
}

fn heredoc(text: &str, start: usize) -> usize {
    let rest = &text[start..];
    let Some(line_end) = rest.find('\n') else {
        return text.len();
    };
    let mark = rest[2..line_end].trim_start_matches('-').trim();
    let mut at = start + line_end + 1;
    for line in text[at..].split_inclusive('\n') {
        if line.trim() == mark {
            return at + line.trim_end().len();
        }
        at += line.len();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_base_the_registry_follows_the_cache() {
        let configs = render(Path::new("/w/plugins"), None).unwrap();
        assert_eq!(
            configs.whole,
            "# Written by rebuild; changes are lost.\nprovider_installation {\nfilesystem_mirror {\n  path = \"/w/plugins\"\n}\ndirect {}\n}\n"
        );
        assert!(!configs.offline.contains("direct"));
    }

    #[test]
    fn the_base_keeps_its_settings_and_its_methods_come_after_ours() {
        let base = r#"
credentials "tf.example.org" {
  token = "abc"
}
provider_installation {
  dev_overrides {
    "example.org/a/b" = "/dev/b"
  }
  filesystem_mirror {
    path    = "mirror"
    include = ["example.org/*/*"]
  }
}
plugin_cache_dir = "/x"
"#;
        let configs = render(
            Path::new("/w/plugins"),
            Some((Path::new("/base/tofu.tfrc"), base)),
        )
        .unwrap();
        let whole = &configs.whole;
        let at = |needle: &str| {
            whole
                .find(needle)
                .unwrap_or_else(|| panic!("{needle} not in {whole}"))
        };
        assert!(
            at("dev_overrides") < at("\"/w/plugins\"")
                && at("\"/w/plugins\"") < at("\"/base/mirror\"")
        );
        assert!(at("token = \"abc\"") < at("provider_installation"));
        assert!(whole.contains("plugin_cache_dir = \"/x\"") && !whole.contains("direct"));
        assert!(
            configs.offline.contains("dev_overrides") && !configs.offline.contains("/base/mirror")
        );
        assert_eq!(whole.matches("provider_installation").count(), 1);
        assert_eq!(items(whole).unwrap().len(), 3);
    }

    #[test]
    fn json_is_refused_by_name() {
        let error = render(Path::new("/w"), Some((Path::new("/b.tfrc"), "{}"))).unwrap_err();
        assert!(matches!(error, CliConfigError::Json { .. }));
    }

    #[test]
    fn what_only_looks_like_a_block_is_left_alone() {
        let base = "# provider_installation {\n/* } */ credentials \"a\" { token = \"}{\" } // {\nx = <<EOT\n}\nEOT\nhost \"b\" {\n services = { \"m.v1\" = \"u\" }\n}\n";
        let names: Vec<_> = items(base).unwrap().iter().map(|item| item.name).collect();
        assert_eq!(names, ["credentials", "x", "host"]);
        let configs = render(Path::new("/w"), Some((Path::new("/b"), base))).unwrap();
        assert!(configs.whole.contains(base.trim_end()));
    }

    #[test]
    fn a_block_without_end_is_refused_with_its_line() {
        let error = render(
            Path::new("/w"),
            Some((Path::new("/b.tfrc"), "\nx {\n y = 1\n")),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the CLI configuration `/b.tfrc` has a block without end, begun in line 2"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in proptest::prelude::any::<String>(), marks in "[a-z \n\"{}=\\[\\]#/*<E-]{0,80}") {
            let _ = items(&text);
            let _ = items(&marks);
            let _ = render(Path::new("/w"), Some((Path::new("/b"), &marks)));
        }
    }
}

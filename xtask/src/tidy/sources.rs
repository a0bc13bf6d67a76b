//! Checks of the source files.

use super::{File, Tree};

/// The most lines that a file may have without its tests.
const MOST_LINES: usize = 800;

/// Texts that no file may hold: paths of somebody's machine, and hosts that packages come from.
/// In pieces, so that this list is not a finding itself.
const BANNED: [&str; 10] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/home/", "runner/"),
    concat!("/Use", "rs/"),
    concat!("proxy.", "golang.org"),
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("py", "pi.org"),
    concat!("registry.", "npmjs.org"),
    concat!("deb.", "debian.org"),
];

/// Every Rust file says at its top what it is for.
pub(super) fn module_docs(tree: &Tree) -> Vec<String> {
    tree.files
        .iter()
        .filter(|file| file.is("rs") && !file.text.starts_with("//! "))
        .map(|file| {
            format!(
                "{}: begins with no `//!` that says what it is for",
                file.path
            )
        })
        .collect()
}

/// No Rust file is too long to be read in one go.
pub(super) fn lengths(tree: &Tree) -> Vec<String> {
    tree.files
        .iter()
        .filter(|file| file.is("rs") && !is_test(file))
        .map(|file| (file, lines_of_code(&file.text)))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(file, lines)| {
            format!(
                "{}: {lines} lines without tests; {MOST_LINES} is the most",
                file.path
            )
        })
        .collect()
}

/// Returns the lines before the tests that a file ends with.
pub(crate) fn lines_of_code(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|two| two[0] == "#[cfg(test)]" && two[1].starts_with("mod tests {"));
    tests.unwrap_or(lines.len())
}

/// Whether a whole file is tests.
fn is_test(file: &File) -> bool {
    is_test_path(&file.path)
}

/// Whether the file at this path holds nothing but tests.
pub(crate) fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path.starts_with("tests/")
        || path.contains("/tests/")
}

/// Whether a line holds a banned text; an absolute path counts where it begins, not in the middle of another.
fn speaks_of(line: &str, banned: &str) -> bool {
    let goes_on = |before: char| before.is_alphanumeric() || "._-".contains(before);
    line.match_indices(banned).any(|(at, _)| {
        !banned.starts_with('/') || !line[..at].chars().next_back().is_some_and(goes_on)
    })
}

/// No file speaks of one machine.
pub(super) fn words(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| !file.path.ends_with(".sum") && file.path != "Cargo.lock")
    {
        for (index, line) in file.text.lines().enumerate() {
            for banned in BANNED.iter().filter(|banned| speaks_of(line, banned)) {
                findings.push(format!(
                    "{}:{}: `{banned}` has no place in the project",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_module_docs_is_found() {
        let tree = Tree::of(&[
            ("a.rs", "//! Good.\n"),
            ("b.rs", "fn bad() {}\n"),
            ("c.toml", "x = 1\n"),
        ]);
        let findings = module_docs(&tree);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("b.rs: "), "{findings:?}");
    }

    #[test]
    fn tests_do_not_count_as_length() {
        let code = "line\n".repeat(MOST_LINES);
        let tests = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
        let long = format!("{code}line\n");
        let tree = Tree::of(&[("ok.rs", &tests), ("x/tests.rs", &long), ("long.rs", &long)]);
        let findings = lengths(&tree);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].starts_with("long.rs: 801 lines"),
            "{findings:?}"
        );
    }

    #[test]
    fn an_absolute_path_of_a_machine_is_found_with_its_line() {
        let text = format!("fine\nsee {}x\n", BANNED[0]);
        let findings = words(&Tree::of(&[("notes.md", &text), ("go.sum", &text)]));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("notes.md:2: "), "{findings:?}");
    }
}

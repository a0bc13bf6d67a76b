//! Checks of the pages: what they name is there.

use std::collections::BTreeSet;

use super::Tree;

/// Where a path in backticks may begin; anything else in backticks is not taken for one.
const PLACES: [&str; 8] = [
    "crates/",
    "docs/",
    "examples/",
    "fixtures/",
    "tests/",
    "tools/",
    "xtask/",
    ".ci/",
];

/// Every path that a page names is there: in backticks from the root, in a link from the page.
pub(super) fn paths(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is("md")) {
        let directory = file
            .path
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory);
        for (index, line) in file.text.lines().enumerate() {
            let named = named_paths(line).into_iter().map(str::to_owned);
            let linked = links(line).into_iter().map(|link| joined(directory, link));
            for path in named.chain(linked).filter(|path| !tree.has(path)) {
                findings.push(format!(
                    "{}:{}: `{path}` does not exist",
                    file.path,
                    index + 1
                ));
            }
        }
    }
    findings
}

/// The exit codes of the README are those of the code.
pub(super) fn exit_codes(tree: &Tree) -> Vec<String> {
    const CODE: &str = "crates/phase-engine/src/exit.rs";
    let Some(code) = tree.text(CODE) else {
        return vec![format!("{CODE}: is missing")];
    };
    let readme = tree.text("README.md").unwrap_or_default();
    let in_code: BTreeSet<u8> = code
        .lines()
        .skip_while(|line| !line.contains("fn code("))
        .take_while(|line| *line != "    }")
        .filter_map(|line| {
            line.trim()
                .strip_suffix(',')?
                .split_once(" => ")?
                .1
                .parse()
                .ok()
        })
        .collect();
    let in_readme: BTreeSet<u8> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" |")?.0.parse().ok())
        .collect();
    if in_code.is_empty() || in_code != in_readme {
        return vec![format!(
            "README.md: has the exit codes {in_readme:?}; {CODE} has {in_code:?}"
        )];
    }
    Vec::new()
}

/// The command by which the README says to run the tests is one that CI runs.
pub(super) fn ci(tree: &Tree) -> Vec<String> {
    const COMMAND: &str = "cargo xtask test";
    ["README.md", ".ci/run"]
        .into_iter()
        .filter(|path| {
            !tree
                .text(path)
                .unwrap_or_default()
                .lines()
                .any(|line| line.starts_with(COMMAND))
        })
        .map(|path| format!("{path}: has no line with `{COMMAND}`"))
        .collect()
}

/// Every test that the architecture page names is there.
pub(super) fn named_tests(tree: &Tree) -> Vec<String> {
    const PAGE: &str = "docs/ARCHITECTURE.md";
    let mut findings = Vec::new();
    for (index, line) in tree.text(PAGE).unwrap_or_default().lines().enumerate() {
        for name in line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|text| is_test(text))
        {
            let head = format!("fn {name}(");
            let mut sources = tree.files.iter().filter(|file| file.is("rs"));
            if !sources.any(|file| file.text.contains(&head)) {
                findings.push(format!("{PAGE}:{}: there is no test `{name}`", index + 1));
            }
        }
    }
    findings
}

/// Whether a word in backticks is the name of a test: a sentence of four words or more.
fn is_test(text: &str) -> bool {
    text.matches('_').count() >= 3 && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// Returns what stands in backticks and looks like a path of this tree.
fn named_paths(line: &str) -> Vec<&str> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter(|text| PLACES.iter().any(|place| text.starts_with(place)))
        .filter(|text| !text.contains([' ', '<', '*', '{', '…']))
        .map(|text| text.split("::").next().unwrap_or(text))
        .collect()
}

/// Returns where the links of a line lead, those to other hosts and within the page apart.
fn links(line: &str) -> Vec<&str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(link, _)| link.split('#').next().unwrap_or(link))
        .filter(|link| !link.is_empty() && !link.contains("://") && !link.starts_with("mailto:"))
        .collect()
}

fn joined(directory: &str, link: &str) -> String {
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_backticks_are_told_from_other_words() {
        let line =
            "`crates/run` and `crates/<name>`, `cargo xtask`, `docs/A.md::here`, crates/none";
        assert_eq!(named_paths(line), ["crates/run", "docs/A.md"]);
    }

    #[test]
    fn links_are_followed_from_the_page_they_stand_on() {
        let line =
            "[a](../README.md#start) [b](https://example.org/x) [c](#here) [d](decisions/0001.md)";
        assert_eq!(links(line), ["../README.md", "decisions/0001.md"]);
        assert_eq!(joined("docs", "../README.md"), "README.md");
        assert_eq!(
            joined("docs", "decisions/0001.md"),
            "docs/decisions/0001.md"
        );
    }

    #[test]
    fn a_test_that_the_architecture_page_names_and_nobody_has_is_found() {
        let page = "docs/ARCHITECTURE.md";
        let source = ("tests/a.rs", "fn what_is_gone_stays_gone() {}\n");
        let with = |text| named_tests(&Tree::of(&[(page, text), source]));
        assert!(with("| x | `what_is_gone_stays_gone`, `unwrap_used` |\n").is_empty());
        assert_eq!(
            with("\n| x | `what_is_gone_comes_back` |\n"),
            ["docs/ARCHITECTURE.md:2: there is no test `what_is_gone_comes_back`"]
        );
    }

    #[test]
    fn exit_codes_that_differ_are_found() {
        let code = "    pub fn code(self) -> u8 {\n        Self::Done => 0,\n        Self::Locked => 4,\n    }\n\
                        Self::Other => 9,\n";
        let with = |readme: &str| {
            exit_codes(&Tree::of(&[
                ("README.md", readme),
                ("crates/phase-engine/src/exit.rs", code),
            ]))
        };
        assert_eq!(
            with("| code | meaning |\n| --- | --- |\n| 0 | done |\n| 4 | locked |\n"),
            Vec::<String>::new()
        );
        assert_eq!(with("| 0 | done |\n").len(), 1);
    }

    #[test]
    fn a_test_command_that_ci_does_not_run_is_found() {
        let readme = ("README.md", "cargo xtask test   # all\n");
        assert_eq!(
            ci(&Tree::of(&[readme, (".ci/run", "cargo test\n")])).len(),
            1
        );
        assert_eq!(
            ci(&Tree::of(&[readme, (".ci/run", "cargo xtask test\n")])).len(),
            0
        );
    }

    #[test]
    fn a_path_that_is_not_there_is_found_with_its_line() {
        let found = paths(&Tree::of(&[("docs/A.md", "fine\nsee `crates/none`\n")]));
        assert_eq!(found, ["docs/A.md:2: `crates/none` does not exist"]);
    }
}

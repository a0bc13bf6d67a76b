//! The pages in `docs/` and the READMEs: every command line in them is one that this program takes.

use std::path::{Path, PathBuf};

/// Directories that hold pages for operators.
const PLACES: [&str; 4] = [
    "docs",
    "docs/decisions",
    "examples/homelab",
    "crates/platform/templates",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<(PathBuf, String)> {
    let mut pages = vec![root().join("README.md"), root().join("CHANGELOG.md")];
    for place in PLACES {
        let entries = std::fs::read_dir(root().join(place)).unwrap();
        let found = entries.map(|entry| entry.unwrap().path());
        pages.extend(found.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    pages.sort();
    pages
        .into_iter()
        .filter(|path| {
            !path.ends_with("docs/commands.md") && !path.ends_with("docs/ARCHITECTURE.md")
        })
        .map(|path| (path.clone(), std::fs::read_to_string(&path).unwrap()))
        .collect()
}

/// Finds the command lines of a page: a line of a code block that calls `rebuild`, and text in backticks that does.
fn command_lines(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            let line = line.trim_start();
            let line = line.strip_prefix("- ").unwrap_or(line);
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let line = line.split_once(" #").map_or(line, |(line, _)| line);
            for part in line.split("&&").flat_map(|part| part.split(';')) {
                found.push((index + 1, part.trim().to_owned()));
            }
        }
        // A hint in a shown output names commands in backticks as well.
        let quoted = line.split('`').skip(1).step_by(2);
        found.extend(quoted.map(|part| (index + 1, part.trim().to_owned())));
    }
    found.retain(|(_, line)| line.starts_with("rebuild ") && !line.contains(" __"));
    found
}

/// Splits as a shell does, as far as the pages need it; a redirection and what follows a pipe is no argument.
fn words(line: &str) -> Vec<String> {
    let line = line.split(['|', '>']).next().unwrap_or(line);
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if open == c => quote = None,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_line_of_the_pages_is_taken() {
    let mut wrong = Vec::new();
    let mut n_lines = 0;
    for (path, text) in pages() {
        for (number, line) in command_lines(&text) {
            n_lines += 1;
            let problem = match crate::args::command().try_get_matches_from(words(&line)) {
                Ok(matches) => {
                    crate::later::asked(&matches).map(|what| format!("`{what}` is not there yet"))
                }
                Err(error) => match error.kind() {
                    clap::error::ErrorKind::DisplayHelp
                    | clap::error::ErrorKind::DisplayVersion => None,
                    // A command named in a sentence need not be complete.
                    clap::error::ErrorKind::MissingRequiredArgument
                    | clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => None,
                    _ => Some(error.to_string()),
                },
            };
            let says_so = text
                .lines()
                .nth(number - 1)
                .is_some_and(|whole| whole.contains("not there yet"));
            if let Some(problem) = problem.filter(|_| !says_so) {
                wrong.push(format!("{}:{number}: `{line}`: {problem}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_lines > 60, "only {n_lines} command lines were found");
}

/// What the README says is not there yet is refused by name; what is there is not on its list.
#[test]
fn what_the_readme_says_is_not_there_yet_is_refused() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let line = readme
        .split("- **Commands** ")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .expect("the list of commands");
    let names: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    assert!(!names.is_empty(), "{line}");
    for name in names {
        let matches = crate::args::command().try_get_matches_from(["rebuild", name]);
        let asked = matches
            .ok()
            .and_then(|matches| crate::later::asked(&matches));
        assert_eq!(asked.as_deref(), Some(name), "is `{name}` there now?");
    }
}

/// The two examples of the reference, with the files that they name, are a platform without a fault.
#[test]
#[expect(clippy::disallowed_methods, reason = "files of a throw-away platform")]
fn the_examples_of_the_reference_can_be_read() {
    let page = std::fs::read_to_string(root().join("docs/definitions.md")).unwrap();
    let blocks: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|block| block.split("```").next())
        .collect();
    let [platform, target] = blocks[..] else {
        panic!("{} blocks", blocks.len());
    };
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("rebuild.toml", platform),
        ("targets/live.toml", target),
        ("tofu.tfrc", ""),
        ("backup", "#!/bin/sh\n"),
        ("left-over", "#!/bin/sh\n"),
        (
            "phases/0-state/main.tf",
            "output \"name\" {\n  value = \"b\"\n}\n",
        ),
        (
            "phases/1a-edge/main.tf",
            "variable \"bucket\" {\n  type = string\n}\n",
        ),
    ] {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let files = platform::DirFiles::open(dir.path()).unwrap();
    let read = platform::load_target(&files, None, &"live".parse().unwrap());
    let faults = match read {
        Err(faults) => faults,
        Ok(definitions) => match definitions.platform {
            Err(faults) => faults,
            Ok(_) => return,
        },
    };
    panic!("{}", faults.render_plain());
}

#[test]
fn command_lines_are_told_from_other_text() {
    let page = "see `rebuild up --target drill`\n```sh\n$ rebuild down --confirm live  # gone\ncd x && rebuild status --target a\nls\n```\n";
    let lines: Vec<_> = command_lines(page)
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    assert_eq!(
        lines,
        [
            "rebuild up --target drill",
            "rebuild down --confirm live",
            "rebuild status --target a"
        ]
    );
    assert_eq!(words("rebuild x 'a b' | tail"), ["rebuild", "x", "a b"]);
}

//! Checks of the manifests: what crates inherit, where versions stand, which crate may use which.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use toml::{Table, Value};

use super::Tree;

/// The most packages that `Cargo.lock` may name. A new one needs a line in the root manifest on why.
const MOST_PACKAGES: usize = 530;
/// Where the arrows between crates are written down.
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
/// The line before and after the list of arrows.
const ARROWS: [&str; 2] = ["```text arrows", "```"];
/// What no crate may use but in its tests.
const FOR_TESTS: &str = "test-support";

/// One crate of ours.
struct Member {
    path: String,
    name: String,
    manifest: Table,
}

fn read_members(tree: &Tree) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
    {
        let manifest: Table = file
            .text
            .parse()
            .with_context(|| format!("`{}` is no TOML", file.path))?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"))
            .and_then(Value::as_str);
        let name = name
            .with_context(|| format!("`{}` has no name", file.path))?
            .to_owned();
        members.push(Member {
            path: file.path.clone(),
            name,
            manifest,
        });
    }
    Ok(members)
}

/// Every crate inherits lints, version and the rest, and names no version of a dependency.
pub(super) fn members(tree: &Tree) -> Result<Vec<String>> {
    const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];
    let mut findings = Vec::new();
    for member in read_members(tree)? {
        if !inherits(member.manifest.get("lints")) {
            findings.push(format!(
                "{}: `[lints]` must say `workspace = true`",
                member.path
            ));
        }
        for key in INHERITED {
            if !inherits(
                member
                    .manifest
                    .get("package")
                    .and_then(|package| package.get(key)),
            ) {
                findings.push(format!(
                    "{}: `{key}` must come from the Cargo workspace",
                    member.path
                ));
            }
        }
        for (name, dependency) in all_dependencies(&member.manifest) {
            if !inherits(Some(dependency)) {
                findings.push(format!(
                    "{}: the version of `{name}` belongs into `[workspace.dependencies]`",
                    member.path
                ));
            }
        }
    }
    Ok(findings)
}

fn inherits(value: Option<&Value>) -> bool {
    value
        .and_then(|value| value.get("workspace"))
        .and_then(Value::as_bool)
        == Some(true)
}

fn all_dependencies(manifest: &Table) -> Vec<(&String, &Value)> {
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"];
    let mut tables: Vec<&Table> = sections
        .iter()
        .filter_map(|section| manifest.get(*section))
        .filter_map(Value::as_table)
        .collect();
    for target in manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values)
    {
        tables.extend(
            sections
                .iter()
                .filter_map(|section| target.get(section))
                .filter_map(Value::as_table),
        );
    }
    tables.into_iter().flatten().collect()
}

/// The crates use each other as the architecture page says, and no arrow turns back.
pub(super) fn arrows(tree: &Tree) -> Result<Vec<String>> {
    let page = tree
        .text(ARCHITECTURE)
        .with_context(|| format!("`{ARCHITECTURE}` is missing"))?;
    let written =
        written_arrows(page).with_context(|| format!("`{ARCHITECTURE}` has no list of arrows"))?;
    let members = read_members(tree)?;
    let ours: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut findings = Vec::new();

    for (index, (name, uses)) in written.iter().enumerate() {
        if !ours.contains(name.as_str()) {
            findings.push(format!("{ARCHITECTURE}: there is no crate `{name}`"));
        }
        let below: BTreeSet<&str> = written[index + 1..]
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        for used in uses.iter().filter(|used| !below.contains(used.as_str())) {
            findings.push(format!(
                "{ARCHITECTURE}: the arrow from `{name}` to `{used}` points at no line below"
            ));
        }
    }
    let written: BTreeMap<String, BTreeSet<String>> = written.into_iter().collect();
    for member in &members {
        let uses: BTreeSet<String> = member
            .manifest
            .get("dependencies")
            .and_then(Value::as_table)
            .into_iter()
            .flat_map(Table::keys)
            .filter(|name| ours.contains(name.as_str()))
            .cloned()
            .collect();
        if uses.contains(FOR_TESTS) && member.path.starts_with("crates/") {
            findings.push(format!("{}: `{FOR_TESTS}` is for tests alone", member.path));
        }
        match written.get(&member.name) {
            None => findings.push(format!(
                "{ARCHITECTURE}: the crate `{}` is missing in the list of arrows",
                member.name
            )),
            Some(said) if *said != uses => {
                findings.push(format!(
                    "{}: uses {}; {ARCHITECTURE} says {}",
                    member.path,
                    listed(&uses),
                    listed(said)
                ));
            }
            Some(_) => {}
        }
    }
    Ok(findings)
}

fn listed(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        "no crate of ours".to_owned()
    } else {
        names.iter().cloned().collect::<Vec<_>>().join(" ")
    }
}

/// Reads lines of `NAME -> NAME NAME …`; a leaf has nothing after the arrow.
fn written_arrows(page: &str) -> Option<Vec<(String, BTreeSet<String>)>> {
    let mut lines = page.lines().skip_while(|line| *line != ARROWS[0]);
    lines.next()?;
    let arrows = lines
        .take_while(|line| *line != ARROWS[1])
        .filter_map(|line| line.split_once("->"));
    let arrows = arrows.map(|(name, uses)| {
        (
            name.trim().to_owned(),
            uses.split_whitespace().map(str::to_owned).collect(),
        )
    });
    Some(arrows.collect())
}

/// The number of packages does not creep up.
pub(super) fn lock_file(tree: &Tree) -> Vec<String> {
    let text = tree.text("Cargo.lock").unwrap_or_default();
    match text.lines().filter(|line| *line == "[[package]]").count() {
        0 => vec!["Cargo.lock: is missing or empty".to_owned()],
        n if n > MOST_PACKAGES => vec![format!(
            "Cargo.lock: {n} packages; {MOST_PACKAGES} is the most"
        )],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        let inherited: String = ["version", "edition", "rust-version", "license", "publish"]
            .map(|key| format!("{key}.workspace = true\n"))
            .concat();
        format!("[package]\nname = \"{name}\"\n{inherited}[lints]\nworkspace = true\n{rest}")
    }

    fn page(arrows: &str) -> String {
        format!("# Architecture\n\n```text arrows\n{arrows}```\n")
    }

    #[test]
    fn arrows_that_fit_the_manifests_are_no_finding() {
        let top = manifest(
            "top",
            "[dependencies]\nleaf.workspace = true\nserde.workspace = true\n",
        );
        let leaf = manifest("leaf", "");
        let page = page("top -> leaf\nleaf ->\n");
        let tree = Tree::of(&[
            ("crates/top/Cargo.toml", &top),
            ("crates/leaf/Cargo.toml", &leaf),
            (ARCHITECTURE, &page),
        ]);
        assert_eq!(
            arrows(&tree).expect("all of it is TOML"),
            Vec::<String>::new()
        );
        assert_eq!(
            members(&tree).expect("all of it is TOML"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_arrow_that_the_page_does_not_have_is_found_and_so_is_one_that_turns_back() {
        let top = manifest("top", "[dependencies]\nleaf.workspace = true\n");
        let leaf = manifest("leaf", "");
        let page = page("leaf -> top\ntop ->\n");
        let tree = Tree::of(&[
            ("crates/top/Cargo.toml", &top),
            ("crates/leaf/Cargo.toml", &leaf),
            (ARCHITECTURE, &page),
        ]);
        let found = arrows(&tree).expect("all of it is TOML").join("\n");
        assert!(
            found.contains(
                "crates/top/Cargo.toml: uses leaf; docs/ARCHITECTURE.md says no crate of ours"
            ),
            "{found}"
        );
        assert!(
            found.contains("crates/leaf/Cargo.toml: uses no crate of ours"),
            "{found}"
        );

        let page = self::page("leaf ->\ntop -> leaf\n");
        let tree = Tree::of(&[
            ("crates/top/Cargo.toml", &top),
            ("crates/leaf/Cargo.toml", &leaf),
            (ARCHITECTURE, &page),
        ]);
        let found = arrows(&tree).expect("all of it is TOML").join("\n");
        assert!(found.contains("points at no line below"), "{found}");
    }

    #[test]
    fn a_version_in_a_crate_and_lints_of_its_own_are_found() {
        let text = manifest("top", "[dependencies]\nserde = \"1\"\n")
            .replace("[lints]\nworkspace = true\n", "");
        let found = members(&Tree::of(&[("crates/top/Cargo.toml", &text)]))
            .expect("it is TOML")
            .join("\n");
        assert!(found.contains("the version of `serde`"), "{found}");
        assert!(found.contains("`[lints]`"), "{found}");
    }

    #[test]
    fn a_lock_file_over_the_cap_is_found() {
        let text = "[[package]]\n".repeat(MOST_PACKAGES + 1);
        assert_eq!(lock_file(&Tree::of(&[("Cargo.lock", &text)])).len(), 1);
        assert_eq!(
            lock_file(&Tree::of(&[("Cargo.lock", "[[package]]\n")])).len(),
            0
        );
    }
}

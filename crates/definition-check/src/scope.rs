//! Which directories are checked.

use std::collections::{BTreeMap, BTreeSet};

use platform::{Bundle, StepKind, Survey, is_configuration_file};

use crate::report::ModuleKind;

/// One directory that is checked by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Its path within the platform; empty for the platform itself.
    pub(crate) path: String,
    pub(crate) kind: ModuleKind,
    /// Whether `tofu test` has anything to do there.
    pub(crate) has_tests: bool,
}

impl Subject {
    /// The path of a name in it.
    pub(crate) fn join(&self, name: &str) -> String {
        join(&self.path, name)
    }
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

/// Where OpenTofu looks for test files, apart from the module's own directory.
pub(crate) const TEST_DIRECTORY: &str = "tests";

const TEST_FILES: [&str; 4] = [
    ".tftest.hcl",
    ".tofutest.hcl",
    ".tftest.json",
    ".tofutest.json",
];

/// Chooses what is checked: every root module that a step or a workspace names, every local module that one of
/// them reaches, everything below `modules/`, and the modules that tests of these bring along. Where
/// rebuild.toml has faults, every directory of configuration files.
pub(crate) fn subjects(bundle: &Bundle, survey: &Survey) -> Vec<Subject> {
    let directories = directories(bundle);
    let configured = |path: &&str| {
        directories
            .get(*path)
            .is_some_and(|names| names.iter().any(|name| is_configuration_file(name)))
    };
    let mut roots = BTreeSet::new();
    let mut chosen = BTreeSet::new();
    let of_workspaces = survey
        .platform
        .iter()
        .flat_map(|platform| &platform.workspaces)
        .map(platform::WorkspaceDef::step);
    let steps = survey.platform.iter().flat_map(|platform| platform.steps());
    for step in steps.chain(of_workspaces) {
        if let StepKind::Tofu(step) = &step.kind {
            roots.insert(step.root.as_str());
            chosen.insert(step.root.as_str());
            chosen.extend(step.module.modules.iter().map(String::as_str));
        }
    }
    let is_whole = survey.platform.is_some() && survey.faults.is_empty();
    let within = |path: &str, above: &str| path == above || path.starts_with(&join(above, ""));
    chosen.extend(
        directories
            .keys()
            .filter(|path| !is_whole || within(path, "modules")),
    );
    let of_tests: Vec<&str> = directories
        .keys()
        .copied()
        .filter(|path| {
            chosen
                .iter()
                .any(|module| within(path, &join(module, TEST_DIRECTORY)))
        })
        .collect();
    chosen.extend(of_tests);
    chosen
        .into_iter()
        .filter(configured)
        .map(|path| Subject {
            path: path.to_owned(),
            kind: if roots.contains(path) {
                ModuleKind::RootModule
            } else {
                ModuleKind::Module
            },
            has_tests: [path.to_owned(), join(path, TEST_DIRECTORY)]
                .iter()
                .filter_map(|directory| directories.get(directory.as_str()))
                .flatten()
                .any(|name| TEST_FILES.iter().any(|ending| name.ends_with(ending))),
        })
        .collect()
}

/// The names of the files of each directory.
fn directories(bundle: &Bundle) -> BTreeMap<&str, Vec<&str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in bundle.files() {
        let (directory, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        found.entry(directory).or_default().push(name);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::BundleFile;

    fn bundle(files: &[(&str, &str)]) -> Bundle {
        let files = files.iter().map(|(path, text)| BundleFile {
            path: (*path).to_owned(),
            mode: 0o644,
            bytes: text.as_bytes().to_vec(),
        });
        Bundle::from_files(files.collect()).unwrap()
    }

    const PLATFORM: &str = "[platform]\nname = \"p\"\n[[phase]]\nid = \"0\"\ntitle = \"t\"\n[[phase.step]]\nname = \"s\"\ntofu = \"phases/0\"\n";
    const FILES: [(&str, &str); 8] = [
        (
            "phases/0/main.tf",
            "module \"n\" {\n  source = \"../../shared/net\"\n}\n",
        ),
        ("phases/0/tests/setup/main.tf", ""),
        ("phases/old/main.tf", ""),
        ("shared/net/main.tf", ""),
        ("modules/unused/main.tofu", ""),
        ("modules/unused/tests/a.tofutest.hcl", ""),
        ("modules/README.md", ""),
        ("playbooks/node.yml", ""),
    ];

    fn paths(text: &str) -> Vec<(String, ModuleKind, bool)> {
        let mut files = FILES.to_vec();
        files.push(("rebuild.toml", text));
        let bundle = bundle(&files);
        subjects(&bundle, &platform::survey(&bundle))
            .into_iter()
            .map(|subject| (subject.path, subject.kind, subject.has_tests))
            .collect()
    }

    #[test]
    fn root_modules_what_they_reach_and_all_below_modules_are_checked() {
        use ModuleKind::{Module, RootModule};
        assert_eq!(
            paths(PLATFORM),
            [
                ("modules/unused".to_owned(), Module, true),
                ("phases/0".to_owned(), RootModule, false),
                ("phases/0/tests/setup".to_owned(), Module, false),
                ("shared/net".to_owned(), Module, false),
            ]
        );
    }

    #[test]
    fn the_root_module_of_a_workspace_is_checked_as_any_other() {
        let workspace =
            "[workspace.old]\nroot = \"phases/old\"\ntarget = \"live\"\ncaptured = []\n";
        let found = paths(&format!("{PLATFORM}{workspace}"));
        let old = ("phases/old".to_owned(), ModuleKind::RootModule, false);
        assert!(found.contains(&old) && found.len() == 5, "{found:?}");
    }

    #[test]
    fn with_a_fault_in_rebuild_toml_every_directory_of_configuration_is_checked() {
        let found = paths("[platform]\nnam = \"p\"\n");
        let found: Vec<&str> = found.iter().map(|(path, ..)| path.as_str()).collect();
        assert_eq!(
            found,
            [
                "modules/unused",
                "phases/0",
                "phases/0/tests/setup",
                "phases/old",
                "shared/net"
            ]
        );
    }
}

//! Which files are a step's definitions, and their digest.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::{Bundle, BundleFile, archive::hex_digest};
use crate::files::PLATFORM_FILE;
use crate::model::{Platform, StepDef, StepKind};

impl Bundle {
    /// Returns the digest of a step's definitions, its resolved inputs apart.
    ///
    /// For a tofu step: its section, its root module with the lock file in it, and the local modules
    /// it reaches. For an `ssh` step: its section, since it reads no file. For other kinds: its section, and every file
    /// outside of root modules, modules and `rebuild.toml`: nobody can tell what a program or a playbook reads.
    pub fn definition_digest(&self, platform: &Platform, step: &StepDef) -> String {
        let mut hash = Sha256::new();
        hash.update(step.kind.word().as_bytes());
        hash.update([0]);
        hash.update(step.section_digest.as_bytes());
        for file in self.definition_files(platform, step) {
            hash.update([0]);
            hash.update(file.path.as_bytes());
            hash.update([0]);
            hash.update(file.mode.to_be_bytes());
            hash.update(hex_digest(&file.bytes).as_bytes());
        }
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Returns the files that are a step's definitions, sorted by path.
    pub fn definition_files(&self, platform: &Platform, step: &StepDef) -> Vec<&BundleFile> {
        let is_its_own: Box<dyn Fn(&str) -> bool> = match &step.kind {
            StepKind::Tofu(tofu) => {
                let mut directories = tofu.module.modules.clone();
                directories.insert(tofu.root.clone());
                Box::new(move |path| {
                    path != PLATFORM_FILE
                        && directories.iter().any(|directory| below(path, directory))
                })
            }
            StepKind::Ssh(_) => Box::new(|_| false),
            StepKind::Exec(_) | StepKind::Talos(_) | StepKind::Ansible(_) => {
                let taken = module_directories(platform);
                Box::new(move |path| {
                    path != PLATFORM_FILE
                        && !taken.iter().any(|directory| {
                            // A root module in the platform's own directory takes its own files only.
                            if directory.is_empty() {
                                is_configuration(path)
                            } else {
                                path == directory || below(path, directory)
                            }
                        })
                })
            }
        };
        self.files()
            .iter()
            .filter(|file| is_its_own(&file.path))
            .collect()
    }
}

/// Returns the directories of all root modules, of the local modules that they reach, and of the specs that they
/// are rendered from.
fn module_directories(platform: &Platform) -> BTreeSet<String> {
    platform
        .steps()
        .filter_map(|step| match &step.kind {
            StepKind::Tofu(tofu) => Some(tofu),
            _ => None,
        })
        .flat_map(|tofu| {
            let specs = tofu.nodes.as_ref().map(|nodes| &nodes.path);
            tofu.module.modules.iter().chain([&tofu.root]).chain(specs)
        })
        .cloned()
        .collect()
}

fn below(path: &str, directory: &str) -> bool {
    directory.is_empty()
        || path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with('/'))
}

fn is_configuration(path: &str) -> bool {
    let ends = [
        ".tf",
        ".tofu",
        ".tf.json",
        ".tofu.json",
        ".tfvars",
        ".tfvars.json",
        ".terraform.lock.hcl",
    ];
    !path.contains('/') && ends.iter().any(|end| path.ends_with(end))
}

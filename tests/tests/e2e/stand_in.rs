//! Providers that can't be had, each stood in for by a program of ours with that provider's own schema
//! (`tools/provider-stand-in` says what it can do).

use std::path::{Path, PathBuf};

use provider::ProviderName;
use serde_json::Value;

use crate::drill::{Drill, tool};

/// The schema of each provider at its pin, as it ships.
const SCHEMAS: [(ProviderName, &str); 5] = [
    (ProviderName::Bitwarden, "bitwarden-0.18.0"),
    (ProviderName::Gitlab, "gitlab-18.6.1"),
    (ProviderName::Oci, "oci-8.28.0"),
    (ProviderName::Openstack, "openstack-3.4.0"),
    (ProviderName::Talos, "talos-0.11.0"),
];

/// A mirror with all of them, and a cloud of each.
pub(crate) struct StandIns {
    root: PathBuf,
}

impl StandIns {
    /// Makes them for a platform, whose `tofu.tfrc` names them.
    pub(crate) fn of(drill: &Drill) -> Self {
        let root = drill.world.root().join("stand-ins");
        for (name, schema) in SCHEMAS {
            let (_, version) = schema.split_once('-').unwrap();
            let directory = root
                .join("mirror/registry.opentofu.org")
                .join(name.source())
                .join(version)
                .join(platform());
            std::fs::create_dir_all(&directory).unwrap();
            let program = directory.join(format!("terraform-provider-{name}_v{version}"));
            let stand_in = tool("REBUILD_TEST_STAND_IN");
            if std::fs::hard_link(&stand_in, &program).is_err() {
                std::fs::copy(&stand_in, &program).unwrap();
            }
            let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/provider/schemas");
            let shipped = shipped.join(format!("{schema}.json"));
            std::fs::copy(shipped, directory.join("schema.json")).unwrap();
            let cloud = root.join(name.as_str());
            std::fs::create_dir_all(&cloud).unwrap();
            std::fs::write(directory.join("cloud"), cloud.display().to_string()).unwrap();
        }
        let all = Self { root };
        drill.write("tofu.tfrc", &all.cli_config());
        all
    }

    /// The CLI configuration that names them and nothing else.
    pub(crate) fn cli_config(&self) -> String {
        let mirror = self.root.join("mirror");
        format!(
            "provider_installation {{\n  filesystem_mirror {{\n    path = {mirror:?}\n  }}\n}}\n"
        )
    }

    fn cloud(&self, name: ProviderName) -> PathBuf {
        self.root.join(name.as_str())
    }

    /// Says what a provider answers with.
    pub(crate) fn answer(&self, name: ProviderName, answers: &Value) {
        std::fs::write(self.cloud(name).join("answers.json"), answers.to_string()).unwrap();
    }

    fn lines(&self, name: ProviderName, file: &str) -> Vec<String> {
        let path = self.cloud(name).join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }

    /// What was changed since it was last asked, as `create KIND ID`.
    pub(crate) fn changed(&self) -> Vec<String> {
        let all = ProviderName::ALL.into_iter();
        all.flat_map(|name| self.lines(name, "calls")).collect()
    }

    /// Every call of a provider since it was last asked, as `RPC KIND {ENV}`.
    pub(crate) fn seen(&self, name: ProviderName) -> Vec<String> {
        self.lines(name, "seen")
    }

    /// The ids of all that stands.
    pub(crate) fn standing(&self) -> Vec<String> {
        let all = ProviderName::ALL.into_iter();
        let mut ids: Vec<String> = all
            .flat_map(|name| std::fs::read_dir(self.cloud(name)).unwrap())
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
            .filter(|name| name != "answers")
            .collect();
        ids.sort();
        ids
    }

    /// What stands under an id.
    pub(crate) fn object(&self, name: ProviderName, id: &str) -> Value {
        let text = std::fs::read(self.cloud(name).join(format!("{id}.json"))).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Changes what stands under an id, behind everybody's back.
    pub(crate) fn change(&self, name: ProviderName, id: &str, argument: &str, value: Value) {
        let mut object = self.object(name, id);
        object[argument] = value;
        let path = self.cloud(name).join(format!("{id}.json"));
        std::fs::write(path, object.to_string()).unwrap();
    }
}

/// The platform as OpenTofu and Go name it.
fn platform() -> String {
    let system = std::env::consts::OS.replace("macos", "darwin");
    let machine = std::env::consts::ARCH
        .replace("x86_64", "amd64")
        .replace("aarch64", "arm64");
    format!("{system}_{machine}")
}

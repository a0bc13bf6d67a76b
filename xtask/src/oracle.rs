//! What is rendered against an independent source: the lists of arguments in the Python bindings that Pulumi publishes
//! for the same providers.
//!
//! The packages come from PyPI by `pip download`, so this is no part of the tests; its result is a page of the docs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::sh::{Cmd, demand, note, root, write};

/// What to compare with.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Directory for the packages
    #[arg(long, value_name = "DIR")]
    packages: Option<PathBuf>,
}

/// The packages, each with the version of the provider that it binds as far as its major number tells.
const PACKAGES: [(&str, &str, &str); 4] = [
    ("openstack", "pulumi_openstack", "5.5.3"),
    ("oci", "pulumi_oci", "5.5.0"),
    ("gitlab", "pulumi_gitlab", "9.7.0"),
    ("gitlab", "pulumi_gitlab", "10.4.0"),
];

/// Where the bindings keep what is rendered: its kind, and the module of the package.
const MODULES: [(&str, &str); 30] = [
    ("openstack_blockstorage_volume_v3", "blockstorage/volume"),
    ("openstack_compute_instance_v2", "compute/instance"),
    (
        "openstack_compute_volume_attach_v2",
        "compute/volume_attach",
    ),
    (
        "openstack_networking_floatingip_v2",
        "networking/floating_ip",
    ),
    ("openstack_networking_network_v2", "networking/network"),
    ("openstack_networking_port_v2", "networking/port"),
    (
        "openstack_networking_router_interface_v2",
        "networking/router_interface",
    ),
    ("openstack_networking_router_v2", "networking/router"),
    (
        "openstack_networking_secgroup_rule_v2",
        "networking/sec_group_rule",
    ),
    ("openstack_networking_secgroup_v2", "networking/sec_group"),
    ("openstack_networking_subnet_v2", "networking/subnet"),
    (
        "openstack_objectstorage_container_v1",
        "objectstorage/container",
    ),
    ("data.openstack_images_image_v2", "images/get_image"),
    (
        "data.openstack_networking_network_v2",
        "networking/get_network",
    ),
    ("oci_core_instance", "core/instance"),
    ("oci_core_internet_gateway", "core/internet_gateway"),
    (
        "oci_core_network_security_group",
        "core/network_security_group",
    ),
    (
        "oci_core_network_security_group_security_rule",
        "core/network_security_group_security_rule",
    ),
    ("oci_core_route_table", "core/route_table"),
    ("oci_core_subnet", "core/subnet"),
    ("oci_core_vcn", "core/vcn"),
    ("oci_objectstorage_bucket", "objectstorage/bucket"),
    (
        "data.oci_identity_availability_domains",
        "identity/get_availability_domains",
    ),
    (
        "data.oci_objectstorage_namespace",
        "objectstorage/get_namespace",
    ),
    ("gitlab_branch_protection", "branch_protection"),
    ("gitlab_group", "group"),
    ("gitlab_project", "project"),
    ("gitlab_project_deploy_token", "project_deploy_token"),
    ("gitlab_project_variable", "project_variable"),
    ("gitlab_repository_file", "repository_file"),
];
/// Arguments of OpenTofu itself.
const META: [&str; 6] = [
    "count",
    "depends_on",
    "for_each",
    "lifecycle",
    "provider",
    "timeouts",
];

/// Compares, and writes the page.
pub(crate) fn run(options: &Options) -> Result<()> {
    let packages = options
        .packages
        .clone()
        .unwrap_or_else(|| root().join(".tools/bindings"));
    let rendered = rendered(&root())?;
    let mut page = String::from(PAGE);
    let mut n_wrong = 0;
    for (provider, package, version) in PACKAGES {
        let directory = fetch(&packages, package, version)?;
        let mut rows = Vec::new();
        for (kind, bodies) in &rendered {
            let bare = kind.trim_start_matches("data.");
            if bare.split('_').next() != Some(provider) {
                continue;
            }
            let Some((_, module)) = MODULES.iter().find(|(known, _)| known == kind) else {
                bail!("`{kind}` is rendered, and the table of modules lacks it");
            };
            let bindings = Bindings::read(&directory.join(package), module)?;
            let mut found = Compared::default();
            for body in bodies {
                bindings.compare("", &bindings.own, body, &mut found);
            }
            n_wrong += found.wrong.len();
            rows.push((kind.clone(), found));
        }
        page.push_str(&format!("\n## {package} {version}\n\n"));
        page.push_str("| rendered | arguments that agree | what does not |\n| --- | --- | --- |\n");
        for (kind, found) in rows {
            let wrong: Vec<&str> = found.wrong.iter().map(String::as_str).collect();
            let wrong = if wrong.is_empty() {
                "nothing".to_owned()
            } else {
                wrong.join("; ")
            };
            page.push_str(&format!(
                "| `{kind}` | {} | {wrong} |\n",
                found.agreed.len()
            ));
        }
    }
    write(&root().join("docs/bindings.md"), &page)?;
    if n_wrong > 0 {
        bail!("{n_wrong} arguments do not agree: docs/bindings.md names them");
    }
    note("what is rendered agrees with the bindings");
    Ok(())
}

const PAGE: &str = "# What is rendered, against an independent source\n\n\
Everything that is rendered is checked against reduced schemas of the real providers. This page compares it with what others make of the\n\
same providers by a way of their own: the arguments in the Python packages that Pulumi publishes for the same providers. An argument agrees where the package has it, nested\n\
blocks included, and where every argument that the package demands is rendered. `cargo xtask oracle` fetches the packages with `pip` and writes this\n\
page; it fails where something does not agree. talos and bitwarden are not compared.\n\n\
A package names lists in the plural and flattens blocks of which there is one at most; that is no difference.\n";

/// Downloads a package and unpacks it.
fn fetch(packages: &Path, package: &str, version: &str) -> Result<PathBuf> {
    let directory = packages.join(format!("{package}-{version}"));
    if directory.join(package).is_dir() {
        return Ok(directory);
    }
    let python = demand(
        "python3",
        "packages are fetched with pip",
        "install Python 3.9 or newer with pip",
    )?;
    std::fs::create_dir_all(packages)
        .with_context(|| format!("cannot make `{}`", packages.display()))?;
    let name = package.replace('_', "-");
    Cmd::new(&python)
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(packages)
        .args([format!("{name}=={version}").as_str()])
        .run()?;
    let wheel = packages.join(format!("{package}-{version}-py3-none-any.whl"));
    Cmd::new(&python)
        .args(["-m", "zipfile", "-e"])
        .arg(&wheel)
        .arg(&directory)
        .run()?;
    Ok(directory)
}

/// The bodies of everything that is rendered for the small real platform, by kind; its snapshots are held to the code by a test.
fn rendered(root: &Path) -> Result<BTreeMap<String, Vec<Value>>> {
    let directory = root.join("crates/provider/src/render/snapshots");
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let entries = std::fs::read_dir(&directory)
        .with_context(|| format!("cannot read `{}`", directory.display()))?;
    for entry in entries {
        let text = std::fs::read_to_string(entry?.path())?;
        let Some((_, json)) = text
            .strip_prefix("---\n")
            .and_then(|rest| rest.split_once("\n---\n"))
        else {
            continue;
        };
        let document: Value = serde_json::from_str(json).context("a snapshot is no JSON")?;
        for (top, prefix) in [("resource", ""), ("data", "data.")] {
            for (kind, names) in document[top].as_object().into_iter().flatten() {
                let bodies = names
                    .as_object()
                    .into_iter()
                    .flat_map(|names| names.values());
                all.entry(format!("{prefix}{kind}"))
                    .or_default()
                    .extend(bodies.cloned());
            }
        }
    }
    if all.is_empty() {
        bail!("there are no snapshots in `{}`", directory.display());
    }
    Ok(all)
}

/// The arguments of one class: each with whether it is demanded, and the class of what is in it.
type Class = BTreeMap<String, (bool, Option<String>)>;

/// What a package says of one kind.
struct Bindings {
    own: Class,
    nested: BTreeMap<String, Class>,
}

#[derive(Default)]
struct Compared {
    agreed: BTreeSet<String>,
    wrong: BTreeSet<String>,
}

impl Bindings {
    fn read(package: &Path, module: &str) -> Result<Self> {
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read `{}`", path.display()))
        };
        let text = read(package.join(format!("{module}.py")))?;
        let own = classes(&text)
            .into_iter()
            .next()
            .map(|(_, class)| class)
            .or_else(|| function(&text))
            .with_context(|| format!("`{module}.py` has no arguments"))?;
        let beside = package.join(module).with_file_name("_inputs.py");
        let nested = match beside.is_file() {
            true => classes(&read(beside)?).into_iter().collect(),
            false => BTreeMap::new(),
        };
        Ok(Self { own, nested })
    }

    fn compare(&self, prefix: &str, class: &Class, body: &Value, found: &mut Compared) {
        let Some(body) = body.as_object() else { return };
        let mut given = BTreeSet::new();
        for (name, value) in body
            .iter()
            .filter(|(name, _)| !META.contains(&name.as_str()))
        {
            let path = format!("{prefix}{name}");
            let Some((known, (_, inner))) = find(class, name) else {
                found.wrong.insert(format!("no `{path}`"));
                continue;
            };
            given.insert(known.clone());
            found.agreed.insert(path.clone());
            let Some(inner) = inner.as_ref().and_then(|inner| self.nested.get(inner)) else {
                continue;
            };
            let all = match value {
                Value::Array(all) => all.iter().collect(),
                other => vec![other],
            };
            for nested in all {
                self.compare(&format!("{path}."), inner, nested, found);
            }
        }
        for (name, (is_demanded, _)) in class {
            if *is_demanded && !given.contains(name) {
                found.wrong.insert(format!("`{prefix}{name}` is demanded"));
            }
        }
    }
}

/// Finds an argument by its name, or by the plural of it.
fn find<'c>(class: &'c Class, name: &str) -> Option<(&'c String, &'c (bool, Option<String>))> {
    let mut names = vec![name.to_owned(), format!("{name}s"), format!("{name}es")];
    if let Some(stem) = name.strip_suffix('y') {
        names.push(format!("{stem}ies"));
    }
    // A list of which there is one at most is named in the singular.
    names.extend(name.strip_suffix('s').map(str::to_owned));
    names.iter().find_map(|name| class.get_key_value(name))
}

/// The classes of arguments in a module, in order.
fn classes(text: &str) -> Vec<(String, Class)> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("\nclass ") {
        rest = &rest[at + "\nclass ".len()..];
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let body = rest.split("\nclass ").next().unwrap_or(rest);
        if name.ends_with("Args")
            && let Some(class) = signature(body, "def __init__(__self__")
        {
            all.push((name, class));
        }
    }
    all
}

/// The arguments of the first function that looks something up.
fn function(text: &str) -> Option<Class> {
    signature(text, "\ndef get_")
}

/// The arguments in the first signature after `start`: one a line, a default after ` = `.
fn signature(text: &str, start: &str) -> Option<Class> {
    let after = &text[text.find(start)? + start.len()..];
    let end = after.find("):\n").or_else(|| after.find(") -> "))?;
    let lines = after[..end]
        .split(",\n")
        .flat_map(|line| line.splitn(2, '('));
    let class = lines.filter_map(|line| {
        let (name, rest) = line.trim().split_once(": ")?;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let inner = rest
            .split('\'')
            .nth(1)
            .map(|inner| inner.rsplit('.').next().unwrap_or(inner).to_owned());
        let name = name.trim_end_matches('_').to_owned();
        (is_name && name != "opts").then(|| (name, (!rest.contains(" = "), inner)))
    });
    Some(class.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\n@pulumi.input_type\nclass ThingArgs:\n    def __init__(__self__, *,\n                 network_id: pulumi.Input[_builtins.str],\n                 block_devices: pulumi.Input[Optional[Sequence[pulumi.Input['ThingBlockDeviceArgs']]]] = None,\n                 name: pulumi.Input[Optional[_builtins.str]] = None):\n        pass\n\nclass Thing:\n    pass\n";
    const INPUTS: &str = "\nclass ThingBlockDeviceArgs:\n    def __init__(__self__, *,\n                 source_type: pulumi.Input[_builtins.str]):\n        pass\n";

    fn compared(body: &str) -> Vec<String> {
        let bindings = Bindings {
            own: classes(MODULE).remove(0).1,
            nested: classes(INPUTS).into_iter().collect(),
        };
        let mut found = Compared::default();
        let body: Value = serde_json::from_str(body).expect("it is JSON");
        bindings.compare("", &bindings.own, &body, &mut found);
        found.wrong.into_iter().collect()
    }

    #[test]
    fn what_a_package_lacks_or_demands_is_told() {
        let good =
            r#"{ "network_id": "n", "count": 2, "block_device": [{ "source_type": "image" }] }"#;
        assert_eq!(compared(good), [""; 0]);
        assert_eq!(
            compared(r#"{ "network_id": "n", "nam": "x" }"#),
            ["no `nam`"]
        );
        assert_eq!(compared(r#"{ "name": "x" }"#), ["`network_id` is demanded"]);
        assert_eq!(
            compared(r#"{ "network_id": "n", "block_device": [{ "uuid": "u" }] }"#),
            [
                "`block_device.source_type` is demanded",
                "no `block_device.uuid`"
            ]
        );
    }

    #[test]
    fn a_function_that_looks_up_has_arguments_too() {
        let text = "x\ndef get_image(name: Optional[_builtins.str] = None,\n              opts: Optional[pulumi.InvokeOptions] = None) -> AwaitableGetImageResult:\n";
        let class = function(text).expect("a signature");
        let names: Vec<&String> = class.keys().collect();
        assert_eq!(names, ["name"]);
    }

    /// Every kind that the small platform is rendered into is in the table, so that a new one is compared as well.
    #[test]
    fn every_kind_that_is_rendered_is_in_the_table() {
        let bound = ["openstack", "oci", "gitlab"];
        for kind in rendered(&root()).expect("snapshots").keys() {
            let provider = kind.trim_start_matches("data.").split('_').next();
            let is_bound = provider.is_some_and(|provider| bound.contains(&provider));
            assert!(
                !is_bound || MODULES.iter().any(|(known, _)| known == kind),
                "{kind}"
            );
        }
    }
}

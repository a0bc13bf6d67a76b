//! Machines that were found are added to a group of metal, and everything else of the file stays as it is.

use serde_json::{Map, Value as Json, json};
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value as Toml};

use super::envelope::{Specs, Wanted};
use super::fault::SpecFault;
use super::kinds::Machine;
use super::parse::Format;

/// A machine that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMachine {
    /// Where it answers.
    pub address: String,
    /// What Talos is installed on, where there is no choice.
    pub install_disk: Option<String>,
    /// Its network interface, where there is no choice.
    pub network_interface: Option<String>,
}

/// Why machines can't be added.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file's name says no format.
    #[error("`{file}` is no file of specs: those end in `.toml`, `.json`, `.yaml` or `.yml`")]
    Format {
        /// The file.
        file: String,
    },
    /// Comments and order of a YAML file would be lost.
    #[error(
        "machines can't be added to a YAML file that is there: `{file}` would lose its comments"
    )]
    Yaml {
        /// The file.
        file: String,
    },
    /// The file has faults, or would have.
    #[error("`{file}` has faults: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Faults {
        /// The file.
        file: String,
        /// What is wrong.
        faults: Vec<SpecFault>,
    },
    /// There is no such group.
    #[error("`{file}` has no NodeGroup `{group}` of the class `metal`")]
    NoGroup {
        /// The file.
        file: String,
        /// The group.
        group: String,
    },
}

impl FoundMachine {
    fn members(&self) -> Vec<(&'static str, &str)> {
        let disk = self
            .install_disk
            .as_deref()
            .map(|disk| ("installDisk", disk));
        let interface = self
            .network_interface
            .as_deref()
            .map(|interface| ("networkInterface", interface));
        disk.into_iter().chain(interface).collect()
    }
}

/// Returns the text of a file of specs with machines added to a group of metal; the group is new where `text` is
/// none. Machines that are in the group already stay as they are.
///
/// # Errors
/// There is no such group, or the file has faults, or would have.
pub fn with_machines(
    file: &str,
    text: Option<&str>,
    group: &str,
    machines: &[FoundMachine],
) -> Result<String, EditError> {
    let format = Format::of(file).ok_or_else(|| EditError::Format {
        file: file.to_owned(),
    })?;
    let no_group = || EditError::NoGroup {
        file: file.to_owned(),
        group: group.to_owned(),
    };
    let read = |text: &str| {
        Specs::read([(file, text)]).map_err(|faults| EditError::Faults {
            file: file.to_owned(),
            faults,
        })
    };
    if let Some(text) = text {
        let is_there = read(text)?.all().iter().any(|spec| {
            spec.name == group
                && matches!(&spec.wanted, Wanted::NodeGroup(group) if matches!(group.machines, Machine::Metal(_)))
        });
        if !is_there {
            return Err(no_group());
        }
    }
    let edited = match (text, format) {
        (None, format) => new(format, group, machines),
        (Some(_), Format::Yaml) => {
            let file = file.to_owned();
            return Err(EditError::Yaml { file });
        }
        (Some(text), Format::Toml) => toml(text, group, machines).ok_or_else(no_group)?,
        (Some(text), Format::Json) => json_text(text, group, machines).ok_or_else(no_group)?,
    };
    read(&edited)?;
    Ok(edited)
}

fn object(machines: &[FoundMachine]) -> Json {
    let all = machines.iter().map(|machine| {
        let members = machine.members().into_iter();
        let members: Map<String, Json> = members
            .map(|(key, value)| (key.to_owned(), Json::from(value)))
            .collect();
        (machine.address.clone(), Json::Object(members))
    });
    Json::Object(all.collect())
}

/// A file of one new group. JSON is YAML as well, so that strings need no rules of their own there.
fn new(format: Format, group: &str, machines: &[FoundMachine]) -> String {
    let quoted = |text: &str| Json::from(text).to_string();
    match format {
        Format::Json => {
            let spec = json!({
                "kind": "NodeGroup",
                "metadata": { "name": group },
                "spec": { "role": "worker", "class": "metal", "config": { "machines": object(machines) } },
            });
            format!("{spec:#}\n")
        }
        Format::Yaml => {
            let mut text = format!(
                "kind: NodeGroup\nmetadata: {{ name: {} }}\nspec:\n  role: worker\n  class: metal\n  config:\n    machines:{}\n",
                quoted(group),
                if machines.is_empty() { " {}" } else { "" }
            );
            for machine in machines {
                let members: Vec<String> = machine
                    .members()
                    .iter()
                    .map(|(key, value)| format!("{key}: {}", quoted(value)))
                    .collect();
                text += &format!(
                    "      {}: {{ {} }}\n",
                    quoted(&machine.address),
                    members.join(", ")
                );
            }
            text
        }
        Format::Toml => {
            let mut document = DocumentMut::new();
            document["kind"] = toml_edit::value("NodeGroup");
            document["metadata"]["name"] = toml_edit::value(group);
            let mut spec = Table::new();
            spec["role"] = toml_edit::value("worker");
            spec["class"] = toml_edit::value("metal");
            let mut all = Table::new();
            add(&mut all, machines);
            let mut config = Table::new();
            config.set_implicit(true);
            config.insert("machines", Item::Table(all));
            spec.insert("config", Item::Table(config));
            if let Some(metadata) = document["metadata"].as_inline_table().cloned() {
                document["metadata"] = Item::Table(metadata.into_table());
            }
            document.insert("spec", Item::Table(spec));
            document.to_string()
        }
    }
}

fn add(all: &mut dyn toml_edit::TableLike, machines: &[FoundMachine]) {
    for machine in machines {
        if all.contains_key(&machine.address) {
            continue;
        }
        let mut members = InlineTable::new();
        for (key, value) in machine.members() {
            members.insert(key, Toml::from(value));
        }
        all.insert(&machine.address, Item::Value(Toml::InlineTable(members)));
    }
}

/// Adds to a TOML text: one spec, or several as `[[specs]]`.
fn toml(text: &str, group: &str, machines: &[FoundMachine]) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let is_it = |spec: &dyn toml_edit::TableLike| {
        let of = |item: Option<&Item>| item.and_then(Item::as_str).map(str::to_owned);
        let name = spec
            .get("metadata")
            .and_then(Item::as_table_like)
            .and_then(|metadata| of(metadata.get("name")));
        of(spec.get("kind")).as_deref() == Some("NodeGroup") && name.as_deref() == Some(group)
    };
    let several = document.get("specs").is_some();
    if !several {
        add_to_spec(document.as_table_mut(), machines)?;
        return Some(document.to_string());
    }
    if let Some(tables) = document
        .get_mut("specs")
        .and_then(Item::as_array_of_tables_mut)
    {
        let spec = tables.iter_mut().find(|spec| is_it(*spec))?;
        add_to_spec(spec, machines)?;
    } else {
        let specs = document.get_mut("specs").and_then(Item::as_array_mut)?;
        let tables = specs.iter_mut().filter_map(Toml::as_inline_table_mut);
        let mut tables = tables;
        let spec = tables.find(|spec| is_it(*spec))?;
        add_to_spec(spec, machines)?;
    }
    Some(document.to_string())
}

fn add_to_spec(spec: &mut dyn toml_edit::TableLike, machines: &[FoundMachine]) -> Option<()> {
    let all = spec
        .get_mut("spec")?
        .as_table_like_mut()?
        .get_mut("config")?
        .as_table_like_mut()?
        .get_mut("machines")?
        .as_table_like_mut()?;
    add(all, machines);
    Some(())
}

/// Adds to a JSON text: one spec, or a list of them.
fn json_text(text: &str, group: &str, machines: &[FoundMachine]) -> Option<String> {
    let mut document: Json = serde_json::from_str(text).ok()?;
    let is_it = |spec: &Json| spec["kind"] == "NodeGroup" && spec["metadata"]["name"] == group;
    let spec = match &mut document {
        Json::Array(specs) => specs.iter_mut().find(|spec| is_it(spec))?,
        spec => spec,
    };
    let all = spec["spec"]["config"]["machines"].as_object_mut()?;
    if let Json::Object(found) = object(machines) {
        for (address, machine) in found {
            all.entry(address).or_insert(machine);
        }
    }
    Some(format!("{document:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(address: &str, disk: Option<&str>) -> FoundMachine {
        FoundMachine {
            address: address.to_owned(),
            install_disk: disk.map(str::to_owned),
            network_interface: Some("enp1s0".to_owned()),
        }
    }

    fn addresses(file: &str, text: &str) -> Vec<String> {
        let specs = Specs::read([(file, text)]).expect("good specs");
        specs
            .all()
            .iter()
            .flat_map(|spec| match &spec.wanted {
                Wanted::NodeGroup(group) => match &group.machines {
                    Machine::Metal(machines) => machines.keys().cloned().collect(),
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            })
            .collect()
    }

    #[test]
    fn a_new_group_is_written_in_every_format_and_can_be_added_to() {
        for file in ["a.toml", "a.json", "a.yaml", "a.yml"] {
            let first = [
                found("192.168.1.10", Some("/dev/sda")),
                found("fd00::1", None),
            ];
            let text = with_machines(file, None, "garage", &first).expect("a new file");
            assert_eq!(
                addresses(file, &text),
                ["192.168.1.10", "fd00::1"],
                "{text}"
            );
            let more = [found("192.168.1.11", None), found("192.168.1.10", None)];
            let again = with_machines(file, Some(&text), "garage", &more);
            if file.ends_with("ml") && !file.ends_with("toml") {
                assert!(matches!(again, Err(EditError::Yaml { .. })));
                continue;
            }
            let again = again.expect("it can be added to");
            assert_eq!(
                addresses(file, &again),
                ["192.168.1.10", "192.168.1.11", "fd00::1"]
            );
            assert!(again.contains("/dev/sda"), "what is there stays: {again}");
            let other = with_machines(file, Some(&text), "cellar", &more);
            assert!(matches!(other, Err(EditError::NoGroup { .. })));
        }
    }

    #[test]
    fn comments_and_other_specs_stay_as_they_are() {
        let text = "# the garage\n[[specs]]\nkind = \"Bucket\"\nmetadata = { name = \"garage\" }\nspec = { class = \"openstack\" }\n\n[[specs]]\nkind = \"NodeGroup\" # metal\nmetadata = { name = \"garage\" }\n[specs.spec]\nrole = \"worker\"\nclass = \"metal\"\n[specs.spec.config.machines]\n\"192.168.1.9\" = { installDisk = \"/dev/sdb\" } # the old one\n";
        let edited = with_machines(
            "a.toml",
            Some(text),
            "garage",
            &[found("192.168.1.10", None)],
        )
        .expect("it can be added to");
        assert!(edited.starts_with(text), "{edited}");
        assert_eq!(
            edited.strip_prefix(text),
            Some("\"192.168.1.10\" = { networkInterface = \"enp1s0\" }\n")
        );
        let inline = "kind = \"NodeGroup\"\nmetadata = { name = \"garage\" }\nspec = { role = \"worker\", class = \"metal\", config = { machines = {} } }\n";
        let edited = with_machines("a.toml", Some(inline), "garage", &[found("10.0.0.1", None)]);
        assert_eq!(
            addresses("a.toml", &edited.expect("inline too")),
            ["10.0.0.1"]
        );
    }

    #[test]
    fn what_is_no_good_file_is_left_alone() {
        let none: [FoundMachine; 0] = [];
        assert!(matches!(
            with_machines("a.txt", None, "g", &none),
            Err(EditError::Format { .. })
        ));
        assert!(matches!(
            with_machines("a.toml", Some("kind = 1"), "g", &none),
            Err(EditError::Faults { .. })
        ));
        let cloud = "kind = \"NodeGroup\"\nmetadata = { name = \"g\" }\nspec = { role = \"worker\", count = 1, class = \"openstack:f\", config = { imageId = \"i\", network = \"n\" } }\n";
        assert!(matches!(
            with_machines("a.toml", Some(cloud), "g", &none),
            Err(EditError::NoGroup { .. })
        ));
    }
}

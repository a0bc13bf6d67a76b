//! Machines that were found are added to a group of metal, and everything else of the file stays as it is.

use serde_json::{Map, Value as Json, json};
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value as Toml};

use super::envelope::{Specs, Wanted};
use super::fault::SpecFault;
use super::insert::{self, Member};
use super::kinds::Machine;
use super::located::Located;
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
    /// The table is written in a way that nothing can be put into safely.
    #[error(
        "the machines of `{group}` are written in a way that none can be added to in `{file}`; these are missing: {}",
        machines.join(", ")
    )]
    NoPlace {
        /// The file.
        file: String,
        /// The group.
        group: String,
        /// What a person would add, each as a member in JSON.
        machines: Vec<String>,
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
    let Some(text) = text else {
        let made = new(format, group, machines);
        read(&made)?;
        return Ok(made);
    };
    let specs = read(text)?;
    let there = specs.all().iter().find_map(|spec| match &spec.wanted {
        Wanted::NodeGroup(of) if spec.name == group => match &of.machines {
            Machine::Metal(machines) => Some(machines),
            _ => None,
        },
        _ => None,
    });
    let there = there.ok_or_else(no_group)?;
    let mut added: Vec<FoundMachine> = Vec::new();
    for machine in machines {
        let is_there = there.contains_key(&machine.address)
            || added.iter().any(|other| other.address == machine.address);
        if !is_there {
            added.push(machine.clone());
        }
    }
    if added.is_empty() {
        return Ok(text.to_owned());
    }
    let edited = match format {
        Format::Toml => toml(text, group, &added),
        Format::Yaml | Format::Json => insert::with_members(text, group, &members(&added)),
    };
    // What was meant, and nothing else, must be what is read from it.
    edited
        .filter(|edited| is_addition(format, file, (text, edited), group, &added))
        .ok_or_else(|| EditError::NoPlace {
            file: file.to_owned(),
            group: group.to_owned(),
            machines: members(&added)
                .into_iter()
                .map(|member| format!("{}: {}", member.key, member.value))
                .collect(),
        })
}

/// Whether a text says what another one does, and these machines of a group besides.
fn is_addition(
    format: Format,
    file: &str,
    (before, after): (&str, &str),
    group: &str,
    added: &[FoundMachine],
) -> bool {
    let specs = |text: &str| -> Option<Vec<Json>> {
        let all = format.read(file, text).ok()?;
        Some(all.iter().map(Located::to_json).collect())
    };
    let (Some(mut expected), Some(found)) = (specs(before), specs(after)) else {
        return false;
    };
    let spec = expected
        .iter_mut()
        .find(|spec| spec["kind"] == "NodeGroup" && spec["metadata"]["name"] == group);
    let there = spec.and_then(|spec| spec["spec"]["config"]["machines"].as_object_mut());
    if let (Some(there), Json::Object(added)) = (there, object(added)) {
        there.extend(added);
    }
    expected == found && Specs::read([(file, after)]).is_ok()
}

/// Machines as members of a table, each in JSON.
fn members(machines: &[FoundMachine]) -> Vec<Member> {
    let quoted = |text: &str| Json::from(text).to_string();
    let value = |machine: &FoundMachine| {
        let members: Vec<String> = machine
            .members()
            .iter()
            .map(|(key, value)| format!("{}: {}", quoted(key), quoted(value)))
            .collect();
        match members.as_slice() {
            [] => "{}".to_owned(),
            _ => format!("{{ {} }}", members.join(", ")),
        }
    };
    machines
        .iter()
        .map(|machine| Member {
            key: quoted(&machine.address),
            value: value(machine),
        })
        .collect()
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
            for member in members(machines) {
                text += &format!("      {}: {}\n", member.key, member.value);
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

    /// Each text with two machines more, in the place of `@`: everything else is byte for byte what it was.
    #[test]
    fn yaml_and_json_files_keep_every_other_byte() {
        let group = |machines: &str| {
            format!(
                "# the rack\nkind: Cluster # é\nmetadata: {{ name: c }}\nspec: {{ talosVersion: v1.11.2, endpoint: 'https://a:6443' }}\n---\nkind: NodeGroup\nmetadata: {{ name: garage }}   # in the \u{1f3e0}\nspec:\n  role: worker\n  class: metal\n  config:\n{machines}  configPatches:\n    - |\n      machine:\n        time: {{}}\n---\n# the end\n"
            )
        };
        let plain = "\"10.0.0.8\": { \"networkInterface\": \"enp1s0\" }";
        let disk =
            "\"10.0.0.9\": { \"installDisk\": \"/dev/sdb\", \"networkInterface\": \"enp1s0\" }";
        let lines = |indent: &str| format!("\n{indent}{plain}\n{indent}{disk}");
        let list = format!(", {plain}, {disk}");
        let json = |machines: &str| {
            format!(
                "[\n\t{{ \"kind\": \"Bucket\", \"metadata\": {{\"name\":\"garage\"}}, \"spec\": {{ \"class\": \"openstack\" }} }},\n\t{{\n\t\t\"kind\": \"NodeGroup\", \"spec\": {{ \"class\": \"metal\", \"role\": \"worker\", \"config\": {{ \"machines\": {machines} }} }},\n\t\t\"metadata\": {{ \"name\": \"garage\" }}\n\t}}\n]\n"
            )
        };
        let cases = [
            ("a.yaml", group("    machines:\n      10.0.0.1: { installDisk: /dev/sda } # old@\n      # no more\n"), lines("      ")),
            ("a.yaml", group("    machines:\n        10.0.0.1:\n            installDisk: '/dev/sda'@\n    schematicId: abc\n"), lines("        ")),
            ("a.yaml", group("    machines:\n      10.0.0.1:\n      10.0.0.2:@\n\n"), lines("      ")),
            ("a.yaml", group("    machines: {@}\n"), format!(" {plain}, {disk} ")),
            ("a.yaml", group("    machines: { 10.0.0.1: { installDisk: /dev/sda }@ }\n"), list.clone()),
            ("a.yaml", group("    machines: { 10.0.0.1:@ }\n"), list.clone()),
            ("a.yaml", group("    machines: {\n        10.0.0.1: {}@, # old\n      }\n"), format!(",\n        {plain},\n        {disk}")),
            ("a.yaml", group("    machines:\n      10.0.0.1: {}@\n").replace('\n', "\r\n"), lines("      ").replace('\n', "\r\n")),
            ("a.yaml", "kind: NodeGroup\nmetadata: { name: garage }\nspec:\n  role: worker\n  class: metal\n  config:\n    machines:\n      10.0.0.1: {}@".to_owned(), lines("      ")),
            ("a.json", json("{@}"), format!(" {plain}, {disk} ")),
            ("a.json", json("{\"10.0.0.1\":{}@}"), list),
            ("a.json", json("{\n\t\t\t\"10.0.0.1\": {}@\n\t\t}"), format!(",\n\t\t\t{plain},\n\t\t\t{disk}")),
        ];
        let mut more = found("10.0.0.9", Some("/dev/sdb"));
        more.network_interface = Some("enp1s0".to_owned());
        for (file, text, added) in cases {
            let before = text.replace('@', "");
            let more = [
                found("10.0.0.8", None),
                found("10.0.0.1", Some("/dev/x")),
                more.clone(),
                more.clone(),
            ];
            let there = !addresses(file, &before).is_empty();
            let more = if there {
                &more[..]
            } else {
                &[more[0].clone(), more[2].clone()]
            };
            let after = with_machines(file, Some(&before), "garage", more);
            assert_eq!(
                after.unwrap_or_else(|error| panic!("{error}: {before}")),
                text.replace('@', &added)
            );
            // Nothing new changes nothing.
            let same = with_machines(file, Some(&before), "garage", &[]);
            assert_eq!(same.expect("nothing to add"), before);
        }
    }

    /// What can't be done safely is left to a person, who is told what is missing.
    #[test]
    fn a_table_that_others_use_too_is_left_alone() {
        let shared = "kind: NodeGroup\nmetadata: { name: garage }\nspec: { role: worker, class: metal, labels: &all { a: b }, config: { machines: { 10.0.0.1: {} } } }\n---\nkind: NodeGroup\nmetadata: { name: attic }\nspec:\n  role: worker\n  class: metal\n  count: 1\n  config: { machines: { 10.0.0.2: {} } }\n";
        let error = with_machines("a.yaml", Some(shared), "attic", &[found("10.0.0.9", None)])
            .expect_err("`count` would be wrong");
        assert!(error.to_string().contains("\"10.0.0.9\": {"), "{error}");
        let anchored = "- kind: NodeGroup\n  metadata: { name: garage }\n  spec: { role: worker, class: metal, config: &config { machines: { 10.0.0.1: {} } } }\n- kind: NodeGroup\n  metadata: { name: attic }\n  spec: { role: worker, class: metal, config: *config }\n";
        let error = with_machines(
            "a.yaml",
            Some(anchored),
            "attic",
            &[found("10.0.0.9", None)],
        );
        assert!(error.is_err(), "{error:?}");
    }
}

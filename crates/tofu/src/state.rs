//! What is read from a plain state without knowing all of it: who wrote it, what it is, what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Why a state can't be read.
#[derive(Debug, thiserror::Error)]
pub enum StateFactsError {
    /// It is not JSON, or not of a state's shape.
    #[error("cannot read the state")]
    Unreadable(#[source] serde_json::Error),
}

/// Facts of a plain state. `lineage` and `serial` can be read of an encrypted one as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateFacts {
    /// The version that wrote it last; empty in an encrypted one.
    pub terraform_version: String,
    /// Lineage; may be empty in what a first apply left behind.
    pub lineage: String,
    /// Serial.
    pub serial: u64,
    /// Whether its content is encrypted: nothing below is known then.
    pub is_encrypted: bool,
    /// Source addresses of the providers that managed resources need.
    pub providers: BTreeSet<String>,
    /// Addresses of managed resource instances, in order.
    pub addresses: Vec<String>,
    /// Addresses of tainted ones.
    pub tainted: Vec<String>,
    /// The ids of the objects that each managed address has, deposed ones included; `None` for one without an id.
    pub ids: BTreeMap<String, Vec<Option<String>>>,
}

#[derive(Deserialize)]
struct RawState {
    #[serde(default)]
    terraform_version: String,
    #[serde(default)]
    lineage: String,
    #[serde(default)]
    serial: u64,
    #[serde(default)]
    encrypted_data: Option<Value>,
    #[serde(default)]
    resources: Vec<RawResource>,
}

#[derive(Deserialize)]
struct RawResource {
    #[serde(default)]
    module: String,
    #[serde(default)]
    mode: String,
    #[serde(default, rename = "type")]
    type_: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    provider: String,
    #[serde(default)]
    instances: Vec<RawInstance>,
}

#[derive(Deserialize)]
struct RawInstance {
    #[serde(default)]
    index_key: Option<Value>,
    #[serde(default)]
    status: String,
    #[serde(default)]
    deposed: String,
    #[serde(default)]
    attributes: Option<RawAttributes>,
}

#[derive(Deserialize)]
struct RawAttributes {
    #[serde(default)]
    id: Value,
}

impl StateFacts {
    /// Reads a state's bytes; unknown fields are let be.
    ///
    /// # Errors
    /// When it is not a state.
    pub fn read(bytes: &[u8]) -> Result<Self, StateFactsError> {
        let raw: RawState = serde_json::from_slice(bytes).map_err(StateFactsError::Unreadable)?;
        let mut facts = Self {
            terraform_version: raw.terraform_version,
            lineage: raw.lineage,
            serial: raw.serial,
            is_encrypted: raw.encrypted_data.is_some(),
            ..Self::default()
        };
        for resource in raw.resources {
            if let Some(address) = provider_address(&resource.provider) {
                facts.providers.insert(address);
            }
            if resource.mode != "managed" {
                continue;
            }
            for instance in &resource.instances {
                let mut address = String::new();
                if !resource.module.is_empty() {
                    address.push_str(&format!("{}.", resource.module));
                }
                address.push_str(&format!("{}.{}", resource.type_, resource.name));
                if let Some(key @ (Value::String(_) | Value::Number(_))) = &instance.index_key {
                    address.push_str(&format!("[{key}]"));
                }
                let id = instance.attributes.as_ref().map(|all| &all.id);
                let id = id.and_then(Value::as_str).filter(|id| !id.is_empty());
                let ids = facts.ids.entry(address.clone()).or_default();
                ids.push(id.map(str::to_owned));
                if !instance.deposed.is_empty() {
                    address.push_str(&format!(" (deposed {})", instance.deposed));
                }
                if instance.status == "tainted" {
                    facts.tainted.push(address.clone());
                }
                facts.addresses.push(address);
            }
        }
        Ok(facts)
    }
}

/// Whether an encrypted state is too short to hold a resource, which only its absence can make it: AES-GCM hides what a text
/// says and not how long it is, and OpenTofu encrypts the state's compact JSON as it is (measured with 1.12.6).
///
/// `false` says nothing. So the proof of an emptied state needs no call of OpenTofu.
///
/// # Errors
/// When it is not a state.
pub fn is_too_short_for_resources(bytes: &[u8]) -> Result<bool, StateFactsError> {
    /// What AES-GCM adds: a nonce of 12 bytes and a tag of 16 (NIST SP 800-38D).
    const SEAL: usize = 28;
    /// Less than any resource takes: its five members' names, a provider's source address and an instance are 150 bytes or more.
    const LESS_THAN_ONE: usize = 64;
    let raw: RawState = serde_json::from_slice(bytes).map_err(StateFactsError::Unreadable)?;
    let Some(Value::String(sealed)) = &raw.encrypted_data else {
        return Ok(false);
    };
    let empty = format!(
        r#"{{"version":4,"terraform_version":"1.12.6","serial":{},"lineage":"{}","outputs":{{}},"resources":[],"check_results":null}}"#,
        raw.serial, raw.lineage
    );
    Ok(sealed.len() / 4 * 3 < empty.len() + SEAL + LESS_THAN_ONE)
}

/// `module.a.provider["registry.opentofu.org/hashicorp/local"].alias` names one source address;
/// built-in providers need no package and give none.
fn provider_address(text: &str) -> Option<String> {
    let start = text.find("provider[\"")? + "provider[\"".len();
    let end = start + text[start..].find('"')?;
    let address = &text[start..end];
    (!address.starts_with("terraform.io/builtin/")).then(|| address.to_owned())
}

/// The same plain state with a lineage, where it has none: what a first apply leaves behind can't be
/// pushed without one. Everything else stays letter by letter.
///
/// # Errors
/// When it is not a state.
pub fn with_lineage(plain: &[u8], lineage: &str) -> Result<Vec<u8>, StateFactsError> {
    if !StateFacts::read(plain)?.lineage.is_empty() {
        return Ok(plain.to_vec());
    }
    with_member(
        plain,
        "lineage",
        &Value::String(lineage.to_owned()).to_string(),
    )
}

/// The same plain state with the next serial: OpenTofu writes nothing where nothing differs, so a
/// state that is to be encrypted anew needs one. Everything else stays letter by letter.
///
/// # Errors
/// When it is not a state.
pub fn with_next_serial(plain: &[u8]) -> Result<Vec<u8>, StateFactsError> {
    let serial = StateFacts::read(plain)?.serial.saturating_add(1);
    with_member(plain, "serial", &serial.to_string())
}

/// The same plain state with another serial. Everything else stays letter by letter.
///
/// # Errors
/// When it is no plain state.
pub fn with_serial(plain: &[u8], serial: u64) -> Result<Vec<u8>, StateFactsError> {
    StateFacts::read(plain)?;
    with_member(plain, "serial", &serial.to_string())
}

/// Sets one member of the outermost object. Numbers of any length stay what they are.
fn with_member(plain: &[u8], name: &str, value: &str) -> Result<Vec<u8>, StateFactsError> {
    let Members(members) = serde_json::from_slice(plain).map_err(StateFactsError::Unreadable)?;
    let mut text = Vec::with_capacity(plain.len() + value.len() + name.len() + 4);
    let mut is_set = false;
    for (member, raw) in members {
        text.push(if text.is_empty() { b'{' } else { b',' });
        text.extend_from_slice(Value::String(member.clone()).to_string().as_bytes());
        text.push(b':');
        if member == name {
            is_set = true;
            text.extend_from_slice(value.as_bytes());
        } else {
            text.extend_from_slice(raw.get().as_bytes());
        }
    }
    if !is_set {
        text.push(if text.is_empty() { b'{' } else { b',' });
        text.extend_from_slice(format!("\"{name}\":{value}").as_bytes());
    }
    text.push(b'}');
    Ok(text)
}

/// The members of an object in order, their values as they are written.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a state's object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = r#"{"version":4,"terraform_version":"1.12.6","serial":3,"lineage":"l","outputs":{},
      "resources":[
        {"module":"module.a","mode":"managed","type":"x_y","name":"n","provider":"module.a.provider[\"registry.opentofu.org/o/x\"].b",
         "instances":[{"index_key":"k\"q","status":"tainted","attributes":{}},{"index_key":0,"attributes":{"id":"i"}},
           {"index_key":0,"deposed":"d1","attributes":{"id":"j","name":["n"]}},{"deposed":"d2","attributes":{"id":7}}]},
        {"mode":"data","type":"d","name":"n","provider":"provider[\"registry.opentofu.org/o/d\"]","instances":[{}]},
        {"mode":"managed","type":"terraform_data","name":"t","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{}]}],
      "future":1}"#;

    #[test]
    fn facts_are_read_and_unknown_fields_let_be() {
        let facts = StateFacts::read(STATE.as_bytes()).unwrap();
        assert_eq!(
            (facts.lineage.as_str(), facts.serial, facts.is_encrypted),
            ("l", 3, false)
        );
        assert_eq!(
            facts.addresses,
            [
                "module.a.x_y.n[\"k\\\"q\"]",
                "module.a.x_y.n[0]",
                "module.a.x_y.n[0] (deposed d1)",
                "module.a.x_y.n (deposed d2)",
                "terraform_data.t"
            ]
        );
        let ids = |address: &str| {
            facts.ids[address]
                .iter()
                .map(Option::as_deref)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids("module.a.x_y.n[0]"), [Some("i"), Some("j")]);
        assert_eq!(ids("module.a.x_y.n"), [None]);
        assert_eq!(ids("terraform_data.t"), [None]);
        assert_eq!(facts.tainted, ["module.a.x_y.n[\"k\\\"q\"]"]);
        assert_eq!(
            facts
                .providers
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
            ["registry.opentofu.org/o/d", "registry.opentofu.org/o/x"]
        );
    }

    #[test]
    fn an_encrypted_state_without_a_resource_is_known_by_its_length() {
        let sealed = |plain: &str| {
            // Four letters for three bytes begun, as base64 has it.
            let data = "A".repeat((plain.len() + 28).div_ceil(3) * 4);
            format!(
                r#"{{"serial":12,"lineage":"27bb49da-a3a3-8609-27aa-77bff71c4c10","meta":{{"k":"{}"}},"encrypted_data":"{data}","encryption_version":"v0"}}"#,
                "m".repeat(500)
            )
        };
        let state = |resources: &str| {
            format!(
                r#"{{"version":4,"terraform_version":"1.12.6","serial":12,"lineage":"27bb49da-a3a3-8609-27aa-77bff71c4c10","outputs":{{}},"resources":[{resources}],"check_results":null}}"#
            )
        };
        let smallest = r#"{"mode":"managed","type":"a","name":"b","provider":"provider[\"h.io/o/t\"]","instances":[{"schema_version":0,"attributes":{},"sensitive_attributes":[]}]}"#;
        for (plain, expected) in [
            (state(""), true),
            (state(smallest), false),
            (state(&[smallest; 3].join(",")), false),
        ] {
            let found = is_too_short_for_resources(sealed(&plain).as_bytes()).unwrap();
            assert_eq!(found, expected, "{plain}");
            assert!(
                !is_too_short_for_resources(plain.as_bytes()).unwrap(),
                "of a plain one nothing is said"
            );
        }
        assert!(is_too_short_for_resources(b"no state").is_err());
    }

    #[test]
    fn only_an_empty_lineage_is_set() {
        let set = with_lineage(br#"{"version":4,"lineage":"","serial":1}"#, "new").unwrap();
        assert_eq!(
            String::from_utf8(set).unwrap(),
            r#"{"version":4,"lineage":"new","serial":1}"#
        );
        assert_eq!(
            with_lineage(STATE.as_bytes(), "new").unwrap(),
            STATE.as_bytes()
        );
    }

    #[test]
    fn the_next_serial_leaves_every_other_letter() {
        let state = br#"{"version":4, "serial": 7,"x":[ 1.00, 123456789012345678901234567890 ]}"#;
        assert_eq!(
            String::from_utf8(with_next_serial(state).unwrap()).unwrap(),
            r#"{"version":4,"serial":8,"x":[ 1.00, 123456789012345678901234567890 ]}"#
        );
    }
}

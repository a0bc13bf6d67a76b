//! What `tofu state pull` prints, as far as status needs it. What is not known is kept, and is no error.

use std::fmt;

use serde_json::Value as Json;

use crate::ProviderName;

/// Why a state can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadStateError {
    /// It is no JSON.
    #[error("the state is no JSON")]
    Json(#[source] serde_json::Error),
    /// It is encrypted: it was read from the store, and not through tofu.
    #[error("the state is encrypted and must be read by `tofu state pull`")]
    Encrypted,
    /// It lacks what every state has.
    #[error("the state has no `{what}`")]
    Lacks {
        /// What it lacks.
        what: &'static str,
    },
}

/// What stands, by a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The state's serial number.
    pub serial: u64,
    /// The state's lineage.
    pub lineage: String,
    /// Machines, in the order of their addresses.
    pub machines: Vec<Machine>,
    /// Everything else that is managed.
    pub others: Vec<Other>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its address in the configuration, such as `oci_core_instance.control[0]`.
    pub resource: String,
    /// Who made it.
    pub provider: ProviderName,
    /// The provider's name for it.
    pub provider_id: String,
    /// Where it answers.
    pub address: Option<String>,
    /// Its shape or flavor.
    pub shape: Option<String>,
}

/// Something else that is managed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Its address in the configuration.
    pub resource: String,
    /// The provider's name for it, where it has one.
    pub provider_id: Option<String>,
}

/// What opens a Talos cluster, each part base64 of PEM. Its key is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientConfiguration {
    /// The cluster's authority.
    pub ca_certificate: String,
    /// The client's certificate.
    pub client_certificate: String,
    /// The client's key: a secret.
    pub client_key: String,
}

impl fmt::Debug for ClientConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientConfiguration([secret])")
    }
}

impl Observed {
    /// Reads a state.
    ///
    /// # Errors
    /// When it is no JSON, is encrypted, or lacks serial or lineage.
    pub fn read(state: &[u8]) -> Result<Self, ReadStateError> {
        let state = parse(state)?;
        let lacks = |what| ReadStateError::Lacks { what };
        let mut observed = Self {
            serial: state["serial"].as_u64().ok_or_else(|| lacks("serial"))?,
            lineage: text(&state["lineage"]).ok_or_else(|| lacks("lineage"))?,
            machines: Vec::new(),
            others: Vec::new(),
        };
        for (resource, kind, attributes) in managed(&state) {
            let id = text(&attributes["id"]);
            let (provider, address, shape) = match kind {
                "oci_core_instance" => {
                    let address = first(&[&attributes["public_ip"], &attributes["private_ip"]]);
                    (ProviderName::Oci, address, text(&attributes["shape"]))
                }
                "openstack_compute_instance_v2" => {
                    let address = floating(&state, attributes).or_else(|| {
                        first(&[
                            &attributes["access_ip_v4"],
                            &attributes["access_ip_v6"],
                            &attributes["network"][0]["fixed_ip_v4"],
                        ])
                    });
                    (
                        ProviderName::Openstack,
                        address,
                        text(&attributes["flavor_name"]),
                    )
                }
                "talos_machine_configuration_apply" => {
                    (ProviderName::Talos, text(&attributes["node"]), None)
                }
                _ => {
                    let provider_id = id;
                    observed.others.push(Other {
                        resource,
                        provider_id,
                    });
                    continue;
                }
            };
            observed.machines.push(Machine {
                resource,
                provider,
                provider_id: id.unwrap_or_default(),
                address,
                shape,
            });
        }
        observed
            .machines
            .sort_by(|a, b| a.resource.cmp(&b.resource));
        observed.others.sort_by(|a, b| a.resource.cmp(&b.resource));
        Ok(observed)
    }
}

impl ClientConfiguration {
    /// Finds what opens the cluster of this name: by mode, type and name, and never by position.
    ///
    /// # Errors
    /// When the state can't be read.
    pub fn find(state: &[u8], label: &str) -> Result<Option<Self>, ReadStateError> {
        let state = parse(state)?;
        let found = state["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|resource| {
                resource["mode"] == "managed"
                    && resource["type"] == "talos_machine_secrets"
                    && resource["name"] == label
            });
        let Some(found) = found else {
            return Ok(None);
        };
        let of = &found["instances"][0]["attributes"]["client_configuration"];
        let (ca, certificate, key) = (
            text(&of["ca_certificate"]),
            text(&of["client_certificate"]),
            text(&of["client_key"]),
        );
        Ok(match (ca, certificate, key) {
            (Some(ca_certificate), Some(client_certificate), Some(client_key)) => Some(Self {
                ca_certificate,
                client_certificate,
                client_key,
            }),
            _ => None,
        })
    }
}

fn parse(state: &[u8]) -> Result<Json, ReadStateError> {
    let state: Json = serde_json::from_slice(state).map_err(ReadStateError::Json)?;
    if state.get("encrypted_data").is_some() {
        return Err(ReadStateError::Encrypted);
    }
    Ok(state)
}

/// Returns the managed instances: their addresses, kinds and attributes.
fn managed(state: &Json) -> Vec<(String, &str, &Json)> {
    let mut all = Vec::new();
    for resource in state["resources"].as_array().into_iter().flatten() {
        let (Some(kind), Some(name)) = (resource["type"].as_str(), resource["name"].as_str())
        else {
            continue;
        };
        if resource["mode"] != "managed" {
            continue;
        }
        let module = resource["module"].as_str();
        let module = module
            .map(|module| format!("{module}."))
            .unwrap_or_default();
        for instance in resource["instances"].as_array().into_iter().flatten() {
            // What is deposed is on its way out.
            if instance.get("deposed").is_some() {
                continue;
            }
            let index = match &instance["index_key"] {
                Json::Null => String::new(),
                key => format!("[{key}]"),
            };
            let address = format!("{module}{kind}.{name}{index}");
            all.push((address, kind, &instance["attributes"]));
        }
    }
    all
}

/// Finds the floating address of a machine by its port.
fn floating(state: &Json, machine: &Json) -> Option<String> {
    let ports: Vec<&str> = machine["network"]
        .as_array()?
        .iter()
        .filter_map(|network| network["port"].as_str())
        .filter(|port| !port.is_empty())
        .collect();
    managed(state)
        .into_iter()
        .filter(|(_, kind, _)| *kind == "openstack_networking_floatingip_v2")
        .find(|(_, _, attributes)| {
            attributes["port_id"]
                .as_str()
                .is_some_and(|port| ports.contains(&port))
        })
        .and_then(|(_, _, attributes)| text(&attributes["address"]))
}

fn first(all: &[&Json]) -> Option<String> {
    all.iter().find_map(|json| text(json))
}

fn text(json: &Json) -> Option<String> {
    json.as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

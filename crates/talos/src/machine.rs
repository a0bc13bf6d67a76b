//! The machines of a cluster, as the output `hosts` of a root module names them.

use serde_json::Value;

/// What a machine is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It runs etcd and the API: it is upgraded first.
    ControlPlane,
    /// It runs everything else.
    Worker,
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// What it is.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// Where it answers.
    pub address: String,
}

/// Why `hosts` is no list of machines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// It is no map.
    #[error("the output `hosts` is no map of machines")]
    NoMap,
    /// A machine has no address.
    #[error("machine `{name}` of the output `hosts` has no `ansible_host`")]
    NoAddress {
        /// The machine.
        name: String,
    },
    /// A machine has no role.
    #[error("machine `{name}` of the output `hosts` has no `role` (`controlplane` or `worker`)")]
    NoRole {
        /// The machine.
        name: String,
    },
    /// An address that would be read as an option or as several.
    #[error("machine `{name}` has an address that is none: `{address}`")]
    Address {
        /// The machine.
        name: String,
        /// What stands there.
        address: String,
    },
}

/// Reads `hosts`: control plane first, then by name.
///
/// # Errors
/// It is not what the output of a nodes step looks like.
pub fn machines(hosts: &Value) -> Result<Vec<Machine>, MachineError> {
    let Value::Object(hosts) = hosts else {
        return Err(MachineError::NoMap);
    };
    let mut all = Vec::new();
    for (name, host) in hosts {
        let name = name.clone();
        let Some(address) = host["ansible_host"]
            .as_str()
            .filter(|text| !text.is_empty())
        else {
            return Err(MachineError::NoAddress { name });
        };
        let is_one = |c: char| c.is_ascii_alphanumeric() || ".:-_%".contains(c);
        if address.starts_with('-') || !address.chars().all(is_one) {
            return Err(MachineError::Address {
                name,
                address: address.to_owned(),
            });
        }
        let role = match host["role"].as_str() {
            Some("controlplane") => Role::ControlPlane,
            Some("worker") => Role::Worker,
            _ => return Err(MachineError::NoRole { name }),
        };
        all.push(Machine {
            role,
            name,
            address: address.to_owned(),
        });
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn control_planes_come_first_and_then_names_decide() {
        let hosts = json!({
            "a": { "ansible_host": "10.0.0.9", "role": "worker" },
            "c": { "ansible_host": "10.0.0.2", "role": "controlplane" },
            "b": { "ansible_host": "fd00::1", "role": "controlplane", "provider": "metal" },
        });
        let found = machines(&hosts).unwrap();
        let names: Vec<&str> = found.iter().map(|machine| machine.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }

    #[test]
    fn what_is_no_machine_is_named() {
        for (hosts, expected) in [
            (json!([]), "no map"),
            (json!({ "a": { "role": "worker" } }), "no `ansible_host`"),
            (json!({ "a": { "ansible_host": "10.0.0.1" } }), "no `role`"),
            (
                json!({ "a": { "ansible_host": "--nodes=x", "role": "worker" } }),
                "`--nodes=x`",
            ),
            (
                json!({ "a": { "ansible_host": "a,b", "role": "worker" } }),
                "`a,b`",
            ),
        ] {
            let error = machines(&hosts).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

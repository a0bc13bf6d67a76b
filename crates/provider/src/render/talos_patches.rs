//! Patches of Talos' configuration. Each is a whole JSON or YAML document: the provider takes anything else for
//! the name of a file.

use serde_json::{Map, Value as Json, json};

use crate::spec::{Cluster, NodeGroup};

/// Returns the patches of every machine of a cluster, and then those of a group's own.
pub(super) fn patches(cluster: &Cluster, group: Option<&NodeGroup>) -> Vec<String> {
    let mut patches = vec![install(cluster, group)];
    patches.extend(network(cluster));
    patches.extend(cluster.config_patches.iter().cloned());
    if let Some(group) = group {
        if !group.labels.is_empty() {
            let labels = json!({ "machine": { "nodeLabels": group.labels } });
            patches.push(labels.to_string());
        }
        patches.extend(group.config_patches.iter().cloned());
    }
    patches
}

/// Returns the patch that says what is installed: `talos_version` alone is a contract, and the image is always
/// the provider's own.
fn install(cluster: &Cluster, group: Option<&NodeGroup>) -> String {
    let version = group
        .and_then(|group| group.talos_version.as_ref())
        .unwrap_or(&cluster.talos_version);
    let schematic = group.and_then(|group| group.schematic_id.as_ref());
    let image = match schematic {
        Some(schematic) => format!("factory.talos.dev/installer/{schematic}:{version}"),
        None => format!("ghcr.io/siderolabs/installer:{version}"),
    };
    json!({ "machine": { "install": { "image": image } } }).to_string()
}

fn network(cluster: &Cluster) -> Option<String> {
    let mut network = Map::new();
    if let Some(cni) = &cluster.cni {
        network.insert("cni".to_owned(), cni.clone());
    }
    if !cluster.pod_subnets.is_empty() {
        network.insert("podSubnets".to_owned(), json!(cluster.pod_subnets));
    }
    if !cluster.service_subnets.is_empty() {
        network.insert("serviceSubnets".to_owned(), json!(cluster.service_subnets));
    }
    let network = Json::Object(network);
    let is_empty = network.as_object().is_some_and(Map::is_empty);
    (!is_empty).then(|| json!({ "cluster": { "network": network } }).to_string())
}

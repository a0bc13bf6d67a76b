//! Clusters and the machines they are made of.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value as Json;

use super::located::{Data, Located};
use super::parse::is_patch;
use super::table::{Faults, Table};

/// A Kubernetes cluster by Talos.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The version of Talos, such as `v1.11.2`.
    pub talos_version: String,
    /// The version of Kubernetes; Talos' own otherwise.
    pub kubernetes_version: Option<String>,
    /// Where Kubernetes answers, with scheme and port.
    pub endpoint: String,
    /// Networks of pods.
    pub pod_subnets: Vec<String>,
    /// Networks of services.
    pub service_subnets: Vec<String>,
    /// The network plugin, as Talos names it; its own otherwise.
    pub cni: Option<Json>,
    /// Patches of every machine's configuration, each a YAML or JSON document.
    pub config_patches: Vec<String>,
    /// Whether etcd is bootstrapped.
    pub bootstrap: Bootstrap,
}

/// Whether etcd is bootstrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bootstrap {
    /// On the first control plane machine.
    First,
    /// Not here.
    No,
}

impl Cluster {
    pub(super) fn read(body: &mut Table<'_>, faults: &mut Faults) -> Self {
        let talos_version = version(body, "talosVersion", faults);
        if talos_version.is_none() {
            body.missing("talosVersion", faults);
        }
        let line = body.line;
        let endpoint = body.required_text("endpoint", faults);
        if !endpoint.is_empty() && !has_scheme_and_port(&endpoint) {
            let help = "such as `https://cluster.example.org:6443`".to_owned();
            let at = body.at("endpoint");
            faults.add(line, &at, "it needs scheme and port", Some(help));
        }
        let cni = body.take("cni").and_then(|cni| match &cni.data {
            Data::Text(name) => Some(serde_json::json!({ "name": name })),
            Data::Table(_) => Some(cni.to_json()),
            _ => {
                let at = body.at("cni");
                faults.add(cni.line, &at, "a text or a table belongs here", None);
                None
            }
        });
        let bootstrap = match body.flag("bootstrap", faults) {
            Some(false) => Bootstrap::No,
            _ => Bootstrap::First,
        };
        Self {
            talos_version: talos_version.unwrap_or_default(),
            kubernetes_version: body.text("kubernetesVersion", faults),
            endpoint,
            pod_subnets: body.texts("podSubnets", faults),
            service_subnets: body.texts("serviceSubnets", faults),
            cni,
            config_patches: patches(body, faults),
            bootstrap,
        }
    }
}

/// Whether an address has scheme, host and port, and nothing more.
fn has_scheme_and_port(endpoint: &str) -> bool {
    let Some(rest) = endpoint.strip_prefix("https://") else {
        return false;
    };
    let Some((host, port)) = rest.rsplit_once(':') else {
        return false;
    };
    !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
}

fn version(body: &mut Table<'_>, key: &'static str, faults: &mut Faults) -> Option<String> {
    let line = body.line;
    let text = body.text(key, faults)?;
    let parts: Vec<&str> = text
        .strip_prefix('v')
        .unwrap_or("")
        .splitn(3, '.')
        .collect();
    if parts.len() != 3 || parts[..2].iter().any(|part| part.parse::<u32>().is_err()) {
        let help = Some("such as `v1.11.2`".to_owned());
        faults.add(line, &body.at(key), format!("`{text}` is no version"), help);
    }
    Some(text)
}

/// Reads patches: a table, or a text that is a YAML or JSON document. A bare word is taken for a file by Talos'
/// provider, and so is refused.
fn patches(body: &mut Table<'_>, faults: &mut Faults) -> Vec<String> {
    let at = body.at("configPatches");
    let mut patches = Vec::new();
    for (index, patch) in body.list("configPatches", faults).iter().enumerate() {
        match &patch.data {
            Data::Table(_) | Data::List(_) => patches.push(patch.to_json().to_string()),
            Data::Text(text) if is_patch(text) => patches.push(text.clone()),
            _ => faults.add(
                patch.line,
                &format!("{at}[{index}]"),
                "a patch is a YAML or JSON document",
                Some("a bare text would be taken for the name of a file".to_owned()),
            ),
        }
    }
    patches
}

/// What a machine is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It runs etcd and the API.
    ControlPlane,
    /// It runs everything else.
    Worker,
}

impl Role {
    /// Returns Talos' word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
        }
    }
}

/// Where something is made, and its shape or flavor there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The provider.
    pub provider: Placed,
    /// The shape (oci) or flavor (openstack).
    pub shape: Option<String>,
}

/// A place where machines, networks and buckets are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placed {
    /// Oracle's cloud.
    Oci,
    /// An OpenStack.
    Openstack,
    /// Machines that stand already.
    Metal,
}

impl Class {
    /// Reads a class: what stands before the first `:` names the provider, what stands after it the shape.
    pub(super) fn read(
        body: &mut Table<'_>,
        allowed: &[(&str, Placed)],
        faults: &mut Faults,
    ) -> Option<Self> {
        let line = body.line;
        let text = body.required_text("class", faults);
        if text.is_empty() {
            return None;
        }
        let (name, shape) = match text.split_once(':') {
            Some((name, shape)) => (
                name,
                Some(shape.to_owned()).filter(|shape| !shape.is_empty()),
            ),
            None => (text.as_str(), None),
        };
        let found = allowed.iter().find(|(known, _)| *known == name);
        if found.is_none() {
            let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
            let help = format!("one of `{}` belongs before the `:`", names.join("`, `"));
            let message = format!("no provider `{name}` makes it");
            faults.add(line, &body.at("class"), message, Some(help));
        }
        Some(Self {
            provider: found?.1,
            shape,
        })
    }
}

/// Machines that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeGroup {
    /// The cluster they belong to; the only one where there is one.
    pub cluster: Option<String>,
    /// What they are in their cluster.
    pub role: Role,
    /// How many.
    pub count: u64,
    /// What is said about them that their provider reads.
    pub machines: Machine,
    /// Their version of Talos; the cluster's otherwise.
    pub talos_version: Option<String>,
    /// Patches of their configuration, after the cluster's.
    pub config_patches: Vec<String>,
    /// Labels of the nodes in Kubernetes.
    pub labels: BTreeMap<String, String>,
    /// The schematic of the image they install; plain Talos otherwise.
    pub schematic_id: Option<String>,
}

/// What is said about machines that their provider reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Machine {
    /// Oracle's.
    Oci(OciNodes),
    /// OpenStack's.
    Openstack(OpenstackNodes),
    /// Those that stand already: by address, a patch of each one's own.
    Metal(BTreeMap<String, Option<String>>),
}

/// Oracle's machines.
#[derive(Debug, Clone, PartialEq)]
pub struct OciNodes {
    /// The region; the environment's otherwise.
    pub region: Option<String>,
    /// The compartment.
    pub compartment: String,
    /// The shape.
    pub shape: String,
    /// A subnet that stands already.
    pub subnet_id: Option<String>,
    /// A network of these specs.
    pub network: Option<String>,
    /// The image.
    pub image: String,
    /// Security groups that stand already.
    pub nsg_ids: Vec<String>,
    /// Processors and memory, of a shape that lets them be chosen.
    pub flex: Option<(u64, u64)>,
    /// The boot volume.
    pub boot_volume_gb: u64,
    /// Whether each has an address of its own in the internet.
    pub public_ip: bool,
}

/// OpenStack's machines.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenstackNodes {
    /// The flavor.
    pub flavor: String,
    /// The image.
    pub image: OpenstackImage,
    /// The boot volume.
    pub boot_volume_gb: u64,
    /// Its type; the cloud's own otherwise.
    pub boot_volume_type: Option<String>,
    /// A second volume.
    pub data_volume_gb: Option<u64>,
    /// A network of these specs, or one that stands already.
    pub network: String,
    /// The network that floating addresses come from.
    pub external_network: Option<String>,
    /// Whether each has a floating address.
    pub floating_ip: bool,
}

/// An image of OpenStack's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenstackImage {
    /// By name: the newest of it.
    Name(String),
    /// By id.
    Id(String),
}

impl NodeGroup {
    pub(super) fn read(body: &mut Table<'_>, faults: &mut Faults) -> Option<Self> {
        let places = [
            ("oci", Placed::Oci),
            ("openstack", Placed::Openstack),
            ("metal", Placed::Metal),
        ];
        let class = Class::read(body, &places, faults);
        let roles = [
            ("controlplane", Role::ControlPlane),
            ("worker", Role::Worker),
        ];
        let n_before = faults.all.len();
        let role = body.word("role", &roles, faults);
        if role.is_none() && faults.all.len() == n_before {
            body.missing("role", faults);
        }
        let count = body.number("count", 0..=10_000, faults);
        let empty = Located {
            line: body.line,
            data: Data::Null,
        };
        let config_path = body.at("config");
        let config = body.take("config").unwrap_or(&empty);
        let mut config = Table::of(&config_path, config, faults);
        let cluster = body.text("cluster", faults);
        let talos_version = version(body, "talosVersion", faults);
        let config_patches = patches(body, faults);
        let labels = body.map("labels", faults);
        let class = class?;
        let schematic_id = config.text("schematicId", faults);
        let machines = match class.provider {
            Placed::Oci => Machine::Oci(oci(&class, &mut config, faults)),
            Placed::Openstack => Machine::Openstack(openstack(&class, &mut config, faults)),
            Placed::Metal => {
                Machine::Metal(metal(class.shape.is_some(), count, &mut config, faults))
            }
        };
        config.done(faults);
        let count = match &machines {
            Machine::Metal(machines) => Some(machines.len() as u64),
            _ => count,
        };
        if count.is_none() {
            body.missing("count", faults);
        }
        Some(Self {
            cluster,
            role: role?,
            count: count?,
            machines,
            talos_version,
            config_patches,
            labels,
            schematic_id,
        })
    }
}

fn oci(class: &Class, config: &mut Table<'_>, faults: &mut Faults) -> OciNodes {
    let shape = config.text("shape", faults).or_else(|| class.shape.clone());
    if shape.is_none() {
        let help = "write it after the provider, as in `class: oci:VM.Standard.A1.Flex`".to_owned();
        faults.add(
            config.line,
            &config.at("shape"),
            "it must be set",
            Some(help),
        );
    }
    let shape = shape.unwrap_or_default();
    let ocpus = config.number("ocpus", 1..=1000, faults);
    let memory = config.number("memoryGb", 1..=100_000, faults);
    let is_flex = shape.ends_with(".Flex");
    let flex = match (is_flex, ocpus, memory) {
        (true, Some(ocpus), Some(memory)) => Some((ocpus, memory)),
        (false, None, None) => None,
        (true, ..) => {
            let message = format!("the shape `{shape}` needs `ocpus` and `memoryGb`");
            faults.add(config.line, &config.path, message, None);
            None
        }
        (false, ..) => {
            let message = format!("`ocpus` and `memoryGb` can't be chosen for the shape `{shape}`");
            faults.add(config.line, &config.path, message, None);
            None
        }
    };
    let subnet_id = config.text("subnetId", faults);
    let network = config.text("network", faults);
    if subnet_id.is_some() == network.is_some() {
        let message = "either `subnetId` or `network` must be set";
        faults.add(config.line, &config.path, message, None);
    }
    OciNodes {
        region: config.text("region", faults),
        compartment: config.required_text("compartmentOcid", faults),
        shape,
        subnet_id,
        network,
        image: config.required_text("imageOcid", faults),
        nsg_ids: config.texts("nsgIds", faults),
        flex,
        boot_volume_gb: config
            .number("bootVolumeGb", 50..=32_768, faults)
            .unwrap_or(50),
        public_ip: config.flag("assignPublicIp", faults).unwrap_or(true),
    }
}

fn openstack(class: &Class, config: &mut Table<'_>, faults: &mut Faults) -> OpenstackNodes {
    let flavor = config
        .text("flavorName", faults)
        .or_else(|| class.shape.clone());
    if flavor.is_none() {
        let help = "write it after the provider, as in `class: openstack:m1.large`".to_owned();
        faults.add(
            config.line,
            &config.at("flavorName"),
            "it must be set",
            Some(help),
        );
    }
    let name = config.text("imageName", faults);
    let id = config.text("imageId", faults);
    if name.is_some() == id.is_some() {
        let message = "either `imageName` or `imageId` must be set";
        faults.add(config.line, &config.path, message, None);
    }
    let image = match (name, id) {
        (_, Some(id)) => OpenstackImage::Id(id),
        (name, None) => OpenstackImage::Name(name.unwrap_or_default()),
    };
    let external_network = config.text("extNetName", faults);
    let floating_ip = config.flag("floatingIp", faults).unwrap_or(false);
    if floating_ip && external_network.is_none() {
        let message = "a floating address needs the network it comes from";
        faults.add(config.line, &config.at("extNetName"), message, None);
    }
    OpenstackNodes {
        flavor: flavor.unwrap_or_default(),
        image,
        boot_volume_gb: config
            .number("bootVolumeGb", 1..=65_536, faults)
            .unwrap_or(50),
        boot_volume_type: config.text("bootVolumeType", faults),
        data_volume_gb: config.number("dataVolumeGb", 1..=65_536, faults),
        network: config.required_text("network", faults),
        external_network,
        floating_ip,
    }
}

fn metal(
    has_shape: bool,
    count: Option<u64>,
    config: &mut Table<'_>,
    faults: &mut Faults,
) -> BTreeMap<String, Option<String>> {
    if has_shape {
        faults.add(
            config.line,
            &config.path,
            "the class `metal` has no shape",
            None,
        );
    }
    let mut machines = BTreeMap::new();
    let at = config.at("machines");
    let line = config.line;
    match config
        .take("machines")
        .map(|value| (value.line, &value.data))
    {
        Some((_, Data::Table(members))) => {
            for (address, value) in members {
                let at = format!("{at}.{address}");
                if address.parse::<IpAddr>().is_err() {
                    faults.add(value.line, &at, "it is no address", None);
                }
                let mut machine = Table::of(&at, value, faults);
                let disk = machine.text("installDisk", faults);
                let interface = machine.text("networkInterface", faults);
                let storage = machine.text("storageDisk", faults);
                machine.done(faults);
                let patch = machine_patch(disk, interface, storage);
                if machines.insert(address.clone(), patch).is_some() {
                    faults.add(value.line, &at, "it is there twice", None);
                }
            }
        }
        other => {
            let line = other.map_or(line, |(line, _)| line);
            let message = "a table of machines by their addresses belongs here";
            faults.add(line, &at, message, None);
        }
    }
    if let Some(count) = count.filter(|count| *count != machines.len() as u64) {
        let message = format!(
            "`count` is {count}, and there are {} machines",
            machines.len()
        );
        faults.add(line, &at, message, Some("leave `count` out".to_owned()));
    }
    machines
}

/// Returns the patch of one machine alone.
fn machine_patch(
    disk: Option<String>,
    interface: Option<String>,
    storage: Option<String>,
) -> Option<String> {
    let mut machine = serde_json::Map::new();
    if let Some(storage) = storage {
        let disk = serde_json::json!({
            "device": storage, "partitions": [{ "mountpoint": "/var/mnt/storage" }],
        });
        machine.insert("disks".to_owned(), Json::Array(vec![disk]));
    }
    if let Some(disk) = disk {
        machine.insert("install".to_owned(), serde_json::json!({ "disk": disk }));
    }
    if let Some(interface) = interface {
        let interfaces =
            serde_json::json!({ "interfaces": [{ "dhcp": true, "interface": interface }] });
        machine.insert("network".to_owned(), interfaces);
    }
    (!machine.is_empty()).then(|| serde_json::json!({ "machine": machine }).to_string())
}

//! Networks, buckets and secrets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::kinds::{Class, Placed};
use super::located::{Data, Located};
use super::table::{Faults, Table};

const PLACES: [(&str, Placed); 2] = [("oci", Placed::Oci), ("openstack", Placed::Openstack)];

/// A network with its subnets and what may come in.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Who makes it.
    pub provider: Placed,
    /// Its addresses.
    pub cidr: String,
    /// Its parts; one of all addresses where none are named.
    pub subnets: Vec<Subnet>,
    /// What may come in.
    pub ingress: Vec<Ingress>,
    /// Whether machines in it may have addresses in the internet.
    pub public: bool,
    /// Oracle's compartment.
    pub compartment: Option<String>,
    /// Oracle's region; the environment's otherwise.
    pub region: Option<String>,
    /// The external network of OpenStack's router.
    pub external_network: Option<String>,
}

/// A part of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subnet {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub cidr: String,
}

/// Something that may come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// Of which protocol.
    pub protocol: Protocol,
    /// From which addresses.
    pub from: String,
    /// To which ports; all where none are named.
    pub ports: Option<(u16, u16)>,
}

/// A protocol of the internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Transmission control.
    Tcp,
    /// User datagrams.
    Udp,
    /// Control messages.
    Icmp,
    /// Any.
    All,
}

impl Network {
    pub(super) fn read(body: &mut Table<'_>, faults: &mut Faults) -> Option<Self> {
        let class = Class::read(body, &PLACES, faults);
        let line = body.line;
        let cidr = body.required_text("cidr", faults);
        check_cidr(line, &body.at("cidr"), &cidr, faults);
        let mut subnets: Vec<Subnet> = Vec::new();
        let at = body.at("subnets");
        for (index, subnet) in body.list("subnets", faults).iter().enumerate() {
            let mut table = Table::of(&format!("{at}[{index}]"), subnet, faults);
            let subnet = Subnet {
                name: table.required_text("name", faults),
                cidr: table.required_text("cidr", faults),
            };
            check_cidr(table.line, &table.at("cidr"), &subnet.cidr, faults);
            table.done(faults);
            subnets.push(subnet);
        }
        if subnets.is_empty() {
            subnets.push(Subnet {
                name: "main".to_owned(),
                cidr: cidr.clone(),
            });
        }
        let at = body.at("ingress");
        let mut ingress = Vec::new();
        for (index, rule) in body.list("ingress", faults).iter().enumerate() {
            ingress.push(rule_of(&format!("{at}[{index}]"), rule, faults));
        }
        let public = body.flag("public", faults).unwrap_or(false);
        let (config_at, empty) = (body.at("config"), nothing(line));
        let mut config = Table::of(&config_at, body.take("config").unwrap_or(&empty), faults);
        let provider = class?.provider;
        let is_oci = provider == Placed::Oci;
        let network = Self {
            provider,
            cidr,
            subnets,
            ingress,
            public,
            compartment: is_oci.then(|| config.required_text("compartmentOcid", faults)),
            region: is_oci.then(|| config.text("region", faults)).flatten(),
            external_network: (!is_oci)
                .then(|| config.text("extNetName", faults))
                .flatten(),
        };
        config.done(faults);
        if !is_oci && public && network.external_network.is_none() {
            let message = "a public network needs the one that its router leads to";
            faults.add(line, &format!("{config_at}.extNetName"), message, None);
        }
        Some(network)
    }
}

fn nothing(line: Option<usize>) -> Located {
    Located {
        line,
        data: Data::Null,
    }
}

fn check_cidr(line: Option<usize>, path: &str, cidr: &str, faults: &mut Faults) {
    if !cidr.is_empty() && !is_cidr(cidr) {
        let help = Some("such as `10.0.0.0/16`".to_owned());
        faults.add(line, path, format!("`{cidr}` is no network"), help);
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    match (address.parse::<IpAddr>(), length.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(length)) => length <= 32,
        (Ok(IpAddr::V6(_)), Ok(length)) => length <= 128,
        _ => false,
    }
}

fn rule_of(path: &str, rule: &Located, faults: &mut Faults) -> Ingress {
    let mut table = Table::of(path, rule, faults);
    let protocols = [
        ("tcp", Protocol::Tcp),
        ("udp", Protocol::Udp),
        ("icmp", Protocol::Icmp),
        ("all", Protocol::All),
    ];
    let protocol = table
        .word("protocol", &protocols, faults)
        .unwrap_or(Protocol::Tcp);
    let line = table.line;
    let from = table.required_text("from", faults);
    check_cidr(line, &table.at("from"), &from, faults);
    let at = table.at("ports");
    let ports = table.take("ports").and_then(|ports| {
        let read = match &ports.data {
            Data::Number(port) => port
                .as_u64()
                .and_then(|port| u16::try_from(port).ok())
                .map(|port| (port, port)),
            Data::Text(text) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                first.trim().parse().ok().zip(last.trim().parse().ok())
            }
            _ => None,
        };
        let read = read.filter(|(first, last)| 0 < *first && first <= last);
        if read.is_none() {
            let help = Some("such as `6443` or `\"30000-32767\"`".to_owned());
            faults.add(
                ports.line,
                &at,
                "a port or a range of ports belongs here",
                help,
            );
        }
        read
    });
    if ports.is_some() && matches!(protocol, Protocol::Icmp | Protocol::All) {
        faults.add(line, &at, "this protocol has no ports", None);
    }
    table.done(faults);
    Ingress {
        protocol,
        from,
        ports,
    }
}

/// A bucket of an object store.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// Who makes it.
    pub provider: Placed,
    /// Its name in the store; the spec's otherwise.
    pub name: Option<String>,
    /// Whether former contents are kept.
    pub versioning: bool,
    /// For how many days nothing in it can be removed.
    pub retention_days: Option<u64>,
    /// Oracle's compartment.
    pub compartment: Option<String>,
    /// Oracle's region; the environment's otherwise.
    pub region: Option<String>,
}

impl Bucket {
    pub(super) fn read(body: &mut Table<'_>, faults: &mut Faults) -> Option<Self> {
        let class = Class::read(body, &PLACES, faults);
        let line = body.line;
        let name = body.text("name", faults);
        let versioning = body.flag("versioning", faults).unwrap_or(false);
        let retention_days = body.number("retention", 1..=36_500, faults);
        let (config_at, empty) = (body.at("config"), nothing(line));
        let mut config = Table::of(&config_at, body.take("config").unwrap_or(&empty), faults);
        let provider = class?.provider;
        let is_oci = provider == Placed::Oci;
        let compartment = is_oci.then(|| config.required_text("compartmentOcid", faults));
        let region = is_oci.then(|| config.text("region", faults)).flatten();
        config.done(faults);
        let at = body.at("retention");
        if retention_days.is_some() && !is_oci {
            faults.add(line, &at, "OpenStack's store has no retention", None);
        }
        if retention_days.is_some() && versioning {
            let message = "a bucket of Oracle's has either versions or a retention";
            faults.add(line, &at, message, None);
        }
        Some(Self {
            provider,
            name,
            versioning,
            retention_days,
            compartment,
            region,
        })
    }
}

/// A secret of Bitwarden's, read by its provider when tofu applies, so that nothing else sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Secret {
    /// What it is read from.
    pub from: From,
    /// What of it is used.
    pub fields: Vec<String>,
    /// Which arguments of which provider are set from it: the provider, and fields by argument.
    pub provider: Option<(String, BTreeMap<String, String>)>,
}

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// A login, by its id.
    Login(String),
    /// A secure note, by its id.
    Note(String),
    /// A key for SSH, by its id.
    SshKey(String),
    /// A secret of the Secrets Manager, by its id.
    Secret(String),
}

impl From {
    /// Returns the fields that it has of itself; others are custom ones.
    #[must_use]
    pub fn own_fields(&self) -> &'static [&'static str] {
        match self {
            Self::Login(_) => &["username", "password", "totp", "notes"],
            Self::Note(_) => &["notes"],
            Self::SshKey(_) => &["private_key", "public_key", "key_fingerprint", "notes"],
            Self::Secret(_) => &["value"],
        }
    }
}

impl Secret {
    pub(super) fn read(body: &mut Table<'_>, faults: &mut Faults) -> Option<Self> {
        let line = body.line;
        let n_before = faults.all.len();
        let text = body.required_text("from", faults);
        let from = text.split_once(':').filter(|(_, id)| !id.is_empty());
        let from = from.and_then(|(kind, id)| {
            let id = id.to_owned();
            Some(match kind {
                "item" | "login" => From::Login(id),
                "note" => From::Note(id),
                "sshKey" => From::SshKey(id),
                "secret" => From::Secret(id),
                _ => return None,
            })
        });
        if from.is_none() && faults.all.len() == n_before {
            let help = "`item:ID`, `note:ID`, `sshKey:ID` or `secret:ID` belongs here".to_owned();
            let message = format!("`{text}` names no item and no secret");
            faults.add(line, &body.at("from"), message, Some(help));
        }
        let mut fields = body.texts("fields", faults);
        let at = body.at("provider");
        let provider = body.take("provider").map(|value| {
            let mut table = Table::of(&at, value, faults);
            let name = table.required_text("name", faults);
            let arguments = table.map("arguments", faults);
            table.done(faults);
            (name, arguments)
        });
        let from = from?;
        if fields.is_empty() {
            fields.push(match from {
                From::Login(_) => "password".to_owned(),
                _ => from.own_fields()[0].to_owned(),
            });
        }
        fields.extend(
            provider
                .iter()
                .flat_map(|(_, fields)| fields.values().cloned()),
        );
        fields.sort();
        fields.dedup();
        if matches!(from, From::Secret(_)) {
            for field in fields.iter().filter(|field| *field != "value") {
                let message = format!("a secret has one field, `value`, and not `{field}`");
                faults.add(line, &body.at("fields"), message, None);
            }
        }
        Some(Self {
            from,
            fields,
            provider,
        })
    }
}

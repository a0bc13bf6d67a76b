//! Networks and buckets of an OpenStack's.

use tf_json::{Body, Identifier, Meta, Reference, Resource};

use super::context::{Context, joined};
use super::oci_network::name_of;
use super::openstack::NETWORK;
use crate::ProviderName::Openstack;
use crate::spec::{Bucket, Network, Protocol, Spec};

const SUBNET: &str = "openstack_networking_subnet_v2";
const ROUTER: &str = "openstack_networking_router_v2";
const INTERFACE: &str = "openstack_networking_router_interface_v2";
const GROUP: &str = "openstack_networking_secgroup_v2";
const RULE: &str = "openstack_networking_secgroup_rule_v2";

/// Renders a network.
pub(crate) fn network(context: &mut Context<'_>, spec: &Spec, network: &Network) {
    let label = context.label(spec);
    let id =
        |kind: &'static str, label: &Identifier| Reference::resource(kind, label).attribute("id");
    let mut add = |kind: &'static str, label: &Identifier, body: Body| {
        let meta = Meta::default();
        context.resource(spec, Openstack, kind, label, Resource { body, meta });
    };
    add(NETWORK, &label, Body::new().set("name", &spec.name));
    for subnet in &network.subnets {
        let body = Body::new()
            .set("name", format!("{}-{}", spec.name, subnet.name))
            .set("network_id", id(NETWORK, &label))
            .set("cidr", &subnet.cidr)
            .set("ip_version", version_of(&subnet.cidr));
        add(SUBNET, &joined(&label, &subnet.name), body);
    }
    if network.external_network.is_some() {
        let external = Reference::data(NETWORK, joined(&label, "external")).attribute("id");
        let body = Body::new()
            .set("name", &spec.name)
            .set("external_network_id", external);
        add(ROUTER, &label, body);
        for subnet in &network.subnets {
            let part = joined(&label, &subnet.name);
            let body = Body::new()
                .set("router_id", id(ROUTER, &label))
                .set("subnet_id", id(SUBNET, &part));
            add(INTERFACE, &part, body);
        }
    }
    add(GROUP, &label, Body::new().set("name", &spec.name));
    let within = Body::new()
        .set("direction", "ingress")
        .set("ethertype", ethertype_of(&network.cidr))
        .set("remote_group_id", id(GROUP, &label))
        .set("security_group_id", id(GROUP, &label));
    add(RULE, &joined(&label, "within"), within);
    for wanted in &network.ingress {
        let protocol = match wanted.protocol {
            Protocol::Tcp => Some("tcp"),
            Protocol::Udp => Some("udp"),
            Protocol::Icmp if version_of(&wanted.from) == 6 => Some("ipv6-icmp"),
            Protocol::Icmp => Some("icmp"),
            // Left out, it is any.
            Protocol::All => None,
        };
        let port = |port: fn((u16, u16)) -> u16| wanted.ports.map(port).map(u64::from);
        let body = Body::new()
            .set("direction", "ingress")
            .set("ethertype", ethertype_of(&wanted.from))
            .set_some("protocol", protocol)
            .set("remote_ip_prefix", &wanted.from)
            .set_some("port_range_min", port(|ports| ports.0))
            .set_some("port_range_max", port(|ports| ports.1))
            .set("security_group_id", id(GROUP, &label));
        add(RULE, &joined(&label, &name_of(wanted)), body);
    }
    if let Some(external) = &network.external_network {
        let data = Resource {
            body: Body::new().set("name", external).set("external", true),
            meta: Meta::default(),
        };
        context.data(spec, Openstack, NETWORK, joined(&label, "external"), data);
    }
}

fn version_of(cidr: &str) -> u64 {
    if cidr.contains(':') { 6 } else { 4 }
}

fn ethertype_of(cidr: &str) -> &'static str {
    if cidr.contains(':') { "IPv6" } else { "IPv4" }
}

/// Renders a bucket.
pub(crate) fn bucket(context: &mut Context<'_>, spec: &Spec, bucket: &Bucket) {
    let label = context.label(spec);
    let body = Body::new()
        .set("name", bucket.name.as_ref().unwrap_or(&spec.name))
        .set("versioning", bucket.versioning);
    let meta = Meta::default();
    let kind = "openstack_objectstorage_container_v1";
    context.resource(spec, Openstack, kind, &label, Resource { body, meta });
}

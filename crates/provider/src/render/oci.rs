//! Machines of Oracle's.

use std::collections::BTreeMap;

use tf_json::{Body, Expression, Identifier, Meta, Reference, Resource, Template, Value};

use super::context::{Context, Hosts, ignoring, numbered};
use super::talos;
use crate::ProviderName::Oci;
use crate::spec::{NodeGroup, OciNodes, Placed, Spec, Wanted};

const INSTANCE: &str = "oci_core_instance";
const DOMAINS: &str = "oci_identity_availability_domains";

/// Renders a group of machines.
pub(crate) fn group<'a>(
    context: &mut Context<'a>,
    spec: &'a Spec,
    group: &NodeGroup,
    nodes: &OciNodes,
) {
    let label = context.label(spec);
    note_region(context, spec, nodes.region.as_ref());
    let domains = Resource {
        body: Body::new().set("compartment_id", &nodes.compartment),
        meta: Meta::default(),
    };
    context.data(spec, Oci, DOMAINS, &label, domains);
    let Some(vnic) = vnic(context, spec, nodes) else {
        return;
    };
    let domains =
        Expression::from(Reference::data(DOMAINS, &label).attribute("availability_domains"));
    // Spread over the domains, one after the other.
    let domain = Expression::raw(format!("{domains}[count.index % length({domains})].name"));
    let domain = domain.expect("a reference makes an expression");
    let mut metadata: BTreeMap<Template, Value> = BTreeMap::new();
    if let Some(configuration) = talos::configuration(context, spec, group) {
        let encoded = Expression::call("base64encode", [configuration]);
        metadata.insert("user_data".into(), encoded.into());
    }
    let shape = nodes
        .flex
        .map(|(ocpus, memory)| Body::new().set("ocpus", ocpus).set("memory_in_gbs", memory));
    let body = Body::new()
        .set("availability_domain", domain)
        .set("compartment_id", &nodes.compartment)
        .set("display_name", numbered(&spec.name, "count.index"))
        .set("freeform_tags", context.tags(spec))
        .set("shape", &nodes.shape)
        .set_some(
            "metadata",
            (!metadata.is_empty()).then_some(Value::Object(metadata)),
        )
        .blocks("shape_config", shape)
        .block(
            "source_details",
            Body::new()
                .set("source_type", "image")
                .set("source_id", &nodes.image)
                // A text to this provider.
                .set("boot_volume_size_in_gbs", nodes.boot_volume_gb.to_string()),
        )
        .block("create_vnic_details", vnic);
    // A machine is never made again as its image or its user data moved, nor as the order of the domains did.
    let mut meta = ignoring(unlooked(&[
        Reference::name("availability_domain"),
        Reference::name("create_vnic_details")
            .index(0)
            .attribute("defined_tags"),
        Reference::name("metadata").key("user_data"),
        Reference::name("source_details")
            .index(0)
            .attribute("source_id"),
    ]));
    meta.count = Some(group.count.into());
    context.resource(spec, Oci, INSTANCE, &label, Resource { body, meta });
    let address = Reference::name("machine").attribute(address_of(nodes));
    let hosts = Hosts {
        each: "index, machine",
        of: Reference::resource(INSTANCE, &label).into(),
        name: Expression::quoted(&numbered(&spec.name, "index")),
        address: address.into(),
        provider: "oci",
    };
    context.add_hosts(spec, group, Oci, hosts);
}

/// Returns what differs by itself, and what else may: Oracle adds `defined_tags` of its own, and the run that made
/// a thing is not the one that looks at it.
pub(super) fn unlooked(more: &[Reference]) -> Vec<Reference> {
    let mut all = vec![
        Reference::name("defined_tags"),
        Reference::name("freeform_tags").key("run"),
    ];
    all.extend_from_slice(more);
    all.sort();
    all
}

pub(super) fn note_region<'a>(context: &mut Context<'a>, spec: &'a Spec, region: Option<&String>) {
    if let Some(region) = region {
        context.regions.entry(region.clone()).or_insert(spec);
    }
}

fn address_of(nodes: &OciNodes) -> &'static str {
    if nodes.public_ip {
        "public_ip"
    } else {
        "private_ip"
    }
}

/// Returns the addresses of a group's machines.
pub(super) fn addresses(label: &Identifier, nodes: &OciNodes) -> Expression {
    Reference::resource(INSTANCE, label)
        .splat()
        .attribute(address_of(nodes))
        .into()
}

fn vnic(context: &mut Context<'_>, spec: &Spec, nodes: &OciNodes) -> Option<Body> {
    let mut groups: Vec<Value> = nodes.nsg_ids.iter().map(Value::from).collect();
    let subnet = match &nodes.network {
        None => Value::from(nodes.subnet_id.as_deref().unwrap_or_default()),
        Some(name) => {
            let network = context.find("Network", name);
            let network = network.and_then(|network| match &network.wanted {
                Wanted::Network(of) if of.provider == Placed::Oci => Some((network, of)),
                _ => None,
            });
            let Some((network, of)) = network else {
                let help = "`subnetId` names a subnet that stands already".to_owned();
                context.fault(
                    spec,
                    format!("there is no network `{name}` of Oracle's"),
                    Some(help),
                );
                return None;
            };
            if nodes.public_ip && !of.public {
                let message = format!("the network `{name}` is not public");
                let help = "set `assignPublicIp` to false, or `public` to true".to_owned();
                context.fault(spec, message, Some(help));
            }
            let label = context.label(network);
            let id = Reference::resource("oci_core_network_security_group", &label).attribute("id");
            groups.push(id.into());
            let first = super::context::joined(&label, &of.subnets[0].name);
            Reference::resource("oci_core_subnet", first)
                .attribute("id")
                .into()
        }
    };
    Some(
        Body::new()
            .set("subnet_id", subnet)
            // A text to this provider.
            .set("assign_public_ip", nodes.public_ip.to_string())
            .set_some(
                "nsg_ids",
                (!groups.is_empty()).then_some(Value::List(groups)),
            ),
    )
}

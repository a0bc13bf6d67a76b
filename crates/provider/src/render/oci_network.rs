//! Networks and buckets of Oracle's.

use tf_json::{Body, Identifier, Meta, Reference, Resource, Value};

use super::context::{Context, ignoring, joined};
use super::oci::{note_region, unlooked};
use crate::ProviderName::Oci;
use crate::spec::{Bucket, Ingress, Network, Protocol, Spec};

const GROUP: &str = "oci_core_network_security_group";
const RULE: &str = "oci_core_network_security_group_security_rule";

/// Renders a network.
pub(crate) fn network<'a>(context: &mut Context<'a>, spec: &'a Spec, network: &Network) {
    let label = context.label(spec);
    note_region(context, spec, network.region.as_ref());
    let compartment = network.compartment.as_deref().unwrap_or_default();
    let vcn = Reference::resource("oci_core_vcn", &label).attribute("id");
    let tags = context.tags(spec);
    let in_vcn = || Body::new().set("vcn_id", &vcn);
    let mut add = |kind: &'static str, label: &Identifier, body: Body| {
        let body = body
            .set("compartment_id", compartment)
            .set("display_name", &spec.name)
            .set("freeform_tags", tags.clone());
        let meta = ignoring(unlooked(&[]));
        context.resource(spec, Oci, kind, label, Resource { body, meta });
    };
    let cidrs = Value::list([network.cidr.as_str()]);
    add(
        "oci_core_vcn",
        &label,
        Body::new().set("cidr_blocks", cidrs),
    );
    // In and out, or out alone.
    let gateway = if network.public {
        "oci_core_internet_gateway"
    } else {
        "oci_core_nat_gateway"
    };
    add(gateway, &label, in_vcn());
    let route = Body::new()
        .set("destination", "0.0.0.0/0")
        .set("destination_type", "CIDR_BLOCK")
        .set(
            "network_entity_id",
            Reference::resource(gateway, &label).attribute("id"),
        );
    add(
        "oci_core_route_table",
        &label,
        in_vcn().block("route_rules", route),
    );
    let table = Reference::resource("oci_core_route_table", &label).attribute("id");
    for subnet in &network.subnets {
        let body = in_vcn()
            .set("cidr_block", &subnet.cidr)
            .set("prohibit_public_ip_on_vnic", !network.public)
            .set("route_table_id", &table);
        add("oci_core_subnet", &joined(&label, &subnet.name), body);
    }
    add(GROUP, &label, in_vcn());
    let rules = Reference::resource(GROUP, &label).attribute("id");
    let mut rule = |name: &str, body: Body| {
        let resource = Resource {
            body: body.set("network_security_group_id", &rules),
            meta: Meta::default(),
        };
        context.resource(spec, Oci, RULE, joined(&label, name), resource);
    };
    let out = Body::new()
        .set("direction", "EGRESS")
        .set("protocol", "all")
        .set("destination", "0.0.0.0/0")
        .set("destination_type", "CIDR_BLOCK");
    rule("egress", out);
    let within = Ingress {
        protocol: Protocol::All,
        from: network.cidr.clone(),
        ports: None,
    };
    rule("within", ingress(&within));
    for wanted in &network.ingress {
        rule(&name_of(wanted), ingress(wanted));
    }
}

/// Returns a name that stays when rules are put in another order.
pub(super) fn name_of(ingress: &Ingress) -> String {
    let protocol = match ingress.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Icmp => "icmp",
        Protocol::All => "all",
    };
    match ingress.ports {
        Some((first, last)) => format!("{protocol}_{first}_{last}_{}", ingress.from),
        None => format!("{protocol}_{}", ingress.from),
    }
}

fn ingress(ingress: &Ingress) -> Body {
    let (number, block) = match ingress.protocol {
        Protocol::Tcp => ("6", Some("tcp_options")),
        Protocol::Udp => ("17", Some("udp_options")),
        Protocol::Icmp => ("1", None),
        Protocol::All => ("all", None),
    };
    let body = Body::new()
        .set("direction", "INGRESS")
        .set("protocol", number)
        .set("source", &ingress.from)
        .set("source_type", "CIDR_BLOCK");
    match (block, ingress.ports) {
        (Some(block), Some((first, last))) => {
            let range = Body::new()
                .set("min", u64::from(first))
                .set("max", u64::from(last));
            body.block(block, Body::new().block("destination_port_range", range))
        }
        _ => body,
    }
}

/// Renders a bucket.
pub(crate) fn bucket<'a>(context: &mut Context<'a>, spec: &'a Spec, bucket: &Bucket) {
    let label = context.label(spec);
    note_region(context, spec, bucket.region.as_ref());
    let compartment = bucket.compartment.as_deref().unwrap_or_default();
    let namespace = Resource {
        body: Body::new().set("compartment_id", compartment),
        meta: Meta::default(),
    };
    context.data(spec, Oci, "oci_objectstorage_namespace", &label, namespace);
    let namespace = Reference::data("oci_objectstorage_namespace", &label).attribute("namespace");
    let retention = bucket.retention_days.map(|days| {
        let duration = Body::new()
            // A text to this provider.
            .set("time_amount", days.to_string())
            .set("time_unit", "DAYS");
        Body::new()
            .set("display_name", "retention")
            .block("duration", duration)
    });
    let body = Body::new()
        .set("compartment_id", compartment)
        .set("namespace", namespace)
        .set("name", bucket.name.as_ref().unwrap_or(&spec.name))
        .set("access_type", "NoPublicAccess")
        .set("freeform_tags", context.tags(spec))
        .set(
            "versioning",
            if bucket.versioning {
                "Enabled"
            } else {
                "Disabled"
            },
        )
        .blocks("retention_rules", retention);
    let meta = ignoring(unlooked(&[]));
    context.resource(
        spec,
        Oci,
        "oci_objectstorage_bucket",
        &label,
        Resource { body, meta },
    );
}

//! Machines of an OpenStack's.

use tf_json::{Body, Expression, Identifier, Meta, Reference, Resource, Value};

use super::context::{Context, Hosts, ignoring, joined, numbered};
use super::talos;
use crate::ProviderName::Openstack;
use crate::spec::{NodeGroup, OpenstackImage, OpenstackNodes, Placed, Spec, Wanted};

const INSTANCE: &str = "openstack_compute_instance_v2";
const PORT: &str = "openstack_networking_port_v2";
const FLOATING: &str = "openstack_networking_floatingip_v2";
const IMAGE: &str = "openstack_images_image_v2";
pub(super) const NETWORK: &str = "openstack_networking_network_v2";
const VOLUME: &str = "openstack_blockstorage_volume_v3";

/// What a group's ports hang on.
struct Net {
    id: Value,
    subnet: Option<Reference>,
    group: Option<Reference>,
    /// What a floating address needs until it is gone.
    interfaces: Vec<Reference>,
}

/// Renders a group of machines.
pub(crate) fn group<'a>(
    context: &mut Context<'a>,
    spec: &'a Spec,
    group: &NodeGroup,
    nodes: &OpenstackNodes,
) {
    let label = context.label(spec);
    let Some(net) = net(context, spec, nodes) else {
        return;
    };
    let image = match &nodes.image {
        OpenstackImage::Id(id) => Value::from(id),
        OpenstackImage::Name(name) => {
            let image = Resource {
                body: Body::new().set("name", name).set("most_recent", true),
                meta: Meta::default(),
            };
            context.data(spec, Openstack, IMAGE, &label, image);
            Reference::data(IMAGE, &label).attribute("id").into()
        }
    };
    let name = numbered(&spec.name, "count.index");
    let counted = |mut meta: Meta| {
        meta.count = Some(group.count.into());
        meta
    };
    let port = Body::new()
        .set("name", name.clone())
        .set("network_id", net.id)
        .set_some(
            "security_group_ids",
            net.group.map(|group| Value::list([group])),
        )
        .blocks(
            "fixed_ip",
            net.subnet
                .map(|subnet| Body::new().set("subnet_id", subnet)),
        );
    let port = Resource {
        body: port,
        meta: counted(Meta::default()),
    };
    context.resource(spec, Openstack, PORT, &label, port);
    let port = Reference::resource(PORT, &label)
        .same_index()
        .attribute("id");

    let configuration = talos::configuration(context, spec, group);
    let boot = Body::new()
        .set("uuid", image)
        .set("source_type", "image")
        .set("destination_type", "volume")
        .set("boot_index", 0_u64)
        .set("delete_on_termination", true)
        .set("volume_size", nodes.boot_volume_gb)
        .set_some("volume_type", nodes.boot_volume_type.as_ref());
    let body = Body::new()
        .set("name", name.clone())
        .set("flavor_name", &nodes.flavor)
        .set("metadata", context.tags(spec))
        .set_some("user_data", configuration)
        .block("block_device", boot)
        .block("network", Body::new().set("port", &port));
    // A machine is never made again as its image or its user data moved.
    let meta = counted(ignoring([
        Reference::name("block_device").index(0).attribute("uuid"),
        Reference::name("image_id"),
        Reference::name("image_name"),
        Reference::name("metadata").key("run"),
        Reference::name("user_data"),
    ]));
    context.resource(spec, Openstack, INSTANCE, &label, Resource { body, meta });

    if nodes.floating_ip {
        let body = Body::new()
            .set(
                "pool",
                nodes.external_network.as_deref().unwrap_or_default(),
            )
            .set("port_id", port);
        // Until it is gone the router's interface can't go: the cloud answers 409.
        let meta = Meta {
            depends_on: net.interfaces,
            ..Meta::default()
        };
        let meta = counted(meta);
        context.resource(spec, Openstack, FLOATING, &label, Resource { body, meta });
    }
    if let Some(size) = nodes.data_volume_gb {
        let body = Body::new()
            .set("name", name.text("-data"))
            .set("size", size);
        let meta = counted(Meta::default());
        context.resource(spec, Openstack, VOLUME, &label, Resource { body, meta });
        let of = |kind: &'static str| {
            Reference::resource(kind, &label)
                .same_index()
                .attribute("id")
        };
        let body = Body::new()
            .set("instance_id", of(INSTANCE))
            .set("volume_id", of(VOLUME));
        let meta = counted(Meta::default());
        let kind = "openstack_compute_volume_attach_v2";
        context.resource(spec, Openstack, kind, &label, Resource { body, meta });
    }

    let address = if nodes.floating_ip {
        Expression::from(Reference::resource(FLOATING, &label))
            .index(&Reference::name("index").into())
            .attribute("address")
    } else {
        Reference::name("machine").attribute("access_ip_v4").into()
    };
    let hosts = Hosts {
        each: "index, machine",
        of: Reference::resource(INSTANCE, &label).into(),
        name: Expression::quoted(&numbered(&spec.name, "index")),
        address,
        provider: "openstack",
    };
    context.add_hosts(spec, group, Openstack, hosts);
}

/// Returns the addresses of a group's machines.
pub(super) fn addresses(label: &Identifier, nodes: &OpenstackNodes) -> Expression {
    let (kind, attribute) = if nodes.floating_ip {
        (FLOATING, "address")
    } else {
        (INSTANCE, "access_ip_v4")
    };
    Reference::resource(kind, label)
        .splat()
        .attribute(attribute)
        .into()
}

/// Finds the network of a group: one of the specs, or one that stands already.
fn net(context: &mut Context<'_>, spec: &Spec, nodes: &OpenstackNodes) -> Option<Net> {
    let Some(found) = context.find("Network", &nodes.network) else {
        let label = context.label(spec);
        let data = Resource {
            body: Body::new().set("name", &nodes.network),
            meta: Meta::default(),
        };
        context.data(spec, Openstack, NETWORK, &label, data);
        return Some(Net {
            id: Reference::data(NETWORK, &label).attribute("id").into(),
            subnet: None,
            group: None,
            interfaces: Vec::new(),
        });
    };
    let label = context.label(found);
    let network = match &found.wanted {
        Wanted::Network(network) if network.provider == Placed::Openstack => network,
        _ => {
            let message = format!("the network `{}` is not of OpenStack's", nodes.network);
            context.fault(spec, message, None);
            return None;
        }
    };
    if nodes.floating_ip && network.external_network.is_none() {
        let message = format!(
            "the network `{}` has no router to the outside",
            nodes.network
        );
        let help = "set `extNetName` in its `config`".to_owned();
        context.fault(spec, message, Some(help));
    }
    let of = |name: &str| joined(&label, name);
    let interfaces = if network.external_network.is_some() {
        let subnets = network.subnets.iter();
        subnets
            .map(|subnet| {
                Reference::resource("openstack_networking_router_interface_v2", of(&subnet.name))
            })
            .collect()
    } else {
        Vec::new()
    };
    let subnet = of(&network.subnets[0].name);
    Some(Net {
        id: Reference::resource(NETWORK, &label).attribute("id").into(),
        subnet: Some(Reference::resource("openstack_networking_subnet_v2", subnet).attribute("id")),
        group: Some(
            Reference::resource("openstack_networking_secgroup_v2", &label).attribute("id"),
        ),
        interfaces,
    })
}

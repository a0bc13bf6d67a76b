//! Clusters, and machines that stand already.

use std::collections::BTreeMap;

use tf_json::{
    Body, Check, Condition, Expression, Identifier, Meta, Reference, Resource, Template, Value,
};

use super::context::{Context, Hosts, ignoring, joined};
use super::talos_patches::patches;
use super::{oci, openstack};
use crate::ProviderName::Talos;
use crate::spec::{Bootstrap, Cluster, Machine, NodeGroup, Role, Spec};

const SECRETS: &str = "talos_machine_secrets";
const CONFIGURATION: &str = "talos_machine_configuration";
const APPLY: &str = "talos_machine_configuration_apply";
const BOOTSTRAP: &str = "talos_machine_bootstrap";
const KUBECONFIG: &str = "talos_cluster_kubeconfig";
const CLIENT: &str = "talos_client_configuration";

/// Renders a cluster: its secrets, what its machines run, how it is opened.
pub(crate) fn cluster(context: &mut Context<'_>, spec: &Spec, cluster: &Cluster) {
    let label = context.label(spec);
    // The one source of the cluster's keys: a newer version of Talos never makes them again.
    let secrets = Resource {
        body: Body::new().set("talos_version", &cluster.talos_version),
        meta: ignoring([Reference::name("talos_version")]),
    };
    context.resource(spec, Talos, SECRETS, &label, secrets);
    let groups = context.groups_of(spec);
    for role in [Role::ControlPlane, Role::Worker] {
        let is_used = groups
            .iter()
            .any(|(_, group)| group.role == role && !has_own(group));
        if is_used {
            let name = joined(&label, role.as_str());
            configure(context, spec, (spec, cluster), role, None, &name);
        }
    }
    let addresses = |role: Role| -> Vec<Expression> {
        let of_role = groups
            .iter()
            .filter(|(_, group)| group.role == role && group.count > 0);
        of_role
            .map(|(spec, group)| addresses(&context.label(spec), group))
            .collect()
    };
    let control = addresses(Role::ControlPlane);
    let workers = addresses(Role::Worker);
    let has_control = !control.is_empty();
    let all = control.iter().chain(&workers).cloned();
    let client = Body::new()
        .set("cluster_name", &spec.name)
        .set("client_configuration", client_of(&label))
        .set("endpoints", concat(control.clone()))
        .set("nodes", concat(all));
    let meta = Meta::default();
    context.data(spec, Talos, CLIENT, &label, Resource { body: client, meta });
    context.clusters.push(label.clone());
    if !has_control {
        return;
    }
    let applied = |roles: &[Role]| -> Vec<Reference> {
        groups
            .iter()
            .filter(|(_, group)| roles.contains(&group.role))
            .filter(|(_, group)| matches!(group.machines, Machine::Metal(_)))
            .map(|(spec, _)| Reference::resource(APPLY, context.label(spec)))
            .collect()
    };
    let mut after = applied(&[Role::ControlPlane]);
    let all_applied = applied(&[Role::ControlPlane, Role::Worker]);
    let first = concat(control.clone()).index(&0.into());
    let node = || {
        Body::new()
            .set("client_configuration", client_of(&label))
            .set("node", first.clone())
    };
    // Never twice: another first machine is no reason to bootstrap again.
    let settled = || ignoring([Reference::name("endpoint"), Reference::name("node")]);
    if cluster.bootstrap == Bootstrap::First {
        let body = node().set("timeouts", timeouts(&["create"]));
        let mut meta = settled();
        meta.depends_on = after;
        context.resource(spec, Talos, BOOTSTRAP, &label, Resource { body, meta });
        after = vec![Reference::resource(BOOTSTRAP, &label)];
    }
    let body = node().set("timeouts", timeouts(&["create", "update"]));
    let meta = Meta {
        depends_on: after.clone(),
        ..Meta::default()
    };
    context.resource(spec, Talos, KUBECONFIG, &label, Resource { body, meta });
    context.kubeconfigs.insert(label.clone());
    after.extend(all_applied);
    after.sort();
    after.dedup();
    health(context, spec, cluster, &label, (control, workers), after);
}

/// Renders the look at the cluster's health as a check: a sick cluster is said, but can still be planned and,
/// above all, destroyed.
fn health(
    context: &mut Context<'_>,
    spec: &Spec,
    cluster: &Cluster,
    label: &Identifier,
    (control, workers): (Vec<Expression>, Vec<Expression>),
    after: Vec<Reference>,
) {
    let has_no_network = cluster
        .cni
        .as_ref()
        .is_some_and(|cni| cni["name"] == "none");
    let body = Body::new()
        .set("client_configuration", client_of(label))
        .set("control_plane_nodes", concat(control.clone()))
        .set("endpoints", concat(control))
        .set("worker_nodes", concat(workers))
        // Without a network plugin no node gets ready.
        .set("skip_kubernetes_checks", has_no_network)
        .set("timeouts", timeouts(&["read"]));
    let meta = Meta {
        depends_on: after,
        ..Meta::default()
    };
    let name = Identifier::of("talos_cluster_health");
    let id = Reference::data(&name, label).attribute("id");
    let condition = Expression::raw(format!("{id} != \"\"")).expect("a reference makes one");
    let check = Check {
        data: Some((name, label.clone(), Resource { body, meta })),
        assertions: vec![Condition {
            condition,
            error_message: format!("the cluster {} is not healthy", spec.name).into(),
        }],
    };
    let result = context
        .document(Talos)
        .add_check(joined(label, "health"), check);
    context.note(spec, result);
}

/// Renders machines that stand already: each is given its configuration.
pub(crate) fn metal(
    context: &mut Context<'_>,
    spec: &Spec,
    group: &NodeGroup,
    machines: &BTreeMap<String, Option<String>>,
) {
    let label = context.label(spec);
    let n_before = context.faults.len();
    let cluster = context.cluster_of(spec, group);
    let Some((cluster, _)) = cluster else {
        if context.faults.len() == n_before {
            context.fault(spec, "machines of metal need a cluster to belong to", None);
        }
        return;
    };
    let Some(configuration) = configuration(context, spec, group) else {
        return;
    };
    let secrets = context.label(cluster);
    let each = Value::object(machines.iter().map(|(address, patch)| {
        (
            address.as_str(),
            Value::from(patch.as_deref().unwrap_or_default()),
        )
    }));
    let body = Body::new()
        .set("client_configuration", client_of(&secrets))
        .set("machine_configuration_input", configuration)
        .set("node", Reference::name("each").attribute("key"))
        // A machine without a patch of its own has an empty text, and no patch.
        .set(
            "config_patches",
            Expression::call(
                "compact",
                [Expression::list([Reference::name("each")
                    .attribute("value")
                    .into()])],
            ),
        )
        // Back to how it was found, so that it can be given another configuration.
        .set(
            "on_destroy",
            Value::object([("graceful", false), ("reboot", true), ("reset", true)]),
        )
        .set("timeouts", timeouts(&["create", "delete", "update"]));
    let meta = Meta {
        for_each: Some(each),
        ..Meta::default()
    };
    context.resource(spec, Talos, APPLY, &label, Resource { body, meta });
    let quoted =
        Template::literal(format!("{}-", spec.name)).expression(Reference::name("address"));
    let hosts = Hosts {
        each: "address, machine",
        of: Reference::resource(APPLY, &label).into(),
        name: Expression::quoted(&quoted),
        address: Reference::name("machine").attribute("node").into(),
        provider: "metal",
    };
    context.add_hosts(spec, group, Talos, hosts);
}

/// Returns the configuration of a group's machines, rendering it where it is the group's own; none where the group
/// belongs to no cluster.
pub(super) fn configuration(
    context: &mut Context<'_>,
    spec: &Spec,
    group: &NodeGroup,
) -> Option<Expression> {
    let (cluster_spec, cluster) = context.cluster_of(spec, group)?;
    let name = if has_own(group) {
        let name = context.label(spec);
        let of = (cluster_spec, cluster);
        configure(context, spec, of, group.role, Some(group), &name);
        name
    } else {
        joined(&context.label(cluster_spec), group.role.as_str())
    };
    let configuration = Reference::data(CONFIGURATION, name).attribute("machine_configuration");
    Some(configuration.into())
}

/// Whether a group's machines differ from others of their role.
fn has_own(group: &NodeGroup) -> bool {
    group.talos_version.is_some()
        || group.schematic_id.is_some()
        || !group.config_patches.is_empty()
        || !group.labels.is_empty()
}

fn configure(
    context: &mut Context<'_>,
    spec: &Spec,
    (cluster_spec, cluster): (&Spec, &Cluster),
    role: Role,
    group: Option<&NodeGroup>,
    name: &Identifier,
) {
    let secrets = Reference::resource(SECRETS, context.label(cluster_spec));
    let version = group
        .and_then(|group| group.talos_version.as_ref())
        .unwrap_or(&cluster.talos_version);
    let kubernetes = cluster.kubernetes_version.as_deref();
    let body = Body::new()
        .set("cluster_name", &cluster_spec.name)
        .set("cluster_endpoint", &cluster.endpoint)
        .set("machine_type", role.as_str())
        .set("machine_secrets", secrets.attribute("machine_secrets"))
        .set("talos_version", version)
        .set_some(
            "kubernetes_version",
            kubernetes.map(|version| version.trim_start_matches('v')),
        )
        .set("config_patches", Value::from(patches(cluster, group)))
        .set("docs", false)
        .set("examples", false);
    let meta = Meta::default();
    context.data(spec, Talos, CONFIGURATION, name, Resource { body, meta });
}

fn client_of(label: &Identifier) -> Reference {
    Reference::resource(SECRETS, label).attribute("client_configuration")
}

/// Returns the limits of how long an unreachable machine is waited for: without them it is long. An argument to
/// this provider, and not a block.
fn timeouts(what: &[&str]) -> Value {
    Value::object(what.iter().map(|what| (*what, "10m")))
}

fn concat(lists: impl IntoIterator<Item = Expression>) -> Expression {
    let lists: Vec<Expression> = lists.into_iter().collect();
    match lists.as_slice() {
        [] => Expression::list([]),
        _ => Expression::call("concat", lists),
    }
}

fn addresses(label: &Identifier, group: &NodeGroup) -> Expression {
    match &group.machines {
        Machine::Oci(nodes) => oci::addresses(label, nodes),
        Machine::Openstack(nodes) => openstack::addresses(label, nodes),
        Machine::Metal(machines) => {
            Expression::list(machines.keys().map(|address| Expression::string(address)))
        }
    }
}

//! Specs become the files of a root module: one for each provider, and one for what they share.

mod bitwarden;
mod context;
mod gitlab;
mod labels;
mod mocks;
mod oci;
mod oci_network;
mod openstack;
mod openstack_network;
mod rendered;
mod shared;
mod talos;
mod talos_patches;

use std::collections::BTreeSet;

pub use rendered::{Change, Rendered, names};

use crate::ProviderName;
use crate::spec::{SpecFault, Specs, Wanted};
use context::Context;

/// Renders specs. Providers that objects in the state still need keep their pinned version, so that an apply
/// can remove what is left.
///
/// # Errors
/// Returns every fault: names that collide, references to specs that are not there.
pub fn render(
    specs: &Specs,
    still_in_state: &BTreeSet<ProviderName>,
) -> Result<Rendered, Vec<SpecFault>> {
    let mut context = Context::new(specs)?;
    for spec in specs.all() {
        match &spec.wanted {
            Wanted::Cluster(cluster) => talos::cluster(&mut context, spec, cluster),
            Wanted::NodeGroup(group) => {
                use crate::spec::Machine;
                match &group.machines {
                    Machine::Oci(nodes) => oci::group(&mut context, spec, group, nodes),
                    Machine::Openstack(nodes) => openstack::group(&mut context, spec, group, nodes),
                    Machine::Metal(machines) => talos::metal(&mut context, spec, group, machines),
                }
            }
            Wanted::Network(network) if network.provider == crate::spec::Placed::Oci => {
                oci_network::network(&mut context, spec, network);
            }
            Wanted::Network(network) => openstack_network::network(&mut context, spec, network),
            Wanted::Bucket(bucket) if bucket.provider == crate::spec::Placed::Oci => {
                oci_network::bucket(&mut context, spec, bucket);
            }
            Wanted::Bucket(bucket) => openstack_network::bucket(&mut context, spec, bucket),
            Wanted::Secret(secret) => bitwarden::secret(&mut context, spec, secret),
            Wanted::Project(project) => gitlab::project(&mut context, spec, project),
        }
    }
    shared::finish(context, still_in_state)
}

#[cfg(test)]
pub(crate) mod tests;

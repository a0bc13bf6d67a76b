//! What is wanted: specs, read from TOML, YAML or JSON, each fault with its line.

mod edit;
mod envelope;
mod fault;
mod insert;
mod kinds;
mod located;
mod network_kinds;
mod parse;
mod project;
mod table;

pub use edit::{EditError, FoundMachine, with_machines};
pub use envelope::{Spec, Specs, Wanted};
pub use fault::SpecFault;
pub use kinds::{
    Bootstrap, Class, Cluster, Machine, NodeGroup, OciNodes, OpenstackImage, OpenstackNodes,
    Placed, Role,
};
pub use network_kinds::{Bucket, From, Ingress, Network, Protocol, Secret, Subnet};
pub use parse::Format;
#[cfg(test)]
pub(crate) use parse::is_patch;
pub use project::{DeployToken, Project, ProjectFile, ProtectedBranch, Variable, VariableSource};

#[cfg(test)]
mod tests;

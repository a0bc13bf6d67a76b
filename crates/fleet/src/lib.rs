//! The hosts that a root module made: read from its output `hosts`, and handed to Ansible.
//!
//! A [`Workspace`] is what one output says, checked as a whole: [`Workspace::parse`] tells every fault at
//! once, each with its key. A [`Fleet`] is the workspaces that one play is given. From it comes the
//! [inventory](Fleet::inventory), as a document, as answers to Ansible's script protocol and as a tree for
//! people, and the [limit](Fleet::limit) that Ansible is really given.
//!
//! Nothing here asks a host anything: which of its addresses answers is told by [`Fleet::reached`].

mod check;
mod document;
mod graph;
mod host;
mod pattern;
mod script;
mod workspace;

pub use check::{Fault, HostsError};
pub use document::variables_document;
pub use host::{Address, Host, HostName, Jump};
pub use pattern::PatternError;
pub use workspace::{Fleet, FleetError, Workspace, WorkspaceName, WorkspaceNameError};

/// The group that every host is in, where a play is given one workspace.
pub const EVERY_HOST: &str = "tf";

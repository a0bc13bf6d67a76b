//! Talos: what is upgraded, in which order, and what proves it; `talosctl`'s command line and its answers; a
//! bounded scan for machines that wait for their configuration.
//!
//! Nothing here starts a program: a [`Cluster`] does, so that a test can stand in for a whole one.

mod answers;
mod command;
mod judge;
mod machine;
pub mod scan;
mod version;
mod walk;

pub use answers::{
    AnswerError, boot_id, client_version, disks, etcd_faults, links, server_version,
};
pub use command::{Client, Maintenance};
pub use judge::{Before, Child, Judgement, Seen, Trouble, judge};
pub use machine::{Machine, MachineError, Role, machines};
pub use version::{Version, VersionError};
pub use walk::{
    Cluster, Given, Journal, Limits, Stopped, Upgrade, WalkError, Walked, verify, walk,
};

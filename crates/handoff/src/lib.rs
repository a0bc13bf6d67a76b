//! From the hosts of an output to configured machines: awaited over SSH, onboarded, given to Ansible.
//!
//! What is done here has effects and an answer, and nothing else: no run, no job, no record. Whoever calls
//! keeps the ledger.
//!
//! 1. [`fleet_of`] reads the output.
//! 2. [`Hands::reach`] awaits its hosts up the ladder and pins their keys, in the target's own known hosts.
//!    [`Machines`] tells which of them are other machines than those that were pinned.
//! 3. [`Hands::play`] runs a playbook on what was reached, and judges it by hosts.
//! 4. [`forget`] takes the pins back when the machines are gone.

mod hands;
mod machines;
mod play;
mod played;
mod ssh;

pub use ansible::{HostCounts, Missing, Stop, Verdict};
pub use fleet::{Fleet, HostName, Workspace};
pub use hands::{FleetFault, Hands, Told, fleet_of};
pub use known_hosts::{KnownHostsError, PublicKey};
pub use machines::{Machines, MachinesError};
pub use play::{On, Play, PlayError};
pub use played::{PlayFailed, Played};
pub use ssh::{Identity, NotReached, SshSettings, forget};
pub use ssh_reach::{HostKeys, Limits, ReachError, Reached, Rung, Why};

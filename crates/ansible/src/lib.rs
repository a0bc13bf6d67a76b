//! Runs of `ansible-playbook`: with a configuration of their own, events as they come, judged by hosts.
//!
//! Ansible's exit code is 0 where no host matched, and where a lost host was ignored or rescued. So a
//! [`Run`] is followed by its [`Event`]s, which a callback plugin of ours prints, and [`Tally::judge`]
//! compares what became of each host with the hosts that were expected.

mod event;
mod judge;
mod missing;
mod run;

pub use event::{Event, HostCounts, Status};
pub use judge::{Tally, Verdict};
pub use missing::Missing;
pub use run::{GRACE, Run, RunError, Stop};

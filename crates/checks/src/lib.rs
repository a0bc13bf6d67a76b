//! Probes with a deadline: http, tcp, dns, exec.
//!
//! A probe only reads. It comes here resolved: no reference is left in it, and nothing is read from
//! the environment, so proxies and certificate authorities are values of the probe itself. Three ways
//! to ask:
//!
//! - [`run_once`]: one answer, now.
//! - [`await_ok`]: ask again until it passes or `within` is over.
//! - [`residue`]: after a teardown, ask a program that must have nothing to print.

mod answer;
mod deadline;
mod dns;
mod exec;
mod failure;
mod http;
mod probe;
mod residue;
mod tcp;
mod waiting;

pub use answer::run_once;
pub use failure::{Came, ProbeFailure};
pub use probe::{
    DnsProbe, HttpMethod, HttpProbe, Probe, Proxies, RecordKind, TcpProbe, UnknownRecordKind,
};
pub use residue::{Residue, residue};
pub use waiting::{Failed, Passed, await_ok};

#[cfg(test)]
mod test_servers;
#[cfg(test)]
mod tests;

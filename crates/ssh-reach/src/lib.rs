//! Hosts are awaited over SSH, all at once, and their keys are pinned.
//!
//! Each host is tried again and again up a [ladder](Rung): port, banner, host key, login, boot, Python. It is
//! reached when two tries came to the top some seconds apart, since a server that is restarted once while the
//! machine boots answers before it does. A host that shows a wrong key, or whose boot failed, is told at once.
//!
//! What is decided ([`Ladder`], [`prepare`]) knows no clock, file or network; what is done ([`Reach`]) drives
//! the OpenSSH client in batch mode, with a configuration of its own and no file of the user's.

mod attempt;
mod config;
mod ladder;
mod onboard;
mod reach;
mod remote;

pub use config::{Login, client_config};
pub use ladder::{Decision, Ladder, Limits, Outcome, Rung};
pub use onboard::{Check, HostKeys, OnboardError, pin_seen, prepare};
pub use reach::{HearFn, Heard, Reach, ReachError, Reached, StopFn, Why};

//! Fakes and a hermetic world for tests: nothing of the machine that runs them reaches a program under test.
//!
//! - [`World`] is a home, a working directory and a `bin` of its own, thrown away at the end.
//! - [`Command`] runs a program in it with a deadline and captures what it said.
//! - [`Terminal`] is the same at a terminal: what is printed can be waited for, prompts can be answered.
//! - [`FakeProgram`] answers as it was told, writes down each call, and fails on a call nobody told it about.
//! - [`SshLab`] makes [`SshServer`]s: real ones, on loopback addresses, with keys of their own; [`SshAgent`] holds the one that opens them.
//!
//! A helper that can't do its part panics with the reason: that is how a test ends.

mod command;
mod fake;
mod ssh_agent;
mod ssh_server;
mod terminal;
mod world;

pub use command::{Command, Ended, Outcome, Started};
pub use fake::{FakeProgram, UNSCRIPTED};
pub use ssh_agent::SshAgent;
pub use ssh_server::{SshLab, SshServer, login_name, ssh_client};
pub use terminal::Terminal;
pub use world::World;

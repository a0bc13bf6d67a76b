//! The state backend over HTTP: a plain client, the real OpenTofu, and kills.
//!
//! `REBUILD_TEST_TOFU` names the real OpenTofu; `cargo xtask tools` gets one.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod http;
mod killed;
mod real;
mod world;

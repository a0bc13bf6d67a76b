//! Cloud stores on real servers, each started by its test on loopback, and on servers that go wrong.
//!
//! `REBUILD_TEST_S3_GATEWAY`, `REBUILD_TEST_GCS_SERVER` and `REBUILD_TEST_AZURITE` name the servers;
//! `cargo xtask tools` gets them.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod azure;
mod canned;
mod faults;
mod gcs;
mod gcs_model;
mod losing;
mod s3;
mod surroundings;
mod world;

//! Provider modules: typed specs become OpenTofu's JSON syntax, states become status.
//!
//! Each module renders what its provider's real schema takes, and that is checked: the reduced schemas ship
//! with the crate. Nothing here reads or writes a file, starts a program or asks a cloud.

mod credentials;
mod name;
mod near;
pub mod render;
pub mod schema;
pub mod spec;
pub mod status;

pub use credentials::{Credential, Missing};
pub use name::ProviderName;
pub use near::near;

//! Provider modules.

mod near;
pub mod schema;

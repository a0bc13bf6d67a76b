//! up, down, preflight, check, status: the parts put together.

pub mod api;
pub mod environment;
pub mod stop;
pub mod ui;

//! up, down, preflight, check, status: the parts put together.

pub mod api;
pub mod environment;
mod error;
mod exec_step;
mod known;
mod library;
mod paths;
mod resolve;
mod scope;
mod secret_book;
pub mod stop;
pub mod ui;

pub use error::CallError;

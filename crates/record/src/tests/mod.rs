//! The record against a store in memory, driven by the engine.

mod format;
mod ledger;
mod random;
mod standing;
mod stored;
mod world;

//! The target's key: what keeps its states and bundles from others, from a passphrase.

mod file;
mod seal;

pub use file::{KeyError, KeyFile, KeyMode, Stretching, StretchingAlgorithm};
pub use seal::{OpenError, SealError, TargetKey};

#[cfg(test)]
mod tests;

//! Secrets: sources, masking, memory-backed files, the target's key.
//!
//! A secret is fetched once a call from its [`Source`], travels as a [`Secret`], which shows itself
//! to nobody by accident, and is taken out of everything that is written down by a [`Masker`]. Files
//! that must hold one lie in a [`MemoryDir`], never on a disk. What a target keeps is sealed with its
//! [`TargetKey`], which comes from its passphrase by way of its [`KeyFile`].

mod key;
mod masker;
mod memory;
mod secret;
mod source;

pub use key::{
    KeyError, KeyFile, KeyMode, OpenError, SealError, Stretching, StretchingAlgorithm, TargetKey,
};
pub use masker::{MASK, Masker};
pub use memory::{MemoryDir, MemoryError};
pub use secret::Secret;
pub use source::{FetchError, Source};

//! Where a secret comes from.

use std::path::PathBuf;

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The caller's variable.
    Env(String),
    /// A file.
    File(PathBuf),
    /// What a program prints.
    Command(Vec<String>),
    /// The envelope.
    Envelope(String),
}

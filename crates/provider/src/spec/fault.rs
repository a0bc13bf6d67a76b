//! What is wrong with a spec, and where.

use std::fmt;

/// A fault of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecFault {
    /// The file.
    pub file: String,
    /// The line in it, from 1, where it is known.
    pub line: Option<usize>,
    /// What it is about, such as `NodeGroup workers: spec.count`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
}

impl fmt::Display for SpecFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

//! `check`: formats, validates, lints and tests root modules and modules.
//!
//! Everything runs in a throw-away copy of the files that git would commit, with no backend, no
//! target and no credentials. Nothing of the platform directory is written, but for the files that
//! `fix` brings into their canonical form.

mod canonical_json;
mod check;
mod copy;
mod error;
mod fix;
mod format;
mod lint;
mod module;
mod report;
mod request;
mod scope;
mod test;
#[cfg(test)]
mod tests;

pub use check::check;
pub use error::CheckError;
pub use report::{
    CheckReport, DefinitionFault, Finding, LeftBehind, Lint, ModuleKind, ModuleReport, Severity,
    Tests, Tool, Unformatted,
};
pub use request::{CheckNotice, CheckRequest};

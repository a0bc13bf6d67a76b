//! The rules of states, locks and versions.

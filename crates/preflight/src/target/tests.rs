//! Cases of `target`.

//! Cases of `driver`.

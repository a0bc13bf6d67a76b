//! Cases of `judge`.

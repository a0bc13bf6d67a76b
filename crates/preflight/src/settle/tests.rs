//! Cases of `settle`.

//! Plans that the real OpenTofu made.

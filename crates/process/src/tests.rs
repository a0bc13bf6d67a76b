//! Tests with real children.

//! The HTTP state backend over a store

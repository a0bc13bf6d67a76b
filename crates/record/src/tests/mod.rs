//! The record against a store in memory.

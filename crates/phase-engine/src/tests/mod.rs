//! The engine against fakes.

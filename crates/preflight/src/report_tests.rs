//! The report's format.

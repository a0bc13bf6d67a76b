//! The verdict: clean only where it is proven

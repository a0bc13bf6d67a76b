//! Whole checks with the real OpenTofu, over small platforms.

mod definitions;
mod formatting;
mod linting;
mod testing;
mod world;

//! The engine against fakes.

mod concurrency;
mod cuts;
mod down;
mod fakes;
mod pure;
mod random;
mod resume;
mod up;

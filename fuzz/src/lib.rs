//! Everything that reads what strangers, older versions or a broken disk may hand it, called with changed bytes.
//!
//! `cargo xtask fuzz` runs it for as long as one likes, `cargo test` shortly. Inputs of a corpus in the tree
//! (`fuzz/corpus/TARGET/`) are changed at random, from a seed that is told, so that a run can be repeated. An input fails
//! by a panic, by breaking what its target promises, by taking seconds, or by making the process big. It needs no
//! nightly compiler; in return nothing guides it to unseen code but the corpus.

mod handed;
mod mutate;
mod run;
mod targets;

pub use run::{Bounds, Fault, Report, run};
pub use targets::{TARGETS, Target};

//! The binary: `rebuild::main` does the work.

fn main() {}

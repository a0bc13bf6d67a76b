//! Whole-program tests; the cases live in `tests/`.

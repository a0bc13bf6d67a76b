//! Fakes and a hermetic world for tests

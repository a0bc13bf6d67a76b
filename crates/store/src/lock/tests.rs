//! The lock: who may take it, when, and what it shuts out.

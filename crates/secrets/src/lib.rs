//! Secrets: sources, masking, memory-backed files, the target's key

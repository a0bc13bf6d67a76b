//! The store: keys with version tags, the target's lock, lease and fence

//! Documents as people read them; pure, so that each has a snapshot.

mod preflight;

pub(crate) use preflight::preflight;

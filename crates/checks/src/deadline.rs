//! A point in monotonic time by which a probe must have answered.

use std::time::{Duration, Instant};

/// A start and an end by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    start: Instant,
    allowed: Duration,
}

impl Deadline {
    /// Begins now.
    pub(crate) fn after(allowed: Duration) -> Self {
        Self {
            start: Instant::now(),
            allowed,
        }
    }

    /// What is left; `None` once it is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.allowed
            .checked_sub(self.start.elapsed())
            .filter(|left| !left.is_zero())
    }

    /// What was allowed from the start.
    pub(crate) fn allowed(&self) -> Duration {
        self.allowed
    }
}

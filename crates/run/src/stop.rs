//! What the operator's signals ask for, as a value that everything long-running looks at.
//!
//! The first SIGINT or SIGTERM starts nothing new and lets what runs end; the second sends one SIGINT to the
//! child and waits; the third kills its group. SIGHUP finishes the phase at hand, then pauses. With a grace,
//! time takes the place of the second signal.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How far the operator has gone in asking for an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopLevel {
    /// Nothing was asked.
    #[default]
    None,
    /// The terminal is gone: finish the phase at hand, then pause.
    AfterPhase,
    /// Start nothing new, let what runs end.
    Gentle,
    /// Send the running child one SIGINT and wait for it.
    Interrupt,
    /// Kill the running child's whole group.
    Kill,
}

/// Collects signals; shared between the thread that receives them and everything that must obey.
#[derive(Debug)]
pub struct StopRequests {
    grace: Option<Duration>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    hangup: bool,
    n_asked: u32,
    first: Option<Instant>,
}

impl StopRequests {
    /// Makes an empty set of requests; after `grace` a gentle stop turns into one interrupt by itself.
    #[must_use]
    pub fn new(grace: Option<Duration>) -> Self {
        Self {
            grace,
            inner: Mutex::new(Inner::default()),
        }
    }

    /// Takes note of one SIGINT or SIGTERM.
    pub fn ask(&self) {
        let mut inner = self.lock();
        inner.n_asked += 1;
        inner.first.get_or_insert_with(Instant::now);
    }

    /// Takes note of a SIGHUP.
    pub fn hang_up(&self) {
        self.lock().hangup = true;
    }

    /// Tells how far the operator has gone.
    #[must_use]
    pub fn level(&self) -> StopLevel {
        let inner = self.lock();
        let graced = match (inner.first, self.grace) {
            (Some(first), Some(grace)) if first.elapsed() >= grace => 2,
            _ => 0,
        };
        match inner.n_asked.max(graced) {
            0 if inner.hangup => StopLevel::AfterPhase,
            0 => StopLevel::None,
            1 => StopLevel::Gentle,
            2 => StopLevel::Interrupt,
            _ => StopLevel::Kill,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_goes_one_level_further() {
        let stop = StopRequests::new(None);
        assert_eq!(stop.level(), StopLevel::None);
        for level in [
            StopLevel::Gentle,
            StopLevel::Interrupt,
            StopLevel::Kill,
            StopLevel::Kill,
        ] {
            stop.ask();
            assert_eq!(stop.level(), level);
        }
    }

    #[test]
    fn a_hangup_waits_for_the_phase_until_somebody_asks_for_more() {
        let stop = StopRequests::new(None);
        stop.hang_up();
        assert_eq!(stop.level(), StopLevel::AfterPhase);
        stop.ask();
        assert_eq!(stop.level(), StopLevel::Gentle);
    }

    #[test]
    fn a_spent_grace_counts_as_the_second_signal() {
        let stop = StopRequests::new(Some(Duration::ZERO));
        assert_eq!(stop.level(), StopLevel::None);
        stop.ask();
        assert_eq!(stop.level(), StopLevel::Interrupt);
    }
}

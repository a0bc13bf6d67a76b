//! The only sleeper: waiting for a condition, with an end.

use std::time::{Duration, Instant};

/// Tries `condition` until it gives a value or `deadline` has passed, `interval` apart.
///
/// It is tried at least once, and once more at the deadline.
pub fn until<T>(
    deadline: Instant,
    interval: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        pause(interval.min(left));
    }
}

/// Sleeps. Everything that waits goes through here or through a channel.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that sleeps"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_gives_the_value_as_soon_as_there_is_one() {
        let mut n_tries = 0;
        let deadline = Instant::now() + Duration::from_secs(30);
        let value = until(deadline, Duration::from_millis(1), || {
            n_tries += 1;
            (n_tries == 3).then_some("there")
        });
        assert_eq!((value, n_tries), (Some("there"), 3));
    }

    #[test]
    fn until_tries_once_even_when_the_deadline_has_passed() {
        assert_eq!(
            until(Instant::now(), Duration::from_secs(1), || Some(1)),
            Some(1)
        );
    }

    #[test]
    fn until_ends() {
        let deadline = Instant::now() + Duration::from_millis(10);
        assert_eq!(
            until(deadline, Duration::from_secs(60), || None::<()>),
            None
        );
    }
}

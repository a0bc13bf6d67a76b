//! Signals become values: SIGINT and SIGTERM ask for a stop, SIGHUP says that the terminal is gone.

use std::sync::Arc;

use run::stop::{StopLevel, StopRequests};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Takes signals from now on; each is noted in `stop` and then told with the level it led to.
///
/// A SIGHUP that the caller has switched off (`nohup`) stays switched off.
pub(crate) fn listen(
    stop: Arc<StopRequests>,
    tell: impl Fn(StopLevel) + Send + 'static,
) -> std::io::Result<()> {
    let mut wanted = vec![SIGINT, SIGTERM];
    if !hangup_is_ignored() {
        wanted.push(SIGHUP);
    }
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGHUP {
                    stop.hang_up()
                } else {
                    stop.ask()
                }
                tell(stop.level());
            }
        })?;
    Ok(())
}

/// What is said when a signal arrived.
pub(crate) fn sentence(level: StopLevel) -> Option<&'static str> {
    match level {
        StopLevel::None => None,
        StopLevel::AfterPhase => Some("the terminal is gone: finishing this phase, then pausing"),
        StopLevel::Gentle => {
            Some("stopping: nothing new is started and what runs may end; once more interrupts it")
        }
        StopLevel::Interrupt => Some(
            "interrupting what runs and waiting for it; once more kills it, and what it was making may be lost",
        ),
        StopLevel::Kill => Some("killing what runs"),
    }
}

/// Linux tells which signals are ignored; elsewhere a SIGHUP is always taken.
fn hangup_is_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status))
}

fn ignores_hangup(status: &str) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen_in_the_mask_of_ignored_signals() {
        assert!(ignores_hangup(
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"
        ));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\n"));
        assert!(!ignores_hangup(""));
    }

    #[test]
    fn every_level_that_a_signal_leads_to_is_told() {
        for level in [
            StopLevel::AfterPhase,
            StopLevel::Gentle,
            StopLevel::Interrupt,
            StopLevel::Kill,
        ] {
            assert!(sentence(level).is_some());
        }
    }
}

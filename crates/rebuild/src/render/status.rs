//! What stands in a target, what its last run did and what to type next.

use record::{StatusDocument, TargetState};

use super::run::{run, standing_rows};
use super::table::table;
use crate::stream::{Look, Tone, clean};

/// The whole status.
pub(crate) fn status(status: &StatusDocument, look: Look) -> String {
    let (word, tone) = match status.state {
        TargetState::Empty => ("empty", Tone::Quiet),
        TargetState::Unfinished => ("unfinished", Tone::Warn),
        TargetState::Finished => ("finished", Tone::Good),
        TargetState::TearingDown => ("tearing down", Tone::Warn),
    };
    let mut text = format!("{}: {}\n", status.target, look.paint(tone, word));
    if let Some(lock) = &status.lock {
        let run = lock
            .run
            .as_deref()
            .map_or_else(String::new, |run| format!(" of run {run}"));
        let held = format!(
            "{} on {} for `{}`{run} since {}",
            lock.user, lock.host, lock.command, lock.since
        );
        text.push_str(&format!(
            "{} by {}\n",
            look.paint(Tone::Warn, "locked"),
            clean(&held)
        ));
    }
    if let Some(record) = &status.run {
        text.push_str(&run(record, look));
    }
    if let Some(run) = &status.last_known_good {
        text.push_str(&format!("last known good: run {run}\n"));
    }
    if status.standing.is_empty() {
        text.push_str("nothing stands\n");
    } else {
        text.push_str("standing\n");
        text.push_str(&table(&standing_rows(&status.standing), "  ", look));
    }
    if !status.next.is_empty() {
        text.push_str("next\n");
        for command in &status.next {
            text.push_str(&format!("  {}\n", clean(command)));
        }
    }
    text
}

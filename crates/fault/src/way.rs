//! How a point may hurt.

use std::fmt;
use std::str::FromStr;

use crate::orders::OrdersError;

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// SIGKILL of this process alone.
    Kill,
    /// SIGKILL of this process and of the groups of all its children.
    KillAll,
    /// SIGKILL of its children, each alone: what they started lives on.
    KillChild,
    /// One SIGINT to this process.
    Int,
    /// One SIGTERM to it.
    Term,
    /// One SIGHUP to it.
    Hup,
    /// Two SIGINTs, a moment apart.
    Int2,
    /// Three.
    Int3,
    /// SIGSTOP of this process: a laptop that falls asleep.
    Stop,
    /// The write is not done, and says so.
    Refuse,
    /// The write is done, and its answer is lost.
    Lose,
    /// The store answers nothing any more, until this process ends.
    Away,
    /// The store answers nothing for a while.
    Hang,
    /// The disk is full from now on.
    Full,
    /// Every directory is read-only from now on.
    ReadOnly,
    /// The clock jumps a day ahead.
    Ahead,
    /// The clock jumps a day back.
    Back,
}

const NAMES: &[(&str, Way)] = &[
    ("kill", Way::Kill),
    ("kill-all", Way::KillAll),
    ("kill-child", Way::KillChild),
    ("int", Way::Int),
    ("term", Way::Term),
    ("hup", Way::Hup),
    ("int2", Way::Int2),
    ("int3", Way::Int3),
    ("stop", Way::Stop),
    ("refuse", Way::Refuse),
    ("lose", Way::Lose),
    ("away", Way::Away),
    ("hang", Way::Hang),
    ("full", Way::Full),
    ("read-only", Way::ReadOnly),
    ("ahead", Way::Ahead),
    ("back", Way::Back),
];

impl Way {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(_, way)| *way)
    }

    /// Whether this way makes sense at a point of that name.
    #[must_use]
    pub fn fits(self, point: &str) -> bool {
        let is_store = point.starts_with("store.");
        let is_answer = point.starts_with("answer.");
        let is_file = point.starts_with("file.");
        let is_before = point.ends_with(".before");
        match self {
            Self::Refuse => is_before && (is_store || is_answer || is_file),
            Self::Lose => !is_before && (is_store || is_answer),
            Self::Away | Self::Hang => is_store,
            Self::Full | Self::ReadOnly => is_before && (is_store || is_file),
            Self::KillChild => point.starts_with("child.") || is_answer || point == "spawn.after",
            _ => true,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, way)| way == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

impl FromStr for Way {
    type Err = OrdersError;

    fn from_str(text: &str) -> Result<Self, OrdersError> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|(_, way)| *way)
            .ok_or_else(|| OrdersError::NoWay(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_one_name() {
        for way in Way::all() {
            assert_eq!(way.to_string().parse::<Way>().unwrap(), way);
        }
        let mut names: Vec<_> = NAMES.iter().map(|(name, _)| name).collect();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }

    #[test]
    fn an_answer_is_lost_only_after_the_act() {
        assert!(Way::Lose.fits("store.put.after") && !Way::Lose.fits("store.put.before"));
        assert!(Way::Refuse.fits("answer.before") && !Way::Refuse.fits("spawn.before"));
        assert!(Way::Kill.fits("child.event"));
    }
}

//! What is seen of a machine while it is upgraded, judged: its version and its boot id decide, never an exit code.

use crate::version::Version;

/// What a machine was before its upgrade began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// Its version.
    pub version: Version,
    /// What told that start of it from others.
    pub boot_id: String,
}

/// What is seen of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// It does not answer.
    Silent,
    /// It answers.
    Up {
        /// Its version.
        version: Version,
        /// What tells this start of it from others.
        boot_id: String,
    },
}

/// How far the command is that upgrades a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// It goes on; or another call's did, which nobody knows of any more.
    Running,
    /// It ended well.
    Well,
    /// It failed, and that long ago that what it began would show.
    Failed,
    /// It failed just now: what it began may still show.
    JustFailed,
}

/// What is to be thought of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing can be said yet.
    Wait,
    /// It runs the wanted version since a new start.
    Done,
    /// It failed.
    Failed(Trouble),
}

/// Why an upgrade failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It started anew with the version that it had.
    #[error("it came back with {version}: the upgrade was rolled back")]
    RolledBack {
        /// That version.
        version: Version,
    },
    /// It started anew with a third version.
    #[error("it came back with {version}, which nobody asked for")]
    Another {
        /// That version.
        version: Version,
    },
    /// The command ended well, and the machine never started anew.
    #[error("installed, not booted: it never started anew, and still runs {version}")]
    NotBooted {
        /// The version that it still runs.
        version: Version,
    },
    /// The command failed, and the machine is as it was.
    #[error("the upgrade was refused, and it still runs {version}")]
    Refused {
        /// The version that it still runs.
        version: Version,
    },
    /// It does not answer any more.
    #[error("it did not come back in time")]
    Silent,
}

/// Judges a machine. `is_over`: it has had all the time that it may take.
#[must_use]
pub fn judge(
    before: &Before,
    wanted: &Version,
    seen: &Seen,
    child: Child,
    is_over: bool,
) -> Judgement {
    let (version, boot_id) = match seen {
        Seen::Silent if is_over => return Judgement::Failed(Trouble::Silent),
        Seen::Silent => return Judgement::Wait,
        Seen::Up { version, boot_id } => (version.clone(), boot_id),
    };
    if *boot_id != before.boot_id {
        return if version == *wanted {
            Judgement::Done
        } else if version == before.version {
            Judgement::Failed(Trouble::RolledBack { version })
        } else {
            Judgement::Failed(Trouble::Another { version })
        };
    }
    match child {
        Child::Failed => Judgement::Failed(Trouble::Refused { version }),
        _ if is_over => Judgement::Failed(Trouble::NotBooted { version }),
        Child::Running | Child::Well | Child::JustFailed => Judgement::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn up(text: &str, boot: &str) -> Seen {
        Seen::Up {
            version: version(text),
            boot_id: boot.to_owned(),
        }
    }

    #[test]
    fn version_and_boot_id_decide_and_never_the_command() {
        let before = Before {
            version: version("v1.11.1"),
            boot_id: "a".to_owned(),
        };
        let wanted = version("v1.11.2");
        let old = || version("v1.11.1");
        use Child::{Failed as ChildFailed, JustFailed, Running, Well};
        use Judgement::{Done, Failed, Wait};
        for (seen, child, is_over, expected) in [
            (up("v1.11.2", "b"), Running, false, Done),
            // The command failed or hangs, and the machine is fine all the same.
            (up("v1.11.2", "b"), ChildFailed, true, Done),
            (
                up("v1.11.1", "b"),
                Well,
                false,
                Failed(Trouble::RolledBack { version: old() }),
            ),
            (
                up("v1.10.0", "b"),
                Well,
                false,
                Failed(Trouble::Another {
                    version: version("v1.10.0"),
                }),
            ),
            (up("v1.11.1", "a"), Running, false, Wait),
            (up("v1.11.1", "a"), Well, false, Wait),
            (up("v1.11.1", "a"), JustFailed, false, Wait),
            (
                up("v1.11.1", "a"),
                Well,
                true,
                Failed(Trouble::NotBooted { version: old() }),
            ),
            (
                up("v1.11.1", "a"),
                Running,
                true,
                Failed(Trouble::NotBooted { version: old() }),
            ),
            (
                up("v1.11.1", "a"),
                ChildFailed,
                false,
                Failed(Trouble::Refused { version: old() }),
            ),
            (Seen::Silent, ChildFailed, false, Wait),
            (Seen::Silent, Well, true, Failed(Trouble::Silent)),
            // The new version without a new start is not believed.
            (up("v1.11.2", "a"), Well, false, Wait),
        ] {
            let judged = judge(&before, &wanted, &seen, child, is_over);
            assert_eq!(judged, expected, "{seen:?} {child:?} {is_over}");
        }
    }
}

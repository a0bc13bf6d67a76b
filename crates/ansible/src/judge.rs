//! What a run came to: by what became of each host, not by the exit code alone.

use std::collections::{BTreeMap, BTreeSet};

use process::Exit;

use crate::event::{Event, HostCounts, Status};

/// What was seen of a run so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Whether the host answered the last time that it was asked.
    answered: BTreeMap<String, bool>,
    failures: Vec<(String, String, String)>,
    /// What was said last of a host that did not answer.
    lost: BTreeMap<String, String>,
    recap: Option<BTreeMap<String, HostCounts>>,
    within: Option<BTreeSet<String>>,
    played: BTreeSet<String>,
}

/// What a run came to, worst first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Ansible did not come to its end: a fault in the playbook, a signal, an error of its own.
    Broken {
        /// How it ended.
        exit: Exit,
    },
    /// No host matched.
    NothingMatched,
    /// Tasks failed on hosts; some may be unreachable as well.
    Failed {
        /// Each host with task and message of its first failure that was neither ignored nor rescued.
        hosts: BTreeMap<String, (String, String)>,
        /// Hosts that did not answer, with what was said of each last.
        unreachable: BTreeMap<String, String>,
    },
    /// Hosts did not answer, whatever the playbook says about that.
    Unreachable {
        /// Each host with what was said of it last.
        hosts: BTreeMap<String, String>,
    },
    /// Hosts that were expected had no task at all.
    Missed {
        /// The hosts.
        hosts: BTreeSet<String>,
    },
    /// Every expected host was reached, and nothing failed.
    Done {
        /// The hosts on which something was changed, or would be.
        changed: BTreeSet<String>,
    },
}

impl Tally {
    /// Takes an event in.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::Result {
                host,
                task,
                status,
                ignored,
                message,
            } => {
                match status {
                    // Nothing was asked of the host itself.
                    Status::Skipped => {}
                    Status::Unreachable => {
                        self.answered.insert(host.clone(), false);
                        self.lost.insert(host.clone(), message.clone());
                    }
                    Status::Ok | Status::Changed | Status::Failed => {
                        self.answered.insert(host.clone(), true);
                    }
                }
                if *status == Status::Failed && !ignored {
                    self.failures
                        .push((host.clone(), task.clone(), message.clone()));
                }
            }
            Event::Recap { hosts } => self.recap = Some(hosts.clone()),
            Event::Play { within, hosts, .. } => {
                self.within = Some(within.clone());
                self.played.extend(hosts.iter().cloned());
            }
            Event::NoHosts | Event::Task { .. } | Event::Diff { .. } => {}
        }
    }

    /// The hosts that the limit left, as Ansible understood it; `None` before the first play.
    #[must_use]
    pub fn within(&self) -> Option<&BTreeSet<String>> {
        self.within.as_ref()
    }

    /// The hosts that plays named and the limit left.
    #[must_use]
    pub fn played(&self) -> &BTreeSet<String> {
        &self.played
    }

    /// The counts of every host at the end; `None` where the run did not come that far.
    #[must_use]
    pub fn recap(&self) -> Option<&BTreeMap<String, HostCounts>> {
        self.recap.as_ref()
    }

    /// Judges a run that ended with `exit`, and of which these hosts were expected.
    ///
    /// Exit codes (`ansible.errors.ExitCode` of ansible-core 2.19, and measured): 0 well, also where no host matched; 1 an
    /// error of Ansible's; 2 failed hosts, 4 unreachable ones, 6 both, and 8 besides where that broke a play off, which
    /// newer ones make a 2 of. 4 is a playbook that can't be read as well: there is no recap then. 5 a wrong option or
    /// configuration, 99 interrupted, 250 an exception.
    #[must_use]
    pub fn judge(&self, exit: Exit, expected: &BTreeSet<String>) -> Verdict {
        let (Some(recap), Exit::Code(code @ (0 | 2 | 4 | 6 | 8 | 10 | 12 | 14))) =
            (&self.recap, exit)
        else {
            return Verdict::Broken { exit };
        };
        // Hosts for which a play's work was delegated elsewhere are in the recap as well; others than the
        // expected are no reason to be content.
        let seen: BTreeSet<&String> = recap.keys().chain(self.answered.keys()).collect();
        if seen.is_empty() || !expected.iter().any(|host| seen.contains(host)) {
            return Verdict::NothingMatched;
        }
        let unreachable: BTreeMap<String, String> = seen
            .iter()
            .filter(|host| {
                let is_lost = recap
                    .get(**host)
                    .is_some_and(|counts| counts.unreachable > 0);
                is_lost || self.answered.get(**host) == Some(&false)
            })
            .map(|host| {
                let said = self.lost.get(*host).cloned().unwrap_or_default();
                ((*host).clone(), said)
            })
            .collect();
        let failed = recap.iter().filter(|(_, counts)| counts.failed > 0);
        let failed: BTreeMap<String, (String, String)> = failed
            .map(|(host, _)| {
                // The last one is what ended the host's part; those before it may have been rescued.
                let told = self.failures.iter().rfind(|(of, _, _)| of == host);
                let (task, message) = told.map_or_else(Default::default, |(_, task, message)| {
                    (task.clone(), message.clone())
                });
                (host.clone(), (task, message))
            })
            .collect();
        let missed: BTreeSet<String> = expected
            .iter()
            .filter(|host| !seen.contains(host))
            .cloned()
            .collect();
        if !failed.is_empty() || matches!(code, 2 | 8 | 10) {
            Verdict::Failed {
                hosts: failed,
                unreachable,
            }
        } else if !unreachable.is_empty() || exit != Exit::Code(0) {
            Verdict::Unreachable { hosts: unreachable }
        } else if !missed.is_empty() {
            Verdict::Missed { hosts: missed }
        } else {
            let changed = recap.iter().filter(|(_, counts)| counts.changed > 0);
            Verdict::Done {
                changed: changed.map(|(host, _)| host.clone()).collect(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn result(host: &str, status: Status, ignored: bool) -> Event {
        Event::Result {
            host: host.to_owned(),
            task: "t".to_owned(),
            status,
            ignored,
            message: "m".to_owned(),
        }
    }

    fn judged(results: &[Event], recap: &[(&str, HostCounts)], exit: i32) -> Verdict {
        let mut tally = Tally::default();
        for event in results {
            tally.add(event);
        }
        let counts = recap
            .iter()
            .map(|(host, counts)| ((*host).to_owned(), *counts));
        tally.add(&Event::Recap {
            hosts: counts.collect(),
        });
        tally.judge(Exit::Code(exit), &hosts(&["web1", "web2"]))
    }

    const OK: HostCounts = HostCounts {
        ok: 1,
        changed: 0,
        failed: 0,
        unreachable: 0,
        skipped: 0,
        rescued: 0,
        ignored: 0,
    };

    /// Case A1.
    #[test]
    fn nothing_matched_is_no_success() {
        assert_eq!(judged(&[], &[], 0), Verdict::NothingMatched);
        assert_eq!(
            judged(&[], &[("localhost", OK)], 0),
            Verdict::NothingMatched
        );
    }

    /// Case A3.
    #[test]
    fn every_expected_host_must_have_answered_in_the_end() {
        let lost = [
            result("web1", Status::Ok, false),
            result("web2", Status::Unreachable, true),
        ];
        let recap = [("web1", OK), ("web2", HostCounts { ignored: 1, ..OK })];
        assert_eq!(
            judged(&lost, &recap, 0),
            Verdict::Unreachable {
                hosts: [("web2".to_owned(), "m".to_owned())].into()
            }
        );
        let back = [lost.as_slice(), &[result("web2", Status::Ok, false)]].concat();
        assert_eq!(
            judged(&back, &recap, 0),
            Verdict::Done {
                changed: hosts(&[])
            }
        );
        assert_eq!(
            judged(&[], &[("web1", OK)], 0),
            Verdict::Missed {
                hosts: hosts(&["web2"])
            }
        );
    }

    #[test]
    fn failed_and_unreachable_are_told_apart() {
        let failed = [("web1", HostCounts { failed: 1, ..OK }), ("web2", OK)];
        let Verdict::Failed {
            hosts: of,
            unreachable,
        } = judged(&[result("web1", Status::Failed, false)], &failed, 2)
        else {
            panic!("failed")
        };
        assert_eq!(of["web1"], ("t".to_owned(), "m".to_owned()));
        assert!(unreachable.is_empty());
        let lost = [
            ("web1", OK),
            (
                "web2",
                HostCounts {
                    unreachable: 1,
                    ..OK
                },
            ),
        ];
        assert_eq!(
            judged(&[], &lost, 4),
            Verdict::Unreachable {
                hosts: [("web2".to_owned(), String::new())].into()
            }
        );
        assert!(matches!(
            judged(&[], &[("web1", OK), ("web2", OK)], 8),
            Verdict::Failed { .. }
        ));
        for exit in [1, 3, 5, 99, 250] {
            assert!(matches!(
                judged(&[], &[("web1", OK), ("web2", OK)], exit),
                Verdict::Broken { .. }
            ));
        }
        let no_recap = Tally::default().judge(Exit::Code(0), &hosts(&["web1"]));
        assert!(matches!(no_recap, Verdict::Broken { .. }));
    }
}

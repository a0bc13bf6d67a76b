//! Order, bounds and what was not looked at.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex};

use super::*;
use crate::facts::Looked;
use crate::report::PhaseReport;
use crate::verdict::{Reason, ReportVerdict, Verdict};

const LONG: Duration = Duration::from_secs(20);

fn phases() -> Vec<PhaseUnderTest> {
    [
        ("0", &["a", "b"][..], &["up"][..]),
        ("1a", &["c"], &[]),
        ("1b", &[], &["x", "y"]),
    ]
    .into_iter()
    .map(|(id, steps, checks)| PhaseUnderTest {
        id: PhaseId::new(id).unwrap(),
        steps: steps
            .iter()
            .map(|step| format!("{id}.{step}").parse().unwrap())
            .collect(),
        checks: checks.iter().map(|name| (*name).to_owned()).collect(),
    })
    .collect()
}

fn run_all(probe: &dyn Probe, jobs: usize) -> Report {
    let target = TargetName::new("drill").unwrap();
    let ask = Ask {
        target: &target,
        phases: &phases(),
        unknown_states: &[],
        today: jiff::civil::date(2026, 6, 15),
    };
    run(&ask, probe, jobs)
}

fn ids(report: &Report) -> Vec<&str> {
    report
        .phases
        .iter()
        .map(|phase| phase.id.as_str())
        .collect()
}

fn verified(step: &StepId) -> StepObservation {
    StepObservation {
        looked: Looked::Verified,
        ..StepObservation::not_run(step.clone(), "")
    }
}

/// Answers well; counts who is inside at once, and who was asked.
#[derive(Default)]
struct Counting {
    inside: Mutex<(usize, usize)>,
    asked: Mutex<Vec<String>>,
    met: Condvar,
    /// Everyone waits until this many are inside.
    meet: usize,
}

impl Counting {
    fn look(&self, name: String) {
        self.asked.lock().unwrap().push(name);
        let mut inside = self.inside.lock().unwrap();
        inside.0 += 1;
        inside.1 = inside.1.max(inside.0);
        self.met.notify_all();
        let waiting = |inside: &mut (usize, usize)| inside.1 < self.meet;
        let (mut inside, _) = self.met.wait_timeout_while(inside, LONG, waiting).unwrap();
        inside.0 -= 1;
    }
}

impl Probe for Counting {
    fn step(&self, step: &StepId) -> StepObservation {
        self.look(step.to_string());
        verified(step)
    }

    fn check(&self, phase: &PhaseId, name: &str) -> CheckResult {
        self.look(format!("{phase} {name}"));
        CheckResult::Passed
    }
}

#[test]
fn everything_is_looked_at_once_by_jobs_threads_at_most() {
    for (jobs, at_once) in [(0, 1), (1, 1), (3, 3), (64, 6)] {
        let probe = Counting {
            meet: at_once,
            ..Counting::default()
        };
        let report = run_all(&probe, jobs);
        assert_eq!(report.verdict, ReportVerdict::Clean, "{report:?}");
        assert_eq!(ids(&report), ["0", "1a", "1b"]);
        assert_eq!(probe.inside.lock().unwrap().1, at_once, "jobs {jobs}");
        let asked = probe.asked.lock().unwrap();
        let once: BTreeSet<_> = asked.iter().collect();
        assert_eq!((asked.len(), once.len()), (6, 6));
        assert!(report.seconds >= report.phases[0].seconds);
    }
}

#[test]
fn steps_are_looked_at_before_checks() {
    let probe = Counting::default();
    run_all(&probe, 1);
    assert_eq!(
        *probe.asked.lock().unwrap(),
        ["0.a", "0.b", "1a.c", "0 up", "1b x", "1b y"]
    );
}

/// The first step answers last.
struct Backwards {
    others: Mutex<usize>,
    done: Condvar,
}

impl Probe for Backwards {
    fn step(&self, step: &StepId) -> StepObservation {
        let mut others = self.others.lock().unwrap();
        if step.to_string() == "0.a" {
            let _done = self
                .done
                .wait_timeout_while(others, LONG, |n| *n < 5)
                .unwrap();
            return StepObservation {
                looked: Looked::VerifyFailed {
                    message: "a".into(),
                },
                ..verified(step)
            };
        }
        *others += 1;
        self.done.notify_all();
        StepObservation {
            looked: Looked::VerifyFailed {
                message: step.step.to_string(),
            },
            ..verified(step)
        }
    }

    fn check(&self, _: &PhaseId, name: &str) -> CheckResult {
        *self.others.lock().unwrap() += 1;
        self.done.notify_all();
        CheckResult::Failed {
            message: name.to_owned(),
        }
    }
}

#[test]
fn the_report_is_in_the_platforms_order_whatever_finished_first() {
    let report = run_all(
        &Backwards {
            others: Mutex::new(0),
            done: Condvar::new(),
        },
        2,
    );
    assert_eq!(ids(&report), ["0", "1a", "1b"]);
    let found = |phase: &PhaseReport| -> Vec<String> {
        phase
            .findings
            .iter()
            .map(|finding| finding.is.as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(found(&report.phases[0]), ["a", "b", "up"]);
    assert_eq!(found(&report.phases[1]), ["c"]);
    assert_eq!(found(&report.phases[2]), ["x", "y"]);
}

/// Panics on one step and one check; answers for another step than the one it was asked for.
struct Faulty;

impl Probe for Faulty {
    fn step(&self, step: &StepId) -> StepObservation {
        assert_ne!(step.to_string(), "0.b", "this panic is part of the test");
        verified(&"9.other".parse().unwrap())
    }

    fn check(&self, _: &PhaseId, name: &str) -> CheckResult {
        assert_ne!(name, "y", "this panic is part of the test");
        CheckResult::Passed
    }
}

#[test]
fn a_probe_that_panics_was_not_run_and_harms_no_other() {
    for jobs in [1, 4] {
        let report = run_all(&Faulty, jobs);
        let verdicts: Vec<_> = report.phases.iter().map(|phase| phase.verdict).collect();
        assert_eq!(verdicts, [Verdict::NotRun, Verdict::Clean, Verdict::NotRun]);
        assert_eq!(report.verdict, ReportVerdict::Stopped);
        let finding = &report.phases[0].findings[0];
        assert_eq!(
            (finding.reason, finding.step.as_deref()),
            (Reason::NotRun, Some("b"))
        );
        assert_eq!(report.phases[2].findings[0].address.as_deref(), Some("y"));
    }
}

/// Stops after the first look.
#[derive(Default)]
struct Stopping(AtomicBool);

impl Probe for Stopping {
    fn step(&self, step: &StepId) -> StepObservation {
        self.0.store(true, Ordering::SeqCst);
        verified(step)
    }

    fn check(&self, _: &PhaseId, _: &str) -> CheckResult {
        panic!("no check is asked any more");
    }

    fn is_stopping(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn what_was_skipped_is_not_green() {
    let report = run_all(&Stopping::default(), 1);
    assert_eq!(report.verdict, ReportVerdict::Stopped);
    assert!(
        report
            .phases
            .iter()
            .all(|phase| phase.verdict == Verdict::NotRun)
    );
    assert_eq!(report.n_findings(), 5, "all but the one that was looked at");
}

#[test]
fn no_phase_at_all_is_not_green() {
    let target = TargetName::new("drill").unwrap();
    let today = jiff::civil::date(2026, 6, 15);
    let ask = Ask {
        target: &target,
        phases: &[],
        unknown_states: &[],
        today,
    };
    assert_eq!(run(&ask, &Faulty, 4).verdict, ReportVerdict::Stopped);
}

#[test]
fn a_phases_time_is_the_time_in_which_it_was_looked_at() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut spans = Spans::default();
    for (from, until) in [(500, 600), (0, 100), (50, 150), (60, 70)] {
        spans.add(at(from), at(until), start);
    }
    assert!((spans.covered() - 0.25).abs() < 1e-9);
    assert!(Spans::default().covered().abs() < 1e-9);
}

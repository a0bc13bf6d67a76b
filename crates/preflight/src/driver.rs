//! Looks at everything in parallel. What was not looked at, for whatever cause, is never green.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use jiff::civil::Date;
use phase_engine::{PhaseId, StepId, TargetName};

use crate::facts::{CheckObservation, CheckResult, PhaseObservation, StepObservation};
use crate::report::Report;
use crate::target::judge_target;

/// Looks at the world. Only reads; called from several threads at once.
pub trait Probe: Sync {
    /// Looks at one standing step: its state, and a plan or its own verify.
    fn step(&self, step: &StepId) -> StepObservation;

    /// Asks one check of a phase.
    fn check(&self, phase: &PhaseId, name: &str) -> CheckResult;

    /// Whether the call is stopping: what was not looked at by then stays so.
    fn is_stopping(&self) -> bool {
        false
    }
}

/// One phase in which something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseUnderTest {
    /// The phase.
    pub id: PhaseId,
    /// Its standing steps, in order.
    pub steps: Vec<StepId>,
    /// The names of its checks, in order.
    pub checks: Vec<String>,
}

/// What to look at.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The target.
    pub target: &'a TargetName,
    /// The phases in which something stands, in the platform's order.
    pub phases: &'a [PhaseUnderTest],
    /// States in the store that the record does not know.
    pub unknown_states: &'a [StepId],
    /// The day on which exceptions are judged.
    pub today: Date,
}

/// Looks at every step and check with `jobs` threads at most (one at least), and judges. The report is
/// in the order of `ask`, whatever finished first.
pub fn run(ask: &Ask<'_>, probe: &dyn Probe, jobs: usize) -> Report {
    let started = Instant::now();
    let items = items(ask.phases);
    let mut seen: Vec<Option<Seen>> = items.iter().map(|_| None).collect();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(items.len()) {
            let sender = sender.clone();
            let worker = || work(&items, &next, probe, sender);
            // This thread works too, so that a thread that can't be had costs time and nothing else.
            let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
        }
        work(&items, &next, probe, sender);
    });
    for (index, one) in receiver {
        seen[index] = Some(one);
    }
    let phases = gathered(ask.phases, seen, started);
    let seconds = started.elapsed().as_secs_f64();
    judge_target(ask.target, &phases, ask.unknown_states, ask.today, seconds)
}

#[derive(Clone, Copy)]
enum Item<'a> {
    Step(&'a StepId),
    Check(&'a PhaseId, &'a str),
}

/// What one look brought, and when.
struct Seen {
    found: Found,
    from: Instant,
    until: Instant,
}

enum Found {
    Step(Box<StepObservation>),
    Check(CheckResult),
}

/// Every step, then every check: plans take longest, so they start first.
fn items(phases: &[PhaseUnderTest]) -> Vec<Item<'_>> {
    let steps = phases
        .iter()
        .flat_map(|phase| phase.steps.iter().map(Item::Step));
    let checks = phases
        .iter()
        .flat_map(|phase| phase.checks.iter().map(|name| Item::Check(&phase.id, name)));
    steps.chain(checks).collect()
}

fn work(items: &[Item<'_>], next: &AtomicUsize, probe: &dyn Probe, sender: Sender<(usize, Seen)>) {
    while !probe.is_stopping() {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(index) else { return };
        let from = Instant::now();
        let found = look(*item, probe);
        let until = Instant::now();
        if sender.send((index, Seen { found, from, until })).is_err() {
            return;
        }
    }
}

/// Looks at one thing; a probe that panics has not looked.
fn look(item: Item<'_>, probe: &dyn Probe) -> Found {
    const PANICKED: &str = "looking at it ended in a panic; this is a fault of the program";
    match item {
        Item::Step(step) => {
            let seen = catch_unwind(AssertUnwindSafe(|| probe.step(step)))
                .unwrap_or_else(|_| StepObservation::not_run(step.clone(), PANICKED));
            // What was seen is filed under what was asked.
            Found::Step(Box::new(StepObservation {
                step: step.clone(),
                ..seen
            }))
        }
        Item::Check(phase, name) => Found::Check(
            catch_unwind(AssertUnwindSafe(|| probe.check(phase, name))).unwrap_or_else(|_| {
                CheckResult::NotRun {
                    why: PANICKED.to_owned(),
                }
            }),
        ),
    }
}

/// Puts what was seen back in order; what was not looked at says so.
fn gathered(
    phases: &[PhaseUnderTest],
    seen: Vec<Option<Seen>>,
    started: Instant,
) -> Vec<PhaseObservation> {
    const SKIPPED: &str = "it was not looked at: the call is stopping";
    let n_steps = phases.iter().map(|phase| phase.steps.len()).sum::<usize>();
    let mut seen = seen;
    let checks = seen.split_off(n_steps);
    let (mut steps, mut checks) = (seen.into_iter(), checks.into_iter());
    phases
        .iter()
        .map(|phase| {
            let mut spans = Spans::default();
            let steps = phase.steps.iter().map(|step| match steps.next().flatten() {
                Some(Seen {
                    found: Found::Step(one),
                    from,
                    until,
                }) => {
                    spans.add(from, until, started);
                    *one
                }
                _ => StepObservation::not_run(step.clone(), SKIPPED),
            });
            let steps = steps.collect();
            let checks = phase.checks.iter().map(|name| {
                let result = match checks.next().flatten() {
                    Some(Seen {
                        found: Found::Check(result),
                        from,
                        until,
                    }) => {
                        spans.add(from, until, started);
                        result
                    }
                    _ => CheckResult::NotRun {
                        why: SKIPPED.to_owned(),
                    },
                };
                CheckObservation {
                    name: name.clone(),
                    result,
                }
            });
            let checks = checks.collect();
            PhaseObservation {
                id: phase.id.clone(),
                steps,
                checks,
                seconds: spans.covered(),
            }
        })
        .collect()
}

/// When a phase was being looked at; looks overlap, and time between them is not the phase's.
#[derive(Default)]
struct Spans(Vec<(Duration, Duration)>);

impl Spans {
    fn add(&mut self, from: Instant, until: Instant, started: Instant) {
        self.0.push((from - started, until - started));
    }

    /// How long at least one look went on, in seconds.
    fn covered(mut self) -> f64 {
        self.0.sort();
        let mut covered = Duration::ZERO;
        let mut end = Duration::ZERO;
        for (from, until) in self.0 {
            covered += until.saturating_sub(from.max(end));
            end = end.max(until);
        }
        covered.as_secs_f64()
    }
}

#[cfg(test)]
mod tests;

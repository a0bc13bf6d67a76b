//! The places of steps among those that stand, and the folding of entries.

use super::fakes::*;
use crate::*;

fn names(steps: &[StepId]) -> String {
    steps
        .iter()
        .map(|step| step.phase.to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

fn placed(standing: &[&str], step: &str, today: &[&str]) -> String {
    let mut standing: Vec<StepId> = standing.iter().map(|p| id(&format!("{p}.s"))).collect();
    let mut phases: Vec<Phase> = today.iter().map(|p| phase(p, &["s"])).collect();
    phases
        .iter_mut()
        .for_each(|phase| phase.provides_state = false);
    let step = id(&format!("{step}.s"));
    let at = place(&mut standing, &step, &Sequence::new(phases).unwrap());
    assert_eq!(standing[at], step);
    names(&standing)
}

#[test]
fn a_step_takes_its_place_in_order_of_application() {
    // From nothing.
    assert_eq!(placed(&[], "0", &["0", "1"]), "0");
    assert_eq!(placed(&["0"], "1", &["0", "1"]), "0 1");
    // Again, by a new run: what was built on it still stands on it.
    assert_eq!(placed(&["0", "1", "2"], "0", &["0", "1", "2"]), "0 1 2");
    // A new phase goes before what will be built on it.
    assert_eq!(placed(&["0", "2"], "1", &["0", "1", "2"]), "0 1 2");
    // Removed phases keep their place.
    assert_eq!(placed(&["0", "old", "2"], "2", &["0", "2"]), "0 old 2");
    assert_eq!(placed(&["0", "old", "2"], "0", &["0", "2"]), "0 old 2");
    assert_eq!(
        placed(&["0", "old", "2"], "1", &["0", "1", "2"]),
        "0 old 1 2"
    );
    // Phases whose order was changed take the new one as they are applied.
    assert_eq!(placed(&["0", "1", "2"], "2", &["0", "2", "1"]), "0 2 1");
    assert_eq!(placed(&["0", "2", "1"], "1", &["0", "2", "1"]), "0 2 1");
    assert_eq!(placed(&["2", "0"], "0", &["0", "2"]), "0 2");
    // A step that today's sequence does not know goes to the end.
    assert_eq!(placed(&["0"], "x", &["0"]), "0 x");
}

#[test]
fn an_entry_that_cannot_follow_is_refused() {
    let mut history = History::default();
    let entry = Entry::<String>::step(&id("1.a"), StepEvent::Succeeded, None, None);
    let illegal = history.absorb(&entry, &Sequence::default()).unwrap_err();
    assert_eq!(illegal.status, StepStatus::Pending);
    assert_eq!(history, History::default());
}

#[test]
fn a_forgotten_or_torn_down_step_stands_no_more() {
    for end in [StepEvent::TornDown, StepEvent::Forgotten] {
        let mut history = History::of_new_run(vec![id("1.a"), id("1.b")]);
        for event in [StepEvent::TeardownStarted, end] {
            let entry = Entry::<String>::step(&id("1.a"), event, None, None);
            history.absorb(&entry, &Sequence::default()).unwrap();
        }
        assert_eq!(history.standing, [id("1.b")]);
    }
}

#[test]
fn what_is_not_reached_stands_from_earlier_runs() {
    let sequence = small(&["0", "1", "2", "3"]);
    let mut history = History::of_new_run(vec![id("0.s"), id("1.s"), id("2.s")]);
    let started = Entry::<String>::step(&id("0.s"), StepEvent::Started, None, None);
    history.absorb(&started, &sequence).unwrap();
    assert_eq!(
        not_reached(&history, &sequence),
        [phase_id("1"), phase_id("2")]
    );
    assert_eq!(removed(&history.standing, &small(&["0", "2"])), [id("1.s")]);
}

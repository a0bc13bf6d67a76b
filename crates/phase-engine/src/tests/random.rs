//! Random platforms, failures and cuts.

use proptest::prelude::*;

use super::fakes::*;
use crate::*;

#[derive(Debug, Clone)]
struct Shape {
    /// Steps per phase, and whether it is parallel.
    phases: Vec<(usize, bool)>,
    faults: Vec<(usize, usize, Fault)>,
    cut: Option<usize>,
    kill: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let fault = prop_oneof![
        Just(Fault::Fails),
        Just(Fault::FailsLate),
        Just(Fault::Interrupted),
        Just(Fault::Declined),
    ];
    (
        prop::collection::vec((1..4_usize, any::<bool>()), 1..5),
        prop::collection::vec((0..12_usize, 0..5_usize, fault), 0..4),
        prop::option::of(1..40_usize),
        any::<bool>(),
    )
        .prop_map(|(phases, faults, cut, kill)| Shape {
            phases,
            faults,
            cut,
            kill,
        })
}

fn platform(shape: &Shape) -> Target {
    let phases = shape
        .phases
        .iter()
        .enumerate()
        .map(|(index, (n_steps, parallel))| {
            let names: Vec<String> = (0..*n_steps).map(|step| format!("s{step}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            Phase {
                parallel: *parallel,
                ..phase(&index.to_string(), &names)
            }
        });
    Target::new(Sequence::new(phases.collect()).unwrap())
}

fn break_it(target: &Target, shape: &Shape) {
    let steps: Vec<StepId> = target
        .sequence
        .steps()
        .map(|step| step.id.clone())
        .collect();
    for (step, verb, fault) in &shape.faults {
        let step = &steps[step % steps.len()];
        let verb = ["define", "prepare", "apply", "verify", "teardown"][*verb];
        target.world.fault_once(&format!("{step} {verb}"), *fault);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever went wrong, mended and resumed it is finished, and torn down it is empty.
    #[test]
    fn whatever_goes_wrong_resume_and_down_end_well(shape in shape()) {
        let mut target = platform(&shape);
        break_it(&target, &shape);
        target.cut_at = shape.cut;
        target.kill = shape.kill;
        let ended = target.up();
        target.world.mend();
        target.cut_at = None;
        target.kill = false;
        let begun = target.history.status.is_some();
        if ended.exit.is_done() {
            prop_assert_eq!(target.history.status, Some(RunStatus::Finished));
        } else if begun {
            let well: Vec<String> = target.history.steps.iter()
                .filter(|(_, history)| history.status.ended_well())
                .map(|(step, _)| format!("{step} apply"))
                .collect();
            target.world.take(&[]);
            let ended = target.resume();
            prop_assert_eq!(ended.status, Some(RunStatus::Finished));
            let again = target.world.take(&["apply"]);
            prop_assert!(again.iter().all(|call| !well.contains(call)));
        } else {
            prop_assert!(target.world.objects().is_empty());
            target.up();
        }
        let order: Vec<StepId> = target.sequence.steps().map(|step| step.id.clone()).collect();
        let mut standing = target.history.standing.clone();
        standing.sort_by_key(|step| order.iter().position(|other| other == step));
        prop_assert_eq!(standing.len(), order.len());

        // A teardown that goes wrong once, and once more from wherever it was cut.
        break_it(&target, &shape);
        target.cut_at = shape.cut;
        target.kill = shape.kill;
        target.down();
        target.world.mend();
        target.cut_at = None;
        let ended = target.down();
        prop_assert_eq!(ended.status, Some(RunStatus::TornDown));
        target.assert_gone();
    }
}

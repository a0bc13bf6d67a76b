//! Random failures over several runs: the record and the engine's history never part.

use phase_engine::*;
use proptest::prelude::*;

use super::world::*;
use crate::*;

#[derive(Debug, Clone, Copy)]
enum Call {
    Up,
    Resume,
    Down,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// `Target` compares after every write; here is only that each way of going on is sound.
    #[test]
    fn the_record_says_what_the_engine_says(
        calls in prop::collection::vec(
            (
                prop_oneof![Just(Call::Up), Just(Call::Resume), Just(Call::Down)],
                prop::option::of((0..4_usize, 0..5_usize)),
                prop::option::of(1..30_usize),
            ),
            1..6,
        ),
    ) {
        let mut target = Target::new(&[("0", &["a"]), ("1", &["b", "c"]), ("2", &["d"])]);
        for (call, fault, cut) in calls {
            target.world.faults.lock().unwrap().clear();
            if let Some((step, verb)) = fault {
                let step = ["0.a", "1.b", "1.c", "2.d"][step];
                let verb = ["prepare", "apply", "verify", "teardown", "residue"][verb];
                let what = if verb == "residue" { &step[..1] } else { step };
                target.world.fail(&format!("{what} {verb}"));
            }
            if let Some(cut) = cut {
                target.store.fail_from_write(cut);
            }
            let history = target.open(CallCommand::Up).map(|ledger| ledger.history());
            let state = RunState::of(&history.unwrap_or_default(), false);
            let command = match call {
                Call::Up => Command::Up,
                Call::Resume => Command::Resume,
                Call::Down => Command::Down,
            };
            match admission(command, state) {
                Ok(Mode::New) => { target.up(); }
                Ok(Mode::Resume) => { target.resume(); }
                Ok(Mode::TearDown) => { target.down(); }
                Ok(Mode::NothingLeft) | Err(_) => {}
            }
            target.store.heal();
        }
        target.world.faults.lock().unwrap().clear();
        target.down();
        let record = target.record();
        prop_assert_eq!(record.status, RunStatus::TornDown);
        prop_assert_eq!(record.standing, []);
        prop_assert!(target.world.objects.lock().unwrap().is_empty());
        prop_assert!(target.records().list().unwrap().iter().all(|listed| listed.record.is_ok()));
    }
}

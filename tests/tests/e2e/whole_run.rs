//! A whole `up`, `preflight` and `down`.

use crate::drill::{Drill, marker_module};

#[test]
fn what_up_makes_preflight_finds_and_down_takes_away() {
    let world = test_support::World::new();
    let first = world.root().join("first");
    let second = world.root().join("second");
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"ground\"\ntofu = \"zero\"\n\
         [[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"top\"\ntofu = \"one\"\n",
        &[
            ("zero", &marker_module(&first)),
            ("one", &marker_module(&second)),
        ],
    );
    drill.up();
    assert!(first.exists() && second.exists());
    assert_eq!(drill.states(), ["0/ground", "1/top"]);
    let report = drill.json(0, &["preflight", "--target", "drill"]);
    assert_eq!(report["verdict"], "clean");
    drill.run(0, &["down", "--target", "drill"]);
    assert!(!first.exists() && !second.exists());
    assert!(drill.states().is_empty());
    assert_eq!(drill.status()["state"], "empty");
}

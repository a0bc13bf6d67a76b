//! What a call costs: the fewest processes that keep the promises.

use crate::stage::Stage;

/// Case N8: a second `up` with nothing to do makes exactly one plan of each tofu step, and nothing else.
#[test]
fn a_second_up_makes_one_plan_of_each_step() {
    let stage = Stage::empty();
    let tools = stage.counted_tofu();
    let phases = [stage.phase("0", "s"), stage.phase("1", "a b")].concat();
    stage.define(&format!("{tools}{phases}"));
    stage.up();
    // `version` once for a new program; each root module is initialized, planned and applied in one process, and
    // proven by one plan. `validate` only where no plan comes before the first apply.
    let calls = stage.calls();
    let n = |verb: &str| calls.iter().filter(|call| *call == verb).count();
    assert_eq!((n("init"), n("apply"), n("plan")), (3, 3, 3), "{calls:?}");
    assert!(
        n("validate") <= 3 && n("version") + n("-version") <= 1,
        "{calls:?}"
    );
    assert_eq!(n("output") + n("show") + n("state"), 0, "{calls:?}");
    stage.forget_book();
    stage.up();
    assert_eq!(stage.calls(), ["plan", "plan", "plan"]);
    assert!(stage.book().is_empty());
    // So does a preflight.
    stage.run(0, &["preflight", "--target", "drill"]);
    assert_eq!(stage.calls(), ["plan", "plan", "plan"]);
    // A resume of a paused run proves what is verified, once.
    stage.up_to(0, &["--through", "0"]);
    stage.calls();
    stage.up_to(0, &["--resume"]);
    let calls = stage.calls();
    assert!(calls.iter().all(|call| call == "plan"), "{calls:?}");
    // A teardown is one process a step.
    stage.down_to(0, &[]);
    assert_eq!(stage.calls(), ["apply", "apply", "apply"]);
}

/// Case N8: nor is an encrypted state read by a process of its own to see that a teardown emptied it.
#[test]
fn a_teardown_of_encrypted_states_is_one_process_a_step() {
    let stage = Stage::empty();
    let tools = stage.counted_tofu();
    let phases = [stage.phase("0", "s"), stage.phase("1", "s")].concat();
    stage.define(&format!("{tools}{phases}"));
    // Without a condition, whose result a state keeps.
    for module in ["0-s", "1-s"] {
        let text = "resource \"terraform_data\" \"it\" { input = 1 }\n";
        stage.write(&format!("{module}/main.tf"), text);
    }
    stage.write(
        "targets/drill.toml",
        "[encryption]\npassphrase = { command = [\"echo\", \"a passphrase of sixteen\"] }\n",
    );
    stage.up();
    stage.calls();
    stage.down_to(0, &[]);
    assert_eq!(stage.calls(), ["apply", "apply"]);
}

/// Case N8: only what changed costs more.
#[test]
fn a_change_of_one_step_costs_one_init_and_one_apply() {
    let stage = Stage::empty();
    let tools = stage.counted_tofu();
    let phases = [
        stage.phase("0", "s"),
        stage.phase("1", "s"),
        stage.phase("2", "s"),
    ]
    .concat();
    stage.define(&format!("{tools}{phases}"));
    stage.up();
    stage.calls();
    let path = "1-s/main.tf";
    let text = std::fs::read_to_string(stage.dir().join(path)).unwrap();
    stage.write(
        path,
        &text.replace("input = \"1-s\"", "input = \"changed\""),
    );
    stage.up();
    let calls = stage.calls();
    let n = |verb: &str| calls.iter().filter(|call| *call == verb).count();
    assert_eq!((n("init"), n("apply"), n("show")), (1, 1, 0), "{calls:?}");
    // As applied for preflight, then the change and its proof; what comes after it is planned anew.
    assert_eq!(n("plan"), 3 + 2 + 1, "{calls:?}");
}

/// Step 3 of `up`: a mistake in the last phase is found before the first is applied, and the store is untouched.
#[test]
fn a_mistake_in_the_last_phase_is_found_before_the_first_is_applied() {
    let stage = Stage::of(&["0: s", "4: s"]);
    stage.write(
        "4-s/more.tf",
        "output \"wrong\" { value = terraform_data.nothing.id }\n",
    );
    let said = stage.up_to(2, &[]);
    assert!(
        said.contains("4.s") && said.contains("terraform_data"),
        "{said}"
    );
    assert!(stage.book().is_empty());
    assert!(!stage.store().join("target.json").exists());
    assert!(!stage.store().join("keys.json").exists());
    assert!(!stage.store().join("run").exists());
    assert_eq!(stage.status()["state"], "empty");
    // No id is known on this machine: what comes next is a first build.
    stage.write("4-s/more.tf", "");
    std::fs::remove_dir_all(stage.store()).unwrap_or_default();
    stage.up();
    assert_eq!(stage.book(), ["create 0-s", "create 4-s"]);
}

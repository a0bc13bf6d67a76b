//! `down`: in exact reverse, again after any failure, with whatever definitions there are.

use crate::stage::{Stage, snapshot};

/// Case T4: the reverse of the order of application, whatever the names.
#[test]
fn everything_goes_in_exact_reverse() {
    let stage = Stage::of(&["0: s", "1a: b a", "1B: z", "c: m"]);
    stage.up();
    assert_eq!(
        stage.book(),
        [
            "create 0-s",
            "create 1a-b",
            "create 1a-a",
            "create 1B-z",
            "create c-m"
        ]
    );
    let said = stage.down_to(0, &[]);
    assert_eq!(
        stage.book(),
        [
            "destroy c-m",
            "destroy 1B-z",
            "destroy 1a-a",
            "destroy 1a-b",
            "destroy 0-s"
        ]
    );
    assert!(said.contains("phase 1a: title of 1a (teardown)"), "{said}");
    assert!(said.contains("phase 1a is gone"), "{said}");
    assert!(stage.states().is_empty());
    let said = stage.down_to(0, &[]);
    assert!(said.contains("nothing is left"), "{said}");
    assert!(stage.book().is_empty());
}

/// Cases T1 and T3: what could not go stays with everything below it; again goes on from there.
#[test]
fn a_destroy_that_fails_leaves_phase_0_alone_and_the_next_down_goes_on() {
    let stage = Stage::of(&["0: s", "1: a", "2: a", "3: a"]);
    stage.up();
    stage.forget_book();
    stage.on("destroy-2-a");
    let said = stage.down_to(1, &[]);
    assert!(said.contains("2.a"), "{said}");
    assert_eq!(stage.book(), ["destroy 3-a"]);
    assert_eq!(stage.states(), ["0/s", "1/a", "2/a"]);
    assert_eq!(stage.standing(), ["0.s", "1.a", "2.a"]);
    assert_eq!(stage.record()["status"], "teardown-failed");
    assert_eq!(stage.status()["state"], "tearing-down");
    // Once a teardown has begun only `down` goes on.
    for more in [&["--resume"][..], &[]] {
        let said = stage.up_to(3, more);
        assert!(said.contains("rebuild down --target drill"), "{said}");
    }
    assert!(stage.book().is_empty());
    stage.off("destroy-2-a");
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 2-a", "destroy 1-a", "destroy 0-s"]);
    assert_eq!(stage.record()["status"], "torn-down");
    assert!(stage.states().is_empty());
}

/// Case T3: a step that takes another one's output is torn down with what it was applied with, though the other's
/// state has no outputs any more; neither does a destroy need what made them.
#[test]
fn inputs_come_from_the_record() {
    let stage = Stage::empty();
    let first = stage.phase("0", "s");
    let second = stage.phase("1", "a");
    stage.module("1-a", "variable \"from\" {}\n");
    stage.define(&format!(
        "{first}{second}vars = {{ from = \"${{step.0.s.name}}\" }}\n"
    ));
    stage.up();
    stage.forget_book();
    stage.on("destroy-0-s");
    stage.down_to(1, &[]);
    stage.down_to(1, &[]);
    stage.off("destroy-0-s");
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 1-a", "destroy 0-s"]);
}

/// An `up` that failed at each phase in turn is torn down whole.
#[test]
fn down_after_an_up_that_failed_at_each_phase() {
    let names = ["0-s", "1a-s", "2-s"];
    for (n, name) in names.iter().enumerate() {
        for act in ["plan", "apply"] {
            let stage = Stage::of(&["0: s", "1a: s", "2: s"]);
            stage.on(&format!("{act}-{name}"));
            let said = stage.up_to(1, &[]);
            let message = format!("the {act} of {name} is switched off");
            assert!(said.contains(&message), "{said}");
            let mut made: Vec<&str> = names[..n].to_vec();
            if act == "apply" {
                made.push(name);
            }
            let booked: Vec<_> = made.iter().map(|name| format!("create {name}")).collect();
            assert_eq!(stage.book(), booked);
            stage.off(&format!("{act}-{name}"));
            stage.down_to(0, &[]);
            let booked: Vec<_> = made
                .iter()
                .rev()
                .map(|name| format!("destroy {name}"))
                .collect();
            assert_eq!(stage.book(), booked, "{act} of {name}");
            assert!(stage.states().is_empty());
            assert_eq!(stage.status()["state"], "empty");
            stage.down_to(0, &[]);
        }
    }
}

/// `up --through 1a` on a finished platform ends there; `down` takes what stands of the phases behind it as well.
#[test]
fn down_after_through_on_a_finished_platform_removes_what_stands_behind_it() {
    let stage = Stage::of(&["0: s", "1a: s", "1b: s", "4: s"]);
    stage.up();
    stage.forget_book();
    stage.up_to(0, &["--through", "1a"]);
    assert_eq!(stage.record()["status"], "paused");
    assert_eq!(stage.standing(), ["0.s", "1a.s", "1b.s", "4.s"]);
    stage.down_to(0, &[]);
    assert_eq!(
        stage.book(),
        ["destroy 4-s", "destroy 1b-s", "destroy 1a-s", "destroy 0-s"]
    );
}

/// Faults of `rebuild.toml` are warnings: what stands is torn down from its bundles.
#[test]
fn down_works_with_a_broken_platform_file() {
    let stage = Stage::of(&["0: s", "1: a"]);
    stage.up();
    stage.forget_book();
    stage.write(
        "rebuild.toml",
        "[platform]\nname = \"lab\"\nnmae = \"lab\"\n[[phase]]\nid = \"0\"\n[[phase.step]]\nname = \"s\"\ntofu = \"gone\"\n",
    );
    std::fs::remove_dir_all(stage.dir().join("1-a")).unwrap();
    assert!(stage.up_to(2, &[]).contains("nmae"));
    let said = stage.down_to(0, &[]);
    assert!(said.contains("warning") && said.contains("nmae"), "{said}");
    assert_eq!(stage.book(), ["destroy 1-a", "destroy 0-s"]);
    // So is one that can't be parsed at all, as long as it says whose it is.
    stage.write("rebuild.toml", "[platform]\nname = \"lab\"\n[[phase]\n");
    let said = stage.down_to(0, &[]);
    assert!(said.contains("nothing is left"), "{said}");
}

/// Case T8: the working directory is rebuilt from the store, on this machine or on another.
#[test]
fn down_needs_nothing_that_is_kept_on_a_machine() {
    let stage = Stage::of(&["0: s", "1: a"]);
    stage.up();
    stage.forget_book();
    std::fs::remove_dir_all(stage.work()).unwrap();
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 1-a", "destroy 0-s"]);

    let stage = Stage::of(&["0: s", "1: a"]);
    let shared = stage.world.root().join("shared");
    stage.write(
        "targets/drill.toml",
        &format!("[store]\nlocal = {{ dir = \"{}\" }}\n", shared.display()),
    );
    stage.up();
    stage.forget_book();
    let other = stage.world.root().join("other-machine");
    let outcome = stage
        .rebuild(&["down", "--target", "drill"])
        .env("XDG_STATE_HOME", &other)
        .run();
    outcome.expect_code(0);
    assert_eq!(stage.book(), ["destroy 1-a", "destroy 0-s"]);
    let left = snapshot(&shared.join("state"));
    let left: Vec<_> = left
        .keys()
        .filter(|path| !path.to_string_lossy().contains('@'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Case N3: a lost state is a failure that names what the record knows.
#[test]
fn a_lost_state_is_no_success() {
    let stage = Stage::of(&["0: s", "1: a", "2: a"]);
    stage.up();
    stage.forget_book();
    std::fs::remove_file(stage.store().join("state/1/a")).unwrap();
    let said = stage.down_to(1, &[]);
    assert!(
        said.contains("the state of step `1.a` is not in the store"),
        "{said}"
    );
    assert!(
        said.contains("phase `1` had made: 2 terraform_data created"),
        "{said}"
    );
    assert!(said.contains("terraform_data.it"), "{said}");
    assert_eq!(stage.book(), ["destroy 2-a"]);
    assert_eq!(stage.standing(), ["0.s", "1.a"]);
    stage.down_to(1, &[]);
    assert!(stage.book().is_empty());
    // The operator saw to it.
    stage.down_to(0, &["--forget", "1.a", "--reason", "it is gone"]);
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 0-s"]);
}

/// Case N3: an emptied state is no success either, whoever emptied it.
#[test]
fn an_emptied_state_is_no_success() {
    let stage = Stage::of(&["0: s"]);
    stage.up();
    let path = stage.store().join("state/0/s");
    let text = std::fs::read_to_string(&path).unwrap();
    let (header, state) = text.split_once('\n').unwrap();
    let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
    let mut state: serde_json::Value = serde_json::from_str(state).unwrap();
    state["resources"] = serde_json::json!([]);
    state["serial"] = serde_json::json!(state["serial"].as_u64().unwrap() + 1);
    let state = state.to_string();
    header["digest"] = serde_json::json!(store::sha256_hex(state.as_bytes()));
    std::fs::write(&path, format!("{header}\n{state}")).unwrap();
    stage.forget_book();
    let said = stage.down_to(1, &[]);
    assert!(said.contains("the state of step `0.s` is empty"), "{said}");
    assert!(
        said.contains("had made: 2 terraform_data created"),
        "{said}"
    );
    stage.down_to(1, &[]);
    assert!(stage.book().is_empty());
    assert_eq!(stage.states(), ["0/s"]);
}

/// A state that nothing stands for is torn down with today's definitions; without any, `down` names it.
#[test]
fn an_unknown_state_is_torn_down_or_named() {
    let stage = Stage::of(&["0: s", "1: a"]);
    stage.up();
    stage.forget_book();
    let store = stage.store();
    let copy = |from: &str, to: &str| {
        std::fs::create_dir_all(store.join(to).parent().unwrap()).unwrap();
        std::fs::copy(store.join(from), store.join(to)).unwrap();
    };
    copy("state/1/a", "state/9/x");
    let said = stage.down_to(1, &[]);
    assert!(said.contains("9.x"), "{said}");
    // Phase 0 stays while anything is left.
    assert_eq!(stage.states(), ["0/s", "9/x"]);
    stage.forget_book();
    let known = stage.phase("0", "s") + &stage.phase("9", "x");
    stage.define(&known);
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 9-x", "destroy 0-s"]);
    assert!(stage.states().is_empty());
}

/// `--dry-run` prints every resource that would go, in order, and touches nothing.
#[test]
fn a_dry_run_touches_nothing() {
    let stage = Stage::of(&["0: s", "1: a"]);
    stage.up();
    stage.forget_book();
    let before = snapshot(&stage.store());
    let plan = stage.json(0, &["down", "--target", "drill", "--dry-run"]);
    let steps = plan["steps"].as_array().unwrap();
    let names: Vec<_> = steps
        .iter()
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["1.a", "0.s"]);
    assert_eq!(
        steps[0]["addresses"],
        serde_json::json!(["terraform_data.it", "terraform_data.last"])
    );
    let text = stage.run(0, &["down", "--target", "drill", "--dry-run"]);
    assert!(text.stdout.contains("terraform_data.it"), "{text:?}");
    assert_eq!(before, snapshot(&stage.store()));
    assert!(stage.book().is_empty());
    assert_eq!(stage.status()["state"], "finished");
}

/// Case T2: a destroy that can't be planned is a failure, at a terminal as well: there is no prompt.
#[test]
fn a_destroy_that_cannot_be_planned_is_no_question() {
    let stage = Stage::empty();
    let credential = r#"{"version":4,"terraform_version":"1.12.0","serial":1,"lineage":"a","outputs":{},"resources":[]}"#;
    let needed = stage.world.write("credential", credential);
    stage.module(
        "0-s",
        &format!(
            "data \"terraform_remote_state\" \"credential\" {{\n  backend = \"local\"\n  config  = {{ path = \"{}\" }}\n}}\n",
            needed.display()
        ),
    );
    stage.define(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"s\"\ntofu = \"0-s\"\n",
    );
    stage.up();
    stage.forget_book();
    std::fs::remove_file(&needed).unwrap();
    let terminal = stage.rebuild(&["down", "--target", "drill"]).in_terminal();
    let outcome = terminal.wait();
    outcome.expect_code(1);
    assert!(!outcome.stdout.contains("[y"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("credential"), "{}", outcome.stdout);
    assert!(stage.book().is_empty());
    assert_eq!(stage.states(), ["0/s"]);
    stage.world.write("credential", credential);
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 0-s"]);
}

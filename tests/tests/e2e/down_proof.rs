//! `down` proves that everything is gone, and what it does with what can't go.

use crate::stage::Stage;

/// A phase with one tofu step `s` and more lines.
fn phase(stage: &Stage, id: &str, more: &str) -> String {
    format!("{}{more}", stage.phase(id, "s"))
}

/// Case T7: machines are still there after the destroy, and the exit code says so, with the list.
#[test]
fn residue_that_prints_is_a_failure_with_its_list() {
    let stage = Stage::empty();
    let cloud = stage.world.write("cloud", "machine-1\nmachine-2\n");
    let probe = format!(
        "[[phase.residue]]\nname = \"no machine left\"\nexec = [\"cat\", \"{}\"]\n",
        cloud.display()
    );
    stage.define(&(phase(&stage, "0", "") + &phase(&stage, "1", &probe)));
    // A first build is none while a probe finds something.
    let said = stage.up_to(3, &[]);
    assert!(said.contains("machine-1"), "{said}");
    stage.world.write("cloud", "");
    stage.up();
    stage.forget_book();
    stage.world.write("cloud", "machine-1\nmachine-2\n");
    let said = stage.down_to(1, &[]);
    assert!(said.contains("no machine left"), "{said}");
    assert!(said.contains("2 lines"), "{said}");
    assert!(said.contains("machine-2"), "{said}");
    assert!(
        said.contains("`rebuild down --target drill` goes on"),
        "{said}"
    );
    assert_eq!(stage.book(), ["destroy 1-s"]);
    assert_eq!(stage.phases(), ["0 verified", "1 teardown-failed"]);
    // The proof is asked for again, with nothing of the phase standing.
    stage.down_to(1, &[]);
    assert!(stage.book().is_empty());
    stage.world.write("cloud", "");
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 0-s"]);
}

/// A probe that fails proves nothing.
#[test]
fn a_residue_probe_that_fails_is_a_failure() {
    let stage = Stage::empty();
    let switch = stage.world.write("cloud-is-there", "");
    let probe = format!(
        "[[phase.residue]]\nname = \"cloud\"\nexec = [\"test\", \"-e\", \"{}\"]\n",
        switch.display()
    );
    stage.define(&(phase(&stage, "0", "") + &phase(&stage, "1", &probe)));
    stage.up();
    std::fs::remove_file(&switch).unwrap();
    let said = stage.down_to(1, &[]);
    assert!(
        said.contains("residue probe `cloud` of phase `1` could not be asked"),
        "{said}"
    );
    assert_eq!(stage.states(), ["0/s"]);
    stage.world.write("cloud-is-there", "");
    stage.down_to(0, &[]);
}

/// What takes a while to vanish has `within`.
#[test]
fn a_residue_probe_is_asked_again_within_its_time() {
    let stage = Stage::empty();
    let asked = stage.world.root().join("asked");
    let probe = stage.write(
        "left-over",
        "#!/bin/sh\necho x >> \"$1\"\ntest $(wc -l < \"$1\") -ge 3 || echo machine-1\n",
    );
    crate::stage::executable(&probe);
    // Not at first build: there it is asked once.
    let residue = format!(
        "[[phase.residue]]\nname = \"cloud\"\nexec = [\"./left-over\", \"{}\"]\nwithin = \"1m\"\n",
        asked.display()
    );
    std::fs::write(&asked, "x\nx\n").unwrap();
    stage.define(&phase(&stage, "0", &residue));
    stage.up();
    std::fs::write(&asked, "").unwrap();
    stage.down_to(0, &[]);
    assert_eq!(std::fs::read_to_string(&asked).unwrap().lines().count(), 3);
}

/// Case T6: the endpoint of what a step lives in is gone, so its destroy fails; it is deferred, and forgotten once
/// what it lives in is proven gone. Phases below go on.
#[test]
fn what_lives_in_something_gone_is_forgotten_with_its_addresses() {
    let stage = Stage::empty();
    stage.define(
        &[
            phase(&stage, "0", ""),
            phase(&stage, "2", ""),
            phase(&stage, "3", "contained_in = \"2.s\"\n"),
        ]
        .concat(),
    );
    stage.up();
    stage.forget_book();
    // What phase 3 lives in does not answer any more.
    stage.on("destroy-3-s");
    stage.on("destroy-2-s");
    stage.down_to(1, &[]);
    assert!(stage.book().is_empty());
    assert_eq!(stage.standing(), ["0.s", "2.s", "3.s"]);
    stage.off("destroy-2-s");
    let said = stage.down_to(0, &[]);
    assert!(said.contains("step `3.s` is forgotten"), "{said}");
    assert_eq!(stage.book(), ["destroy 2-s", "destroy 0-s"]);
    let step = stage.step("3.s");
    assert_eq!(step["status"], "forgotten");
    assert_eq!(step["forgotten"], serde_json::json!(["terraform_data.it"]));
    assert!(stage.states().is_empty());
    assert_eq!(stage.record()["status"], "torn-down");
}

/// `down --forget` gives up one step and touches nothing else; the reason is recorded.
#[test]
fn forget_gives_up_one_step_and_touches_nothing_else() {
    let stage = Stage::empty();
    let residue = "[[phase.residue]]\nname = \"cloud\"\nexec = [\"test\", \"-e\", \"@\"]\n";
    let cloud = stage.world.write("cloud", "");
    let residue = residue.replace('@', cloud.to_str().unwrap());
    stage.define(
        &[
            phase(&stage, "0", ""),
            phase(&stage, "1", &residue),
            stage.phase("2", "a b"),
        ]
        .concat(),
    );
    stage.up();
    stage.forget_book();
    for args in [
        &["--forget", "1.s"][..],
        &["--forget", "1.s", "--reason", " "],
        &["--forget", "1.x", "--reason", "dead"],
        &["--forget", "1", "--reason", "dead"],
    ] {
        stage.down_to(2, args);
    }
    assert_eq!(stage.standing(), ["0.s", "1.s", "2.a", "2.b"]);
    assert_eq!(stage.status()["state"], "finished");
    // It is dead, and so is what could be asked about it.
    std::fs::remove_file(&cloud).unwrap();
    let said = stage.down_to(0, &["--forget", "1.s", "--reason", "burnt down"]);
    assert!(said.contains("could not be asked"), "{said}");
    assert!(stage.book().is_empty());
    assert_eq!(stage.standing(), ["0.s", "2.a", "2.b"]);
    assert_eq!(stage.states(), ["0/s", "2/a", "2/b"]);
    let step = stage.step("1.s");
    assert_eq!(step["status"], "forgotten");
    assert_eq!(step["forgotten"][0], "terraform_data.it");
    let record = stage.record();
    let decision = &record["decisions"][0];
    assert_eq!(decision["kind"], "forget");
    assert_eq!(decision["about"], "1.s");
    assert_eq!(decision["reason"], "burnt down");
    assert_eq!(stage.status()["state"], "tearing-down");
    assert_eq!(
        stage.status()["next"],
        serde_json::json!(["rebuild down --target drill"])
    );
    // Its state is kept among the versions.
    let versions = std::fs::read_dir(stage.store().join("state/1")).unwrap();
    assert!(versions.count() > 0);
    // A phase of which more stands is not asked for proof yet.
    stage.down_to(0, &["--forget", "2.b", "--reason", "dead as well"]);
    assert_eq!(stage.standing(), ["0.s", "2.a"]);
    // Phase 0 does not go while another one stands.
    let said = stage.down_to(1, &["--forget", "0.s", "--reason", "why not"]);
    assert!(said.contains("step `2.a`"), "{said}");
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 2-a", "destroy 0-s"]);
}

/// A protected target is forgotten from as it is torn down: by who names it.
#[test]
fn a_protected_target_is_torn_down_only_by_who_names_it() {
    let stage = Stage::of(&["0: s", "1: s"]);
    stage.write(
        "targets/drill.toml",
        "protected = true\n[encryption]\npassphrase = { env = \"PASSPHRASE\" }\n",
    );
    let call = |args: &[&str]| {
        stage
            .rebuild(args)
            .env("PASSPHRASE", "a passphrase of some length")
    };
    let down = ["down", "--target", "drill"];
    call(&["up", "--target", "drill", "--no-pause"])
        .run()
        .expect_code(0);
    stage.forget_book();
    let outcome = call(&down).run();
    outcome.expect_code(5);
    assert!(outcome.stderr.contains("--confirm drill"), "{outcome:?}");
    let forget = [&down[..], &["--forget", "1.s", "--reason", "x"]].concat();
    call(&forget).run().expect_code(5);
    let wrong = [&down[..], &["--confirm", "live"]].concat();
    call(&wrong).run().expect_code(2);
    // At a terminal the name is typed; another one is a no.
    let mut terminal = call(&down).in_terminal();
    terminal
        .expect("`drill`")
        .expect("name to go on: ")
        .send("live\n");
    terminal.wait().expect_code(5);
    assert!(stage.book().is_empty());
    assert_eq!(stage.states(), ["0/s", "1/s"]);
    let mut terminal = call(&down).in_terminal();
    terminal
        .expect("`drill`")
        .expect("name to go on: ")
        .send("drill\n");
    terminal.wait().expect_code(0);
    assert_eq!(stage.book(), ["destroy 1-s", "destroy 0-s"]);
    // `--confirm` names the target by itself.
    call(&["up", "--target", "drill", "--no-pause"])
        .run()
        .expect_code(0);
    stage.forget_book();
    call(&["down", "--confirm", "drill"]).run().expect_code(0);
    assert_eq!(stage.book(), ["destroy 1-s", "destroy 0-s"]);
}

/// An encrypted target: what goes is named in a dry run, and what is forgotten is recorded.
#[test]
fn addresses_are_read_from_encrypted_states() {
    let stage = Stage::of(&["0: s", "1: s"]);
    stage.write(
        "targets/drill.toml",
        "[encryption]\npassphrase = { env = \"PASSPHRASE\" }\n",
    );
    let call = |args: &[&str]| {
        stage
            .rebuild(args)
            .env("PASSPHRASE", "a passphrase of some length")
            .run()
    };
    call(&["up", "--target", "drill", "--no-pause"]).expect_code(0);
    let outcome = call(&["down", "--target", "drill", "--dry-run", "--output", "json"]);
    outcome.expect_code(0);
    let plan: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(plan["steps"][0]["addresses"][0], "terraform_data.it");
    call(&[
        "down", "--target", "drill", "--forget", "1.s", "--reason", "dead",
    ])
    .expect_code(0);
    assert_eq!(stage.step("1.s")["forgotten"][1], "terraform_data.last");
    stage.forget_book();
    call(&["down", "--target", "drill"]).expect_code(0);
    assert_eq!(stage.book(), ["destroy 0-s"]);
}

/// Case T5: what must not be refreshed in a destroy says so, and the destroy does without.
#[test]
fn a_destroy_without_refresh_needs_no_endpoint() {
    let stage = Stage::empty();
    let health = stage.world.write(
        "health",
        r#"{"version":4,"terraform_version":"1.12.0","serial":1,"lineage":"a","outputs":{},"resources":[]}"#,
    );
    for step in ["0-s", "1-s"] {
        stage.module(
            step,
            &format!(
                "data \"terraform_remote_state\" \"health\" {{\n  backend = \"local\"\n  config  = {{ path = \"{}\" }}\n}}\n",
                health.display()
            ),
        );
    }
    stage.define(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"s\"\ntofu = \"0-s\"\n\
         [[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"s\"\ntofu = \"1-s\"\ndestroy_refresh = false\n",
    );
    stage.up();
    stage.forget_book();
    std::fs::remove_file(&health).unwrap();
    // Only the step that says so does without.
    stage.down_to(1, &[]);
    assert_eq!(stage.book(), ["destroy 1-s"]);
    assert_eq!(stage.states(), ["0/s"]);
}

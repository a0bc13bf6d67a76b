//! `up --resume`: goes on where the run stopped, with today's definitions, and applies nothing twice.

use crate::stage::Stage;

/// A commit of everything in the platform directory; gives its id.
fn commit(stage: &Stage) -> String {
    let git = |args: &[&str]| {
        let outcome = stage
            .world
            .command("git")
            .cwd(stage.dir())
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args.iter().copied())
            .run();
        outcome.expect_code(0);
        outcome.stdout.trim().to_owned()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "a state of things"]);
    git(&["rev-parse", "HEAD"])
}

/// Case R1: resumed from another commit, the run begins at the step that failed; the record names both commits, and
/// each phase is torn down from the bundle that it was applied from.
#[test]
fn a_resume_from_another_commit_applies_only_what_is_left() {
    let stage = Stage::of(&["0: s", "1: s", "2: s"]);
    let first = commit(&stage);
    stage.on("plan-1-s");
    let said = stage.up_to(1, &[]);
    assert!(
        said.contains("--resume") && said.contains("rebuild down"),
        "{said}"
    );
    assert_eq!(stage.book(), ["create 0-s"]);
    assert_eq!(stage.phases(), ["0 verified", "1 failed"]);
    assert_eq!(stage.status()["last_known_good"], serde_json::Value::Null);
    // A plain `up` names both ways on, and touches nothing.
    let said = stage.up_to(3, &[]);
    assert!(
        said.contains("up --target drill --resume") && said.contains("rebuild down --target drill"),
        "{said}"
    );

    for phase in ["0", "1", "2"] {
        let path = format!("{phase}-s/main.tf");
        let text = std::fs::read_to_string(stage.dir().join(&path)).unwrap();
        stage.write(&path, &text.replace("echo destroy", "echo destroy new"));
    }
    let second = commit(&stage);
    stage.off("plan-1-s");
    let said = stage.up_to(0, &["--resume"]);
    assert_eq!(stage.book(), ["create 1-s", "create 2-s"]);
    // Verified phases are not applied, though their definitions changed: they are pending.
    assert!(
        said.contains("the definitions of `0.s` have changed"),
        "{said}"
    );

    let record = stage.record();
    assert_eq!(record["status"], "finished");
    let of_phases: Vec<_> = record["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["commit"].as_str().unwrap())
        .collect();
    assert_eq!(of_phases, [&*first, &second, &second]);
    let of_calls: Vec<_> = record["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["commit"].as_str().unwrap())
        .collect();
    assert_eq!(of_calls, [&*first, &second]);
    assert_eq!(record["run"], stage.status()["last_known_good"]);
    assert_eq!(stage.step("0.s")["attempts"], 1);

    stage.down_to(0, &[]);
    assert_eq!(
        stage.book(),
        ["destroy new 2-s", "destroy new 1-s", "destroy 0-s"]
    );
}

/// A half-done change of definitions: an apply that failed after it had changed something is torn down with what was
/// attempted.
#[test]
fn a_half_done_change_is_torn_down_with_what_was_attempted() {
    let stage = Stage::of(&["0: s", "1: s"]);
    stage.up();
    let path = "1-s/main.tf";
    let text = std::fs::read_to_string(stage.dir().join(path)).unwrap();
    let more = text
        .replace("echo destroy", "echo destroy new")
        .replace("input = \"1-s\"", "input = \"1-s changed\"")
        + "\nresource \"terraform_data\" \"more\" {\n  depends_on = [terraform_data.it]\n  provisioner \"local-exec\" {\n    when = destroy\n    command = \"true\"\n  }\n}\n";
    // The second resource fails once the first is changed.
    let more = more.replace(
        "terraform_data.it.id == \"\" ||",
        "terraform_data.more.id == \"\" ||",
    );
    stage.write(path, &more.replace("/apply-", "/half-"));
    stage.on("half-1-s");
    stage.forget_book();
    stage.up_to(1, &[]);
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy new 1-s", "destroy 0-s"]);
    assert!(stage.states().is_empty());
}

/// Where what was attempted has no configuration for a provider that the state still needs, what was applied before
/// it tears down.
#[test]
fn a_missing_provider_configuration_falls_back_to_the_bundle_before() {
    let stage = Stage::empty();
    let path = stage.world.write(
        "odd/tofu",
        &format!(
            concat!(
                "#!/bin/sh\n",
                "case \"$*\" in *-destroy*)\n",
                "  if grep -q 'echo destroy new' *.tf; then\n",
                "    echo '{{\"@level\":\"error\",\"@message\":\"Error: Provider configuration not present\",\"@module\":\"tofu.ui\",\"@timestamp\":\"2026-01-01T00:00:00.000000Z\",\"diagnostic\":{{\"severity\":\"error\",\"summary\":\"Provider configuration not present\",\"detail\":\"To work with x its original provider configuration is required.\"}},\"type\":\"diagnostic\"}}'\n",
                "    exit 1\n  fi;;\nesac\nexec {} \"$@\"\n"
            ),
            crate::drill::tool("REBUILD_TEST_TOFU").display()
        ),
    );
    crate::stage::executable(&path);
    let phases = stage.phase("0", "s");
    stage.define(&format!(
        "[tools]\ntofu = {{ command = [\"{}\"] }}\n{phases}",
        path.display()
    ));
    stage.up();
    let module = "0-s/main.tf";
    let text = std::fs::read_to_string(stage.dir().join(module)).unwrap();
    let text = text
        .replace("/apply-", "/half-")
        .replace("echo destroy", "echo destroy new")
        .replace(
            "terraform_data.it.id == \"\" ||",
            "terraform_data.more.id == \"\" ||",
        );
    stage.write(
        module,
        &format!("{text}\nresource \"terraform_data\" \"more\" {{}}\n"),
    );
    stage.on("half-0-s");
    stage.forget_book();
    stage.up_to(1, &[]);
    stage.down_to(0, &[]);
    assert_eq!(stage.book(), ["destroy 0-s"]);
    assert!(stage.states().is_empty());
}

/// Case R1: within a phase what ended well is not applied again, unless its definitions changed.
#[test]
fn within_a_phase_only_what_failed_or_changed_is_applied_again() {
    let stage = Stage::empty();
    let define = |first: &str| {
        let steps = [first, "second", "third"].map(|name| {
            let step = name.replace("changed", "first");
            format!("[[phase.step]]\nname = \"{step}\"\n{}", stage.exec(name))
        });
        stage.define(&format!(
            "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n{}",
            steps.concat()
        ));
    };
    define("first");
    stage.on("apply-second");
    stage.up_to(1, &[]);
    assert_eq!(stage.book(), ["create first"]);
    assert_eq!(stage.step("0.first")["status"], "succeeded");
    assert_eq!(stage.step("0.second")["status"], "failed");
    stage.up_to(1, &["--resume"]);
    assert!(stage.book().is_empty());
    stage.off("apply-second");
    stage.on("apply-third");
    stage.up_to(1, &["--resume"]);
    assert_eq!(stage.book(), ["create second"]);
    define("changed");
    stage.off("apply-third");
    stage.up_to(0, &["--resume"]);
    assert_eq!(
        stage.book(),
        [
            "create changed",
            "create third",
            "verify changed",
            "verify second",
            "verify third"
        ]
    );
    stage.down_to(0, &[]);
    assert_eq!(
        stage.book(),
        ["destroy third", "destroy second", "destroy changed"]
    );
}

/// A step that is new, gone or moved before the resume point ends with 3 and the difference.
#[test]
fn what_changed_place_before_the_resume_point_stops() {
    let stage = Stage::of(&["0: s", "1: a b", "2: s"]);
    stage.on("plan-2-s");
    stage.up_to(1, &[]);
    stage.off("plan-2-s");
    stage.forget_book();
    let before = crate::stage::snapshot(&stage.store());
    for (phases, difference) in [
        (&["0: s new", "1: a b", "2: s"][..], "0.new"),
        (&["0: s", "1: a", "2: s"], "1.b"),
        (&["0: s", "1: b a", "2: s"], "1."),
        (&["1: a b", "0: s", "2: s"], "`0`"),
        (&["0: s", "new: s", "1: a b", "2: s"], "new"),
    ] {
        let text: Vec<_> = phases
            .iter()
            .map(|phase| {
                let (id, steps) = phase.split_once(": ").unwrap();
                stage.phase(id, steps)
            })
            .collect();
        stage.define(&text.concat());
        let said = stage.up_to(3, &["--resume"]);
        assert!(said.contains(difference), "{difference}: {said}");
        assert!(stage.book().is_empty());
        let after = crate::stage::snapshot(&stage.store());
        let names = |files: &std::collections::BTreeMap<_, _>| {
            files.keys().cloned().collect::<Vec<std::path::PathBuf>>()
        };
        assert_eq!(names(&before), names(&after));
    }
    // After it everything may change.
    stage.define(
        &[
            stage.phase("0", "s"),
            stage.phase("1", "a b"),
            stage.phase("2", "new s"),
            stage.phase("3", "s"),
        ]
        .concat(),
    );
    stage.up_to(0, &["--resume"]);
    assert_eq!(stage.book(), ["create 2-new", "create 2-s", "create 3-s"]);
}

/// `--through` ends the call, not the run: last-known-good stays, and a resume goes on behind it.
#[test]
fn through_and_then_resume() {
    let stage = Stage::of(&["0: s", "1a: s", "1b: s", "4: s"]);
    stage.up_to(2, &["--through", "1c"]);
    stage.up_to(0, &["--through", "1a"]);
    assert_eq!(stage.book(), ["create 0-s", "create 1a-s"]);
    assert_eq!(stage.record()["status"], "paused");
    assert_eq!(stage.status()["last_known_good"], serde_json::Value::Null);
    stage.up_to(3, &[]);
    stage.up_to(0, &["--resume", "--through", "1b"]);
    assert_eq!(stage.book(), ["create 1b-s"]);
    stage.up_to(0, &["--resume"]);
    assert_eq!(stage.book(), ["create 4-s"]);
    assert_eq!(stage.record()["status"], "finished");
    assert_eq!(stage.record()["calls"].as_array().unwrap().len(), 3);
    assert_eq!(stage.status()["last_known_good"], stage.record()["run"]);
    let said = stage.up_to(3, &["--resume"]);
    assert!(said.contains("nothing to resume"), "{said}");
}

/// A verified phase that is not as it was ends a resume with 3; it stays verified, and is never applied by one.
#[test]
fn a_re_verify_that_fails_stops_and_stays_verified() {
    let stage = Stage::empty();
    let exec = |id: &str, name: &str| {
        format!(
            "[[phase]]\nid = \"{id}\"\ntitle = \"t\"\n[[phase.step]]\nname = \"s\"\n{}",
            stage.exec(name)
        )
    };
    stage.define(&[exec("0", "zero"), exec("1", "one")].concat());
    stage.on("apply-one");
    stage.up_to(1, &[]);
    stage.off("apply-one");
    stage.on("verify-zero");
    stage.forget_book();
    for _ in 0..2 {
        stage.up_to(3, &["--resume"]);
        assert!(stage.book().is_empty());
        assert_eq!(stage.phases()[0], "0 verified");
    }
    stage.off("verify-zero");
    stage.up_to(0, &["--resume"]);
    assert_eq!(stage.book(), ["verify zero", "create one", "verify one"]);
}

/// Case R5: an output that an apply of this run changed is what a later step gets.
#[test]
fn a_later_step_gets_the_output_of_the_earlier_apply() {
    let stage = Stage::empty();
    stage.write(
        "two/main.tf",
        "variable \"size\" {}\nresource \"terraform_data\" \"it\" { input = var.size }\noutput \"size\" { value = terraform_data.it.output }\n",
    );
    stage.write(
        "three/main.tf",
        "variable \"from\" {}\nresource \"terraform_data\" \"it\" { input = var.from }\noutput \"got\" { value = terraform_data.it.output }\n",
    );
    stage.define(
        "[[phase]]\nid = \"2\"\ntitle = \"two\"\n[[phase.step]]\nname = \"s\"\ntofu = \"two\"\n\
         [[phase]]\nid = \"3\"\ntitle = \"three\"\n[[phase.step]]\nname = \"s\"\ntofu = \"three\"\nvars = { from = \"${step.2.s.size}\" }\n",
    );
    for size in ["small", "large"] {
        stage.write(
            "targets/drill.toml",
            &format!("[values]\nsize = \"{size}\"\n"),
        );
        stage.up();
        let record = stage.record();
        assert_eq!(record["phases"][1]["outputs"]["s"]["got"], size, "{record}");
        stage.json(0, &["preflight", "--target", "drill"]);
    }
}

/// Case R8: what preflight stops was not changed, whatever the last phase's check says of it.
#[test]
fn a_stop_of_preflight_changes_nothing() {
    let stage = Stage::empty();
    let last = format!(
        "[[phase]]\nid = \"9\"\ntitle = \"nine\"\n[[phase.step]]\nname = \"s\"\n{}",
        stage.exec("nine")
    );
    stage.define(&(stage.phase("0", "s") + &last));
    stage.up();
    let module = "0-s/main.tf";
    let text = std::fs::read_to_string(stage.dir().join(module)).unwrap();
    stage.write(
        module,
        &text.replace("input = \"0-s\"", "input = \"changed\""),
    );
    stage.on("verify-nine");
    stage.forget_book();
    let before = stage.record();
    let said = stage.up_to(3, &[]);
    assert!(said.contains("check-failed"), "{said}");
    assert!(stage.book().is_empty());
    assert_eq!(stage.record(), before);
}

/// A step that today's definitions do not hold any more stops preflight.
#[test]
fn a_removed_step_stops_preflight() {
    let stage = Stage::of(&["0: s", "1: a b"]);
    stage.up();
    stage.define(&[stage.phase("0", "s"), stage.phase("1", "a")].concat());
    stage.forget_book();
    let said = stage.up_to(3, &[]);
    assert!(said.contains("1.b"), "{said}");
    let said = stage.run(3, &["preflight", "--target", "drill"]).stderr;
    assert!(said.contains("1.b"), "{said}");
    assert!(stage.book().is_empty());
    assert_eq!(stage.standing(), ["0.s", "1.a", "1.b"]);
}

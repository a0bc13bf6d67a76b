//! Steps that are removed, renamed or moved to another phase, on the real OpenTofu.

use std::fmt::Write as _;

use serde_json::Value;

use crate::cloud::Cloud;
use crate::counting_proxy::Proxy;
use crate::drill::Drill;
use crate::gateway::Clouded;
use crate::stage::Stage;

/// A step of `rebuild.toml` on the root module of its own name.
fn step(name: &str, more: &str) -> String {
    format!("[[phase.step]]\nname = \"{name}\"\ntofu = \"{name}\"\n{more}\n")
}

fn phase(id: &str, steps: &[String]) -> String {
    let mut text = format!("[[phase]]\nid = \"{id}\"\n");
    for step in steps {
        text.push_str(step);
    }
    text
}

/// A root module with one object, whose id is an output, and more.
fn object(name: &str) -> String {
    format!(
        "variable \"under\" {{ default = \"\" }}\nresource \"test_object\" \"it\" {{\n  name = \"{name}\"\n  \
         content = var.under\n}}\noutput \"id\" {{ value = test_object.it.id }}\n\
         output \"token\" {{\n  value = \"tok-${{test_object.it.id}}\"\n  sensitive = true\n}}\n"
    )
}

fn notes(report: &Value) -> String {
    let mut text = String::new();
    for note in report["notes"].as_array().into_iter().flatten() {
        writeln!(text, "{}", note["text"].as_str().unwrap_or_default()).unwrap();
    }
    text
}

/// A step that is gone stops everything that changes, `--prune` tears it down after what referred to it.
#[test]
fn a_removed_step_stops_until_it_is_pruned_after_what_referred_to_it() {
    let stage = Stage::of(&["0: ground", "1: edge old", "2: app"]);
    stage.module("2-app", "variable \"under\" {}\n");
    let with_old = |vars: &str| {
        format!(
            "[[phase]]\nid = \"0\"\n[[phase.step]]\nname = \"ground\"\ntofu = \"0-ground\"\n\
             [[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"1-edge\"\n{vars}"
        )
    };
    let app = |under: &str| {
        format!(
            "[[phase]]\nid = \"2\"\n[[phase.step]]\nname = \"app\"\ntofu = \"2-app\"\nvars = {{ under = \"{under}\" }}\n"
        )
    };
    let old = "[[phase.step]]\nname = \"old\"\ntofu = \"1-old\"\n";
    stage.define(&(with_old(old) + &app("${step.1.old.name}")));
    stage.up();
    stage.forget_book();

    stage.define(&(with_old("") + &app("${step.1.edge.name}")));
    let report = stage.json(3, &["preflight", "--target", "drill"]);
    assert!(notes(&report).contains("`1.old`"), "{report:#}");
    assert!(notes(&report).contains("moved_from = \"1.old\""));
    stage.run(0, &["preflight", "--target", "drill", "--prune"]);
    let said = stage.up_to(3, &[]);
    assert!(said.contains("--prune=first"), "{said}");
    assert!(stage.book().is_empty() && stage.states().contains(&"1/old".to_owned()));
    let plan = stage.json(6, &["plan", "--target", "drill", "--detailed-exitcode"]);
    assert_eq!(plan["removed"], serde_json::json!(["1.old"]));

    // The destroy fails once: the run goes on where it stopped, and needs no flag again.
    stage.on("destroy-1-old");
    stage.up_to(1, &["--prune"]);
    assert_eq!(stage.phases().last().unwrap(), "2 verified");
    stage.off("destroy-1-old");
    stage.up_to(0, &["--resume"]);
    assert_eq!(stage.book(), ["destroy 1-old"]);
    assert_eq!(stage.states(), ["0/ground", "1/edge", "2/app"]);
    assert_eq!(stage.record()["decisions"][0]["kind"], "prune");
    stage.run(0, &["preflight", "--target", "drill"]);
}

/// A whole phase that is gone is proven gone by its own residue probe; `--prune=first` goes before everything.
#[test]
fn a_removed_phase_is_pruned_first_and_proven_gone() {
    let stage = Stage::of(&["0: ground", "1: edge"]);
    let mut text = stage.phase("0", "ground");
    let only = text.clone();
    text.push_str(&stage.phase("1", "edge"));
    let left = stage.world.root().join("left");
    writeln!(
        text,
        "[[phase.residue]]\nname = \"nothing left\"\nexec = [\"sh\", \"-c\", \"cat {} 2>/dev/null || true\"]",
        left.display()
    )
    .unwrap();
    stage.define(&text);
    stage.up();
    stage.forget_book();
    stage.define(&only);
    std::fs::write(&left, "a machine\n").unwrap();
    let said = stage.up_to(1, &["--prune=first"]);
    assert!(said.contains("a machine"), "{said}");
    assert_eq!(stage.book(), ["destroy 1-edge"]);
    assert_eq!(stage.phases(), ["1 teardown-failed"], "before everything");
    std::fs::remove_file(&left).unwrap();
    stage.up_to(0, &["--resume"]);
    assert_eq!(stage.states(), ["0/ground"]);
    assert_eq!(stage.status()["state"], "finished");
}

/// On a protected target what is pruned needs the same consent as any destroy.
#[test]
fn on_a_protected_target_a_prune_needs_consent() {
    let stage = Stage::of(&["0: ground", "1: edge old"]);
    stage.write(
        "targets/drill.toml",
        "protected = true\n[encryption]\npassphrase = { env = \"REBUILD_PASSPHRASE\" }\n",
    );
    let run = |code, args: &[&str]| {
        let outcome = stage
            .rebuild(args)
            .env("REBUILD_PASSPHRASE", crate::gate::PASSPHRASE)
            .run();
        outcome.expect_code(code);
        outcome.stderr
    };
    let up = |code, more: &[&str]| {
        let mut args = vec!["up", "--target", "drill", "--no-pause"];
        args.extend(more);
        run(code, &args)
    };
    up(0, &[]);
    stage.forget_book();
    stage.define(&(stage.phase("0", "ground") + &stage.phase("1", "edge")));
    let said = up(5, &["--prune"]);
    assert!(
        said.contains("terraform_data.it") && said.contains("--allow-destroy 1"),
        "{said}"
    );
    up(2, &["--prune", "--allow-destroy", "9"]);
    assert!(stage.book().is_empty());
    up(0, &["--prune", "--allow-destroy", "1"]);
    assert_eq!(stage.book(), ["destroy 1-old"]);
}

fn two_phases(cloud: &Cloud, drill: &Drill, edge: &str, app: &str) {
    cloud.platform(drill, &format!("{edge}{app}"));
}

/// A step that is renamed and moved to another phase keeps its objects: nothing is made, nothing destroyed. What
/// refers to it by its old name is torn down all the same, sensitive inputs included.
#[test]
fn a_moved_step_keeps_its_state() {
    let edge = phase("1a", &[step("edge", "")]);
    let app = |from: &str| {
        phase(
            "2",
            &[step(
                "app",
                &format!("vars = {{ under = \"${{step.{from}.token}}\" }}"),
            )],
        )
    };
    let (drill, cloud) = Cloud::drill(
        &(edge + &app("1a.edge")),
        &[("edge", &object("edge")), ("app", &object("app"))],
    );
    drill.write(
        "targets/drill.toml",
        "[encryption]\npassphrase = { env = \"REBUILD_PASSPHRASE\" }\n",
    );
    let run = |code, args: &[&str]| {
        let outcome = drill
            .rebuild(args)
            .env("REBUILD_PASSPHRASE", crate::gate::PASSPHRASE)
            .run();
        outcome.expect_code(code);
        outcome
    };
    run(0, &["up", "--target", "drill", "--no-pause"]);
    let calls = cloud.calls();
    let made = drill.status()["run"]["standing"][0]["state"].clone();

    let moved = phase(
        "1b",
        &[
            "[[phase.step]]\nname = \"border\"\ntofu = \"edge\"\nmoved_from = \"1a.edge\"\n"
                .to_owned(),
        ],
    );
    two_phases(&cloud, &drill, &moved, &app("1b.border"));
    run(0, &["preflight", "--target", "drill"]);
    let plan = run(0, &["plan", "--target", "drill", "--output", "json"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    assert_eq!(plan["moved"][0]["to"], "1b.border");
    assert_eq!(plan["phases"][0]["verdict"], "unchanged", "{plan:#}");
    assert_eq!(drill.states(), ["1a/edge", "2/app"], "a plan moves nothing");

    run(
        0,
        &["up", "--target", "drill", "--no-pause", "--through", "1b"],
    );
    assert_eq!(drill.states(), ["1b/border", "2/app"]);
    let record = drill.status()["run"].clone();
    assert_eq!(record["standing"][0]["step"], "1b.border");
    assert_eq!(record["standing"][0]["state"]["lineage"], made["lineage"]);
    assert_eq!(record["decisions"][0]["kind"], "moved");
    assert_eq!(cloud.calls(), calls, "an object was touched");
    // `2.app` still stands from the definitions that call its neighbour `1a.edge`.
    run(0, &["down", "--target", "drill"]);
    assert!(!cloud.has("edge") && !cloud.has("app"));
    assert!(drill.states().is_empty());
}

/// The way back: a moved step moves again, and its residue probe is still the one that it was applied with.
#[test]
fn a_step_moves_there_and_back_and_with_nothing_applied_in_between() {
    let at = |id: &str, from: &str| {
        phase(
            id,
            &[format!(
                "[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n{from}"
            )],
        )
    };
    let ground = phase("0", &[step("ground", "")]);
    let (drill, cloud) = Cloud::drill(
        &(ground.clone() + &at("1", "")),
        &[("ground", &object("ground")), ("edge", &object("edge"))],
    );
    drill.up();
    let calls = cloud.calls();
    // The run stops in phase 0, when the step is moved and not applied from its new definitions.
    cloud.platform(
        &drill,
        &(ground.clone() + &at("2", "moved_from = \"1.edge\"")),
    );
    drill.write(
        "ground/main.tf",
        &cloud.module(
            &(object("ground")
                + "resource \"test_object\" \"no\" {\n  name = \"no\"\n  content = \"fail: no\"\n}\n"),
        ),
    );
    drill.run(1, &["up", "--target", "drill", "--no-pause"]);
    assert_eq!(drill.states(), ["0/ground", "2/edge"]);
    drill.write("ground/main.tf", &cloud.module(&object("ground")));
    cloud.platform(&drill, &(ground + &at("1", "moved_from = \"2.edge\"")));
    drill.run(0, &["up", "--target", "drill", "--no-pause", "--resume"]);
    assert_eq!(drill.states(), ["0/ground", "1/edge"]);
    assert_eq!(cloud.calls(), calls, "an object was touched");
    drill.run(0, &["preflight", "--target", "drill"]);
    drill.run(0, &["down", "--target", "drill"]);
    assert!(!cloud.has("edge") && !cloud.has("ground"));
}

/// A move that is cut anywhere is brought to its end by the next call, whichever it is, and no object is touched.
#[test]
fn a_move_that_was_cut_anywhere_comes_to_its_end() {
    let at = |id: &str, name: &str, from: &str| {
        phase(
            id,
            &[format!(
                "[[phase.step]]\nname = \"{name}\"\ntofu = \"edge\"\n{from}"
            )],
        )
    };
    let (drill, cloud) = Cloud::drill(&at("1a", "edge", ""), &[("edge", &object("edge"))]);
    drill.up();
    let calls = cloud.calls();
    let (mut here, mut there) = (("1a", "edge"), ("1b", "border"));
    let file = |(phase, step): (&str, &str)| drill.store().join("state").join(phase).join(step);
    let runs = drill.store().join("run");
    for cut in ["marked", "copied", "retired"] {
        for next in ["preflight", "up"] {
            // As the call left it that was cut: the record says where the state is going.
            let id = drill.status()["run"]["run"].as_str().unwrap().to_owned();
            let path = runs.join(format!("{id}.json"));
            let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            record["standing"][0]["moving_to"] = format!("{}.{}", there.0, there.1).into();
            std::fs::write(&path, record.to_string()).unwrap();
            if cut != "marked" {
                std::fs::create_dir_all(file(there).parent().unwrap()).unwrap();
                std::fs::copy(file(here), file(there)).unwrap();
            }
            if cut == "retired" {
                std::fs::remove_file(file(here)).unwrap();
            }
            let from = format!("moved_from = \"{}.{}\"\n", here.0, here.1);
            cloud.platform(&drill, &at(there.0, there.1, &from));
            if cut == "copied" {
                let dry = drill.run(0, &["down", "--dry-run", "--target", "drill"]);
                let on_its_way = format!("is on its way to `{}.{}`", there.0, there.1);
                assert!(dry.stdout.contains(&on_its_way), "{}", dry.stdout);
            }
            match next {
                "up" => drill.up(),
                _ => drill.run(0, &["preflight", "--target", "drill"]),
            };
            assert_eq!(
                drill.states(),
                [format!("{}/{}", there.0, there.1)],
                "{cut}, {next}"
            );
            let record = drill.status()["run"].clone();
            assert_eq!(record["standing"].as_array().unwrap().len(), 1);
            assert_eq!(
                record["standing"][0]["step"],
                format!("{}.{}", there.0, there.1)
            );
            assert_eq!(cloud.calls(), calls, "{cut}, {next}: an object was touched");
            (here, there) = (there, here);
        }
    }
    drill.run(0, &["down", "--target", "drill"]);
    assert!(!cloud.has("edge") && drill.states().is_empty());
}

/// A state that is not the recorded one is not moved, and neither is one onto another.
#[test]
fn a_move_checks_the_lineage_on_both_sides() {
    let at = |id: &str, from: &str| {
        phase(
            id,
            &[format!(
                "[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n{from}"
            )],
        )
    };
    let (drill, cloud) = Cloud::drill(&at("1", ""), &[("edge", &object("edge"))]);
    drill.up();
    let state = drill.store().join("state/1/edge");
    let good = std::fs::read(&state).unwrap();
    cloud.platform(&drill, &at("2", "moved_from = \"1.edge\""));
    let taken = drill.store().join("state/2/edge");
    std::fs::create_dir_all(taken.parent().unwrap()).unwrap();
    std::fs::write(&taken, &good).unwrap();
    drill.run(3, &["up", "--target", "drill", "--no-pause"]);
    std::fs::remove_file(&taken).unwrap();
    std::fs::remove_file(&state).unwrap();
    drill.run(3, &["up", "--target", "drill", "--no-pause"]);
    std::fs::write(&state, &good).unwrap();
    drill.up();
    assert_eq!(drill.states(), ["2/edge"]);
    assert_eq!(cloud.calls(), ["create edge"]);
}

/// Ahead of where a run stopped, steps may be moved, and pruned by the call that goes on.
#[test]
fn what_is_ahead_of_a_stopped_run_is_moved_and_pruned_by_its_resume() {
    let first = phase("1", &[step("edge", "")]);
    let (drill, cloud) = Cloud::drill(
        &(first.clone() + &phase("2", &[step("app", ""), step("old", "")])),
        &[
            ("edge", &object("edge")),
            ("app", &object("app")),
            ("old", &object("old")),
        ],
    );
    drill.up();
    let up = |code, more: &[&str]| {
        let mut args = vec!["up", "--target", "drill", "--no-pause"];
        args.extend(more);
        drill.run(code, &args).stderr
    };
    up(0, &["--through", "1"]);
    let calls = cloud.calls();
    let web = "[[phase.step]]\nname = \"web\"\ntofu = \"app\"\nmoved_from = \"2.app\"\n".to_owned();
    cloud.platform(
        &drill,
        &(first.clone() + &phase("2", std::slice::from_ref(&web))),
    );
    let said = up(3, &["--resume"]);
    assert!(
        said.contains("`2.old`") && said.contains("--resume --prune"),
        "{said}"
    );
    assert_eq!(
        drill.states(),
        ["1/edge", "2/app", "2/old"],
        "a refused call moves nothing"
    );
    up(0, &["--resume", "--prune"]);
    assert_eq!(drill.states(), ["1/edge", "2/web"]);
    assert_eq!(cloud.calls().split_off(calls.len()), ["delete old"]);
    // Behind it nothing may change: that needs the run to end first.
    up(0, &["--through", "1"]);
    let border =
        "[[phase.step]]\nname = \"border\"\ntofu = \"edge\"\nmoved_from = \"1.edge\"\n".to_owned();
    cloud.platform(&drill, &(phase("1", &[border]) + &phase("2", &[web])));
    let said = up(3, &["--resume"]);
    assert!(
        !said.contains("--prune") && said.contains("bring the definitions back"),
        "{said}"
    );
}

/// SIGKILL at writes all through an `up` that moves a step to another phase and back: whatever was stored by then, the
/// next call goes on, and what the step made is neither made again nor lost.
#[test]
fn an_up_that_moves_a_step_may_be_killed_at_any_write() {
    let clouded = Clouded::of("", &[]);
    let drill = &clouded.drill;
    let book = drill.world.root().join("book");
    drill.write(
        "edge/main.tf",
        &format!(
            "resource \"terraform_data\" \"it\" {{\n  provisioner \"local-exec\" {{ command = \"echo made >> {}\" }}\n}}\n",
            book.display()
        ),
    );
    let define = |to: &str, from: Option<&str>| {
        let (id, name) = to.split_once('.').unwrap();
        let from = from.map_or_else(String::new, |from| format!("moved_from = \"{from}\"\n"));
        let step = format!("[[phase.step]]\nname = \"{name}\"\ntofu = \"edge\"\n{from}");
        let text = format!(
            "[platform]\nname = \"lab\"\n{}{}",
            crate::gateway::PHASE_0,
            phase(id, &[step])
        );
        drill.write("rebuild.toml", &text);
    };
    let proxy = Proxy::before(clouded.gateway.address());
    clouded.point_at(&proxy.address);
    define("1.edge", None);
    clouded.run(0, &["up", "--no-pause"]);
    let (mut here, mut there) = ("1.edge", "2.border");
    let before = proxy.n_writes();
    define(there, Some(here));
    clouded.run(0, &["up", "--no-pause"]);
    let n_writes = proxy.n_writes() - before;
    const ROUNDS: usize = 7;
    for round in 1..=ROUNDS {
        (here, there) = (there, here);
        define(there, Some(here));
        proxy.stop_at(n_writes * round / ROUNDS);
        let started = clouded.command(&["up", "--no-pause"]).start();
        assert!(
            proxy.await_stop(),
            "fewer than {n_writes} writes in round {round}"
        );
        started.signal(rustix::process::Signal::KILL);
        assert_eq!(started.wait().ended, test_support::Ended::Signal(9));
        proxy.go_on();
        // Killed before its first entry was stored, or after its last one: there is no run to go on with.
        if clouded
            .command(&["up", "--no-pause", "--resume"])
            .run()
            .code()
            == Some(3)
        {
            clouded.run(0, &["up", "--no-pause"]);
        }
        let status = clouded.run(0, &["status", "--output", "json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        assert_eq!(status["state"], "finished", "round {round}");
        assert_eq!(status["standing"].as_array().unwrap().len(), 2);
        let objects = clouded.gateway.objects("states");
        let states: Vec<&String> = objects
            .keys()
            .filter(|key| key.contains("/state/") && !key.contains('@'))
            .collect();
        let key = format!("drill/state/{}", there.replace('.', "/"));
        assert_eq!(
            states,
            ["drill/state/0/bucket", key.as_str()],
            "round {round}"
        );
        assert_eq!(
            std::fs::read_to_string(&book).unwrap(),
            "made\n",
            "round {round}"
        );
    }
    clouded.run(0, &["preflight"]);
    clouded.run(0, &["down"]);
}

//! `state list|versions|pull|restore|locks --target T`: the states of a target, without OpenTofu and without its key.

use crate::drill::Drill;
use crate::gate::Scene;
use crate::published::conforms;

const TARGET: [&str; 2] = ["--target", "drill"];

fn with(words: &[&str]) -> Vec<String> {
    let all = words.iter().chain(&TARGET);
    all.map(|word| (*word).to_owned()).collect()
}

fn json(drill: &Drill, words: &[&str]) -> serde_json::Value {
    let words = with(words);
    drill.json(0, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn run(drill: &Drill, code: i32, words: &[&str]) -> test_support::Outcome {
    let words = with(words);
    drill.run(code, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A step whose state has an earlier version, and one beside it.
fn built() -> Drill {
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\n[[phase.step]]\nname = \"a\"\ntofu = \"a\"\n[[phase.step]]\nname = \"b\"\ntofu = \"b\"\n",
        &[("b", "resource \"terraform_data\" \"it\" {}\n")],
    );
    for value in ["one", "two"] {
        let text = format!("resource \"terraform_data\" \"it\" {{ input = \"{value}\" }}\n");
        drill.write("a/main.tf", &text);
        drill.up();
    }
    drill
}

/// Case L11: an earlier state is put back under the target's lock, the target's name typed, what it replaces is kept; preflight
/// knows the difference, and `accept` is the way on that was named.
#[test]
fn states_of_a_target_are_listed_pulled_and_put_back() {
    let drill = built();
    let states = json(&drill, &["state", "list"]);
    conforms("state-list", &states);
    let paths: Vec<_> = states["states"]
        .as_array()
        .unwrap()
        .iter()
        .map(|state| state["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["0/a", "0/b"]);
    let under = run(&drill, 0, &["state", "list", "0/b"]).stdout;
    assert!(under.contains("0/b") && !under.contains("0/a"), "{under}");
    assert_eq!(
        run(&drill, 0, &["state", "locks"]).stdout,
        "no state is locked\n"
    );
    let versions = json(&drill, &["state", "versions", "0.a"]);
    conforms("state-versions", &versions);
    let now = versions["serial"].as_u64().unwrap();
    let earlier = versions["versions"].as_array().unwrap();
    assert!(!earlier.is_empty(), "{versions}");
    let earlier = earlier.last().unwrap()["version"]
        .as_str()
        .unwrap()
        .to_owned();
    let pulled = run(&drill, 0, &["state", "pull", "0.a"]).stdout;
    assert!(pulled.contains("\"two\""), "{pulled}");
    run(
        &drill,
        0,
        &[
            "state",
            "pull",
            "0.a",
            "--version",
            &earlier,
            "--into",
            "old.tfstate",
        ],
    );
    let old = std::fs::read_to_string(drill.dir().join("old.tfstate")).unwrap();
    assert!(old.contains("\"one\"") && !old.contains("\"two\""), "{old}");
    for (code, words) in [
        (2, &["state", "pull", "edge"][..]),
        (1, &["state", "pull", "0.c"]),
        (1, &["state", "pull", "0.a", "--version", "99"]),
        (2, &["state", "list", "--server", "http://127.0.0.1:1"]),
        // Nobody can be asked, and what is confirmed is another thing.
        (5, &["state", "restore", "0.a", "--version", &earlier]),
        (
            5,
            &[
                "state",
                "restore",
                "0.a",
                "--version",
                &earlier,
                "--confirm",
                "0.a",
            ],
        ),
    ] {
        run(&drill, code, words);
    }
    assert_eq!(json(&drill, &["state", "versions", "0.a"])["serial"], now);

    // A state of another step is another lineage.
    run(
        &drill,
        0,
        &["state", "pull", "0.b", "--into", "other.tfstate"],
    );
    let refused = run(
        &drill,
        5,
        &[
            "state",
            "restore",
            "0.a",
            "--file",
            "other.tfstate",
            "--confirm",
            "drill",
        ],
    )
    .stderr;
    assert!(
        refused.contains("another lineage") && refused.contains("--lineage"),
        "{refused}"
    );

    let restored = run(
        &drill,
        0,
        &[
            "state",
            "restore",
            "0.a",
            "--version",
            &earlier,
            "--confirm",
            "drill",
        ],
    )
    .stdout;
    assert!(
        restored.contains("rebuild accept 0 --target drill"),
        "{restored}"
    );
    assert_eq!(run(&drill, 0, &["state", "pull", "0.a"]).stdout, old);
    let kept = json(&drill, &["state", "versions", "0.a"]);
    assert!(
        kept["versions"]
            .to_string()
            .contains(&format!("\"version\":\"{now}\"")),
        "{kept}"
    );
    let stopped = run(&drill, 3, &["preflight"]).stdout;
    assert!(stopped.contains("serial-differs"), "{stopped}");
    // It goes forward again in the same way.
    let newest = now.to_string();
    run(
        &drill,
        0,
        &[
            "state",
            "restore",
            "0.a",
            "--version",
            &newest,
            "--confirm",
            "drill",
        ],
    );
    run(&drill, 0, &["preflight"]);
    run(
        &drill,
        0,
        &[
            "state",
            "restore",
            "0.a",
            "--version",
            &earlier,
            "--confirm",
            "drill",
        ],
    );
    run(&drill, 0, &["accept", "0", "--reason", "gone back by hand"]);
    run(&drill, 0, &["preflight"]);
    drill.up();
    run(&drill, 0, &["down"]);
    assert_eq!(
        run(&drill, 0, &["state", "list"]).stdout,
        "no state is there\n"
    );
}

/// Case L9: while a call works on a target its lock shows, and nothing is put back beneath it. What was never built has no states.
#[test]
fn a_target_that_is_worked_on_is_shown_and_left_alone() {
    let scene = Scene::clear();
    let started = scene.start_creating(&["up"]);
    let locks = json(&scene.drill, &["state", "locks"]);
    conforms("state-locks", &locks);
    assert_eq!(locks["locks"].as_array().unwrap().len(), 1, "{locks}");
    assert_eq!(locks["locks"][0]["lock"]["Operation"], "OperationTypeApply");
    let path = locks["locks"][0]["path"].as_str().unwrap();
    let state = "{\"version\":4,\"serial\":1,\"lineage\":\"l\",\"outputs\":{},\"resources\":[]}";
    scene.drill.write("some.tfstate", state);
    let restore = [
        "state",
        "restore",
        path,
        "--file",
        "some.tfstate",
        "--confirm",
        "drill",
    ];
    let said = run(&scene.drill, 4, &restore).stderr;
    assert!(said.contains("`up`"), "{said}");
    scene.gate.open();
    started.wait().expect_code(0);
    scene.expect_built();
    let empty = Drill::of(
        "[[phase]]\nid = \"0\"\n[[phase.step]]\nname = \"a\"\ntofu = \"a\"\n",
        &[("a", "")],
    );
    assert_eq!(
        run(&empty, 0, &["state", "list"]).stdout,
        "no state is there\n"
    );
}

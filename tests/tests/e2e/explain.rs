//! `explain`: one page on where a target is, from what is recorded; the target is not looked at.

use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::stage::{Stage, snapshot};

fn explained(drill: &crate::drill::Drill) -> Value {
    let before = snapshot(&drill.world.state_home());
    let document = drill.json(0, &["explain", "--target", "drill"]);
    let text = drill.run(0, &["explain", "--target", "drill"]).stdout;
    // Every command that comes next is on the page.
    for next in document["next"].as_array().expect("a list") {
        let command = next["command"].as_str().expect("a command");
        assert!(text.contains(command), "{command}: {text}");
    }
    assert_eq!(
        snapshot(&drill.world.state_home()),
        before,
        "it changed something"
    );
    document
}

fn commands(document: &Value) -> Vec<&str> {
    let next = document["next"].as_array().expect("a list");
    next.iter()
        .map(|next| next["command"].as_str().expect("a command"))
        .collect()
}

#[test]
fn drift_is_told_as_the_last_preflight_saw_it() {
    let (drill, cloud) = Cloud::drill(
        "[[phase]]\nid = \"1a\"\ntitle = \"edge\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n",
        &[(
            "edge",
            "resource \"test_object\" \"a\" {\n  name = \"a\"\n  content = \"x\"\n}\n",
        )],
    );
    let empty = explained(&drill);
    assert_eq!(empty["state"], "empty");
    assert_eq!(commands(&empty), ["rebuild up --target drill"]);
    drill.up();
    cloud.set("a", "content", "hand-made");
    // Nobody has looked yet.
    let before = explained(&drill);
    assert_eq!(before["phases"][0]["verdict"], Value::Null);
    assert_eq!(before["state"], "finished");
    drill.run(3, &["preflight", "--target", "drill"]);
    let after = explained(&drill);
    let phase = &after["phases"][0];
    assert_eq!(phase["verdict"], "drifted", "{after:#}");
    let found = phase["findings"][0].as_str().expect("a finding");
    assert!(found.contains("test_object.a content"), "{found}");
    assert!(
        !after.to_string().contains("hand-made"),
        "values are not kept"
    );
    assert!(after["seen"].is_string());
    assert!(commands(&after).contains(&"rebuild repair 1a --target drill"));
    cloud.set("a", "content", "x");
    drill.run(0, &["preflight", "--target", "drill"]);
    assert_eq!(explained(&drill)["phases"][0]["verdict"], "clean");
}

#[test]
fn what_is_unfinished_and_what_is_defined_no_more_is_named() {
    let stage = Stage::of(&["0: a", "1: b"]);
    stage.on("apply-1-b");
    stage.up_to(1, &[]);
    let failed = explained(&stage);
    assert_eq!(failed["state"], "unfinished");
    assert!(
        failed["unfinished"]
            .as_str()
            .expect("a sentence")
            .contains("step `1.b`")
    );
    assert!(
        failed["phases"][1]["steps"][0]["unfinished"]
            .as_str()
            .expect("a sentence")
            .starts_with("failed"),
        "{failed:#}"
    );
    assert_eq!(
        commands(&failed),
        [
            "rebuild up --target drill --resume",
            "rebuild down --target drill"
        ]
    );
    stage.off("apply-1-b");
    stage.up_to(0, &["--resume"]);
    let phase = stage.phase("0", "a");
    stage.define(&phase);
    let removed = explained(&stage);
    let step = &removed["phases"][1]["steps"][0];
    assert_eq!(
        (&step["stands"], &step["defined"]),
        (&json!(true), &json!(false))
    );
    assert!(commands(&removed).contains(&"rebuild up --target drill --prune"));
    assert!(step["since"].is_string() && step["bundle"].is_string());
    // Definitions that can't be read take nothing away.
    stage.write("rebuild.toml", "[platform]\nname = \"lab\"\nnonsense = 1\n");
    let broken = explained(&stage);
    assert!(broken["n_faults"].as_u64() > Some(0), "{broken:#}");
    assert_eq!(broken["phases"].as_array().expect("a list").len(), 2);
    assert_eq!(commands(&broken)[0], "rebuild check");
}

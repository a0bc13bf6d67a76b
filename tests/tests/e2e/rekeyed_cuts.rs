//! A change of keys and a state that is being written, each cut while the other one is asked for.

use serde_json::Value;
use test_support::{Ended, Outcome};

use crate::cloud::Cloud;
use crate::drill::Drill;

const PHASE: &str =
    "[[phase]]\nid = \"1\"\ntitle = \"edge\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n";
const OBJECT: &str =
    "resource \"test_object\" \"a\" {\n  name    = \"a\"\n  content = \"as written\"\n}\n";
const FORMER: &str = "[encryption]\npassphrase = { env = \"FORMER\" }\n";
const TODAY: &str = "[encryption]\npassphrase = { env = \"TODAY\" }\n";
const BOTH: &str =
    "[encryption]\npassphrase = { env = \"TODAY\" }\nformer = { env = \"FORMER\" }\n";
const ACCEPT: [&str; 4] = ["accept", "1", "--reason", "wanted"];
const REKEY: [&str; 4] = ["state", "rekey", "--former-env", "FORMER"];
/// A write of the record tells that a state is about to be written, and the state is.
const TOLD: &str = "kill-all@spawn.before tofu apply#1";
const WRITTEN: &str = "kill-all@store.put.after state/1/edge#1";

struct Scene {
    drill: Drill,
    cloud: Cloud,
}

impl Scene {
    /// One object that stands, encrypted with the former passphrase.
    fn new() -> Self {
        let (drill, cloud) = Cloud::drill(PHASE, &[("edge", OBJECT)]);
        let scene = Self { drill, cloud };
        scene.names(FORMER);
        scene.run(0, &["up", "--no-pause"]);
        scene
    }

    /// From now on the target's file names these passphrases.
    fn names(&self, encryption: &str) {
        self.drill.write("targets/drill.toml", encryption);
    }

    fn call(&self, words: &[&str], orders: &str) -> Outcome {
        let all = [words, &["--target", "drill"]].concat();
        self.drill
            .rebuild(&all)
            .env("FORMER", "the former passphrase of a test")
            .env("TODAY", "the passphrase of today of a test")
            .env(fault::VARIABLE, orders)
            .run()
    }

    fn run(&self, code: i32, words: &[&str]) -> String {
        let outcome = self.call(words, "");
        outcome.expect_code(code);
        format!("{}{}", outcome.stdout, outcome.stderr)
    }

    fn killed(&self, words: &[&str], hurt: &str) {
        let outcome = self.call(words, &format!("hurt={hurt}"));
        let said = &outcome.stderr;
        assert_eq!(outcome.ended, Ended::Signal(9), "{hurt}: {said}");
    }

    /// Somebody changes the object, which is to be accepted.
    fn drifts(&self, content: &str) {
        self.cloud.set("a", "content", content);
    }

    /// A change of keys is refused, with what to type, and is not begun.
    fn expect_no_rekey(&self, words: &[&str]) {
        let keys = || std::fs::read(self.drill.store().join("keys.json")).expect("keys");
        let before = keys();
        let refused = self.run(3, &REKEY);
        for word in words {
            assert!(refused.contains(word), "{word}: {refused}");
        }
        assert_eq!(keys(), before);
    }

    /// The change of keys comes to its end; today's passphrase alone opens everything, and nothing is left to explain.
    fn expect_rekeyed(&self) {
        self.names(TODAY);
        self.run(0, &REKEY);
        self.run(0, &["preflight"]);
        let status = self.run(0, &["status", "--output", "json"]);
        let status: Value = serde_json::from_str(&status).expect("a document");
        assert_eq!(status["run"]["standing"][0]["writing"], Value::Null);
        self.run(0, &["down"]);
        assert!(!self.cloud.has("a"));
    }
}

/// Case K1: a change of keys is killed behind the write of a state that the record does not know yet: with both
/// passphrases every command goes on.
#[test]
fn a_state_that_a_killed_change_has_turned_is_explained_to_every_command() {
    let scene = Scene::new();
    scene.names(TODAY);
    scene.killed(&REKEY, WRITTEN);
    scene.names(BOTH);
    scene.run(0, &["preflight"]);
    let none = scene.run(3, &["up", "--no-pause", "--resume"]);
    assert!(none.contains("no run is unfinished"), "{none}");
    scene.drifts("one");
    scene.run(0, &ACCEPT);
    scene.drifts("two");
    scene.run(0, &["repair", "1"]);
    assert_eq!(scene.cloud.object("a")["content"], "as written");
    scene.expect_rekeyed();
}

/// Cases K1, L7: what an `accept` was writing when it was killed is seen to its end before the key is changed, and within a
/// change of keys as well.
#[test]
fn a_cut_write_is_seen_to_its_end_before_the_key_is_changed() {
    for point in [TOLD, WRITTEN] {
        let scene = Scene::new();
        scene.drifts("one");
        scene.killed(&ACCEPT, point);
        scene.names(TODAY);
        scene.expect_no_rekey(&[
            "step `1.edge`",
            "former passphrase",
            "rebuild preflight --target drill",
        ]);
        scene.names(FORMER);
        // It tells the drift that is left, or that there is none.
        scene.run(if point == TOLD { 3 } else { 0 }, &["preflight"]);
        scene.run(0, &ACCEPT);
        scene.names(TODAY);
        scene.killed(&REKEY, WRITTEN);
        scene.names(BOTH);
        // It takes over the lock of the dead, which writes as well.
        scene.run(0, &["preflight"]);
        scene.drifts("two");
        scene.killed(&ACCEPT, point);
        scene.expect_no_rekey(&["both passphrases", "rebuild preflight --target drill"]);
        scene.run(0, &ACCEPT);
        scene.expect_rekeyed();
    }
}

/// Cases K1, L7: an apply that was cut within a change of keys is brought to its end with both passphrases by `down`.
#[test]
fn a_cut_apply_within_a_change_of_keys_is_torn_down_with_both() {
    let scene = Scene::new();
    scene.names(TODAY);
    scene.killed(&REKEY, WRITTEN);
    scene.names(BOTH);
    let other = OBJECT.replace("as written", "otherwise");
    // It takes over the lock of the dead, which writes as well.
    scene.run(0, &["preflight"]);
    let module = scene.cloud.module(&other);
    scene.drill.write("edge/main.tf", &module);
    scene.killed(&["up", "--no-pause"], WRITTEN);
    scene.expect_no_rekey(&["both passphrases", "rebuild down --target drill"]);
    scene.run(0, &["down"]);
    assert!(!scene.cloud.has("a"));
    scene.names(TODAY);
    scene.run(0, &REKEY);
    scene.run(0, &["up", "--no-pause"]);
    scene.run(0, &["down"]);
}

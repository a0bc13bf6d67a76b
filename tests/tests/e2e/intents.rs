//! A state that a command other than an apply was writing when it was killed: `accept`, `repair`, `--keep` and an import
//! are gone on with, on the same machine and on another one, and nothing of it stays unexplained.

use serde_json::{Value, json};
use test_support::{Ended, Outcome};

use crate::cloud::Cloud;
use crate::drill::Drill;
use crate::gate::touch;

const PHASE: &str =
    "[[phase]]\nid = \"1\"\ntitle = \"edge\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n";
const UP: [&str; 2] = ["up", "--no-pause"];
const RESUME: [&str; 3] = ["up", "--no-pause", "--resume"];
/// Until a command ends well a person types no more than this.
const MOST_CALLS: usize = 5;

/// Where a command is killed that writes a state.
#[derive(Clone, Copy, Debug)]
enum At {
    /// The record says that it is about to.
    Told,
    /// OpenTofu asks for the write.
    Asked,
    /// The state is in the store, and nobody knows.
    Written,
    /// OpenTofu has ended, and the record does not say what it came to.
    Ended,
}

/// Who goes on after a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The machine that was killed at.
    Same,
    /// Another one, which reaches the store and nothing else of it.
    Other,
}

/// A command that writes a state, and how a round of it comes about.
struct Intent<'a> {
    /// The subcommand of OpenTofu that writes.
    writes: &'a str,
    /// Brings about what the command is for; gives the command.
    begins: &'a dyn Fn(&Machines, usize) -> Vec<String>,
    /// What holds once it has come to its end.
    ended: &'a dyn Fn(&Machines, usize),
    /// Where it is killed, with whom or what, and who goes on.
    rounds: &'a [(At, &'a str, Next)],
}

/// One platform, called from several machines that share its store.
struct Machines {
    drill: Drill,
    cloud: Cloud,
    /// Which one calls.
    at: usize,
}

impl Machines {
    fn new() -> Self {
        let (drill, cloud) = Cloud::drill(PHASE, &[("edge", &object("a"))]);
        let target = format!(
            "[store]\nlocal = {{ dir = {:?} }}\n[encryption]\npassphrase = {{ env = \"PASS\" }}\n",
            drill.world.root().join("store").display().to_string()
        );
        drill.write("targets/drill.toml", &target);
        let at = 0;
        Self { drill, cloud, at }
    }

    fn define(&self, body: &str) {
        self.drill.write("edge/main.tf", &self.cloud.module(body));
    }

    /// Calls `rebuild` on the machine of now, with orders of what is to hurt it.
    fn call(&self, words: &[impl AsRef<str>], orders: &str) -> Outcome {
        let home = self.drill.world.root().join(format!("state-{}", self.at));
        let place = format!("machine=machine-{};boot=boot;{orders}", self.at);
        let mut all: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        all.extend(["--target", "drill"]);
        self.drill
            .rebuild(&all)
            .env("XDG_STATE_HOME", home)
            .env("PASS", "a passphrase of a test")
            .env("__REBUILD_LEASE_MS", "300")
            .env(fault::VARIABLE, place)
            .run()
    }

    fn run(&self, code: i32, words: &[impl AsRef<str>]) -> String {
        let outcome = self.call(words, "");
        outcome.expect_code(code);
        outcome.stderr
    }

    fn status(&self) -> Value {
        let status = self.call(&["status", "--output", "json"], "");
        serde_json::from_str(&status.stdout).expect("a document")
    }

    /// Types the command until it ends well, and what it says in between.
    fn goes_on(&self, words: &[String]) {
        let mut said = String::new();
        for _ in 0..MOST_CALLS {
            let outcome = self.call(words, "");
            said.push_str(&outcome.stderr);
            let hint = outcome.stderr.lines().find(|line| line.starts_with("hint"));
            match (outcome.code(), hint.unwrap_or_default()) {
                (Some(0), _) => return,
                (Some(4), hint) if hint.contains("rebuild unlock --target drill") => {
                    self.run(0, &["unlock"]);
                }
                (Some(3), hint) if hint.contains("rebuild suspects --target drill --lost-host") => {
                    let lost = format!("machine-{}", self.at - 1);
                    assert!(hint.contains(&lost), "{hint}");
                    self.run(0, &["suspects", "--lost-host", &lost]);
                }
                // The lost machine was making anew what its state has under the same id.
                (Some(3), hint) if hint.contains("--import ADDRESS=ID") => {
                    self.run(0, &["suspects", "--import", "test_object.a=a"]);
                }
                _ => break,
            }
        }
        panic!("`{}` never ends well: {said}", words.join(" "));
    }

    /// Everything is explained, and preflight finds it as the record has it.
    fn proven(&self, intent: &Intent<'_>, round: usize) {
        if self.status()["state"] == "unfinished" {
            self.run(0, &RESUME);
        }
        self.run(0, &["preflight"]);
        let status = self.status();
        assert_eq!(status["state"], "finished");
        let entry = &status["run"]["standing"][0];
        assert_eq!(entry["writing"], Value::Null, "{entry:#}");
        (intent.ended)(self, round);
    }
}

/// The point of a call at which it is killed, found in the points of one that came to its end.
fn point(log: &str, writes: &str, at: At) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let begun = format!("spawn.before tofu {writes}#1");
    let begun = lines.iter().position(|line| *line == begun);
    let (before, after) = lines.split_at(begun.expect("a state is written"));
    let ended = format!("child.end tofu {writes}#1");
    let is = |start: &'static str| move |line: &&&str| line.starts_with(start);
    let found = match at {
        At::Told => before.iter().rfind(is("store.put.after run/")),
        At::Asked => after.iter().find(is("answer.before POST")),
        At::Written => after.iter().find(is("store.put.after state/1/edge#")),
        At::Ended => {
            let mut behind = after.iter().skip_while(|line| **line != ended);
            behind.find(is("store.put.before run/"))
        }
    };
    (*found.expect("a point of the call")).to_owned()
}

/// Kills the command at each of its points, and lets the same command go on.
fn killed_in_each_round(intent: &Intent<'_>) {
    let mut machines = Machines::new();
    machines.run(0, &UP);
    let log = machines.drill.world.root().join("points");
    let words = (intent.begins)(&machines, 0);
    let whole = machines.call(&words, &format!("log={}", log.display()));
    whole.expect_code(0);
    let log = std::fs::read_to_string(log).expect("points");
    machines.proven(intent, 0);
    for (round, (at, way, next)) in intent.rounds.iter().enumerate() {
        let words = (intent.begins)(&machines, round + 1);
        let point = point(&log, intent.writes, *at);
        let killed = machines.call(&words, &format!("hurt={way}@{point}"));
        let said = &killed.stderr;
        assert_eq!(killed.ended, Ended::Signal(9), "{way}@{point}: {said}");
        if *next == Next::Other {
            machines.at += 1;
        }
        machines.goes_on(&words);
        machines.proven(intent, round + 1);
    }
    machines.run(0, &["down"]);
}

fn object(name: &str) -> String {
    object_with(name, "as written", "")
}

fn object_with(name: &str, content: &str, more: &str) -> String {
    format!(
        "resource \"test_object\" \"{name}\" {{\n  name    = \"{name}\"\n  content = \"{content}\"\n{more}}}\n"
    )
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Cases L1, L6, L7: `accept` writes a state that nobody applied.
#[test]
fn an_accept_that_was_killed_is_gone_on_with() {
    let drift = |round: usize| format!("by hand {round}");
    killed_in_each_round(&Intent {
        writes: "apply",
        begins: &|machines, round| {
            machines.cloud.set("a", "content", drift(round));
            words("accept 1 --reason wanted")
        },
        ended: &|machines, round| assert_eq!(machines.cloud.object("a")["content"], drift(round)),
        rounds: &[
            (At::Told, "kill-all", Next::Other),
            (At::Asked, "kill", Next::Same),
            (At::Written, "kill-all", Next::Other),
            (At::Ended, "kill", Next::Same),
        ],
    });
}

/// Cases L1, L6, L7: a repair makes anew what is gone.
#[test]
fn a_repair_that_was_killed_is_gone_on_with_on_any_machine() {
    killed_in_each_round(&Intent {
        writes: "apply",
        begins: &|machines, _| {
            machines.cloud.delete("a");
            words("repair 1")
        },
        ended: &|machines, _| assert!(machines.cloud.has("a")),
        rounds: &[
            (At::Told, "kill-all", Next::Same),
            (At::Asked, "kill-all", Next::Other),
            (At::Written, "kill-all", Next::Same),
            (At::Ended, "kill", Next::Other),
        ],
    });
}

/// Cases L1, L6, L7: what is tainted and kept is not made again, whenever the mark is taken off.
#[test]
fn keeping_an_object_is_gone_on_with_after_a_kill() {
    killed_in_each_round(&Intent {
        writes: "untaint",
        begins: &|machines, round| {
            let half = |n| object_with(&format!("o{n}"), "half: made", "");
            machines.define(&(object("a") + &(0..=round).map(half).collect::<String>()));
            machines.run(1, &UP);
            words(&format!(
                "up --no-pause --resume --keep test_object.o{round}"
            ))
        },
        ended: &|machines, round| {
            let created = format!("create o{round}");
            let calls = machines.cloud.calls();
            assert_eq!(calls.iter().filter(|call| **call == created).count(), 1);
        },
        rounds: &[
            (At::Told, "kill-all", Next::Other),
            (At::Asked, "kill-all", Next::Same),
            (At::Written, "kill-all", Next::Other),
            (At::Ended, "kill", Next::Same),
        ],
    });
}

/// Cases R4, L6, L7: an object is taken into its state once, whenever the import is killed; the same import says so.
#[test]
fn an_import_that_was_killed_is_gone_on_with() {
    killed_in_each_round(&Intent {
        writes: "import",
        begins: &|machines, round| {
            let may_end = machines.cloud.file("may-end");
            let waits = format!("  waits   = {:?}\n", may_end.display().to_string());
            let waiting = |n| object_with(&format!("o{n}"), "as written", &waits);
            machines.define(&(object("a") + &(0..=round).map(waiting).collect::<String>()));
            let _ = std::fs::remove_file(&may_end);
            let name = format!("o{round}");
            let started = format!("child.event tofu apply apply_start test_object.{name}");
            let killed = machines.call(&UP, &format!("hurt=kill-all@{started}#1"));
            assert_eq!(killed.ended, Ended::Signal(9), "{}", killed.stderr);
            // It may not have come that far.
            let made = json!({ "name": name, "content": "as written" });
            machines.cloud.make(&name, made);
            touch(&may_end);
            words(&format!("suspects --import test_object.{name}={name}"))
        },
        ended: &|machines, round| {
            let created = format!("create o{round}");
            let calls = machines.cloud.calls();
            assert!(calls.iter().filter(|call| **call == created).count() <= 1);
        },
        rounds: &[
            (At::Told, "kill-all", Next::Same),
            (At::Asked, "kill", Next::Same),
            (At::Written, "kill-all", Next::Other),
            (At::Ended, "kill", Next::Same),
        ],
    });
}

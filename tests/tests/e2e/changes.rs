//! Every change of definitions that people make to a platform that stands, against every command: what comes of it,
//! and that no object is ever lost.
//!
//! A small cloud knows the truth: after each command every object in it is in exactly one state, and the other way
//! round. One platform is built once for each worker, and put back to how it was before each row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::Value;
use test_support::Outcome;

use crate::cloud::Cloud;
use crate::drill::Drill;
use crate::stage::snapshot;

/// What a row expects.
struct Row {
    /// The change.
    name: &'static str,
    /// Makes it.
    change: fn(&Table),
    /// The exit codes of `preflight`, `plan --detailed-exitcode`, `up` and `up --resume`; `down` always ends well.
    codes: [i32; 4],
    /// What the plan must say somewhere, as a JSON pointer and a text in it.
    plan: (&'static str, &'static str),
    /// After `up`: the objects that there are beside, and without, those of the base. Nothing else is made or unmade.
    made: &'static [&'static str],
    gone: &'static [&'static str],
    /// What ends a stopped `up` well.
    way_on: Option<fn(&Table) -> Vec<&'static str>>,
    /// What `up --resume` says.
    resumed: &'static str,
}

const BASE: [&str; 4] = ["app", "edge", "old", "two"];

fn rows() -> Vec<Row> {
    let row = |name, change, codes, plan| Row {
        name,
        change,
        codes,
        plan,
        made: &[],
        gone: &[],
        way_on: None,
        resumed: "",
    };
    vec![
        Row {
            made: &["new"],
            resumed: "step `1.new` is new",
            ..row(
                "step added",
                |table| {
                    table.module("new", &object("new"));
                    table.define(
                        &[STEP_EDGE, STEP_OLD, "name = \"new\"\ntofu = \"new\""],
                        STEPS_2,
                    );
                },
                [0, 6, 0, 3],
                ("/phases/0/steps/2/counts/create", "1"),
            )
        },
        Row {
            made: &["new"],
            ..row(
                "step added ahead of where the run stopped",
                |table| {
                    table.module("new", &object("new"));
                    let mut steps = STEPS_2.to_vec();
                    steps.push("name = \"new\"\ntofu = \"new\"");
                    table.define(STEPS_1, &steps);
                },
                [0, 6, 0, 0],
                ("/phases/1/steps/2/counts/create", "1"),
            )
        },
        Row {
            gone: &["old", "two"],
            way_on: Some(|_| vec!["up", "--prune"]),
            resumed: "step `1.old` is gone",
            ..row(
                "step removed",
                |table| table.define(&[STEP_EDGE], STEPS_2),
                [3, 6, 3, 3],
                ("/removed/0", "1.old"),
            )
        },
        Row {
            resumed: "step `1.young` is new",
            ..row(
                "step renamed",
                |table| {
                    let young = "name = \"young\"\ntofu = \"old\"\nmoved_from = \"1.old\"";
                    table.define(&[STEP_EDGE, young], STEPS_2);
                },
                [0, 6, 0, 3],
                ("/moved/0/to", "1.young"),
            )
        },
        Row {
            gone: &[],
            way_on: Some(|table| {
                let young = "name = \"young\"\ntofu = \"old\"\nmoved_from = \"1.old\"";
                table.define(&[STEP_EDGE, young], STEPS_2);
                vec!["up"]
            }),
            resumed: "step `1.old` is gone",
            ..row(
                "step renamed, without a word of it",
                |table| {
                    let young = "name = \"young\"\ntofu = \"old\"";
                    table.define(&[STEP_EDGE, young], STEPS_2);
                },
                [3, 6, 3, 3],
                ("/removed/0", "1.old"),
            )
        },
        Row {
            resumed: "step `1.old` is gone",
            ..row(
                "step moved to another phase",
                |table| {
                    let mut steps = STEPS_2.to_vec();
                    steps.push("name = \"old\"\ntofu = \"old\"\nmoved_from = \"1.old\"");
                    table.define(&[STEP_EDGE], &steps);
                },
                [0, 6, 0, 3],
                ("/moved/0/to", "2.old"),
            )
        },
        Row {
            resumed: "was moved",
            ..row(
                "steps reordered",
                |table| table.define(&[STEP_OLD, STEP_EDGE], STEPS_2),
                [0, 0, 0, 3],
                ("/verdict", "unchanged"),
            )
        },
        Row {
            resumed: "step `1.half` is new",
            ..row(
                "step split in two",
                |table| {
                    // The other half takes its object first, so that it is in a state at every instant.
                    table.module(
                        "half",
                        &format!(
                            "import {{\n  to = test_object.two\n  id = \"two\"\n}}\n{}",
                            named("two", "two")
                        ),
                    );
                    table.module(
                        "old",
                        &format!(
                            "{}removed {{\n  from = test_object.two\n  lifecycle {{ destroy = false }}\n}}\n",
                            named("it", "old")
                        ),
                    );
                    let half = "name = \"half\"\ntofu = \"half\"";
                    table.define(&[STEP_EDGE, half, STEP_OLD], STEPS_2);
                },
                [0, 6, 0, 3],
                ("/phases/0/steps/1/changes/0/address", "test_object.two"),
            )
        },
        Row {
            // Its objects can't be destroyed without it: the plan fails, and nothing is lost.
            gone: &["old", "two"],
            way_on: Some(|table| {
                table.module("old", "");
                vec!["up", "--resume"]
            }),
            resumed: "have changed since",
            ..row(
                "provider removed",
                |table| {
                    table
                        .drill
                        .write("old/main.tf", "output \"left\" { value = 1 }\n");
                },
                [0, 1, 1, 0],
                ("/phases/0/steps/1/verdict", "failed"),
            )
        },
        Row {
            resumed: "have changed since",
            ..row(
                "variable added",
                |table| {
                    table.value("size", "large");
                    table.module(
                        "edge",
                        &EDGE
                            .replace("var.zone", "\"${var.zone} ${var.size}\"")
                            .replace(
                                "variable \"zone\" {}",
                                "variable \"zone\" {}\nvariable \"size\" {}",
                            ),
                    );
                },
                [0, 6, 0, 0],
                ("/phases/0/steps/0/counts/update", "1"),
            )
        },
        Row {
            // Case N4: nothing sets it, which is an error before anything runs.
            way_on: Some(|table| {
                table.module("edge", EDGE);
                vec!["up"]
            }),
            resumed: "size",
            ..row(
                "variable added that nothing sets",
                |table| table.module("edge", &format!("variable \"size\" {{}}\n{EDGE}")),
                [2, 2, 2, 2],
                ("/error/exit", "2"),
            )
        },
        Row {
            resumed: "have changed since",
            ..row(
                "module source changed",
                |table| table.module("edge", &EDGE.replace("../modules/one", "../modules/other")),
                [0, 6, 0, 0],
                (
                    "/phases/0/steps/0/changes/0/address",
                    "module.it.test_object.it",
                ),
            )
        },
        Row {
            resumed: "have changed since",
            ..row(
                "target value changed",
                |table| table.value("zone", "elsewhere"),
                [0, 6, 0, 0],
                ("/phases/0/steps/0/counts/update", "1"),
            )
        },
        row(
            "secret rotated",
            |table| *table.token.lock().unwrap() = "another secret".to_owned(),
            [0, 6, 0, 0],
            ("/phases/1/steps/1/verdict", "changes"),
        ),
    ]
}

const STEP_EDGE: &str = "name = \"edge\"\ntofu = \"edge\"";
const STEP_OLD: &str = "name = \"old\"\ntofu = \"old\"";
const STEPS_1: &[&str] = &[STEP_EDGE, STEP_OLD];
const STEPS_2: &[&str] = &[
    "name = \"app\"\ntofu = \"app\"\nvars = { under = \"${step.1.edge.id}\" }",
    "name = \"prog\"\nenv = { TOKEN = \"${secret.token}\" }\nexec = { apply = [\"./prog\", \"apply\"], \
     verify = [\"./prog\", \"verify\"], teardown = [\"./prog\", \"teardown\"] }",
];

const EDGE: &str = "variable \"zone\" {}\nmodule \"it\" {\n  source = \"../modules/one\"\n  name = \"edge\"\n  \
                    content = var.zone\n}\noutput \"id\" { value = module.it.id }\n";

fn named(resource: &str, object: &str) -> String {
    format!("resource \"test_object\" \"{resource}\" {{ name = \"{object}\" }}\n")
}

fn object(name: &str) -> String {
    named("it", name)
}

/// A module that others use, and what makes it differ from its neighbour.
fn module(word: &str) -> String {
    format!(
        "terraform {{\n  required_providers {{\n    test = {{ source = \"rebuild/test\" }}\n  }}\n}}\n\
         variable \"name\" {{}}\nvariable \"content\" {{}}\nresource \"test_object\" \"it\" {{\n  name = var.name\n  \
         content = \"{word} ${{var.content}}\"\n}}\noutput \"id\" {{ value = test_object.it.id }}\n"
    )
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A platform of two phases, and what it was when it stood, and when it stood half.
struct Table {
    drill: Drill,
    cloud: Cloud,
    token: Mutex<String>,
    half: Files,
    whole: Files,
}

impl Table {
    fn built() -> Self {
        let (drill, cloud) = Cloud::drill("", &[]);
        let mut table = Self {
            drill,
            cloud,
            token: Mutex::new("a first secret".to_owned()),
            half: Files::new(),
            whole: Files::new(),
        };
        table.module("edge", EDGE);
        table.module(
            "old",
            &format!("{}{}", named("it", "old"), named("two", "two")),
        );
        table.module(
            "app",
            "variable \"under\" {}\nresource \"test_object\" \"it\" {\n  name = \"app\"\n  content = var.under\n}\n",
        );
        for (directory, word) in [("one", "first"), ("other", "second")] {
            table
                .drill
                .write(&format!("modules/{directory}/main.tf"), &module(word));
        }
        let program = table.drill.write(
            "prog",
            &format!(
                "#!/bin/sh\nset -eu\nfile={}\ncase $1 in\napply) printf %s \"$TOKEN\" > \"$file\" ;;\n\
                 verify) test -e \"$file\" ;;\nteardown) rm -f \"$file\" ;;\nesac\n",
                table.program_file().display()
            ),
        );
        crate::stage::executable(&program);
        table.define(STEPS_1, STEPS_2);
        table.value("zone", "here");
        table.expect(0, &["up", "--through", "1"]);
        table.half = table.files();
        table.expect(0, &["up", "--resume"]);
        table.whole = table.files();
        table.expect_whole("the base", &BASE);
        table
    }

    fn program_file(&self) -> PathBuf {
        self.drill.world.root().join("made-by-prog")
    }

    fn module(&self, name: &str, body: &str) {
        self.drill
            .write(&format!("{name}/main.tf"), &self.cloud.module(body));
    }

    fn define(&self, steps_1: &[&str], steps_2: &[&str]) {
        let mut text = String::new();
        for (id, steps) in [("1", steps_1), ("2", steps_2)] {
            text.push_str(&format!("[[phase]]\nid = \"{id}\"\n"));
            for step in steps {
                text.push_str(&format!("[[phase.step]]\n{step}\n"));
            }
        }
        self.cloud.platform(&self.drill, &text);
    }

    /// Adds or changes a value of the target.
    fn value(&self, name: &str, value: &str) {
        let zone = if name == "zone" { value } else { "here" };
        let more = if name == "zone" {
            String::new()
        } else {
            format!("{name} = \"{value}\"\n")
        };
        self.drill.write(
            "targets/drill.toml",
            &format!("[secrets]\ntoken = {{ env = \"TOKEN_OF_TODAY\" }}\n[values]\nzone = \"{zone}\"\n{more}"),
        );
    }

    fn run(&self, words: &[&str]) -> Outcome {
        let mut args = words.to_vec();
        args.splice(1..1, ["--target", "drill"]);
        if words[0] == "up" {
            args.push("--no-pause");
        }
        let token = self.token.lock().unwrap().clone();
        self.drill.rebuild(&args).env("TOKEN_OF_TODAY", token).run()
    }

    fn expect(&self, code: i32, words: &[&str]) -> Outcome {
        let outcome = self.run(words);
        outcome.expect_code(code);
        outcome
    }

    /// Where the platform, its store and its cloud are: what a row may change.
    fn places(&self) -> [PathBuf; 3] {
        [self.drill.dir(), self.drill.store(), self.cloud.file(".")]
    }

    fn files(&self) -> Files {
        self.places()
            .iter()
            .flat_map(|place| snapshot(place))
            .chain([(
                self.program_file(),
                std::fs::read(self.program_file()).unwrap_or_default(),
            )])
            .filter(|(path, bytes)| *path != self.program_file() || !bytes.is_empty())
            .collect()
    }

    /// Puts everything back to how it was.
    fn restore(&self, files: &Files) {
        *self.token.lock().unwrap() = "a first secret".to_owned();
        for (path, _) in self
            .files()
            .into_iter()
            .filter(|(path, _)| !files.contains_key(path))
        {
            std::fs::remove_file(path).unwrap();
        }
        for (path, bytes) in files {
            if std::fs::read(path).ok().as_ref() != Some(bytes) {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
        }
    }

    /// The objects in the cloud.
    fn objects(&self) -> BTreeSet<String> {
        std::fs::read_dir(self.cloud.file("."))
            .unwrap()
            .filter_map(|entry| {
                let name = entry.unwrap().file_name().to_string_lossy().into_owned();
                Some(name.strip_suffix(".json")?.to_owned())
            })
            .collect()
    }

    /// The objects in all states, each as often as it is there.
    fn held(&self) -> Vec<String> {
        let mut held = Vec::new();
        for state in self.drill.states() {
            let bytes = std::fs::read(self.drill.store().join("state").join(&state)).unwrap();
            let at = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            let state: Value = serde_json::from_slice(&bytes[at + 1..]).unwrap();
            for resource in state["resources"].as_array().unwrap() {
                for instance in resource["instances"].as_array().unwrap() {
                    let name = instance["attributes"]["name"].as_str().unwrap();
                    held.push(name.to_owned());
                }
            }
        }
        held.sort();
        held
    }

    /// Exactly these objects are there, and each is in exactly one state.
    fn expect_whole(&self, when: &str, objects: &[&str]) {
        let expected: BTreeSet<String> = objects.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(self.objects(), expected, "{when}: the cloud");
        assert_eq!(self.held(), Vec::from_iter(expected), "{when}: the states");
        let is_there = self.program_file().exists();
        assert_eq!(
            is_there,
            objects.contains(&"app"),
            "{when}: the program's own"
        );
    }

    fn try_row(&self, row: &Row) {
        let at = |command: &str| format!("{}, {command}", row.name);
        let [preflight, plan, up, resume] = row.codes;
        let expect = |code: i32, command: &str, outcome: &Outcome| {
            assert_eq!(outcome.code(), Some(code), "{}: {outcome:?}", at(command));
        };

        self.restore(&self.whole);
        (row.change)(self);
        let made_before = self.cloud.calls();
        expect(preflight, "preflight", &self.run(&["preflight"]));
        self.expect_whole(&at("preflight"), &BASE);

        let planned = self.run(&["plan", "--detailed-exitcode", "--output", "json"]);
        expect(plan, "plan", &planned);
        let report: Value = serde_json::from_str(&planned.stdout).unwrap();
        let (pointer, text) = row.plan;
        let found = report.pointer(pointer).map(ToString::to_string);
        assert!(
            found.as_ref().is_some_and(|found| found.contains(text)),
            "{}: {pointer} is {found:?} in {report:#}",
            at("plan")
        );
        self.expect_whole(&at("plan"), &BASE);

        let mut last = self.run(&["up"]);
        expect(up, "up", &last);
        if up != 0 {
            self.expect_whole(&at("a stopped up"), &BASE);
        }
        if let Some(way_on) = row.way_on {
            last = self.run(&way_on(self));
            expect(0, "the way on", &last);
        }
        let mut objects: Vec<&str> = BASE.iter().chain(row.made).copied().collect();
        objects.retain(|object| !row.gone.contains(object));
        self.expect_whole(&at("up"), &objects);
        let made: Vec<String> = self.cloud.calls().split_off(made_before.len());
        let lost_or_made = made.iter().filter(|call| !call.starts_with("update "));
        assert_eq!(
            lost_or_made.count(),
            row.made.len() + row.gone.len(),
            "{}: {made:?} in {last:?}",
            at("up")
        );

        self.restore(&self.whole);
        (row.change)(self);
        expect(0, "down", &self.run(&["down"]));
        self.expect_whole(&at("down"), &[]);

        self.restore(&self.half);
        (row.change)(self);
        let outcome = self.run(&["up", "--resume"]);
        expect(resume, "up --resume", &outcome);
        assert!(
            outcome.stderr.contains(row.resumed),
            "{}: {outcome:?}",
            at("up --resume")
        );
        let ahead = row.made.iter().filter(|_| resume == 0);
        let half = BASE.iter().filter(|name| resume == 0 || **name != "app");
        self.expect_whole(
            &at("up --resume"),
            &half.chain(ahead).copied().collect::<Vec<_>>(),
        );
    }
}

/// Every pair of a change and a command has the outcome that its row says, and none loses an object.
///
/// Cases N3, N4, T3, R5: what stands is torn down from what made it, whatever became of the definitions.
#[test]
fn no_change_of_definitions_loses_an_object_in_any_command() {
    let rows = Mutex::new(rows());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let table = Table::built();
                loop {
                    let row = rows.lock().unwrap_or_else(|e| e.into_inner()).pop();
                    let Some(row) = row else { return };
                    table.try_row(&row);
                }
            });
        }
    });
}

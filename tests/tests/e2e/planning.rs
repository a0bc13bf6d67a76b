//! `plan`: what `up` would change, on the real OpenTofu.

use crate::drill::Drill;

const PHASES: &str = "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"ground\"\ntofu = \"zero\"\n\
     [[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"top\"\ntofu = \"one\"\n\
     vars = { under = \"${step.0.ground.id}\" }\n";

fn zero(input: &str) -> String {
    format!(
        "resource \"terraform_data\" \"it\" {{\n  input = \"{input}\"\n  triggers_replace = [\"{input}\"]\n}}\n\
         output \"id\" {{ value = terraform_data.it.id }}\n"
    )
}

const ONE: &str =
    "variable \"under\" {}\nresource \"terraform_data\" \"it\" { input = var.under }\n";

fn plan(drill: &Drill, code: i32) -> serde_json::Value {
    drill.json(code, &["plan", "--target", "drill", "--detailed-exitcode"])
}

#[test]
fn what_depends_on_something_not_applied_waits_and_is_never_mocked() {
    let drill = Drill::of(PHASES, &[("zero", &zero("a")), ("one", ONE)]);
    let first = plan(&drill, 6);
    assert_eq!(first["phases"][0]["verdict"], "changes");
    assert_eq!(first["phases"][0]["steps"][0]["counts"]["create"], 1);
    assert_eq!(first["phases"][1]["verdict"], "waits");
    assert_eq!(first["phases"][1]["waits_for"][0], "0");
    assert!(drill.states().is_empty() && !drill.store().join("target.json").exists());

    drill.up();
    let clean = plan(&drill, 0);
    assert_eq!(clean["verdict"], "unchanged");

    drill.write("zero/main.tf", &zero("b"));
    let changed = plan(&drill, 6);
    let step = &changed["phases"][0]["steps"][0];
    assert_eq!(step["lost"][0]["address"], "terraform_data.it");
    assert_eq!(step["lost"][0]["action"], "replace");
    assert_eq!(changed["phases"][1]["verdict"], "waits");
    // Planning changed nothing: what stands is still what was applied.
    drill.run(0, &["preflight", "--target", "drill"]);
}

/// Case N5: a phase that can't be planned is exit 1, and the others are shown all the same.
#[test]
fn a_phase_that_cannot_be_planned_fails_and_the_others_are_shown() {
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"bad\"\ntofu = \"bad\"\n\
         [[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"good\"\ntofu = \"good\"\n",
        &[
            (
                "bad",
                "data \"terraform_remote_state\" \"gone\" {\n  backend = \"local\"\n  config = { path = \"/nowhere\" }\n}\n",
            ),
            ("good", "resource \"terraform_data\" \"it\" {}\n"),
        ],
    );
    let report = plan(&drill, 1);
    assert_eq!(report["phases"][0]["verdict"], "failed");
    let error = report["phases"][0]["steps"][0]["error"]
        .as_str()
        .unwrap_or_default();
    assert!(
        error.contains("remote state") || error.contains("Unable"),
        "{error}"
    );
    assert_eq!(report["phases"][1]["steps"][0]["counts"]["create"], 1);
}

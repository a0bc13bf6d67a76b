//! Preflight against a cloud that was changed by hand: what is drift, and what is not.

use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::drill::Drill;
use crate::reports::{findings, notes, phase, preflight, reasons, verdict};

/// One phase `1` with one tofu step `a` in `one`; more lines of the step may follow.
const ONE: &str =
    "[[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"a\"\ntofu = \"one\"\n";
/// A second phase `2` with one tofu step `b` in `two`.
const TWO: &str =
    "[[phase]]\nid = \"2\"\ntitle = \"two\"\n[[phase.step]]\nname = \"b\"\ntofu = \"two\"\n";
/// One object.
const A: &str = "resource \"test_object\" \"a\" {\n  name = \"a\"\n}\n";

/// The passphrase of targets with secrets.
const PASSPHRASE: (&str, &str) = ("REBUILD_PASSPHRASE", "correct horse battery staple");

fn one(body: &str) -> (Drill, Cloud) {
    Cloud::drill(ONE, &[("one", body)])
}

/// A target whose secret `token` comes from `TOKEN`; root module `one` has `body`.
fn with_secret(body: &str) -> (Drill, Cloud) {
    let (drill, cloud) = Cloud::drill(
        &format!("{ONE}vars = {{ token = \"${{secret.token}}\" }}\n"),
        &[("one", body)],
    );
    drill.write(
        "targets/drill.toml",
        "[encryption]\npassphrase = { env = \"REBUILD_PASSPHRASE\" }\n[secrets]\ntoken = { env = \"TOKEN\" }\n",
    );
    (drill, cloud)
}

/// Runs `rebuild` where the secret has this value; gives what it printed, a JSON document by demand.
fn run_with(drill: &Drill, token: &str, code: i32, args: &[&str]) -> test_support::Outcome {
    let outcome = drill
        .rebuild(args)
        .env(PASSPHRASE.0, PASSPHRASE.1)
        .env("TOKEN", token)
        .run();
    outcome.expect_code(code);
    outcome
}

fn preflight_with(drill: &Drill, token: &str, code: i32) -> Value {
    let args = ["preflight", "--target", "drill", "--output", "json"];
    let outcome = run_with(drill, token, code, &args);
    crate::reports::valid(serde_json::from_str(&outcome.stdout).expect("a report is JSON"))
}

#[test]
fn a_changed_attribute_that_the_cloud_computes_is_drift() {
    let (drill, cloud) = one(A);
    drill.up();
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
    cloud.set("a", "address", "10.9.9.9");
    let report = preflight(&drill, 3);
    assert_eq!(report["verdict"], "stopped");
    assert_eq!(verdict(&report, "1"), "drifted");
    assert_eq!(
        findings(&report, "1")[..],
        [
            json!({"step": "a", "address": "test_object.a", "attribute": "address", "was": "10.0.0.1", "is": "10.9.9.9", "reason": "changed-outside"})
        ]
    );
    // `up` stops by the same verdict, and says it for people.
    let outcome = drill.run(3, &["up", "--target", "drill", "--no-pause"]);
    assert!(outcome.stderr.contains("drifted"), "{outcome:?}");
    assert_eq!(cloud.calls(), ["create a"], "preflight changes nothing");
    cloud.set("a", "address", "10.0.0.1");
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
    drill.run(0, &["down", "--target", "drill"]);
    assert!(!cloud.has("a"));
}

/// A real provider: a deleted file is a deleted object.
#[test]
fn a_deleted_file_of_the_provider_local_is_drift() {
    let (drill, _) = Cloud::drill(&format!("{ONE}{TWO}"), &[("two", A)]);
    let file = drill.world.root().join("made");
    drill.write(
        "one/main.tf",
        &format!(
            "resource \"local_file\" \"f\" {{\n  filename = \"{}\"\n  content = \"text\"\n}}\n",
            file.display()
        ),
    );
    drill.up();
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
    std::fs::remove_file(&file).expect("the file was made");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "drifted");
    assert_eq!(reasons(&report, "1"), ["deleted-outside local_file.f"]);
    assert_eq!(verdict(&report, "2"), "clean");
    drill.run(0, &["down", "--target", "drill"]);
    assert_eq!(drill.status()["state"], "empty");
}

/// Case D4: what today's definitions change, an output for one, is the next `up`'s work and no drift. An output
/// that changed though nothing was edited is told apart from drift of a resource.
#[test]
fn an_edited_output_is_no_drift_and_one_that_changed_by_itself_is_named_as_such() {
    let body = format!(
        "{A}data \"test_object\" \"far\" {{\n  name = \"far\"\n}}\noutput \"seen\" {{\n  value = data.test_object.far.content\n}}\n"
    );
    let (drill, cloud) = one(&body);
    cloud.make("far", json!({"content": "before", "address": "10.0.0.9"}));
    drill.up();
    // Edited and added outputs, and a new resource.
    drill.write(
        "one/main.tf",
        &cloud.module(&format!(
            "{}{A_AND_MORE}",
            body.replace("far.content", "far.address")
        )),
    );
    let report = preflight(&drill, 0);
    assert_eq!(report["verdict"], "clean", "{report:#}");
    // The world changed: the output that was applied has another value now.
    cloud.set("far", "content", "after");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "drifted");
    assert_eq!(
        findings(&report, "1")[..],
        [
            json!({"step": "a", "address": "output.seen", "attribute": null, "was": "before", "is": "after", "reason": "outputs-changed"})
        ]
    );
    cloud.set("far", "content", "before");
    drill.up();
    assert!(cloud.has("more"));
}

const A_AND_MORE: &str = "resource \"test_object\" \"more\" {\n  name = \"more\"\n}\noutput \"added\" {\n  value = test_object.more.address\n}\n";

/// Case D5: what a provider writes in another way than it was given (here `[]` for `null`, by turns) is drift that is
/// named by address and attribute, until an exception with an end says why it is none.
#[test]
fn an_exception_has_a_reason_and_an_end() {
    let (drill, cloud) =
        one("resource \"test_object\" \"a\" {\n  name  = \"a\"\n  flips = true\n}\n");
    let outcome = drill.run(1, &["up", "--target", "drill", "--no-pause"]);
    let said = &outcome.stderr;
    assert!(
        said.contains("test_object.a")
            && said.contains("document")
            && said.contains("null")
            && said.contains("[]"),
        "{said}"
    );
    let ignoring = |until: &str| {
        format!(
            "{ONE}ignore_drift = [{{ address = \"test_object.a\", attribute = \"document\", reason = \"it writes null and []\", until = {until} }}]\n"
        )
    };
    cloud.platform(&drill, &ignoring("2999-12-31"));
    // The exception belongs to what is applied: the step is applied again.
    drill.run(0, &["up", "--target", "drill", "--no-pause", "--resume"]);
    let report = preflight(&drill, 0);
    assert_eq!(report["verdict"], "clean");
    let told = notes(&report);
    assert!(
        told.contains("it writes null and []") && told.contains("2999-12-31"),
        "{told}"
    );
    // Only that attribute of that resource is ignored.
    cloud.set("a", "address", "10.9.9.9");
    let report = preflight(&drill, 3);
    assert_eq!(
        reasons(&report, "1"),
        ["changed-outside test_object.a address"]
    );
    cloud.set("a", "address", "10.0.0.1");
    drill.run(0, &["down", "--target", "drill"]);
}

/// Case D5: an exception that has ended fails, with its reason.
#[test]
fn an_exception_that_has_ended_stops() {
    let (drill, cloud) = Cloud::drill(
        &format!(
            "{ONE}ignore_drift = [{{ address = \"test_object.a\", attribute = \"address\", reason = \"someone else's\", until = 2020-01-31 }}]\n"
        ),
        &[("one", A)],
    );
    let outcome = drill.run(1, &["up", "--target", "drill", "--no-pause"]);
    assert!(outcome.stderr.contains("ignore-expired"), "{outcome:?}");
    cloud.set("a", "address", "10.9.9.9");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "drifted");
    assert_eq!(
        reasons(&report, "1"),
        [
            "ignore-expired test_object.a address",
            "changed-outside test_object.a address"
        ]
    );
    let told = findings(&report, "1")[0]["is"].as_str().expect("a text");
    assert!(
        told.contains("someone else's") && told.contains("2020-01-31"),
        "{told}"
    );
}

/// Case D6: a false `check` block fails preflight with its message, and so does one that can't be evaluated; a true one
/// does not.
#[test]
fn a_false_check_block_stops() {
    let check = "check \"far is open\" {\n  data \"test_object\" \"far\" {\n    name = \"far\"\n  }\n  assert {\n    condition     = data.test_object.far.content == \"open\"\n    error_message = \"far is ${data.test_object.far.content}\"\n  }\n}\n"
        .replace("far is open\"", "far\"");
    let (drill, cloud) = one(&format!("{A}{check}"));
    cloud.make("far", json!({"content": "open", "address": ""}));
    drill.up();
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
    cloud.set("far", "content", "shut");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "check-failed");
    assert_eq!(reasons(&report, "1"), ["check-block-false check.far"]);
    assert_eq!(findings(&report, "1")[0]["is"], "far is shut");
    cloud.delete("far");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "check-failed", "{report:#}");
}

/// Case D7: an API that answers nothing, or that knows none of all the objects any more, is not drift; nothing is
/// taken over into the state.
#[test]
fn a_closed_api_is_unreachable_and_so_is_one_that_lost_everything() {
    let three = format!(
        "{A}resource \"test_object\" \"m\" {{\n  count = 2\n  name  = \"m${{count.index}}\"\n}}\n"
    );
    let (drill, cloud) = Cloud::drill(
        &format!("{ONE}{TWO}"),
        &[
            ("one", &three),
            ("two", "resource \"terraform_data\" \"t\" {}\n"),
        ],
    );
    drill.up();
    let before = drill.states();
    cloud.answer("dial tcp 192.0.2.1:443: connect: connection refused");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "unreachable");
    assert_eq!(
        verdict(&report, "2"),
        "clean",
        "the other phase is told all the same"
    );
    let found = &findings(&report, "1")[0];
    assert_eq!(found["reason"], "provider-unreachable");
    assert!(
        found["is"]
            .as_str()
            .expect("a text")
            .contains("connection refused")
    );
    cloud.answer("gone");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "unreachable");
    assert_eq!(
        reasons(&report, "1"),
        [
            "mass-disappearance test_object.a",
            "mass-disappearance test_object.m[0]",
            "mass-disappearance test_object.m[1]"
        ]
    );
    drill.run(3, &["up", "--target", "drill", "--no-pause"]);
    cloud.recover();
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
    assert_eq!(drill.states(), before);
    // Two of three are drift.
    cloud.delete("m0");
    cloud.delete("m1");
    let report = preflight(&drill, 3);
    assert_eq!(verdict(&report, "1"), "drifted");
    assert_eq!(
        reasons(&report, "1"),
        [
            "deleted-outside test_object.m[0]",
            "deleted-outside test_object.m[1]"
        ]
    );
}

/// Case D8: that a plan shows changes is no error of `up`.
#[test]
fn a_phase_with_a_change_is_applied() {
    let (drill, cloud) = one(A);
    drill.up();
    drill.write(
        "one/main.tf",
        &cloud.module(&A.replace("\n}", "\n  content = \"new\"\n}")),
    );
    drill.up();
    assert_eq!(cloud.calls(), ["create a", "update a"]);
    assert_eq!(cloud.object("a")["content"], "new");
    drill.up();
    assert_eq!(cloud.calls().len(), 2, "a third `up` has nothing to do");
}

/// A later resource that fills in an attribute of an earlier one is settled by the verify of their own apply, and
/// later steps are given what it is then (case R5).
#[test]
fn what_a_later_resource_fills_in_is_settled_once() {
    let filling =
        "resource \"test_object\" \"b\" {\n  name  = \"b\"\n  fills = test_object.a.name\n}\n";
    let two = "variable \"by\" {}\nresource \"test_object\" \"c\" {\n  name    = \"c\"\n  content = var.by\n}\n";
    let (drill, cloud) = Cloud::drill(
        &format!("{ONE}{TWO}vars = {{ by = \"${{step.1.a.by}}\" }}\n"),
        &[
            (
                "one",
                &format!("{A}{filling}output \"by\" {{\n  value = test_object.a.filled_by\n}}\n"),
            ),
            ("two", two),
        ],
    );
    drill.up();
    assert_eq!(cloud.object("a")["filled_by"], "b");
    assert_eq!(cloud.object("c")["content"], "b");
    assert_eq!(cloud.calls(), ["create a", "create b", "create c"]);
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
    // Preflight never settles.
    cloud.set("a", "filled_by", "c");
    for _ in 0..2 {
        assert_eq!(
            reasons(&preflight(&drill, 3), "1"),
            [
                "changed-outside test_object.a filled_by",
                "outputs-changed output.by"
            ]
        );
    }
    cloud.set("a", "filled_by", "b");
    drill.run(0, &["down", "--target", "drill"]);
    assert!(!cloud.has("a") && !cloud.has("b"));
}

/// What a later phase fills in is drift of the earlier one, and `ignore_drift` is the way on.
#[test]
fn what_a_later_phase_fills_in_is_drift_unless_it_is_ignored() {
    let two = "resource \"test_object\" \"b\" {\n  name  = \"b\"\n  fills = \"a\"\n}\n";
    let (drill, _) = Cloud::drill(&format!("{ONE}{TWO}"), &[("one", A), ("two", two)]);
    drill.up();
    let report = preflight(&drill, 3);
    assert_eq!(
        reasons(&report, "1"),
        ["changed-outside test_object.a filled_by"]
    );
    assert_eq!(verdict(&report, "2"), "clean");
    let ignoring = format!(
        "{ONE}ignore_drift = [{{ address = \"test_object.a\", attribute = \"filled_by\", reason = \"phase 2 does\", until = 2999-12-31 }}]\n{TWO}"
    );
    let (drill, _) = Cloud::drill(&ignoring, &[("one", A), ("two", two)]);
    drill.up();
    assert_eq!(preflight(&drill, 0)["verdict"], "clean");
    drill.run(0, &["down", "--target", "drill"]);
}

/// A sensitive attribute that differs is named; neither of its values is shown, nor written to a disk.
#[test]
fn sensitive_values_are_masked_in_the_report() {
    let (drill, cloud) = with_secret(
        "variable \"token\" {\n  sensitive = true\n}\nresource \"test_object\" \"a\" {\n  name   = \"a\"\n  secret = var.token\n  lifecycle { ignore_changes = [secret] }\n}\n",
    );
    let token = "t0ken-of-the-operator";
    run_with(&drill, token, 0, &["up", "--target", "drill", "--no-pause"]);
    assert_eq!(preflight_with(&drill, token, 0)["verdict"], "clean");
    cloud.set("a", "secret", "someone-elses-secret");
    let report = preflight_with(&drill, token, 3);
    assert_eq!(
        findings(&report, "1")[..],
        [
            json!({"step": "a", "address": "test_object.a", "attribute": "secret", "was": "[sensitive]", "is": "[sensitive]", "reason": "changed-outside"})
        ]
    );
    let outcome = run_with(&drill, token, 3, &["preflight", "--target", "drill", "-v"]);
    for secret in [token, "someone-elses-secret"] {
        assert!(!report.to_string().contains(secret));
        assert!(!format!("{outcome:?}").contains(secret), "{outcome:?}");
        let leaks = drill
            .world
            .files_with(&drill.world.state_home(), secret.as_bytes());
        assert!(leaks.is_empty(), "{leaks:?}");
    }
    run_with(&drill, token, 0, &["down", "--target", "drill"]);
}

/// An output that changes only because a secret did is no drift: directly, by a local value, through a module.
#[test]
fn a_changed_secret_explains_the_outputs_that_are_made_from_it() {
    let (drill, cloud) = with_secret(
        "variable \"token\" {\n  sensitive = true\n}\nlocals {\n  header = \"Bearer ${local.raw}\"\n  raw    = var.token\n}\n\
         module \"m\" {\n  source = \"../m\"\n  given  = local.raw\n}\ndata \"test_object\" \"far\" {\n  name = \"far\"\n}\n\
         output \"direct\" {\n  value     = var.token\n  sensitive = true\n}\n\
         output \"by_local\" {\n  value     = local.header\n  sensitive = true\n}\n\
         output \"by_module\" {\n  value     = module.m.made\n  sensitive = true\n}\n\
         output \"far\" {\n  value = data.test_object.far.content\n}\n",
    );
    drill.write(
        "m/main.tf",
        "variable \"given\" {\n  sensitive = true\n}\nlocals {\n  inner = upper(var.given)\n}\noutput \"made\" {\n  value     = local.inner\n  sensitive = true\n}\n",
    );
    cloud.make("far", json!({"content": "before", "address": ""}));
    let up = ["up", "--target", "drill", "--no-pause"];
    run_with(&drill, "the-first-token", 0, &up);
    let report = preflight_with(&drill, "the-second-token", 0);
    assert_eq!(report["verdict"], "clean");
    let told = notes(&report);
    for output in ["direct", "by_local", "by_module"] {
        assert!(
            told.contains(&format!("`output.{output}` changes with a secret")),
            "{told}"
        );
    }
    // What the secret does not explain still stops.
    cloud.set("far", "content", "after");
    let report = preflight_with(&drill, "the-second-token", 3);
    assert_eq!(reasons(&report, "1"), ["outputs-changed output.far"]);
    cloud.set("far", "content", "before");
    run_with(&drill, "the-second-token", 0, &up);
    assert_eq!(
        phase(&preflight_with(&drill, "the-second-token", 0), "1")["notes"],
        json!([])
    );
}

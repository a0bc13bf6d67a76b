//! The plan guard against every kind of planned change, on the real OpenTofu.

use crate::cloud::Cloud;
use crate::drill::Drill;
use crate::gate::PASSPHRASE;

/// A target with one root module in one phase.
struct Guarded {
    drill: Drill,
    cloud: Cloud,
}

impl Guarded {
    fn protected() -> Self {
        let guarded = Self::with("");
        guarded.drill.write(
            "targets/drill.toml",
            "protected = true\n[encryption]\npassphrase = { env = \"REBUILD_PASSPHRASE\" }\n",
        );
        guarded
    }

    fn with(more: &str) -> Self {
        let phase = format!(
            "[[phase]]\nid = \"1\"\n{more}[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n"
        );
        let (drill, cloud) = Cloud::drill(&phase, &[]);
        Self { drill, cloud }
    }

    /// `up` from this body of the root module; gives standard error and what was done in the cloud.
    fn up(&self, body: &str, code: i32, more: &[&str]) -> (String, Vec<String>) {
        self.drill.write("edge/main.tf", &self.cloud.module(body));
        let before = self.cloud.calls().len();
        let mut args = vec!["up", "--target", "drill", "--no-pause"];
        args.extend(more);
        let outcome = self
            .drill
            .rebuild(&args)
            .env("REBUILD_PASSPHRASE", PASSPHRASE)
            .run();
        outcome.expect_code(code);
        let mut done = self.cloud.calls().split_off(before);
        // What does not depend on each other is done in any order.
        done.sort();
        (outcome.stderr, done)
    }

    /// The guard stops it, says which address, and nothing is done; with consent it is done.
    fn stops(&self, body: &str, address: &str, calls: &[&str]) {
        let (said, done) = self.up(body, 5, &[]);
        assert!(
            said.contains(&format!("`{address}`")) && said.contains("--allow-destroy 1"),
            "{said}"
        );
        assert!(done.is_empty(), "{done:?}");
        let (_, done) = self.up(body, 0, &["--allow-destroy", "1"]);
        assert_eq!(done, calls);
    }

    /// The guard lets it pass.
    fn passes(&self, body: &str, calls: &[&str]) {
        let (_, done) = self.up(body, 0, &[]);
        assert_eq!(done, calls);
    }
}

fn object(resource: &str, name: &str, content: &str) -> String {
    format!(
        "resource \"test_object\" \"{resource}\" {{\n  name = \"{name}\"\n  content = \"{content}\"\n}}\n"
    )
}

/// What is made, changed, renamed with a word of it, given up or taken in passes; what is destroyed or replaced stops.
#[test]
fn on_a_protected_target_what_is_lost_needs_consent_and_nothing_else_does() {
    let guarded = Guarded::protected();
    let b = object("b", "b", "x");
    // Made, and changed in place.
    guarded.passes(&(object("a", "a", "1") + &b), &["create a", "create b"]);
    guarded.passes(&(object("a", "a", "2") + &b), &["update a"]);
    // Replaced: another name is another object.
    let a2 = object("a", "a2", "2");
    guarded.stops(
        &(a2.clone() + &b),
        "test_object.a",
        &["create a2", "delete a"],
    );
    // Renamed with a `moved` block, and then without.
    let moved = "moved {\n  from = test_object.a\n  to = test_object.c\n}\n";
    guarded.passes(&(object("c", "a2", "2") + &b + moved), &[]);
    let (said, done) = guarded.up(&(object("d", "a2", "2") + &b), 5, &[]);
    assert!(
        said.contains("`test_object.c`") && done.is_empty(),
        "{said} {done:?}"
    );
    // Given up by a `removed` block, and taken in again by an `import` block.
    let c = object("c", "a2", "2");
    let removed = "removed {\n  from = test_object.b\n  lifecycle { destroy = false }\n}\n";
    guarded.passes(&(c.clone() + removed), &[]);
    assert!(guarded.cloud.has("b"));
    let import = "import {\n  to = test_object.b\n  id = \"b\"\n}\n";
    guarded.passes(&(c.clone() + &b + import), &[]);
    // Destroyed: by a `removed` block that says so, and by being taken out.
    let destroyed = "removed {\n  from = test_object.b\n  lifecycle { destroy = true }\n}\n";
    guarded.stops(&(c + destroyed), "test_object.b", &["delete b"]);
    guarded.stops("", "test_object.c", &["delete a2"]);
}

/// What an apply that failed has marked for replacement is kept or replaced by name.
#[test]
fn what_is_tainted_is_kept_or_replaced_by_name() {
    let guarded = Guarded::protected();
    let (a, b) = (object("a", "a", "ok"), object("b", "b", "ok"));
    let half = object("a", "a", "half: no") + &object("b", "b", "half: no");
    let (_, done) = guarded.up(&half, 1, &[]);
    assert_eq!(done.len(), 2, "{done:?}");
    let both = a + &b;
    let (said, done) = guarded.up(&both, 5, &["--resume"]);
    assert!(said.contains("test_object.a") && done.is_empty(), "{said}");
    let (_, done) = guarded.up(
        &both,
        0,
        &[
            "--resume",
            "--replace",
            "test_object.a",
            "--keep",
            "test_object.b",
        ],
    );
    assert_eq!(done, ["create a", "delete a", "update b"]);
}

/// `max_destroy` holds on any target.
#[test]
fn more_than_a_phase_may_destroy_stops_on_any_target() {
    let guarded = Guarded::with("max_destroy = 1\n");
    let (a, b, c) = (
        object("a", "a", "1"),
        object("b", "b", "1"),
        object("c", "c", "1"),
    );
    guarded.passes(
        &(a.clone() + &b + &c),
        &["create a", "create b", "create c"],
    );
    let (said, done) = guarded.up(&a, 5, &[]);
    assert!(said.contains("2 objects") && done.is_empty(), "{said}");
    guarded.passes(&(a + &b), &["delete c"]);
}

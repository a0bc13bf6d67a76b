//! States of platforms that were applied by plain OpenTofu: taken over from where they are, and given back.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use test_support::Outcome;

use crate::drill::tool;
use crate::servers::{self, HttpStates, S3_USER};
use crate::stage::{Stage, executable};

const STEP: &str = "1a.edge";

/// A platform with one root module that plain OpenTofu has applied.
struct Adopted {
    stage: Stage,
    env: BTreeMap<&'static str, String>,
    block: String,
}

impl Adopted {
    /// Applies the root module by hand; `block` says where its state is, `env` opens that.
    fn new(block: &str, env: &[(&'static str, &str)]) -> Self {
        Self::of(Stage::empty(), block, env)
    }

    /// The same with states that are encrypted once they are taken over.
    fn encrypted(block: &str) -> Self {
        let stage = Stage::empty();
        stage.write(
            "targets/drill.toml",
            "[encryption]\npassphrase = { file = \"../pass\" }\n",
        );
        write(&stage.dir().join("../pass"), "a passphrase of the tests\n");
        Self::of(stage, block, &[])
    }

    fn of(stage: Stage, block: &str, env: &[(&'static str, &str)]) -> Self {
        let text = stage.phase("1a", "edge");
        stage.define(&text);
        let adopted = Self {
            stage,
            env: env
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            block: block.to_owned(),
        };
        adopted.module("");
        adopted.by_hand(0, &["init", "-input=false"]);
        adopted.by_hand(0, &["apply", "-input=false", "-auto-approve"]);
        assert_eq!(adopted.stage.book(), ["create 1a-edge"]);
        adopted
    }

    fn module(&self, more: &str) {
        self.stage
            .module("1a-edge", &format!("{}\n{more}", self.block));
    }

    /// Plain OpenTofu in the platform's directory, as before.
    fn by_hand(&self, code: i32, args: &[&str]) -> Outcome {
        let mut command = self
            .stage
            .world
            .command(tool("REBUILD_TEST_TOFU"))
            .args(args.iter().copied())
            .env("TF_CLI_CONFIG_FILE", tool("REBUILD_TEST_MIRROR"))
            .cwd(self.stage.dir().join("1a-edge"));
        for (name, value) in &self.env {
            command = command.env(*name, value.clone());
        }
        let outcome = command.run();
        outcome.expect_code(code);
        outcome
    }

    fn old(&self) -> Value {
        let pulled = self.by_hand(0, &["state", "pull"]);
        let mut state: Value = serde_json::from_str(&pulled.stdout).expect("a state");
        // They are told in another order each time.
        state["check_results"] = Value::Null;
        state
    }

    fn rebuild(&self, args: &[&str]) -> test_support::Command {
        let mut command = self.stage.rebuild(args);
        for (name, value) in &self.env {
            command = command.env(*name, value.clone());
        }
        command
    }

    fn migrate(&self, code: i32, more: &[&str]) -> Value {
        let mut args = vec!["state", "migrate", STEP, "--target", "drill"];
        args.extend(more);
        args.extend(["--output", "json"]);
        let outcome = self.rebuild(&args).run();
        outcome.expect_code(code);
        serde_json::from_str(&outcome.stdout).expect("a document")
    }

    /// Not taken over: nothing but `state migrate` goes on.
    fn expect_refused(&self) {
        for args in [
            &["up", "--target", "drill", "--no-pause"][..],
            &["plan", "--target", "drill"],
            &["preflight", "--target", "drill"],
        ] {
            let refused = self.stage.run(2, args);
            assert!(
                refused.stderr.contains("has a state of its own")
                    && refused.stderr.contains("rebuild state migrate"),
                "{}",
                refused.stderr
            );
        }
    }

    /// There and back again: what stands is never made a second time, and both sides can be used when they rule.
    fn round(&self, place: &str) {
        let before = self.old();
        self.expect_refused();
        let migrated = self.migrate(0, &[]);
        assert_eq!(migrated["direction"], "in");
        assert_eq!(migrated["lineage"], before["lineage"]);
        assert_eq!(migrated["n_resources"], 2);
        assert!(migrated["serial"].as_u64() >= before["serial"].as_u64());
        assert!(
            migrated["old"].as_str().expect("a place").contains(place),
            "{migrated:#}"
        );
        assert_eq!(self.old(), before, "the old one is left in place");
        assert_eq!(self.stage.states(), ["1a/edge"]);
        let status = self.stage.status();
        assert_eq!(status["state"], "finished", "{status:#}");
        assert_eq!(status["standing"][0]["adopted"]["serial"], before["serial"]);
        assert_eq!(status["run"]["decisions"][0]["kind"], "migrate");
        assert_eq!(status["last_known_good"], Value::Null);
        // Once more is no harm.
        assert_eq!(self.migrate(0, &[])["already"], true);

        self.stage.run(0, &["preflight", "--target", "drill"]);
        self.stage.up_to(0, &[]);
        assert_eq!(self.stage.book(), Vec::<String>::new(), "made again");
        self.module("resource \"terraform_data\" \"more\" {}\n");
        self.stage.up_to(0, &[]);
        assert_eq!(self.stage.states(), ["1a/edge"]);

        let back = self.migrate(0, &["--back"]);
        assert_eq!(back["direction"], "back");
        assert_eq!(back["n_resources"], 3);
        assert!(self.stage.states().is_empty(), "{:?}", self.stage.states());
        assert_eq!(self.stage.standing(), Vec::<String>::new());
        let after = self.old();
        assert_eq!(after["lineage"], before["lineage"]);
        assert!(after["serial"].as_u64() > before["serial"].as_u64());
        self.by_hand(0, &["plan", "-input=false", "-detailed-exitcode"]);
        self.expect_refused();

        self.migrate(0, &[]);
        self.stage.down_to(0, &[]);
        assert_eq!(self.stage.book(), ["destroy 1a-edge"]);
        self.stage
            .run(2, &["up", "--target", "drill", "--no-pause"]);
    }
}

fn block(backend: &str, settings: &str) -> String {
    format!("terraform {{\n  backend \"{backend}\" {{\n{settings}  }}\n}}\n")
}

/// What was taken over may get another name and place, with its state.
#[test]
fn a_step_that_was_taken_over_may_be_moved() {
    let adopted = Adopted::new(
        &block("local", "    path = \"../kept/edge.tfstate\"\n"),
        &[],
    );
    adopted.migrate(0, &[]);
    adopted.stage.define(
        "[[phase]]\nid = \"2\"\n[[phase.step]]\nname = \"border\"\ntofu = \"1a-edge\"\nmoved_from = \"1a.edge\"\n",
    );
    adopted.stage.up_to(0, &[]);
    assert_eq!(adopted.stage.states(), ["2/border"]);
    adopted.stage.up_to(0, &[]);
    assert!(adopted.stage.book().is_empty(), "made again");
    adopted.stage.down_to(0, &[]);
    assert_eq!(adopted.stage.book(), ["destroy 1a-edge"]);
}

/// Case E8: only `state migrate` moves a state.
#[test]
fn a_local_state_is_taken_over_and_given_back() {
    let adopted = Adopted::new(
        &block("local", "    path = \"../kept/edge.tfstate\"\n"),
        &[],
    );
    adopted.round("../kept/edge.tfstate");
}

#[test]
fn a_state_is_encrypted_as_it_is_taken_over_and_clear_as_it_is_given_back() {
    let adopted = Adopted::encrypted(&block("local", "    path = \"edge.tfstate\"\n"));
    adopted.migrate(0, &[]);
    let stored = adopted.stage.store().join("state/1a/edge");
    let text = std::fs::read_to_string(&stored).expect("a state");
    assert!(text.contains("encrypted_data") && !text.contains("terraform_data"));
    adopted.migrate(0, &["--back"]);
    adopted.round("edge.tfstate");
}

/// A root module without a backend block keeps its state beside it: it would be built twice without a word.
#[test]
fn a_state_beside_a_module_is_taken_over_and_given_back() {
    Adopted::new("", &[]).round("local");
}

#[test]
fn an_http_state_is_taken_over_and_given_back() {
    let states = HttpStates::start();
    let env = [
        ("TF_HTTP_ADDRESS", states.address.as_str()),
        ("TF_HTTP_LOCK_ADDRESS", &states.address),
        ("TF_HTTP_UNLOCK_ADDRESS", &states.address),
        ("TF_HTTP_USERNAME", &states.username),
        ("TF_HTTP_PASSWORD", &states.password),
    ];
    let retries = block("http", "    retry_max = 1\n");
    Adopted::new(&retries, &env).round("http");
}

#[test]
fn a_state_in_postgresql_is_taken_over_and_given_back() {
    let server = servers::postgres();
    let uri = format!(
        "postgres://postgres@{}/postgres?sslmode=disable",
        server.address
    );
    let adopted = Adopted::new(
        &block("pg", "    schema_name = \"lab\"\n"),
        &[("PG_CONN_STR", &uri)],
    );
    adopted.round("schema name lab");
}

#[test]
fn a_state_in_s3_is_taken_over_and_given_back() {
    let server = servers::s3("states");
    let settings = format!(
        "    bucket = var.bucket\n    key = \"edge\"\n    region = \"us-east-1\"\n    use_path_style = true\n    \
         endpoints = {{ s3 = \"http://{}\" }}\n    skip_credentials_validation = true\n    \
         skip_requesting_account_id = true\n    skip_metadata_api_check = true\n    skip_region_validation = true\n    \
         use_lockfile = true\n",
        server.address
    );
    // Settings may refer to variables.
    let block = format!(
        "{}variable \"bucket\" {{\n  default = \"states\"\n}}\n",
        block("s3", &settings)
    );
    let adopted = Adopted::new(
        &block,
        &[
            ("AWS_ACCESS_KEY_ID", S3_USER.0),
            ("AWS_SECRET_ACCESS_KEY", S3_USER.1),
        ],
    );
    adopted.round("bucket states, key edge");
    let left = adopted
        .stage
        .world
        .files_with(&adopted.stage.world.state_home(), S3_USER.1.as_bytes());
    assert!(left.is_empty(), "credentials on a disk: {left:?}");
}

/// The state of a workspace, with what the block leaves out given beside it.
#[test]
fn a_workspace_and_settings_that_the_block_leaves_out_are_named() {
    let adopted = Adopted::new(&block("local", ""), &[]);
    adopted.by_hand(0, &["workspace", "new", "live"]);
    adopted.by_hand(0, &["apply", "-input=false", "-auto-approve"]);
    adopted.stage.forget_book();
    let live = adopted.old();
    // The `local` backend knows its workspaces; others have an empty state for each that is named.
    let nothing = adopted.migrate(3, &["--workspace", "liev"]);
    assert!(
        nothing["error"]["message"]
            .as_str()
            .expect("a message")
            .contains("`tofu init` of step"),
        "{nothing:#}"
    );
    let migrated = adopted.migrate(0, &["--workspace", "live"]);
    assert_eq!(migrated["lineage"], live["lineage"]);
    // The workspace is remembered.
    let back = adopted.migrate(0, &["--back"]);
    assert!(
        back["old"]
            .as_str()
            .expect("a place")
            .contains("workspace live")
    );
}

/// Cases E8, L11: what somebody did to the old state since is never written over.
#[test]
fn a_state_that_was_used_on_both_sides_is_not_given_back() {
    let adopted = Adopted::new(&block("local", "    path = \"edge.tfstate\"\n"), &[]);
    adopted.migrate(0, &[]);
    adopted.module("resource \"terraform_data\" \"ours\" {}\n");
    adopted.stage.up_to(0, &[]);
    adopted.module("resource \"terraform_data\" \"theirs\" {}\n");
    adopted.by_hand(0, &["apply", "-input=false", "-auto-approve"]);
    let refused = adopted.migrate(3, &["--back"]);
    assert!(
        refused["error"]["message"]
            .as_str()
            .expect("a message")
            .contains("somebody has used it since"),
        "{refused:#}"
    );
    assert_eq!(adopted.stage.states(), ["1a/edge"]);
}

/// Cases E8, T9: killed before any of OpenTofu's commands, one side is complete and it is clear which; the same command
/// goes on, and so does its opposite.
#[test]
fn a_migration_that_is_killed_anywhere_leaves_one_whole_side() {
    let adopted = Adopted::new(&block("local", "    path = \"edge.tfstate\"\n"), &[]);
    let before = adopted.old();
    let root = adopted.stage.world.root();
    let (count, limit) = (root.join("count"), root.join("limit"));
    let path = adopted.stage.world.write(
        "killing/tofu",
        &format!(
            "#!/bin/sh\nif [ \"$1\" = version ]; then exec {tofu} \"$@\"; fi\necho >> {count}\n\
             if [ \"$(wc -l < {count})\" -gt \"$(cat {limit})\" ]; then kill -9 $PPID; exit 1; fi\nexec {tofu} \"$@\"\n",
            tofu = tool("REBUILD_TEST_TOFU").display(),
            count = count.display(),
            limit = limit.display(),
        ),
    );
    executable(&path);
    let phases = adopted.stage.phase("1a", "edge");
    adopted.module("");
    adopted.stage.define(&format!(
        "[tools]\ntofu = {{ command = [\"{}\"] }}\n{phases}",
        path.display()
    ));
    let killed_after = |n: usize, args: &[&str]| {
        let _ = std::fs::remove_file(&count);
        write(&limit, &n.to_string());
        let mut all = vec!["state", "migrate", STEP, "--target", "drill"];
        all.extend(args);
        let outcome = adopted.rebuild(&all).run();
        write(&limit, "1000");
        let done = outcome.code() == Some(0);
        assert!(done || outcome.code().is_none(), "{outcome:?}");
        done
    };
    let rules_here = || !adopted.stage.standing().is_empty();
    let mut n = 0;
    // Each kill is followed by the same command, then by its opposite: a round ends where it began.
    while !killed_after(n, &[]) {
        assert!(!rules_here(), "the old one rules after {n} commands");
        assert_eq!(adopted.old(), before);
        adopted.expect_refused();
        if n % 2 == 0 {
            adopted.migrate(0, &[]);
            assert!(rules_here());
        }
        if rules_here() || !adopted.stage.states().is_empty() {
            adopted.migrate(0, &["--back"]);
        }
        assert!(adopted.stage.states().is_empty());
        n += 1;
        assert!(n < 20, "it never ends");
    }
    assert!(n > 3, "only {n} commands");
    adopted.module("resource \"terraform_data\" \"more\" {}\n");
    adopted.stage.up_to(0, &[]);
    let mut n = 0;
    while !killed_after(n, &["--back"]) {
        assert!(rules_here(), "the store's rules after {n} commands");
        assert_eq!(adopted.stage.states(), ["1a/edge"]);
        n += 1;
        assert!(n < 20, "it never ends");
    }
    assert!(n > 3, "only {n} commands");
    assert!(adopted.stage.states().is_empty());
    adopted.by_hand(0, &["plan", "-input=false", "-detailed-exitcode"]);
    assert_eq!(adopted.stage.book(), Vec::<String>::new(), "made again");
    assert_eq!(json!(adopted.old()["lineage"]), before["lineage"]);
}

#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn write(path: &std::path::Path, text: &str) {
    std::fs::write(path, text).expect("a file of the test");
}

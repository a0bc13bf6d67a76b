//! `rebuild backend serve` as its users see it: what it prints, who may do what, limits, and an end in order.

use std::io::Write as _;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::backend_stage::{READER, SECRET, Stage, finish, lock_info, state};
use crate::gate::wait_for;

fn write(backend: &crate::backend_stage::Backend, path: &str, bytes: &[u8]) -> (u16, Vec<u8>) {
    assert_eq!(
        backend
            .ask("LOCK", &format!("/state/{path}"), &lock_info("me"))
            .0,
        200
    );
    let answer = backend.ask("POST", &format!("/state/{path}?ID=me"), bytes);
    assert_eq!(
        backend
            .ask("UNLOCK", &format!("/state/{path}"), &lock_info("me"))
            .0,
        200
    );
    answer
}

fn fixture(name: &str) -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/checks/fixtures")
        .join(name)
}

/// Without a configuration: this machine alone, and a credential that is printed once and opens everything.
#[test]
fn without_a_configuration_it_serves_this_machine_with_a_credential_of_its_own() {
    let stage = Stage::new();
    let backend = stage.start_with(&["--listen", "127.0.0.1:0", "--store", "states"]);
    let password = backend.line["password"]
        .as_str()
        .expect("a password")
        .to_owned();
    assert_eq!(backend.line["username"], "rebuild");
    assert_eq!(backend.ask_as(&password, "GET", "/state/app", b"").0, 404);
    assert_eq!(
        backend
            .ask_as("another one of that length", "GET", "/state/app", b"")
            .0,
        401
    );
    // The line that it printed is what the other commands take.
    stage.world.write("server.json", &backend.line.to_string());
    let list = [
        "state",
        "list",
        "--server",
        "server.json",
        "--output",
        "json",
    ];
    let listed = stage
        .rebuild(&backend, &list)
        .without_env("REBUILD_BACKEND_TOKEN")
        .run();
    listed.expect_code(0);
    assert_eq!(
        serde_json::from_str::<Value>(&listed.stdout).expect("JSON"),
        json!({ "schema": 1, "states": [] })
    );
    // OpenTofu takes name and password as `env` says them.
    stage
        .world
        .write("module/main.tf", crate::backend_stage::MODULE);
    let dir = stage.world.work().join("module");
    let env = ["backend", "env", "team/app", "--server", "server.json"];
    let lines = stage
        .rebuild(&backend, &env)
        .without_env("REBUILD_BACKEND_TOKEN")
        .run();
    lines.expect_code(0);
    let script = format!(
        "{}\"$0\" init -input=false && exec \"$0\" apply -auto-approve -input=false",
        lines.stdout
    );
    let tofu = crate::drill::tool("REBUILD_TEST_TOFU");
    let apply = stage
        .plain_tofu(&dir, &[])
        .instead("sh", &["-c", &script, tofu.to_str().expect("a path")])
        .run();
    apply.expect_code(0);
    assert_eq!(
        backend.ask_as(&password, "GET", "/state/team/app", b"").0,
        200
    );
    backend.signal(Signal::INT);
    let (code, log) = backend.wait();
    assert_eq!(code, Some(0));
    assert!(!log.contains(&password), "{log}");
}

/// Beyond this machine only with TLS and credentials that somebody has chosen.
#[test]
fn it_does_not_listen_to_the_network_in_the_clear() {
    let stage = Stage::new();
    let refused = |args: &[&str], why: &str| {
        let mut all = vec!["backend", "serve"];
        all.extend(args);
        let command = stage.world.command(env!("CARGO_BIN_EXE_rebuild_dup"));
        let outcome = command.args(all).env("CI_SECRET", SECRET).run();
        outcome.expect_code(2);
        assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
        assert!(outcome.stdout.is_empty(), "{}", outcome.stdout);
    };
    refused(
        &["--listen", "0.0.0.0:0", "--store", "states"],
        "not this machine alone",
    );
    refused(
        &[
            "--listen",
            "0.0.0.0:0",
            "--store",
            "states",
            "--config",
            "backend.toml",
        ],
        "in the clear",
    );
    refused(&["--config", "backend.toml"], "there is no store to serve");
    refused(&["--store", "s3://states"], "region");
    refused(&["--store", "ftp://states"], "no store that can be served");
    refused(
        &["--store", "states", "--config", "absent.toml"],
        "cannot read the configuration",
    );
    stage.world.write("backend.toml", "colour = 1");
    refused(&["--store", "states", "--config", "backend.toml"], "colour");
    stage.world.write(
        "backend.toml",
        "[[credential]]\nname = 'a'\nread = ['/']\nsecret = { env = 'CI_SECRE' }",
    );
    refused(
        &["--store", "states", "--config", "backend.toml"],
        "`CI_SECRE` is not set",
    );
    assert!(!stage.world.work().join("states").exists());
    // A bucket does not give back more than 2 GiB, so no bigger state is ever taken for one.
    stage.world.write(
        "backend.toml",
        "[limits]\nstate_mib = 4096\n[[credential]]\nname = 'a'\nread = ['/']\nsecret = { env = 'CI_SECRET' }",
    );
    refused(
        &[
            "--store",
            "s3://states?region=eu-1",
            "--config",
            "backend.toml",
        ],
        "can have 2048 at most",
    );
}

/// Rights go by path, and what may not be seen is not listed. A credential that is refused is never "no state".
#[test]
fn a_credential_opens_its_paths_and_no_others() {
    let stage = Stage::new();
    let backend = stage.start();
    for path in ["team/app", "other/app"] {
        assert_eq!(write(&backend, path, &state("l", 1, "x")).0, 200);
    }
    let reads = |method: &str, path: &str| backend.ask_as(READER, method, path, b"").0;
    assert_eq!(reads("GET", "/state/team/app"), 200);
    assert_eq!(reads("GET", "/state/team/absent"), 404);
    for method in ["GET", "POST", "LOCK", "UNLOCK", "DELETE"] {
        assert_eq!(reads(method, "/state/other/app"), 403, "{method}");
    }
    for method in ["POST", "LOCK", "UNLOCK", "DELETE"] {
        assert_eq!(reads(method, "/state/team/app"), 403, "{method}");
    }
    assert_eq!(reads("GET", "/state/team/../other/app"), 400);
    assert_eq!(reads("GET", "/versions/other/app"), 403);
    assert_eq!(reads("GET", "/metrics"), 403);
    let (_, listed) = backend.ask_as(READER, "GET", "/states", b"");
    let listed: Value = serde_json::from_slice(&listed).expect("JSON");
    assert_eq!(listed["states"].as_array().expect("a list").len(), 1);
    for path in [
        "/state/team/app",
        "/states",
        "/metrics",
        "/nothing",
        "/state/x",
    ] {
        assert_eq!(
            backend
                .ask_as("no secret of anybody here", "GET", path, b"")
                .0,
            401,
            "{path}"
        );
    }
    assert_eq!(backend.ask("GET", "/nothing", b"").0, 400);
    assert_eq!(backend.ask("GET", "/state/.hidden", b"").0, 400);
    assert_eq!(backend.ask("GET", "/state/a%2fb", b"").0, 400);
    assert_eq!(backend.ask("PATCH", "/state/team/app", b"").0, 405);
}

/// Cases L5, L9, L10, and limits: what no rule allows is refused and changes nothing.
#[test]
fn what_is_against_the_rules_is_refused() {
    let stage = Stage::with("[limits]\nstate_mib = 1\nidle_seconds = 1\nhead_seconds = 2");
    let mut backend = stage.start();
    assert_eq!(write(&backend, "app", &state("l", 5, "x")).0, 200);
    assert_eq!(
        backend.ask("POST", "/state/app", &state("l", 6, "x")).0,
        409
    );
    assert_eq!(
        backend
            .ask("POST", "/state/app?ID=stranger", &state("l", 6, "x"))
            .0,
        409
    );
    for wrong in [state("l", 4, "x"), state("l", 5, "y"), state("m", 6, "x")] {
        assert_eq!(write(&backend, "app", &wrong).0, 409);
    }
    assert_eq!(write(&backend, "app", b"no state").0, 400);
    assert_eq!(
        write(&backend, "app", &state("l", 6, &"x".repeat(1024 * 1024))).0,
        413
    );
    // One that is near to it is taken, and the log warns.
    assert_eq!(
        write(&backend, "near", &state("l", 1, &"x".repeat(900 * 1024))).0,
        200
    );
    assert_eq!(
        backend.ask("LOCK", "/state/app", &vec![b' '; 70_000]).0,
        413
    );
    // A body that stands still, and one that ends before its end.
    assert_eq!(backend.ask("LOCK", "/state/app", &lock_info("me")).0, 200);
    let mut slow = backend.begin("POST", "/state/app?ID=me", 1000);
    slow.write_all(b"{").expect("it reads");
    assert_eq!(finish(slow).expect("an answer").0, 408);
    let mut cut = backend.begin("POST", "/state/app?ID=me", 1000);
    cut.write_all(&state("l", 6, "x")).expect("it reads");
    cut.shutdown(std::net::Shutdown::Write).expect("it is open");
    finish(cut);
    assert_eq!(backend.ask("GET", "/state/app", b"").1, state("l", 5, "x"));
    // Whoever says nothing is not waited for.
    let silent = std::net::TcpStream::connect(backend.host()).expect("it listens");
    silent
        .set_read_timeout(Some(crate::gate::PATIENCE))
        .expect("a time-out can be set");
    assert_eq!(
        std::io::Read::read(&mut &silent, &mut [0; 9]).unwrap_or(0),
        0
    );
    let log = backend.kill();
    let warned: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("\"warning\""))
        .collect();
    assert!(
        warned.len() == 1 && warned[0].contains("/state/near") && warned[0].contains("state_mib"),
        "{log}"
    );
    assert!(
        log.contains("which is the most that is taken here (`state_mib`"),
        "{log}"
    );
}

/// TLS with a certificate of one's own: OpenTofu and `rebuild` trust it by its CA file alone.
#[test]
fn over_tls_a_state_is_written_by_whoever_trusts_the_certificate() {
    let certificate = fixture("server.pem");
    let key = fixture("server-key.pem");
    let stage = Stage::with(&format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}",
        certificate.display().to_string(),
        key.display().to_string()
    ));
    let backend = stage.start();
    assert!(backend.address().starts_with("https://127.0.0.1:"));
    let ca = fixture("ca.pem");
    let ca = ca.to_str().expect("a path");
    stage
        .world
        .write("module/main.tf", crate::backend_stage::MODULE);
    let dir = stage.world.work().join("module");
    let pem = std::fs::read_to_string(ca).expect("the fixture");
    let tofu = |args: &[&str]| {
        stage
            .tofu(&backend, &dir, "team/app", args)
            .env("TF_HTTP_CLIENT_CA_CERTIFICATE_PEM", &pem)
            .run()
    };
    tofu(&["init", "-input=false"]).expect_code(0);
    tofu(&["apply", "-auto-approve", "-input=false"]).expect_code(0);
    let listed = stage
        .rebuild(&backend, &["state", "list", "--ca-file", ca])
        .run();
    listed.expect_code(0);
    assert!(
        listed.stdout.starts_with("team/app  serial "),
        "{}",
        listed.stdout
    );
    stage
        .rebuild(&backend, &["state", "list"])
        .run()
        .expect_code(3);
    let env = stage
        .rebuild(&backend, &["backend", "env", "team/app", "--ca-file", ca])
        .run();
    env.expect_code(0);
    assert!(
        env.stdout
            .contains("export TF_HTTP_CLIENT_CA_CERTIFICATE_PEM='-----BEGIN"),
        "{}",
        env.stdout
    );
}

/// Health without a credential, metrics with one, and a log in which no secret and no state stands.
#[test]
fn health_metrics_and_the_log_say_what_went_on_and_no_secret() {
    let stage = Stage::new();
    let backend = stage.start();
    assert_eq!(
        backend.ask_as("-", "GET", "/health", b""),
        (200, b"{\"status\":\"ok\"}\n".to_vec())
    );
    assert_eq!(
        write(&backend, "app", &state("l", 1, "secret-in-a-state")).0,
        200
    );
    assert_eq!(backend.ask("LOCK", "/state/app", &lock_info("mine")).0, 200);
    assert_eq!(
        backend.ask("LOCK", "/state/app", &lock_info("other")).0,
        423
    );
    assert_eq!(
        backend
            .ask(
                "GET",
                &format!("/state/app?token={SECRET}").replace(' ', "+"),
                b""
            )
            .0,
        200
    );
    assert_eq!(
        backend
            .ask_as("wrong-but-secret-all-the-same", "GET", "/state/app", b"")
            .0,
        401
    );
    let (status, metrics) = backend.ask("GET", "/metrics", b"");
    assert_eq!(status, 200);
    let metrics = String::from_utf8(metrics).expect("text");
    for line in [
        r#"rebuild_backend_requests_total{method="LOCK",status="423"} 1"#,
        r#"rebuild_backend_requests_total{method="POST",status="200"} 1"#,
        "rebuild_backend_unauthorized_total 1",
        "rebuild_backend_connections ",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    backend.signal(Signal::TERM);
    let (code, log) = backend.wait();
    assert_eq!(code, Some(0));
    for secret in [
        SECRET,
        READER,
        "wrong-but-secret",
        "secret-in-a-state",
        "a+secret+of",
    ] {
        assert!(!log.contains(secret), "{log}");
    }
    let records: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line of the log is JSON"))
        .collect();
    let refused = records
        .iter()
        .find(|record| record["status"] == 423)
        .expect("a record");
    assert_eq!(
        (&refused["who"], &refused["method"], &refused["path"]),
        (&json!("ci"), &json!("LOCK"), &json!("/state/app"))
    );
    assert!(
        refused["why"].as_str().expect("a reason").contains("mine"),
        "{refused}"
    );
    let stranger = records
        .iter()
        .find(|record| record["status"] == 401)
        .expect("a record");
    assert_eq!(stranger["who"], Value::Null);
    let written = records
        .iter()
        .find(|record| record["method"] == "POST")
        .expect("a record");
    assert_eq!(written["lock"], "me");
    assert!(written["n_bytes_in"].as_u64().expect("a number") > 50);
}

/// SIGTERM: what is under way ends well, nothing new begins. SIGHUP: other credentials from now on.
#[test]
fn it_ends_in_order_and_takes_new_credentials_without_an_end() {
    let stage = Stage::new();
    let backend = stage.start();
    assert_eq!(backend.ask("LOCK", "/state/app", &lock_info("me")).0, 200);
    let config = stage.world.work().join("backend.toml");
    let text = std::fs::read_to_string(&config).expect("the configuration");
    let digest = store::sha256_hex(b"the next secret of the reader");
    let changed = text.replace(
        "secret = { file = \"reader-secret\" }",
        &format!("sha256 = \"{digest}\""),
    );
    stage.world.write("backend.toml", &changed);
    backend.signal(Signal::HUP);
    wait_for("the new credential", || {
        let status = backend
            .ask_as("the next secret of the reader", "GET", "/state/team/x", b"")
            .0;
        (status == 404).then_some(())
    });
    assert_eq!(backend.ask_as(READER, "GET", "/state/team/x", b"").0, 401);
    stage.world.write("backend.toml", "colour = 1");
    backend.signal(Signal::HUP);
    assert_eq!(
        backend.ask("GET", "/states", b"").0,
        200,
        "a configuration with a fault changes nothing"
    );

    let body = state("l", 1, "x");
    let mut stream = backend.begin("POST", "/state/app?ID=me", body.len() as u64);
    stream.write_all(&body[..10]).expect("it reads");
    // The server is in the middle of that request.
    wait_for("the open connection", || {
        let metrics = String::from_utf8(backend.ask("GET", "/metrics", b"").1).expect("text");
        metrics
            .contains("rebuild_backend_connections 2")
            .then_some(())
    });
    backend.signal(Signal::TERM);
    wait_for("the closed door", || {
        std::net::TcpStream::connect(backend.host())
            .is_err()
            .then_some(())
    });
    stream.write_all(&body[10..]).expect("it still reads");
    assert_eq!(finish(stream), Some((200, Vec::new())));
    let (code, log) = backend.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("\"reloaded\"") && log.contains("\"not reloaded\""),
        "{log}"
    );
    stage.world.write("backend.toml", &text);
    let again = stage.start();
    assert_eq!(again.ask("GET", "/state/app", b"").1, body);
}

/// Case L11: going back keeps what it replaces, names the lineage, and wants the path typed.
#[test]
fn an_earlier_state_is_put_back_and_what_it_replaces_is_kept() {
    let stage = Stage::new();
    let backend = stage.start();
    let dir = stage.module(&backend, "module");
    for value in ["one", "two", "three"] {
        let value = format!("value={value}");
        let args = ["apply", "-auto-approve", "-input=false", "-var", &value];
        stage
            .tofu(&backend, &dir, "team/app", &args)
            .run()
            .expect_code(0);
    }
    let rebuild = |code: i32, args: &[&str]| {
        let outcome = stage.rebuild(&backend, args).run();
        outcome.expect_code(code);
        outcome
    };
    let versions = backend.json("/versions/team/app");
    let now = versions["serial"].as_u64().expect("a serial");
    let lineage = versions["lineage"].as_str().expect("a lineage").to_owned();
    let first = versions["versions"][0]["version"]
        .as_str()
        .expect("a version")
        .to_owned();
    let listed = rebuild(0, &["state", "versions", "team/app"]);
    assert!(listed.stdout.starts_with("now"), "{}", listed.stdout);
    let pulled = rebuild(0, &["state", "pull", "team/app", "--version", &first]);
    assert!(pulled.stdout.contains("\"one\""), "{}", pulled.stdout);

    let restore = ["state", "restore", "team/app", "--version", &first];
    let refused = rebuild(5, &restore);
    assert!(
        refused.stderr.contains("--confirm team/app"),
        "{}",
        refused.stderr
    );
    rebuild(5, &[&restore[..], &["--confirm", "team/ap"]].concat());
    assert_eq!(backend.json("/versions/team/app")["serial"], json!(now));
    let done = rebuild(0, &[&restore[..], &["--confirm", "team/app"]].concat());
    assert!(
        done.stdout.contains(&format!("lists serial {now}")),
        "{}",
        done.stdout
    );
    let versions = backend.json("/versions/team/app");
    assert!(
        versions["versions"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|version| version["serial"] == json!(now))
    );
    // OpenTofu goes on from there: what was one is three again.
    let args = [
        "apply",
        "-auto-approve",
        "-input=false",
        "-var",
        "value=four",
    ];
    let apply = stage.tofu(&backend, &dir, "team/app", &args).run();
    apply.expect_code(0);
    assert!(apply.stdout.contains("\"one\""), "{}", apply.stdout);

    // A backup of another lineage: explained first, put back only when it is named.
    let other = stage.world.write(
        "backup.tfstate",
        &String::from_utf8(state("other-lineage", 3, "x")).expect("text"),
    );
    let other = other.to_str().expect("a path");
    let with_file = [
        "state",
        "restore",
        "team/app",
        "--file",
        other,
        "--confirm",
        "team/app",
    ];
    let refused = rebuild(5, &with_file);
    assert!(
        refused.stderr.contains("another lineage")
            && refused.stderr.contains(&lineage)
            && refused.stderr.contains("--lineage other-lineage"),
        "{}",
        refused.stderr
    );
    let done = rebuild(
        0,
        &[
            &with_file[..],
            &["--lineage", "other-lineage", "--output", "json"],
        ]
        .concat(),
    );
    let done: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(
        (&done["lineage"], &done["replaced_lineage"]),
        (&json!("other-lineage"), &json!(lineage))
    );
    assert_eq!(
        backend.json("/versions/team/app")["lineage"],
        "other-lineage"
    );
    let versions = backend.json("/versions/team/app");
    assert!(
        versions["versions"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|version| version["lineage"] == json!(lineage))
    );
    // Under another's lock nothing goes back, and the lock stays.
    assert_eq!(
        backend
            .ask("LOCK", "/state/team/app", &lock_info("theirs"))
            .0,
        200
    );
    let locked = rebuild(
        4,
        &[
            &restore[..],
            &["--confirm", "team/app", "--lineage", &lineage],
        ]
        .concat(),
    );
    assert!(
        locked.stderr.contains("ann@lab") && locked.stderr.contains("theirs"),
        "{}",
        locked.stderr
    );
    assert_eq!(
        backend
            .ask("UNLOCK", "/state/team/app", &lock_info("theirs"))
            .0,
        200
    );
    rebuild(1, &["state", "pull", "team/app", "--version", "99"]);
}

/// The states of a target are `rebuild up`'s to write: a served backend over its store reads them only.
#[test]
fn the_store_of_a_target_is_served_for_reading() {
    let drill = crate::drill::Drill::of(
        "[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"edge\"\ntofu = \"edge\"\n",
        &[(
            "edge",
            "resource \"terraform_data\" \"it\" { input = \"made by up\" }",
        )],
    );
    drill.up();
    let stage = Stage::new();
    let store = drill.store();
    let store = store.to_str().expect("a path");
    let backend = stage.start_with(&["--config", "backend.toml", "--store", store]);
    assert_eq!(backend.line["read_only"], json!(true));
    let (status, found) = backend.ask("GET", "/state/1/edge", b"");
    assert_eq!(status, 200);
    assert!(String::from_utf8_lossy(&found).contains("made by up"));
    for method in ["POST", "LOCK", "UNLOCK", "DELETE"] {
        assert_eq!(
            backend.ask(method, "/state/1/edge?ID=x", &lock_info("x")).0,
            403,
            "{method}"
        );
    }
}

/// A root module moves here from GitLab, or from any plain `http` backend, as the page on the backend says.
#[test]
fn a_state_moves_in_from_gitlab_with_its_lineage() {
    let stage = Stage::new();
    let backend = stage.start();
    stage.world.write(
        "gitlab.py",
        include_str!("../../../fixtures/gitlab_state.py"),
    );
    let port = stage.world.work().join("port");
    let gitlab = stage
        .world
        .command("python3")
        .args(["gitlab.py", "port"])
        .start();
    let port = wait_for("the stand-in of GitLab", || {
        std::fs::read_to_string(&port)
            .ok()?
            .trim()
            .parse::<u16>()
            .ok()
    });
    stage
        .world
        .write("module/main.tf", crate::backend_stage::MODULE);
    let dir = stage.world.work().join("module");
    let address = format!("http://127.0.0.1:{port}/api/v4/projects/1/terraform/state/app");
    let at_gitlab = |args: &[&str]| {
        let outcome = stage
            .plain_tofu(&dir, args)
            .env("TF_HTTP_ADDRESS", &address)
            .env("TF_HTTP_LOCK_ADDRESS", format!("{address}/lock"))
            .env("TF_HTTP_UNLOCK_ADDRESS", format!("{address}/lock"))
            .env("TF_HTTP_LOCK_METHOD", "POST")
            .env("TF_HTTP_UNLOCK_METHOD", "DELETE")
            .env("TF_HTTP_USERNAME", "gitlab-ci-token")
            .env("TF_HTTP_PASSWORD", "glpat-of-the-tests")
            .run();
        outcome.expect_code(0);
        outcome.stdout
    };
    at_gitlab(&["init", "-input=false"]);
    at_gitlab(&[
        "apply",
        "-auto-approve",
        "-input=false",
        "-var",
        "value=of gitlab",
    ]);
    let before: Value = serde_json::from_str(&at_gitlab(&["state", "pull"])).expect("a state");

    // What the page says: take the bytes there, put them here, point the root module here, plan.
    stage
        .world
        .write("moved.tfstate", &at_gitlab(&["state", "pull"]));
    let put = [
        "state",
        "restore",
        "team/app",
        "--file",
        "moved.tfstate",
        "--confirm",
        "team/app",
    ];
    stage.rebuild(&backend, &put).run().expect_code(0);
    let here = |path: &str, args: &[&str]| {
        stage.tofu(&backend, &dir, path, args).run().expect_code(0);
    };
    here("team/app", &["init", "-input=false", "-reconfigure"]);
    let plan = [
        "plan",
        "-input=false",
        "-detailed-exitcode",
        "-var",
        "value=of gitlab",
    ];
    here("team/app", &plan);
    let after = backend.json("/state/team/app");
    for part in ["lineage", "serial", "resources"] {
        assert_eq!(after[part], before[part], "{part}");
    }
    let apply = [
        "apply",
        "-auto-approve",
        "-input=false",
        "-var",
        "value=of here",
    ];
    here("team/app", &apply);
    // OpenTofu's own way in loses the lineage, which the page says.
    here("team/pushed", &["state", "push", "../moved.tfstate"]);
    here("team/pushed", &plan);
    let pushed = backend.json("/state/team/pushed");
    assert_ne!(pushed["lineage"], before["lineage"]);
    assert_eq!(pushed["resources"], before["resources"]);
    gitlab.signal(Signal::TERM);
    let _ = gitlab.wait();
}

/// States in a bucket of a real S3 server: written, locked, kept and listed as in a directory. A bucket that is not
/// there is never an empty one.
#[test]
fn states_are_served_from_a_bucket() {
    let stage = Stage::new();
    let gateway = crate::gateway::Gateway::start(&stage.world);
    let store = format!(
        "s3://states/shared?region=us-east-1&path_style=true&endpoint={}",
        gateway.url()
    );
    let serve = [
        "backend",
        "serve",
        "--config",
        "backend.toml",
        "--store",
        &store,
    ];
    let missing = stage
        .world
        .command(env!("CARGO_BIN_EXE_rebuild_dup"))
        .args(serve)
        .env("CI_SECRET", SECRET)
        .env("AWS_ACCESS_KEY_ID", "tester")
        .env("AWS_SECRET_ACCESS_KEY", crate::gateway::KEY)
        .run();
    missing.expect_code(3);
    assert!(
        missing.stderr.contains("does not exist"),
        "{}",
        missing.stderr
    );
    gateway.make("states");
    let backend = stage.start_with(&serve[2..]);
    let dir = stage.module(&backend, "module");
    for value in ["value=one", "value=two"] {
        let args = ["apply", "-auto-approve", "-input=false", "-var", value];
        stage
            .tofu(&backend, &dir, "team/app", &args)
            .run()
            .expect_code(0);
    }
    assert_eq!(write(&backend, "team", &state("l", 1, "x")).0, 200);
    assert!(
        gateway
            .objects("states")
            .contains_key("shared/state/team@/app")
    );
    let versions = backend.json("/versions/team/app");
    assert!(!versions["versions"].as_array().expect("a list").is_empty());
    assert_eq!(
        backend.json("/states")["states"]
            .as_array()
            .expect("a list")
            .len(),
        2
    );
    assert_eq!(backend.ask("LOCK", "/state/team", &lock_info("me")).0, 200);
    assert_eq!(
        backend.ask("LOCK", "/state/team", &lock_info("other")),
        (423, lock_info("me"))
    );
    backend.signal(Signal::TERM);
    let (code, log) = backend.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains(crate::gateway::KEY));
}

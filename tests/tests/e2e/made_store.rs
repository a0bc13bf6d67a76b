//! The store that phase 0 makes: everything moves into it, and back before it goes.

use crate::careless_server::Careless;
use crate::counting_proxy::Proxy;
use crate::gateway::{Clouded, KEY, PASSPHRASE};

/// What the state of each phase holds, and no object of the bucket may.
const KNOWN_PLAINTEXT: &str = "known-plaintext-of-a-state";
const SECRET: &str = "a-secret-that-a-step-is-given";

/// The six phases behind phase 0, each with one root module.
fn seven_phases() -> Clouded {
    let mut phases = String::new();
    let ids = ["1a", "1b", "1c", "2", "3", "4"];
    for id in ids {
        phases.push_str(&format!(
            "[[phase]]\nid = \"{id}\"\ntitle = \"phase {id}\"\n{}[[phase.step]]\nname = \"it\"\ntofu = \"phases/{id}\"\n\
             vars = {{ token = \"${{secret.token}}\", bucket = \"${{step.0.bucket.bucket}}\" }}\n",
            if id == "4" { "canary = true\n" } else { "" }
        ));
    }
    let module = format!(
        "variable \"token\" {{ sensitive = true }}\nvariable \"bucket\" {{}}\n\
         resource \"terraform_data\" \"it\" {{ input = \"{KNOWN_PLAINTEXT} ${{var.bucket}} ${{var.token}}\" }}\n"
    );
    let names: Vec<String> = ids.iter().map(|id| format!("phases/{id}")).collect();
    let modules: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), module.as_str()))
        .collect();
    let clouded = Clouded::of(&phases, &modules);
    let file = clouded.drill.dir().join("targets/drill.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    clouded.drill.write(
        "targets/drill.toml",
        &text.replace("[env]", "token = { env = \"TOKEN\" }\n[env]"),
    );
    clouded
}

/// Seven phases from nothing, with encryption; phase 0 makes a real bucket, and no object of it holds a secret or
/// the plain text of a state.
#[test]
fn seven_phases_keep_their_states_in_the_bucket_that_phase_0_makes() {
    let clouded = seven_phases();
    let run = |code: i32, args: &[&str]| {
        let outcome = clouded.command(args).env("TOKEN", SECRET).run();
        outcome.expect_code(code);
        outcome
    };
    let up = run(0, &["up", "--no-pause"]);
    assert!(up.stderr.contains("states moved from"), "{}", up.stderr);
    assert!(up.stderr.contains("S3 bucket `states`"), "{}", up.stderr);
    let objects = clouded.gateway.objects("states");
    for key in [
        "target.json",
        "keys.json",
        "run/head.json",
        "state/0/bucket",
        "state/4/it",
    ] {
        let key = format!("drill/{key}");
        assert!(objects.contains_key(&key), "`{key}`: {:?}", objects.keys());
    }
    assert!(
        objects.keys().all(|key| key.starts_with("drill/")),
        "below the prefix"
    );
    assert!(!objects.contains_key("drill/lock.json") && !objects.contains_key("drill/moving.json"));
    assert!(clouded.spooled().is_empty(), "{:?}", clouded.spooled());
    let bucket = clouded.gateway.bucket("states");
    for needle in [
        KNOWN_PLAINTEXT,
        SECRET,
        KEY,
        PASSPHRASE,
        "terraform_version\":",
    ] {
        let found = clouded.drill.world.files_with(&bucket, needle.as_bytes());
        assert!(found.is_empty(), "`{needle}` in {found:?}");
    }
    // From here on everything happens there.
    let status = run(0, &["status", "--output", "json"]);
    assert!(status.stdout.contains("\"finished\""), "{}", status.stdout);
    run(0, &["preflight"]);
    run(0, &["up", "--no-pause"]);
    assert!(clouded.spooled().is_empty());

    let down = run(0, &["down"]);
    assert!(
        down.stderr.contains("states moved from S3 bucket"),
        "{}",
        down.stderr
    );
    assert!(!bucket.exists(), "phase 0 is gone");
    let spooled = clouded.spooled();
    assert!(spooled.contains(&"run/head.json".to_owned()), "{spooled:?}");
    let status = run(0, &["status", "--output", "json"]);
    assert!(status.stdout.contains("\"empty\""), "{}", status.stdout);
    let again = run(0, &["down"]);
    assert!(again.stderr.contains("nothing is left"), "{}", again.stderr);
    // And from the spool, with its records, into a new bucket.
    run(0, &["up", "--no-pause", "--through", "1a"]);
    assert!(clouded.spooled().is_empty());
    let runs = run(0, &["runs", "list", "--output", "json"]);
    let runs: serde_json::Value = serde_json::from_str(&runs.stdout).unwrap();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(3), "{runs:#}");
    run(0, &["down"]);
    assert!(!bucket.exists());
}

/// Two phases that hold each other's outputs, as short as a run with a store of its own can be.
fn short() -> Clouded {
    Clouded::of(
        "[[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"it\"\ntofu = \"one\"\n",
        &[(
            "one",
            "resource \"terraform_data\" \"it\" { input = \"one\" }\n",
        )],
    )
}

/// Kills the call that `args` begin at its nth write to the bucket.
fn killed_at(n: usize, clouded: &Clouded, proxy: &Proxy, args: &[&str]) {
    proxy.stop_at(n);
    let started = clouded.command(args).start();
    assert!(proxy.await_stop(), "{args:?} wrote fewer than {n} times");
    started.signal(rustix::process::Signal::KILL);
    assert_eq!(started.wait().ended, test_support::Ended::Signal(9));
    proxy.go_on();
}

fn attempts(clouded: &Clouded, step: &str) -> serde_json::Value {
    let status = clouded.run(0, &["status", "--output", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let steps = status["run"]["steps"].as_array().unwrap();
    let found = steps.iter().find(|found| found["step"] == step).unwrap();
    found["attempts"].clone()
}

/// Cases R1, L16: SIGKILL between writes of the move into the bucket, and of the move back: the next call goes on, what was
/// applied is not applied again, nothing is lost. The unit tests of `run` cut every single write; these here are real deaths.
#[test]
fn a_call_that_is_killed_in_a_move_is_gone_on_with() {
    const UP: [&str; 4] = ["up", "--no-pause", "--through", "0"];
    let clouded = Clouded::of("", &[]);
    let proxy = Proxy::before(clouded.gateway.address());
    clouded.point_at(&proxy.address);
    clouded.run(0, &UP);
    let up = proxy.n_writes();
    clouded.run(0, &["down"]);
    let down = proxy.n_writes() - up;
    assert!(up > 12 && down > 2, "{up} and {down} writes");
    for round in 1..=4 {
        killed_at(up * round / 4, &clouded, &proxy, &UP);
        clouded.run(0, &["up", "--resume", "--no-pause"]);
        assert_eq!(attempts(&clouded, "0.bucket"), 1, "made once");
        assert!(
            clouded
                .gateway
                .objects("states")
                .contains_key("drill/target.json")
        );
        assert!(clouded.spooled().is_empty(), "{:?}", clouded.spooled());
        killed_at(
            1 + (down - 1) * (round - 1) / 3,
            &clouded,
            &proxy,
            &["down"],
        );
        clouded.run(0, &["down"]);
        assert!(!clouded.gateway.bucket("states").exists());
        assert!(clouded.spooled().contains(&"run/head.json".to_owned()));
    }
}

/// Of what a cloud can say only "that bucket does not exist" means "not yet"; all else ends the call with 3
/// before anything is touched, and the next one goes on.
#[test]
fn what_is_no_definite_word_stops_every_command() {
    let clouded = short();
    let nothing_done = || {
        assert!(!clouded.gateway.bucket("states").exists());
        assert!(clouded.spooled().is_empty(), "{:?}", clouded.spooled());
    };
    let refused = |says: &str| {
        for args in [
            &["up", "--no-pause"][..],
            &["down"],
            &["preflight"],
            &["status"],
        ] {
            let outcome = clouded.run(3, args);
            assert!(
                outcome.stderr.contains(says),
                "`{says}` of {args:?}: {}",
                outcome.stderr
            );
            assert!(
                outcome.stderr.contains("othing was touched"),
                "{}",
                outcome.stderr
            );
        }
        nothing_done();
    };
    // Refused connection; a name that means nothing; a wrong key; a 404 that speaks of something else.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    clouded.point_at(&address);
    refused("no connection");
    clouded.target("https://no-such-host.invalid", "");
    refused("can't be resolved");
    for (id, says) in [("tester", "access is denied"), ("nobody", "404")] {
        let wrong =
            format!(", access_key_id = \"{id}\", secret_access_key = \"${{secret.s3_key}}x\"");
        clouded.target(&clouded.gateway.url(), &wrong);
        refused(says);
    }
    // It takes connections and never answers.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    clouded.target(
        &format!("http://{}", deaf.local_addr().unwrap()),
        ", timeout = \"300ms\"",
    );
    let outcome = clouded.run(3, &["up", "--no-pause"]);
    assert!(
        outcome.stderr.contains("no answer within"),
        "{}",
        outcome.stderr
    );
    nothing_done();
    // A bucket that somebody has made, on a machine that has built nothing.
    clouded.point_at(&clouded.gateway.address());
    clouded.gateway.make("states");
    let outcome = clouded.run(3, &["up", "--no-pause"]);
    assert!(
        outcome.stderr.contains("has no spool"),
        "{}",
        outcome.stderr
    );
    assert!(clouded.gateway.objects("states").is_empty());
}

/// A bucket that belongs to another target is refused, whoever made it, and nothing of it is touched.
#[test]
fn a_bucket_of_another_target_is_refused() {
    let clouded = Clouded::of("", &[]);
    clouded.run(0, &["up", "--no-pause"]);
    let before = clouded.gateway.objects("states");
    let text = std::fs::read_to_string(clouded.drill.dir().join("targets/drill.toml")).unwrap();
    clouded.drill.write("targets/other.toml", &text);
    let of_other = |code: i32, args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--target", "other"]);
        let command = clouded
            .drill
            .rebuild(&all)
            .env("PASS", PASSPHRASE)
            .env("S3_KEY", KEY);
        let outcome = command.run();
        outcome.expect_code(code);
        outcome
    };
    for args in [
        &["up", "--no-pause"][..],
        &["down"],
        &["status"],
        &["preflight"],
    ] {
        let outcome = of_other(3, args);
        let says = "belongs to target `drill` of platform `lab`";
        assert!(
            outcome.stderr.contains(says),
            "{args:?}: {}",
            outcome.stderr
        );
    }
    assert!(clouded.gateway.objects("states") == before);
    clouded.run(0, &["down"]);
}

/// A target whose store no phase makes: the bucket must be there, a first build begins in it, and it stays after `down`.
#[test]
fn a_bucket_that_is_made_elsewhere_is_used_from_the_start() {
    let clouded = Clouded::of("", &[]);
    let definitions = clouded.drill.dir().join("rebuild.toml");
    let text = std::fs::read_to_string(&definitions).unwrap();
    clouded.drill.write(
        "phases/0-state/main.tf",
        "variable \"bucket\" {}\nvariable \"endpoint\" {}\n",
    );
    clouded.drill.write(
        "rebuild.toml",
        text.replace("provides_state = true\n", "")
            .split("[[phase.residue]]")
            .next()
            .unwrap(),
    );
    let outcome = clouded.run(3, &["up", "--no-pause"]);
    assert!(
        outcome.stderr.contains("does not exist"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("provides_state"),
        "{}",
        outcome.stderr
    );
    clouded.gateway.make("states");
    clouded.run(0, &["up", "--no-pause"]);
    assert!(clouded.spooled().is_empty());
    clouded.run(0, &["down"]);
    let objects = clouded.gateway.objects("states");
    assert!(
        objects.contains_key("drill/run/head.json"),
        "{:?}",
        objects.keys()
    );
}

/// A bucket that plain OpenTofu has made: its maker's state is taken over into the spool, and the next `up` moves everything
/// into the bucket, which is not made again.
#[test]
fn a_bucket_that_plain_opentofu_has_made_is_taken_over() {
    let clouded = Clouded::of("", &[]);
    let module = clouded.drill.dir().join("phases/0-state");
    for words in [&["init"][..], &["apply", "-auto-approve"]] {
        let command = clouded
            .drill
            .world
            .command(crate::drill::tool("REBUILD_TEST_TOFU"))
            .args(words.iter().copied())
            .arg("-input=false")
            .env("TF_VAR_endpoint", clouded.gateway.url())
            .env("TF_VAR_bucket", "states")
            .env("AWS_ACCESS_KEY_ID", "tester")
            .env("AWS_SECRET_ACCESS_KEY", KEY)
            .cwd(&module);
        command.run().expect_code(0);
    }
    assert!(clouded.gateway.bucket("states").exists());
    let stopped = clouded.run(3, &["up", "--no-pause"]);
    assert!(
        stopped.stderr.contains("rebuild state migrate"),
        "{}",
        stopped.stderr
    );
    clouded.run(0, &["state", "migrate", "0.bucket"]);
    assert!(clouded.spooled().contains(&"state/0/bucket".to_owned()));
    clouded.run(0, &["up", "--no-pause"]);
    let objects = clouded.gateway.objects("states");
    assert!(
        objects.contains_key("drill/state/0/bucket"),
        "{:?}",
        objects.keys()
    );
    assert!(clouded.spooled().is_empty());
    clouded.run(0, &["down"]);
    assert!(!clouded.gateway.bucket("states").exists());
}

/// Where phase 0 makes the store, an archive in another bucket keeps each ended record.
#[test]
fn records_are_archived_in_a_bucket_of_their_own() {
    let clouded = Clouded::of("", &[]);
    clouded.gateway.make("archive");
    let file = clouded.drill.dir().join("targets/drill.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let archive = format!(
        "[archive]\ns3 = {{ bucket = \"archive\", endpoint = \"{}\", access_key_id = \"tester\", secret_access_key = \"${{secret.s3_key}}\" }}\n",
        clouded.gateway.url()
    );
    clouded
        .drill
        .write("targets/drill.toml", &format!("{archive}{text}"));
    clouded.run(0, &["up", "--no-pause"]);
    let kept = || -> Vec<String> {
        let objects = clouded.gateway.objects("archive");
        let runs = objects.into_keys().filter(|key| key.starts_with("run/"));
        runs.collect()
    };
    assert_eq!(kept().len(), 1, "the finished run: {:?}", kept());
    clouded.run(0, &["down"]);
    assert!(!clouded.gateway.bucket("states").exists());
    let kept = kept();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let record = &clouded.gateway.objects("archive")[&kept[0]];
    let record: serde_json::Value = serde_json::from_slice(record).unwrap();
    assert_eq!(record["status"], "torn-down");
}

/// A server that ignores conditions would let two callers change a target at once: refused at its first use, with nothing
/// written but what the trial needs.
#[test]
fn a_server_that_ignores_conditions_can_not_be_a_store() {
    let clouded = Clouded::of("", &[]);
    let definitions = clouded.drill.dir().join("rebuild.toml");
    let text = std::fs::read_to_string(&definitions).unwrap();
    let text = text.replace("provides_state = true\n", "");
    clouded.drill.write("rebuild.toml", &text);
    let careless = Careless::start();
    clouded.point_at(&careless.address);
    let refused = clouded.run(3, &["up", "--no-pause"]);
    let says = "the server ignores the condition of a creation";
    assert!(refused.stderr.contains(says), "{}", refused.stderr);
    let written = careless.written();
    assert!(
        !written.is_empty() && written.iter().all(|path| path.contains("/.probe-")),
        "{written:?}"
    );
}

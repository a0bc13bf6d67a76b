//! `store move`: a target goes from one store to another, and the old one says where it went.

use crate::gateway::{Clouded, KEY};

/// A drill in a local store, beside a gateway with a bucket that nobody's phase makes.
fn scene() -> Clouded {
    let clouded = Clouded::of("", &[]);
    clouded.drill.write(
        "rebuild.toml",
        "[platform]\nname = \"lab\"\n[[phase]]\nid = \"1\"\ntitle = \"one\"\n[[phase.step]]\nname = \"it\"\ntofu = \"one\"\n",
    );
    clouded.drill.write(
        "one/main.tf",
        "resource \"terraform_data\" \"it\" { input = \"one\" }\n",
    );
    target(&clouded, "");
    clouded.gateway.make("states");
    clouded
}

/// Writes the target file with these lines of `[store]`.
fn target(clouded: &Clouded, store: &str) {
    clouded.drill.write(
        "targets/drill.toml",
        &format!(
            "[store]\n{store}\n[encryption]\npassphrase = {{ env = \"PASS\" }}\n[secrets]\ns3_key = {{ env = \"S3_KEY\" }}\n"
        ),
    );
}

/// Runs `store move` and gives what it says `[store]` has to say.
fn moved(clouded: &Clouded, to: &str) -> (String, u64) {
    let said = clouded.run(0, &["store", "move", "--to", to, "--output", "json"]);
    let said: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let store = said["store"].as_str().unwrap().to_owned();
    (store, said["n_values"].as_u64().unwrap())
}

#[test]
fn a_target_moves_between_stores_and_the_old_one_says_where_it_went() {
    let clouded = scene();
    let bucket = |prefix: &str| {
        format!(
            "s3 = {{ bucket = \"states\", endpoint = \"{}\", prefix = \"{prefix}\", access_key_id = \"tester\", \
             secret_access_key = \"${{secret.s3_key}}\" }}",
            clouded.gateway.url()
        )
    };
    // Nothing stands: there is nothing to move.
    let outcome = clouded.run(2, &["store", "move", "--to", "/nowhere"]);
    assert!(outcome.stderr.contains("never built"), "{}", outcome.stderr);
    let address = ["store", "move", "--to", "s3://states/one?region=eu-1"];
    let outcome = clouded.run(2, &address);
    let expected = "--to 's3 = { bucket = \"states\", prefix = \"one\", region = \"eu-1\" }'`";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    clouded.run(0, &["up", "--no-pause"]);

    let (store, n) = moved(&clouded, &bucket("one"));
    assert!(n > 3, "{n} values");
    assert_eq!(store, bucket("one"));
    let objects = clouded.gateway.objects("states");
    assert!(
        objects.contains_key("one/state/1/it"),
        "{:?}",
        objects.keys()
    );
    assert!(!objects.contains_key("one/lock.json") && !objects.contains_key("one/moving.json"));
    // The old one is not gone on with, by no command; the same move again has nothing to do.
    for args in [&["up", "--no-pause"][..], &["status"], &["down"]] {
        let outcome = clouded.run(3, args);
        assert!(
            outcome.stderr.contains("S3 bucket `states`"),
            "{}",
            outcome.stderr
        );
    }
    assert_eq!(moved(&clouded, &bucket("one")).1, 0);
    target(&clouded, &store);
    clouded.run(0, &["preflight"]);
    clouded.run(0, &["up", "--no-pause"]);
    // From prefix to prefix, and home again, over what was left there.
    let (store, _) = moved(&clouded, &bucket("two"));
    target(&clouded, &store);
    clouded.run(0, &["preflight"]);
    let home = clouded.drill.store().display().to_string();
    let (store, _) = moved(&clouded, &home);
    target(&clouded, &store);
    clouded.run(0, &["preflight"]);
    let runs = clouded.run(0, &["runs", "list", "--output", "json"]);
    let runs: serde_json::Value = serde_json::from_str(&runs.stdout).unwrap();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2), "{runs:#}");
    clouded.run(0, &["down"]);
    let found = clouded
        .drill
        .world
        .files_with(&clouded.gateway.bucket("states"), KEY.as_bytes());
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_store_that_is_not_free_or_not_a_store_is_refused() {
    let clouded = scene();
    clouded.run(0, &["up", "--no-pause"]);
    let before = crate::stage::snapshot(&clouded.drill.store());
    let refused = |code: i32, to: &str, says: &str| {
        let outcome = clouded.run(code, &["store", "move", "--to", to]);
        assert!(
            outcome.stderr.contains(says),
            "`{says}` of {to}: {}",
            outcome.stderr
        );
        let now = crate::stage::snapshot(&clouded.drill.store());
        assert!(now == before, "the store is as it was");
    };
    let home = clouded.drill.store().display().to_string();
    refused(2, &home, "is to move to where");
    refused(2, "somewhere", "is no store");
    refused(2, "s3 = { bukcet = \"x\", region = \"y\" }", "bukcet");
    refused(
        2,
        "s3 = { bucket = \"x\", region = \"y\", access_key_id = \"a\", secret_access_key = \"${secret.nothing}\" }",
        "leads nowhere",
    );
    // Another target's; one with things in it that nobody names; one that can't be had.
    let other = clouded.drill.world.root().join("other");
    let write = |name: &str, text: &str| {
        let file = other.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("state/1/it", "x");
    let dir = other.display().to_string();
    refused(3, &dir, "nothing in it says whose");
    write(
        "target.json",
        r#"{"schema":1,"platform":"lab","target":"live","id":"01OTHER"}"#,
    );
    refused(3, &dir, "belongs to target `live` of platform `lab`");
    let missing = format!(
        "s3 = {{ bucket = \"no-such-bucket\", endpoint = \"{}\", access_key_id = \"tester\", secret_access_key = \"${{secret.s3_key}}\" }}",
        clouded.gateway.url()
    );
    refused(3, &missing, "does not exist");
    assert_eq!(std::fs::read(other.join("state/1/it")).unwrap(), b"x");
    clouded.run(0, &["down"]);
}

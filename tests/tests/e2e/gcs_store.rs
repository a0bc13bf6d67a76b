//! A target whose states are in a bucket of Google's that its phase 0 makes: the very server that holds the store's contract.

use crate::drill::Drill;

#[expect(dead_code, reason = "the store's own tests ask for more of it")]
#[path = "../../../crates/cloud-store/tests/servers/canned.rs"]
mod canned;
#[expect(dead_code, reason = "the store's own tests ask for more of it")]
#[path = "../../../crates/cloud-store/tests/servers/gcs_model.rs"]
mod gcs_model;

use gcs_model::{BUCKET, Model};

const TOKEN: &str = "a-token";
const PASSPHRASE: &str = "a passphrase of more than sixteen";

/// Makes or removes the bucket, as a provider would: `METHOD ENDPOINT`.
const BUCKETS: &str = "import os, sys, urllib.request\nasked = urllib.request.Request(sys.argv[2] + '/states', method=sys.argv[1], headers={'Authorization': 'Bearer ' + os.environ['TOKEN']})\nurllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30)\n";

/// Only the cloud's word that there is no bucket means "not yet"; then phase 0 makes it, everything moves in, is read there by
/// the next calls, and moves back before the bucket goes.
#[test]
fn a_target_lives_in_a_bucket_of_googles_that_phase_0_makes() {
    let server = Model::default().serve();
    let endpoint = format!("http://{}", server.address);
    let drill = Drill::empty();
    let script = drill.world.write("buckets.py", BUCKETS);
    let bucket = format!(
        "resource \"terraform_data\" \"it\" {{\n  input = \"{endpoint}\"\n  provisioner \"local-exec\" {{ command = \"python3 {script} PUT ${{self.input}}\" }}\n  provisioner \"local-exec\" {{\n    when    = destroy\n    command = \"python3 {script} DELETE ${{self.input}}\"\n  }}\n}}\n",
        script = script.display()
    );
    drill.write("bucket/main.tf", &bucket);
    drill.write(
        "app/main.tf",
        "resource \"terraform_data\" \"it\" { input = \"known-plaintext\" }\n",
    );
    drill.write(
        "rebuild.toml",
        "[platform]\nname = \"lab\"\n[[phase]]\nid = \"0\"\nprovides_state = true\n[[phase.step]]\nname = \"bucket\"\ntofu = \"bucket\"\n[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"app\"\ntofu = \"app\"\n",
    );
    drill.write(
        "targets/drill.toml",
        &format!(
            "[store]\ngcs = {{ bucket = \"{BUCKET}\", prefix = \"drill\", endpoint = \"{endpoint}\", access_token = \"${{secret.gcs}}\" }}\n[encryption]\npassphrase = {{ env = \"PASS\" }}\n[secrets]\ngcs = {{ env = \"TOKEN\" }}\n[env]\nTOKEN = \"${{secret.gcs}}\"\n"
        ),
    );
    let run = |code: i32, token: &str, args: &[&str]| {
        let mut all = args.to_vec();
        all.extend(["--target", "drill"]);
        let command = drill
            .rebuild(&all)
            .env("PASS", PASSPHRASE)
            .env("TOKEN", token);
        let outcome = command.run();
        outcome.expect_code(code);
        outcome
    };
    // Whoever is not let in is not told that there is no bucket.
    run(3, "a-wrong-token", &["up", "--no-pause"]);
    let up = run(0, TOKEN, &["up", "--no-pause"]);
    assert!(up.stderr.contains("GCS bucket `states`"), "{}", up.stderr);
    run(0, TOKEN, &["preflight"]);
    let listed = run(0, TOKEN, &["state", "list"]).stdout;
    assert!(
        listed.contains("0/bucket") && listed.contains("1/app"),
        "{listed}"
    );
    let kept = run(0, TOKEN, &["state", "pull", "1.app"]).stdout;
    assert!(
        kept.contains("encrypted_data") && !kept.contains("known-plaintext"),
        "{kept}"
    );
    run(0, TOKEN, &["up", "--no-pause"]);
    let down = run(0, TOKEN, &["down"]);
    assert!(
        down.stderr.contains("states moved from GCS bucket"),
        "{}",
        down.stderr
    );
    let status = run(0, TOKEN, &["status", "--output", "json"]).stdout;
    assert!(status.contains("\"empty\""), "{status}");
}

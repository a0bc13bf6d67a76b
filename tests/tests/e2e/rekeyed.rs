//! `state rekey`: everything that is stored goes to another passphrase, another mode, to or from no encryption.

use test_support::{Ended, Outcome};

use crate::drill::Drill;
use crate::stage::executable;

const FORMER: &str = "the former passphrase of a test";
const TODAY: &str = "the passphrase of today of a test";
/// Found in the definitions and in the states, and in nothing that is encrypted.
const KNOWN_PLAINTEXT: &str = "known-plaintext-of-the-state";
const EXTERNAL: &str = "[encryption]\npassphrase = { env = \"PASS\" }\n";
const PBKDF2: &str = "[encryption]\npassphrase = { env = \"PASS\" }\nmode = \"pbkdf2\"\n";

/// Two steps, each with a state that has an earlier version.
fn built(encryption: &str, passphrase: &str) -> Drill {
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"a\"\ntofu = \"a\"\n[[phase.step]]\nname = \"b\"\ntofu = \"b\"\n",
        &[],
    );
    drill.write("targets/drill.toml", encryption);
    for value in ["one", "two"] {
        for step in ["a", "b"] {
            drill.write(
                &format!("{step}/main.tf"),
                &format!("resource \"terraform_data\" \"it\" {{ input = \"{KNOWN_PLAINTEXT} {value}\" }}\n"),
            );
        }
        run(&drill, passphrase, 0, &["up", "--no-pause"]);
    }
    drill
}

fn run(drill: &Drill, passphrase: &str, code: i32, words: &[&str]) -> Outcome {
    let mut all = words.to_vec();
    all.extend(["--target", "drill"]);
    let command = drill
        .rebuild(&all)
        .env("PASS", passphrase)
        .env("FORMER", FORMER);
    let outcome = command.run();
    outcome.expect_code(code);
    outcome
}

fn rekey(drill: &Drill, passphrase: &str) -> serde_json::Value {
    let words = [
        "state",
        "rekey",
        "--former-env",
        "FORMER",
        "--output",
        "json",
    ];
    serde_json::from_str(&run(drill, passphrase, 0, &words).stdout).unwrap()
}

/// Everything reads with today's passphrase alone, nothing was lost, and nothing shows as a change.
fn expect_whole(drill: &Drill, passphrase: &str, is_encrypted: bool) {
    run(drill, passphrase, 0, &["preflight"]);
    let plan = run(drill, passphrase, 0, &["plan", "--detailed-exitcode"]);
    assert!(!plan.stdout.contains("+ "), "{}", plan.stdout);
    let found = drill
        .world
        .files_with(&drill.store(), KNOWN_PLAINTEXT.as_bytes());
    // Two states and two versions; bundles lie packed.
    assert_eq!(found.len(), if is_encrypted { 0 } else { 4 }, "{found:?}");
    let keys = std::fs::read_to_string(drill.store().join("keys.json")).unwrap();
    assert!(!keys.contains("former"), "{keys}");
}

/// Case K1: another passphrase, though no resource changes: states, versions and bundles go to it, the former one opens
/// nothing any more, and the next `up` finds everything as it was.
#[test]
fn another_passphrase_opens_everything_and_the_former_one_nothing() {
    let drill = built(EXTERNAL, FORMER);
    // Without the former passphrase nothing is touched.
    let before = crate::stage::snapshot(&drill.store());
    let refused = run(&drill, TODAY, 2, &["state", "rekey"]);
    assert!(
        refused.stderr.contains("--former-env"),
        "{}",
        refused.stderr
    );
    assert!(crate::stage::snapshot(&drill.store()) == before);
    let done = rekey(&drill, TODAY);
    assert_eq!(
        (&done["n_states"], &done["n_versions"]),
        (&2.into(), &2.into()),
        "{done:#}"
    );
    assert!(done["n_bundles"].as_u64().unwrap() >= 2, "{done:#}");
    expect_whole(&drill, TODAY, true);
    let refused = run(&drill, FORMER, 2, &["preflight"]);
    assert!(
        refused.stderr.contains("is not the one"),
        "{}",
        refused.stderr
    );
    // Again: nothing is left to do.
    let again = rekey(&drill, TODAY);
    assert_eq!(again["n_states"], 0, "{again:#}");
    run(&drill, TODAY, 0, &["up", "--no-pause"]);
    run(&drill, TODAY, 0, &["down"]);
}

/// From one mode to the other and back, with the same passphrase.
#[test]
fn the_mode_changes_with_the_same_passphrase() {
    let drill = built(EXTERNAL, FORMER);
    drill.write("targets/drill.toml", PBKDF2);
    let done = rekey(&drill, FORMER);
    assert_eq!(
        (&done["n_states"], &done["n_bundles"]),
        (&2.into(), &0.into()),
        "{done:#}"
    );
    run(&drill, FORMER, 0, &["preflight"]);
    let state = std::fs::read_to_string(drill.store().join("state/0/a")).unwrap();
    assert!(state.contains("key_provider.pbkdf2.rebuild"), "{state}");
    drill.write("targets/drill.toml", EXTERNAL);
    rekey(&drill, FORMER);
    expect_whole(&drill, FORMER, true);
    run(&drill, FORMER, 0, &["down"]);
}

/// From no encryption, and to none again.
#[test]
fn encryption_comes_and_goes() {
    let drill = built("", "");
    drill.write("targets/drill.toml", EXTERNAL);
    rekey(&drill, FORMER);
    expect_whole(&drill, FORMER, true);
    drill.write("targets/drill.toml", "");
    rekey(&drill, "");
    expect_whole(&drill, "", false);
    run(&drill, "", 0, &["down"]);
}

/// A change of keys that a `tofu` kills at the nth call that turns a state.
fn rekey_killed_at(drill: &Drill, n: usize) {
    let real = crate::drill::tool("REBUILD_TEST_TOFU");
    let killing = drill.world.write(
        "killing/tofu",
        &format!(
            "#!/bin/sh\nif [ \"$1\" = state ]; then\n  echo x >> {count}\n  if [ \"$(wc -l < {count})\" -eq {n} ]; then kill -9 $PPID; exit 1; fi\nfi\nexec {real} \"$@\"\n",
            count = drill.world.root().join("calls").display(),
            real = real.display()
        ),
    );
    executable(&killing);
    let definitions = std::fs::read_to_string(drill.dir().join("rebuild.toml")).unwrap();
    let with_it = format!(
        "[tools]\ntofu = {{ command = [\"{}\"] }}\n[[phase]]",
        killing.display()
    );
    drill.write(
        "rebuild.toml",
        &definitions.replacen("[[phase]]", &with_it, 1),
    );
    let words = [
        "state",
        "rekey",
        "--former-env",
        "FORMER",
        "--target",
        "drill",
    ];
    let command = drill
        .rebuild(&words)
        .env("PASS", TODAY)
        .env("FORMER", FORMER);
    assert_eq!(command.run().ended, Ended::Signal(9), "at call {n}");
    drill.write("rebuild.toml", &definitions);
}

/// SIGKILL between any two states: both keys still work, since the change is gone on with; no other command goes on before.
#[test]
fn a_change_that_is_killed_is_gone_on_with() {
    for n in [3, 6] {
        let drill = built(EXTERNAL, FORMER);
        rekey_killed_at(&drill, n);
        for passphrase in [FORMER, TODAY] {
            let refused = run(&drill, passphrase, 2, &["preflight"]);
            assert!(
                refused.stderr.contains("rebuild state rekey"),
                "{}",
                refused.stderr
            );
        }
        rekey(&drill, TODAY);
        expect_whole(&drill, TODAY, true);
    }
}

/// Mid-way, each state opens by exactly one of the two passphrases with plain OpenTofu and no `rebuild`, as the docs show it, and
/// the bytes are had without either.
#[test]
fn mid_way_each_state_opens_by_one_of_the_two_passphrases_in_plain_opentofu() {
    let drill = built(PBKDF2, FORMER);
    rekey_killed_at(&drill, 5);
    let real = crate::drill::tool("REBUILD_TEST_TOFU");
    let mut opened = Vec::new();
    for step in ["a", "b"] {
        let plain = drill.world.root().join(format!("plain-{step}"));
        std::fs::create_dir(&plain).unwrap();
        let file = plain.join("terraform.tfstate");
        let pull = [
            "state",
            "pull",
            &format!("0.{step}"),
            "--into",
            file.to_str().unwrap(),
        ];
        run(&drill, TODAY, 0, &pull);
        for passphrase in [FORMER, TODAY] {
            let encryption = format!(
                "key_provider \"pbkdf2\" \"rebuild\" {{ passphrase = \"{passphrase}\" }}\nmethod \"aes_gcm\" \"rebuild\" {{ keys = key_provider.pbkdf2.rebuild }}\nstate {{ method = method.aes_gcm.rebuild }}\n"
            );
            let shown = drill
                .world
                .command(&real)
                .args(["state", "pull"])
                .env("TF_ENCRYPTION", encryption)
                .cwd(&plain)
                .run();
            if shown.code() == Some(0) {
                assert!(shown.stdout.contains(KNOWN_PLAINTEXT), "{shown:?}");
                opened.push((step, passphrase));
            }
        }
    }
    let steps: Vec<&str> = opened.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, ["a", "b"], "each by one of them: {opened:?}");
    rekey(&drill, TODAY);
    run(&drill, TODAY, 0, &["preflight"]);
    run(&drill, TODAY, 0, &["down"]);
}

/// What neither key opens is named, by its key in the store, and the former key is not dropped for it.
#[test]
fn what_neither_key_opens_keeps_the_former_one() {
    let drill = built(EXTERNAL, FORMER);
    let other = built(EXTERNAL, TODAY);
    let version = |drill: &Drill| {
        let files = crate::stage::snapshot(&drill.store().join("state/0"));
        files
            .into_keys()
            .find(|path| path.display().to_string().contains("/a@"))
            .unwrap()
    };
    let (ours, theirs) = (version(&drill), version(&other));
    let bytes = std::fs::read(&ours).unwrap();
    std::fs::copy(theirs, &ours).unwrap();
    let words = ["state", "rekey", "--former-env", "FORMER"];
    let failed = run(&drill, TODAY, 1, &words);
    assert!(failed.stderr.contains("state/0/a@"), "{}", failed.stderr);
    std::fs::write(&ours, bytes).unwrap();
    rekey(&drill, TODAY);
    expect_whole(&drill, TODAY, true);
}

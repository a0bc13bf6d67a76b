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
    let drill = built_once(encryption, passphrase);
    write_steps(&drill, "two");
    run(&drill, passphrase, 0, &["up", "--no-pause"]);
    drill
}

/// Two steps, each with a state.
fn built_once(encryption: &str, passphrase: &str) -> Drill {
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"a\"\ntofu = \"a\"\n[[phase.step]]\nname = \"b\"\ntofu = \"b\"\n",
        &[],
    );
    drill.write("targets/drill.toml", encryption);
    write_steps(&drill, "one");
    run(&drill, passphrase, 0, &["up", "--no-pause"]);
    drill
}

fn write_steps(drill: &Drill, value: &str) {
    for step in ["a", "b"] {
        let input = format!("{KNOWN_PLAINTEXT} {value}");
        drill.write(
            &format!("{step}/main.tf"),
            &format!("resource \"terraform_data\" \"it\" {{ input = \"{input}\" }}\n"),
        );
    }
}

/// The fewest rounds that OpenTofu's own stretching takes: what is proven does not hang on their number.
const ROUNDS: &str = "200000";

fn command(drill: &Drill, passphrase: &str, words: &[&str]) -> test_support::Command {
    let mut all = words.to_vec();
    all.extend(["--target", "drill"]);
    drill
        .rebuild(&all)
        .env("PASS", passphrase)
        .env("FORMER", FORMER)
        .env("__REBUILD_PBKDF2_ROUNDS", ROUNDS)
}

fn run(drill: &Drill, passphrase: &str, code: i32, words: &[&str]) -> Outcome {
    let outcome = command(drill, passphrase, words).run();
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

/// A `tofu` that kills who called it, at its nth call of `command`.
fn killing_at(drill: &Drill, command: &str, n: usize) -> std::path::PathBuf {
    let real = crate::drill::tool("REBUILD_TEST_TOFU");
    let killing = drill.world.write(
        &format!("killing/{command}/tofu"),
        &format!(
            "#!/bin/sh\nfor word; do if [ \"$word\" = {command} ]; then\n  echo x >> {count}\n  if [ \"$(wc -l < {count})\" -eq {n} ]; then kill -9 $PPID; exit 1; fi\n  break\nfi; done\nexec {real} \"$@\"\n",
            count = drill.world.root().join(format!("calls-{command}")).display(),
            real = real.display()
        ),
    );
    executable(&killing);
    killing
}

fn with_tofu(definitions: &str, tofu: &std::path::Path) -> String {
    let with_it = format!(
        "[tools]\ntofu = {{ command = [\"{}\"] }}\n[[phase]]",
        tofu.display()
    );
    definitions.replacen("[[phase]]", &with_it, 1)
}

/// A change of keys that a `tofu` kills at the nth call that turns a state.
fn rekey_killed_at(drill: &Drill, n: usize) {
    let killing = killing_at(drill, "state", n);
    let definitions = std::fs::read_to_string(drill.dir().join("rebuild.toml")).unwrap();
    drill.write("rebuild.toml", &with_tofu(&definitions, &killing));
    let words = ["state", "rekey", "--former-env", "FORMER"];
    let outcome = command(drill, TODAY, &words).run();
    assert_eq!(
        outcome.ended,
        Ended::Signal(9),
        "at call {n}: {}",
        outcome.stderr
    );
    drill.write("rebuild.toml", &definitions);
}

/// What the target's file says while both passphrases are given.
fn with_both(encryption: &str) -> String {
    match encryption {
        "" => "[encryption]\nformer = { env = \"FORMER\" }\n".to_owned(),
        encryption => format!("{encryption}former = {{ env = \"FORMER\" }}\n"),
    }
}

/// A target whose change of keys was killed at the nth call of `tofu` that turns a state.
fn killed(from: &str, to: &str, n: usize) -> Drill {
    let former = if from.is_empty() { "" } else { FORMER };
    let drill = built_once(from, former);
    drill.write("targets/drill.toml", to);
    rekey_killed_at(&drill, n);
    drill.write("targets/drill.toml", &with_both(to));
    drill
}

/// Killed in the middle, any command goes on with both passphrases, whatever the change is from and to: it reads with either,
/// OpenTofu's saved plans included, and writes with today's. The change is ended later, and then nothing needs the former one.
#[test]
fn killed_midway_any_command_goes_on_with_both_passphrases() {
    for (from, to, n) in [
        (EXTERNAL, EXTERNAL, 3),
        (PBKDF2, PBKDF2, 3),
        ("", EXTERNAL, 2),
        (EXTERNAL, "", 2),
    ] {
        let drill = killed(from, to, n);
        let today = if to.is_empty() { "" } else { TODAY };
        if from == EXTERNAL {
            run(&drill, today, 0, &["plan"]);
        }
        write_steps(&drill, "three");
        let up = run(&drill, today, 0, &["up", "--no-pause"]);
        assert!(up.stderr.contains("is being changed"), "{}", up.stderr);
        drill.write("targets/drill.toml", to);
        rekey(&drill, today);
        run(&drill, today, 0, &["preflight"]);
        let keys = std::fs::read_to_string(drill.store().join("keys.json")).unwrap();
        assert!(!keys.contains("former"), "{keys}");
        let open = drill
            .world
            .files_with(&drill.store(), KNOWN_PLAINTEXT.as_bytes());
        assert_eq!(open.is_empty(), !to.is_empty(), "{open:?}");
        if to == PBKDF2 {
            for step in ["a", "b"] {
                assert_eq!(opening(&drill, step), [TODAY], "{step}");
            }
        }
        run(&drill, today, 0, &["down"]);
    }
}

/// Killed in the middle, `down` with both passphrases empties the target.
#[test]
fn killed_midway_down_empties_the_target_with_both_passphrases() {
    for (from, to, n) in [
        (EXTERNAL, EXTERNAL, 4),
        (PBKDF2, EXTERNAL, 3),
        (EXTERNAL, PBKDF2, 4),
    ] {
        let drill = killed(from, to, n);
        let today = if to.is_empty() { "" } else { TODAY };
        run(&drill, today, 0, &["down"]);
        let states = crate::stage::snapshot(&drill.store().join("state"));
        let standing: Vec<_> = states
            .keys()
            .filter(|path| !path.display().to_string().contains('@'))
            .collect();
        assert!(standing.is_empty(), "{standing:?}");
        rekey(&drill, today);
        drill.write("targets/drill.toml", to);
        run(&drill, today, 0, &["up", "--no-pause"]);
    }
}

/// Killed in the middle, the same command goes on; with the two passphrases the wrong way round it says so.
#[test]
fn a_change_that_is_killed_is_gone_on_with() {
    for n in [3, 6] {
        let drill = built(EXTERNAL, FORMER);
        rekey_killed_at(&drill, n);
        // Today's passphrase alone: what still needs the former one is listed by key, and nothing is touched.
        let before = crate::stage::snapshot(&drill.store());
        for words in [&["preflight"][..], &["down"]] {
            let refused = run(&drill, TODAY, 2, words).stderr;
            for word in [
                "`state/0/b`",
                "`bundle/",
                "former = ",
                "rebuild state rekey",
            ] {
                assert!(refused.contains(word), "{word}: {refused}");
            }
        }
        assert!(crate::stage::snapshot(&drill.store()) == before);
        run(&drill, TODAY, 0, &["status"]);
        run(&drill, TODAY, 0, &["state", "list"]);
        let refused = run(&drill, FORMER, 2, &["preflight"]);
        assert!(
            refused.stderr.contains("names the former passphrase")
                && refused.stderr.contains("rebuild state rekey"),
            "{}",
            refused.stderr
        );
        let refused = run(&drill, TODAY, 2, &["state", "rekey"]);
        assert!(refused.stderr.contains("`state/0/b`"), "{}", refused.stderr);
        rekey(&drill, TODAY);
        expect_whole(&drill, TODAY, true);
    }
}

/// A call that is cut while the key is being changed is brought to its end with both passphrases, before the change is.
#[test]
fn a_cut_call_within_a_change_of_keys_is_resumed_with_both() {
    let drill = killed(EXTERNAL, EXTERNAL, 4);
    let definitions = std::fs::read_to_string(drill.dir().join("rebuild.toml")).unwrap();
    let killing = killing_at(&drill, "apply", 1);
    drill.write("rebuild.toml", &with_tofu(&definitions, &killing));
    drill.write(
        "b/main.tf",
        &format!("resource \"terraform_data\" \"it\" {{ input = \"{KNOWN_PLAINTEXT} three\" }}\n"),
    );
    let up = command(&drill, TODAY, &["up", "--no-pause"]).run();
    assert_eq!(up.ended, Ended::Signal(9), "{}", up.stderr);
    drill.write("rebuild.toml", &definitions);
    let refused = run(&drill, TODAY, 3, &["state", "rekey"]);
    assert!(
        refused.stderr.contains("both passphrases"),
        "{}",
        refused.stderr
    );
    run(&drill, TODAY, 0, &["up", "--resume", "--no-pause"]);
    rekey(&drill, TODAY);
    drill.write("targets/drill.toml", EXTERNAL);
    run(&drill, TODAY, 0, &["preflight"]);
    run(&drill, TODAY, 0, &["down"]);
}

/// Which of the two passphrases open a step's state with plain OpenTofu and no `rebuild`, as the docs show it.
fn opening(drill: &Drill, step: &str) -> Vec<&'static str> {
    let real = crate::drill::tool("REBUILD_TEST_TOFU");
    let plain = drill.world.root().join(format!("plain-{step}"));
    std::fs::create_dir_all(&plain).unwrap();
    let file = plain.join("terraform.tfstate");
    let pull = [
        "state",
        "pull",
        &format!("0.{step}"),
        "--into",
        file.to_str().unwrap(),
    ];
    run(drill, TODAY, 0, &pull);
    let opens = |passphrase: &&str| {
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
        let is_open = shown.code() == Some(0);
        assert!(
            !is_open || shown.stdout.contains(KNOWN_PLAINTEXT),
            "{shown:?}"
        );
        is_open
    };
    [FORMER, TODAY].into_iter().filter(opens).collect()
}

/// Mid-way, each state opens by exactly one of the two passphrases with plain OpenTofu and no `rebuild`, as the docs show it, and
/// the bytes are had without either.
#[test]
fn mid_way_each_state_opens_by_one_of_the_two_passphrases_in_plain_opentofu() {
    let drill = built_once(PBKDF2, FORMER);
    rekey_killed_at(&drill, 3);
    for step in ["a", "b"] {
        let by = opening(&drill, step);
        assert_eq!(by.len(), 1, "{step}: {by:?}");
    }
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

//! Encryption of what is kept: on by a passphrase, never half, never in silence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use test_support::Outcome;

use crate::drill::{Drill, tool};

const PASSPHRASE: &str = "a passphrase of \"sixteen\" or more";
/// Found in the definitions and in the state, and in nothing that is encrypted.
const KNOWN_PLAINTEXT: &str = "known-plaintext-of-the-state";

/// A platform of one step whose state and bundle hold the known text.
fn platform(encryption: &str) -> Drill {
    let drill = Drill::of(
        "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\n",
        &[(
            "zero",
            &format!(
                "resource \"terraform_data\" \"it\" {{ input = \"{KNOWN_PLAINTEXT}\" }}\noutput \"it\" {{\n  value     = terraform_data.it.output\n  sensitive = true\n}}\n"
            ),
        )],
    );
    drill.write("targets/drill.toml", encryption);
    drill
}

const EXTERNAL: &str = "[encryption]\npassphrase = { env = \"PASS\" }\n";
const PBKDF2: &str = "[encryption]\npassphrase = { env = \"PASS\" }\nmode = \"pbkdf2\"\n";

fn run(drill: &Drill, passphrase: &str, code: i32, words: &[&str]) -> Outcome {
    let outcome = drill.rebuild(words).env("PASS", passphrase).run();
    outcome.expect_code(code);
    outcome
}

/// Every file of the store and its bytes.
fn snapshot(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let bytes = std::fs::read(&path).expect("a file of the store");
                files.insert(path, bytes);
            }
        }
    }
    files
}

/// Cases K1, K7: a passphrase that is wrong, added, dropped or too short is exit 2 before anything is touched, and
/// the way on is named; the right one still works after it.
#[test]
fn another_passphrase_touches_nothing_and_names_the_way_on() {
    let drill = platform(EXTERNAL);
    let short = run(
        &drill,
        "fifteen letters",
        2,
        &["up", "--target", "drill", "--no-pause"],
    );
    assert!(short.stderr.contains("16"), "{short:?}");
    assert!(snapshot(&drill.store()).is_empty());
    run(
        &drill,
        PASSPHRASE,
        0,
        &["up", "--target", "drill", "--no-pause"],
    );
    let before = snapshot(&drill.store());
    let commands: [&[&str]; 4] = [
        &["up", "--target", "drill", "--no-pause"],
        &["preflight", "--target", "drill"],
        &["down", "--target", "drill"],
        &["down", "--target", "drill", "--dry-run"],
    ];
    let refused = |drill: &Drill, passphrase: &str, why: &str| {
        for words in commands {
            let outcome = run(drill, passphrase, 2, words);
            for wanted in [why, "rebuild state rekey"] {
                assert!(
                    outcome.stderr.contains(wanted),
                    "`{wanted}` of `{}`: {outcome:?}",
                    words.join(" ")
                );
            }
        }
        assert!(snapshot(&drill.store()) == before, "the store is as it was");
    };
    refused(&drill, "another passphrase of sixteen", "is not the one");
    refused(&drill, "too short", "characters");
    drill.write("targets/drill.toml", "");
    refused(&drill, PASSPHRASE, "names no passphrase");
    drill.write("targets/drill.toml", PBKDF2);
    refused(&drill, PASSPHRASE, "mode");
    drill.write("targets/drill.toml", EXTERNAL);
    run(&drill, PASSPHRASE, 0, &["preflight", "--target", "drill"]);
    run(&drill, PASSPHRASE, 0, &["down", "--target", "drill"]);

    let open = platform("");
    run(&open, "", 0, &["up", "--target", "drill", "--no-pause"]);
    let before = snapshot(&open.store());
    open.write("targets/drill.toml", EXTERNAL);
    for words in commands {
        let outcome = run(&open, PASSPHRASE, 2, words);
        for wanted in ["without one", "rebuild state rekey"] {
            assert!(outcome.stderr.contains(wanted), "`{wanted}`: {outcome:?}");
        }
    }
    assert!(snapshot(&open.store()) == before, "the store is as it was");
}

/// Case K7: states, their versions and bundles are encrypted in the store, and no plan or value lies in the clear
/// elsewhere than in the definitions' own unpacked tree; both modes.
#[test]
fn what_is_stored_is_encrypted() {
    for encryption in [EXTERNAL, PBKDF2] {
        let drill = platform(encryption);
        run(
            &drill,
            PASSPHRASE,
            0,
            &["up", "--target", "drill", "--no-pause"],
        );
        // Another value, so that a plan is saved and a version is kept; once, since `pbkdf2` is slow.
        if encryption == EXTERNAL {
            let module =
                std::fs::read_to_string(drill.dir().join("zero/main.tf")).expect("the module");
            drill.write(
                "zero/main.tf",
                &module.replace(KNOWN_PLAINTEXT, &format!("{KNOWN_PLAINTEXT}-2")),
            );
            run(
                &drill,
                PASSPHRASE,
                0,
                &["up", "--target", "drill", "--no-pause"],
            );
        }
        let stored = snapshot(&drill.store());
        assert!(
            stored
                .keys()
                .any(|path| path.to_string_lossy().contains("/bundle/"))
        );
        assert!(
            stored
                .keys()
                .any(|path| path.to_string_lossy().contains("/state/"))
        );
        let found = drill
            .world
            .files_with(&drill.store(), KNOWN_PLAINTEXT.as_bytes());
        assert!(found.is_empty(), "{found:?}");
        for (path, bytes) in &stored {
            assert!(
                !bytes.starts_with(&[0x1f, 0x8b]) && !bytes.starts_with(b"PK"),
                "{} is an archive",
                path.display()
            );
        }
        let elsewhere: Vec<_> = drill
            .world
            .files_with(&drill.world.state_home(), KNOWN_PLAINTEXT.as_bytes())
            .into_iter()
            .filter(|path| path.file_name().is_none_or(|name| name != "main.tf"))
            .collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }
}

/// What `docs/operating.md` says under "Reading a state with plain OpenTofu" works: its blocks of shell, run with
/// nothing but OpenTofu and the passphrase.
#[test]
fn a_state_can_be_read_with_plain_opentofu() {
    const SIMPLE: &str = "the passphrase of a test";
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operating.md");
    let page = std::fs::read_to_string(page).expect("docs/operating.md");
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with("Reading a state with plain OpenTofu"))
        .expect("the section");
    let mut blocks = section
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let (read, key) = (
        blocks.next().expect("how to read it"),
        blocks.next().expect("how to give the key"),
    );
    assert!(key.contains("pbkdf2"), "{key}");
    let drill = platform(PBKDF2);
    run(
        &drill,
        SIMPLE,
        0,
        &["up", "--target", "drill", "--no-pause"],
    );
    let shell = format!("{key}\n{read}")
        .replace("the passphrase", SIMPLE)
        .replace("STORE/state/1a/edge", "\"$STORE\"/state/0/it");
    let tofu = tool("REBUILD_TEST_TOFU");
    let mut path = tofu.parent().expect("a directory").as_os_str().to_owned();
    path.push(":/usr/bin:/bin");
    let scratch = drill.world.root().join("scratch");
    std::fs::create_dir(&scratch).expect("a directory");
    let outcome = drill
        .world
        .command("/bin/sh")
        .args(["-eu", "-c", &shell])
        .env("PATH", path)
        .env("STORE", drill.store())
        .cwd(&scratch)
        .run();
    outcome.expect_code(0);
    assert!(outcome.stdout.contains(KNOWN_PLAINTEXT), "{outcome:?}");
}

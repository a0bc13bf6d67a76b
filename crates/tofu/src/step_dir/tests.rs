//! Tests of a step's tree: what placing a bundle changes and what it leaves.

use super::*;
use crate::workshop::Workshop;
use std::os::unix::fs::{PermissionsExt as _, symlink};

fn step() -> (tempfile::TempDir, StepDir) {
    let dir = tempfile::tempdir().unwrap();
    let workshop = Workshop::open(&dir.path().join("work"), None).unwrap();
    let step = workshop.step(&"1a/edge".parse().unwrap());
    (dir, step)
}

fn place(step: &StepDir, slot: Slot, digest: &str, files: &[(&str, &str)]) {
    let files = files
        .iter()
        .map(|(path, text)| (*path, 0o644, text.as_bytes()));
    step.place(slot, digest, &["root"], files).unwrap();
}

fn text(step: &StepDir, path: &str) -> Option<String> {
    fs::read_to_string(step.tree(Slot::Tree).join(path)).ok()
}

#[test]
fn step_keys_stay_below_their_directory() {
    for good in ["1a/edge", "0", "workspace/prod_1", "a/b.c"] {
        assert_eq!(good.parse::<StepKey>().unwrap().as_str(), good);
    }
    for bad in [
        "", "/a", "a/", "a//b", "..", "a/../b", "a b", ".hidden", "-x", "ä",
    ] {
        assert!(bad.parse::<StepKey>().is_err(), "{bad}");
    }
}

#[test]
fn only_what_the_former_bundle_put_there_is_replaced() {
    let (_dir, step) = step();
    place(
        &step,
        Slot::Tree,
        "d1",
        &[
            ("root/main.tf", "1"),
            ("root/old/gone.tf", "1"),
            ("modules/m/a.tf", "1"),
        ],
    );
    let root = step.root_module(Slot::Tree, "root").unwrap();
    for made in ["errored.tfstate", "made-by-module", "old/made"] {
        process::files::write_atomically(&root.join(made), b"mine", 0o600).unwrap();
    }
    place(
        &step,
        Slot::Tree,
        "d2",
        &[("root/main.tf", "2"), ("root/new/here.tf", "2")],
    );
    assert_eq!(text(&step, "root/main.tf").as_deref(), Some("2"));
    assert_eq!(text(&step, "root/new/here.tf").as_deref(), Some("2"));
    assert_eq!(text(&step, "root/old/gone.tf"), None);
    assert!(
        !step.tree(Slot::Tree).join("modules").exists(),
        "empty directories go"
    );
    for made in ["errored.tfstate", "made-by-module", "old/made"] {
        assert_eq!(
            text(&step, &format!("root/{made}")).as_deref(),
            Some("mine"),
            "{made}"
        );
    }
    assert_eq!(
        step.errored_state("root").unwrap().as_deref(),
        Some(b"mine".as_slice())
    );
    step.remove_errored_state("root").unwrap();
    assert_eq!(step.errored_state("root").unwrap(), None);
}

#[test]
fn the_override_makes_the_backend_ours_and_comes_back() {
    let (_dir, step) = step();
    place(&step, Slot::Tree, "d1", &[("root/main.tf", "1")]);
    let path = step
        .root_module(Slot::Tree, "root")
        .unwrap()
        .join(OVERRIDE_FILE);
    let override_text = fs::read_to_string(&path).unwrap();
    assert_eq!(
        override_text.trim(),
        r#"{"terraform":{"backend":{"http":{}}}}"#
    );
    fs::remove_file(&path).unwrap();
    place(&step, Slot::Tree, "d1", &[("root/main.tf", "1")]);
    assert!(path.is_file());
}

#[test]
fn a_cut_change_is_finished_by_the_next() {
    let (_dir, step) = step();
    place(
        &step,
        Slot::Tree,
        "d1",
        &[("root/a.tf", "1"), ("root/b.tf", "1")],
    );
    // As if the change to `d2` was cut after its first file: the manifest has both bundles' files.
    let manifest = step.path().join("tree.manifest.json");
    let mut json: serde_json::Value =
        serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    json["digest"] = "".into();
    json["files"]["root/c.tf"] = "0".into();
    process::files::write_atomically(&manifest, json.to_string().as_bytes(), 0o600).unwrap();
    process::files::write_atomically(&step.tree(Slot::Tree).join("root/c.tf"), b"half", 0o600)
        .unwrap();
    place(
        &step,
        Slot::Tree,
        "d1",
        &[("root/a.tf", "1"), ("root/b.tf", "1")],
    );
    assert_eq!(
        text(&step, "root/c.tf"),
        None,
        "no stray file of the other bundle"
    );
    assert_eq!(text(&step, "root/a.tf").as_deref(), Some("1"));
}

#[test]
fn after_another_boot_every_file_is_written_again() {
    let (_dir, step) = step();
    place(&step, Slot::Tree, "d1", &[("root/a.tf", "1")]);
    let manifest = step.path().join("tree.manifest.json");
    let mut json: serde_json::Value =
        serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    json["boot_id"] = "another".into();
    process::files::write_atomically(&manifest, json.to_string().as_bytes(), 0o600).unwrap();
    process::files::write_atomically(&step.tree(Slot::Tree).join("root/a.tf"), b"", 0o600).unwrap();
    place(&step, Slot::Tree, "d1", &[("root/a.tf", "1")]);
    assert_eq!(text(&step, "root/a.tf").as_deref(), Some("1"));
}

#[test]
fn nothing_is_written_through_a_link_or_out_of_the_tree() {
    let (dir, step) = step();
    place(&step, Slot::Tree, "d1", &[("root/main.tf", "1")]);
    let outside = dir.path().join("outside");
    process::files::write_atomically(&outside, b"precious", 0o600).unwrap();
    let root = step.root_module(Slot::Tree, "root").unwrap();
    symlink(&outside, root.join("link.tf")).unwrap();
    symlink(dir.path(), root.join("sub")).unwrap();
    place(
        &step,
        Slot::Tree,
        "d2",
        &[("root/link.tf", "2"), ("root/sub/outside", "2")],
    );
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    assert_eq!(text(&step, "root/sub/outside").as_deref(), Some("2"));
    for path in ["../x", "/etc/x", "a/../../x"] {
        let error = step
            .place(Slot::Tree, "d3", &[], [(path, 0o600, b"".as_slice())])
            .unwrap_err();
        assert!(matches!(error, PlaceError::Outside { .. }), "{path}");
    }
}

#[test]
fn trees_are_private_and_apart() {
    let (_dir, step) = step();
    place(&step, Slot::Tree, "d1", &[("root/main.tf", "1")]);
    place(&step, Slot::Beside, "d2", &[("root/main.tf", "2")]);
    assert_eq!(text(&step, "root/main.tf").as_deref(), Some("1"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let root = step.root_module(Slot::Tree, "root").unwrap();
    assert_eq!((mode(&root), mode(&root.join("main.tf"))), (0o700, 0o600));
    step.place(Slot::Tree, "d3", &[], [("run.sh", 0o755, b"".as_slice())])
        .unwrap();
    assert_eq!(mode(&step.tree(Slot::Tree).join("run.sh")), 0o700);
}

#[test]
fn a_damaged_marker_is_an_error_and_none_is_nobody() {
    let (_dir, step) = step();
    assert!(step.running_child().unwrap().is_none());
    process::files::create_private_dir(step.path()).unwrap();
    process::files::write_atomically(&step.marker(), b"{", 0o600).unwrap();
    assert!(step.running_child().is_err());
    Identity::of_self()
        .unwrap()
        .write_marker(&step.marker())
        .unwrap();
    assert_eq!(
        step.running_child().unwrap().unwrap().liveness,
        Liveness::Alive
    );
    step.clear_marker().unwrap();
    assert!(step.running_child().unwrap().is_none());
}

#[test]
fn a_data_directory_is_named_by_what_init_reads_and_no_more() {
    let files = |text: &'static str| InitInputs::new([("root/main.tf", text.as_bytes())], []);
    let lock = br#"provider "r.org/a/b" {
  version = "1.0.0"
  hashes  = ["h1:x"]
}
"#;
    let base = files("1").digest("root", Some(lock));
    assert_ne!(
        base,
        files("2").digest("root", Some(lock)),
        "another root module"
    );
    assert_ne!(
        base,
        files("1").digest("other", Some(lock)),
        "another place"
    );
    assert_ne!(base, files("1").digest("root", None), "no lock file");
    let more_hashes = String::from_utf8(lock.to_vec())
        .unwrap()
        .replace("\"h1:x\"", "\"h1:x\", \"zh:y\"");
    assert_eq!(
        base,
        files("1").digest("root", Some(more_hashes.as_bytes())),
        "one more checksum"
    );
    let with_state = |provider: &str| {
        InitInputs::new([("root/main.tf", b"1".as_slice())], [provider.to_owned()])
    };
    assert_eq!(
        base,
        with_state("r.org/a/b").digest("root", Some(lock)),
        "the state has what is locked"
    );
    assert_ne!(
        base,
        with_state("r.org/a/gone").digest("root", Some(lock)),
        "the state has one more"
    );
    let with_lock_file = InitInputs::new(
        [
            ("root/main.tf", b"1".as_slice()),
            ("root/.terraform.lock.hcl", lock.as_slice()),
        ],
        [],
    );
    assert_eq!(base, with_lock_file.digest("root", Some(lock)));
}

#[test]
fn a_moved_data_directory_is_cold_and_old_ones_go() {
    let (_dir, step) = step();
    let warm = |name: &str| {
        let path = step.data_dir(name);
        process::files::create_private_dir(&path).unwrap();
        StepDir::mark_warm(&path, "tool").unwrap();
        path
    };
    let first = warm("first");
    assert!(StepDir::is_warm(&first, "tool") && !StepDir::is_warm(&first, "another tool"));
    step.alias_data_dir("first", "alias").unwrap();
    assert_eq!(step.data_dir("alias"), first, "found through the alias");
    assert!(StepDir::is_warm(&step.data_dir("alias"), "tool"));
    fs::rename(&first, step.data_dir("moved")).unwrap();
    assert!(!StepDir::is_warm(&step.data_dir("moved"), "tool"));
    let all: Vec<_> = (0..9).map(|n| warm(&format!("d{n}"))).collect();
    step.prune_data_dirs(&all[0]);
    assert!(all[0].exists(), "the one in use is kept");
    let n_left = fs::read_dir(step.path().join("data")).unwrap().count();
    assert_eq!(n_left, 6, "the broken alias went too");
}

#[test]
fn a_file_of_the_bundle_that_is_gone_comes_back() {
    let (_dir, step) = step();
    place(
        &step,
        Slot::Tree,
        "d1",
        &[("root/a.tf", "1"), ("root/b.tf", "1")],
    );
    fs::remove_file(step.tree(Slot::Tree).join("root/a.tf")).unwrap();
    place(
        &step,
        Slot::Tree,
        "d1",
        &[("root/a.tf", "1"), ("root/b.tf", "1")],
    );
    assert_eq!(text(&step, "root/a.tf").as_deref(), Some("1"));
}

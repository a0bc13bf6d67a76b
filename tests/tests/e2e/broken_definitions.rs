//! Broken definitions, as the whole program meets them: exit 2, every fault told, store and target untouched.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::drill::Drill;

/// What of a fixture is about it, and not of the platform.
const NOT_COPIED: [&str; 3] = ["faults.snap", "remove", "target"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/broken")
}

fn copy(from: &Path, to: &Path, is_top: bool) {
    fs::create_dir_all(to).expect("make a directory of the platform");
    for entry in fs::read_dir(from).expect("a fixture is readable") {
        let entry = entry.expect("its entries are readable");
        let name = entry.file_name();
        if is_top && NOT_COPIED.iter().any(|other| name == *other) {
            continue;
        }
        let kind = entry.file_type().expect("an entry has a type");
        let place = to.join(&name);
        if kind.is_dir() {
            copy(&entry.path(), &place, false);
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).expect("a link is readable");
            symlink(target, place).expect("make a link");
        } else {
            fs::copy(entry.path(), place).expect("copy a file of the platform");
        }
    }
}

/// Cases N4, E12, R6: a slip in a name is found before anything is applied.
#[test]
fn every_broken_platform_leaves_store_and_target_untouched() {
    let mut n_tried = 0;
    for entry in fs::read_dir(fixtures()).expect("the fixtures are there") {
        let fixture = entry.expect("an entry").path();
        let name = fixture
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if name == "base" {
            continue;
        }
        let drill = Drill::empty();
        fs::remove_dir_all(drill.dir()).expect("begin with nothing");
        copy(&fixtures().join("base"), &drill.dir(), true);
        copy(&fixture, &drill.dir(), true);
        for gone in fs::read_to_string(fixture.join("remove"))
            .unwrap_or_default()
            .lines()
        {
            fs::remove_file(drill.dir().join(gone)).expect("take a file away");
        }
        let target =
            fs::read_to_string(fixture.join("target")).unwrap_or_else(|_| "drill".to_owned());
        let outcome = drill
            .rebuild(&["up", "--no-pause", "--target", target.trim()])
            .run();
        assert_eq!(outcome.code(), Some(2), "{name}: {outcome:?}");
        assert!(outcome.stderr.contains("error:"), "{name}: {outcome:?}");
        assert!(
            !drill.world.state_home().join("rebuild/targets").exists(),
            "{name} left something behind"
        );
        n_tried += 1;
    }
    assert!(n_tried >= 30, "only {n_tried} fixtures");
}

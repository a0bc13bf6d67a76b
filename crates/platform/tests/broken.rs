//! Every broken platform of `fixtures/broken` against the faults that it must be told of.
//!
//! A fixture is what differs from `base`: files to add or replace, names to take away (`remove`, one a
//! line) and the target to load (`target`; the drill otherwise). Its `faults.snap` is what a user sees.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use std::fs;
use std::path::{Path, PathBuf};

use phase_engine::TargetName;
use platform::{DirFiles, Faults, load};

const NOT_COPIED: [&str; 3] = ["faults.snap", "remove", "target"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/broken")
        .canonicalize()
        .unwrap()
}

fn copy(from: &Path, to: &Path, is_top: bool) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let place = to.join(&name);
        if is_top && (NOT_COPIED.contains(&name.as_str()) || name.ends_with(".snap.new")) {
            continue;
        }
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy(&entry.path(), &place, false);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), place).unwrap();
        } else {
            fs::copy(entry.path(), place).unwrap();
        }
    }
}

/// Builds the platform of a fixture and loads it.
fn faults_of(fixture: &Path) -> Option<Faults> {
    let world = tempfile::tempdir().unwrap();
    let at = world.path().join("platform");
    copy(&fixtures().join("base"), &at, true);
    copy(fixture, &at, true);
    for name in fs::read_to_string(fixture.join("remove"))
        .unwrap_or_default()
        .lines()
    {
        fs::remove_file(at.join(name)).unwrap();
    }
    let target = fs::read_to_string(fixture.join("target")).unwrap_or_else(|_| "drill".to_owned());
    load(
        &DirFiles::open(&at).unwrap(),
        None,
        &TargetName::new(target.trim()).unwrap(),
    )
    .err()
}

#[test]
fn the_base_of_all_fixtures_has_no_faults() {
    for target in ["drill", "live"] {
        let files = DirFiles::open(&fixtures().join("base")).unwrap();
        let loaded = load(&files, None, &TargetName::new(target).unwrap());
        assert!(loaded.is_ok(), "{}", loaded.unwrap_err().render_plain());
    }
}

#[test]
fn every_broken_platform_is_told_what_is_wrong() {
    let mut names: Vec<String> = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "base")
        .collect();
    names.sort();
    assert!(names.len() >= 30, "only {} fixtures", names.len());
    let mut without = Vec::new();
    for name in &names {
        let fixture = fixtures().join(name);
        let faults = faults_of(&fixture).unwrap_or_else(|| panic!("`{name}` has no faults"));
        assert!(faults.iter().all(|fault| !fault.is_warning));
        insta::with_settings!({
            snapshot_path => &fixture,
            prepend_module_to_snapshot => false,
            omit_expression => true,
            input_file => fixture.join("rebuild.toml"),
        }, {
            insta::assert_snapshot!("faults", faults.render_plain());
        });
        if !fixture.join("faults.snap").is_file() {
            without.push(name.clone());
        }
    }
    assert!(without.is_empty(), "without a snapshot: {without:?}");
}

#[test]
fn faults_are_the_same_on_every_reading() {
    let fixture = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.ends_with("everything-at-once") || path.to_string_lossy().contains("everything")
        })
        .unwrap();
    let first = faults_of(&fixture).unwrap().render_plain();
    assert!((0..5).all(|_| faults_of(&fixture).unwrap().render_plain() == first));
}

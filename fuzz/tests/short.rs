//! The short form of `cargo xtask fuzz`: the corpus, and some hundred changes of it for each target.

use fuzz::{Bounds, TARGETS, run};
use std::path::Path;
use std::time::Duration;

/// Inputs for each target; the seed is always the same, so that a failure is one for everybody.
const N_INPUTS: u64 = 400;

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

#[test]
fn changed_bytes_make_no_target_panic_or_break_what_it_promises() {
    for target in TARGETS {
        let bounds = Bounds {
            time: Duration::from_secs(60),
            n_inputs: N_INPUTS,
            seed: 1,
        };
        let report = run(target, &corpus(), bounds).unwrap_or_else(|error| panic!("{error:#}"));
        assert!(report.n_inputs > report.n_corpus, "{}", target.name);
    }
}

#[test]
fn every_corpus_is_some_targets() {
    let mut names: Vec<_> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    names.sort();
    let mut found: Vec<_> = std::fs::read_dir(corpus())
        .expect("the corpus is in the tree")
        .map(|entry| {
            entry
                .expect("it can be listed")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    found.sort();
    assert_eq!(found, names);
}

//! Whole-program tests: the real `rebuild` drives the real `tofu`, in a world of its own.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail like tests, and write files of the test's own world"
)]

mod azure_store;
mod backend_served;
mod backend_stage;
mod backend_tofu;
mod backend_units;
#[cfg(target_os = "linux")]
mod bootstrapped;
mod broken_definitions;
#[cfg(target_os = "linux")]
mod captured;
#[cfg(target_os = "linux")]
mod captured_killed;
mod careless_server;
mod changes;
mod children;
mod cloud;
mod counting_proxy;
mod definitions;
mod discovery;
mod documents;
mod down;
mod down_proof;
mod drill;
mod encryption;
mod environment;
mod explain;
mod far_modules;
mod farm;
mod full_disk;
mod gate;
mod gateway;
mod gcs_store;
mod guarding;
mod handoff_cuts;
mod handoff_exits;
mod handoff_play;
mod handoff_reach;
mod handoff_steps;
mod handoff_ways;
mod intents;
mod interactive;
mod killed;
mod left_over_cases;
mod made_store;
mod mending;
mod migrate;
mod moved_store;
mod moving;
mod networks;
mod nodes_steps;
mod openstack_cloud;
mod own_states;
mod phases;
mod planning;
mod preflight_drift;
mod preflight_states;
mod provisioned;
mod published;
mod rekeyed;
mod rekeyed_cuts;
mod rendering;
mod reports;
mod required_drill;
mod rescued;
mod resume;
mod sealed_secrets;
mod secrecy;
mod servers;
mod signalled_again;
mod stage;
mod stand_in;
mod stand_ins;
mod stopped;
mod suspects;
mod talos_steps;
mod tofu_faults;
mod two_callers;
mod unattended;
mod upgrade;
mod warm;
mod whole_run;
mod words;

/// A file of tests that no `mod` names is never run.
#[test]
fn no_file_of_tests_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
    let main = std::fs::read_to_string(here.join("main.rs")).expect("main.rs is readable");
    for entry in std::fs::read_dir(&here).expect("the directory is readable") {
        let name = entry.expect("its entries are readable").file_name();
        let name = name.to_string_lossy();
        let Some(module) = name.strip_suffix(".rs") else {
            continue;
        };
        assert!(
            module == "main" || main.contains(&format!("mod {module};")),
            "tests/e2e/{name} is named by no `mod`"
        );
    }
}

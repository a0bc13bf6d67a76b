//! `tofu test`: what fails, and what passes only by its exit code.

use super::world::{World, of};
use crate::{CheckError, Tests};

fn with_test(text: &str) -> World {
    let world = World::new();
    world.write("modules/thing/tests/size.tftest.hcl", text);
    world
}

const RUN: &str = "run \"sized\" {\n  variables {\n    size = 3\n  }\n";

#[test]
fn tests_that_pass_are_counted() {
    let world = with_test(&format!(
        "{RUN}  assert {{\n    condition     = terraform_data.it.input == 3\n    error_message = \"no\"\n  }}\n}}\n"
    ));
    let report = world.check().unwrap();
    assert!(report.good, "{report:#?}");
    assert!(matches!(
        of(&report, "modules/thing").tests,
        Tests::Ran { passed: 1, .. }
    ));
    assert_eq!(of(&report, "phases/0").tests, Tests::None);
}

#[test]
fn a_test_that_fails_is_named_with_its_message() {
    let world = with_test(&format!(
        "{RUN}  assert {{\n    condition     = terraform_data.it.input == 4\n    error_message = \"it is not four\"\n  }}\n}}\n"
    ));
    let report = world.check().unwrap();
    assert!(!report.good);
    let Tests::Ran {
        failed, findings, ..
    } = &of(&report, "modules/thing").tests
    else {
        panic!("they ran: {report:#?}");
    };
    assert_eq!(failed, &["tests/size.tftest.hcl: sized"]);
    assert_eq!(findings[0].detail, "it is not four");
    assert_eq!(
        findings[0].file.as_deref(),
        Some("modules/thing/tests/size.tftest.hcl")
    );
}

#[test]
fn a_false_check_block_fails_the_test() {
    // D6
    let world = with_test(&format!("{RUN}}}\n"));
    world.write(
        "modules/thing/check.tf",
        "check \"small\" {\n  assert {\n    condition     = terraform_data.it.output < 2\n    error_message = \"too large\"\n  }\n}\n",
    );
    let report = world.check().unwrap();
    let Tests::Ran { findings, .. } = &of(&report, "modules/thing").tests else {
        panic!("they ran: {report:#?}");
    };
    assert_eq!(findings[0].detail, "too large");
    assert!(!report.good);
}

#[test]
fn an_object_that_a_test_leaves_behind_fails_it_though_opentofu_says_success() {
    let world = with_test(&format!("{RUN}}}\n"));
    world.write(
        "modules/thing/sticky.tf",
        "resource \"terraform_data\" \"sticky\" {\n  provisioner \"local-exec\" {\n    when    = destroy\n    command = \"exit 1\"\n  }\n}\n",
    );
    let before = world.snapshot();
    let report = world.check().unwrap();
    let thing = of(&report, "modules/thing");
    let Tests::Ran {
        passed,
        failed,
        left_behind,
        ..
    } = &thing.tests
    else {
        panic!("they ran: {report:#?}");
    };
    assert_eq!((*passed, failed.len()), (1, 0));
    assert_eq!(left_behind[0].address, "terraform_data.sticky");
    assert_eq!(
        left_behind[0].id.as_ref().map(String::len),
        Some(36),
        "its id is known: {left_behind:?}"
    );
    assert!(!thing.good && !report.good);
    assert_eq!(world.snapshot(), before, "no state is left in the platform");
}

#[test]
fn what_may_not_be_destroyed_is_left_behind_too() {
    let world = with_test(&format!("{RUN}}}\n"));
    world.write(
        "modules/thing/kept.tf",
        "resource \"terraform_data\" \"kept\" {\n  lifecycle {\n    prevent_destroy = true\n  }\n}\n",
    );
    let report = world.check().unwrap();
    assert!(!report.good, "{report:#?}");
}

#[test]
fn a_stop_interrupts_a_test_that_runs_and_is_told_as_such() {
    let world = with_test(&format!("{RUN}}}\n"));
    let begun = world.path("begun");
    world.write(
        "modules/thing/slow.tf",
        &format!(
            "resource \"terraform_data\" \"slow\" {{\n  provisioner \"local-exec\" {{\n    command = \"touch {} && exec sleep 120\"\n  }}\n}}\n",
            begun.display()
        ),
    );
    let started = std::time::Instant::now();
    let error = world.check_until(&|| begun.exists()).unwrap_err();
    assert!(matches!(error, CheckError::Interrupted { .. }), "{error:?}");
    assert!(started.elapsed().as_secs() < 60);
    assert!(world.is_swept());
}

//! The canonical form, told and made.

use super::world::{World, of};
use crate::CheckNotice;

const BAD: &str = "variable \"x\" {\ndefault=1\n}\n";
const BAD_JSON: &str = "{\"output\":{\"o\":{\"value\":\"${var.x}\"}},\"locals\":{}}";

fn badly_spaced() -> World {
    let world = World::new();
    world.write("modules/bad/a.tf", BAD);
    world.write("modules/bad/b.tf.json", BAD_JSON);
    world.write(
        "modules/bad/tests/c.tftest.hcl",
        "run \"one\" {\nvariables {\nx=2\n}\n}\n",
    );
    world
}

#[test]
fn badly_spaced_files_are_told_with_what_would_change_in_json_too() {
    // C1
    let world = badly_spaced();
    let before = world.snapshot();
    let report = world.check().unwrap();
    assert!(!report.good);
    let bad = of(&report, "modules/bad");
    let files: Vec<&str> = bad.format.iter().map(|file| file.file.as_str()).collect();
    assert_eq!(
        files,
        [
            "modules/bad/a.tf",
            "modules/bad/b.tf.json",
            "modules/bad/tests/c.tftest.hcl"
        ]
    );
    assert!(bad.format.iter().all(|file| !file.fixed));
    assert!(
        bad.format[0].diff.contains("-default=1\n+  default = 1\n"),
        "{}",
        bad.format[0].diff
    );
    assert!(
        bad.format[1]
            .diff
            .contains("+  \"output\": {\n+    \"o\": {\n"),
        "{}",
        bad.format[1].diff
    );
    assert!(bad.validate.is_empty(), "{bad:#?}");
    assert_eq!(world.snapshot(), before, "the platform is untouched");
}

#[test]
fn fix_writes_the_canonical_form_of_those_files_and_nothing_else() {
    let mut world = badly_spaced();
    world.fix = true;
    let mut before = world.snapshot();
    let report = world.check().unwrap();
    assert!(report.good, "{report:#?}");
    assert!(
        of(&report, "modules/bad")
            .format
            .iter()
            .all(|file| file.fixed)
    );
    assert_eq!(
        world.read("modules/bad/a.tf"),
        "variable \"x\" {\n  default = 1\n}\n"
    );
    assert_eq!(
        world.read("modules/bad/b.tf.json"),
        "{\n  \"output\": {\n    \"o\": {\n      \"value\": \"${var.x}\"\n    }\n  },\n  \"locals\": {}\n}\n"
    );
    let mut after = world.snapshot();
    for name in ["a.tf", "b.tf.json", "tests/c.tftest.hcl"] {
        let path = world.platform().join("modules/bad").join(name);
        assert_ne!(before.remove(&path), after.remove(&path), "{name}");
    }
    assert_eq!(
        before, after,
        "nothing else is touched, and nothing is left over"
    );
    let notices = world.notices.lock().unwrap();
    let n_fixed = notices
        .iter()
        .filter(|notice| matches!(notice, CheckNotice::Fixed { .. }))
        .count();
    assert_eq!(n_fixed, 3);
    drop(notices);
    let again = world.check().unwrap();
    assert!(again.modules.iter().all(|module| module.format.is_empty()));
}

#[test]
fn a_file_that_cannot_be_parsed_is_told_once_and_the_others_are_formatted() {
    let mut world = badly_spaced();
    world.fix = true;
    world.write("modules/bad/d.tf", "variable \"y\" {\n");
    let report = world.check().unwrap();
    let bad = of(&report, "modules/bad");
    assert_eq!(bad.validate.len(), 1, "{bad:#?}");
    assert_eq!(bad.validate[0].file.as_deref(), Some("modules/bad/d.tf"));
    assert_eq!(
        world.read("modules/bad/a.tf"),
        "variable \"x\" {\n  default = 1\n}\n"
    );
    assert_eq!(world.read("modules/bad/d.tf"), "variable \"y\" {\n");
    assert!(!bad.good);
}

#[test]
fn json_that_is_no_json_is_a_finding_even_where_opentofu_does_not_read_it() {
    let world = World::new();
    world.write("modules/thing/test.tfvars.json", "{\"size\": }");
    let report = world.check().unwrap();
    let thing = of(&report, "modules/thing");
    assert_eq!(
        thing.validate[0].file.as_deref(),
        Some("modules/thing/test.tfvars.json")
    );
    assert!(!thing.good);
}

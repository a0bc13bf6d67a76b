//! What is valid, what is not, and what can't be looked at.

use super::world::{World, of};
use crate::{CheckError, CheckNotice, ModuleKind, Severity};

fn copy(from: &std::path::Path, world: &World, within: &str) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{within}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), world, &format!("{name}/"));
        } else {
            world.write(&name, &std::fs::read_to_string(entry.path()).unwrap());
        }
    }
}

#[test]
fn a_good_platform_is_good_and_stays_as_it_is() {
    let world = World::new();
    let before = world.snapshot();
    let report = world.check().unwrap();
    assert!(report.good, "{report:#?}");
    assert_eq!(of(&report, "phases/0").kind, ModuleKind::RootModule);
    assert_eq!(of(&report, "modules/thing").kind, ModuleKind::Module);
    assert_eq!(
        report.notes,
        ["TFLint is not installed, so nothing was linted"]
    );
    assert_eq!(report.tofu.version, "1.12.6");
    assert_eq!(world.snapshot(), before, "the platform is untouched");
    assert!(world.is_swept(), "the copy is gone");
    let notices = world.notices.lock().unwrap();
    assert_eq!(notices[0], CheckNotice::Started { n_modules: 2 });
    assert_eq!(notices.len(), 5);
}

#[test]
fn the_report_is_what_its_schema_says() {
    let world = World::new();
    world.write(
        "modules/bad/main.tf.json",
        "{\"output\":{\"x\":{\"value\":\"${var.no}\"}}}",
    );
    let report = serde_json::to_value(world.check().unwrap()).unwrap();
    let schema = serde_json::to_value(schemars::schema_for!(crate::CheckReport)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&report)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(
        (&report["schema"], &report["good"]),
        (&1.into(), &false.into())
    );
    assert_eq!(report["modules"][0]["lint"]["status"], "not-installed");
}

#[test]
fn an_invalid_reference_is_a_finding_with_its_place_and_the_others_go_on() {
    let world = World::new();
    world.write(
        "modules/bad/main.tf",
        "output \"x\" {\n  value = terraform_data.gone.id\n}\n",
    );
    let report = world.check().unwrap();
    assert!(!report.good);
    let bad = of(&report, "modules/bad");
    let finding = &bad.validate[0];
    assert_eq!(finding.severity, Severity::Error);
    assert_eq!(
        (finding.file.as_deref(), finding.line),
        (Some("modules/bad/main.tf"), Some(2))
    );
    assert!(
        finding.summary.contains("undeclared resource"),
        "{finding:?}"
    );
    assert!(of(&report, "phases/0").good && of(&report, "modules/thing").good);
}

#[test]
fn a_fault_in_a_module_is_told_by_its_path_in_the_platform() {
    let world = World::new();
    world.write(
        "phases/0/more.tf",
        "module \"thing2\" {\n  source = \"../../modules/thing\"\n}\n",
    );
    let report = world.check().unwrap();
    let finding = &of(&report, "phases/0").validate[0];
    assert_eq!(finding.file.as_deref(), Some("phases/0/more.tf"));
    assert!(
        finding.summary.contains("Missing required argument"),
        "{finding:?}"
    );
}

#[test]
fn a_provider_that_cannot_be_installed_is_one_finding_of_that_module() {
    let world = World::new();
    let text = world.read("rebuild.toml");
    world.write(
        "rebuild.toml",
        &text.replace(
            "\n[[phase]]\n",
            "\n[tools]\ntofu = { version = \"~1.12\", cli_config = \"tofu.tfrc\" }\n\n[[phase]]\n",
        ),
    );
    world.write(
        "tofu.tfrc",
        "provider_installation {\n  filesystem_mirror {\n    path = \"mirror\"\n  }\n}\n",
    );
    world.write("mirror/README", "");
    world.write(
        "modules/cloud/main.tf",
        "terraform {\n  required_providers {\n    cloud = {\n      source = \"example.org/x/cloud\"\n    }\n  }\n}\n",
    );
    world.write("modules/cloud/a.tftest.hcl", "run \"one\" {\n}\n");
    let report = world.check().unwrap();
    let cloud = of(&report, "modules/cloud");
    assert_eq!(cloud.validate.len(), 1, "{cloud:#?}");
    let finding = &cloud.validate[0];
    assert!(
        format!("{} {}", finding.summary, finding.detail).contains("example.org/x/cloud"),
        "{finding:?}"
    );
    assert_eq!(
        cloud.tests,
        crate::Tests::NotRun {
            why: "the module can't be initialized".to_owned()
        }
    );
    assert!(!report.good && of(&report, "phases/0").good);
}

#[test]
fn a_lock_file_that_does_not_fit_is_named() {
    let world = World::new();
    world.write(
        "phases/0/.terraform.lock.hcl",
        "provider \"example.org/x/gone\" {\n  version = \"1.0.0\"\n  hashes = [\n    \"h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\",\n  ]\n}\n",
    );
    let report = world.check().unwrap();
    let root = of(&report, "phases/0");
    assert!(!root.good);
    assert_eq!(
        root.validate[0].file.as_deref(),
        Some("phases/0/.terraform.lock.hcl"),
        "{root:#?}"
    );
    assert!(root.validate[0].detail.contains("example.org/x/gone"));
}

#[test]
fn faults_of_rebuild_toml_are_told_and_the_modules_checked_all_the_same() {
    let world = World::new();
    let text = world.read("rebuild.toml");
    world.write("rebuild.toml", &text.replace("title", "titel"));
    world.write("phases/0/bad.tf", "output \"x\" {\n  value = var.gone\n}\n");
    let report = world.check().unwrap();
    let fault = &report.faults[0];
    assert_eq!((fault.file.as_str(), fault.line), ("rebuild.toml", Some(6)));
    assert!(fault.rendered.contains("titel"), "{fault:?}");
    assert!(!report.good && !of(&report, "phases/0").good);
    assert!(of(&report, "modules/thing").good);
}

#[test]
fn what_differs_between_machines_is_a_warning() {
    let world = World::new();
    world.write(
        "phases/0/more.tf",
        "output \"here\" {\n  value = path.cwd\n}\n",
    );
    let report = world.check().unwrap();
    assert!(report.good, "{report:#?}");
    assert_eq!(report.warnings[0].file, "phases/0/more.tf");
    assert!(report.warnings[0].message.contains("path.cwd"));
}

#[test]
fn a_backend_of_its_own_is_named_and_never_reached() {
    let world = World::new();
    world.write(
        "phases/0/backend.tf",
        "terraform {\n  backend \"http\" {\n    address = \"http://127.0.0.1:1/\"\n  }\n}\n",
    );
    let report = world.check().unwrap();
    // Whether its state was taken over is for a target to say, and `check` knows none.
    assert!(
        report.warnings[0].message.contains("backend \"http\""),
        "{report:#?}"
    );
    assert!(of(&report, "phases/0").good, "it is valid all the same");
}

#[test]
fn without_a_platform_or_a_tofu_that_fits_nothing_is_said() {
    // N6
    let world = World::empty();
    assert!(matches!(
        world.check().unwrap_err(),
        CheckError::NoPlatform { .. }
    ));
    let world = World::new();
    let text = world.read("rebuild.toml");
    let demand = |wanted: &str| {
        world.write(
            "rebuild.toml",
            &text.replace(
                "\n[[phase]]\n",
                &format!("\n[tools]\ntofu = {{ {wanted} }}\n\n[[phase]]\n"),
            ),
        );
        world.check().unwrap_err()
    };
    let error = demand("version = \"~1.5\"");
    assert!(error.to_string().contains("`~1.5` is demanded"), "{error}");
    let digest = "0".repeat(64);
    let error = demand(&format!("sha256 = \"{digest}\""));
    assert!(matches!(error, CheckError::Digest { .. }), "{error}");
    std::fs::remove_file(world.path("bin/tofu")).unwrap();
    world.write("rebuild.toml", &text);
    let error = world.check().unwrap_err();
    assert!(
        error.to_string().starts_with("there is no program `tofu`"),
        "{error}"
    );
}

#[test]
fn what_init_writes_is_good() {
    let world = World::empty();
    std::fs::remove_dir(world.platform()).unwrap();
    platform::init(&world.platform()).unwrap();
    let report = world.check().unwrap();
    assert!(report.good, "{report:#?}");
    assert!(!report.modules.is_empty());
}

#[test]
fn the_example_is_good() {
    let world = World::empty();
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/homelab");
    copy(&example, &world, "");
    let report = world.check().unwrap();
    assert!(report.good, "{report:#?}");
    let n_tested = report
        .modules
        .iter()
        .filter(|module| matches!(module.tests, crate::Tests::Ran { passed, .. } if passed > 0))
        .count();
    assert_eq!(n_tested, 2);
}

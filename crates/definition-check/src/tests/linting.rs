//! TFLint, as scripts that answer as the real one does.

use super::world::{World, of};
use crate::{CheckError, Lint, Severity};

const VERSION: &str = "if [ \"$1\" = --version ]; then echo 'TFLint version 0.64.0'; exit 0; fi\n";
const ISSUE: &str = r#"{"issues":[{"rule":{"name":"terraform_typed_variables","severity":"warning","link":"https://example.org/r"},"message":"`x` variable has no type","range":{"filename":"main.tf","start":{"line":1,"column":1},"end":{"line":1,"column":13}},"callers":[],"fixable":false,"fixed":false}],"errors":[]}"#;

#[test]
fn findings_of_tflint_are_told_with_their_rule() {
    let world = World::new();
    let script = format!(
        "{VERSION}case \"$PWD\" in\n*/modules/thing) echo '{ISSUE}'; exit 2;;\n*) echo '{{\"issues\":[],\"errors\":[]}}';;\nesac"
    );
    world.program("tflint", &script);
    let report = world.check().unwrap();
    assert_eq!(report.tflint.as_ref().unwrap().version, "0.64.0");
    assert!(!report.good && report.notes.is_empty());
    let Lint::Ran { findings } = &of(&report, "modules/thing").lint else {
        panic!("it ran: {report:#?}");
    };
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(findings[0].file.as_deref(), Some("modules/thing/main.tf"));
    assert_eq!(
        findings[0].rule.as_deref(),
        Some("terraform_typed_variables")
    );
    assert!(of(&report, "phases/0").good);
}

#[test]
fn it_gets_the_platforms_configuration_and_may_not_phone_home() {
    let world = World::new();
    world.write(".tflint.hcl", "");
    let script = format!(
        "{VERSION}config=\"${{3#--config=}}\"\n[ -f \"$config\" ] || exit 9\n[ \"$TFLINT_DISABLE_VERSION_CHECK\" = 1 ] || exit 8\n[ -f \"$TF_DATA_DIR/modules/modules.json\" ] || [ -f main.tf ] || exit 7\n[ \"${{HOME#{}}}\" != \"$HOME\" ] || exit 6\necho '{{\"issues\":[],\"errors\":[]}}'",
        world.path("tmp").canonicalize().unwrap().display()
    );
    world.program("tflint", &script);
    let report = world.check().unwrap();
    assert!(report.good, "{report:#?}");
}

#[test]
fn a_refused_plugin_download_is_no_finding_and_not_green() {
    // C3
    let world = World::new();
    let script = format!(
        "{VERSION}echo 'Failed to install a plugin; Failed to fetch GitHub releases: GET https://api.github.com/repos/x/releases: 403 API rate limit exceeded for 192.0.2.1' >&2\nexit 1"
    );
    world.program("tflint", &script);
    let report = world.check().unwrap();
    assert!(!report.good, "what was not looked at is not green");
    for module in &report.modules {
        let Lint::NotRun { why, hint } = &module.lint else {
            panic!("no findings: {module:#?}");
        };
        assert!(why.contains("403 API rate limit exceeded"), "{why}");
        assert!(hint.contains("says nothing of the definitions"), "{hint}");
    }
}

#[test]
fn a_missing_tflint_is_an_error_where_it_is_required() {
    let mut world = World::new();
    world.require_tflint = true;
    assert!(matches!(world.check().unwrap_err(), CheckError::NoTflint));
}

#[test]
fn another_version_than_rebuild_toml_demands_is_refused() {
    let world = World::new();
    let text = world.read("rebuild.toml");
    world.write(
        "rebuild.toml",
        &text.replace(
            "\n[[phase]]\n",
            "\n[tools]\ntflint = { version = \"~0.50\" }\n\n[[phase]]\n",
        ),
    );
    world.program("tflint", VERSION);
    let error = world.check().unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("has version 0.64.0, and rebuild.toml demands `~0.50`"),
        "{error}"
    );
}

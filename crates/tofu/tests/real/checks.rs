//! `fmt` and `test`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use process::files::write_atomically;
use tofu::{CheckError, Checker, Uncontrolled};

use crate::world::*;

crate::tests![
    bad_format_is_named_and_mended,
    a_file_that_cannot_be_parsed_is_an_error,
    a_test_that_leaves_something_behind_fails,
];

fn checker() -> Checker {
    Checker {
        program: program(),
        env: BTreeMap::from([
            ("PATH".into(), path_env()),
            ("HOME".into(), "/nonexistent".into()),
        ]),
        spawner: launching(),
        control: Arc::new(Uncontrolled),
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
    write_atomically(&dir.join(name), text.as_bytes(), 0o600).unwrap();
}

fn bad_format_is_named_and_mended() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "bad.tf", "locals {\n a=1\n}\n");
    write(dir.path(), "good.tf", "locals {\n  b = 1\n}\n");
    let checker = checker();
    assert_eq!(checker.fmt_check(dir.path()).unwrap(), ["bad.tf"]);
    assert_eq!(checker.fmt_fix(dir.path()).unwrap(), ["bad.tf"]);
    assert!(checker.fmt_check(dir.path()).unwrap().is_empty());
}

fn a_file_that_cannot_be_parsed_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "bad.tf", "locals {\n");
    let error = checker().fmt_check(dir.path()).unwrap_err();
    assert!(matches!(error, CheckError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("bad.tf"), "{error}");
}

fn a_test_that_leaves_something_behind_fails() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        "main.tf",
        "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    when    = destroy\n    command = \"exit ${self.input}\"\n  }\n  input = var.code\n}\nvariable \"code\" {\n  type    = string\n  default = \"0\"\n}\n",
    );
    let test = |code: &str| {
        let text = format!(
            "run \"right\" {{\n  variables {{\n    code = \"{code}\"\n  }}\n  assert {{\n    condition     = terraform_data.a.input == \"{code}\"\n    error_message = \"no\"\n  }}\n}}\n"
        );
        write(dir.path(), "tests/a.tftest.hcl", &text);
        checker().test_json(dir.path()).unwrap()
    };
    let good = test("0");
    assert!(good.is_good() && good.passed == 1, "{good:?}");
    let left = test("1");
    assert_eq!((left.passed, left.failed.len()), (1, 0));
    assert_eq!(left.left_behind, ["terraform_data.a"]);
    assert!(!left.is_good(), "{left:?}");
}

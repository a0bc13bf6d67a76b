//! Root modules: which files count, what they declare, where faults point.

use super::*;
use crate::fault::{Fault, Faults};
use crate::files::MemoryFiles;
use crate::reader::Report;

fn read(files: &MemoryFiles) -> (RootModule, Vec<Fault>) {
    let report = Report::default();
    let module = Modules::new(files, &report)
        .root("root")
        .unwrap()
        .expect("a root module");
    (
        module.as_ref().clone(),
        Faults::sorted(report.take()).into_vec(),
    )
}

fn underlined(fault: &Fault) -> &str {
    &fault.source_text()[fault.span.clone().unwrap()]
}

#[test]
fn variables_and_outputs_are_read() {
    let files = MemoryFiles::default().with(
        "root/main.tf",
        "variable \"zone\" {\n  type = map(object({ a = string }))\n  sensitive = true\n}\n\
         variable \"size\" {\n  default = null\n}\noutput \"key\" {\n  value = 1\n  sensitive = true\n}\noutput \"id\" { value = 2 }\n",
    );
    let (module, faults) = read(&files);
    assert!(faults.is_empty(), "{faults:?}");
    let zone = &module.variables["zone"];
    assert!(zone.sensitive && !zone.has_default);
    assert_eq!(
        zone.type_text.as_deref(),
        Some("map(object({ a = string }))")
    );
    assert_eq!(
        &zone.place.file.text[zone.place.span.clone()],
        "variable \"zone\""
    );
    assert!(module.variables["size"].has_default);
    assert!(module.outputs["key"].sensitive && !module.outputs["id"].sensitive);
}

#[test]
fn json_declares_the_same() {
    let files = MemoryFiles::default().with(
        "root/main.tf.json",
        r#"{"variable": {"zone": {"type": "string"}, "size": [{"default": 1}]},
            "output": [{"id": {"value": "x", "sensitive": true}}],
            "terraform": {"backend": {"s3": {"bucket": "x"}}, "required_providers": {"local": {"source": "a/b", "version": "~> 2"}}}}"#,
    );
    let (module, faults) = read(&files);
    assert!(!module.variables["zone"].has_default && module.variables["size"].has_default);
    assert!(module.outputs["id"].sensitive);
    assert_eq!(module.providers["local"].version.as_deref(), Some("~> 2"));
    assert!(faults.is_empty());
    assert_eq!(underlined(&module.own_state.unwrap().fault), "\"s3\"");
}

#[test]
fn a_tofu_file_stands_in_for_a_tf_file_of_its_name() {
    let files = MemoryFiles::default()
        .with("root/a.tf", "output \"old\" { value = 1 }")
        .with("root/a.tofu", "output \"new\" { value = 1 }")
        .with("root/.hidden.tf", "}")
        .with("root/b.tf~", "}")
        .with("root/tests/x.tf", "}");
    let (module, faults) = read(&files);
    assert!(faults.is_empty());
    assert_eq!(module.outputs.keys().collect::<Vec<_>>(), ["new"]);
    assert_eq!(module.files, ["root/a.tofu"]);
}

#[test]
fn an_override_file_is_merged_last() {
    let files = MemoryFiles::default()
        .with(
            "root/a_override.tf",
            "variable \"x\" {\n default = 1\n}\nterraform {\n backend \"http\" {}\n}\n",
        )
        .with(
            "root/main.tf",
            "variable \"x\" {\n sensitive = true\n}\nterraform {\n backend \"s3\" {}\n}\n",
        );
    let (module, faults) = read(&files);
    assert!(faults.is_empty(), "{faults:?}");
    assert!(module.own_state.is_none(), "the override's backend counts");
    assert!(module.variables["x"].has_default && module.variables["x"].sensitive);
}

#[test]
fn only_an_empty_http_backend_will_do() {
    for (text, ok) in [
        ("terraform {\n backend \"http\" {}\n}\n", true),
        (
            "terraform {\n backend \"http\" {\n  address = \"x\"\n }\n}\n",
            false,
        ),
        ("terraform {\n backend \"local\" {}\n}\n", false),
        ("terraform {\n cloud {}\n}\n", false),
    ] {
        let (module, faults) = read(&MemoryFiles::default().with("root/main.tf", text));
        assert!(faults.is_empty(), "{text}");
        assert_eq!(module.own_state.is_none(), ok, "{text}");
    }
}

#[test]
fn a_state_beside_a_module_without_a_backend_is_its_own() {
    let files = |text: &str| {
        MemoryFiles::default()
            .with("root/main.tf", text)
            .with("root/terraform.tfstate", "{}")
    };
    let (module, _) = read(&files("locals {}\n"));
    let own = module.own_state.unwrap();
    assert_eq!(own.what, "terraform.tfstate");
    assert_eq!(own.fault.file, "root/terraform.tfstate");
    let (module, _) = read(&files("terraform {\n backend \"http\" {}\n}\n"));
    assert!(module.own_state.is_none(), "it is kept elsewhere");
}

#[test]
fn local_modules_are_followed_and_must_exist() {
    let files = MemoryFiles::default()
        .with("root/main.tf", "module \"a\" {\n  source = \"../modules/a\"\n}\nmodule \"r\" {\n  source = \"ns/x/y\"\n}\n")
        .with("modules/a/main.tf", "module \"b\" {\n  source = \"../b\"\n}\nmodule \"up\" {\n  source = \"../../../x\"\n}\n");
    let (module, faults) = read(&files);
    assert_eq!(module.modules.iter().collect::<Vec<_>>(), ["modules/a"]);
    let said: Vec<&str> = faults.iter().map(underlined).collect();
    assert_eq!(said, ["\"../b\"", "\"../../../x\""]);
    assert!(module.incomplete);
}

#[test]
fn modules_that_call_each_other_end() {
    let files = MemoryFiles::default()
        .with("root/main.tf", "module \"a\" {\n  source = \"../a\"\n}\n")
        .with("a/main.tf", "module \"b\" {\n  source = \"../root\"\n}\n");
    assert!(read(&files).1.is_empty());
}

#[test]
fn what_differs_between_machines_is_a_warning() {
    let files = MemoryFiles::default().with(
        "root/main.tf",
        "locals {\n  a = \"${path.cwd}/x\"\n  b = abspath(\"x\")\n  c = path.module\n}\n",
    );
    let (_, faults) = read(&files);
    assert!(faults.iter().all(|fault| fault.is_warning));
    assert_eq!(
        faults.iter().map(underlined).collect::<Vec<_>>(),
        ["path.cwd", "abspath"]
    );
}

#[test]
fn a_file_made_in_the_modules_tree_is_a_warning() {
    let resource = |name: &str, filename: &str| {
        format!("resource \"local_file\" \"{name}\" {{\n  filename = {filename}\n}}\n")
    };
    let files = MemoryFiles::default()
        .with(
            "root/main.tf",
            [
                resource("a", "\"${path.module}/out\""),
                resource("b", "\"/var/out\""),
                resource("c", "\"out\""),
                resource("d", "\"${var.place}/out\""),
                resource("e", "var.place"),
                resource("f", "join(\"/\", [path.root, \"out\"])"),
            ]
            .concat(),
        )
        .with(
            "root/more.tf.json",
            r#"{"resource":{"local_file":{"g":{"filename":"out"},"h":{"filename":"${var.place}"}}}}"#,
        );
    let (_, faults) = read(&files);
    assert!(faults.iter().all(|fault| fault.is_warning));
    let said: Vec<&str> = faults.iter().map(|fault| &fault.message[..14]).collect();
    assert_eq!(
        said,
        ["a", "c", "f", "g"].map(|name| format!("`local_file.{name}`"))
    );
    assert_eq!(underlined(&faults[1]), "\"out\"");
}

#[test]
fn a_syntax_error_is_underlined() {
    let (module, faults) =
        read(&MemoryFiles::default().with("root/main.tf", "variable \"x\" {\n  default = \n}\n"));
    assert!(module.incomplete);
    assert_eq!(faults[0].line_and_column().unwrap().0, 2);
    let (_, faults) =
        read(&MemoryFiles::default().with("root/main.tf.json", "{\n  \"variable\": ]\n}"));
    assert_eq!(underlined(&faults[0]), "]");
}

#[test]
fn committed_variable_files_count() {
    let files = MemoryFiles::default()
        .with(
            "root/main.tf",
            "variable \"a\" {}\nvariable \"b\" {}\nvariable \"c\" {}\n",
        )
        .with("root/terraform.tfvars", "a = 1\n")
        .with("root/x.auto.tfvars.json", "{\"b\": 1}")
        .with("root/other.tfvars", "c = 1\n");
    assert_eq!(
        read(&files).0.set_by_tfvars.iter().collect::<Vec<_>>(),
        ["a", "b"]
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_readers_panic(text in "[a-z{}\"=\\n $\\[\\]<EOT./]{0,80}") {
        let _ = (hcl::read(&text), hcl::names(&text), json::read(&text), json::names(&text));
    }
}

#[test]
fn what_local_values_refer_to_is_known_for_every_module_of_the_platform() {
    let files = MemoryFiles::default()
        .with(
            "root/main.tf",
            "locals {\n  login = { user = \"x\", key = join(\"-\", [var.key, local.other[0].name]) }\n  fixed = 1\n}\n\
             locals {\n  text = <<-T\n    ${module.m[\"a\"].token} %{ if data.box.a.open }y%{ endif }\n  T\n  all = box.b[*].id\n}\n\
             module \"m\" {\n  source = \"../m\"\n}\nmodule \"far\" {\n  source = \"a/b/c\"\n}\n",
        )
        .with("root/more_override.tf", "locals {\n  fixed = var.late\n}\n")
        .with(
            "m/main.tf.json",
            r#"{"locals": [{"//": "${var.no}", "inner": {"a": ["x ${upper(var.secret)}"]}}], "module": {"n": {"source": "../n"}}}"#,
        )
        .with("n/main.tf", "locals {\n  deep = var.deep\n}\nmodule \"again\" {\n  source = \"../m\"\n}\n");
    let (module, faults) = read(&files);
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(
        module.locals["login"],
        ["var.key", "local.other", "local.other.name"]
    );
    assert_eq!(module.locals["fixed"], ["var.late"]);
    assert_eq!(
        module.locals["text"],
        [
            "module.m",
            "module.m.token",
            "data.box",
            "data.box.a",
            "data.box.a.open"
        ]
    );
    assert_eq!(module.locals["all"], ["box.b"]);
    let at = |path: &[&str]| {
        let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
        module.locals_at(&path)
    };
    assert_eq!(at(&[]), Some(&module.locals));
    assert_eq!(
        at(&["m"]).unwrap(),
        &BTreeMap::from([("inner".to_owned(), vec!["var.secret".to_owned()])])
    );
    assert_eq!(at(&["m", "n"]).unwrap()["deep"], ["var.deep"]);
    assert_eq!(at(&["m", "n", "again"]), at(&["m"]));
    assert_eq!(at(&["far"]), None);
    assert_eq!(at(&["m", "nobody"]), None);
}

//! `render` and `providers`: what specs become, shown, written, compared.

use crate::drill::Drill;
use crate::published::conforms;

const GROUP: &str = "kind: NodeGroup\nmetadata: { name: workers }\nspec: { role: worker, count: 1, class: 'openstack:m1', config: { imageId: i, network: n } }\n";

fn drill() -> Drill {
    let drill = Drill::of(
        "[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"machines\"\nnodes = \"nodes\"\n",
        &[],
    );
    drill.write("nodes/workers.yaml", GROUP);
    drill
}

#[test]
fn what_is_rendered_is_shown_written_and_compared() {
    let drill = drill();
    let shown = drill.run(0, &["render"]).stdout;
    assert!(
        shown.contains("# 1.machines from nodes: openstack.tf.json")
            && shown.contains("openstack_compute_instance_v2"),
        "{shown}"
    );
    let report = drill.json(0, &["render", "--target", "drill"]);
    conforms("render", &report);
    assert_eq!(report["steps"][0]["files"].as_array().unwrap().len(), 3);
    assert!(
        !drill.dir().join(".rebuild").exists(),
        "nothing is written by itself"
    );

    // Nothing is there yet, then all of it is, then it differs, then a provider is gone.
    let check = ["render", "--out", "out", "--check"];
    let missing = drill.run(1, &check).stdout;
    assert!(
        missing.contains("1/machines/openstack.tf.json: differs"),
        "{missing}"
    );
    assert!(!drill.dir().join("out").exists());
    drill.run(0, &["render", "--out", "out"]);
    assert!(drill.run(0, &check).stdout.contains("as they are rendered"));
    drill.write("nodes/workers.yaml", &GROUP.replace("count: 1", "count: 2"));
    let differs = drill.json(1, &check);
    conforms("render", &differs);
    assert_eq!(differs["good"], false);
    assert_eq!(
        differs["changes"],
        serde_json::json!([{ "path": "1/machines/openstack.tf.json", "action": "write" }])
    );
    drill.write("nodes/workers.yaml", "");
    drill.write("out/1/machines/mine.tf", "");
    let removed = drill.json(0, &["render", "--out", "out"]);
    let removed = removed["changes"].to_string();
    assert!(removed.contains("\"remove\""), "{removed}");
    let out = drill.dir().join("out/1/machines");
    let mut left: Vec<String> = std::fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    assert_eq!(left, ["main.tf.json", "mine.tf"]);
    drill.run(0, &check);
}

#[test]
fn faults_of_specs_are_faults_of_the_definitions() {
    let drill = drill();
    drill.write("nodes/workers.yaml", &GROUP.replace("imageId", "imageID"));
    for args in [&["render"][..], &["plan", "--target", "drill"]] {
        let said = drill.run(2, args).stderr;
        assert!(
            said.contains("workers.yaml:3") && said.contains("imageId"),
            "{said}"
        );
    }
    let none = Drill::of(
        "[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"x\"\nexec = { apply = [\"true\"], verify = [\"true\"], teardown = [] }\n",
        &[],
    );
    let said = none.run(0, &["render"]).stdout;
    assert!(said.contains("no `nodes` steps"), "{said}");
}

#[test]
fn providers_are_listed_and_what_they_take_is_a_table() {
    let drill = drill();
    let listed = drill.json(0, &["providers"]);
    conforms("providers", &listed);
    let names: Vec<&str> = listed["providers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|provider| provider["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["bitwarden", "gitlab", "oci", "openstack", "talos"]);
    let text = drill
        .rebuild(&["providers"])
        .env("OS_CLOUD", "lab")
        .run()
        .stdout;
    assert!(
        text.contains("OS_CLOUD") && text.contains(": set"),
        "{text}"
    );
    let resource = ["providers", "schema", "talos", "talos_machine_bootstrap"];
    let schema = drill.json(0, &resource);
    conforms("providers-schema", &schema);
    let text = drill.run(0, &resource).stdout;
    assert!(text.contains("node") && text.contains("required"), "{text}");
    let all = drill.run(0, &["providers", "schema", "oci"]).stdout;
    assert!(all.contains("oci_core_instance"), "{all}");
    drill.run(2, &["providers", "schema", "oci", "oci_none"]);
    drill.run(2, &["providers", "schema", "nobody"]);
}

//! What is rendered: whole platforms, every pitfall that is known, and faults before tofu runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::{Change, Rendered, render};
use crate::ProviderName;
use crate::schema::Schemas;
use crate::spec::Specs;

pub(crate) const PLATFORM: &str = include_str!("tests/platform.yaml");

pub(crate) fn rendered(text: &str) -> Rendered {
    let specs = Specs::read([("specs.yaml", text)]).expect("the specs are good");
    let rendered = render(&specs, &BTreeSet::new()).expect("they can be rendered");
    assert_eq!(faults_of(&rendered, Schemas::shipped()), [""; 0]);
    rendered
}

pub(crate) fn faults_of(rendered: &Rendered, schemas: &Schemas) -> Vec<String> {
    let documents = rendered.files.iter();
    documents
        .flat_map(|(name, bytes)| {
            let document = tf_json::Document::parse(bytes).expect("it is read as it was written");
            assert_eq!(document.to_bytes(), *bytes, "{name}");
            schemas.check(&document.to_json())
        })
        .map(|fault| fault.to_string())
        .collect()
}

fn json_of(rendered: &Rendered, file: &str) -> Json {
    serde_json::from_slice(&rendered.files[file]).expect("it is JSON")
}

fn faults(text: &str) -> Vec<String> {
    let specs = match Specs::read([("specs.yaml", text)]) {
        Ok(specs) => specs,
        Err(faults) => return faults.iter().map(ToString::to_string).collect(),
    };
    let faults = render(&specs, &BTreeSet::new()).expect_err("it must not render");
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn the_small_real_platform() {
    let rendered = rendered(PLATFORM);
    assert_eq!(rendered.providers, BTreeSet::from(ProviderName::ALL));
    assert_eq!(rendered.parallelism, Some(1));
    assert!(rendered.plan_is_secret);
    let inputs: Vec<&String> = rendered.inputs.iter().collect();
    assert_eq!(inputs, ["platform", "run", "target", "webhook_token"]);
    assert_eq!(
        rendered.secret_inputs,
        BTreeSet::from(["webhook_token".to_owned()])
    );
    for (name, bytes) in &rendered.files {
        insta::assert_snapshot!(name.as_str(), String::from_utf8_lossy(bytes));
    }
}

/// The page shows this very platform, which is rendered above.
#[test]
fn the_page_on_specs_shows_what_is_rendered() {
    let page = include_str!("../../../../docs/specs.md");
    let shown = page
        .split_once("```yaml\n")
        .and_then(|(_, rest)| rest.split_once("```"));
    assert_eq!(shown.map(|(shown, _)| shown), Some(PLATFORM));
    for kind in [
        "Cluster",
        "NodeGroup",
        "Network",
        "Bucket",
        "Secret",
        "Project",
    ] {
        assert!(page.contains(&format!("\n## {kind}\n")), "{kind}");
    }
}

#[test]
fn the_same_specs_give_the_same_bytes_in_any_order_and_any_format() {
    let documents: Vec<&str> = PLATFORM.split("\n---\n").collect();
    let mut turned = documents.clone();
    turned.reverse();
    let turned = turned.join("\n---\n");
    assert_eq!(rendered(PLATFORM), rendered(&turned));
    let yaml = "kind: Bucket\nmetadata: { name: a }\nspec: { class: openstack, versioning: true }";
    let toml = "kind = \"Bucket\"\n[metadata]\nname = \"a\"\n[spec]\nclass = \"openstack\"\nversioning = true\n";
    let several = "[[specs]]\nkind = \"Bucket\"\nmetadata = { name = \"a\" }\nspec = { class = \"openstack\", versioning = true }\n";
    let json = r#"[{ "kind": "Bucket", "metadata": { "name": "a" }, "spec": { "class": "openstack", "versioning": true } }]"#;
    let all: Vec<Rendered> = [
        ("a.yml", yaml),
        ("a.toml", toml),
        ("b.toml", several),
        ("a.json", json),
    ]
    .into_iter()
    .map(|file| Specs::read([file]).expect("it is good"))
    .map(|specs| render(&specs, &BTreeSet::new()).expect("it renders"))
    .collect();
    assert!(all.windows(2).all(|two| two[0] == two[1]));
}

#[test]
fn no_specs_give_a_configuration_that_removes_what_is_left() {
    let specs = Specs::default();
    let empty = render(&specs, &BTreeSet::new()).expect("nothing is good");
    assert_eq!(
        empty.files,
        BTreeMap::from([("main.tf.json".to_owned(), b"{}\n".to_vec())])
    );
    assert_eq!(empty.parallelism, None);
    // What stands needs its provider, at the version it was made with.
    let left = BTreeSet::from([ProviderName::Openstack]);
    let kept = render(&specs, &left).expect("nothing is good");
    assert_eq!(
        json_of(&kept, "main.tf.json"),
        json!({ "terraform": { "required_providers": { "openstack": {
            "source": "terraform-provider-openstack/openstack", "version": "~> 3.4",
        } } } })
    );
    let mut on_disk = rendered(PLATFORM).files;
    on_disk.insert("mine.tf".to_owned(), Vec::new());
    let changes = empty.changes(&on_disk);
    let removed = ["bitwarden", "gitlab", "oci", "openstack", "talos"]
        .map(|name| Change::Remove(format!("{name}.tf.json")));
    assert_eq!(changes[0], Change::Write("main.tf.json".to_owned()));
    assert_eq!(changes[1..], removed);
    assert!(empty.changes(&empty.files).is_empty());
}

#[test]
fn machines_are_not_made_again_as_user_data_or_image_moved_and_tags_of_the_cloud_are_no_drift() {
    let rendered = rendered(PLATFORM);
    let oci = json_of(&rendered, "oci.tf.json");
    let ignored = &oci["resource"]["oci_core_instance"]["control"]["lifecycle"]["ignore_changes"];
    for wanted in [
        "defined_tags",
        "metadata[\"user_data\"]",
        "source_details[0].source_id",
        "freeform_tags[\"run\"]",
    ] {
        assert!(
            ignored.as_array().expect("a list").contains(&json!(wanted)),
            "{wanted}"
        );
    }
    // Every thing of Oracle's that has tags.
    for (kind, all) in oci["resource"].as_object().expect("some") {
        for (name, body) in all.as_object().expect("some") {
            let has_tags = body.get("freeform_tags").is_some();
            let ignored = body["lifecycle"]["ignore_changes"].to_string();
            assert_eq!(has_tags, ignored.contains("defined_tags"), "{kind}.{name}");
        }
    }
    let openstack = json_of(&rendered, "openstack.tf.json");
    let workers = &openstack["resource"]["openstack_compute_instance_v2"]["workers"];
    let ignored = workers["lifecycle"]["ignore_changes"].to_string();
    assert!(
        ignored.contains("user_data") && ignored.contains("block_device[0].uuid"),
        "{ignored}"
    );
    let secrets =
        json_of(&rendered, "talos.tf.json")["resource"]["talos_machine_secrets"]["prod"].clone();
    assert_eq!(
        secrets["lifecycle"]["ignore_changes"],
        json!(["talos_version"])
    );
}

#[test]
fn oracles_machines_are_spread_and_shaped_as_their_provider_wants() {
    let oci = json_of(&rendered(PLATFORM), "oci.tf.json");
    let control = &oci["resource"]["oci_core_instance"]["control"];
    assert_eq!(control["count"], 3);
    let domain = control["availability_domain"].as_str().expect("a text");
    assert!(domain.contains("count.index % length("), "{domain}");
    let data = control["metadata"]["user_data"].as_str().expect("a text");
    assert!(
        data.starts_with("${base64encode(data.talos_machine_configuration."),
        "{data}"
    );
    assert_eq!(
        control["source_details"][0]["boot_volume_size_in_gbs"],
        "50"
    );
    assert_eq!(
        control["create_vnic_details"][0]["assign_public_ip"],
        "true"
    );
    assert_eq!(
        control["shape_config"],
        json!([{ "memory_in_gbs": 12, "ocpus": 2 }])
    );
    let tags: Vec<&String> = control["freeform_tags"]
        .as_object()
        .expect("tags")
        .keys()
        .collect();
    assert_eq!(tags, ["group", "platform", "run", "target", "team"]);
    let group = |shape: &str, more: &str| {
        format!(
            "kind: NodeGroup\nmetadata: {{ name: a }}\nspec: {{ role: worker, count: 1, class: 'oci:{shape}', config: {{ compartmentOcid: c, subnetId: s, imageOcid: i, assignPublicIp: false{more} }} }}"
        )
    };
    // A fixed shape has no such block at all.
    let fixed = json_of(&rendered(&group("VM.Standard2.1", "")), "oci.tf.json");
    let machine = &fixed["resource"]["oci_core_instance"]["a"];
    assert!(machine.get("shape_config").is_none() && machine.get("metadata").is_none());
    assert!(
        faults(&group("VM.Standard2.1", ", ocpus: 1, memoryGb: 1"))[0].contains("can't be chosen")
    );
    assert!(
        faults(&group("VM.Standard.A1.Flex", ", ocpus: 1"))[0]
            .contains("needs `ocpus` and `memoryGb`")
    );
    // What `config` says wins over the class.
    let other = json_of(
        &rendered(&group("VM.Standard2.1", ", shape: VM.Standard2.2")),
        "oci.tf.json",
    );
    assert_eq!(
        other["resource"]["oci_core_instance"]["a"]["shape"],
        "VM.Standard2.2"
    );
}

#[test]
fn a_floating_address_goes_before_the_router_it_needs() {
    let openstack = json_of(&rendered(PLATFORM), "openstack.tf.json");
    let floating = &openstack["resource"]["openstack_networking_floatingip_v2"]["workers"];
    assert_eq!(
        floating["depends_on"],
        json!(["openstack_networking_router_interface_v2.inner_main"])
    );
    let boot =
        &openstack["resource"]["openstack_compute_instance_v2"]["workers"]["block_device"][0];
    assert_eq!(boot["destination_type"], "volume");
    assert_eq!(boot["volume_size"], 50);
    assert_eq!(
        openstack["provider"]["openstack"],
        json!([{ "password": "${local.secret_cloud[\"password\"]}" }])
    );
}

#[test]
fn every_patch_of_talos_is_a_document_and_the_image_is_set_by_one() {
    let talos = json_of(&rendered(PLATFORM), "talos.tf.json");
    let configurations = talos["data"]["talos_machine_configuration"]
        .as_object()
        .expect("some");
    let names: Vec<&String> = configurations.keys().collect();
    assert_eq!(names, ["garage", "prod_controlplane", "workers"]);
    for (name, configuration) in configurations {
        let patches = configuration["config_patches"].as_array().expect("a list");
        for patch in patches {
            let patch =
                tf_json::Template::parse(patch.as_str().expect("a text")).expect("a template");
            let patch = patch.as_literal().expect("nothing in it is evaluated");
            assert!(crate::spec::is_patch(patch), "{name}: {patch}");
        }
        assert!(patches[0].to_string().contains("install"), "{name}");
    }
    let image = configurations["garage"]["config_patches"][0].to_string();
    assert!(
        image.contains("factory.talos.dev/installer/376567988") && image.contains(":v1.11.1"),
        "{image}"
    );
    // An argument, and never a block.
    for (kind, name) in [
        ("talos_machine_bootstrap", "prod"),
        ("talos_cluster_kubeconfig", "prod"),
        ("talos_machine_configuration_apply", "garage"),
    ] {
        assert!(
            talos["resource"][kind][name]["timeouts"].is_object(),
            "{kind}"
        );
    }
    assert_eq!(
        talos["resource"]["talos_machine_secrets"]
            .as_object()
            .map(serde_json::Map::len),
        Some(1)
    );
    // A bare word would be taken for a file, and an endpoint needs scheme and port.
    let cluster = |endpoint: &str, patch: &str| {
        format!(
            "kind: Cluster\nmetadata: {{ name: c }}\nspec: {{ talosVersion: v1.11.2, endpoint: '{endpoint}', configPatches: ['{patch}'] }}"
        )
    };
    assert!(faults(&cluster("https://a:6443", "patch.yaml"))[0].contains("YAML or JSON document"));
    for endpoint in [
        "https://a",
        "a:6443",
        "http://a:6443",
        "https://:6443",
        "https://a:6443/x",
    ] {
        assert!(
            faults(&cluster(endpoint, "a: 1"))[0].contains("scheme and port"),
            "{endpoint}"
        );
    }
}

#[test]
fn a_sick_cluster_can_still_be_planned_and_destroyed() {
    let talos = json_of(&rendered(PLATFORM), "talos.tf.json");
    assert!(talos["data"].get("talos_cluster_health").is_none());
    let health = &talos["check"]["prod_health"]["data"]["talos_cluster_health"]["prod"];
    assert_eq!(health["skip_kubernetes_checks"], true);
    assert!(health["timeouts"].is_object());
}

#[test]
fn secrets_are_never_written_out() {
    let rendered = rendered(PLATFORM);
    let bitwarden = json_of(&rendered, "bitwarden.tf.json");
    for (name, value) in bitwarden["locals"].as_object().expect("some") {
        assert!(
            value.as_str().expect("a text").starts_with("${sensitive("),
            "{name}"
        );
    }
    let main = json_of(&rendered, "main.tf.json");
    for (name, output) in main["output"].as_object().expect("some") {
        assert_eq!(output["sensitive"] == true, name != "hosts", "{name}");
    }
    assert_eq!(main["variable"]["webhook_token"]["sensitive"], true);
    let gitlab = json_of(&rendered, "gitlab.tf.json");
    let variables = &gitlab["resource"]["gitlab_project_variable"];
    let kubeconfig = &variables["deploy_KUBECONFIG_BASE64"];
    assert_eq!(kubeconfig["masked"], true);
    // GitLab masks no value of several lines.
    assert!(
        kubeconfig["value"]
            .as_str()
            .expect("a text")
            .starts_with("${base64encode(")
    );
    assert_eq!(variables["deploy_REGION"]["value"], "$${not evaluated}");
    let written = "kind: Project\nmetadata: { name: a }\nspec: { path: g/p, variables: [{ key: A, value: hunter2, masked: true }] }";
    assert!(faults(written)[0].contains("not written out"));
}

#[test]
fn gitlab_is_rendered_for_its_pin_and_for_the_version_after_it() {
    let rendered = rendered(PLATFORM);
    let newer = Schemas::shipped().with_pin("gitlab", "19.1.0");
    assert_eq!(faults_of(&rendered, &newer), [""; 0]);
    let older = Schemas::shipped().with_pin("oci", "7.19.0");
    assert_eq!(faults_of(&rendered, &older), [""; 0]);
    let next = Schemas::shipped().with_pin("talos", "0.12.0-alpha.5");
    assert_eq!(faults_of(&rendered, &next), [""; 0]);
}

#[test]
fn names_that_collide_are_a_fault_before_tofu_runs() {
    let group = |name: &str| {
        format!("kind: Bucket\nmetadata: {{ name: '{name}' }}\nspec: {{ class: openstack }}\n")
    };
    let two = |a: &str, b: &str| faults(&format!("{}---\n{}", group(a), group(b)));
    let nodes = |name: &str| {
        format!(
            "kind: NodeGroup\nmetadata: {{ name: '{name}' }}\nspec: {{ role: worker, count: 1, class: 'openstack:m1', config: {{ imageId: i, network: n }} }}\n"
        )
    };
    let groups = faults(&format!("{}---\n{}", nodes("a-b"), nodes("a_b")));
    assert!(groups[0].contains("becomes `a_b` in OpenTofu, as that of `a-b` does"));
    assert!(two("a-b", "a_b")[0].contains("becomes `a_b` in OpenTofu, as that of `a-b` does"));
    assert!(two("a", "a")[0].contains("there are two of this name"));
    assert!(faults(&group("--"))[0].contains("makes no name"));
    assert!(faults(&group(""))[0].contains("metadata.name: it must be set"));
    assert!(
        rendered(&group("1st"))
            .files
            .contains_key("openstack.tf.json")
    );
    // Names that only collide once they are joined.
    let net = |name: &str, subnet: &str| {
        format!(
            "kind: Network\nmetadata: {{ name: {name} }}\nspec: {{ class: openstack, cidr: 10.0.0.0/16, subnets: [{{ name: {subnet}, cidr: 10.0.1.0/24 }}] }}\n"
        )
    };
    let joined = faults(&format!("{}---\n{}", net("a", "b_c"), net("a_b", "c")));
    assert!(joined[0].contains("is defined twice"), "{joined:?}");
}

#[test]
fn what_a_spec_refers_to_must_be_there() {
    let nodes = |config: &str| {
        format!(
            "kind: NodeGroup\nmetadata: {{ name: a }}\nspec: {{ role: worker, count: 1, {config} }}\n"
        )
    };
    for (text, expected) in [
        (nodes("class: 'oci:S', config: { compartmentOcid: c, network: n, imageOcid: i }"), "there is no network `n` of Oracle's"),
        (nodes("class: 'openstack:f', cluster: c, config: { imageId: i, network: n }"), "there is no cluster `c`"),
        (nodes("class: metal, config: { machines: { 10.0.0.1: {} } }"), "need a cluster"),
        ("kind: Project\nmetadata: { name: p }\nspec: { path: g/p, variables: [{ key: A, kubeconfigOf: c }] }".to_owned(), "there is no cluster `c`"),
        ("kind: Project\nmetadata: { name: p }\nspec: { path: g/p, variables: [{ key: A, secret: { name: s, field: f } }] }".to_owned(), "there is no secret `s`"),
        ("kind: Secret\nmetadata: { name: s }\nspec: { from: 'item:1', provider: { name: openstak, arguments: { password: password } } }".to_owned(), "did you mean `openstack`?"),
        (format!("{}---\nkind: Secret\nmetadata: {{ name: s }}\nspec: {{ from: 'item:1', provider: {{ name: openstack, arguments: {{ passwort: password }} }} }}", nodes("class: 'openstack:f', config: { imageId: i, network: n }")), "takes no `passwort`"),
        (format!("{0}---\n{1}---\n{1}", nodes("class: metal, config: { machines: { 10.0.0.1: {} } }"), "kind: Cluster\nmetadata: { name: C }\nspec: { talosVersion: v1.11.2, endpoint: 'https://a:6443' }\n").replacen("name: C", "name: D", 1), "several clusters"),
        ("kind: Bucket\nmetadata: { name: a }\nspec: { class: oci, config: { compartmentOcid: c, region: x } }\n---\nkind: Bucket\nmetadata: { name: b }\nspec: { class: oci, config: { compartmentOcid: c, region: y } }".to_owned(), "root module of its own"),
    ] {
        let found = faults(&text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(expected), "{expected}: {found:?}");
    }
}

/// The most memory that this process has had, as the system tells it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or_else(
        || "this system does not tell the memory that it took".to_owned(),
        |peak| format!("at most {} of memory", peak.trim()),
    )
}

#[test]
fn ten_thousand_resources_are_rendered_checked_and_written() {
    let mut text = String::new();
    // Each a network with its group, subnet and rules, or a bucket.
    for index in 0..1_250 {
        text += &format!(
            "kind: Network\nmetadata: {{ name: n{index} }}\nspec: {{ class: openstack, cidr: 10.0.0.0/16, ingress: [{{ protocol: tcp, from: 0.0.0.0/0, ports: 80 }}, {{ protocol: tcp, from: 0.0.0.0/0, ports: 443 }}, {{ protocol: icmp, from: 0.0.0.0/0 }}] }}\n---\n"
        );
        text += &format!(
            "kind: Bucket\nmetadata: {{ name: b{index} }}\nspec: {{ class: openstack }}\n---\n"
        );
    }
    let specs = Specs::read([("all.yaml", text.as_str())]).expect("the specs are good");
    let started = std::time::Instant::now();
    let rendered = render(&specs, &BTreeSet::new()).expect("they can be rendered");
    let in_bytes = started.elapsed();
    let document: Json =
        serde_json::from_slice(&rendered.files["openstack.tf.json"]).expect("it is JSON");
    let n: usize = document["resource"]
        .as_object()
        .expect("some")
        .values()
        .map(|all| all.as_object().map_or(0, serde_json::Map::len))
        .sum();
    assert_eq!(n, 10_000);
    assert!(Schemas::shipped().check(&document).is_empty());
    let bytes = rendered.files["openstack.tf.json"].len();
    let checked = started.elapsed() - in_bytes;
    let world = test_support::World::new();
    let to_write = std::time::Instant::now();
    for (name, bytes) in &rendered.files {
        world.write(name, std::str::from_utf8(bytes).expect("it is text"));
    }
    let written = to_write.elapsed();
    // Shown, not held to: machines differ.
    let line = format!(
        "{n} resources, {bytes} bytes: rendered in {in_bytes:.0?}, checked in {checked:.0?}, written in {written:.0?}; {}\n",
        peak_memory()
    );
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("it can be shown");
}

//! Specs are read from three formats, and what is wrong has its file and line.

use super::*;

fn faults(file: &str, text: &str) -> Vec<String> {
    let faults = Specs::read([(file, text)]).expect_err("it must not be read");
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn a_fault_has_its_line_in_every_format() {
    let yaml = "kind: NodeGroup\nmetadata:\n  name: a\nspec:\n  role: workr\n  count: -1\n  class: openstack:m\n  config:\n    imageId: i\n    network: n\n    bootVolume: 3\n";
    assert_eq!(
        faults("a.yaml", yaml),
        [
            "a.yaml:5: NodeGroup a: spec.role: `workr` is not known; did you mean `worker`?",
            "a.yaml:6: NodeGroup a: spec.count: a whole number from 0 to 10000 belongs here",
            "a.yaml:11: NodeGroup a: spec.config.bootVolume: it is not known here; did you mean `bootVolumeGb`?",
            "a.yaml:5: NodeGroup a: spec.count: it must be set",
        ]
    );
    let toml = "kind = \"Bucket\"\n\n[metadata]\nname = \"a\"\n\n[spec]\nclass = \"openstack\"\nversioning = \"yes\"\nretentio = 3\n";
    assert_eq!(
        faults("a.toml", toml),
        [
            "a.toml:8: Bucket a: spec.versioning: `true` or `false` belongs here, and this is a text",
            "a.toml:9: Bucket a: spec.retentio: it is not known here; did you mean `retention`?",
        ]
    );
    let json = "[\n  {\n    \"kind\": \"Bucket\",\n    \"metadata\": { \"name\": \"a\" },\n    \"spec\": {\n      \"class\": \"openstak\"\n    }\n  }\n]\n";
    let found = faults("a.json", json);
    assert!(
        found[0].starts_with("a.json:") && found[0].contains("no provider `openstak`"),
        "{found:?}"
    );
}

#[test]
fn what_is_not_the_format_has_its_line() {
    for (file, text, start) in [
        (
            "a.yaml",
            "kind: Bucket\nmetadata: { name: [}\n",
            "a.yaml:2: it is no YAML",
        ),
        (
            "a.toml",
            "kind = \"Bucket\"\nmetadata = \n",
            "a.toml:2: it is no TOML",
        ),
        ("a.json", "{\n\"kind\": }\n", "a.json:2: it is no JSON"),
        ("a.txt", "", "a.txt: its format is not known"),
        ("a.yaml", "- 1\n", "a.yaml:1: a table belongs here"),
        (
            "a.yaml",
            "kind: Buckt\nmetadata: { name: a }\n",
            "a.yaml:1: kind: `Buckt` is not known; did you mean `Bucket`?",
        ),
        (
            "a.yaml",
            "kind: Bucket\n",
            "a.yaml:1: metadata.name: it must be set",
        ),
    ] {
        let found = faults(file, text);
        assert!(found[0].starts_with(start), "{found:?}");
    }
    assert_eq!(
        Specs::read([("a.yaml", "---\n---\n"), ("a.toml", "")]),
        Ok(Specs::default())
    );
}

#[test]
fn each_kind_refuses_what_its_provider_would() {
    let of = |kind: &str, spec: &str| {
        format!("kind: {kind}\nmetadata: {{ name: a }}\nspec: {{ {spec} }}\n")
    };
    let openstack = "role: worker, count: 1, class: 'openstack:m'";
    for (text, expected) in [
        (
            of(
                "NodeGroup",
                &format!("{openstack}, config: {{ network: n }}"),
            ),
            "either `imageName` or `imageId`",
        ),
        (
            of(
                "NodeGroup",
                &format!("{openstack}, config: {{ network: n, imageId: i, floatingIp: true }}"),
            ),
            "needs the network it comes from",
        ),
        (
            of(
                "NodeGroup",
                "role: worker, count: 1, class: openstack, config: { network: n, imageId: i }",
            ),
            "write it after the provider",
        ),
        (
            of(
                "NodeGroup",
                "role: worker, count: 1, class: 'oci:S', config: { compartmentOcid: c, imageOcid: i }",
            ),
            "either `subnetId` or `network`",
        ),
        (
            of(
                "NodeGroup",
                "role: worker, count: 2, class: metal, config: { machines: { 10.0.0.1: {} } }",
            ),
            "`count` is 2, and there are 1",
        ),
        (
            of(
                "NodeGroup",
                "role: worker, class: metal, config: { machines: { ten: {} } }",
            ),
            "it is no address",
        ),
        (
            of(
                "NodeGroup",
                "role: worker, class: 'metal:x', config: { machines: {} }",
            ),
            "has no shape",
        ),
        (
            of("Network", "class: metal, cidr: 10.0.0.0/8"),
            "no provider `metal` makes it",
        ),
        (
            of("Network", "class: openstack, cidr: 10.0.0.0/33"),
            "is no network",
        ),
        (
            of(
                "Network",
                "class: openstack, cidr: 10.0.0.0/8, public: true",
            ),
            "the one that its router leads to",
        ),
        (
            of(
                "Network",
                "class: openstack, cidr: 10.0.0.0/8, ingress: [{ protocol: icmp, from: 10.0.0.0/8, ports: 1 }]",
            ),
            "has no ports",
        ),
        (
            of(
                "Network",
                "class: openstack, cidr: 10.0.0.0/8, ingress: [{ protocol: tcp, from: 10.0.0.0/8, ports: 9-1 }]",
            ),
            "a port or a range of ports",
        ),
        (
            of("Bucket", "class: openstack, retention: 3"),
            "has no retention",
        ),
        (
            of(
                "Bucket",
                "class: oci, retention: 3, versioning: true, config: { compartmentOcid: c }",
            ),
            "either versions or a retention",
        ),
        (
            of("Secret", "from: somewhere"),
            "names no item and no secret",
        ),
        (
            of("Secret", "from: 'secret:1', fields: [password]"),
            "has one field, `value`",
        ),
        (
            of("Project", "path: alone"),
            "no path of a project in a group",
        ),
        (
            of(
                "Project",
                "path: g/p, variables: [{ key: A, value: a, variable: b }]",
            ),
            "one of `value`",
        ),
        (
            of("Project", "path: g/p, variables: [{ key: A-B, value: a }]"),
            "letters, digits and `_`",
        ),
        (
            of(
                "Project",
                "path: g/p, deployTokens: [{ name: a, scopes: [read_repositry] }]",
            ),
            "did you mean `read_repository`?",
        ),
        (
            of(
                "Project",
                "path: g/p, files: [{ path: a, content: x }, { path: a, content: y }]",
            ),
            "`a` is there twice",
        ),
        (
            of("Cluster", "talosVersion: '1.11', endpoint: 'https://a:1'"),
            "`1.11` is no version",
        ),
        (
            of("Cluster", "endpoint: 'https://a:1'"),
            "talosVersion: it must be set",
        ),
    ] {
        let found = faults("a.yaml", &text);
        assert!(
            found.iter().any(|fault| fault.contains(expected)),
            "{expected}: {found:?}"
        );
    }
}

#[test]
fn texts_of_patches_are_kept_byte_for_byte() {
    let text = "kind: Cluster\nmetadata: { name: c }\nspec:\n  talosVersion: v1.11.2\n  endpoint: https://a:6443\n  configPatches:\n    - |\n      machine:\n        env: { A: \"${B} %{C}\" }\n";
    let specs = Specs::read([("a.yaml", text)]).expect("it is good");
    let Wanted::Cluster(cluster) = &specs.all()[0].wanted else {
        panic!("it is a cluster");
    };
    assert_eq!(
        cluster.config_patches,
        ["machine:\n  env: { A: \"${B} %{C}\" }\n"]
    );
    assert_eq!(specs.all()[0].origin, ("a.yaml".to_owned(), Some(1)));
}

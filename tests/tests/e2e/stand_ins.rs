//! What is rendered for the providers that can't be had, validated, planned, applied and destroyed by the real OpenTofu
//! with their own schemas.

use provider::ProviderName::{Bitwarden, Gitlab, Oci, Openstack, Talos};
use serde_json::json;
use test_support::Outcome;

use crate::drill::{Drill, tool};
use crate::stand_in::StandIns;

const PLATFORM: &str = include_str!("../../../crates/provider/src/render/tests/platform.yaml");
const HEAD: &str = "[platform]\nname = \"lab\"\n[tools]\ntofu = { cli_config = \"tofu.tfrc\" }\n";
const TARGET: &str = "[encryption]\npassphrase = { env = \"PASS\" }\n";
const PASSPHRASE: &str = "a passphrase of the stand-ins";

fn run(drill: &Drill, code: i32, words: &[&str], env: &[(&str, &str)]) -> Outcome {
    let mut all = words.to_vec();
    all.extend(["--target", "drill"]);
    let mut command = drill.rebuild(&all).env("PASS", PASSPHRASE);
    for (name, value) in env {
        command = command.env(*name, *value);
    }
    let outcome = command.run();
    outcome.expect_code(code);
    outcome
}

/// Files below the state home and the platform that hold a text. The programs of providers are left out.
fn holding(drill: &Drill, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![drill.world.state_home(), drill.world.work()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
            let is_program = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("terraform-provider-"));
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file() && !is_program {
                let text = std::fs::read(&path).unwrap();
                if String::from_utf8_lossy(&text).contains(needle) {
                    found.push(path.display().to_string());
                }
            }
        }
    }
    found
}

const SECRETS: [&str; 6] = [
    "s3cret-of-the-kubeconfig",
    "s3cret-client-key",
    "s3cret-user-data",
    "s3cret-of-the-cloud",
    "s3cret-of-the-registry",
    "s3cret-of-the-webhook",
];

/// What the providers answer with: secrets at every place where the real ones have them.
fn answer_with_secrets(clouds: &StandIns, user_data: &str) {
    let [kubeconfig, client_key, _, cloud, registry, _] = SECRETS;
    clouds.answer(
        Talos,
        &json!({
            "data": { "talos_machine_configuration": { "machine_configuration": format!("machine:\n  token: {user_data}\n") } },
            "create": {
                "talos_cluster_kubeconfig": { "kubeconfig_raw": format!("kind: Config\nusers: [{kubeconfig}]\n") },
                "talos_machine_secrets": { "client_configuration": { "ca_certificate": "Y2E=", "client_certificate": "Y2VydA==", "client_key": client_key } },
            },
        }),
    );
    clouds.answer(
        Bitwarden,
        &json!({ "crowd": 20, "data": { "bitwarden_item_login": { "password": cloud }, "bitwarden_secret": { "value": registry } } }),
    );
    // What can't be changed in place at the real ones.
    clouds.answer(
        Oci,
        &json!({ "replace": { "oci_core_instance": ["availability_domain", "metadata", "source_details"] } }),
    );
    clouds.answer(
        Openstack,
        &json!({ "replace": { "openstack_compute_instance_v2": ["block_device", "user_data"] } }),
    );
}

/// Case P3: one thing at a time where Bitwarden's client is used. The platform that the docs show, whole: five providers, built, looked
/// at, changed and torn down; its sensitive outputs reach later steps and GitLab, and lie nowhere in clear.
#[test]
fn the_small_real_platform_stands_and_goes_and_its_secrets_lie_nowhere() {
    let drill = Drill::empty();
    let clouds = StandIns::of(&drill);
    let out = drill.world.root().join("used");
    drill.write("nodes/platform.yaml", PLATFORM);
    drill.write(
        "targets/drill.toml",
        &format!("{TARGET}[secrets]\nwebhook = {{ env = \"WEBHOOK\" }}\n"),
    );
    drill.write(
        "rebuild.toml",
        &format!(
            r#"{HEAD}
[[phase]]
id = "1"
[[phase.step]]
name = "machines"
nodes = "nodes"
vars = {{ webhook_token = "${{secret.webhook}}" }}
[[phase]]
id = "2"
[[phase.step]]
name = "use"
exec = {{ apply = ["sh", "-c", "printf '%s\n%s\n%s\n' \"$KUBE\" \"$KEY\" \"$HOSTS\" > \"$OUT\""], verify = ["sh", "-c", "test -s \"$OUT\""], teardown = ["sh", "-c", "rm -f \"$OUT\""] }}
env = {{ KUBE = "${{step.1.machines.kubeconfig}}", KEY = "${{step.1.machines.client_configuration.client_key}}", HOSTS = "${{step.1.machines.hosts}}", OUT = "{}" }}
"#,
            out.display()
        ),
    );
    answer_with_secrets(&clouds, SECRETS[2]);
    let env = [("WEBHOOK", SECRETS[5])];
    let mut said = run(&drill, 0, &["up", "--no-pause"], &env);

    // All of it stands, as it was meant.
    let standing = clouds.standing();
    for kind in [
        "gitlab_branch_protection-1",
        "gitlab_group-2",
        "gitlab_project_deploy_token-1",
        "gitlab_project_variable-4",
        "gitlab_repository_file-1",
        "oci_core_instance-3",
        "oci_objectstorage_bucket-1",
        "openstack_compute_instance_v2-2",
        "openstack_compute_volume_attach_v2-2",
        "openstack_networking_floatingip_v2-2",
        "openstack_objectstorage_container_v1-1",
        "talos_machine_bootstrap-1",
        "talos_machine_configuration_apply-1",
    ] {
        assert!(standing.iter().any(|id| id == kind), "{kind}: {standing:?}");
    }
    // Spread over the domains, and told apart.
    let mut domains: Vec<String> = ["1", "2", "3"]
        .map(|n| {
            clouds.object(Oci, &format!("oci_core_instance-{n}"))["availability_domain"].to_string()
        })
        .to_vec();
    domains.sort();
    domains.dedup();
    assert_eq!(domains.len(), 3, "{domains:?}");
    let machine = clouds.object(Oci, "oci_core_instance-1");
    assert_eq!(machine["freeform_tags"]["platform"], "lab");

    // What later steps were given.
    let used = std::fs::read_to_string(&out).unwrap();
    assert!(used.contains(&format!("users: [{}]", SECRETS[0])), "{used}");
    assert!(used.contains(&format!("\n{}\n", SECRETS[1])), "{used}");
    let hosts = used.lines().last().unwrap();
    let hosts: serde_json::Value = serde_json::from_str(hosts).unwrap();
    assert_eq!(hosts.as_object().unwrap().len(), 6, "{hosts}");
    assert_eq!(hosts["garage-192.168.1.10"]["role"], "worker");
    // GitLab was given the kubeconfig as a masked variable, in one line, and the registry's password.
    let variables: Vec<_> = (1..=4)
        .map(|n| clouds.object(Gitlab, &format!("gitlab_project_variable-{n}")))
        .collect();
    let of = |key: &str| {
        variables
            .iter()
            .find(|variable| variable["key"] == key)
            .unwrap()
    };
    let encoded = of("KUBECONFIG_BASE64");
    assert_eq!(encoded["masked"], true);
    let encoded = encoded["value"].as_str().unwrap().to_owned();
    assert!(encoded.len() > 20 && !encoded.contains('\n'));
    assert_eq!(of("REGISTRY_PASSWORD")["value"], SECRETS[4]);
    assert_eq!(of("WEBHOOK")["value"], SECRETS[5]);

    // Nothing differs, and another run does nothing.
    clouds.changed();
    said.stdout += &run(&drill, 0, &["preflight"], &env).stdout;
    run(&drill, 0, &["up", "--no-pause"], &env);
    assert_eq!(clouds.changed(), [""; 0]);

    // Machines stay when their user data and their image move.
    answer_with_secrets(&clouds, "another s3cret-user-data");
    drill.write(
        "nodes/platform.yaml",
        &PLATFORM.replace("ocid1.image.oc1..example", "ocid1.image.oc1..newer"),
    );
    said.stdout += &run(&drill, 0, &["plan"], &env).stdout;
    run(&drill, 0, &["up", "--no-pause"], &env);
    let changed = clouds.changed();
    let touched = |line: &String| line.contains("_instance") && !line.starts_with("update talos");
    assert!(!changed.iter().any(touched), "{changed:?}");

    // Nowhere in clear: not in a state, a plan, a log or a record, and not on the screen.
    for secret in SECRETS.iter().copied().chain([encoded.as_str()]) {
        assert_eq!(holding(&drill, secret), [""; 0], "{secret}");
        assert!(
            !said.stdout.contains(secret) && !said.stderr.contains(secret),
            "{secret}"
        );
    }
    let seen = clouds.seen(Bitwarden);
    assert!(
        seen.iter()
            .any(|call| call.starts_with("data bitwarden_item_login")),
        "{seen:?}"
    );
    assert!(
        seen.iter().all(|call| call.ends_with("at-once=1")),
        "{seen:?}"
    );

    run(&drill, 0, &["down"], &env);
    assert_eq!(clouds.standing(), [""; 0]);
    assert!(!out.exists());
}

/// Case P1: a cloud that adds tags by itself makes no difference for ever: it is no drift, whether the tags come while the
/// machines are made or later, nothing is applied for them, and the exception is named. What else changes is drift.
#[test]
fn tags_that_the_cloud_adds_are_no_drift_and_all_else_is() {
    let drill = Drill::empty();
    let clouds = StandIns::of(&drill);
    drill.write(
        "nodes/group.yaml",
        "kind: NodeGroup\nmetadata: { name: a }\nspec: { role: worker, count: 2, class: 'oci:VM.Standard2.1', config: { compartmentOcid: c, subnetId: s, imageOcid: i } }\n---\nkind: Bucket\nmetadata: { name: logs }\nspec: { class: oci, config: { compartmentOcid: c } }\n",
    );
    drill.write("targets/drill.toml", TARGET);
    drill.write(
        "rebuild.toml",
        &format!(
            "{HEAD}[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"machines\"\nnodes = \"nodes\"\n"
        ),
    );
    let tagged = |by: &str| {
        let tags = json!({ "defined_tags": { "Oracle-Tags.CreatedBy": by } });
        clouds.answer(
            Oci,
            &json!({ "read": { "oci_core_instance": tags, "oci_objectstorage_bucket": tags } }),
        );
    };
    tagged("first");
    run(&drill, 0, &["up", "--no-pause"], &[]);
    run(&drill, 0, &["preflight"], &[]);
    tagged("later");
    clouds.changed();
    let report = run(&drill, 0, &["preflight", "--output", "json"], &[]).stdout;
    let excused = "`defined_tags` of `oci_*` is ignored: Oracle adds tags of its own";
    assert!(report.contains(excused), "{report}");
    run(&drill, 0, &["up", "--no-pause"], &[]);
    assert_eq!(clouds.changed(), [""; 0]);

    clouds.change(
        Oci,
        "oci_core_instance-1",
        "display_name",
        json!("renamed by hand"),
    );
    let report = run(&drill, 3, &["preflight", "--output", "json"], &[]).stdout;
    assert!(
        report.contains("oci_core_instance.a[") && report.contains("display_name"),
        "{report}"
    );
    run(&drill, 0, &["repair", "1"], &[]);
    run(&drill, 0, &["down"], &[]);
    assert_eq!(clouds.standing(), [""; 0]);
}

/// Twenty items of a vault, and a project that is given them.
fn vault() -> String {
    let mut specs = String::new();
    let mut variables = Vec::new();
    for n in 0..20 {
        specs += &format!(
            "kind: Secret\nmetadata: {{ name: item{n} }}\nspec: {{ from: 'item:{n}' }}\n---\n"
        );
        variables.push(format!(
            "{{ key: KEY{n}, secret: {{ name: item{n}, field: password }}, masked: true }}"
        ));
    }
    specs
        + &format!(
            "kind: Project\nmetadata: {{ name: p }}\nspec: {{ path: group/p, variables: [{}] }}\n",
            variables.join(", ")
        )
}

/// Cases P3, P4: twenty items are read one at a time, by the session of today: each call has one of its own, which is in
/// nothing that is kept, so that what was planned under one is applied under the next.
#[test]
fn a_vault_is_read_one_item_at_a_time_by_the_session_of_the_day() {
    let drill = Drill::empty();
    let clouds = StandIns::of(&drill);
    drill.write("nodes/vault.yaml", &vault());
    drill.write(
        "targets/drill.toml",
        &format!("{TARGET}[secrets]\nsession = {{ env = \"SESSION\" }}\n[env]\nBW_SESSION = \"${{secret.session}}\"\n"),
    );
    drill.write(
        "rebuild.toml",
        &format!(
            "{HEAD}[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"vault\"\nnodes = \"nodes\"\n"
        ),
    );
    clouds.answer(Bitwarden, &json!({ "crowd": 20, "env": ["BW_SESSION"] }));
    let sessions = [
        "s3ssion-of-monday",
        "s3ssion-of-tuesday",
        "s3ssion-of-friday",
    ];
    let expect_alone_with = |session: &str| {
        let seen = clouds.seen(Bitwarden);
        let items = seen.iter().filter(|call| call.starts_with("data "));
        assert!(items.count() >= 20, "{seen:?}");
        for call in &seen {
            assert!(
                call.contains(session) && call.ends_with("at-once=1"),
                "{call}"
            );
        }
    };
    run(
        &drill,
        0,
        &["up", "--no-pause"],
        &[("SESSION", sessions[0])],
    );
    expect_alone_with(sessions[0]);
    drill.write("nodes/vault.yaml", &vault().replace("KEY7", "KEY_SEVEN"));
    run(&drill, 0, &["plan"], &[("SESSION", sessions[1])]);
    expect_alone_with(sessions[1]);
    clouds.changed();
    run(
        &drill,
        0,
        &["up", "--no-pause"],
        &[("SESSION", sessions[2])],
    );
    expect_alone_with(sessions[2]);
    assert_eq!(clouds.changed().len(), 2);
    for session in sessions {
        assert_eq!(holding(&drill, session), [""; 0], "{session}");
    }

    // OpenTofu by hand, on what is rendered: a plan made under one session is applied under another, and holds neither.
    // Without the step's `parallelism` the items are read at once, so this test would see it.
    drill.run(0, &["render", "--out", "out"]);
    let module = drill.dir().join("out/1/vault");
    let tofu = |args: &[&str], session: &str| {
        let outcome = drill
            .world
            .command(tool("REBUILD_TEST_TOFU"))
            .args(args.iter().copied())
            .env("TF_CLI_CONFIG_FILE", drill.dir().join("tofu.tfrc"))
            .env("BW_SESSION", session)
            .cwd(&module)
            .run();
        assert_eq!(outcome.code(), Some(0), "{args:?} {outcome:?}");
        outcome
    };
    tofu(&["init"], "");
    clouds.seen(Bitwarden);
    tofu(&["plan", "-out=saved"], sessions[0]);
    let seen = clouds.seen(Bitwarden);
    assert!(
        seen.iter().any(|call| !call.ends_with("at-once=1")),
        "{seen:?}"
    );
    tofu(&["apply", "saved"], sessions[1]);
    let seen = clouds.seen(Bitwarden);
    assert!(
        seen.iter().all(|call| call.contains(sessions[1])),
        "{seen:?}"
    );
    let plan = tofu(&["show", "-json", "saved"], "").stdout;
    assert!(!plan.contains("s3ssion"), "{plan}");
    tofu(&["destroy", "-auto-approve"], sessions[2]);
    run(&drill, 0, &["down"], &[("SESSION", sessions[2])]);
    assert_eq!(clouds.standing(), [""; 0]);
}

/// What is rendered for every provider is planned and applied against mocks by `check`, with no credentials and no cloud:
/// each kind with everything set, and with as little as it takes.
#[test]
fn every_rendered_module_is_checked_with_mocks_of_its_providers() {
    let drill = Drill::empty();
    let clouds = StandIns::of(&drill);
    let bare = "kind: NodeGroup\nmetadata: { name: a }\nspec: { role: worker, count: 2, class: 'oci:VM.Standard2.1', config: { compartmentOcid: c, subnetId: s, imageOcid: i, assignPublicIp: false } }\n";
    let network = "kind: Network\nmetadata: { name: n }\nspec: { class: oci, cidr: 10.0.0.0/16, config: { compartmentOcid: c } }\n";
    let cluster = "kind: Cluster\nmetadata: { name: c }\nspec: { talosVersion: v1.11.2, endpoint: 'https://c.example.org:6443', bootstrap: false }\n";
    let metal = "kind: NodeGroup\nmetadata: { name: m }\nspec: { role: controlplane, class: metal, config: { machines: { 10.0.0.1: {}, 10.0.0.2: { installDisk: /dev/sda } } } }\n";
    let vault = "kind: Secret\nmetadata: { name: note }\nspec: { from: 'note:1', fields: [notes, 'a \"quoted\" one ${x}'] }\n---\nkind: Secret\nmetadata: { name: key }\nspec: { from: 'sshKey:1', fields: [private_key, comment] }\n---\nkind: Secret\nmetadata: { name: plain }\nspec: { from: 'item:1' }\n";
    let project = "kind: Project\nmetadata: { name: p }\nspec: { path: group/p }\n";
    let modules = [
        ("full", PLATFORM.to_owned()),
        ("bare", [bare, network, project].join("---\n")),
        ("metal", [cluster, metal, vault].join("---\n")),
        ("lone", cluster.to_owned()),
    ];
    let mut phases = String::new();
    for (name, specs) in &modules {
        drill.write(&format!("{name}/specs.yaml"), specs);
        phases += &format!(
            "[[phase]]\nid = \"{name}\"\n[[phase.step]]\nname = \"machines\"\nnodes = \"{name}\"\n"
        );
        if *name == "full" {
            phases += "vars = { webhook_token = \"x\" }\n";
        }
    }
    drill.write("rebuild.toml", &format!("{HEAD}{phases}"));
    let report = drill.json(0, &["check"]);
    let checked = report["modules"].as_array().unwrap();
    for (name, _) in &modules {
        let path = format!(".rebuild/nodes/{name}/machines");
        let module = checked
            .iter()
            .find(|module| module["path"] == path.as_str());
        let module = module.unwrap_or_else(|| panic!("{path}: {report:#}"));
        let n_passed = if ["full", "metal"].contains(name) {
            1
        } else {
            2
        };
        assert_eq!(module["tests"]["passed"], n_passed, "{module:#}");
        assert_eq!(module["format"], serde_json::json!([]), "{module:#}");
    }
    assert_eq!(clouds.standing(), [""; 0]);
}

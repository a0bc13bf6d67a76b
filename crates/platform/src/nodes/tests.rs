//! Specs as a step of a platform, from its directory and from a bundle.

use phase_engine::TargetName;

use super::*;
use crate::files::MemoryFiles;
use crate::model::{Definitions, StepKind, TofuStep};
use crate::{load, load_platform, survey};

const GROUP: &str = "kind: NodeGroup\nmetadata: { name: workers }\nspec: { role: worker, count: 1, class: 'openstack:m1', config: { imageId: i, network: n } }\n";

fn files(phases: &str) -> MemoryFiles {
    MemoryFiles::default()
        .with(
            "rebuild.toml",
            format!("[platform]\nname = \"lab\"\n[[phase]]\nid = \"1\"\n{phases}"),
        )
        .with("targets/drill.toml", ENCRYPTED)
        .with("nodes/workers.yaml", GROUP)
        .with("nodes/README.md", "no spec")
}

const ENCRYPTED: &str = "[encryption]\npassphrase = { env = \"PASSPHRASE\" }\n";
const STEP: &str = "[[phase.step]]\nname = \"machines\"\nnodes = \"nodes\"\n";

fn loaded(files: &MemoryFiles) -> Result<Definitions, String> {
    let target: TargetName = "drill".parse().expect("a name");
    load(files, None, &target).map_err(|faults| faults.render_plain())
}

fn tofu_step(definitions: &Definitions) -> TofuStep {
    match &definitions.platform.phases[0].steps[0].kind {
        StepKind::Tofu(tofu) => tofu.clone(),
        other => panic!("{other:?}"),
    }
}

fn bundle(definitions: &Definitions, files: &MemoryFiles) -> Bundle {
    let paths = ["rebuild.toml", "nodes/workers.yaml"];
    let own = paths.map(|path| BundleFile {
        path: path.to_owned(),
        mode: 0o644,
        bytes: files.read(path).expect("memory").expect("it is there"),
    });
    Bundle::from_files(own.to_vec())
        .and_then(|bundle| bundle.with_rendered(&definitions.platform.rendered))
        .expect("a bundle")
}

#[test]
fn specs_become_a_root_module_with_outputs_that_later_steps_refer_to() {
    let later = "[[phase.step]]\nname = \"use\"\nexec = { apply = [\"true\"], verify = [\"true\"], teardown = [] }\nenv = { HOSTS = \"${step.1.machines.hosts}\" }\n";
    let files = files(&format!("{STEP}{later}"));
    let definitions = loaded(&files).expect("no faults");
    let step = tofu_step(&definitions);
    assert_eq!(step.root, ".rebuild/nodes/1/machines");
    assert_eq!(definitions.platform.phases[0].steps[0].kind.word(), "nodes");
    let names: Vec<&String> = definitions.platform.rendered.keys().collect();
    assert_eq!(
        names,
        [
            ".rebuild/nodes/1/machines/main.tf.json",
            ".rebuild/nodes/1/machines/openstack.tf.json",
            ".rebuild/nodes/1/machines/tests/rendered.tftest.hcl"
        ]
    );
    let wrong = files.clone().with(
        "rebuild.toml",
        String::from_utf8(files.read("rebuild.toml").unwrap().unwrap())
            .unwrap()
            .replace("machines.hosts", "machines.hots"),
    );
    let faults = loaded(&wrong).expect_err("no such output");
    assert!(faults.contains("has no output `hots`"), "{faults}");
}

#[test]
fn a_bundle_keeps_what_was_rendered_and_a_platform_directory_never_does() {
    let files = files(STEP);
    let definitions = loaded(&files).expect("no faults");
    let packed = bundle(&definitions, &files);
    let stored = load_platform(&packed).expect("no faults");
    assert_eq!(stored.rendered, definitions.platform.rendered);
    // What an earlier version had rendered is what a teardown works with, whatever this one would render.
    let old: BTreeMap<String, Vec<u8>> = [(
        ".rebuild/nodes/1/machines/main.tf.json".to_owned(),
        b"{\"output\": {\"old\": [{\"value\": 1}]}}".to_vec(),
    )]
    .into();
    let older = packed.clone().with_rendered(&old).expect("a bundle");
    assert_eq!(load_platform(&older).expect("no faults").rendered, old);
    // Today's definitions are rendered anew.
    let survey = survey(&older);
    let fresh = survey.platform.expect("a platform").rendered;
    assert_eq!(fresh, definitions.platform.rendered);
    let plain = packed.with_rendered(&BTreeMap::new()).expect("a bundle");
    assert!(plain.files().iter().all(|file| !is_generated(&file.path)));
}

#[test]
fn a_fault_of_a_spec_is_underlined_where_it_stands() {
    let wrong = GROUP.replace("imageId", "imageID");
    let files = files(STEP).with("nodes/workers.yaml", wrong);
    let faults = loaded(&files).expect_err("a misspelt key");
    assert!(
        faults.contains("nodes/workers.yaml:3") && faults.contains("imageId"),
        "{faults}"
    );
    let missing = loaded(&files.with(
        "rebuild.toml",
        "[platform]\nname = \"lab\"\n[[phase]]\nid = \"1\"\n[[phase.step]]\nname = \"m\"\nnodes = \"node\"\n",
    ))
    .expect_err("no such directory");
    assert!(
        missing.contains("no specs at `node`") && missing.contains("did you mean `nodes`?"),
        "{missing}"
    );
}

#[test]
fn one_file_will_do_and_a_committed_lock_file_goes_along() {
    let files = files(&STEP.replace("\"nodes\"", "\"nodes/workers.yaml\""))
        .with("nodes/.terraform.lock.hcl", "# locked");
    let definitions = loaded(&files).expect("no faults");
    assert_eq!(
        definitions.platform.rendered[".rebuild/nodes/1/machines/.terraform.lock.hcl"],
        b"# locked"
    );
}

/// Case P3: the client of Bitwarden's is not safe in parallel.
#[test]
fn secrets_of_bitwarden_are_read_one_at_a_time() {
    let secret = "kind: Secret\nmetadata: { name: s }\nspec: { from: 'item:2ea0a1d1-0e5c-4c7a-a8a7-b0d700b7c7aa', fields: [password] }\n";
    let parallelism = |files: &MemoryFiles| {
        let definitions = loaded(files).expect("no faults");
        definitions.platform.phases[0].steps[0].parallelism
    };
    assert_eq!(parallelism(&files(STEP)), None);
    let with_secret = files(STEP).with("nodes/secret.yaml", secret);
    assert_eq!(parallelism(&with_secret), Some(1));
}

#[test]
fn specs_are_no_definitions_of_other_steps() {
    let exec = "[[phase.step]]\nname = \"x\"\nexec = { apply = [\"true\"], verify = [\"true\"], teardown = [] }\n";
    let files = files(&format!("{STEP}{exec}"));
    let definitions = loaded(&files).expect("no faults");
    let packed = bundle(&definitions, &files);
    let platform = &definitions.platform;
    let of = |index: usize| -> Vec<&str> {
        let step = &platform.phases[0].steps[index];
        let files = packed.definition_files(platform, step);
        files.iter().map(|file| file.path.as_str()).collect()
    };
    assert_eq!(of(0).len(), 3);
    assert_eq!(of(1), [""; 0]);
}

#[test]
fn machines_are_upgraded_before_the_step_that_configures_them() {
    let cluster = "kind: Cluster\nmetadata: { name: c }\nspec: { talosVersion: v1.11.2, endpoint: 'https://a:6443' }\n";
    let upgrade = "[[phase.step]]\nname = \"upgrade\"\ntalos = { hosts = \"machines\", version = \"v1.11.2\" }\n";
    let of = |phases: String| loaded(&files(&phases).with("nodes/cluster.yaml", cluster));
    let before = of(format!("{upgrade}{STEP}")).expect("no faults");
    let [first, second] = &before.platform.phases[0].steps[..] else {
        panic!("two steps");
    };
    assert!(matches!(&first.kind, StepKind::Talos(talos) if talos.is_before_hosts));
    assert!(first.refers_to().is_empty());
    assert!(second.refers_to().contains(&first.id));
    before.platform.sequence().expect("a legal order");
    let after = of(format!("{STEP}{upgrade}")).expect("no faults");
    let last = &after.platform.phases[0].steps[1];
    assert_eq!(last.refers_to().len(), 1);
    after.platform.sequence().expect("a legal order");
    // Machines without a cluster give out no client configuration.
    let lacking = loaded(&files(&format!("{STEP}{upgrade}"))).expect_err("no talosconfig");
    assert!(lacking.contains("has no output `talosconfig`"), "{lacking}");
    let itself = of(upgrade.replace("machines", "upgrade")).expect_err("itself");
    assert!(itself.contains("names the step itself"), "{itself}");
}

#[test]
fn credentials_that_a_target_lacks_are_named_and_stop_nothing() {
    let warnings = |target: &str, files: MemoryFiles| -> Vec<String> {
        let definitions = loaded(&files.with("targets/drill.toml", format!("{target}{ENCRYPTED}")))
            .expect("no faults");
        let all = definitions.warnings.iter();
        all.map(|fault| {
            format!(
                "{}: {}",
                fault.message,
                fault.help.clone().unwrap_or_default()
            )
        })
        .collect()
    };
    let lacking = warnings("", files(STEP));
    assert_eq!(lacking.len(), 1, "{lacking:?}");
    assert!(
        lacking[0].contains("provider `openstack` of step `1.machines` must know the cloud")
            && lacking[0].contains("`OS_CLOUD`"),
        "{lacking:?}"
    );
    let none: [String; 0] = [];
    assert_eq!(warnings("[env]\nOS_CLOUD = \"lab\"\n", files(STEP)), none);
    let own = format!("{STEP}env = {{ OS_CLOUD = {{ from = \"OS_CLOUD\" }} }}\n");
    assert_eq!(warnings("", files(&own)), none);
    // What the step reads from Bitwarden is not missing; who opens Bitwarden is.
    let secret = "kind: Secret\nmetadata: { name: s }\nspec: { from: 'item:2ea0a1d1-0e5c-4c7a-a8a7-b0d700b7c7aa', fields: [username], provider: { name: openstack, arguments: { password: password } } }\n";
    let with_secret = warnings("", files(STEP).with("nodes/secret.yaml", secret));
    assert_eq!(with_secret.len(), 1, "{with_secret:?}");
    assert!(
        with_secret[0].contains("provider `bitwarden`"),
        "{with_secret:?}"
    );
}

#[test]
fn what_a_cluster_gives_out_feeds_later_steps_and_is_never_an_argument() {
    let cluster = "kind: Cluster\nmetadata: { name: c }\nspec: { talosVersion: v1.11.2, endpoint: 'https://a:6443' }\n---\nkind: NodeGroup\nmetadata: { name: control }\nspec: { role: controlplane, count: 1, class: 'openstack:m1', config: { imageId: i, network: n } }\n";
    let later = |how: &str| {
        let step = "[[phase.step]]\nname = \"use\"\nexec = { apply = [\"true\"APPLY], verify = [\"true\"], teardown = [] }\n";
        let (apply, env) = match how {
            "env" => (
                "",
                "env = { K = \"${step.1.machines.kubeconfig}\", C = \"${step.1.machines.client_configuration}\", T = \"${step.1.machines.talosconfig}\" }\n",
            ),
            _ => (", \"${step.1.machines.kubeconfig}\"", ""),
        };
        files(&format!("{STEP}{}{env}", step.replace("APPLY", apply))).with("nodes/c.yaml", cluster)
    };
    let definitions = loaded(&later("env")).expect("no faults");
    let used = &definitions.platform.phases[0].steps[1];
    assert_eq!(used.refers_to().len(), 1);
    let faults = loaded(&later("argument")).expect_err("a secret");
    assert!(faults.contains("sensitive output `kubeconfig`"), "{faults}");
    // Its state holds the cluster's own secrets, and is encrypted.
    let open = loaded(&later("env").with("targets/drill.toml", "")).expect_err("an open state");
    assert!(
        open.contains("a secret of step `1.machines` reaches OpenTofu"),
        "{open}"
    );
}

//! Definitions as a whole: what is read, what steps are given, what no text can break.

use std::time::Duration;

use phase_engine::StepId;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::bundle::{Bundle, BundleFile};
use crate::expr::Expr;
use crate::files::MemoryFiles;
use crate::model::{CheckKind, EnvValue, HostsOutput, SshStep, StepKind, TofuStep};
use crate::store_def::StoreDef;
use secrets::Source;

const PLATFORM: &str = r#"
[platform]
name = "lab"
time_budget = "60m"

[tools]
tofu = { version = "~1.12" }

[[phase]]
id = "0"
title = "state"
provides_state = true
[[phase.step]]
name = "bucket"
tofu = "phases/0"
destroy_refresh = false
parallelism = 1
ignore_drift = [{ address = "a.b", attribute = "tags", reason = "added by the cloud", until = 2027-03-31 }]

[[phase]]
id = "1a"
parallel = true
max_destroy = 3
[[phase.step]]
name = "edge"
tofu = "phases/1a"
vars = { bucket = "${step.0.bucket.name}", nodes = [{ name = "${target.zone}", size = 2 }] }
[[phase.step]]
name = "script"
after = ["edge"]
timeout = "5m"
stdin = "${step.0.bucket.key}"
env = { TOKEN = "${secret.token}", USER_AGENT = { from = "AGENT" } }
exec = { apply = ["sh", "-c", "x"], verify = ["sh", "-c", "y"], teardown = [] }
[[phase.check]]
name = "answers"
http = { url = "https://${target.zone}/", status = 204, body_contains = "ok" }
within = "2m"
every = "5s"
[[phase.check]]
name = "resolves"
dns = { name = "${target.zone}", type = "aaaa", expect = ["::1"], server = "127.0.0.1:53" }
[[phase.residue]]
name = "gone"
exec = ["sh", "-c", "true"]
"#;

const TARGET: &str = r#"
[encryption]
passphrase = { env = "PASSPHRASE" }
[values]
zone = "example.org"
literal = "$${x}"
[secrets]
token = { command = ["op", "read", "x"] }
[env]
OS_CLOUD = "live"
SSH_AUTH_SOCK = { from = "SSH_AUTH_SOCK" }
"#;

fn files() -> MemoryFiles {
    MemoryFiles::default()
        .with("rebuild.toml", PLATFORM)
        .with("targets/drill.toml", TARGET)
        .with(
            "phases/0/main.tf",
            "variable \"literal\" {}\noutput \"name\" {\n value = 1\n}\noutput \"key\" {\n value = 1\n sensitive = true\n}\n",
        )
        .with(
            "phases/1a/main.tf",
            "variable \"zone\" {\n default = \"\"\n}\nvariable \"bucket\" {}\nvariable \"nodes\" {}\nvariable \"size\" {\n default = 1\n}\n\
             module \"net\" {\n source = \"../../modules/net\"\n}\n",
        )
        .with("phases/1a/.terraform.lock.hcl", "# lock\n")
        .with("modules/net/main.tf", "locals {}\n")
        .with("script.sh", "x\n")
}

fn name(text: &str) -> TargetName {
    TargetName::new(text).unwrap()
}

fn loaded(files: &MemoryFiles) -> Definitions {
    load(files, None, &name("drill")).unwrap_or_else(|faults| panic!("{}", faults.render_plain()))
}

fn tofu<'a>(platform: &'a Platform, id: &str) -> &'a TofuStep {
    match &platform.step(&id.parse().unwrap()).unwrap().kind {
        StepKind::Tofu(tofu) => tofu,
        other => panic!("`{id}` is no tofu step: {other:?}"),
    }
}

#[test]
fn everything_that_is_written_is_read() {
    let Definitions {
        platform,
        target,
        warnings,
    } = loaded(&files());
    assert!(warnings.is_empty());
    assert_eq!(platform.time_budget, Some(Duration::from_secs(3600)));
    assert!(
        platform.tools["tofu"]
            .version
            .as_ref()
            .unwrap()
            .matches(&semver::Version::new(1, 12, 6))
    );
    let [zero, first] = platform.phases.as_slice() else {
        panic!("two phases")
    };
    assert!(zero.provides_state && !zero.parallel && zero.max_destroy.is_none());
    assert!(first.parallel && first.max_destroy == Some(3) && first.title == "1a");
    let bucket = &zero.steps[0];
    assert!(!bucket.destroy_refresh && bucket.parallelism == Some(1));
    assert_eq!(bucket.ignore_drift[0].until.to_string(), "2027-03-31");
    let script = &first.steps[1];
    assert_eq!(script.timeout, Some(Duration::from_secs(300)));
    assert_eq!(script.env["USER_AGENT"], EnvValue::From("AGENT".into()));
    let refers: Vec<String> = script.refers_to().iter().map(StepId::to_string).collect();
    assert_eq!(refers, ["0.bucket", "1a.edge"]);
    assert_eq!(first.checks[0].within, Duration::from_secs(120));
    assert!(matches!(
        &first.checks[0].kind,
        CheckKind::Http {
            status: 204,
            body_contains: Some(_),
            ..
        }
    ));
    assert!(matches!(&first.checks[1].kind, CheckKind::Dns { record, .. } if record == "AAAA"));
    assert_eq!(first.residue[0].argv.len(), 3);
    assert_eq!(target.store, StoreDef::Local { dir: None });
    assert_eq!(target.values["literal"], json!("${x}"));
    assert_eq!(
        target.secrets["token"],
        Source::Command(vec!["op".into(), "read".into(), "x".into()])
    );
    assert!(target.encryption.is_some() && !target.protected);
    assert_eq!(platform.sequence().unwrap().phases().len(), 2);
}

#[test]
fn a_tofu_step_is_given_what_it_declares_and_nothing_else() {
    let platform = loaded(&files()).platform;
    assert_eq!(
        tofu(&platform, "0.bucket")
            .inputs
            .keys()
            .collect::<Vec<_>>(),
        ["literal"]
    );
    let edge = tofu(&platform, "1a.edge");
    assert_eq!(
        edge.inputs.keys().collect::<Vec<_>>(),
        ["bucket", "nodes", "zone"]
    );
    assert_eq!(edge.inputs["zone"], Expr::target("zone"));
    assert_eq!(edge.vars.len(), 2);
}

#[test]
fn what_a_step_sets_itself_goes_before_the_value_of_the_target() {
    let text = PLATFORM.replace(
        "bucket = \"${step.0.bucket.name}\"",
        "bucket = \"x\", zone = \"own.${target.zone}\"",
    );
    let platform = loaded(&files().with("rebuild.toml", text)).platform;
    let edge = tofu(&platform, "1a.edge");
    assert_eq!(edge.inputs["zone"], edge.vars["zone"]);
    assert_ne!(edge.inputs["zone"], Expr::target("zone"));
}

#[test]
fn definitions_are_the_same_from_a_bundle_with_its_target_file_beside_it() {
    let names = [
        "rebuild.toml",
        "phases/0/main.tf",
        "phases/1a/main.tf",
        "phases/1a/.terraform.lock.hcl",
        "modules/net/main.tf",
    ];
    let packed = names.map(|path| BundleFile {
        path: path.to_owned(),
        mode: 0o644,
        bytes: files().read(path).unwrap().unwrap(),
    });
    let bundle = Bundle::from_files(packed.to_vec()).unwrap();
    let beside = TargetFile {
        path: "targets/drill.toml".into(),
        text: TARGET.into(),
    };
    let from_bundle = load(&bundle, Some(&beside), &name("drill")).unwrap();
    assert_eq!(
        format!("{:?}", from_bundle.platform),
        format!("{:?}", loaded(&files()).platform)
    );
    assert!(load(&bundle, None, &name("drill")).is_err());
}

#[test]
fn a_teardown_needs_the_target_file_only() {
    let broken = files().with("rebuild.toml", "[platform]\nnam = 1\n");
    let found = load_target(&broken, None, &name("drill")).unwrap();
    assert_eq!(found.target.values["zone"], json!("example.org"));
    assert!(!found.platform.unwrap_err().is_empty());
    assert!(
        load_target(&files(), None, &name("drill"))
            .unwrap()
            .platform
            .is_ok()
    );
    assert!(
        load_target(
            &files().with("targets/drill.toml", "x = 1\n"),
            None,
            &name("drill")
        )
        .is_err()
    );
}

#[test]
fn a_former_passphrase_stands_beside_todays_or_alone() {
    let with = |encryption: &str, before: &str| {
        let rest = TARGET.replace("passphrase = { env = \"PASSPHRASE\" }\n", encryption);
        assert_ne!(rest, TARGET);
        load_target(
            &files().with("targets/drill.toml", format!("{before}{rest}")),
            None,
            &name("drill"),
        )
    };
    let former = "former = { file = \"old\" }\n";
    let both = format!("passphrase = {{ env = \"NEW\" }}\n{former}");
    let target = with(&both, "").unwrap().target;
    assert!(target.encryption.is_some());
    assert_eq!(target.former, Some(Source::File("old".into())));
    // While encryption is being dropped.
    let target = with(former, "").unwrap().target;
    assert!(target.encryption.is_none() && target.former.is_some());
    for (wrong, before, says) in [
        (former, "protected = true\n", "protected"),
        (
            "mode = \"pbkdf2\"\nformer = { env = \"OLD\" }\n",
            "",
            "passphrase",
        ),
        ("", "", "passphrase"),
        ("former = { envelope = \"x\" }\n", "", "envelope"),
    ] {
        let faults = with(wrong, before).unwrap_err();
        let text = faults.render_plain();
        assert!(text.contains(says), "{wrong}: {text}");
    }
}

#[test]
fn order_comes_from_the_platform_and_a_key_out_of_place_is_a_fault() {
    // R6
    let faults = load(
        &files().with(
            "rebuild.toml",
            format!("{PLATFORM}\norder = [\"1a\", \"0\"]\n"),
        ),
        None,
        &name("drill"),
    )
    .unwrap_err();
    assert!(
        faults
            .iter()
            .any(|fault| fault.message.contains("`order` is no key")),
        "{}",
        faults.render_plain()
    );
}

#[test]
fn a_slip_is_found_before_anything_runs() {
    // N4
    for (right, wrong, near) in [
        ("step.0.bucket.name", "step.0.bucket.nmae", "name"),
        ("bucket = \"${", "bukcet = \"${", "bucket"),
        ("target.zone}\", size", "target.zoen}\", size", "zone"),
    ] {
        assert!(PLATFORM.contains(right));
        let faults = load(
            &files().with("rebuild.toml", PLATFORM.replace(right, wrong)),
            None,
            &name("drill"),
        )
        .unwrap_err();
        let help = faults.iter().next().unwrap().help.clone().unwrap();
        assert_eq!(
            (faults.len(), help),
            (1, format!("did you mean `{near}`?")),
            "{wrong}"
        );
    }
}

#[test]
fn a_section_is_digested_by_what_it_says() {
    let digests = |text: String| {
        let platform = loaded(&files().with("rebuild.toml", text)).platform;
        platform
            .steps()
            .map(|step| step.section_digest.clone())
            .collect::<Vec<_>>()
    };
    let plain = digests(PLATFORM.to_owned());
    assert_eq!(
        plain,
        digests(PLATFORM.replace("timeout = \"5m\"", "# a word\ntimeout   = \"5m\""))
    );
    let changed = digests(PLATFORM.replace("timeout = \"5m\"", "timeout = \"6m\""));
    assert_eq!(plain[..2], changed[..2]);
    assert_ne!(plain[2], changed[2]);
}

#[test]
fn a_step_is_its_section_and_its_own_files() {
    let all = [
        "rebuild.toml",
        "phases/0/main.tf",
        "phases/1a/main.tf",
        "phases/1a/.terraform.lock.hcl",
        "modules/net/main.tf",
        "script.sh",
    ];
    let pack = |changed: &str| {
        let files = all.map(|path| {
            let mut bytes = files().read(path).unwrap().unwrap();
            if path == changed {
                bytes.extend(b"# more\n");
            }
            BundleFile {
                path: path.to_owned(),
                mode: 0o644,
                bytes,
            }
        });
        Bundle::from_files(files.to_vec()).unwrap()
    };
    let platform = loaded(&files()).platform;
    let digests = |changed: &str| {
        platform
            .steps()
            .map(|step| pack(changed).definition_digest(&platform, step))
            .collect::<Vec<_>>()
    };
    let before = digests("");
    for (changed, steps) in [
        ("rebuild.toml", [false, false, false]),
        ("phases/0/main.tf", [true, false, false]),
        ("phases/1a/main.tf", [false, true, false]),
        ("phases/1a/.terraform.lock.hcl", [false, true, false]),
        ("modules/net/main.tf", [false, true, false]),
        ("script.sh", [false, false, true]),
    ] {
        let after = digests(changed);
        let differ: Vec<bool> = before.iter().zip(&after).map(|(a, b)| a != b).collect();
        assert_eq!(differ, steps, "{changed}");
    }
    // An `ssh` step reads no file: a playbook that was edited does not make it wait for hosts again.
    let mut reach = platform
        .step(&"1a.script".parse().unwrap())
        .unwrap()
        .clone();
    reach.kind = StepKind::Ssh(SshStep {
        hosts: HostsOutput {
            step: "1a.script".parse().unwrap(),
            output: "hosts".to_owned(),
        },
        timeout: Duration::from_secs(60),
    });
    let [plain, edited] =
        ["", "script.sh"].map(|changed| pack(changed).definition_digest(&platform, &reach));
    assert_eq!(plain, edited);
}

#[test]
fn a_secret_may_stand_where_nobody_sees_it() {
    // K8, E2
    let definitions = loaded(&files());
    let script = definitions
        .platform
        .step(&"1a.script".parse().unwrap())
        .unwrap();
    assert!(matches!(script.env["TOKEN"], EnvValue::Value(_)));
    assert_eq!(
        definitions.target.env["SSH_AUTH_SOCK"],
        EnvValue::From("SSH_AUTH_SOCK".into())
    );
}

/// Cuts, doubles or replaces a piece of a text.
/// What the two keys are made of does not matter here; they are well formed.
const AGE: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
const SSH: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsKLqeplhpW+uObz5dvMgjz1OxfM/XXUB+VHtZ6isGN fleet";

#[test]
fn an_envelope_is_sealed_to_keys_of_both_kinds_and_needs_one_that_opens_it() {
    let with = |more: &str| {
        let target = TARGET.replace(
            "[secrets]\n",
            "[secrets]\nsealed = { envelope = \"fleet-key\" }\n",
        );
        assert_ne!(target, TARGET);
        load(
            &files().with("targets/drill.toml", format!("{target}\n{more}")),
            None,
            &name("drill"),
        )
    };
    let told = |more: &str| match with(more) {
        Ok(_) => panic!("no fault: {more}"),
        Err(faults) => faults
            .iter()
            .map(|fault| fault.message.clone())
            .collect::<Vec<_>>(),
    };
    let keys = format!("[envelope]\nrecipients = [\"{AGE}\", \"{SSH}\"]\n");
    let target = with(&format!("{keys}identity = {{ env = \"KEY\" }}\n"))
        .unwrap()
        .target;
    assert_eq!(
        target.secrets["sealed"],
        Source::Envelope("fleet-key".into())
    );
    assert_eq!(target.envelope.unwrap().recipients.len(), 2);
    let unopened = "`sealed` comes from the envelope, and the target does not say what opens it";
    assert_eq!(told(""), [unopened]);
    assert_eq!(told(&keys), [unopened]);
    let ssh = "[ssh]\nidentity = { envelope = \"fleet-key\" }\n";
    assert_eq!(
        told(&format!("{keys}{ssh}")).len(),
        2,
        "the key of `[ssh]` as well"
    );
    let broken = "[envelope]\nrecipients = [\"age1x\"]\nidentity = { env = \"KEY\" }\n";
    assert!(told(broken)[0].starts_with("a recipient is an `age1…` key"));
    let path = TARGET.replace("[secrets]\n", "[secrets]\nx = { envelope = \"../x\" }\n");
    let faults = load(
        &files().with("targets/drill.toml", path),
        None,
        &name("drill"),
    )
    .unwrap_err();
    assert!(
        faults
            .render_plain()
            .contains("can't name a secret of the envelope")
    );
}

fn mangled(text: &'static str) -> impl Strategy<Value = String> {
    (
        0..text.len(),
        0..20usize,
        "[a-z\\[\\]{}\"=.,$#\\n 0-9é]{0,6}",
    )
        .prop_map(move |(at, cut, put)| {
            let mut chars: Vec<char> = text.chars().collect();
            let at = at.min(chars.len());
            let end = (at + cut).min(chars.len());
            chars.splice(at..end, put.chars());
            chars.into_iter().collect()
        })
}

#[test]
fn the_platforms_name_is_found_in_a_file_with_faults() {
    for text in [
        "[platform]\nname = \"lab\"",
        "[platform]\nname = \"lab\"\nnmae = 1\n[[phase]]\nid = 7",
        // No TOML as a whole.
        "[platform] # ours\nbudget =\n  name = 'lab' # really\n[[phase]\n",
        "[[phase]\nname = \"no\"\n[platform]\nname = \"lab\"\n",
    ] {
        assert_eq!(platform_name(text).as_deref(), Some("lab"), "{text}");
    }
    for text in [
        "",
        "[platform]\nname = \"../x\"",
        "[platform]\n[tools]\nname = \"lab\"\n[[phase]\n",
    ] {
        assert_eq!(platform_name(text), None, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_makes_loading_panic(platform in mangled(PLATFORM), target in mangled(TARGET)) {
        let files = files().with("rebuild.toml", platform).with("targets/drill.toml", target);
        if let Err(faults) = load(&files, None, &name("drill")) {
            prop_assert!(!faults.is_empty());
            for fault in &faults {
                if let Some(span) = fault.span.clone() {
                    prop_assert!(fault.source_text().get(span).is_some());
                }
                prop_assert!(!fault.render_plain().is_empty());
            }
        }
        let _ = load_target(&files, None, &name("drill"));
    }

    #[test]
    fn random_text_is_faults_and_no_panic(platform in "\\PC{0,120}", target in "[a-z\\[\\]{}\"=.\\n ]{0,120}") {
        let files = MemoryFiles::default().with("rebuild.toml", platform).with("targets/drill.toml", target);
        prop_assert!(load(&files, None, &name("drill")).is_err());
    }
}

const WORKSPACE: &str = r#"
[workspace.fleet]
root = "stacks/fleet"
target = "drill"
captured = ["token"]
vars = { network = "${step.1a.edge.net}" }
[workspace.elsewhere]
root = "stacks/fleet"
target = "live"
vars = { network = "${target.only_live_has_it}" }
captured = ["token"]
hosts = "machines"
timeout = "5m"
"#;

fn with_workspaces() -> MemoryFiles {
    files()
        .with("rebuild.toml", format!("{PLATFORM}{WORKSPACE}"))
        .with("targets/live.toml", TARGET)
        .with(
            "phases/1a/outputs.tf",
            "output \"net\" {\n value = 1\n}\n",
        )
        .with(
            "stacks/fleet/main.tf",
            "variable \"zone\" {}\nvariable \"network\" {}\nvariable \"token\" {\n sensitive = true\n}\n\
             output \"hosts\" {\n value = {}\n}\noutput \"machines\" {\n value = {}\n}\n",
        )
}

#[test]
fn a_workspace_is_a_step_of_its_own_that_belongs_to_one_target() {
    let Definitions { platform, .. } = loaded(&with_workspaces());
    let fleet = platform.workspace("fleet").unwrap();
    assert_eq!(fleet.step().id.to_string(), "workspace.fleet");
    assert_eq!(
        (fleet.root(), fleet.hosts.as_str()),
        ("stacks/fleet", "hosts")
    );
    assert_eq!(fleet.captured, ["token"]);
    let inputs: Vec<&String> = tofu(&platform, "workspace.fleet").inputs.keys().collect();
    assert_eq!(
        inputs,
        ["network", "zone"],
        "a value of the target by its name"
    );
    assert!(
        platform
            .steps()
            .all(|step| step.id.phase.as_str() != "workspace"),
        "a run knows nothing of it"
    );
    let elsewhere = platform.workspace("elsewhere").unwrap();
    assert_eq!(elsewhere.hosts, "machines");
    assert_eq!(elsewhere.step().timeout, Some(Duration::from_secs(300)));
    assert!(
        !tofu(&platform, "workspace.elsewhere")
            .inputs
            .contains_key("zone"),
        "no value of another target's"
    );
    // Of a bundle, which has no targets.
    let stored = Bundle::from_files(
        [
            "rebuild.toml",
            "phases/0/main.tf",
            "phases/1a/main.tf",
            "phases/1a/outputs.tf",
            "modules/net/main.tf",
            "stacks/fleet/main.tf",
        ]
        .map(|path| BundleFile {
            path: path.to_owned(),
            mode: 0o644,
            bytes: with_workspaces().read(path).unwrap().unwrap(),
        })
        .into(),
    )
    .unwrap();
    assert!(load_platform(&stored).unwrap().workspace("fleet").is_some());
}

#[test]
fn a_directory_can_be_a_workspace_that_rebuild_toml_does_not_name() {
    let files = with_workspaces().with(
        "stacks/web/main.tf",
        "variable \"zone\" {}\noutput \"hosts\" {\n value = {}\n}\n",
    );
    let named = |root: &str, target: &str| NamedRoot {
        root: root.to_owned(),
        target: name(target),
    };
    let load = |named: &NamedRoot| {
        load_target_with(&files, None, &name("drill"), Some(named))
            .unwrap()
            .platform
    };
    let platform = load(&named("stacks/web", "drill")).unwrap();
    assert_eq!(
        platform.workspace("stacks-web").unwrap().root(),
        "stacks/web"
    );
    assert!(
        tofu(&platform, "workspace.stacks-web")
            .inputs
            .contains_key("zone")
    );
    let again = load(&named("stacks/fleet", "drill")).unwrap();
    assert_eq!(again.workspaces.len(), 2, "it has a name already");
    let faults = load(&named("phases/1a", "drill"))
        .unwrap_err()
        .render_plain();
    assert!(faults.contains("what step `1a.edge` applies"), "{faults}");
    assert!(faults.contains("the directory that was named"), "{faults}");
}

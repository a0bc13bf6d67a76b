//! What a step sees of the machine that it runs on, and what the platform's directory sees of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use test_support::Outcome;

use crate::drill::{Drill, tool};
use crate::published::events;

/// One phase with one tofu step whose module is `zero`.
const ONE_STEP: &str =
    "[[phase]]\nid = \"0\"\ntitle = \"zero\"\n[[phase.step]]\nname = \"it\"\ntofu = \"zero\"\n";

/// A module that writes the environment of its provisioner to a file.
fn env_module(file: &Path) -> String {
    format!(
        "variable \"x\" {{ default = \"good\" }}\n\
         resource \"terraform_data\" \"it\" {{\n  input = var.x\n  provisioner \"local-exec\" {{\n    command = \"env > {}\"\n  }}\n}}\n\
         output \"x\" {{ value = terraform_data.it.output }}\n",
        file.display()
    )
}

/// A platform whose steps leave their environments in files: a tofu step, and a program.
fn telling() -> (Drill, PathBuf, PathBuf) {
    let drill = Drill::empty();
    let (tofu_env, exec_env) = (
        drill.world.root().join("tofu-env"),
        drill.world.root().join("exec-env"),
    );
    drill.write(
        "rebuild.toml",
        &format!(
            "[platform]\nname = \"lab\"\n{ONE_STEP}[[phase.step]]\nname = \"program\"\n\
             exec = {{ apply = [\"sh\", \"-c\", \"env > {}\"], verify = [\"true\"], teardown = [] }}\n",
            exec_env.display()
        ),
    );
    drill.write("zero/main.tf", &env_module(&tofu_env));
    (drill, tofu_env, exec_env)
}

fn environment(file: &Path) -> BTreeMap<String, String> {
    std::fs::read_to_string(file)
        .expect("the step wrote its environment")
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// What steers a tool or opens a cloud: none of it may reach a step, none of its values be told.
const STEERING: &[(&str, &str)] = &[
    ("ANSIBLE_CONFIG", "/evil/ansible-cfg"),
    ("AWS_SECRET_ACCESS_KEY", "evil-aws-key"),
    ("OS_PASSWORD", "evil-os-password"),
    ("TF_CLI_ARGS", "-nosuch-evil"),
    ("TF_CLI_ARGS_apply", "-destroy"),
    ("TF_CLI_ARGS_plan", "-destroy"),
    ("TF_CLI_CONFIG_FILE", "/evil/cli-config"),
    ("TF_DATA_DIR", "/evil/data-dir"),
    ("TF_LOG", "trace"),
    ("TF_LOG_PATH", "/evil/log-path"),
    ("TF_PLUGIN_CACHE_DIR", "/evil/plugin-cache"),
    ("TF_REATTACH_PROVIDERS", "{evil"),
    ("TF_VAR_x", "evil-value"),
    ("TF_WORKSPACE", "evil-workspace"),
];

/// Cases E1, E3, D2: what steers OpenTofu or opens a cloud is dropped, named once and never shown; a step's home
/// and temporary directory are the target's own, and nobody's CLI configuration is read.
#[test]
fn nothing_of_the_caller_reaches_a_step_by_itself() {
    let (drill, tofu_env, exec_env) = telling();
    for name in [".tofurc", ".terraformrc", ".config/opentofu/tofurc"] {
        let path = drill.world.home().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
        let garbage = drill.world.write("garbage", "this is { no configuration\n");
        std::fs::copy(garbage, path).expect("somebody's own configuration");
    }
    let run = |words: &[&str]| -> Outcome {
        let mut command = drill.rebuild(words).env("EDITOR", "evil-editor");
        for (name, value) in STEERING {
            command = command.env(*name, *value);
        }
        let outcome = command.run();
        outcome.expect_code(0);
        for text in [&outcome.stdout, &outcome.stderr] {
            for (_, value) in STEERING.iter().filter(|(_, value)| value.contains("evil")) {
                assert!(!text.contains(value), "`{value}` is in {text}");
            }
        }
        outcome
    };
    let up = run(&[
        "up",
        "--target",
        "drill",
        "--no-pause",
        "--output",
        "ndjson",
    ]);
    let events = events(&up.stdout);
    let dropped: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "environment-dropped")
        .collect();
    assert_eq!(dropped.len(), 1, "named once: {dropped:?}");
    let names: Vec<&str> = STEERING.iter().map(|(name, _)| *name).collect();
    assert_eq!(dropped[0]["names"], serde_json::json!(names));
    let record = &events.last().expect("the last event")["document"];
    assert_eq!(record["phases"][0]["outputs"]["it"]["x"], "good");
    let told = run(&["preflight", "--target", "drill"]);
    assert_eq!(told.stderr.matches("TF_VAR_x").count(), 1, "{told:?}");

    let allowed: BTreeSet<&str> = [
        "CHECKPOINT_DISABLE",
        "GOGC",
        "HOME",
        "LANG",
        "OLDPWD",
        "PATH",
        "PWD",
        "SHLVL",
        "TERM",
        "TF_CLI_CONFIG_FILE",
        "TF_DATA_DIR",
        "TF_DISABLE_PLUGIN_TLS",
        "TF_HTTP_ADDRESS",
        "TF_HTTP_LOCK_ADDRESS",
        "TF_HTTP_PASSWORD",
        "TF_HTTP_UNLOCK_ADDRESS",
        "TF_HTTP_USERNAME",
        "TF_IN_AUTOMATION",
        "TF_INPUT",
        "TMPDIR",
        "USER",
        "_",
    ]
    .into();
    for file in [&tofu_env, &exec_env] {
        let seen = environment(file);
        let surplus: Vec<_> = seen
            .keys()
            .filter(|name| !allowed.contains(name.as_str()))
            // What a launcher that measures its coverage leaves behind.
            .filter(|name| !name.starts_with("__LLVM_PROFILE"))
            .collect();
        assert!(surplus.is_empty(), "{surplus:?}");
        for name in ["HOME", "TMPDIR"] {
            assert!(
                Path::new(&seen[name]).starts_with(drill.work())
                    || !Path::new(&seen[name]).starts_with(drill.world.home()),
                "{name} is the caller's: {}",
                seen[name]
            );
            assert_ne!(Path::new(&seen[name]), drill.world.home());
            assert_ne!(Path::new(&seen[name]), drill.world.root().join("tmp"));
        }
        for (name, value) in STEERING {
            assert_ne!(seen.get(*name).map(String::as_str), Some(*value), "{name}");
        }
    }
    run(&["down", "--target", "drill"]);
    assert!(!Path::new("/evil").exists());
}

/// Case E2: what a target names reaches its steps (a value, the caller's, a secret), proxies and CA files do by
/// themselves; one that is named and not set is an error before anything is touched.
#[test]
fn what_a_target_names_reaches_its_steps() {
    let (drill, tofu_env, exec_env) = telling();
    drill.write(
        "targets/drill.toml",
        "[values]\nzone = \"lab.example\"\n[env]\nOS_CLOUD = \"of ${target.zone}\"\n\
         SSH_AUTH_SOCK = { from = \"AGENT_OF_CALLER\" }\n",
    );
    let missing = drill.run(2, &["up", "--target", "drill", "--no-pause"]);
    assert!(missing.stderr.contains("AGENT_OF_CALLER"), "{missing:?}");
    assert!(drill.states().is_empty() && !tofu_env.exists());
    let outcome = drill
        .rebuild(&["up", "--target", "drill", "--no-pause"])
        .env("AGENT_OF_CALLER", "/run/agent")
        .env("SSH_AUTH_SOCK", "/run/another-agent")
        .env("HTTPS_PROXY", "http://proxy.example:3128")
        .env("no_proxy", "localhost,127.0.0.1")
        .env("SSL_CERT_FILE", "/etc/ca.pem")
        .run();
    outcome.expect_code(0);
    for file in [&tofu_env, &exec_env] {
        let seen = environment(file);
        for (name, value) in [
            ("OS_CLOUD", "of lab.example"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("HTTPS_PROXY", "http://proxy.example:3128"),
            ("no_proxy", "localhost,127.0.0.1"),
            ("SSL_CERT_FILE", "/etc/ca.pem"),
        ] {
            assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!seen.contains_key("AGENT_OF_CALLER"));
    }
    assert!(!outcome.stderr.contains("SSH_AUTH_SOCK"), "{outcome:?}");
}

/// Case E3, E1: not even `[env]` may turn OpenTofu's trace on, which holds values, or steer its commands.
#[test]
fn a_target_can_not_steer_opentofu_by_its_environment() {
    let (drill, tofu_env, _) = telling();
    for (name, why) in [
        ("TF_LOG", "stay secret"),
        ("TF_CLI_ARGS_plan", "steers OpenTofu"),
        ("TF_WORKSPACE", "steers OpenTofu"),
        ("TF_DATA_DIR", "steers OpenTofu"),
    ] {
        drill.write("targets/drill.toml", &format!("[env]\n{name} = \"x\"\n"));
        let refused = drill.run(2, &["up", "--target", "drill", "--no-pause"]);
        for wanted in [name, why, "targets/drill.toml"] {
            assert!(refused.stderr.contains(wanted), "`{wanted}`: {refused:?}");
        }
    }
    assert!(!tofu_env.exists() && !drill.store().exists());
}

/// Design section 7: what the target says beats a committed `terraform.tfvars` and `*.auto.tfvars`.
#[test]
fn a_targets_value_beats_a_committed_tfvars() {
    let drill = Drill::of(
        &format!("{ONE_STEP}vars = {{ x = \"${{target.zone}}\" }}\n"),
        &[(
            "zero",
            "variable \"x\" {}\nvariable \"y\" {}\nvariable \"z\" { default = \"default\" }\noutput \"all\" { value = [var.x, var.y, var.z] }\n",
        )],
    );
    drill.write(
        "targets/drill.toml",
        "[values]\nzone = \"target\"\ny = \"target\"\n",
    );
    drill.write(
        "zero/terraform.tfvars",
        "x = \"committed\"\ny = \"committed\"\nz = \"committed\"\n",
    );
    drill.write("zero/other.auto.tfvars", "x = \"auto\"\n");
    let record = drill.json(0, &["up", "--target", "drill", "--no-pause"]);
    assert_eq!(
        record["phases"][0]["outputs"]["it"]["all"],
        serde_json::json!(["target", "target", "committed"])
    );
}

/// Case E4: eight root modules with a real provider and a cold cache are initialized at once, the cache is filled
/// once, and a second call initializes nothing.
#[test]
fn eight_root_modules_share_a_cold_cache() {
    let made = test_support::World::new();
    let mut phases = String::from(
        "[tools]\ntofu = { cli_config = \"tofu.tfrc\" }\n[[phase]]\nid = \"0\"\ntitle = \"zero\"\nparallel = true\n",
    );
    let mut modules = Vec::new();
    for n in 0..8 {
        phases.push_str(&format!(
            "[[phase.step]]\nname = \"s{n}\"\ntofu = \"m{n}\"\n"
        ));
        modules.push((
            format!("m{n}"),
            format!(
                "terraform {{\n  required_providers {{\n    local = {{ source = \"hashicorp/local\" }}\n  }}\n}}\n\
                 resource \"local_file\" \"it\" {{\n  filename = \"{}/file{n}\"\n  content  = \"{n}\"\n}}\n",
                made.root().display()
            ),
        ));
    }
    let modules: Vec<(&str, &str)> = modules
        .iter()
        .map(|(directory, text)| (directory.as_str(), text.as_str()))
        .collect();
    let drill = Drill::of(&phases, &modules);
    let config = std::fs::read_to_string(tool("REBUILD_TEST_MIRROR")).expect("the mirror");
    drill.write("tofu.tfrc", &config);
    let told = |words: &[&str]| {
        let outcome = drill
            .rebuild(words)
            .deadline(Duration::from_secs(300))
            .run();
        outcome.expect_code(0);
        events(&outcome.stdout)
    };
    let warm = |events: &[Value]| {
        events
            .iter()
            .filter(|event| event["event"] == "init" && event["warm"] == true)
            .count()
    };
    let words = [
        "up",
        "--target",
        "drill",
        "--no-pause",
        "--jobs",
        "8",
        "--output",
        "ndjson",
    ];
    let first = told(&words);
    assert_eq!(warm(&first), 0);
    for n in 0..8 {
        assert!(made.root().join(format!("file{n}")).exists(), "file{n}");
    }
    let second = told(&words);
    assert!(
        !second
            .iter()
            .any(|event| event["event"] == "init" && event["warm"] == false),
        "{second:?}"
    );
    assert!(!drill.dir().join("m0/.terraform.lock.hcl").exists());
    told(&["down", "--target", "drill", "--output", "ndjson"]);
    assert!(!made.root().join("file0").exists());
}

/// Case E12: a missing tool, or one that is too old, is found before anything else, and nothing is touched.
#[test]
fn a_missing_or_old_tool_is_found_before_anything() {
    let (drill, tofu_env, _) = telling();
    let without = drill
        .rebuild(&["up", "--target", "drill", "--no-pause"])
        .env("PATH", "/usr/bin:/bin")
        .run();
    without.expect_code(2);
    assert!(
        without.stderr.contains("there is no program `tofu`") && without.stderr.contains("hint:"),
        "{without:?}"
    );
    let old = drill.world.fake_program("tofu").answers(
        &["version", "-json"],
        "{\"terraform_version\":\"1.5.0\"}",
        0,
    );
    let mut path = drill.world.bin().into_os_string();
    path.push(":/usr/bin:/bin");
    let too_old = drill
        .rebuild(&["up", "--target", "drill", "--no-pause"])
        .env("PATH", path)
        .run();
    too_old.expect_code(2);
    assert!(too_old.stderr.contains("1.5.0"), "{too_old:?}");
    assert_eq!(old.calls(), [["version", "-json"]]);
    let toml = std::fs::read_to_string(drill.dir().join("rebuild.toml")).expect("the platform");
    drill.write(
        "rebuild.toml",
        &format!("[tools]\ntofu = {{ version = \"~1.99\" }}\n{toml}"),
    );
    let unfit = drill.run(2, &["up", "--target", "drill", "--no-pause"]);
    assert!(
        unfit.stderr.contains("~1.99") && unfit.stderr.contains("1.12"),
        "{unfit:?}"
    );
    assert!(!drill.store().exists() && !tofu_env.exists());
}

/// Case N7: the platform's directory is never written: not by an `up`, not by a kill in the middle of an apply.
#[test]
fn the_platforms_directory_is_never_written() {
    let world = test_support::World::new();
    let (begun, goes_on) = (world.root().join("begun"), world.root().join("goes-on"));
    let module = format!(
        "resource \"terraform_data\" \"it\" {{\n  provisioner \"local-exec\" {{\n    command = \"touch {0}; i=0; while [ ! -e {1} ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done\"\n  }}\n}}\n",
        begun.display(),
        goes_on.display()
    );
    let drill = Drill::of(ONE_STEP, &[("zero", &module)]);
    let git = |words: &[&str]| {
        let outcome = drill
            .world
            .command("git")
            .args(["-c", "user.name=o", "-c", "user.email=o@example.org"])
            .args(words.iter().copied())
            .cwd(drill.dir())
            .run();
        outcome.expect_code(0);
        outcome.stdout
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "it"]);
    let clean = |when: &str| {
        assert_eq!(
            git(&["status", "--porcelain", "--ignored"]),
            "",
            "after {when}"
        );
    };
    let up = drill
        .rebuild(&["up", "--target", "drill", "--no-pause"])
        .start();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    process::wait::until(deadline, Duration::from_millis(10), || {
        begun.exists().then_some(())
    })
    .expect("the apply began");
    up.signal(rustix::process::Signal::KILL);
    let _ = up.wait();
    clean("a kill");
    std::fs::File::create(&goes_on).expect("let it go on");
    drill.run(0, &["up", "--target", "drill", "--resume"]);
    clean("`up --resume`");
    drill.run(0, &["preflight", "--target", "drill"]);
    drill.run(0, &["down", "--target", "drill"]);
    clean("`down`");
}
